/* What must hold of each replica after its turns: the log that it applied is compared with what
 * every other replica and every earlier life of it has applied; and of all of them at the end. */
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/paxos/ballot.h"
#include "tests/sim/sim.h"

void
host_remember(struct sim *s, uint64_t **values, size_t *room, uint64_t index, uint64_t value,
              const struct host *n, const char *what)
{
	while (index >= *room) {
		size_t more = *room ? *room * 2 : 1024;

		*values = memory_grow(*values, more, sizeof **values);
		memset(*values + *room, 0, (more - *room) * sizeof **values);
		*room = more;
	}
	if ((*values)[index] == 0)
		(*values)[index] = value;
	else if ((*values)[index] != value && s->script == NULL) /* a script damages states */
		sim_fail(s, "replica %d: %s of index %lu is not what it was", n->id, what,
		         (unsigned long)index);
}

void
host_inspect(struct sim *s, struct host *n)
{
	const struct tree *t = n->up ? replica_tree(n->replica) : NULL;
	struct model *model = &s->model;

	n->lines = 0;
	if (t == NULL)
		return;
	members_check_office(s, n);
	if (tree_check(t) != NULL)
		sim_fail(s, "replica %d: tree_check: %s", n->id, tree_check(t));
	if (tree_applied(t) > 0)
		host_remember(s, &model->slices, &model->slices_room, tree_applied(t),
		              tree_slice_digest(t) | 1, n, "what is stored as");
	model_check_locks(s, t);
	if (s->script == NULL || !s->script->bare)
		model_check_past(s, n, t);
}

static void
check_applied(struct sim *s, struct host *n)
{
	const struct tree *t = replica_tree(n->replica);
	const struct px *px = replica_px(n->replica);
	struct model *model = &s->model;
	uint64_t applied = tree_applied(t);

	if (applied <= n->checked)
		return;
	for (uint64_t i = n->checked + 1; i <= applied; i++) {
		struct bytes payload;

		if (i < px_status(px)->first)
			continue; /* applied in an earlier life, gone from the log */
		payload = px_payload(px, i);
		host_remember(s, &model->sums, &model->sums_room, i, checksum(payload) | 1, n,
		              "the payload");
		if (i != model->applied + 1)
			continue;
		members_check_decided(s, i, px_origin(px, i));
		model_apply(s, i, payload);
	}
	host_remember(s, &model->digests, &model->digests_room, applied, tree_digest(t) | 1, n,
	              "the digest");
	n->checked = applied;
	if (applied > model->applied)
		sim_fail(s, "replica %d applied %lu, and nobody has seen the entries", n->id,
		         (unsigned long)applied);
}

/* At no moment two replicas have the master's lease, not even one that is frozen; and who has it
 * and serves knows everything that was decided. */
static void
check_masters(struct sim *s)
{
	const struct host *leased = NULL;
	int64_t left;

	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		mono_t now = clock_local(&n->clock, s->now);

		if (!sim_leases_hold(s) || !n->up || !px_lease_valid(replica_px(n->replica), now))
			continue;
		if (leased != NULL)
			sim_fail(s, "replicas %d and %d both have the master's lease", leased->id,
			         n->id);
		leased = n;
		/* What it knows as chosen it applies in bounded steps, and answers after that. */
		if (replica_serving(n->replica, now) &&
		    px_status(replica_px(n->replica))->chosen < s->model.applied)
			sim_fail(s, "replica %d serves, knows %lu, and %lu was decided", n->id,
			         (unsigned long)px_status(replica_px(n->replica))->chosen,
			         (unsigned long)s->model.applied);
	}
	if (s->leased.holder != (leased != NULL ? leased->id : 0) || s->now > s->leased.until)
		s->leased.since = s->now;
	s->leased.holder = leased != NULL ? leased->id : 0;
	s->leased.until = s->now;
	if (leased != NULL) {
		left = mono_since(px_status(replica_px(leased->replica))->lease_until,
		                  clock_local(&leased->clock, s->now))
		           .ns;
		s->leased.until += left;
	}
}

enum { VOTE_LEASES = 3 };

/* A majority that has granted a master the lease has no vote for another candidate. Votes that were
 * given before that are out of date by now. */
static void
check_asked(struct sim *s, const struct host *n)
{
	const int64_t least = VOTE_LEASES * setting_changes_greatest(s, SETTING_master_lease);

	/* Whoever was away asks the voters of an older list. */
	if (px_members(replica_px(n->replica))->version < s->members.newest.version)
		return;
	if (s->leased.holder != 0 && s->leased.holder != n->id && s->now < s->leased.until &&
	    s->now - s->leased.since > least)
		sim_fail(s,
		         "replica %d stands for election, and replica %d has had the lease for "
		         "%ld ms",
		         n->id, s->leased.holder, (long)((s->now - s->leased.since) / MS));
}

static void
follow_role(struct sim *s, struct host *n)
{
	static const char *const roles[] = {
	    [PX_FOLLOWER] = "follows",
	    [PX_CANDIDATE] = "stands for election",
	    [PX_MASTER] = "is elected",
	};
	enum px_role role = px_role(replica_px(n->replica));
	struct ballot ballot = px_status(replica_px(n->replica))->master;

	if ((int)role != n->role)
		sim_trace(s, "replica %d %s (last known ballot %lu.%u)", n->id, roles[role],
		          (unsigned long)ballot.round, ballot.replica);
	if (role == PX_CANDIDATE && n->role != PX_CANDIDATE)
		check_asked(s, n);
	if (role == PX_CANDIDATE)
		members_check_candidate(s, n);
	if (role == PX_MASTER && n->role != PX_MASTER)
		members_check_elected(s, n);
	n->role = (int)role;
}

/* Without a list in its state a replica goes by the one in its cell file, which some change of the
 * members may have made. */
static void
check_first_list(struct sim *s, const struct host *n)
{
	const uint64_t version = px_members(replica_px(n->replica))->version;
	struct member member;

	if (!tree_member_after(replica_tree(n->replica), 0, &member) &&
	    version < n->disk.file.version)
		sim_fail(s, "replica %d goes by list %lu, and its cell file has list %lu", n->id,
		         (unsigned long)version, (unsigned long)n->disk.file.version);
}

void
host_check(struct sim *s, struct host *n)
{
	if (s->script != NULL && s->script->bare) {
		n->checked = s->model.applied = tree_applied(replica_tree(n->replica));
		return;
	}
	check_applied(s, n);
	check_first_list(s, n);
	members_check(s, n);
	follow_role(s, n);
	if (replica_condition(n->replica) == CONDITION_OUTDATED && !n->downgraded &&
	    s->script == NULL)
		sim_fail(s, "replica %d does not speak the version of the log", n->id);
	if (n->disk.replaced && replica_condition(n->replica) == CONDITION_VOTING)
		sim_fail(s, "replica %d has its vote, though its disk was replaced", n->id);
	check_masters(s);
}

/* ---- the end ---- */

/* Whoever has lost its state begins with the list there. */
static void
check_cell_file(struct sim *s, const struct host *n)
{
	const uint64_t version = tree_members_version(replica_tree(n->replica));

	if (n->disk.file.version != version)
		sim_fail(s, "the cell file of replica %d has list %lu, and there is list %lu",
		         n->id, (unsigned long)n->disk.file.version, (unsigned long)version);
}

void
host_check_minor(struct sim *s)
{
	const uint64_t minor =
	    tree_setting(replica_tree(sim_serving(s)->replica), SETTING_minor_version);
	uint64_t lowest = UINT64_MAX;
	bool told = true; /* one that has lost its vote answers nobody, and does not read the log */

	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		const enum member_role role = members_role(s, n->id);

		if (role == 0 || role == MEMBER_REMOVED)
			continue;
		if (host_is_lost(n))
			told = false;
		else
			lowest = n->minor < lowest ? n->minor : lowest;
	}
	if (minor > lowest || (minor < lowest && told))
		sim_fail(s, "the log is of minor version %lu, and all speak %lu",
		         (unsigned long)minor, (unsigned long)lowest);
}

void
host_check_end(struct sim *s)
{
	/* An entry of the master's own may be as young as this. */
	const int64_t lease = setting_changes_greatest(s, SETTING_master_lease);

	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];
		enum member_role role = members_role(s, n->id);

		if (role == 0 || role == MEMBER_REMOVED)
			continue;
		if (!n->up)
			sim_fail(s, "replica %d is down", n->id);
		if (n->disk.replaced && replica_condition(n->replica) == CONDITION_LOST)
			continue;
		if (host_is_bound_by_lies(s, n))
			continue;
		if (replica_condition(n->replica) != CONDITION_VOTING)
			sim_fail(s, "replica %d is not well: %d", n->id,
			         (int)replica_condition(n->replica));
		/* Parts of a state that are received in another order are asked for again, one
		 * every few seconds. */
		if (s->swarm.datagrams && px_status(replica_px(n->replica))->behind != 0)
			continue;
		if (s->now - s->model.applied_at > lease &&
		    tree_applied(replica_tree(n->replica)) != s->model.applied)
			sim_fail(s, "replica %d has applied %lu, and %lu was decided", n->id,
			         (unsigned long)tree_applied(replica_tree(n->replica)),
			         (unsigned long)s->model.applied);
		check_cell_file(s, n);
	}
}
