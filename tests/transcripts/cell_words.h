/* The words of cell scripts: operations as commands, and as lines of output; results; names.
 *
 *   create f [ephemeral] [anew] | mkdir d | delete f | rmdir d | rename f g
 *   write f "x" [if 3] | write f fill 1000 | append f "x" | read f | stat f | find f | list d |
 *   touch f |
 *   mark f (as ephemeral) | open f | close f | delay f 5s (the lock-delay) |
 *   rights f [write|change] everyone
 *   lock f by 7 shared|exclusive [wait] [delay 1s] [acquisition 3] [ticket [of 3]]
 *   unlock f by 7 [acquisition 3] | cancel f by 7 [acquisition 3] | look f (at the lock) |
 *   sequencer f
 *   end [b] [expired] (a session) | usage
 *   txn STEP , STEP ...       a step: if f generation 3 | if f absent | else | one of create,
 *                             mkdir, delete, rename, write, append, lock; of files in the root
 *
 * A file is named by its path without the first slash; a name that is gone still stands for the
 * node that it was, and #9 is node 9. Without `acquisition` a lock takes the client's next number,
 * and the other two that of the owner's last lock. */
#ifndef LSFS_CELL_WORDS_H
#define LSFS_CELL_WORDS_H

#include "tests/sim/sim.h"
#include "tests/transcripts/script.h"

enum {
	WORD_ROOM = 16,
	TEXT_ROOM = 256,
	NAMES_MAX = 2048,
	BARES_MAX = 512,
	QUESTIONS_MAX = 64,
	LOCKS_MAX = 1024,
};

/* The next word must be this one. */
void words_expect(struct script *w, const char *word);
/* A time, "300ms" or "3s", in nanoseconds; the second where there is a word. */
int64_t words_time(struct script *w);
void words_take_time(struct script *w, int64_t *ns);

/* Names that there were, and their nodes. */
struct names {
	struct {
		char path[TEXT_ROOM];
		uint64_t node;
	} list[NAMES_MAX];
	int n;
	unsigned nonces; /* that were used */
};

/* The node of a path, or the last one that there was; 0: none. */
uint64_t names_find(struct sim *s, struct names *names, const char *path);

/* The locks that a client has asked for. */
struct lock_names {
	struct {
		uint64_t node, owner, acquisition;
		struct ticket ticket;
	} list[LOCKS_MAX];
	int n;
	uint64_t last; /* acquisition */
};

/* An operation: its word, and what it takes of the next ones; it has views of them. */
void words_op(struct sim *s, struct names *names, struct lock_names *locks, struct script *w,
              const char *word, struct op *op);
/* Sets the ticket that a queued lock was told. */
void locks_note_ticket(struct lock_names *locks, const struct acquire *a, struct ticket ticket);

/* The word of an operation, or its name if no command has one. */
const char *words_verb(const struct op *op);

/* As it stands in a command; what came of it. */
void print_op(struct buffer *to, struct sim *s, const struct op *op);
void print_result(struct buffer *to, const struct op *op, enum rc rc, struct bytes result);

#endif
