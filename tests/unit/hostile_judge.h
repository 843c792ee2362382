/* The judgement of how a master treats a client that breaks the rules: which of its messages cost
 * it the connection, and which answers it may get. It is told every frame that is delivered, and
 * every answer, and ends the test at the first that is wrong. Where numbers were used twice, so
 * that more than one answer is right, it says nothing. */
#ifndef LSFS_TESTS_HOSTILE_JUDGE_H
#define LSFS_TESTS_HOSTILE_JUDGE_H

#include "cell/tree/tree.h"
#include "cell/wire/codec.h"

struct judge {
	const struct tree *tree; /* of the master */
	struct asked {
		uint64_t session, number;
		enum op_code code;
		struct acquire acquire;
		bool ambiguous; /* several requests, or epochs, had this number */
		bool refused;   /* `rc` is the only answer that it may get */
		uint64_t
		    gave_up;   /* it is refused since the request of this number; 0: not by that */
		bool answered; /* by `rc` and `result`: so it is whenever it is asked again */
		enum rc rc;
		struct bytes result;
	} * asked;
	size_t asked_n, asked_room;
	struct given_up { /* acquisitions that a release or a cancel has named, of this epoch */
		uint64_t session, number, node, owner, acquisition;
	} * given_up;
	size_t given_up_n, given_up_room;
	struct told_below { /* the highest that a session has said */
		uint64_t session, below;
	} * below;
	size_t below_n, below_room;
	struct issued { /* tickets that were told */
		uint64_t session;
		bool any; /* nobody can say for which acquire */
		struct acquire acquire;
	} * issued;
	size_t issued_n, issued_room;
	uint64_t
	    judged[4]; /* how often: a breach; an old epoch; a refused acquire; a repeated answer */
};

void judge_free(struct judge *j);
/* Another master: it knows nothing of what was given up under the one before. */
void judge_new_master(struct judge *j);
/* Does this message, on a connection where that live session is open, break a rule? */
bool judge_is_breach(struct judge *j, uint64_t session, const struct message *m);
/* It was delivered, and is no breach. */
void judge_sent(struct judge *j, uint64_t session, const struct message *m);
/* The answer to a request of the session; NULL, or what is wrong with it. */
const char *judge_answer(struct judge *j, uint64_t session, const struct msg_reply *r);
/* An opening by this nonce and principal was answered with the session; likewise. */
const char *judge_opened(const struct judge *j, uint64_t session, struct bytes nonce,
                         struct bytes principal);

#endif
