/* Calls: what several processes asked of a cell and what they were told, and whether there is an
 * order of all these calls that explains the answers. Nothing here depends on where they come from:
 * torture records real mounts (tests/e2e/history.c), the simulator its clients (tests/sim).
 *
 * A process has one call under way; a call of CALL_FAILED has not taken effect and never will; one
 * of CALL_OPEN may take effect at any time from its beginning on, once, or never.
 *
 *   write, rename   path gets `value`
 *   cas             path gets `value` if it still has `expected`
 *   read            path had `value`, at version `generation` (0: not known)
 *   stat            the same, of a file whose value is its size; changed last at `mtime`
 *   append          `value`, a line, is added to path
 *   tail            path was so many bytes long and ended with that line: "BYTES LINE"
 *   count           the number in path was increased under its lock, to `value`
 *   lock, share     path was locked, with fencing token `value`, in lock generation `generation`
 *   hold            the lock of the process was still held when this began
 *   ephemeral       path was created, to go with its last close
 *   left            what is in the directory of ephemeral files at the end: nothing
 *   final           all contents of path at the end, once for each mount
 *   other           anything else that has a place
 *
 * A name is a path, too: its value is the number of the node that has it, and "" when it is absent.
 *
 * Where it is known what the cell decided, each write has a `place` in the order of its decisions:
 * these are all the values that the path ever had, and they may repeat. A read with a place shows
 * what was there then; one without, answered from a cache, what nobody who could know had seen
 * replaced by its beginning. Where places are not known, no two writes of a path have one value. */
#ifndef LSFS_TESTS_CALLS_H
#define LSFS_TESTS_CALLS_H

#include "cell/base/bytes.h"

enum call_kind {
	CALL_WRITE,
	CALL_RENAME,
	CALL_CAS,
	CALL_READ,
	CALL_STAT,
	CALL_APPEND,
	CALL_TAIL,
	CALL_COUNT,
	CALL_LOCK,
	CALL_SHARE,
	CALL_HOLD,
	CALL_EPHEMERAL,
	CALL_LEFT,
	CALL_FINAL,
	CALL_OTHER,
	CALL_KINDS
};

enum call_outcome { CALL_OK, CALL_FAILED, CALL_OPEN };

/* Texts and values are views, which stay until the calls are freed. */
struct call {
	int process;
	uint64_t source; /* a number by which its recorder finds it, for messages */
	enum call_kind kind;
	enum call_outcome outcome;
	const char *path, *error; /* error: the name of an errno, or NULL */
	struct bytes value, expected;
	bool unseen;         /* a read was told the generation only */
	bool again;          /* whoever locks may have had the lock already, and its token */
	int session;         /* a share was told the token that any sharer of this session has;
	                      * 0: its own */
	uint64_t generation; /* 0: not known */
	uint64_t mtime;      /* of the value, in nanoseconds; 0: not known */
	uint64_t place;      /* among all decisions; 0: not known */
	int64_t begin, end;  /* in ticks; end is INT64_MAX unless it was told its outcome */
};

struct calls {
	struct call *list;
	size_t n, room;
	int64_t second;   /* ticks in it; 0: 10^9 */
	char end_of_line; /* of appended lines */
	bool stale_reads; /* the clocks are wrong: reads may show what was there earlier */
	int violations;
	struct buffer found; /* a line for each of the first violations */
	char **texts;        /* owned */
	size_t texts_n, texts_room;
};

/* Where nothing is recorded yet. */
#define CALLS ((struct calls){.end_of_line = '\n', .found = BUFFER(64 * 1024)})

void calls_add(struct calls *c, struct call call);
/* A text that lives as long as the calls. */
const char *calls_text(struct calls *c, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Judges all that were added, once; their order changes. */
void calls_check(struct calls *c);
/* As in a file of calls: "write". */
const char *calls_kind_name(enum call_kind kind);
void calls_free(struct calls *c);

#endif
