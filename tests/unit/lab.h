/* The lab: one replica of a cell of one, on a clock and a disk that the test moves by hand, and
 * clients that are nothing but frames. */
#ifndef LSFS_TESTS_LAB_H
#define LSFS_TESTS_LAB_H

#include "cell/replica/replica.h"
#include "cell/wire/codec.h"

enum { LAB_LEASE_MS = 12000, LAB_CACHE_LEASE_MS = 5000 };

struct lab_frame {
	uint64_t conn;
	struct bytes frame;
	bool taken;
};

struct lab {
	struct replica *replica;
	struct replica_update update;
	mono_t now;
	int64_t wall_ns;
	uint64_t next_conn;
	bool slow_disk; /* records become durable only by lab_persist */
	bool forgets;   /* what is stored is not kept: quicker, and no restart */
	/* The most that one step has done: rows that it changed and frames that it sent; and the
	 * time of the processor that it took. */
	size_t most_pieces;
	span_t most_time;
	uint64_t ticket; /* of the last records */
	size_t entries;  /* log entries written so far */
	struct lab_frame *inbox;
	size_t inbox_n, inbox_room;
	uint64_t *closed;
	size_t closed_n, closed_room;
	struct row_list rows; /* state.db, always durable at once */
	struct ballot promised;
	struct trace trace;
};

/* A client: its connection, its session, and what it numbers. */
struct lab_client {
	struct lab *lab;
	uint64_t conn, session, epoch, number, sequence, acquisition;
	uint64_t below; /* what it says to have; 0: 1 */
	uint8_t nonce[LIMIT_NONCE];
	bool caching;
};

/* A new cell with a serving master. */
struct lab *lab_new(void);
void lab_free(struct lab *lab);
/* The process ends; another one starts from what is stored. Connections are gone. */
void lab_restart(struct lab *lab);
/* The same in two steps; the election is left to the test. */
void lab_stop(struct lab *lab);
void lab_boot(struct lab *lab);
/* It gives the mastership up, and stands for election again like anybody. */
void lab_step_down(struct lab *lab);
/* Of the cell's signing key. */
const uint8_t *lab_public_key(void);
/* The disk syncs all that was written. */
void lab_persist(struct lab *lab);
/* Time passes, and everything that is due on the way happens on time. */
void lab_pass_ms(struct lab *lab, int64_t ms);
/* Time passes, but the process does not run. */
void lab_freeze_ms(struct lab *lab, int64_t ms);
void lab_step(struct lab *lab, struct replica_event event);
bool lab_traced(const struct lab *lab, const char *text);
bool lab_closed(const struct lab *lab, uint64_t conn);

/* A connection, and one with a session opened on it. `name` seeds the nonce. */
struct lab_client lab_connect(struct lab *lab, uint8_t name);
/* An operator changes a setting of the cell; what the cell answers. */
enum rc lab_set_setting(struct lab *lab, const char *name, uint64_t value);
/* The same, and expects that it is done. */
void lab_setting(struct lab *lab, const char *name, uint64_t value);
struct lab_client lab_open(struct lab *lab, uint8_t name);
/* The same, with leave to cache. */
struct lab_client lab_open_caching(struct lab *lab, uint8_t name);
/* A new connection for the same client, without and with its session re-attached. */
void lab_reconnect(struct lab_client *c);
void lab_reattach(struct lab_client *c);
void lab_disconnect(struct lab_client *c);

void lab_send(struct lab_client *c, const struct message *m);
/* Sends open_session for a new session, ending `earlier` if given. */
void lab_send_open(struct lab_client *c, const struct lab_client *earlier);
/* Expects that it was answered. */
void lab_expect_opened(struct lab_client *c);
/* The second one on a connection says, too, that all was sent again. */
void lab_send_keepalive(struct lab_client *c);
/* All that it had to send again was sent. */
void lab_send_returned(struct lab_client *c);
/* Sends a request under a new number, which is returned; or under a number of the test's choice. */
uint64_t lab_send_op(struct lab_client *c, const struct op *op);
void lab_send_request(struct lab_client *c, uint64_t number, bool ordered, const struct op *op);

/* The next message of this kind for the client that was not taken yet; NULL when there is none.
 * Views stay valid until lab_free. */
const struct message *lab_take(struct lab_client *c, enum message_code code);
/* The reply to a request; NULL when there is none yet. */
const struct msg_reply *lab_reply(struct lab_client *c, uint64_t number);

/* Sends, and expects the reply at once. The result is decoded for RC_OK and RC_QUEUED. */
enum rc lab_call(struct lab_client *c, const struct op *op, struct result *result);

/* Shorthands for operations. */
struct op lab_create(const char *name);
struct op lab_set(uint64_t node, const char *contents);
struct op lab_get(uint64_t node);
struct op lab_delete(const char *name);
struct op lab_get_lock(uint64_t node);
struct op lab_acquire(uint64_t node, uint64_t owner, uint64_t acquisition, enum lock_mode mode,
                      bool wait);
struct op lab_release(uint64_t node, uint64_t owner, uint64_t acquisition);
struct op lab_cancel(uint64_t node, uint64_t owner, uint64_t acquisition);
/* Creates a file and returns its node. */
uint64_t lab_file(struct lab_client *c, const char *name);

/* Calls about locks. Acquires take the client's next acquisition number. */
enum rc lab_lock(struct lab_client *c, uint64_t node, uint64_t owner, enum lock_mode mode,
                 bool wait);
void lab_unlock(struct lab_client *c, uint64_t node, uint64_t owner, uint64_t acquisition);
void lab_give_up(struct lab_client *c, uint64_t node, uint64_t owner, uint64_t acquisition);
/* The owner that was granted a lock just now; 0 when nobody was. */
uint64_t lab_granted(struct lab_client *c);
struct result_lock lab_look(struct lab_client *c, uint64_t node);

#endif
