/* The simulated world (tests/sim) with one replica, whose disk and time the test moves, and clients
 * in its process that are nothing but frames. The log's contents are not compared with the model:
 * anything may be asked for. */
#ifndef LSFS_TESTS_BARE_WORLD_H
#define LSFS_TESTS_BARE_WORLD_H

#include "cell/wire/codec.h"
#include "tests/sim/sim.h"

enum { WORLD_LEASE_MS = 12000 };

struct world_frame {
	uint64_t conn;
	struct bytes frame;
	bool taken;
};

struct world_conn {
	struct bare_world *world;
	uint64_t number;   /* of this world; those of a server begin anew with each */
	uint64_t at, life; /* at the server of that life of the process */
};

struct bare_world {
	struct sim_script script;
	struct sim *s;
	struct host *host;
	bool slow_disk;            /* records become durable only by world_persist */
	struct world_conn **conns; /* by number - 1 */
	size_t conns_n, conns_room;
	struct world_frame *inbox; /* the frames of all clients */
	size_t inbox_n, inbox_room;
	uint64_t *closed;
	size_t closed_n, closed_room;
};

/* A client: its connection, its session, and what it numbers. */
struct bare_client {
	struct bare_world *world;
	uint64_t conn, session, epoch, number, sequence, acquisition;
	uint64_t below; /* what it says to have; 0: 1 */
	uint8_t nonce[LIMIT_NONCE];
};

/* A new cell with a serving master. */
struct bare_world *world_new(uint64_t seed);
/* The replica has this state, and has just started. */
struct bare_world *world_of(const struct row_list *rows, uint64_t applied);
void world_free(struct bare_world *w);
/* The process ends; another one starts from what is stored. Connections are gone. */
void world_restart(struct bare_world *w);
/* Until the replica serves. */
void world_elect(struct bare_world *w);
/* The disk writes all that it was given. */
void world_persist(struct bare_world *w);
/* From here on it does not write by itself, or does again. */
void world_slow_disk(struct bare_world *w, bool slow);
void world_pass_ms(struct bare_world *w, int64_t ms);
const struct tree *world_tree(const struct bare_world *w);

/* A connection, by its number; one or more whole frames on it; its end. */
uint64_t world_connect(struct bare_world *w, const char *principal);
/* Adds a principal, so that a client may connect as it. */
void world_add_principal(struct bare_world *w, const char *name);
void world_send(struct bare_world *w, uint64_t conn, struct bytes frames);
void world_disconnect(struct bare_world *w, uint64_t conn);
bool world_closed(const struct bare_world *w, uint64_t conn);

/* An administrator with a session. `name` seeds the nonce. */
struct bare_client bare_open(struct bare_world *w, uint8_t name);
/* A new connection for the same client; and its session on it. */
void bare_connect_anew(struct bare_client *c);
void bare_attach(struct bare_client *c);
void bare_send(struct bare_client *c, const struct message *m);
void bare_send_open(struct bare_client *c);
/* Expects that it was answered. */
void bare_expect_opened(struct bare_client *c);
/* With the second one on a connection it says that all was sent again. */
void bare_send_keepalive(struct bare_client *c);
/* A request under a new number, which is returned; or under a number of the test's choice. */
uint64_t bare_send_op(struct bare_client *c, const struct op *op);
void bare_send_request(struct bare_client *c, uint64_t number, bool ordered, const struct op *op);

/* The next message of this kind for the client that was not taken yet; NULL when there is none.
 * Views stay valid until world_free. */
const struct message *bare_take(struct bare_client *c, enum message_code code);
/* The reply to a request; NULL when there is none yet. */
const struct msg_reply *bare_reply(struct bare_client *c, uint64_t number);
/* Sends, and expects the reply at once. The result is decoded for RC_OK and RC_QUEUED. */
enum rc bare_call(struct bare_client *c, const struct op *op, struct result *result);
/* Creates a file and returns its node. */
uint64_t bare_file(struct bare_client *c, const char *name);
/* Acquires take the client's next acquisition number. */
enum rc bare_lock(struct bare_client *c, uint64_t node, uint64_t owner, enum lock_mode mode);
void bare_unlock(struct bare_client *c, uint64_t node, uint64_t owner, uint64_t acquisition);
struct result_lock bare_look(struct bare_client *c, uint64_t node);

/* Operations. */
struct op op_of_create(const char *name);
struct op op_of_set(uint64_t node, const char *contents);
struct op op_of_get(uint64_t node);
struct op op_of_delete(const char *name);
struct op op_of_get_lock(uint64_t node);
struct op op_of_acquire(uint64_t node, uint64_t owner, uint64_t acquisition, enum lock_mode mode,
                        bool wait);
struct op op_of_release(uint64_t node, uint64_t owner, uint64_t acquisition);
struct op op_of_cancel(uint64_t node, uint64_t owner, uint64_t acquisition);

#endif
