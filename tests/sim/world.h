/* What replicas and machines of the simulator stand on: time, events and the network. */
#ifndef LSFS_SIM_WORLD_H
#define LSFS_SIM_WORLD_H

#include <bsd/sys/queue.h>
#include "cell/base/mono.h"
#include "cell/base/rng.h"
#include "cell/client/client.h"
#include "cell/config/cell_file.h"
#include "cell/replica/replica.h"
#include "cell/wire/datagram.h"
#include "tests/sim/clocks.h"

enum {
	LINK_PATIENCE_MS = 5000, /* with a connection that does not come about */
	LEASE_MS = 500,          /* the master's, if nobody sets another one */
	MACHINES_MAX = 5,
	PROCESSES_MAX = 5,
	NAME_ROOM = 16,
	BURST_MAX = 6,    /* requests that one process has under way */
	BULK_WRITES = 64, /* but for one with much to write: so many of so many bytes */
	BULK_BYTES = 64 * 1024,
	HOSTS_MAX = 16, /* replicas that a run ever has; ids are never used again */
	OPERATORS_MAX = 2,
	MINOR_NEWEST = 1, /* of the minor versions that programs speak here */
};

struct sim;
struct host;

/* ---- heap.c ---- */

struct event {
	int64_t at;
	uint64_t sequence;
	void (*run)(struct sim *s, struct event *e);
	int who;       /* node or machine */
	uint64_t life; /* of the node or machine; an event of an earlier life is dropped by `run` */
	uint64_t a, b; /* what `run` makes of them */
	struct bytes data; /* owned */
	int64_t sent;      /* what it brings was sent then, and is not received before */
};

struct heap {
	struct event *events;
	size_t n, room;
	uint64_t sequence;
};

/* Puts a copy in; takes `e.data` over. */
void heap_push(struct heap *h, struct event e);
/* The event, which has no data, once more at another time. */
void heap_again(struct heap *h, const struct event *e, int64_t at);
/* Puts back an event that was taken, for later: it stays in front of those made after it. */
void heap_put_off(struct heap *h, struct event e);
/* After the times of events were changed. */
void heap_sort(struct heap *h);
/* False when it is empty. */
bool heap_pop(struct heap *h, struct event *e);

/* ---- uplink.c ---- */

/* Bytes a second: 5 and 100 Mbit/s. */
#define UPLINK_SLOWEST ((int64_t)625000)
#define UPLINK_FASTEST ((int64_t)12500000)

struct outgoing;

/* The frames of one connection, in one direction, that have not left. */
struct lane {
	TAILQ_ENTRY(lane) entry; /* while it waits for its turn */
	TAILQ_HEAD(outgoing_list, outgoing) frames;
	bool waits;
};

struct uplink {
	struct outgoing_list coming;   /* that a turn is going to send, in that order */
	TAILQ_HEAD(, lane) busy_lanes; /* in the order of their turns */
	int64_t busy_until;            /* by then all that it was given has left */
	bool runs;                     /* an event will go on */
};

/* Draws how fast uplinks are. */
void uplinks_init(struct sim *s);
void lane_init(struct lane *l);
/* What has not left never will. `end`: whose uplink it is. */
void lane_clear(struct sim *s, int end, struct lane *l);
/* The sender closes it: only what has begun to leave still does. */
void lane_close(struct lane *l);
/* `e` happens when its data have left, not before its own time. Only when rates are limited. */
void uplink_send(struct sim *s, int end, struct lane *l, struct event e);

/* ---- net.c ---- */

/* One end of the datagrams beside a connection, and the numbers of those that it has opened. */
struct datagrams_end {
	struct datagrams datagrams;
	uint64_t *opened;
	size_t opened_n, opened_room;
};

struct conn {
	uint64_t id;
	int machine, node; /* from MACHINES_MAX on: of an operator; from SCRIPTED on: of a script */
	bool aside;        /* the client's second one, on which it only listens */
	uint8_t seat;      /* whose key its client has: SEAT_ADMIN, or of another principal */
	uint64_t machine_life, node_life;
	bool client_open, node_open;
	bool denied;  /* the replica has said that it does not know the key */
	int64_t base; /* latency of its own */
	int64_t last_to_node,
	    last_to_client;                 /* frames arrive in the order in which they were sent */
	int64_t cut_to_node, cut_to_client; /* what would arrive later is lost */
	int64_t stalled_until;
	struct lane lane_to_node, lane_to_client;
	struct datagrams_end client_end, node_end;
	bool held;          /* the replica does not read from it: */
	struct heap unread; /* what has come */
	size_t unsent;      /* bytes that the client has not read */
	struct notice {
		uint64_t number, generation;
		int64_t sent;
	} * notices; /* that the replica has sent, and whose acknowledgement has not come */
	size_t notices_n, notices_room;
	int64_t keepalive_sent; /* the last one, by the client */
	int64_t lease_over;     /* a reply comes then, if a lease was shortened for that; else 0 */
};

/* A connection that one replica has dialed to another one. The ends: the one that has dialed, the
 * other. */
struct link {
	uint64_t index;
	int line; /* 0: for what is short, 1: for bulk */
	struct link_end {
		int host; /* its id */
		uint64_t life;
		enum { LINK_NONE, LINK_SHAKING, LINK_OPEN, LINK_CLOSED } state;
		struct lane lane; /* what it sends */
		int64_t last;     /* what comes to it comes in the order in which it was sent */
		int64_t cut;      /* what would come later is lost */
	} ends[2];
};

enum { LINKS = 2 }; /* lines */

/* Replicas, machines, operators and all scripted clients together, as far as the network tells them
 * apart; and the number of the first scripted client among the machines. */
enum {
	ENDS = HOSTS_MAX + MACHINES_MAX + OPERATORS_MAX + 1,
	SCRIPTED = MACHINES_MAX + OPERATORS_MAX,
};

struct net {
	struct conn **conns; /* by id - 1; never removed: late frames name them */
	size_t n, room;
	struct link **links; /* by index; never removed: late frames name them */
	size_t links_n, links_room;
	struct link *latest[HOSTS_MAX][HOSTS_MAX][LINKS]; /* from, to */
	struct uplink uplinks[ENDS];
	int64_t cut_until[ENDS][ENDS]; /* from, to */
	int64_t narrow_until[ENDS];    /* from this end only short messages arrive */
};

static inline int
end_of_node(int node)
{
	return node;
}

/* Of a replica, by its id from 1 on. */
static inline int
end_of_host(int id)
{
	return id - 1;
}

static inline int
end_of_machine(int machine)
{
	return HOSTS_MAX + (machine < SCRIPTED ? machine : SCRIPTED);
}

/* Frames and news travel by events; data is copied. */
void net_free(struct sim *s);
/* What is sent from here to there arrives when that time has come. */
void net_cut(struct sim *s, int from, int to, int64_t until);
/* The time before which nothing that is sent from here arrives there. */
int64_t net_cut_until(const struct sim *s, int from, int to, bool bulk);
void net_cut_both(struct sim *s, int a, int b, int64_t until);
/* Both ways between two replicas, by their ids. */
void net_cut_replicas(struct sim *s, int a, int b, int64_t until);
void net_heal(struct sim *s);
/* "client 2", "operator 1". */
const char *net_who(const struct conn *c);
uint64_t net_connect(struct sim *s, int machine, int node, bool aside, uint8_t seat);
void net_to_node(struct sim *s, uint64_t conn, struct bytes frame);
void net_to_client(struct sim *s, uint64_t conn, struct bytes frame);
void net_client_drops(struct sim *s, uint64_t conn);
/* The replica lets go: false when it is closed already. */
bool net_node_closes(struct sim *s, uint64_t conn);
/* It does not read any more, or goes on; what it has sent and the client has not read; is it open
 * for the replica? */
void net_hold(struct sim *s, uint64_t conn, bool on);
size_t net_unsent(struct sim *s, uint64_t conn);
/* When nobody has anything to say any more every connection is read from. */
void net_check_end(struct sim *s);
bool net_is_open(struct sim *s, uint64_t conn);
void net_break(struct sim *s, struct conn *c);
void net_node_died(struct sim *s, int node);
struct conn *net_random_open(struct sim *s);
struct conn *net_conn(struct sim *s, uint64_t id);
bool net_is_operators(const struct conn *c);
bool net_is_scripted(const struct conn *c);
/* How long a frame is under way now; when what is sent now arrives; when it leaves the replica, and
 * when what has left it then arrives. */
int64_t net_latency(struct sim *s, const struct conn *c);
int64_t net_at_node(struct sim *s, const struct conn *c);
int64_t net_departure(const struct sim *s, const struct conn *c);
int64_t net_at_client(struct sim *s, const struct conn *c, int64_t sent);

/* ---- net_frames.c ---- */

/* What comes to either end, at that time or as soon as it can. */
void net_push_to_node(struct sim *s, struct conn *c, int64_t at, enum replica_event_kind kind,
                      struct bytes data);
void net_push_to_client(struct sim *s, struct conn *c, int64_t sent, int64_t at,
                        enum client_event_kind kind, struct bytes data);
void net_send_to_client(struct sim *s, struct conn *c, enum client_event_kind kind,
                        struct bytes frame);

/* ---- datagrams.c ---- */

/* The client's end, or the replica's, of the datagrams beside a connection. */
struct datagrams_end datagrams_end_of(uint64_t conn, bool client);
void datagrams_end_free(struct datagrams_end *e);
/* Sends a frame as a datagram beside the connection. */
void net_datagram_to_node(struct sim *s, uint64_t conn, struct bytes frame);
void net_datagram_to_client(struct sim *s, uint64_t conn, struct bytes frame);

/* ---- link.c ---- */

/* Is it the number of one? */
bool link_is(uint64_t conn);
/* Replica `from` dials whoever has this address and key; what its server's connect, send, close and
 * key do. */
uint64_t link_dial(struct sim *s, int from, const char *address, bool bulk, const uint8_t *key);
void link_send(struct sim *s, uint64_t conn, struct bytes frame);
/* Likewise, on whichever connection the one has dialed to the other, if it is open: for one that
 * says what its server does not. */
void link_put(struct sim *s, int from, int to, struct bytes frame);
bool link_close(struct sim *s, uint64_t conn);
const uint8_t *link_key(struct sim *s, uint64_t conn);
/* The connections that the one has dialed to the other break. */
void link_break(struct sim *s, int from, int to);
/* Nothing is in its way any more: what waits arrives now. */
void link_heal(struct sim *s, int from, int to);
void link_node_died(struct sim *s, int node);
void links_free(struct sim *s);

/* ---- gates.c ---- */

/* Each replica that there ever is has an address and a key of its own, made from a number. */
struct seat {
	uint8_t id, role;
	uint8_t body; /* whose address and key; 0: nobody's */
};

struct seats {
	uint64_t version;
	struct seat list[LIMIT_MEMBERS];
	int n;
};

/* Whose key clients have; somebody whose key nobody knows. */
enum { SEAT_ADMIN = UINT8_MAX, SEAT_STRANGER = UINT8_MAX - 1, SEAT_GUEST = UINT8_MAX - 2 };

/* Views that stay. */
const uint8_t *seat_key(uint8_t body);
struct member seat_member(struct seat seat);
struct seat seat_of(const struct member *m);
const struct seat *seats_find(const struct seats *seats, uint8_t id);
void seats_of_cell_file(struct seats *to, const struct cell_file *cell_file);
/* A cell file with these members and the administrator's key. */
void cell_file_of_seats(struct cell_file *to, const struct seats *seats);
void seats_of_list(struct seats *to, uint64_t version, struct wire_list list);
/* The members that a replica lets in and connects to, from here on. An older list than the last is
 * ignored. */
void gate_set(struct host *n, const struct seats *seats);
/* Is there a connection on which the one can send to the other? */
bool gate_passes(const struct sim *s, int from, int to);

#endif
