/* A whole cell in memory: several replicas with disks of their own and real clients, on one clock
 * that the test moves. A message takes a millisecond, a sync two; nothing else takes time. */
#ifndef LSFS_TESTS_REPLICA_CELL_H
#define LSFS_TESTS_REPLICA_CELL_H

#include "cell/client/client.h"
#include "cell/replica/replica.h"
#include "tests/unit/row_store.h"

enum {
	CELL_REPLICAS = 24, /* over time */
	CELL_CLIENTS = 64,
	CELL_ANSWERS = 256,
	CELL_LEASE_MS = 12000,
	CELL_CACHE_LEASE_MS = 5000,
};

struct cell;

struct cell_answer {
	uint64_t token;
	enum rc rc;
	mono_t at;
	uint64_t node, lock_generation, fence;
	char contents[64];
};

struct cell_client {
	struct cell *cell;
	int id;
	struct client *client;
	struct client_update update;
	uint64_t conn, aside; /* 0: none */
	bool frozen;
	uint64_t tokens, acquisitions;
	struct cell_answer answers[CELL_ANSWERS];
	size_t answers_n;
	struct client_grant grants[CELL_ANSWERS];
	mono_t granted_at[CELL_ANSWERS];
	size_t grants_n;
	unsigned lost; /* sessions */
};

struct cell_entry { struct log_entry entry; }; /* owns its payload; slot 0: none */

struct cell_replica {
	struct cell *cell;
	uint8_t id;
	struct replica *replica; /* NULL: down */
	struct replica_update update;
	bool frozen;  /* nothing reaches it, its connections stay */
	bool cut_off; /* from the other replicas */
	bool deaf;    /* to what they send */
	bool stuck;   /* its disk */
	bool copying; /* the state of another one */
	bool gone;    /* for good: the test's word */
	uint32_t minor; /* version that its program speaks */
	struct px_members file; /* what its cell file says: who the members were when it was made */
	struct trace trace;
	bool diverged, members_changed; /* as its updates told */
	uint64_t life;
	uint64_t durable; /* ticket */
	/* The disk. */
	struct cell_entry *log;
	size_t log_n, log_room;
	struct ballot promised;
	uint64_t chosen, trimmed, incarnation;
	span_t lease;
	struct mark marks[LIMIT_REPLICA_ID + 1];
	struct row_store rows; /* read by the next start if the cell saves */
};

/* Who has asked for something on a connection without a session, and what came on it. */
struct cell_operator {
	uint64_t conn;
	bool gone, redirected, wants_members;
	struct bytes frame; /* the last answer; owned */
	struct message m;   /* views of it */
};

struct cell {
	mono_t now;
	int replicas_n, clients_n, first_n; /* replicas that it began with */
	bool saves; /* state.db is durable soon after, and the log is trimmed; else never */
	uint64_t digest_every, seed;
	struct cell_operator operator;
	struct cell_replica replicas[CELL_REPLICAS]; /* by id - 1 */
	struct cell_client clients[CELL_CLIENTS];
	struct cell_post *posts;
	size_t posts_n, posts_room;
	uint64_t sequence;
	struct cell_conn *conns; /* by id - 1 */
	size_t conns_n, conns_room;
};

/* A new cell; returns with a serving master. */
struct cell *cell_new(int replicas);
struct cell *cell_new_seeded(int replicas, uint64_t seed);
void cell_free(struct cell *cell);
void cell_pass_ms(struct cell *cell, int64_t ms);

/* The one that serves; NULL: nobody does. */
struct cell_replica *cell_master(struct cell *cell);
/* Time passes until somebody serves. */
struct cell_replica *cell_await_master(struct cell *cell);
/* A new replica starts, of the next id, which the cell has as a member already. */
struct cell_replica *cell_join(struct cell *cell);
void cell_kill(struct cell_replica *r);
void cell_start(struct cell_replica *r);
void cell_freeze(struct cell_replica *r);
void cell_thaw(struct cell_replica *r);
void cell_stop_cleanly(struct cell_replica *r);
/* All that run have applied the same. */
void cell_check_agreement(struct cell *cell);

/* A step of one replica, and whether its trace has this text since its start. */
void cell_replica_event(struct cell_replica *r, struct replica_event event);
bool cell_traced(const struct cell_replica *r, const char *text);

/* A message on a new connection to a replica; what comes on it is in cell->operator. */
void cell_say(struct cell_replica *r, const char *principal, const struct message *m);
/* The same, and time passes until there is an answer of this kind, or none will come: NULL. */
const struct message *cell_question(struct cell_replica *r, const char *principal,
                                    const struct message *m, enum message_code answer);
/* An administrator asks the master, the next one if it is it no more, until there is an answer. */
struct msg_operated cell_operate(struct cell *cell, const struct msg_operate *m);
/* The address and the key of a replica. */
struct member cell_member(uint8_t id, enum member_role role);

/* A client whose session is safe; it is configured with the replicas that the cell began with. */
struct cell_client *cell_client(struct cell *cell, bool caching);
void cell_client_freeze(struct cell_client *c);
void cell_client_thaw(struct cell_client *c);
void cell_client_close(struct cell_client *c);
/* The replica at the other end of its second connection. */
struct cell_replica *cell_listened_to(const struct cell_client *c);
enum client_state cell_client_state(const struct cell_client *c);

/* Makes a request; returns its token. */
uint64_t cell_ask(struct cell_client *c, const struct op *op);
/* The answer to it; NULL: there is none yet. */
const struct cell_answer *cell_answer(const struct cell_client *c, uint64_t token);
/* Time passes until there is one, at most `ms`. */
const struct cell_answer *cell_await(struct cell_client *c, uint64_t token, int64_t ms);
/* Asks, and expects RC_OK within a few milliseconds. */
const struct cell_answer *cell_call(struct cell_client *c, const struct op *op);

uint64_t cell_file(struct cell_client *c, const char *name);
uint64_t cell_append(struct cell_client *c, uint64_t node, const char *text);
const char *cell_read(struct cell_client *c, uint64_t node);
uint64_t cell_lock(struct cell_client *c, uint64_t node, enum lock_mode mode, bool wait);
uint64_t cell_unlock(struct cell_client *c, uint64_t node, uint64_t acquisition);
/* Was the acquisition granted? */
bool cell_granted(const struct cell_client *c, uint64_t acquisition);

#endif
