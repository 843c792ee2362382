/* A sink for traces: the verdicts of the pure parts, one line each, in the words of the protocol
 * and with its numbers. The server logs them with --debug, the simulator prints them, and
 * transcripts compare them. Verdicts cost nothing while the sink is off: their arguments are not
 * evaluated. Notices, which operators need at any time, are kept nevertheless. */
#ifndef LSFS_BASE_TRACE_H
#define LSFS_BASE_TRACE_H

#include <stdbool.h>
#include "cell/base/bytes.h"

/* Zeroed, it is an empty sink that is off. Its owner takes the lines after each step. */
struct trace {
	bool on;             /* verdicts are kept, too */
	struct buffer lines; /* each: kind, text, newline; what exceeds 1 MiB is dropped */
	size_t taken;        /* bytes of those that trace_take has returned */
};

enum trace_kind {
	TRACE_VERDICT = ' ',
	TRACE_NOTICE = '!',
	TRACE_MESSAGE = '>', /* of a message or connection, which transcripts show anyway */
};

/* Add a line of each kind, given as for printf without a newline; a NULL sink drops it. */
#define TRACE(sink, ...)                                                \
	do {                                                            \
		struct trace *trace_ = (sink);                          \
		if (trace_ && trace_->on)                               \
			trace_line(trace_, TRACE_VERDICT, __VA_ARGS__); \
	} while (0)
#define NOTICE(sink, ...)                                              \
	do {                                                           \
		struct trace *trace_ = (sink);                         \
		if (trace_)                                            \
			trace_line(trace_, TRACE_NOTICE, __VA_ARGS__); \
	} while (0)

#define MESSAGE_TRACE(sink, ...)                                        \
	do {                                                            \
		struct trace *trace_ = (sink);                          \
		if (trace_ && trace_->on)                               \
			trace_line(trace_, TRACE_MESSAGE, __VA_ARGS__); \
	} while (0)

/* Adds a line of a kind; used by the macros. */
void trace_line(struct trace *t, enum trace_kind kind, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The oldest line that was not taken, valid until the next line is added; NULL when there is none,
 * and the sink is empty again. */
const char *trace_take(struct trace *t, enum trace_kind *kind);
/* Frees the lines; the sink stays as it is set. */
void trace_free(struct trace *t);

#endif
