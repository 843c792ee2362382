/* What is found damaged at an opening: a line for each thing, told when it was decided to go on
 * without. */
#ifndef LSFS_IO_DAMAGE_H
#define LSFS_IO_DAMAGE_H

#include <stddef.h>

enum { DAMAGE_LINE = 192, DAMAGE_LINES = 16 };

struct damage {
	size_t n;                              /* how much was found */
	char lines[DAMAGE_LINES][DAMAGE_LINE]; /* the first of it; lines[0] for a refusal */
};

/* "FILE is damaged: WHAT" */
void damage_add(struct damage *d, const char *file, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
/* Likewise, as it is. */
void damage_say(struct damage *d, const char *what, ...) __attribute__((format(printf, 2, 3)));
/* Warnings in the log, each with the directory before it. */
void damage_tell(const struct damage *d, const char *directory);

#endif
