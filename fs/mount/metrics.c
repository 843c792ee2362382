/* The file .cell/metrics: what the mount has counted, in the text format of Prometheus. */
#include "cell/base/exposition.h"
#include "config.h"
#include "fs/mount/internal.h"

/* ---- counting ---- */

void
metrics_replied(struct mount *m, enum mount_event_kind kind, int error)
{
	const enum call_outcome outcome = error == 0       ? CALL_DONE
	                                  : error == EINTR ? CALL_INTERRUPTED
	                                                   : CALL_FAILED;

	m->metrics.calls[kind][outcome]++;
}

void
metrics_heard(struct mount *m, enum op_code op, enum rc rc)
{
	must((size_t)op < METRICS_OPS);
	m->metrics.answers[op][(size_t)rc < METRICS_RCS ? rc : RC_BAD_MESSAGE]++;
}

/* ---- the text ---- */

static void
put_left(struct buffer *to, const char *name, mono_t now, mono_t end, const char *help)
{
	int64_t ms =
	    mono_before(now, end) && !mono_is_never(end) ? span_to_ms(mono_since(end, now)) : 0;

	exposition_begin(to, name, "gauge", help);
	buffer_printf(to, "%s %lld.%03lld\n", name, (long long)(ms / 1000), (long long)(ms % 1000));
}

static void
put_info(const struct mount *m, const struct client_status *s, struct buffer *to)
{
	exposition_begin(to, "lsfs_info", "gauge",
	                 "The mounted cell, and the principal of the mount.");
	buffer_printf(to, "lsfs_info{version=\"%s\",cell=\"", PACKAGE_VERSION);
	exposition_label(to, m->config.cell);
	buffer_printf(to, "\",principal=\"");
	exposition_label(to, s->principal);
	buffer_printf(to, "\"} 1\n");
}

static void
put_session(const struct mount *m, const struct client_status *s, const struct client_counts *n,
            struct buffer *to)
{
	const bool leased = s->state == CLIENT_SAFE || s->state == CLIENT_JEOPARDY;

	exposition_begin(to, "lsfs_session_state", "gauge",
	                 "1 for the state that the session is in.");
	for (int state = CLIENT_NEW; state <= CLIENT_CLOSED; state++)
		buffer_printf(to, "lsfs_session_state{state=\"%s\"} %d\n",
		              mount_session_state((enum client_state)state),
		              (int)s->state == state);
	put_left(to, "lsfs_session_lease_left_seconds", m->now, leased ? s->lease_end : m->now,
	         "Time until the local lease of the session ends.");
	put_left(to, "lsfs_session_grace_left_seconds", m->now,
	         s->state == CLIENT_JEOPARDY ? s->grace_end : m->now,
	         "In jeopardy, the time until the session expires.");
	exposition_gauge(to, "lsfs_master_replica", s->master,
	                 "The replica that was the master last; 0: none.");
	exposition_gauge(to, "lsfs_epoch", s->epoch, "The epoch of that master.");
	exposition_gauge(to, "lsfs_connected", n->connected,
	                 "1 while the session is open on a connection.");
	exposition_counter(to, "lsfs_sessions_total", n->sessions, "Sessions that were opened.");
	exposition_counter(to, "lsfs_connections_total", n->connections,
	                   "Connections on which a session was opened.");
	exposition_counter(to, "lsfs_fail_overs_total", n->fail_overs,
	                   "Times that the session found a master of a later epoch.");
	exposition_counter(to, "lsfs_jeopardies_total", n->jeopardies,
	                   "Times that the lease ended before it was renewed.");
	exposition_counter(
	    to, "lsfs_datagrams_answered_total", n->datagrams,
	    "KeepAlives that were answered over UDP, since the connection was late.");
}

static void
put_cache(const struct mount *m, const struct client_status *s, const struct client_counts *n,
          struct buffer *to)
{
	put_left(to, "lsfs_cache_leave_left_seconds", m->now, s->leave_end,
	         "Time until the leave to cache ends; 0: there is none.");
	exposition_gauge(to, "lsfs_cached_nodes", n->cached_nodes,
	                 "Nodes of which something is cached.");
	exposition_gauge(to, "lsfs_cached_bytes", n->cached_bytes, "Memory of the cache.");
	exposition_counter(to, "lsfs_cache_hits_total", n->hits,
	                   "Reads that were answered from the cache.");
	exposition_counter(to, "lsfs_cache_misses_total", n->misses,
	                   "Reads that the cell was asked for.");
	exposition_counter(to, "lsfs_cache_invalidations_total", n->invalidations,
	                   "Invalidations that the cell has sent.");
	exposition_counter(to, "lsfs_cache_drops_total", n->drops,
	                   "Times that the whole cache was dropped.");
}

/* ---- calls and requests ---- */

static const char *const outcomes[] = {
    [CALL_DONE] = "done",
    [CALL_FAILED] = "failed",
    [CALL_INTERRUPTED] = "interrupted",
};

/* The calls that wait, without those that are about these numbers. */
static void
put_waiting(const struct mount *m, struct buffer *to)
{
	uint64_t waiting[MOUNT_INTERRUPT] = {0};
	const struct call *c;

	TAILQ_FOREACH(c, &m->calls.all, of_mount)
		if (!c->answered && c->event.ino != MOUNT_INO_METRICS)
			waiting[c->event.kind]++;
	exposition_begin(to, "lsfs_calls_waiting", "gauge",
	                 "Calls of the kernel that are not answered yet.");
	for (size_t kind = 0; kind < MOUNT_INTERRUPT; kind++)
		if (waiting[kind] > 0)
			buffer_printf(to, "lsfs_calls_waiting{call=\"%s\"} %llu\n",
			              mount_call_name((enum mount_event_kind)kind),
			              (unsigned long long)waiting[kind]);
}

/* ---- handles and events ---- */

static void
put_handles(const struct mount *m, const struct client_counts *n, struct buffer *to)
{
	const struct event_stream *s;
	const struct handle *h;
	size_t open[] = {[HANDLE_FILE] = 0, [HANDLE_DIRECTORY] = 0, [HANDLE_VIRTUAL] = 0};
	size_t pending = 0, streams = 0, unread = 0;

	TAILQ_FOREACH(h, &m->handles.all, of_mount) {
		open[h->kind]++;
		pending += h->pending;
	}
	TAILQ_FOREACH(s, &m->streams, entry) {
		streams++;
		unread += s->lines.len;
	}
	exposition_gauge(to, "lsfs_open_files", open[HANDLE_FILE], "Open files.");
	exposition_gauge(to, "lsfs_open_directories", open[HANDLE_DIRECTORY], "Open directories.");
	exposition_gauge(to, "lsfs_versions", m->versions.n, "Versions of contents in memory.");
	exposition_gauge(to, "lsfs_watched_nodes", n->watches,
	                 "Nodes whose events the cell sends.");
	exposition_gauge(to, "lsfs_events_pending", pending,
	                 "Open files and directories with an event that they have not seen.");
	exposition_gauge(to, "lsfs_event_readers", streams, "Times that .cell/events is open.");
	exposition_gauge(to, "lsfs_events_unread_bytes", unread,
	                 "Events that wait in .cell/events.");
}

void
metrics_text(const struct mount *m, struct buffer *to)
{
	const struct client_status s = client_status(m->client);
	const struct client_counts n = client_counts(m->client);

	put_info(m, &s, to);
	put_session(m, &s, &n, to);
	put_cache(m, &s, &n, to);
	exposition_gauge(to, "lsfs_requests_in_flight", s.in_flight,
	                 "Requests that the cell was sent.");
	exposition_gauge(to, "lsfs_requests_queued", s.queued, "Requests that are to be sent.");
	exposition_begin(to, "lsfs_requests_total", "counter",
	                 "Requests that were answered, by the cell or from the cache.");
	for (size_t op = 1; op < METRICS_OPS; op++)
		for (size_t rc = 0; rc < METRICS_RCS; rc++)
			if (m->metrics.answers[op][rc] > 0)
				buffer_printf(
				    to,
				    "lsfs_requests_total{operation=\"%s\",result=\"%s\"} %llu\n",
				    wire_op(op)->name, rc_name((enum rc)rc),
				    (unsigned long long)m->metrics.answers[op][rc]);
	exposition_begin(to, "lsfs_calls_total", "counter",
	                 "Calls of the kernel that were answered.");
	for (size_t kind = 0; kind < MOUNT_INTERRUPT; kind++)
		for (size_t i = 0; i < CALL_OUTCOMES; i++)
			if (m->metrics.calls[kind][i] > 0)
				buffer_printf(to,
				              "lsfs_calls_total{call=\"%s\",outcome=\"%s\"} %llu\n",
				              mount_call_name((enum mount_event_kind)kind),
				              outcomes[i],
				              (unsigned long long)m->metrics.calls[kind][i]);
	put_waiting(m, to);
	put_handles(m, &n, to);
}
