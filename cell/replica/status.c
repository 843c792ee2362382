/* The condition of a replica, and its status, for people: sent on any connection, without a
 * session; and the use that a client makes of it, for the server. */
#include "cell/replica/internal.h"
#include "cell/wire/codec.h"

enum { ALONE_LEASES = 20 }; /* time without a master, in leases; an election takes one or two */

enum voting_condition
replica_condition(const struct replica *r)
{
	enum voting_condition condition = r->paxos->condition;
	span_t patience;

	if (r->settings.outdated)
		return CONDITION_OUTDATED;
	if (condition == CONDITION_VOTING && r_state_waits(r))
		condition = CONDITION_REPAIRING;
	if ((condition != CONDITION_VOTING && condition != CONDITION_LEARNER) ||
	    mono_before(r->now, r->paxos->master_until))
		return condition;
	patience.ns = ALONE_LEASES * r_settings_span(r, SETTING_master_lease).ns;
	return mono_reached(r->now, mono_add(r->master_seen, patience)) ? CONDITION_ALONE
	                                                                : condition;
}

static enum replica_role
role_of(const struct replica *r)
{
	if (replica_serving(r, r->now))
		return REPLICA_MASTER;
	if (px_role(r->px) == PX_MASTER)
		return REPLICA_ELECTED;
	return px_role(r->px) == PX_CANDIDATE ? REPLICA_CANDIDATE : REPLICA_FOLLOWER;
}

static int64_t
heard_ms(const struct replica *r, const struct member_view_item *of)
{
	if (of->member.id == r->config.paxos.self)
		return 0;
	if (of->progress.answered_at.ns == INT64_MIN)
		return -1;
	return span_to_ms(mono_since(r->now, of->progress.answered_at));
}

/* The progress of all members, as the master knows it. */
static struct wire_list
pack_progress(const struct replica *r, struct buffer *packed)
{
	struct member_view m;
	uint32_t n = 0;

	r_member_list_view(r, &m);
	for (int i = 0; i < m.n; i++) {
		const struct member_view_item *of = &m.list[i];
		struct progress progress = {
		    .id = of->member.id,
		    .role = of->member.role,
		    .full = of->progress.full,
		    .match = of->progress.match,
		    .applied = of->progress.applied,
		    .heard_ms = heard_ms(r, of),
		    .address = of->member.address,
		};

		if (of->member.role == MEMBER_REMOVED)
			continue;
		wire_put_progress(packed, &progress);
		n++;
	}
	return (struct wire_list){buffer_view(packed), n};
}

/* ---- limits ---- */

static struct limit_row
limit_row(const char *name, const char *unit, uint8_t whose, uint64_t used, uint64_t most)
{
	return (struct limit_row){bytes_of(name), bytes_of(unit), whose, used, most, {NULL, 0}};
}

static void
pack_limit(struct wire_list *list, struct buffer *packed, struct limit_row row)
{
	wire_put_limit_row(packed, &row);
	list->count++;
	list->packed = buffer_view(packed);
}

static void
pack_limits_of_cell(const struct replica *r, const struct result_usage *usage,
                    struct wire_list *list, struct buffer *packed)
{
	struct member_view m;
	const struct limit_row rows[] = {
	    limit_row("sessions", "count", LIMIT_OF_CELL, usage->sessions, LIMIT_SESSIONS),
	    limit_row("quota_nodes", "count", LIMIT_OF_CELL, usage->nodes, usage->quota_nodes),
	    limit_row("quota_bytes", "bytes", LIMIT_OF_CELL, usage->bytes, usage->quota_bytes),
	};
	uint64_t members = 0, highest = 0;

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		pack_limit(list, packed, rows[i]);
	r_member_list_view(r, &m);
	for (int i = 0; i < m.n; i++) {
		members += m.list[i].member.role != MEMBER_REMOVED;
		highest = m.list[i].member.id > highest ? m.list[i].member.id : highest;
	}
	pack_limit(list, packed,
	           limit_row("replicas", "count", LIMIT_OF_CELL, members, LIMIT_REPLICAS));
	pack_limit(list, packed,
	           limit_row("replica_ids", "count", LIMIT_OF_CELL, highest, LIMIT_REPLICA_ID));
}

static void
pack_limits_of_replica(const struct replica *r, struct wire_list *list, struct buffer *packed)
{
	const struct px_log_room log = px_log_room(r->px);
	const struct limit_row rows[] = {
	    limit_row("log_entries", "count", LIMIT_OF_REPLICA, log.entries, log.entries_max),
	    limit_row("log_bytes", "bytes", LIMIT_OF_REPLICA, log.bytes, log.bytes_max),
	    limit_row("clients", "count", LIMIT_OF_REPLICA, r->times.clients, r->times.clients_max),
	    limit_row("disk", "bytes", LIMIT_OF_REPLICA, r->times.disk_used, r->times.disk_size),
	    limit_row("unfinished", "bytes", LIMIT_OF_REPLICA, r->times.unfinished,
	              r->times.clients_max > 0 ? LIMIT_PRINCIPAL_WINDOW : 0),
	};

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
		if (rows[i].most > 0)
			pack_limit(list, packed, rows[i]);
}

/* ---- of one client ---- */

bool
replica_has_session(const struct replica *r, uint64_t conn)
{
	return master_has_session(r->master, conn);
}

size_t
replica_under_way(const struct replica *r, uint64_t conn)
{
	return master_under_way(r->master, conn);
}

bool
replica_awaits(const struct replica *r, uint64_t conn, const struct msg_dropped *msg)
{
	return master_awaits(r->master, conn, msg);
}

/* ---- the answer ---- */

void
r_status_answer(struct replica *r, uint64_t conn)
{
	const struct result_usage usage = tree_usage(r->tree);
	const uint64_t chosen = r->paxos->chosen;
	struct buffer progress = BUFFER(LIMIT_FRAME), limits = BUFFER(LIMIT_FRAME);
	struct buffer links = BUFFER(LIMIT_FRAME);
	struct message m = {
	    .code = MSG_status_reply,
	    .status_reply =
	        {
	            .self = r->config.paxos.self,
	            .role = role_of(r),
	            .master = r->paxos->master.replica,
	            .epoch = tree_epoch(r->tree),
	            .last = px_last(r->px),
	            .applied = usage.applied,
	            .chosen = chosen > usage.applied ? chosen : usage.applied,
	            .sessions = usage.sessions,
	            .locks_held = usage.locks_held,
	            .condition = replica_condition(r),
	            .full = r->disk.full,
	            .first = px_status(r->px)->first,
	            .digest = tree_digest(r->tree),
	            .longest_step_us = r->times.longest_us,
	            .slow_steps = r->times.slow,
	            .wall_ns = r->wall_ns,
	            .version = r->config.version,
	            .minor = r->config.paxos.minor,
	            .last_backup = tree_setting(r->tree, SETTING_last_backup),
	        },
	};
	uint32_t n = 0;

	if (m.status_reply.role == REPLICA_MASTER) {
		m.status_reply.master_since_ns = r->mastership.epoch_wall_ns;
		m.status_reply.disputed = r->divergence.disputed;
		m.status_reply.progress = pack_progress(r, &progress);
	}

	/* Followers send each other nothing, so paxos would not notice that two of them do not
	 * reach each other; their connections do. */
	for (int i = 0; r->times.links != NULL && i < r->times.links->n; i++, n++) {
		const struct replica_link *l = &r->times.links->list[i];
		const bool up = mono_is_never(l->down_since);

		wire_put_peer_link(&links,
		                   &(struct peer_link){l->id,
		                                       up ? -1
		                                          : span_to_ms(mono_since(r->now,
		                                                                  l->down_since))});
	}
	m.status_reply.links = (struct wire_list){buffer_view(&links), n};

	pack_limits_of_cell(r, &usage, &m.status_reply.limits, &limits);
	pack_limits_of_replica(r, &m.status_reply.limits, &limits);
	if (m.status_reply.role == REPLICA_MASTER) {
		struct limit_row rows[USAGE_LIMITS];

		master_usage(r->master, conn, rows);
		for (size_t i = 0; i < USAGE_LIMITS; i++)
			pack_limit(&m.status_reply.limits, &limits, rows[i]);
	}
	r_answer(r, conn, &m);
	buffer_free(&links);
	buffer_free(&limits);
	buffer_free(&progress);
}
