/* At the end of a run nobody asks for anything: for some seconds the cell sends heartbeats, clients
 * send KeepAlives, and nothing else happens. A message, a write or a wake-up too many changes no
 * result, so that no other check sees it. */
#include "tests/sim/sim.h"

enum { SPARE_PERCENT = 5 }; /* for a clock that runs fast */

/* Applied, and saved: after a save the log is trimmed. A member that is down has not. */
bool
quiet_all_have_everything(const struct sim *s)
{
	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *n = &s->hosts[i];

		if (!host_exists(n) || (!n->up && members_role(s, n->id) == MEMBER_REMOVED))
			continue;
		if (!n->up || tree_applied(replica_tree(n->replica)) != s->model.applied ||
		    n->disk.unsaved > 0)
			return false;
	}
	return true;
}

void
quiet_begin(struct sim *s)
{
	if (bulk_all_well(s) && quiet_all_have_everything(s))
		s->quiet = (struct quiet){.since = s->now, .applied = s->model.applied};
}

void
quiet_frame(struct sim *s, struct bytes frame)
{
	switch (wire_frame_code(frame)) {
	case MSG_keepalive:
		s->quiet.keepalives++;
		break;
	case MSG_keepalive_reply:
		s->quiet.keepalive_replies++;
		break;
	case MSG_heartbeat:
		s->quiet.heartbeats++;
		break;
	case MSG_heartbeat_reply:
		s->quiet.heartbeat_replies++;
		break;
	case MSG_events:
		s->quiet.indices++;
		break;
	case MSG_dropped:
		s->quiet.drops++;
		break;
	default:
		s->quiet.others++;
		s->quiet.other = wire_frame_code(frame);
	}
}

/* How often something that has this period happens. */
static unsigned
times(const struct sim *s, uint64_t period_ms)
{
	const uint64_t ms = (uint64_t)(s->now - s->quiet.since) / MS;

	return (unsigned)(ms * (100 + SPARE_PERCENT) / 100 / period_ms) + 1;
}

/* A session with leave to cache has two leases to renew. */
static unsigned
keepalives(const struct sim *s)
{
	const struct settings *now = &s->settings.now;
	const uint64_t session = settings_value(now, SETTING_session_lease);
	const uint64_t cache = settings_value(now, SETTING_cache_lease);
	unsigned n = 0;

	for (int i = 0; i < s->machines_n; i++)
		n += times(s, (s->machines[i].config.caching ? cache : session) / 3);
	return n;
}

/* In a slow network so many heartbeats may have been under way as it became quiet. */
static unsigned
under_way(const struct sim *s)
{
	const uint64_t every_us = settings_value(&s->settings.now, SETTING_heartbeat) * 1000;

	return (unsigned)s->hosts_n *
	       (1 + (unsigned)(4 * (uint64_t)s->swarm.latency_us / every_us));
}

static void
at_most(struct sim *s, unsigned n, unsigned most, const char *what)
{
	if (n > most)
		sim_fail(s, "nobody asks for anything, and there are %u %s (%u at most)", n, what,
		         most);
}

/* Where clocks are wild nothing is known of how often something happens. */
static void
check_rates(struct sim *s)
{
	const struct quiet *q = &s->quiet;
	const struct settings *now = &s->settings.now;
	const unsigned heartbeats = times(s, settings_value(now, SETTING_heartbeat));
	const unsigned leases = times(s, settings_value(now, SETTING_master_lease));
	const unsigned followers = (unsigned)px_members(replica_px(sim_serving(s)->replica))->n - 1;

	at_most(s, q->heartbeats, followers * heartbeats, "heartbeats");
	at_most(s, q->keepalives, keepalives(s) + q->drops, "KeepAlives");
	at_most(s, q->server_timers,
	        heartbeats + followers * leases + q->keepalives + 4 * (unsigned)s->hosts_n,
	        "timers of replicas");
}

static bool
is_entry_under_way(struct sim *s)
{
	const struct host *master = sim_serving(s);

	return master != NULL && px_last(replica_px(master->replica)) > s->model.applied;
}

void
quiet_check(struct sim *s)
{
	const struct quiet *q = &s->quiet;
	const unsigned replicas = (unsigned)s->hosts_n, clients = (unsigned)s->machines_n;
	const unsigned frames =
	    q->keepalives + q->keepalive_replies + q->heartbeats + q->heartbeat_replies + q->drops;

	if (q->since == 0)
		return;
	/* An entry says that sessions need not be awaited which have long been idle, and a digest
	 * may be due then; the last one may be on its way as the run ends. */
	at_most(s, (unsigned)(s->model.applied - q->applied), clients + 1, "entries");
	if (s->model.applied != q->applied || is_entry_under_way(s))
		return;
	if (q->others > 0)
		sim_fail(s, "nobody asks for anything, and %u messages are sent, the last one %u",
		         q->others, q->other);
	/* To which all events have come, beside the first KeepAlive after the last change. */
	at_most(s, q->indices, clients, "indices of the log");
	/* A client that has long been idle gives its cache back, which is answered at once. */
	at_most(s, q->drops, clients, "caches given back");
	at_most(s, q->writes, 0, "writes to disks");
	at_most(s, q->connects, 0, "connections made");
	at_most(s, q->lines, 0, "lines in logs");
	at_most(s, q->keepalive_replies, q->keepalives + clients, "answers to KeepAlives");
	at_most(s, q->heartbeat_replies, q->heartbeats + under_way(s), "answers to heartbeats");
	/* In a slow network a short leave may lapse before the reply that renews it. */
	at_most(s, q->client_timers, q->keepalives + q->datagrams + clients + q->lapses,
	        "timers of clients");
	at_most(s, q->turns, q->server_timers + frames + q->datagrams + replicas,
	        "turns of replicas");
	if (sim_leases_hold(s))
		check_rates(s);
}
