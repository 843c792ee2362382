/* The members, which change by entries of the log: the list in force for a slot is that of the last
 * change below it. So a change is chosen by a majority of the list that it replaces, and nothing is
 * proposed after it before that (Lamport, "Reconfiguring a State Machine", section 2.3, with a
 * window of one change). At most one voter is added or removed: majorities of successive lists
 * intersect. */
#include <stdio.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

/* ---- lists ---- */

static bool
is_member(const struct px_members *m, uint8_t id)
{
	for (int i = 0; i < m->n; i++)
		if (m->list[i].id == id)
			return true;
	return false;
}

bool
px_is_voter(const struct px_members *m, uint8_t id)
{
	for (int i = 0; i < m->n; i++)
		if (m->list[i].id == id)
			return m->list[i].voter;
	return false;
}

bool
px_is_removed(const struct px_members *m, uint8_t id)
{
	return m->removed[id / 64] >> id % 64 & 1;
}

static void
mark_removed(struct px_members *m, uint8_t id)
{
	m->removed[id / 64] |= (uint64_t)1 << id % 64;
}

bool
px_majority(const struct px_members *m, int voters)
{
	return voters > PX_VOTERS(m, id, true) / 2;
}

/* ---- changes ---- */

/* The state has no list that is refused here, either. */
bool
px_read_members(struct px_members *to, struct wire_list list)
{
	struct cursor c = cursor_of(list.packed);
	struct member m = {0};
	int voters = 0;

	while (wire_next_member(&c, &m)) {
		if (m.id == 0 || is_member(to, m.id) || px_is_removed(to, m.id))
			return false;
		if (m.role == MEMBER_REMOVED) {
			mark_removed(to, m.id);
			continue;
		}
		if (to->n == LIMIT_REPLICAS)
			return false;
		to->list[to->n++] = (struct px_member){m.id, m.role == MEMBER_VOTER};
		voters += m.role == MEMBER_VOTER;
	}
	return voters > 0;
}

struct wire_list
px_pack_members(const struct px_members *m, struct buffer *to)
{
	for (int i = 0; i < m->n; i++)
		wire_put_member(to, &(struct member){.id = m->list[i].id,
		                                     .role = m->list[i].voter ? MEMBER_VOTER
		                                                              : MEMBER_LEARNER});
	return (struct wire_list){.packed = buffer_view(to), .count = (uint32_t)m->n};
}

const struct px_members *
px_next_members(const struct changes *changes, const struct px_members *m)
{
	for (size_t i = 0; i < changes->n; i++)
		if (changes->items[i].members.version > m->version &&
		    changes->items[i].replaces == m->version)
			return &changes->items[i].members;
	return NULL;
}

static void
take_out(struct changes *c, size_t i)
{
	c->n--;
	memmove(&c->items[i], &c->items[i + 1], (c->n - i) * sizeof c->items[0]);
}

void
px_changes_put(struct changes *c, const struct log_entry *e)
{
	struct change change = {.members.version = e->slot};
	struct op_set_members op;
	size_t i = 0;

	while (i < c->n && c->items[i].members.version < e->slot)
		i++;
	if (i < c->n && c->items[i].members.version == e->slot)
		take_out(c, i);
	if (!wire_entry_members(e->payload, &op) || !px_read_members(&change.members, op.members))
		return;
	change.replaces = op.version;
	ARRAY_ROOM(c->items, c->n, c->room);
	memmove(&c->items[i + 1], &c->items[i], (c->n - i) * sizeof c->items[0]);
	c->n++;
	c->items[i] = change;
}

void
px_changes_trim(struct changes *c, uint64_t slot)
{
	while (c->n > 0 && c->items[0].members.version <= slot)
		take_out(c, 0);
}

void
px_changes_cut(struct changes *c, uint64_t last)
{
	while (c->n > 0 && c->items[c->n - 1].members.version > last)
		c->n--;
}

/* ---- the other replicas ---- */

static void
gather(struct px *px, const struct px_members *m, bool *listed)
{
	for (int i = 0; i < m->n; i++) {
		uint8_t id = m->list[i].id;

		if (listed[id])
			continue;
		listed[id] = true;
		px->group.others[px->group.others_n++] = id;
	}
}

void
px_reconfig_gather(struct px *px)
{
	bool listed[LIMIT_REPLICA_ID + 1] = {false};

	listed[px->config.self] = true;
	px->group.others_n = 0;
	gather(px, &px->group.members, listed);
	for (size_t i = 0; i < px->group.changes.n; i++)
		gather(px, &px->group.changes.items[i].members, listed);
	for (size_t i = 0; i < px->promises.changes.n; i++)
		gather(px, &px->promises.changes.items[i].members, listed);
	px_lease_count(px);
}

/* ---- the log ---- */

void
px_reconfig_accept(struct px *px, const struct log_entry *e)
{
	size_t n = px->group.changes.n;

	px_changes_put(&px->group.changes, e);
	if (n > 0 || px->group.changes.n > 0)
		px_reconfig_gather(px);
}

void
px_log_cut(struct px *px, uint64_t last)
{
	log_window_cut(&px->log, last);
	px_changes_cut(&px->group.changes, last);
	px_reconfig_gather(px);
}

/* ---- in force ---- */

/* Members that the new list leaves out were removed. But the first list of a learner is read from a
 * file, and may be of another time than the beginning of the log. */
static void
put_in_force(struct px *px, const struct px_members *next)
{
	const struct px_members *old = &px->group.members;
	bool known = old->version > 0 || px_is_voter(old, px->config.self);
	struct px_members members = *next;
	char list[LIMIT_REPLICAS * 16] = "";
	size_t n = 0;

	for (size_t i = 0; i < sizeof members.removed / sizeof members.removed[0]; i++)
		members.removed[i] |= old->removed[i];
	for (int i = 0; known && i < old->n; i++)
		if (!is_member(next, old->list[i].id))
			mark_removed(&members, old->list[i].id);
	px->group.members = members;
	px->group.unsettled = true;

	for (int i = 0; i < members.n; i++)
		n += (size_t)snprintf(list + n, sizeof list - n, " %u%s", members.list[i].id,
		                      members.list[i].voter ? "" : " (learner)");
	PX_TRACE(px, "the members are, behind slot " SLOT ":%s", members.version, list);
}

void
px_reconfig_recover(struct px *px)
{
	uint64_t slot = px->log.base;

	px->group.members = px->config.members;
	for (slot = slot > px->group.members.version ? slot : px->group.members.version;
	     slot < px->log.last; slot++) {
		struct log_entry e = log_window_entry(&px->log, slot + 1);

		px_changes_put(&px->group.changes, &e);
	}
	px_reconfig_pass(px);
	px_reconfig_gather(px);
}

void
px_reconfig_pass(struct px *px)
{
	const struct px_members *next;

	while ((next = px_next_members(&px->group.changes, &px->group.members)) &&
	       next->version <= px->learner.chosen) {
		struct px_members old = px->group.members;

		put_in_force(px, next);
		if (px->candidate.role == PX_MASTER) {
			/* A master sends the news that the change is chosen at once, and to removed
			 * members, too: a replica that does not know it needs the old majority to
			 * be elected. */
			px_heartbeat_by(px, px->now);
			for (int i = 0; i < old.n; i++)
				if (!is_member(&px->group.members, old.list[i].id) &&
				    old.list[i].id != px->config.self)
					px_send_heartbeat(px, old.list[i].id);
		}
		if (px->out)
			px_record_chosen(px);
	}
	if (px->group.changes.n == 0)
		return;
	px_changes_trim(&px->group.changes, px->learner.chosen);
	px_reconfig_gather(px);
}

void
px_reconfig_settle(struct px *px)
{
	px->group.unsettled = false;
	if (px->candidate.role == PX_MASTER && !px_is_voter(&px->group.members, px->config.self))
		px_leave(px, 0, "it is no member any more");
	if (px->candidate.role == PX_CANDIDATE && !px_may_be_candidate(px))
		px_follow(px, BALLOT_NONE, (span_t){2 * px->config.lease.ns});
}

/* A replica that receives this answer leaves for good, and until the others know the change as
 * chosen they need the majority of the list before it. When an entry after the change is chosen, a
 * majority of the remaining voters has that entry, and has recorded with it that the change is
 * chosen. */
void
px_expel(struct px *px, uint8_t from, const struct message *m)
{
	struct message answer = MESSAGE(welcome, .verdict = WELCOME_NO_MEMBER);

	if (px->learner.chosen <= px->group.members.version)
		return;
	if (m->code == MSG_hello) {
		answer.welcome.incarnation = m->hello.incarnation;
		answer.welcome.start = m->hello.start;
	} else if (m->code != MSG_pre_vote && m->code != MSG_heartbeat) {
		return;
	}
	PX_TRACE(px, "tells replica %u that it was removed", from);
	answer.welcome.ballot = m->pre_vote.ballot; /* all of these messages begin with a ballot */
	px_send(px, from, 0, &answer);
}
