/* What is found damaged at an opening: a line for each thing, told when it was decided to go on
 * without. */
#ifndef LSFS_STORE_CORRUPTION_H
#define LSFS_STORE_CORRUPTION_H

#include <stddef.h>

enum { CORRUPTION_LINE = 192, CORRUPTION_LINES = 16 };

struct corruption {
	size_t n;                                      /* how much was found */
	char lines[CORRUPTION_LINES][CORRUPTION_LINE]; /* the first of it; lines[0] for a refusal */
};

/* "FILE is damaged: WHAT" */
void corruption_add(struct corruption *d, const char *file, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
/* Likewise, as it is. */
void corruption_say(struct corruption *d, const char *what, ...)
    __attribute__((format(printf, 2, 3)));
/* Warnings in the log, each with the directory before it. */
void corruption_tell(const struct corruption *d, const char *directory);

#endif
