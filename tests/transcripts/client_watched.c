#include "tests/transcripts/client_watched.h"
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"

static const char *const kinds[] = {
    [EVENT_CONTENTS_MODIFIED] = "contents_modified",
    [EVENT_CHILD_ADDED] = "child_added",
    [EVENT_CHILD_REMOVED] = "child_removed",
    [EVENT_CHILD_MODIFIED] = "child_modified",
    [EVENT_HANDLE_INVALID] = "handle_invalid",
    [EVENT_LOCK_ACQUIRED] = "lock_acquired",
    [EVENT_CONFLICTING_LOCK] = "conflicting_lock",
    [EVENT_GAP] = "gap",
    [EVENT_MASTER_FAILED_OVER] = "master_failed_over",
    [EVENT_JEOPARDY] = "jeopardy",
    [EVENT_SAFE] = "safe",
    [EVENT_EXPIRED] = "expired",
};

enum { KINDS = sizeof kinds / sizeof *kinds };

void
watched_say(struct script *s, const struct client_watched *w)
{
	struct buffer text = BUFFER(4096);

	must((unsigned)w->kind < KINDS);
	buffer_printf(&text, "%s", kinds[w->kind]);
	if (w->path.len > 0)
		buffer_printf(&text, " of %.*s", (int)w->path.len, (const char *)w->path.data);
	if (w->generation != 0)
		buffer_printf(&text, ", generation %llu", (unsigned long long)w->generation);
	if (w->name.len > 0)
		buffer_printf(&text, ": %.*s", (int)w->name.len, (const char *)w->name.data);
	script_say_joined(s, "= event ", "%.*s", (int)text.len, (const char *)text.data);
	buffer_free(&text);
}

void
watched_states(struct script *s, struct msg_watching *m, struct buffer *states)
{
	struct watch_state state = {.rc = (uint8_t)script_rc(s, script_value(s, "rc")),
	                            .after = script_value_number(s, "after", 0),
	                            .since = script_value_number(s, "since", 5),
	                            .generation = script_value_number(s, "version", 1),
	                            .path = bytes_of("/d/f")};
	const char *word;

	while ((word = script_word(s))) {
		state.node = strtoull(word, NULL, 10);
		wire_put_watch_state(states, &state);
		m->states.count++;
	}
	m->states.packed = buffer_view(states);
}

static uint8_t
kind_of(struct script *s)
{
	const char *word = script_value(s, "kind");

	for (uint8_t i = 1; word && i < KINDS; i++)
		if (!strcmp(kinds[i], word))
			return i;
	script_misuse(s, "kind=KIND is missing");
}

void
watched_events(struct script *s, struct msg_events *m, struct buffer *events)
{
	struct watch_event e = {.kind = kind_of(s),
	                        .generation = script_value_number(s, "version", 0)};
	const char *name = script_value(s, "name");
	const uint64_t n = script_value_number(s, "count", 1);

	m->upto = script_value_number(s, "upto", 0);
	m->first = script_number(s);
	e.node = script_number(s);
	e.name = bytes_of(name ? name : "");
	for (uint64_t i = 0; i < n; i++, e.generation += e.generation != 0)
		wire_put_watch_event(events, &e);
	m->events = (struct wire_list){buffer_view(events), (uint32_t)n};
}
