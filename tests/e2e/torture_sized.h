/* Files whose value is their size, so that stat tells it, too. They are named s0, s1, ..., change
 * seldom, and are looked at all the time: mostly mounts answer from what they have cached. */
#ifndef LSFS_TESTS_TORTURE_SIZED_H
#define LSFS_TESTS_TORTURE_SIZED_H

#include "tests/e2e/torture.h"

/* Theirs alone, below the root: a name is not cached while names beside it come and go. */
#define SIZED_DIRECTORY "s"

/* Makes them. */
void sized_make(struct worker *w);
/* Gives one of them a size that no file had before. */
void sized_write(struct worker *w);
/* Looks at them, by stat or by open and read, in a process of its own. A look that is not answered
 * soon is left alone: while the mount's daemon is frozen others must begin, because those that
 * begin after a write elsewhere would show what the daemon has not forgotten when it goes on. */
void sized_look(struct worker *w);
/* Replaces contents, a string, by their value. */
void sized_value(char *text);

#endif
