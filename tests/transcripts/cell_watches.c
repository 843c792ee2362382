/* Watches and events in words:
 *
 *   a: watch f [knows 2] [tree] | unwatch f
 *                           one with the client library; `knows`: that generation
 *   b: watch [heard 3] [all] [since 4] [tree] [f]
 *                           one without; all events up to that one were received, and at an earlier
 *                           master those of the changes up to that entry */
#include "cell/base/must.h"
#include "tests/transcripts/cell_player.h"

#define EVERY_KIND ((2u << EVENT_GAP) - 2)

static const char *const names[] = {
    [EVENT_CONTENTS_MODIFIED] = "contents modified",
    [EVENT_CHILD_ADDED] = "child added",
    [EVENT_CHILD_REMOVED] = "child removed",
    [EVENT_CHILD_MODIFIED] = "child modified",
    [EVENT_HANDLE_INVALID] = "handle invalid",
    [EVENT_LOCK_ACQUIRED] = "lock acquired",
    [EVENT_CONFLICTING_LOCK] = "conflicting lock",
    [EVENT_GAP] = "gap",
    [EVENT_MASTER_FAILED_OVER] = "the master has failed over",
    [EVENT_JEOPARDY] = "jeopardy",
    [EVENT_SAFE] = "safe",
    [EVENT_EXPIRED] = "expired",
};

static void
put_event(struct buffer *to, unsigned kind, struct bytes path, struct bytes name,
          uint64_t generation)
{
	must(kind < sizeof names / sizeof *names);
	buffer_printf(to, "%s", names[kind]);
	if (path.len > 0)
		buffer_printf(to, " of %.*s", (int)path.len, (const char *)path.data);
	if (name.len > 0)
		buffer_printf(to, ": %.*s", (int)name.len, (const char *)name.data);
	if (generation != 0)
		buffer_printf(to, ", generation %lu", (unsigned long)generation);
}

/* ---- clients with the library ---- */

void
watches_said(void *user, int machine, const struct client_watched *w)
{
	struct player *p = user;
	struct buffer text = BUFFER(4096);

	put_event(&text, w->kind, w->path, w->name, w->generation);
	player_say(p, "%s: event: %.*s", p->clients[machine], (int)text.len,
	           (const char *)text.data);
	buffer_free(&text);
}

void
watches_command(struct player *p, struct machine *m, struct script *w, bool begin)
{
	const uint64_t node = names_find(p->s, &p->names, script_needed(w));
	struct client_event event = {.kind = CLIENT_WATCH, .node = node};

	if (begin)
		event.mask = EVERY_KIND;
	if (script_take(w, "knows"))
		event.generation = script_number(w);
	if (script_take(w, "tree"))
		event.mask |= WATCH_TREE;
	machine_event(p->s, m, event);
}

/* ---- clients without ---- */

void
watches_bare(struct player *p, struct bare *b, struct script *w, struct message *m)
{
	struct buffer packed = BUFFER(1024);
	uint64_t since = 0;
	uint32_t tree;

	*m = (struct message){.code = MSG_watch,
	                      .watch = {.session = b->session, .epoch = b->epoch}};
	if (script_take(w, "heard"))
		m->watch.heard = script_number(w);
	m->watch.all = script_take(w, "all");
	if (script_take(w, "since"))
		since = script_number(w);
	tree = script_take(w, "tree") ? WATCH_TREE : 0;
	for (const char *path; (path = script_word(w)) != NULL; m->watch.watches.count++)
		wire_put_watch(&packed, &(struct watch){.node = names_find(p->s, &p->names, path),
		                                        .mask = EVERY_KIND | tree,
		                                        .since = since});
	m->watch.watches.packed = buffer_take(&packed);
}

void
watches_bare_watching(struct player *p, const struct bare *b, const struct msg_watching *m)
{
	struct cursor at = cursor_of(m->states.packed);
	struct watch_state s;

	while (wire_next_watch_state(&at, &s))
		player_say(p,
		           "%s: watches %s: %s%.*s, generation %lu, behind event %lu and entry %lu",
		           b->name, trace_path(p->s, s.node), s.rc == RC_OK ? "ok" : rc_name(s.rc),
		           s.rc == RC_OK ? 0 : (int)s.path.len, (const char *)s.path.data,
		           (unsigned long)s.generation, (unsigned long)s.after,
		           (unsigned long)s.since);
}

void
watches_bare_events(struct player *p, const struct bare *b, const struct msg_events *m)
{
	struct cursor at = cursor_of(m->events.packed);
	struct buffer text = BUFFER(4096);
	struct watch_event e;

	for (uint64_t number = m->first; wire_next_watch_event(&at, &e); number++) {
		buffer_reset(&text);
		put_event(&text, e.kind, bytes_of(e.node == 0 ? "" : trace_path(p->s, e.node)),
		          e.name, e.generation);
		player_say(p, "%s: event %lu: %.*s", b->name, (unsigned long)number, (int)text.len,
		           (const char *)text.data);
	}
	buffer_free(&text);
}
