/* must(cond): an assertion that stays on in every build.
 *
 * It states what our own code guarantees; what peers, clients and disks send is checked with `if`
 * and answered with an error. A broken guarantee ends the process at once: for a replicated service
 * a stopped replica is a fault that the others cover, a wrong one is not. */
#ifndef LSFS_BASE_MUST_H
#define LSFS_BASE_MUST_H

/* Says on stderr where and what, and aborts. */
_Noreturn void must_fail(const char *condition, const char *file, int line);

#define must(condition) ((condition) ? (void)0 : must_fail(#condition, __FILE__, __LINE__))

#endif
