/* Workers that use a mounted cell in all ways while others break it, and write down what they asked
 * and were told: the history that history.h describes. */
#ifndef LSFS_TESTS_TORTURE_H
#define LSFS_TESTS_TORTURE_H

#include <stdbool.h>
#include "cell/base/rng.h"

struct worker {
	int process;
	int number;        /* among the workers of its mount: what it does depends on it */
	int history;       /* the file, for appending */
	const char *mount; /* its mount point */
	int dir;           /* the directory of all files, during an operation */
	struct rng rng;
	long written, appended, made, sized; /* for values and names that nobody else uses */
};

/* One random operation; false when the mount was not there. */
bool work_once(struct worker *w);
/* Makes the directories and the files that are never made again. */
void work_begin(struct worker *w);
/* Records the contents of all files. */
void work_final(struct worker *w);

/* Ends the process with a message. */
_Noreturn void give_up(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
