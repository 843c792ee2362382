/* Which faults there are, how often a seed has each, and those that wait for their moment. */
#ifndef LSFS_SIM_FAULTS_H
#define LSFS_SIM_FAULTS_H

#include "cell/paxos/px.h"
#include "cell/server/server.h"
#include "tests/sim/world.h"

struct machine;

enum fault {
	FAULT_CONN_BREAKS,
	FAULT_CONN_STALLS,
	FAULT_CONN_LATE, /* a connection is slow from its beginning */
	FAULT_CLIENT_CRASHES,
	FAULT_CLIENT_PAUSES,
	FAULT_CLIENT_CLOSES,
	FAULT_CLIENT_CUT_OFF,
	FAULT_CLIENT_CLOCK_JUMPS, /* forward, as a suspended machine's does */
	FAULT_CRASH,
	FAULT_PAUSE,
	FAULT_STOP,
	FAULT_DISK_SLOW,
	FAULT_DISK_STUCK,
	FAULT_DISK_FULL,
	FAULT_FSYNC,
	FAULT_BLACKOUT, /* all replicas crash */
	FAULT_FREEZE,   /* everything pauses */
	FAULT_MASTER,   /* one of these strikes the master */
	FAULT_CUT_OFF,
	FAULT_HALVES,
	FAULT_SWIZZLE,
	FAULT_LINK_BREAKS,
	FAULT_MESSAGE_LOST,
	FAULT_MESSAGE_DOUBLED,
	FAULT_MESSAGE_LATE,
	FAULT_CLOCK_RATE,
	FAULT_CLOCK_STANDS, /* wild clocks only */
	FAULT_WALL_JUMPS,   /* what stamps come from, in either direction */
	FAULT_DESTROY,      /* an operator ends a session */
	FAULT_ALL_STUCK,    /* all disks */
	FAULT_AT_PROMISE,   /* a crash when a promise is being written */
	FAULT_RELAY,        /* a master goes when the one before comes back */
	FAULT_AT_DELAY,     /* a holder goes as the delay of another one ends */
	FAULT_PINCH,        /* who granted the lease crash, and somebody stands */
	FAULT_ROT_LOG,      /* an entry of the log is damaged */
	FAULT_ROT_STATE,    /* a row of the state is */
	FAULT_WIPED,        /* the data directory is emptied */
	FAULT_OLD_COPY,     /* an earlier copy of it is put in its place */
	FAULT_WRITES_LOST,  /* a crash took what was not synced */
	FAULT_REFUSED,      /* a start in the boot in which the disk failed */
	FAULT_AT_RELEASE,   /* a waiter's session ends as the lock comes free */
	FAULT_AT_HOLD,      /* a session ends that has several locks, or shares one */
	FAULT_RACE,         /* a lease ends as another one begins */
	FAULT_RESTORED,     /* no fault: a copy became a new cell */
	FAULT_MACHINE_LOST, /* a replica is gone for good */
	FAULT_AT_CHANGE,    /* something strikes as a change of the members is accepted */
	FAULT_LEFT_BEHIND,  /* a replica misses a change of the members */
	FAULT_LIES,         /* a faulty replica says what is not so */
	FAULT_STOLEN_KEY,   /* used in the name of a follower */
	FAULT_HUB,          /* a majority reaches one that lags, and nobody else */
	FAULT_CORE,         /* only a quorum heals */
	FAULT_AT_SETTING,   /* something strikes as a lease is set */
	FAULT_AT_JOINING,   /* something strikes as a replica takes a step towards its vote */
	FAULT_AT_GATHER,    /* a candidate does not reach the one whose values it lacks */
	FAULT_AT_HAND_OVER, /* the mastership is handed over, and that is heard late */
	FAULT_BALLOTS,      /* several replicas stand for election at once, again and again */
	FAULT_LAGGARD,      /* a replica that lacks much stands for election */
	FAULT_TWO_VALUES,   /* two promises tell of different values, and the older one is near */
	FAULT_NOTICE_LATE,  /* a notice of a change reaches a client late */
	FAULT_LEAVE_LAPSES, /* a connection stands still for as long as its client may cache */
	FAULT_REPLY_LATE,   /* a reply reaches a client when its leave, or its lease, is over */
	FAULT_KERNEL_SLOW,  /* a machine takes long to invalidate what its kernel has */
	FAULT_AT_END,       /* a client with an ephemeral file goes, and others look at that */
	FAULT_AT_MARK,      /* others open a file that becomes ephemeral */
	/* Datagrams beside connections; the last is no fault: one comes while its connection
	 * stalls. */
	FAULT_DATAGRAM_LOST,
	FAULT_DATAGRAM_DOUBLED,
	FAULT_DATAGRAM_LATE,
	FAULT_DATAGRAM_ALONE,
	FAULT_COPY,        /* a copy of the state can't be made, read, written, or is damaged */
	FAULT_NO_ROOM,     /* for a cell file, or the keys beside it */
	FAULT_SUCCESSOR,   /* another process goes on for a client, and with its mount */
	FAULT_STATE_STUCK, /* of a disk that writes the log */
	FAULTS
};

/* ---- swarm.c ---- */

/* As it stands behind a number: "replicas crashed". */
const char *fault_name(enum fault f);

/* What a seed is like. */
struct swarm {
	int machines, processes;
	bool mounts;      /* every machine has one */
	bool watches;     /* clients watch files */
	unsigned unwatch; /* permille of looks at a watched node after which its watch ends */
	int64_t session_lease_ms, grace_ms, chaos_ms;
	int64_t latency_us, disk_us; /* usual delays */
	int operators;               /* 0: the members stay who they are */
	int64_t operators_think_ms;
	unsigned upgrades; /* permille of starts that are one of a newer program */
	unsigned settings; /* permille of what operators want */
	/* In 10,000 chances of striking in each 100 ms of the first part; of messages: permille. */
	unsigned rates[FAULTS];
	bool datagrams;     /* replicas' messages keep no order and may be lost or doubled each */
	bool firewall;      /* no client's datagram gets through: its connection has to do */
	unsigned interrupt; /* permille of waiting acquires */
	unsigned successor; /* permille of crashed machines whose successor ends them */
	unsigned lasting;   /* permille of sessions that never expire */
	bool short_leave;   /* to cache: much shorter than a session lease may be */
	unsigned caching;   /* permille of sessions that ask for leave to cache */
	unsigned roles;     /* bits of enum role */
	unsigned unlocks;   /* permille of the operators' wishes */
	unsigned numbers;   /* permille of operations in directories that number a file */
	unsigned mortal; /* permille of files with a time to live, among those that come and go */
	unsigned quotas; /* permille of directories that get a budget, of a few nodes */
	unsigned transactions; /* permille of rounds */
	unsigned handles;      /* permille of rounds on mounts */
	unsigned counting;     /* permille of touched locks that count from then on */
	unsigned shared;       /* permille of locks that are asked for shared */
	int64_t think_ms;
	int lock_delay_s;
	enum clocks clocks;
	bool keep_saved_back;
	bool restore;                       /* at the end */
	uint64_t log_entries, digest_every; /* 0: as usual */
	uint32_t batch_entries;             /* in a promise, and in other messages; 0: as usual */
	int64_t rate;     /* bytes a second that each machine can send; 0: any number */
	int64_t queue_ns; /* how long the queue of its uplink is */
	int64_t lease_ms; /* the master's */
	int64_t cost_ns;  /* a message costs a replica so much time */
	bool bulk;        /* somebody writes much at once */
	struct server_limits limits;
	size_t clients_spare; /* a server lets so many more in than there are; 0: any number */
	size_t ending;        /* pieces of an ending session that go in one entry */
};

/* Draws what a seed is like; `machines` 0: as many as it comes. */
void swarm_draw(struct swarm *w, struct rng *r, int machines);
/* Draws how servers run: from numbers of their own, so that all else of a seed is as it was. */
void swarm_draw_servers(struct swarm *w, uint64_t seed);
/* In some runs the replicas begin with a program that speaks the first minor version, and are
 * started with the next one, one after the other. */
void swarm_draw_upgrades(struct swarm *w, uint64_t seed);
/* Notes one that strikes, and says so in the trace. */
void fault(struct sim *s, enum fault f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- faults.c ---- */

void faults_start(struct sim *s);
/* Leases are renewed, sessions live, and nothing that is proposed is chosen. */
void faults_all_stuck(struct sim *s);
/* Drawn anew whenever something begins that may have this fault. */
bool fault_strikes(struct sim *s, enum fault f);

/* ---- adversary.c, adversary_members.c, adversary_elections.c ---- */

/* A replica has handed records to its disk. */
void adversary_recorded(struct sim *s, struct host *n, const struct px_record *records,
                        size_t records_n);
void adversary_relay(struct sim *s, struct host *master);
void adversary_pinch(struct sim *s, struct host *master);
/* The disk of one of its followers is replaced by a copy of this moment, soon. */
void adversary_forget(struct sim *s, struct host *master);
void adversary_learners(struct sim *s);
/* A replica learns that a list of members is in force. */
void adversary_in_force(struct sim *s, struct host *n);
/* The log says that a setting had this value and has another one now. */
void adversary_setting(struct sim *s, enum setting which, uint64_t before, uint64_t now);
/* A replica sends another one this frame. Returns by how much it is late. */
int64_t adversary_frame(struct sim *s, int from, int to, struct bytes frame);
/* The master goes, and those who are left do not reach each other, now here and now there. */
void adversary_ballots(struct sim *s, struct host *master);
/* A replica misses what is decided, and the master goes. */
void adversary_laggard(struct sim *s, const struct host *master);
/* A replica requests the signing key, has it, or fetches a state. */
void adversary_joining(struct sim *s, struct host *n);
/* Somebody is about to ask for another list of members. */
void adversary_change(struct sim *s);
/* A lock-delay begins, of so many nanoseconds. */
void adversary_delay(struct sim *s, uint64_t node, int64_t length);

/* For its parts: those on the one side, by the bits of their ids, reach those on the other no more;
 * the end of a cut that begins now; what a replica has written may be the moment. */
void adversary_halve(struct sim *s, uint64_t side, int64_t until);
int64_t adversary_moment(struct sim *s);
void adversary_look_for_change(struct sim *s, struct host *n, const struct px_record *records,
                               size_t records_n);
void adversary_look_for_two_values(struct sim *s, struct host *master,
                                   const struct px_record *records, size_t records_n);

/* ---- ambush.c ---- */

/* A client asks for the release of a lock. */
void ambush_release(struct sim *s, const struct machine *m, uint64_t node);
/* If it has several locks that others wait for it may go. */
void ambush_holder(struct sim *s, struct machine *m);
/* A machine reads, again and again, what others write. */
void ambush_watch(struct sim *s, int machine, int64_t until);
/* The leave of a machine to cache lapses by then: another one changes soon after what it has. */
void ambush_lapse(struct sim *s, const struct machine *m, int64_t until);
void ambush_lease(struct sim *s, struct host *master);
/* A client asks to make a file ephemeral: others open it. */
void ambush_mark(struct sim *s, const struct machine *m, uint64_t node);
/* If it has an ephemeral file open it may go, and others look at that. */
void ambush_ephemeral(struct sim *s, struct machine *m);

/* ---- bulk.c ---- */

/* Somebody will write much: nothing is so scarce that this fails. */
void bulk_make_room(struct swarm *w);
/* The second part of a run begins, in which there is a master at `from`. */
void bulk_start(struct sim *s, int64_t from);
/* Does every replica that exists run and vote, and has it all that it needs? */
bool bulk_all_well(const struct sim *s);

/* ---- hub.c ---- */

struct hub {
	bool on;
	struct rng rng; /* its own: other seeds are what they were */
	int id;
};

/* Is there such a race in this run? */
void hub_draw(struct sim *s);
/* In place of bulk_start. */
void hub_start(struct sim *s, int64_t from);

/* ---- core.c ---- */

enum { CORE_LEASES = 10 }; /* of the master, until a quorum that is connected has one */

struct core {
	bool drawn;
	struct rng rng;            /* its own: other seeds are what they were */
	unsigned members;          /* bits of ids */
	int old_master;            /* which is not in it; 0: it is, or there was none */
	uint8_t spoils[HOSTS_MAX]; /* by id - 1 */
	int leans_on;      /* the one of the core in the old master's majority, 0: it keeps none, */
	bool narrow;       /* to which only its short messages arrive */
	int64_t patience;  /* of a master that has nothing chosen */
	int64_t expected;  /* by then there is a master */
	int64_t served_at; /* when there was one last */
	int64_t until;     /* then the rest heals */
	uint64_t epoch;    /* when it was expected */
	bool outside;      /* the master of that epoch is none of the core: it may go */
};

/* Does only a core heal at first, in this run? */
void core_draw(struct sim *s);
/* The faults are over: a core heals, if it is drawn and there is one. */
void core_run(struct sim *s);
/* Does nobody begin anything any more? */
bool core_rests(const struct sim *s);

/* ---- election.c ---- */

/* Once all replicas are there and awake and have written what they had to, a master is found soon;
 * returns when at the latest. */
int64_t election_expect(struct sim *s);

/* ---- stolen_key.c ---- */

struct stolen_key {
	bool on;
	struct rng rng; /* its own: other seeds are what they were */
	int of;         /* a follower's id */
	int64_t until;
	uint64_t epoch;    /* when it began */
	int64_t served_at; /* when there was a master last */
};

/* Is a key stolen in this run? */
void stolen_key_draw(struct sim *s);
/* The second part of a run begins, in which there is a master at `from`. */
void stolen_key_start(struct sim *s, int64_t from);

/* ---- guest.c ---- */

#define GUEST "guest"

struct guest {
	bool on;
	struct rng rng;    /* its own: other seeds are what they were */
	int machine;       /* whose client it has */
	uint64_t unwanted; /* the greatest generation that an operator wants to remove */
	int64_t removed_at;
	uint64_t epoch; /* then */
	bool removed;   /* in the second part of the run */
};

/* Is there one in this run? */
void guest_draw(struct sim *s);
bool guest_is(const struct sim *s, const struct machine *m);
/* What an operator wants of it, in either part of a run; `what` 0: nothing. */
struct wish guest_wish(struct sim *s);
struct wish guest_wish_calm(struct sim *s);
/* What is missing at the end; NULL: nothing. */
const char *guest_waits_for(const struct sim *s);
/* The log says that it is to be removed. */
void guest_removed(struct sim *s);
/* True when the client says something else than this, which is put into `instead`. */
bool guest_lies(struct sim *s, const struct machine *m, const struct message *said,
                struct buffer *instead);

#endif
