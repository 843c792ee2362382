/* A request proves two things by codes that only a replica can make: the rights that its handle had
 * at the open, and its place in a queue. */
#ifndef LSFS_MASTER_REQUEST_PROOF_H
#define LSFS_MASTER_REQUEST_PROOF_H

#include "cell/wire/codec.h"

struct master;
struct m_session;
struct requester;

/* True when the rights of a handle on the node are shown by their check digits, or none are
 * claimed. */
bool m_proof_of_rights(struct master *m, const struct m_session *s, const struct msg_request *msg,
                       uint64_t node);
/* True when a master gave the acquire its ticket, or it is no acquire. */
bool m_proof_of_place(struct master *m, const struct m_session *s, const struct op *op);
/* The check digits of the rights with which the requester may open a handle of the node, in
 * `digits`; node 0: of none. */
struct bytes m_proof_for(struct master *m, const struct requester *who, uint64_t node,
                         uint8_t rights, uint8_t digits[LIMIT_CHECK]);

#endif
