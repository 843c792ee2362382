/* Principals that were removed: nothing of theirs goes on. The removal is one entry of the log;
 * then the master ends their sessions, each by an entry of its own, and a new master goes on with
 * it. */
#ifndef LSFS_MASTER_REMOVED_PRINCIPAL_H
#define LSFS_MASTER_REMOVED_PRINCIPAL_H

#include "cell/tree/tree.h"

struct master;

struct removed_principals {
	bool due;       /* sessions may be left whose principal was removed */
	uint64_t after; /* those up to this one have been looked at */
};

/* True if the session's principal was removed; another one may have its name now. */
bool m_removed_owns(const struct master *m, const struct tree_session *t);
/* A principal was removed: its connections are closed, and its sessions are to end. */
void m_removed_note(struct master *m, const struct tree_note *note);
/* Orders the end of sessions, as many as the step has time for. */
void m_removed_run(struct master *m);
/* The mastership is over. */
void m_removed_clear(struct master *m);

#endif
