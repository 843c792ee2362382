/* The damage found when a database is opened: one line for each damaged row or file. The lines are
 * logged once it is decided that the replica starts in spite of them. */
#ifndef LSFS_STORE_CORRUPTION_H
#define LSFS_STORE_CORRUPTION_H

#include <stddef.h>

enum { CORRUPTION_LINE = 192, CORRUPTION_LINES = 16 };

struct corruption {
	size_t n;                                      /* number of findings */
	char lines[CORRUPTION_LINES][CORRUPTION_LINE]; /* the first ones; refusals quote lines[0] */
};

/* Adds the line "FILE is damaged: WHAT". */
void corruption_add(struct corruption *d, const char *file, const char *what, ...)
    __attribute__((format(printf, 3, 4)));
/* Adds the line WHAT. */
void corruption_add_line(struct corruption *d, const char *what, ...)
    __attribute__((format(printf, 2, 3)));
/* Logs the lines as warnings, each preceded by the directory. */
void corruption_log(const struct corruption *d, const char *directory);

#endif
