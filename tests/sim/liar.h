/* The faulty replica of a run. */
#ifndef LSFS_SIM_LIAR_H
#define LSFS_SIM_LIAR_H

#include "cell/base/bytes.h"
#include "cell/base/rng.h"

struct host;
struct sim;

enum { LIAR_MEMORY = 16 };

struct liar {
	int id;                         /* 0: all replicas are sound, */
	int greeter;                    /* but for this one, to new replicas; 0: all are */
	struct rng rng;                 /* its own: other seeds are what they were */
	struct bytes said[LIAR_MEMORY]; /* owned */
};

/* Is there one, and how often does it lie? */
void liar_draw(struct sim *s);
/* A frame of the faulty replica, or what it says in its place, and besides. */
void liar_send(struct sim *s, int to, struct bytes frame);
/* A new replica requests the signing key. */
void liar_greet(struct sim *s, const struct host *n);
/* How long an election may take longer when it has fallen silent: rounds that some were led to are
 * reached by the others at the same pace. */
int64_t liar_delay(const struct sim *s);
void liar_free(struct liar *l);

#endif
