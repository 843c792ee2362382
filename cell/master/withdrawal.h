/* Acquires that a cancel or a release has withdrawn. Each is remembered until its number is below
 * the session's `below`: an acquire of a lower number that is received (again) after it must not
 * take the lock any more. */
#ifndef LSFS_MASTER_WITHDRAWAL_H
#define LSFS_MASTER_WITHDRAWAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdint.h>

struct withdrawal {
	RB_ENTRY(withdrawal) link; /* by node, owner, acquisition */
	TAILQ_ENTRY(withdrawal) entry;
	uint64_t number; /* of the cancel or release */
	uint64_t node, owner, acquisition;
};

RB_HEAD(withdrawal_tree, withdrawal);

/* Those of one session. */
struct withdrawals {
	struct withdrawal_tree by_name;
	TAILQ_HEAD(withdrawal_list, withdrawal) received; /* in the order of arrival */
};

/* Initializes those of a new session. */
void m_withdrawals_init(struct withdrawals *w);
/* The number of the first cancel or release that withdrew the acquire; 0: none has. */
uint64_t m_withdrawals_find(const struct withdrawals *w, uint64_t node, uint64_t owner,
                            uint64_t acquisition);
/* Remembers a cancel or release of this number, unless one of this acquire is remembered. */
void m_withdrawals_add(struct withdrawals *w, uint64_t number, uint64_t node, uint64_t owner,
                       uint64_t acquisition);
/* Forgets those whose numbers are lower than `below`. */
void m_withdrawals_forget(struct withdrawals *w, uint64_t below);

#endif
