/* Events of the world, as lines. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/transcripts/cell_player.h"
#include "tests/unit/wire_print.h"

enum { LINE_MAX = 4096 };

void
player_say(struct player *p, const char *format, ...)
{
	const int64_t passed = p->s == NULL ? 0 : (p->s->now - p->began) / MS;
	va_list args;
	char line[LINE_MAX];

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	if (p->times && passed > 0)
		script_say(p->words, "+%ld ms %s", (long)passed, line);
	else
		script_say(p->words, "%s", line);
}

/* Verdicts begin with what they are about; those of paxos have transcripts of their own. */
static bool
is_shown(const struct player *p, enum log_level level, const char *line)
{
	static const char *const subjects[] = {"session ",    "lock ",    "barrier", "request ",
	                                       "mastership",  "list ",    "disk",    "digest",
	                                       "connection ", "operator", "settings"};

	if (p->show_all)
		return true;
	if (level != LEVEL_DEBUG) /* but for connections between replicas */
		return strstr(line, " at host") == NULL || strstr(line, " is master of ") != NULL;
	for (size_t i = 0; i < sizeof subjects / sizeof *subjects; i++)
		if (strncmp(line, subjects[i], strlen(subjects[i])) == 0)
			return true;
	return false;
}

/* In place of the number of a connection stands whose it is, and of that of a lock's node its path.
 */
static void
on_line(void *user, int replica, enum log_level level, const char *line)
{
	const struct bare *b = NULL;
	struct player *p = user;
	uint64_t number;
	int n = 0;

	if (!is_shown(p, level, line))
		return;
	if (sscanf(line, "connection %lu%n", &number, &n) == 1)
		b = bare_of_conn(p, number & ~(1ull << 63));
	if (b != NULL)
		player_say(p, "%d: connection of %s%s", replica, b->name, line + n);
	else if (sscanf(line, "lock %lu%n", &number, &n) == 1)
		player_say(p, "%d: lock of %s%s", replica, trace_path(p->s, number), line + n);
	else
		player_say(p, "%d: %s", replica, line);
}

static void
put_client(const struct player *p, struct buffer *to, uint64_t session)
{
	for (int i = 0; i < p->bares_n; i++) {
		if (p->bares[i]->session == session) {
			buffer_printf(to, "%s: ", p->bares[i]->name);
			return;
		}
	}
	buffer_printf(to, "session %lu: ", (unsigned long)session);
}

static void
on_decided(void *user, uint64_t index, const struct op *op, const struct record *r,
           const struct outcome *want)
{
	struct player *p = user;
	struct buffer text = BUFFER(LINE_MAX);

	if (!p->show_log)
		return;
	if (r != NULL && r->process == PROCESS_SCRIPT && r->token != 0 && !r->own)
		buffer_printf(&text, "%s: ", p->clients[r->machine]);
	else if (r != NULL)
		put_client(p, &text, r->session);
	print_op(&text, p->s, op);
	if (want == NULL)
		buffer_printf(&text, ": nothing");
	else if (want->rc != RC_OK)
		buffer_printf(&text, ": %s", rc_name(want->rc));
	player_say(p, "log %lu: %.*s", (unsigned long)index, (int)text.len,
	           (const char *)text.data);
	buffer_free(&text);
}

static void
on_frame(void *user, uint64_t conn, enum client_event_kind kind, struct bytes frame)
{
	struct player *p = user;
	struct bare *b = bare_of_conn(p, conn);

	if (!operator_heard(p, conn, kind, frame) && b != NULL)
		bare_heard(p, b, conn, kind, frame);
}

static void
on_answered(void *user, const struct record *r)
{
	struct player *p = user;
	struct buffer text = BUFFER(LINE_MAX);

	p->open[r->machine]--;
	print_op(&text, p->s, &r->op);
	buffer_printf(&text, ": %s",
	              r->rc == RC_OK       ? "ok"
	              : r->rc == RC_QUEUED ? "queued"
	                                   : rc_name(r->rc));
	if (r->contents.data != NULL)
		buffer_printf(&text, ", \"%.*s\"", (int)r->contents.len,
		              (const char *)r->contents.data);
	if (r->got.fence != 0)
		buffer_printf(&text, ", lock generation %lu, token %lu",
		              (unsigned long)r->got.lock_generation, (unsigned long)r->got.fence);
	player_say(p, "%s: %.*s", p->clients[r->machine], (int)text.len, (const char *)text.data);
	buffer_free(&text);
}

static void
on_granted(void *user, int machine, const struct client_grant *g)
{
	struct player *p = user;

	if (g->rc != RC_OK)
		player_say(p, "%s: not granted %s, acquisition %lu: %s", p->clients[machine],
		           trace_path(p->s, g->node) + 1, (unsigned long)g->acquisition,
		           rc_name(g->rc));
	else
		player_say(p, "%s: granted %s, acquisition %lu, lock generation %lu, token %lu",
		           p->clients[machine], trace_path(p->s, g->node) + 1,
		           (unsigned long)g->acquisition, (unsigned long)g->lock_generation,
		           (unsigned long)g->fence);
}

static void
on_state(void *user, int machine)
{
	static const char *const names[] = {[CLIENT_NEW] = "new",
	                                    [CLIENT_SAFE] = "safe",
	                                    [CLIENT_JEOPARDY] = "in jeopardy",
	                                    [CLIENT_EXPIRED] = "expired",
	                                    [CLIENT_CLOSED] = "closed"};
	struct player *p = user;
	const struct machine *m = &p->s->machines[machine];

	player_say(p, "%s: session %lu is %s", p->clients[machine], (unsigned long)m->session,
	           names[m->state]);
}

/* ---- what comes to a client of the script ---- */

static void
on_opened(struct player *p, struct bare *b, const struct msg_session_opened *m)
{
	if (m->rc == RC_NOT_MASTER) {
		player_say(p, "%s: NOT_MASTER, replica %u is", b->name, m->master);
		return;
	}
	if (m->rc != RC_OK) {
		player_say(p, "%s: no session: %s, epoch %lu", b->name, rc_name(m->rc),
		           (unsigned long)m->epoch);
		return;
	}
	b->session = m->session;
	b->epoch = m->epoch;
	player_say(p, "%s: session %lu is open, epoch %lu", b->name, (unsigned long)m->session,
	           (unsigned long)m->epoch);
}

static void
on_keepalive(struct player *p, const struct bare *b, const struct msg_keepalive_reply *m)
{
	if (p->hide_keepalives)
		return;
	if (m->rc != RC_OK)
		player_say(p, "%s: KeepAlive %lu: %s", b->name, (unsigned long)m->sequence,
		           rc_name(m->rc));
	else
		player_say(p,
		           m->cache_ms == 0 ? "%s: KeepAlive %lu: lease %u ms%s"
		                            : "%s: KeepAlive %lu: lease %u ms%s, cache %u ms",
		           b->name, (unsigned long)m->sequence, m->lease_ms,
		           m->scarce ? ", bytes are scarce" : "", m->cache_ms);
}

static void
on_reply(struct player *p, struct bare *b, const struct msg_reply *m)
{
	const struct record *r = history_find(p->s, b->session, m->number);
	struct buffer text = BUFFER(4096);
	struct result result;

	if (r == NULL) {
		player_say(p, "%s: %lu: %s", b->name, (unsigned long)m->number, rc_name(m->rc));
		return;
	}
	history_scripted_answer(p->s, b->session, m);
	if (r->op.code == OP_acquire && m->rc == RC_QUEUED &&
	    wire_get_result(RESULT_acquired, m->result, &result) == RC_OK)
		locks_note_ticket(&b->locks, &r->op.acquire.acquire, result.acquired.ticket);
	print_op(&text, p->s, &r->op);
	buffer_printf(&text, ": ");
	print_result(&text, &r->op, (enum rc)m->rc, m->result);
	if (r->op.code == OP_transaction)
		buffer_printf(&text, " (index %lu)", (unsigned long)m->index);
	if (m->leave != 0)
		buffer_printf(&text, " (leave %lu)", (unsigned long)m->leave);
	player_say(p, "%s: %lu %.*s", b->name, (unsigned long)m->number, (int)text.len,
	           (const char *)text.data);
	buffer_free(&text);
}

static void
on_lock_granted(struct player *p, const struct bare *b, const struct msg_granted *m)
{
	const char *path = trace_path(p->s, m->node);

	if (m->rc != RC_OK)
		player_say(p, "%s: not granted %s to %lu: %s", b->name, path + 1,
		           (unsigned long)m->owner, rc_name(m->rc));
	else
		player_say(p,
		           "%s: granted %s to %lu, acquisition %lu, lock generation %lu, "
		           "token %lu",
		           b->name, path + 1, (unsigned long)m->owner,
		           (unsigned long)m->acquisition, (unsigned long)m->lock_generation,
		           (unsigned long)m->fence);
}

static void
on_invalidation(struct player *p, const struct bare *b, const struct msg_invalidation *m)
{
	struct cursor at = cursor_of(m->nodes.packed);
	struct buffer text = BUFFER(4096);
	struct node_key node;

	while (wire_next_node_key(&at, &node))
		buffer_printf(&text, " %s", trace_path(p->s, node.node));
	player_say(p, "%s: notice %lu: drop%.*s%s", b->name, (unsigned long)m->notice,
	           (int)text.len, (const char *)text.data, m->everything ? " everything" : "");
	buffer_free(&text);
}

static void
on_message(struct player *p, struct bare *b, const struct message *m)
{
	struct buffer text = BUFFER(4096);

	switch (m->code) {
	case MSG_session_opened:
		on_opened(p, b, &m->session_opened);
		return;
	case MSG_keepalive_reply:
		on_keepalive(p, b, &m->keepalive_reply);
		return;
	case MSG_reply:
		on_reply(p, b, &m->reply);
		return;
	case MSG_granted:
		on_lock_granted(p, b, &m->granted);
		return;
	case MSG_invalidation:
		on_invalidation(p, b, &m->invalidation);
		return;
	case MSG_watching:
		watches_bare_watching(p, b, &m->watching);
		return;
	case MSG_events:
		watches_bare_events(p, b, &m->events);
		return;
	case MSG_members:
		return; /* at each opening */
	default:
		wire_print_message(&text, m);
		player_say(p, "%s: %.*s", b->name, (int)text.len, (const char *)text.data);
		buffer_free(&text);
	}
}

void
bare_heard(struct player *p, struct bare *b, uint64_t conn, enum client_event_kind kind,
           struct bytes frame)
{
	struct message m;

	if (kind == CLIENT_DISCONNECTED) {
		player_say(p, "%s: the %sconnection is closed", b->name,
		           conn == b->conn ? "" : "earlier ");
		*(conn == b->conn ? &b->conn : &b->earlier) = 0;
	}
	if (kind != CLIENT_FRAME && kind != CLIENT_DATAGRAM)
		return;
	must(wire_get_frame(frame, &m) == RC_OK);
	if (kind == CLIENT_DATAGRAM)
		player_say(p, "%s: datagram %lu: lease %u ms, cache %u ms", b->name,
		           (unsigned long)m.keepalive_reply.sequence, m.keepalive_reply.lease_ms,
		           m.keepalive_reply.cache_ms);
	else
		on_message(p, b, &m);
}

void
player_listen(struct sim_script *script, struct player *user)
{
	*script = (struct sim_script){.user = user,
	                              .said = on_line,
	                              .decided = on_decided,
	                              .heard = on_frame,
	                              .answered = on_answered,
	                              .granted = on_granted,
	                              .state = on_state,
	                              .watched = watches_said};
}
