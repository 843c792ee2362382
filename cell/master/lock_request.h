/* Acquire, release and cancel: what is proposed at once, and what waits in the lock's queue. */
#ifndef LSFS_MASTER_LOCK_REQUEST_H
#define LSFS_MASTER_LOCK_REQUEST_H

#include "cell/wire/codec.h"

struct master;
struct m_request;
struct m_session;

/* True when a master gave the acquire its ticket. The key that proved it is no longer in force when
 * the cell's key was rotated twice since; but what has the lock by now must be told so. */
bool m_lock_genuine(struct master *m, const struct m_session *s, const struct acquire *a);
/* Begins an acquire: it is proposed, put into the queue, or refused. */
void m_lock_acquire(struct master *m, struct m_session *s, struct m_request *r);
/* apply has found the lock busy for an acquire that may wait. */
void m_lock_acquire_refused(struct master *m, struct m_session *s, struct m_request *r);
/* Begins a release: it is proposed with the grants that follow from it. */
void m_lock_release(struct master *m, struct m_session *s, struct m_request *r,
                    const struct op_release *op);
/* Begins a cancel: as a release. */
void m_lock_cancel(struct master *m, struct m_session *s, struct m_request *r,
                   const struct op_cancel *op);
/* Begins an end_session of a client: it is proposed with the grants that follow from it. */
void m_lock_end_session(struct master *m, struct m_session *s, struct m_request *r,
                        const struct op_end_session *op);
/* The entry that is being put together ends the session, or part of what it has left: adds the
 * grants that follow. */
void m_lock_session_ends(struct master *m, uint64_t session, enum session_end cause);
/* That entry ends the node's lock-delay: adds the grants that follow. */
void m_lock_delay_ends(struct master *m, uint64_t node);
/* A release or cancel with this number was received, perhaps not for the first time: an earlier
 * acquire of this name gets no lock any more. Returns true when it stood in the queue. */
bool m_lock_withdraw(struct master *m, struct m_session *s, uint64_t number, uint64_t node,
                     uint64_t owner, uint64_t acquisition);
/* Answers the session's acquires that stand in queues and are not answered: its await bit is
 * raised. */
void m_lock_reply_queued(struct master *m, struct m_session *s);

#endif
