/* One question to several replicas at once, and their answers: what ask.c is made of. */
#ifndef LSFS_VIEW_ASKING_H
#define LSFS_VIEW_ASKING_H

#include "cell/net/transport.h"
#include "cell/view/ask.h"

struct asking {
	const struct cell_file *cell_file;
	const struct message *question;
	enum message_code code; /* of the answer */
	int patience_ms;
	bool one_suffices; /* after a first answer the other replicas have a moment */
	bool on_host;      /* the key is that of a replica on this machine */
	bool datagrams; /* after its answer a replica is sent datagrams, one of which it answers */
	/* Called with the answer of replicas[i]; true: no further answer is needed. */
	bool (*take)(struct asking *a, int i, const struct message *m);
	void *user;

	char why[LIMIT_REPLICAS][160]; /* the reason for no answer; empty: the replica answered */
	struct transport *transport;
	uv_loop_t loop;
	uv_timer_t timer;
	uint64_t conns[LIMIT_REPLICAS];
	int open;     /* questions without an answer */
	bool heard;   /* a replica has answered */
	bool refused; /* a replica refused us for a reason that a repetition would not change: */
	int refuser;  /* its index */
};

/* Asks replicas[only] or, when that is negative, all replicas, and returns when all have answered,
 * or the time has passed. False after an error message. */
bool asking_run(struct asking *a, const struct noise_pair *key, int only);
/* Says in `why` that replicas[i] did not answer, and for what reason. */
void asking_failure(const struct asking *a, int i, char why[256]);

#endif
