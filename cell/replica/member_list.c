/* The list of the cell's members: its sources, its distribution, and its changes. */
#include <stdlib.h>
#include "cell/base/must.h"
#include "cell/replica/internal.h"
#include "cell/wire/codec.h"

/* ---- its sources ---- */

static void
know(struct replica *r, uint64_t version, struct wire_list list)
{
	free((void *)r->members.newest.members.packed.data);
	r->members.newest = (struct msg_members){version, {bytes_copy(list.packed), list.count}};
	r->members.unreported = true;
}

/* Another replica may have sent a newer list already, or it is in the cell file. But the version of
 * a list is the slot of its entry: one of a slot that was applied without it was never made. */
static void
know_applied(struct replica *r)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct wire_list list = tree_members(r->tree, &packed);
	uint64_t version = tree_members_version(r->tree);

	if (list.count > 0 &&
	    (version >= r->members.newest.version || r->applied >= r->members.newest.version))
		know(r, version, list);
	buffer_free(&packed);
}

static void
px_members_add(struct px_members *to, const struct member *m)
{
	if (m->role == MEMBER_REMOVED) {
		to->removed[m->id / 64] |= 1ull << m->id % 64;
		return;
	}
	must(to->n < LIMIT_REPLICAS);
	to->list[to->n++] = (struct px_member){.id = m->id, .voter = m->role == MEMBER_VOTER};
}

void
r_member_list_init(struct replica *r, const struct replica_config *config, struct px_config *to)
{
	struct member member = {0};
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct cursor newest;

	for (int i = 0; i < config->members_n; i++)
		wire_put_member(&packed, &config->members[i]);
	must(!packed.failed);
	r->members.first = (struct wire_list){buffer_take(&packed), (uint32_t)config->members_n};

	know(r, config->members_version, r->members.first);
	know_applied(r);
	to->newest = (struct px_members){.version = r->members.newest.version};
	newest = cursor_of(r->members.newest.members.packed);
	while (wire_next_member(&newest, &member))
		px_members_add(&to->newest, &member);
	to->members = (struct px_members){.version = tree_members_version(r->tree)};
	member.id = 0;
	while (tree_member_after(r->tree, member.id, &member))
		px_members_add(&to->members, &member);
	if (to->members.n == 0)
		to->members = to->newest;
}

struct wire_list
r_member_list_first(const struct replica *r)
{
	struct member member;

	if (tree_member_after(r->tree, 0, &member))
		return (struct wire_list){{NULL, 0}, 0};
	return r->members.first;
}

void
r_member_list_settled(struct replica *r)
{
	r->members.changing = false;
}

bool
r_member_list_report(struct replica *r)
{
	bool unreported = r->members.unreported;

	r->members.unreported = false;
	return unreported;
}

void
r_member_list_free(struct replica *r)
{
	free((void *)r->members.first.packed.data);
	free((void *)r->members.newest.members.packed.data);
}

/* ---- its contents ---- */

void
r_member_list_view(const struct replica *r, struct member_view *m)
{
	const span_t lease = r_settings_span(r, SETTING_master_lease);
	struct member member = {0};

	*m = (struct member_view){
	    .version = tree_members_version(r->tree),
	    .self = r->config.paxos.self,
	    .chosen = r->paxos->chosen,
	    .now = r->now,
	    .began = r->mastership.elected_at,
	    .asked = mono_add(r->now, (span_t){-lease.ns}),
	    .lease = lease,
	    .minor = r_settings_minor(r),
	    .keys = tree_signing_since(r->tree),
	};
	while (tree_member_after(r->tree, member.id, &member)) {
		struct member_view_item *of = &m->list[m->n++];

		must(m->n <= LIMIT_MEMBERS);
		of->member = member;
		if (member.id == m->self)
			of->progress = (struct px_progress){.match = px_last(r->px),
			                                    .applied = r->disk.saved,
			                                    .answered_at = r->now,
			                                    .full = r->disk.full,
			                                    .minor = r->config.paxos.minor,
			                                    .keys = r->admin.keys};
		else if (!px_progress(r->px, member.id, &of->progress))
			of->progress = (struct px_progress){.answered_at = {INT64_MIN}};
	}
}

/* ---- its distribution ---- */

void
r_member_list_send(struct replica *r, uint64_t conn)
{
	master_send_members(r->master, conn, &r->master_update);
	r_absorb_master(r);
}

/* The change is over when an entry after it is applied: an empty one is proposed. */
void
r_member_list_changed(struct replica *r)
{
	static const char *const is[] = {[MEMBER_VOTER] = "", [MEMBER_LEARNER] = " (learner)"};
	struct buffer list = BUFFER(1024);
	struct member m = {0};

	know_applied(r);
	while (tree_member_after(r->tree, m.id, &m))
		if (m.role != MEMBER_REMOVED)
			buffer_printf(&list, " %u%s", m.id, is[m.role]);
	NOTICE(r->config.trace, "members:%.*s", (int)list.len, (const char *)list.data);
	buffer_free(&list);
	r_mastership_news(r);
	if (r->mastership.serving)
		r_backlog_put(r, (struct bytes){NULL, 0});
	r_member_list_send(r, 0);
}

/* Before the first change all members have the same list. */
void
r_member_list_send_peer(struct replica *r, uint8_t peer)
{
	struct message m = {.code = MSG_members, .members = r->members.newest};

	if (r->members.newest.version > 0)
		r_send_peer(r, peer, &m);
}

static bool
is_member(const struct replica *r, uint8_t id)
{
	struct cursor rest = cursor_of(r->members.newest.members.packed);
	struct member m;

	while (wire_next_member(&rest, &m))
		if (m.id == id)
			return m.role != MEMBER_REMOVED;
	return false;
}

/* Why a list is not taken over; NULL: it is. */
static const char *
obstacle(const struct replica *r, uint8_t from, const struct msg_members *m)
{
	if (m->version < r->members.newest.version)
		return "it is older than the newest one";
	if (px_has_master(r->px, r->now))
		return "the log of the master tells of changes";
	if (!is_member(r, from))
		return "its sender is no member";
	if (!tree_members_go_on(r->tree, m->members))
		return "it contradicts the applied one";
	return NULL;
}

void
r_member_list_received(struct replica *r, uint8_t from, const struct msg_members *m)
{
	const struct message received = {.code = MSG_members, .members = *m};
	const char *why = obstacle(r, from, m);

	if (m->version == r->members.newest.version)
		return;
	if (why != NULL) {
		R_TRACE(r, "list %" PRIu64 " of replica %u is ignored: %s", m->version, from, why);
		return;
	}
	R_TRACE(r, "list %" PRIu64 " of replica %u is the newest one", m->version, from);
	know(r, m->version, m->members);
	r_step_px(r, (struct px_event){.kind = PX_RECEIVE, .from = from, .message = &received});
}

/* ---- its changes ---- */

bool
r_member_list_changing(const struct replica *r)
{
	const uint64_t version = tree_members_version(r->tree);

	return r->members.changing || (version > 0 && version == r->applied);
}

/* A list is in force in paxos as soon as it is in the log, so the tree must not refuse it later. */
bool
r_member_list_propose(struct replica *r, const struct member_view *m)
{
	struct buffer packed = BUFFER(LIMIT_ENTRY);
	struct op op = OPERATION(set_members, .version = m->version);

	must(!r_member_list_changing(r) && r->mastership.serving);
	op.set_members.members = member_rules_pack(m, &packed);
	r->members.changing = tree_check_members(r->tree, &op.set_members) == RC_OK;
	if (r->members.changing)
		r_propose(r, &op);
	else
		R_TRACE(r, "list behind list %" PRIu64 " would be refused: it is not proposed",
		        m->version);
	buffer_free(&packed);
	return r->members.changing;
}

/* ---- for the driver ---- */

struct msg_members
replica_members(const struct replica *r)
{
	return r->members.newest;
}
