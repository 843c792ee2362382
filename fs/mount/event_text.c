#include <inttypes.h>
#include <time.h>
#include "cell/base/printable.h"
#include "fs/mount/event_text.h"

static const char *const names[] = {
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

enum { NAMES = sizeof names / sizeof *names };

/* RFC 3339, in UTC. */
static void
put_time(struct buffer *to, int64_t ns)
{
	const int64_t second_ns = 1000000000;
	const int64_t fraction = (ns % second_ns + second_ns) % second_ns;
	const time_t seconds = (ns - fraction) / second_ns;
	char text[32];
	struct tm utc;

	strftime(text, sizeof text, "%FT%T", gmtime_r(&seconds, &utc));
	buffer_printf(to, "%s.%09" PRId64 "Z", text, fraction);
}

/* Begins a line, up to its time; the caller ends it. */
static void
begin_line(struct buffer *to, const char *name, const char *cell, struct bytes path, int64_t ns)
{
	buffer_printf(to, "{\"event\": \"%s\", \"path\": \"/ls/%s", name, cell);
	if (path.len > 1) /* else of the cell, or its root */
		printable_json(to, path);
	buffer_printf(to, "\", \"time\": \"");
	put_time(to, ns);
	buffer_printf(to, "\"");
}

void
event_text(struct buffer *to, const char *cell, const struct client_watched *w, int64_t wall_ns)
{
	const unsigned kind = w->kind;
	const char *name = kind < NAMES && names[kind] ? names[kind] : "unknown";

	begin_line(to, name, cell, w->path, w->time_ns != 0 ? w->time_ns : wall_ns);
	if (w->name.len > 0) {
		buffer_printf(to, ", \"child\": \"");
		printable_json(to, w->name);
		buffer_printf(to, "\"");
	}
	if (w->generation != 0)
		buffer_printf(to, ", \"%s\": %llu",
		              w->kind == EVENT_LOCK_ACQUIRED ? "lock_generation"
		                                             : "content_generation",
		              (unsigned long long)w->generation);
	buffer_printf(to, "}\n");
}

void
event_text_change(struct buffer *to, const char *cell, const struct past_change *c)
{
	static const char *const kinds[] = {
	    [CHANGE_NONE] = "unknown",
	    [CHANGE_CREATED] = "created",
	    [CHANGE_CONTENTS] = "contents_modified",
	    [CHANGE_ATTRIBUTES] = "attributes_modified",
	    [CHANGE_DELETED] = "deleted",
	    [CHANGE_LOCK] = "lock_acquired",
	};

	begin_line(to, kinds[c->kind <= CHANGE_LOCK ? c->kind : CHANGE_NONE], cell, c->path,
	           c->time_ns);
	buffer_printf(to, ", \"index\": %" PRIu64, c->index);
	if (c->generation != 0)
		buffer_printf(to, ", \"%s\": %" PRIu64,
		              c->kind == CHANGE_LOCK ? "lock_generation" : "content_generation",
		              c->generation);
	buffer_printf(to, "}\n");
}

void
event_text_compacted(struct buffer *to, const char *cell, uint64_t index)
{
	buffer_printf(to,
	              "{\"event\": \"compacted\", \"path\": \"/ls/%s\", \"index\": %" PRIu64 "}\n",
	              cell, index);
}
