/* Entries for the log. Commands are put together until the entry is complete: a release and the
 * grant that follows from it are one entry, so a lock changes hands with one commit. */
#ifndef LSFS_MASTER_PROPOSAL_H
#define LSFS_MASTER_PROPOSAL_H

#include <bsd/sys/queue.h>
#include "cell/base/bytes.h"
#include "cell/wire/codec.h"

struct master;
struct m_request;
struct m_session;
struct gate_pass;

/* A command of the master's own that is proposed and not applied. Such commands are applied in the
 * order in which they were proposed. */
struct own_command {
	TAILQ_ENTRY(own_command) entry;
	enum op_code op;
	struct gate_pass *pass;                     /* of an end_session or finish_session */
	uint64_t connection;                        /* create_session */
	uint64_t session, node, owner, acquisition; /* grant; session: end_session */
	uint8_t setting;                            /* settle_setting */
};

struct proposals {
	struct buffer commands; /* of the entry that is being put together, encoded */
	uint32_t commands_n;
	TAILQ_HEAD(own_commands, own_command) own;
};

/* Initializes the proposals of a new master. */
void m_proposals_init(struct master *m);
/* Forgets what is proposed and not applied: the mastership is lost. */
void m_proposals_clear(struct master *m);
/* Frees the room of the entry. */
void m_proposals_free(struct master *m);
/* Adds the session's command, as it was received, to the entry. */
void m_propose_request(struct master *m, const struct m_session *s, const struct m_request *r);
/* The same with another operation, which is encoded. */
void m_propose_as(struct master *m, const struct m_session *s, const struct m_request *r,
                  struct bytes op);
/* Adds a command of the master's own to the entry, on behalf of `session` or of none (0). The
 * caller fills in the fields that the kind of command uses. */
struct own_command *m_propose(struct master *m, uint64_t session, const struct op *op);
/* The same for the grant to a waiter, which acts for this user. */
struct own_command *m_propose_for(struct master *m, struct bytes user, const struct op *op);
/* The same for a command that has passed the gate, and declares what it changes. */
struct own_command *m_propose_bounded(struct master *m, uint64_t session, const struct op *op,
                                      struct gate_pass *pass);
/* The entry is complete, and proposed; without commands there is none. */
void m_propose_flush(struct master *m);
/* Takes out the oldest command of the master's own, which was applied and is an `op`; it has left
 * the gate. The caller frees it. */
struct own_command *m_proposal_applied(struct master *m, enum op_code op);

#endif
