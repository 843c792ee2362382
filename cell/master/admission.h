/* Admission of sessions' commands through the gate (gate.h). */
#ifndef LSFS_MASTER_ADMISSION_H
#define LSFS_MASTER_ADMISSION_H

#include "cell/master/gate.h"
#include "cell/master/order.h"
#include "cell/wire/codec.h"

struct master;
struct m_request;

/* The request names the nodes that its client has dropped from its cache for it. */
void m_admission_note_dropped(struct m_request *r, const struct wire_list *nodes);
/* Computes what the command changes. The list in which it has to wait; NULL: nothing stands in its
 * way. */
struct request_list *m_admission_wait_list(struct master *m, struct m_request *r,
                                           const struct op *op);
/* True if apply may refuse the command, which has been admitted, with RC_AGAIN: then it may have to
 * begin once more. */
bool m_admission_revocable(const struct m_request *r);
/* A command that may be admitted now; NULL: there is none. */
struct m_request *m_admission_next(struct master *m);
/* A session's command was applied. True: it is to begin once more. `r` NULL: its session is to end,
 * or has ended. */
bool m_admission_applied(struct master *m, struct m_request *r, const struct tree_answer *answer);

/* The pass of an end_session, which is proposed next. It waits for nothing: it declares the nodes
 * of its part if no session has a copy of any of them, else none, and these go with the next part.
 */
struct gate_pass *m_admission_end(struct master *m, struct m_request *r, const struct op *op);

#endif
