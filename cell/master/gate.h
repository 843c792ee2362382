/* The gate before the log. Each command that changes cachable data passes it: it holds the keys
 * that it will change, from the time when they are computed until it is applied for good, and is
 * proposed when nothing stands in its way. Pure: it knows keys, commands and copies, not the
 * master.
 *
 * A copy is what a session may have cached of a node. A command waits until no session has a copy
 * of a key that it holds: each session that has one gets a notice, which names the key, and drops
 * its copy. The copies go when the session acknowledges the notice, or may cache nothing any more.
 * No session gets a copy of a key that is held. The command's own session may have dropped copies
 * for it before: they do not count.
 *
 * A command that apply has refused with RC_AGAIN, because it would have changed a key that it did
 * not declare, keeps its keys and gets a turn: no command that shares a key with it is proposed
 * before it, but those with an earlier turn. */
#ifndef LSFS_MASTER_GATE_H
#define LSFS_MASTER_GATE_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <stdbool.h>

#include "cell/base/mono.h"
#include "cell/master/master_request.h"
#include "cell/tree/tree.h"

struct gate_pass;
struct gate_session;
struct m_request;
struct master;

/* A key that a command holds, or of which a session has a copy. */
struct gate_key {
	RB_ENTRY(gate_key) link;
	uint64_t key;
	TAILQ_HEAD(gate_holders, gate_hold) holders;
	TAILQ_HEAD(gate_copies, gate_copy) copies;
};

/* A session may have cached something of a node. */
struct gate_copy {
	RB_ENTRY(gate_copy) of_session; /* by key */
	TAILQ_ENTRY(gate_copy) in_key, in_notice;
	struct gate_key *key;
	struct gate_session *session;
	uint64_t leave;             /* the number of the last leave that was given for it */
	struct gate_notice *notice; /* that tells the session to drop it; NULL if none does */
};

/* An invalidation that is not acknowledged. */
struct gate_notice {
	TAILQ_ENTRY(gate_notice) entry;
	uint64_t number;
	bool sent;
	bool everything; /* it names all keys of which the session had a copy */
	mono_t sent_at;
	mono_t late_from; /* the same, and later by the time in which the master did not run */
	TAILQ_HEAD(gate_noticed, gate_copy) copies;
};

/* A session, as the gate knows it. */
struct gate_session {
	TAILQ_ENTRY(gate_session) entry; /* among those with a notice that is not sent */
	uint64_t id;
	RB_HEAD(gate_session_copies, gate_copy) copies;
	size_t copies_n;
	uint64_t leaves;                               /* given so far */
	TAILQ_HEAD(gate_notices, gate_notice) notices; /* the last one may not be sent yet */
	size_t notices_n;
	uint64_t notices_made;
};

struct gate_hold {
	TAILQ_ENTRY(gate_hold) in_key, in_pass;
	struct gate_key *key;
	struct gate_pass *pass;
};

TAILQ_HEAD(gate_passes, gate_pass);

/* One command at the gate, or after it in the log. */
struct gate_pass {
	TAILQ_ENTRY(gate_pass) entry;
	struct gate_passes *list;  /* in which it stands; NULL: in none */
	struct m_request *request; /* NULL: the master's own, or one whose session is to end */
	uint64_t session, number;  /* of the request */
	struct footprint changes;  /* which the command declares, in ascending order */
	struct footprint dropped;  /* the keys of which its session has no copy any more */
	size_t debts;              /* copies that are still in its way */
	TAILQ_HEAD(gate_holds, gate_hold) holds; /* of these keys, and of those declared before */
	uint64_t turn;                           /* among the refused ones; 0: was not refused */
	bool in_log;                             /* proposed, and not applied */
};

struct gate {
	RB_HEAD(gate_keys, gate_key) keys;
	uint64_t turns;             /* given so far */
	size_t turned;              /* passes that have one, and are not in the log */
	struct gate_passes blocked; /* something stands in their way */
	struct gate_passes ready;   /* were blocked, and are to be looked at again */
	struct gate_passes left;    /* in the log, without a request */
	TAILQ_HEAD(gate_sessions, gate_session) untold; /* with a notice that is not sent */
};

/* Initializes the gate of a new master. */
void gate_init(struct gate *g);
/* Frees what is left: the mastership is lost. */
void gate_clear(struct gate *g);

/* ---- sessions and their copies ---- */

/* Initializes a session: it has no copy. */
void gate_session_init(struct gate_session *s, uint64_t id);
/* True if the session may get a copy of the key. */
bool gate_may_copy(const struct gate *g, const struct gate_session *s, uint64_t key);
/* The session, which may get it, gets a copy of the key by its leave number `leave`. */
void gate_copy(struct gate *g, struct gate_session *s, uint64_t key, uint64_t leave);
/* The session has no copy of the key any more, unless a later leave gave it one, or it has a notice
 * of it. */
void gate_give_back(struct gate *g, struct gate_session *s, uint64_t key, uint64_t leave);
/* A session with a notice that is not sent; NULL if there is none. */
struct gate_session *gate_untold(const struct gate *g);
/* The session's last notice is sent at this time. */
struct gate_notice *gate_told(struct gate *g, struct gate_session *s, mono_t now);
/* The master did not run for so long, and could hear no acknowledgement. */
void gate_account_pause(struct gate_session *s, span_t pause);
/* The oldest notice that the session has not acknowledged; NULL if there is none. */
const struct gate_notice *gate_oldest(const struct gate_session *s);
/* The session has dropped what its notices up to this number name. False: no such notice was
 * sent. */
bool gate_acknowledge(struct gate *g, struct gate_session *s, uint64_t upto);
/* The session has no copy any more, and owes no acknowledgement. */
void gate_forget(struct gate *g, struct gate_session *s);

/* ---- commands ---- */

/* The pass of a command, which holds nothing yet; it is freed by gate_leave. */
struct gate_pass *gate_pass_new(struct m_request *r, uint64_t session, uint64_t number);
/* The command declares these changes, which become the pass's own, and holds their keys beside
 * those that it holds already. True if nothing stands in its way; else it is blocked, and ready
 * when that may be over. */
bool gate_enter(struct gate *g, struct gate_pass *p, struct footprint *changes);
/* Takes the pass out of the list in which it stands. */
void gate_take(struct gate_pass *p);
/* The command is proposed. */
void gate_proposed(struct gate *g, struct gate_pass *p);
/* apply has refused the command: it is not in the log any more, and has a turn. */
void gate_refused(struct gate *g, struct gate_pass *p);
/* The command is applied for good, or never will be: its keys are free, and the pass is freed. If
 * it is applied, its session has no copy of a key any more that it had dropped and that is
 * changed. */
void gate_leave(struct gate *g, struct gate_pass *p);
/* The request goes; if its command is in the log, the pass stays until that is applied. */
void gate_abandon(struct gate *g, struct gate_pass *p);

/* ---- gate.c: admission ----
 *
 * Admission of sessions' commands through the gate (gate.h). */

/* True if the request changes what sessions may have cached: they cache no lock, and no openers of
 * a file. */
bool m_admission_bounded(const struct m_request *r);
/* The request names the nodes that its client has dropped from its cache for it. */
void m_admission_note_dropped(struct m_request *r, const struct wire_list *nodes);
/* Computes what the command changes. The list in which it has to wait; NULL: nothing stands in its
 * way. */
struct request_list *m_admission_wait_list(struct master *m, struct m_request *r,
                                           const struct op *op);
/* True if apply may refuse the command, which has been admitted, with RC_AGAIN: then it may have to
 * begin again. */
bool m_admission_revocable(const struct m_request *r);
/* A command that may be admitted now; NULL if there is none. */
struct m_request *m_admission_next(struct master *m);
/* A session's command was applied. True: it is to begin again. `r` NULL: its session is to end, or
 * has ended. */
bool m_admission_applied(struct master *m, struct m_request *r, const struct tree_answer *answer);

/* The pass of an end_session, which is proposed next. It waits for nothing: it declares the nodes
 * of its part if no session has a copy of any of them, else none: they go with the next part. */
struct gate_pass *m_admission_end(struct master *m, struct m_request *r, const struct op *op);

#endif
