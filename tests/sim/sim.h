/* The simulator: whole cells and their clients in one process, on virtual time, from one seed.
 *
 *   heap.c     events, ordered by (time, sequence)
 *   blocks.c   memory that is not freed
 *   quiet.c    what happens when nobody asks for anything
 *   clocks.c   each machine's own clock
 *   net.c      clients' connections that delay, stall and break; who cannot reach whom
 *   link.c     connections between replicas
 *   uplink.c   how fast a machine can send
 *   bulk.c     a client that writes much at once, in a cell in which nothing fails
 *   gates.c    addresses and keys of replicas, and whom one knows
 *   disk.c     what a replica wrote, and what of it survives a crash
 *   copies.c   copies of its state, given to others and fetched from them
 *   host.c     the process of one replica, which runs cell/server
 *   host_io.c  what that stands on: clock, disk, copies, connections
 *   first_start.c  a new replica's, which requests the cell's signing key
 *   boots.c    the machine below it, after a failed fsync: what its page cache shows
 *   machine.c  drives one client, and the processes or the mount above it
 *   work.c     what the processes of a client do
 *   mounts.c   the mount of a machine that has one
 *   users.c    what the processes on a mount do
 *   history.c  every request: when it was made, sent, took effect, was answered
 *   model.c    what the cell should do, written down a second time and as simply as possible;
 *   locks.c    fed with the log, compared with what clients are told
 *   reads.c    and what reads show with what was there at that moment
 *   members.c  the lists of members that there were, and what has to hold of them
 *   operators.c  those who add replicas, remove them, hand the mastership over, change settings
 *   setting_changes.c  the settings that there were
 *   rot.c      rows of a state that are not what they were
 *   restored.c a copy of the cell becomes a new one
 *   faults.c   which faults a seed has, and when they strike
 *   adversary.c  those that wait for their moment
 *   ambush.c   those that wait for what clients do
 *   liar.c     a replica that says what is not so
 *   trace.c    what happens, in words
 *   soak.c     many runs, on all cores
 *
 * A run takes a minute or more of virtual time and has two parts: with faults, in which only safety
 * counts; then without, in which everything that was begun must come to an end. Nothing here
 * depends on addresses, the clock or the machine.
 */
#ifndef LSFS_SIM_H
#define LSFS_SIM_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/base/rng.h"
#include "cell/client/client.h"
#include "cell/store/boot_verdict.h"
#include "cell/replica/replica.h"
#include "cell/server/joining.h"
#include "cell/server/server.h"
#include "cell/server/state_sender.h"
#include "cell/wire/codec.h"
#include "fs/mount/mount.h"
#include "tests/sim/liar.h"
#include "tests/sim/setting_changes.h"
#include "tests/sim/world.h"

struct machine;

/* ---- rot.c ---- */

struct disk;

/* Loads the state of a disk with a mistake in it, sometimes. */
void rot_try(struct sim *s, const struct disk *d);

/* ---- quiet.c ---- */

/* What has happened since nobody asks for anything. */
struct quiet {
	int64_t since;    /* 0: some replica was not well */
	uint64_t applied; /* then */
	unsigned keepalives, keepalive_replies, heartbeats, heartbeat_replies;
	unsigned others, other; /* other messages, and the code of the last one */
	unsigned connects, writes;
	unsigned client_timers, server_timers, turns; /* that a driver's loop has woken up for */
};

struct sim;

/* From here on; a client or a replica sends that; the run ends. */
void quiet_begin(struct sim *s);
void quiet_frame(struct sim *s, struct bytes frame);
void quiet_check(struct sim *s);

/* ---- blocks.c ---- */

/* Blocks of memory that were allocated and are not freed. */
long blocks_count(void);

/* ---- faults.c ---- */

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
	FAULT_AT_SETTING,   /* something strikes as a lease is set */
	FAULT_AT_JOINING,   /* something strikes as a replica takes a step towards its vote */
	FAULT_AT_GATHER,    /* a candidate does not reach the one whose values it lacks */
	FAULT_AT_HAND_OVER, /* the mastership is handed over, and that is heard late */
	FAULT_BALLOTS,      /* several replicas stand for election at once, again and again */
	FAULT_TWO_VALUES,   /* two promises tell of different values, and the older one is near */
	FAULTS
};

/* As it stands behind a number: "replicas crashed". */
const char *fault_name(enum fault f);

/* What a seed is like. */
struct swarm {
	int machines, processes;
	bool mounts; /* every machine has one */
	int64_t session_lease_ms, grace_ms, chaos_ms;
	int64_t latency_us, disk_us; /* usual delays */
	int operators;               /* 0: the members stay who they are */
	int64_t operators_think_ms;
	unsigned upgrades; /* permille of starts that are one of a newer program */
	unsigned settings; /* permille of what operators want */
	/* In 10,000 chances of striking in each 100 ms of the first part; of messages: permille. */
	unsigned rates[FAULTS];
	bool datagrams;     /* replicas' messages keep no order and may be lost or doubled each */
	unsigned interrupt; /* permille of waiting acquires */
	unsigned successor; /* permille of crashed machines whose successor ends them */
	unsigned caching;   /* permille of sessions that ask for leave to cache */
	unsigned roles;     /* bits of enum role */
	unsigned shared;    /* permille of locks that are asked for shared */
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
	size_t ending; /* pieces of an ending session that go in one entry */
};

/* Draws what a seed is like; `machines` 0: as many as it comes. */
void swarm_draw(struct swarm *w, struct rng *r, int machines);
void faults_start(struct sim *s);
/* Notes one that strikes, and says so in the trace. */
void fault(struct sim *s, enum fault f, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Drawn anew whenever something begins that may have this fault. */
bool fault_strikes(struct sim *s, enum fault f);

/* ---- adversary.c ---- */

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
/* A replica requests the signing key, has it, or fetches a state. */
void adversary_joining(struct sim *s, struct host *n);
/* Somebody is about to ask for another list of members. */
void adversary_change(struct sim *s);
/* A lock-delay begins, of so many nanoseconds. */
void adversary_delay(struct sim *s, uint64_t node, int64_t length);

/* ---- ambush.c ---- */

/* A client asks for the release of a lock. */
void ambush_release(struct sim *s, const struct machine *m, uint64_t node);
/* If it has several locks that others wait for it may go. */
void ambush_holder(struct sim *s, struct machine *m);
/* A machine reads, again and again, what others write. */
void ambush_watch(struct sim *s, int machine, int64_t until);
void ambush_lease(struct sim *s, struct host *master);

/* ---- bulk.c ---- */

/* The second part of a run begins, in which there is a master at `from`. */
void bulk_start(struct sim *s, int64_t from);
/* Does every replica that exists run and vote, and has it all that it needs? */
bool bulk_all_well(const struct sim *s);

/* ---- disk.c ---- */

struct slot {
	RB_ENTRY(slot) node;
	uint64_t number, checksum;
	struct ballot ballot, origin, before;
	struct bytes payload;
};
RB_HEAD(slot_tree, slot);

struct saved_row {
	RB_ENTRY(saved_row) node;
	struct row row; /* owns its bytes */
};
RB_HEAD(saved_rows, saved_row);

/* A transaction that was handed over and is not known to be durable. */
struct writing {
	TAILQ_ENTRY(writing) entry;
	uint64_t ticket; /* of the log, or applied index of rows */
	struct px_record *records;
	size_t records_n;
	struct row_list rows;
	size_t size; /* of these */
};
TAILQ_HEAD(writing_list, writing);

/* When the last transaction begins, and when it is written. */
struct transactions {
	int64_t begins, busy;
};

struct disk {
	struct slot_tree slots;
	struct ballot promised;
	uint64_t chosen, trimmed, incarnation, applied;
	struct mark marks[LIMIT_REPLICA_ID + 1]; /* replica 0: none */
	span_t lease;
	uint64_t free_of_leases; /* the incarnation that recorded that none is left */
	struct saved_rows rows;
	struct writing_list log, state; /* in order */
	struct transactions log_under_way, state_under_way;
	int64_t slow_until, stuck_until;
	size_t unsaved;    /* bytes of rows that are being written */
	bool broken;       /* the next fsync fails */
	uint64_t highest;  /* slot that the log ever held: more than it holds when it rotted */
	bool state_lost;   /* by rot, and not copied yet */
	bool replaced;     /* emptied or an old copy */
	bool has_key;      /* the cell's signing key */
	struct seats file; /* the members, in its cell file */
};

void disk_init(struct disk *d);
void disk_free(struct disk *d);
/* Both return when it will be durable. */
int64_t disk_write_log(struct sim *s, struct disk *d, uint64_t ticket,
                       const struct px_record *records, size_t n);
int64_t disk_write_state(struct sim *s, struct disk *d, uint64_t applied, struct row_list *rows);
/* The entries of the log from a random one on, or all rows of the state, become unreadable. False
 * when there are none. */
bool disk_rot_log(struct sim *s, struct disk *d);
bool disk_rot_state(struct disk *d);
/* Does it hold that value of the slot, or did it once? */
bool disk_has(const struct disk *d, uint64_t slot, struct ballot origin);
/* Has the log again all that it ever held, and the state is there? */
bool disk_is_whole(const struct disk *d);
/* Another disk with the same contents in place of `to`. */
void disk_copy(struct disk *to, const struct disk *from);
/* Everything up to here is durable; false when it was so before. */
bool disk_log_done(struct disk *d, uint64_t ticket);
bool disk_state_done(struct disk *d, uint64_t applied);
/* Power is gone: of the transactions that are being written a random first part has made it, or
 * none, or all. True when something was lost. */
enum loss { LOSE_SOME, LOSE_ALL, LOSE_NOTHING };
bool disk_crash(struct sim *s, struct disk *d, enum loss loss);
void disk_finish(struct disk *d);
/* A sync fails. A random first part of what is being written is on the disk, which `real` becomes;
 * all of it is in the page cache, which `d` shows from now on. True when they differ. */
bool disk_fail(struct sim *s, struct disk *d, struct disk *real);
void disk_each_row(const struct disk *d, void (*each)(void *user, const struct row *row),
                   void *user);
/* Other rows take the place of the state; nothing is being written. */
void disk_replace_state(struct disk *d, const struct row_list *rows, uint64_t applied);
/* Rows that are durable at once. */
void disk_save(struct disk *d, const struct row_list *rows, uint64_t applied);
/* What a start finds. `entries` are to be freed with free(). */
struct tree *disk_recover(struct sim *s, struct disk *d, struct px_recovered *recovered);

/* ---- host.c ---- */

/* Since when a machine runs, and what it has marked as failed. */
struct boot {
	uint64_t number;
	bool failed; /* `real` is what the disk holds, the host's disk what the cache shows */
	struct disk real;
	char marks[2][BOOT_VERDICT_LINE]; /* in the data directory; in the run directory */
};

/* ---- copies.c ---- */

struct copies {
	struct bytes made[STATE_SENDER_MAX]; /* owned */
	bool fetching;
	struct buffer fetched;
	struct bytes ready; /* for the next start */
};

void copies_make(struct sim *s, struct host *n, int place);
void copies_read(const struct host *n, int place, uint64_t offset, uint8_t *to, size_t len);
void copies_drop(struct host *n, int place);
void copies_begin_fetch(struct host *n);
void copies_write_fetch(struct sim *s, struct host *n, uint64_t offset, struct bytes data);
void copies_check_fetch(struct sim *s, struct host *n);
void copies_drop_fetch(struct host *n);
/* Before a start: one that is whole becomes the state. */
void copies_swap_in(struct host *n);
void copies_forget_ready(struct host *n);
void copies_free(struct host *n);

/* ---- host.c, host_io.c ---- */

struct host {
	struct sim *sim;
	int id;          /* replica id, 1.. */
	uint8_t body;    /* see struct seat; 0: there is no such replica yet */
	uint32_t minor;  /* version that its program speaks */
	bool downgraded; /* it spoke a newer one before */
	int64_t
	    outdated_at;    /* since when the log is known to be of a newer version; 0: it is not */
	bool gone;          /* removed, and knows it; or lost with its machine */
	struct seats gate;  /* the members that it knows */
	uint64_t list;      /* version of the list in force, as it knew last */
	uint64_t tree_list; /* and of the one in its tree */
	bool up, stopping;  /* up: its server runs; see host_runs */
	bool disk_failed;   /* and it knows */
	uint64_t life;
	struct local_clock clock;
	int64_t wall_off; /* by how much the time of day is wrong */
	struct identity identity;
	struct server *server;
	const struct replica *replica; /* what it runs */
	struct joining *joining;       /* in its place, before it has the signing key */
	bool key_has_come;
	struct copies copies;
	struct seats writing;   /* the cell file that is being written */
	struct disk disk, copy; /* and what it was like earlier */
	struct boot boot;
	bool full;
	int64_t stopped_for;
	int64_t paused_until, timer_at, back_at, heard_at; /* the last: a heartbeat */
	int64_t busy_until;                                /* with its last turn */
	int64_t spent;                                     /* in the turn that it has now */
	mono_t shown;                                      /* by its clock, when it looked last */
	size_t step_size;                                  /* rows and frames of its last step */
	bool turn_waits;                                   /* an event will begin it */
	uint64_t timers, checked;
	int role; /* enum px_role, as of the last step: for the trace */
};

/* A replica: made once, started, crashed and stopped many times. */
void host_init(struct sim *s, struct host *n, int id);
/* It gets an address, a key, and a cell file with these members; a learner has no signing key. */
void host_create(struct sim *s, struct host *n, uint8_t body, const struct seats *file);
/* Is it, or may it be, a running process? */
bool host_exists(const struct host *n);
/* Is it one now, with a server or on its way to one? */
bool host_runs(const struct host *n);
/* Its connections, as in server_io.h. */
bool host_opened(struct host *n, uint64_t conn, enum channel_role role, const uint8_t *key);
void host_frame(struct host *n, uint64_t conn, struct bytes frame);
void host_closed(struct host *n, uint64_t conn, const char *why);
/* What its disk holds, whatever the page cache shows. */
const struct disk *host_disk(const struct host *n);
/* Do others remember more of it than it has ever had, for it has told them so? What it lacks, and
 * lacks for that, nobody can give it. */
bool host_is_bound_by_lies(const struct sim *s, const struct host *n);
/* Has it lost its vote for good? */
bool host_is_lost(const struct host *n);
void host_start(struct sim *s, struct host *n);
/* The log is written in what every member understands. */
void host_check_minor(struct sim *s);
/* `why`: what is counted. */
void host_crash(struct sim *s, struct host *n, enum fault why);
/* Starts it after that time. */
void host_down(struct sim *s, struct host *n, int64_t back);
/* It is back after that time. */
void host_crash_for(struct sim *s, struct host *n, enum loss loss, int64_t back);
/* It has been told that it was removed. */
void host_expelled(struct sim *s, struct host *n);
void host_stop(struct sim *s, struct host *n, int64_t back);
/* Something happens to its disk while it is down. */
void host_damage(struct sim *s, struct host *n, enum fault f);
/* Its disk becomes full, or has room again. */
void host_full(struct sim *s, struct host *n, bool full);
void host_pause(struct sim *s, struct host *n, int64_t until);
/* What was wrong with its disk and its clock is over. */
void host_calm_down(struct sim *s, struct host *n);
void host_clock_changed(struct sim *s, struct host *n);
/* Every second: what is in memory hangs together, and is the same everywhere. */
void host_inspect(struct sim *s, struct host *n);
/* Every replica is here and serves or follows, with everything that was decided. */
void host_check_end(struct sim *s);
void host_free(struct host *n);
struct server_io host_io(struct host *n);
/* After its server was handed something; when there is something for it to look at again. */
void host_settle(struct sim *s, struct host *n);
void host_wake(struct sim *s, struct host *n);
/* Until when it is paused or has no time; `now`: it is there. */
int64_t host_busy_until(const struct sim *s, const struct host *n);
/* True: it is, and the event comes again by then. */
bool host_puts_off(struct sim *s, const struct host *n, struct event *e);
/* Likewise, or its disk is stuck. */
bool disk_puts_off(struct sim *s, const struct host *n, struct event *e);
struct host *sim_serving(struct sim *s);
/* One of those that exist. */
struct host *sim_random_host(struct sim *s);

/* ---- first_start.c ---- */

/* The part of its identity that a new replica lacks. */
void first_start_key(const struct host *n, struct identity *identity);
const uint8_t *first_start_public_key(void); /* the cell's */
/* Its process starts, and has no signing key. */
void first_start_begin(struct sim *s, struct host *n);
/* Its process ends; a key that is being written may be there. */
void first_start_crash(struct sim *s, struct host *n);

/* ---- boots.c ---- */

/* A sync of its disk has failed: the process marks that, and ends. The machine itself restarts
 * later; returns when. */
int64_t boot_failed(struct sim *s, struct host *n);
/* A supervisor starts the process again: does it run? */
bool boot_allows(struct sim *s, struct host *n);

/* ---- history.c ---- */

/* Who asks for the end of another's session is none of the machine's processes. */
enum { PROCESS_MOUNT = -1, PROCESS_OPERATOR = -2, PROCESS_SCRIPT = -3 };

/* One request of a client and what became of it. */
struct record {
	RB_ENTRY(record) by_number;
	uint64_t token, mount_token;
	int machine, process;
	uint64_t life;
	struct bytes encoded; /* the operation; `op` has views into it */
	struct op op;
	bool ordered, own;        /* own: the client's, nobody waits for an answer */
	uint64_t session, number; /* 0: not sent yet */
	bool again;               /* sent more than once */
	uint64_t floor;       /* what had been answered when it was made took effect up to here */
	uint64_t fence_floor; /* the greatest fencing token that anybody had been told by then */
	int64_t made, ended;
	bool answered, lost; /* lost: its machine died */
	bool ending;         /* its answer is in the step that is being carried out */
	enum rc rc;
	uint64_t index;
	uint64_t executed; /* where in the log it took effect; 0: not */
	/* What the model expects, from `executed` on, and what the answer said. */
	struct outcome {
		enum rc rc;
		int64_t mtime_ns;
		uint64_t node, source, generation, lock_generation, fence, size;
		bool fresh, same;
	} want, got;
	struct bytes contents; /* of a read; owned */
	struct ticket ticket;
	uint64_t queued_epoch; /* of the last master that told so */
	int64_t queued_at;     /* and when the client heard it */
	bool given_up;         /* a release or cancel of it was asked for */
	bool waiting;          /* answered RC_QUEUED, and neither granted nor given up */
};
RB_HEAD(record_tree, record);

struct history {
	struct record **records; /* by token - 1 */
	size_t n, room;
	struct record **acquires; /* those of them */
	size_t acquires_n, acquires_room;
	size_t sent[MACHINES_MAX]; /* all of a machine's before this one have been sent */
	struct record_tree by_number;
	uint64_t completed; /* highest index at which an answered request took effect */
	struct token {      /* that clients were told, by fence */
		uint64_t fence, node, session, owner, generation;
		bool exclusive; /* the lock was, by this token */
	} * tokens;
	size_t tokens_n, tokens_room;
};

struct record *history_begin(struct sim *s, int machine, int process, const struct op *op,
                             bool ordered);
/* A request frame left a client. */
void history_sent(struct sim *s, int machine, const struct msg_request *m);
struct record *history_find(struct sim *s, uint64_t session, uint64_t number);
/* The client is about to be told this. */
void history_ending(struct sim *s, const struct client_answer *a);
void history_answered(struct sim *s, const struct client_answer *a);
/* A scripted client has sent a request, or got an answer to it. */
void history_scripted(struct sim *s, const struct msg_request *m);
void history_scripted_answer(struct sim *s, uint64_t session, const struct msg_reply *m);
/* A queued acquire has come to the master of another epoch. */
void history_queued(struct sim *s, uint64_t session, const struct msg_reply *m, uint64_t epoch);
void history_machine_died(struct sim *s, int machine);
/* The session has ended, for the cell or for its client: nobody waits for a lock in it any more. */
void history_waits_over(struct sim *s, uint64_t session);
void history_finish(struct sim *s); /* everything was answered; order within sessions */
void history_free(struct history *h);

/* ---- model.c ---- */

struct holder {
	uint64_t session, owner;
	struct taken {
		uint64_t acquisition, generation, fence;
		enum lock_mode mode;
	} now, earlier; /* earlier: what a conversion found, if not 0 */
	int64_t delay_s;
};

struct version {
	uint64_t index, generation;
	struct bytes contents;
};

struct item {                          /* a node of the model */
	uint64_t node, parent, became; /* became: the ephemeral file that it was renamed to */
	char name[NAME_ROOM];
	enum node_kind kind;
	bool ephemeral;
	uint64_t born, died;     /* indices; died 0: alive */
	uint64_t creator, maker; /* session, of an ephemeral directory without a child; of a file */
	struct version *versions;
	size_t versions_n, versions_room;
	struct opener {
		uint64_t session, opened;
	} * openers;
	size_t openers_n, openers_room;
	struct holder *holders;
	size_t holders_n, holders_room;
	uint64_t lock_generation, last_fence;
	enum lock_mode delay_mode; /* 0: no delay */
	uint64_t delay_began, delay_generation;
	int64_t delay_s, delay_from;          /* virtual time of the expiry's first apply */
	uint64_t lock_changed, mtime_changed; /* indices */
	int64_t mtime_ns;
	int64_t lock_delay_s; /* set on the node; -1: not */
};

struct name_change {
	uint64_t index, parent, node;
	char name[NAME_ROOM];
}; /* node 0: gone */

struct model_session {
	uint64_t id;
	bool alive, expired; /* it has ended, as expired */
	uint8_t nonce[LIMIT_NONCE];
};

struct model {
	uint64_t applied, epoch, next, epoch_node;
	int64_t applied_at; /* the last entry */
	int64_t stamp_ns;   /* of the command that is decided */
	int64_t epoch_from; /* virtual time of its first apply */
	struct item **items;
	size_t items_n, items_room;
	struct name_change *names;
	size_t names_n, names_room;
	struct model_session *sessions;
	size_t sessions_n, sessions_room;
	uint64_t *digests, *slices, *sums; /* of the trees, and of the payloads; by index */
	size_t digests_room, slices_room, sums_room;
	uint64_t last_fence;
	size_t ended; /* pieces of an ending session, in the command that is decided */
};

void model_init(struct sim *s);
void model_free(struct model *m);
/* The next entry of the log, as the first replica applied it. */
void model_apply(struct sim *s, uint64_t index, struct bytes payload);
struct item *model_item(struct model *m, uint64_t node);
struct item *model_child(struct model *m, uint64_t parent, struct bytes name);
bool model_alive(const struct model *m, uint64_t session);
void model_delete(struct sim *s, struct item *it, uint64_t index);

/* ---- members.c ---- */

struct members {
	struct seats *lists; /* that were in force, in order: `version` is the index */
	size_t lists_n, lists_room;
	uint8_t bodies[LIMIT_REPLICA_ID + 1]; /* who got the id; 0: nobody yet */
	uint64_t *sums;                       /* of the lists, as paxos knows them, by version */
	size_t sums_room;
	struct px_members newest; /* that any replica knows as chosen */
	int64_t changed;          /* since when */
	/* What operators were told: which id the address and key got, or that they got none; that a
	 * replica is removed. */
	uint8_t added[HOSTS_MAX + 1];
	bool refused[HOSTS_MAX + 1], removed[LIMIT_REPLICA_ID + 1];
};

/* The first list of the cell; a command that replaces the list. */
void members_first(struct sim *s, struct wire_list first);
void members_replace(struct sim *s, uint64_t index, const struct op_set_members *op);
/* Is what the replica knows a list that there was? After each of its steps. */
void members_check(struct sim *s, struct host *n);
/* A majority of the voters has promised to a replica that becomes master, and holds an entry that
 * is decided. */
void members_check_elected(struct sim *s, const struct host *n);
/* Now and then: one that was removed is not master any more. */
void members_check_office(struct sim *s, const struct host *n);
/* One that stands for election has a vote. */
void members_check_candidate(struct sim *s, const struct host *n);
void members_check_decided(struct sim *s, uint64_t index, struct ballot origin);
/* Its role in the last list that was decided; 0: it never was a member. */
enum member_role members_role(const struct sim *s, int id);
/* The list, with those that were removed; before the first one that of the replicas at the
 * start. */
const struct seats *members_last(const struct sim *s);
int members_count(const struct sim *s, enum member_role role);
/* Must this replica not forget, or not be removed, if the cell is to go on? */
bool members_spare_memory(const struct sim *s, const struct host *n);
bool members_spare_vote(const struct sim *s, const struct host *n);
/* Does a voter let it in, which it knows? If not nothing helps it but another in its place. */
bool members_reaches(const struct sim *s, const struct host *n);
void members_check_end(struct sim *s);
void members_free(struct members *m);

/* ---- operators.c ---- */

/* One change that somebody wants, until it is made or given up. */
struct wish {
	enum operation what;      /* 0: none */
	uint8_t id;               /* of whom; ADD_REPLICA: of the new one, once it is known */
	uint8_t body;             /* the new one */
	struct setting_value set; /* what it shall be */
	int64_t since;            /* when it was wanted first */
	bool foolish;             /* it has to be refused */
	int unanswered;           /* times that it was asked, and nobody said what became of it */
};

struct operator
{
	int id;
	struct wish wish;
	struct seats known; /* the members, as it has heard */
	uint64_t conn;
	int node;     /* the replica that it is connected with, from 0 */
	int failures; /* in a row */
	uint64_t wakes;
	char why[LIMIT_WHY + 1]; /* the last refusal */
};

void operators_start(struct sim *s);
/* Its connection brings something. */
void operators_event(struct sim *s, int operator, enum client_event_kind kind, struct bytes frame);
/* What is missing until everybody has got what he wanted, and every member is whole; NULL: nothing.
 */
const char *operators_wait_for(struct sim *s);
/* Somebody has asked that it is removed, and that may still happen. */
bool operators_doom(const struct sim *s, uint8_t id);
void operators_check_end(struct sim *s);

/* ---- reads.c ---- */

void model_check_read(struct sim *s, const struct record *r, const struct result *result);
/* Compares the locks of a tree with the model's, if it is as new; the end's tree, item by item. */
void model_check_locks(struct sim *s, const struct tree *t);
void model_check_tree(struct sim *s, const struct tree *t);

/* ---- locks.c ---- */

/* The commands on locks; `want` gets the answer that the model expects. */
void locks_acquire(struct sim *s, uint64_t index, uint64_t session, const struct acquire *a,
                   struct outcome *want);
void locks_release(struct item *it, uint64_t session, const struct op_release *op);
void locks_cancel(struct sim *s, uint64_t index, struct item *it, uint64_t session,
                  const struct op_cancel *op);
/* The first of the session's owners that hold it lets go; false: none holds it. */
bool locks_session_ends(struct sim *s, struct item *it, uint64_t index, uint64_t session,
                        bool expired);
void locks_delay_over(struct sim *s, const struct op_delay_over *op);
void locks_took(struct sim *s, uint64_t index, uint64_t session, const struct acquire *by,
                const struct outcome *want);
void locks_granted(struct sim *s, uint64_t index, const struct op_grant *op);
/* A client is told that it has got a lock, with this lock generation and fencing token. */
void locks_told(struct sim *s, const struct record *r, uint64_t generation, uint64_t fence);

/* ---- machine.c ---- */

/* What a process believes to hold. */
struct hold {
	uint64_t node, owner, acquisition;
	enum lock_mode mode;
};

enum role {
	ROLE_REGISTER,
	ROLE_APPEND,
	ROLE_COUNTER,
	ROLE_NAMES,
	ROLE_LOCKS,
	ROLE_EPHEMERAL,
	ROLE_BURST,
	ROLE_DIRECTORIES,
	ROLES, /* that are drawn */
	ROLE_BULK = ROLES
};

struct process {
	enum role role;
	int step;
	uint64_t records[BULK_WRITES]; /* tokens of this round */
	int records_n, pending;
	uint64_t node, acquisition, waits, generation, session; /* session: of the open file */
	struct ticket ticket;
	uint64_t call, fh, line; /* on a mount: the call under way, the open file, what it wrote */
	char text[2048];         /* and what was read */
	mono_t patient_until;    /* a second after the last signal, by the machine's clock */
	bool fcntl;              /* locks with fcntl(2) this time */
	uint64_t wakes;          /* only the newest wake-up counts */
	bool idle;
};

struct machine {
	int id;
	bool up, closing;
	uint64_t life;
	struct local_clock clock;
	struct client *client;
	struct client_update update;
	uint64_t conn, aside;   /* its connections; 0: none */
	struct seats cell_file; /* the members in its configuration */
	int64_t paused_until, timer_at;
	uint64_t timers;
	enum client_state state;
	uint64_t session;   /* the last one that it had */
	uint64_t destroyed; /* one that somebody else ended */
	uint8_t nonce[LIMIT_NONCE];
	struct process processes[PROCESSES_MAX];
	uint64_t owners; /* names of lock owners and acquisitions, never used again */
	struct hold *holds;
	size_t holds_n, holds_room;
	struct mount *mount; /* NULL: the processes ask the client themselves */
	struct mount_update mount_update;
	struct record **asking; /* what the mount wants and the client was not told yet */
	size_t asking_n, asking_room;
	bool flushing;
	uint64_t calls;
};

void machine_init(struct sim *s, struct machine *m, int id);
/* `earlier`: the session of the run before, to be ended as expired; 0: none. */
void machine_start(struct sim *s, struct machine *m, uint64_t earlier);
void machine_crash(struct sim *s, struct machine *m);
void machine_close(struct sim *s, struct machine *m);
void machine_pause(struct sim *s, struct machine *m, int64_t until);
void machine_calm_down(struct sim *s, struct machine *m);
void machine_clock_changed(struct sim *s, struct machine *m);
void machine_free(struct machine *m);
void machine_event(struct sim *s, struct machine *m, struct client_event event);
/* Makes a request for process `p`; answers its token. */
uint64_t machine_request(struct sim *s, struct machine *m, int p, const struct op *op,
                         bool ordered);
/* Gives the client a request that history knows. */
void machine_submit(struct sim *s, struct machine *m, const struct record *r);
/* Are all replicas gone that it knows? Its configuration is mended, and it starts anew. */
void machine_check_conf(struct sim *s, struct machine *m);
bool machine_leased(const struct sim *s, const struct machine *m);
/* Its session was ended behind its back: what it believes counts no more. */
void machine_session_destroyed(struct sim *s, uint64_t session);
void machine_drop_hold(struct machine *m, uint64_t node, uint64_t acquisition);
void machine_add_hold(struct sim *s, struct machine *m, struct hold hold);

/* ---- work.c ---- */

/* The processes of a machine that starts, and what they are told. */
void work_start(struct sim *s, struct machine *m);
void work_answered(struct sim *s, struct machine *m, const struct record *r);
void work_granted(struct sim *s, struct machine *m, const struct client_grant *g);
void work_session_lost(struct sim *s, struct machine *m);
/* Somebody there ends the session of another client, as an operator may. */
void work_destroy(struct sim *s, struct machine *m, struct machine *other);
/* Its last process, which does nothing in this part of a run, writes much at once. */
void work_bulk(struct sim *s, struct machine *m);
bool work_idle(const struct sim *s, const struct machine *m);

/* ---- mounts.c, users.c ---- */

/* The mount of a machine that starts or stops, and what it is told. */
void mounts_start(struct sim *s, struct machine *m);
void mounts_stop(struct machine *m);
void mounts_event(struct sim *s, struct machine *m, struct mount_event event);
void mounts_answered(struct sim *s, struct machine *m, const struct record *r,
                     const struct client_answer *a);
void mounts_flush(struct sim *s, struct machine *m);
void users_start(struct sim *s, struct machine *m, int p);
void users_next(struct sim *s, struct machine *m, int p);
void users_replied(struct sim *s, struct machine *m, const struct mount_reply *r);
void users_signals(struct sim *s, struct machine *m, int p);
void users_check(struct sim *s);
void users_check_unopened(struct sim *s, const struct item *it, uint64_t but_session);

/* ---- restored.c ---- */

/* A copy of the state becomes a cell of its own, and the first machine's client goes on in it. */
void restored_check(struct sim *s);

/* ---- trace.c ---- */

/* All of these do nothing unless the run is traced. */
void sim_trace(struct sim *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A frame, field by field: only when these are asked for. */
void trace_frame(struct sim *s, const char *way, uint64_t conn, struct bytes frame);
void trace_seed(struct sim *s);
void trace_asked(struct sim *s, const struct record *r);
void trace_answered(struct sim *s, const struct record *r);
/* A command of the log takes effect; `r` NULL: the master's own. */
void trace_command(struct sim *s, uint64_t index, const struct op *op, const struct record *r,
                   const struct outcome *want);
void trace_call(struct sim *s, const struct machine *m, int p, const struct mount_event *event);
/* The path of a node, in a buffer that the next calls use again. */
const char *trace_path(const struct sim *s, uint64_t node);

/* ---- sim.c ---- */

struct stats {
	uint64_t seeds, events, requests, entries, epochs, sessions;
	int64_t simulated_ns, cpu_ns;
	uint64_t faults[FAULTS];
};

struct sim_options {
	int replicas, machines; /* 0: as the seed draws */
	bool trace, frames;
};

struct sim {
	uint64_t seed;
	struct sim_options options;
	const struct sim_script *script; /* NULL: faults and users of its own */
	struct rng rng;
	int64_t now;
	bool calm; /* the second part */
	struct swarm swarm;
	struct heap heap;
	struct net net;
	struct liar liar;
	struct host hosts[HOSTS_MAX]; /* by id - 1 */
	int hosts_n;                  /* up to the highest id */
	struct members members;
	struct operator operators[OPERATORS_MAX];
	struct setting_changes settings;
	uint8_t bodies;       /* numbers of addresses and keys that were used */
	int64_t bulk_at;      /* somebody will write much; 0: nobody */
	int64_t spared_until; /* no other faults: one of several steps is under way */
	int64_t handed_over;  /* when somebody last asked for another master or another list */
	struct machine machines[MACHINES_MAX];
	int machines_n;
	struct history history;
	struct model model;
	struct stats stats;
	struct quiet quiet;
	uint64_t values;
	uint64_t *lines; /* appended through mounts and acknowledged */
	size_t lines_n, lines_room;
};

/* Runs one seed and adds to `stats`; ends the process on a failure. */
void sim_run(uint64_t seed, const struct sim_options *options, struct stats *stats);
/* One line what is wrong, and the end of the process. */
_Noreturn void sim_fail(struct sim *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Those of the cell when it begins. */
struct settings sim_settings(const struct sim *s);
/* Do leases prove anything? Not when clocks are wild. */
bool sim_leases_hold(const struct sim *s);
int64_t sim_between(struct sim *s, int64_t low, int64_t high);

/* ---- a run that a script drives ---- */

/* What the script is told. Connections that it makes itself, as a client from SCRIPTED on, bring
 * what they bring to `heard`. */
struct sim_script {
	void *user;
	/* A line of its log. */
	void (*said)(void *user, int replica, enum server_level level, const char *line);
	/* A command of the log takes effect; `r` NULL: the master's own; `want` NULL: again, or of
	 * a session that is over. */
	void (*decided)(void *user, uint64_t index, const struct op *op, const struct record *r,
	                const struct outcome *want);
	void (*heard)(void *user, uint64_t conn, enum client_event_kind kind, struct bytes frame);
	void (*answered)(void *user, const struct record *r);
	void (*granted)(void *user, int machine, const struct client_grant *g);
	void (*state)(void *user, int machine);
};

/* A world without faults, in which each delay is the shortest; it has no replicas yet. */
struct sim *sim_stage(const struct sim_script *script, uint64_t seed);
/* The cell begins with so many replicas. */
void sim_stage_cell(struct sim *s, int replicas);
/* One more machine, with a client on it; its number. */
int sim_stage_client(struct sim *s, bool caching);
/* All that happens until then; all that happens in a row, with no pause that is as long. */
void sim_run_until(struct sim *s, int64_t until);
void sim_settle(struct sim *s, int64_t pause);
void sim_free(struct sim *s);

/* ---- soak.c ---- */

struct soak {
	uint64_t from, seeds; /* seeds from, from + 1, ... */
	double seconds;       /* begin none after so long */
	int jobs;             /* workers; 0: one for each core */
	bool progress;        /* a line now and then on stderr */
	struct sim_options options;
};

/* Runs seeds in workers of their own; prints a summary and, for the first seed that fails, the line
 * that runs it again. True when none failed. */
bool soak_run(const struct soak *soak);

#endif
