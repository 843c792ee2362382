/* must(cond): an assertion that stays on in every build.
 *
 * It states a guarantee of our own code; input from peers, clients and disks is checked with `if`
 * and answered with an error. A broken guarantee ends the process at once: the other replicas of a
 * cell tolerate a stopped replica, but not a wrong one. */
#ifndef LSFS_BASE_MUST_H
#define LSFS_BASE_MUST_H

/* Prints "FILE:LINE: broken invariant: CONDITION" on stderr and aborts, within about a second even
 * when stderr is not read. */
_Noreturn void must_fail(const char *condition, const char *file, int line);

#define must(condition) ((condition) ? (void)0 : must_fail(#condition, __FILE__, __LINE__))

#endif
