/* A mount under a script; see mount_player.c. */
#ifndef LSFS_TESTS_TRANSCRIPTS_MOUNT_PLAYER_H
#define LSFS_TESTS_TRANSCRIPTS_MOUNT_PLAYER_H

#include "tests/transcripts/script.h"
#include "tests/unit/mount_bench.h"

enum { NAMES = 16, NAME_LEN = 24 };

/* A descriptor of a process, or a name of the kernel's cache with the inode that it led to. */
struct named {
	char name[NAME_LEN];
	uint64_t ino, fh;
	int flags;
	uint64_t opening; /* the call that opens it; 0: it is open, or none */
};

struct player {
	struct bench *b;
	struct script *s; /* of the command that runs */
	struct trace trace;
	struct named descriptors[NAMES], inodes[NAMES];
	uint64_t call;       /* of the command that runs; 0: none */
	bool mute;           /* nothing is said: a lookup on the way to an open */
	bool told;           /* that the call of the command waits, and for what */
	const uint8_t *view; /* of the last read */
};

/* Begins a command's function, with `s` and its player `p`: of this name, and of one in a table of
 * the same file. */
#define PUBLIC_COMMAND(name)                                       \
	static void name##_by(struct script *s, struct player *p); \
	void name(struct script *s, void *world)                   \
	{                                                          \
		struct player *p = world;                          \
                                                                   \
		p->s = s;                                          \
		name##_by(s, p);                                   \
	}                                                          \
	static void name##_by(struct script *s __attribute__((unused)), struct player *p)
#define COMMAND(name)                                          \
	static void run_##name(struct script *s, void *world); \
	PUBLIC_COMMAND(run_##name)

/* ---- mount_text.c: what is said ---- */

/* Says a line; says a message after the last one, unless the line gets long. */
#define say(p, ...)                                      \
	do {                                             \
		if (!(p)->mute)                          \
			script_say((p)->s, __VA_ARGS__); \
	} while (0)
#define say_message(p, ...)                                         \
	do {                                                        \
		if (!(p)->mute)                                     \
			script_say_joined((p)->s, "", __VA_ARGS__); \
	} while (0)

extern const char *const text_modes[];
/* A text with the escapes of C; a long one without blanks by its length. Valid until the next. */
const char *text_shown(struct bytes text);
/* For the bench: the update of a step of the player `user`, and an answer of its cell. */
void text_of_step(void *user, const struct mount_update *u);
void text_of_answer(void *user, const struct op *op, enum rc rc);

/* ---- mount_calls.c: calls of the kernel ---- */

/* The next word as text, with its escapes undone; valid during the command. */
struct bytes call_text(struct player *p);
/* Is there NAME=yes? */
bool call_option(struct player *p, const char *name);
/* A descriptor's inode; @f: the one that the name f led to when it was last looked up. */
uint64_t call_inode(struct player *p, const char *name);
/* Flags of calls, between bars; NULL: none. */
int call_flags(struct player *p, const char *list);
enum lock_mode call_mode(struct player *p, const char *name);
/* The kernel looks the name up first, unless it is @NAME; what it does not lead to is created. */
void call_open(struct player *p, const char *name, int flags);
/* The call by which the command is named. */
void call_any(struct script *s, void *world);
void call_close(struct script *s, void *world);
void call_forget(struct script *s, void *world);
void call_wants(struct script *s, void *world);

#endif
