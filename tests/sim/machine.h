/* A client and the processes or the mount above it. */
#ifndef LSFS_SIM_MACHINE_H
#define LSFS_SIM_MACHINE_H

#include "cell/client/client.h"
#include "fs/mount/mount.h"
#include "tests/sim/history.h"
#include "tests/sim/model.h"

/* What a process believes to hold. */
struct hold {
	uint64_t node, owner, acquisition;
	enum lock_mode mode;
	int64_t since; /* it has believed so */
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
	ROLE_BULK = ROLES,
	ROLE_RIGHTS
};

/* A round with an open file or directory, on a mount (user_handles.c). */
struct use {
	enum use_kind { USE_NONE, USE_DIRECTORY, USE_POISON, USE_SEQUENCER } kind;
	char wrote[24];    /* the last value */
	uint64_t fence;    /* of the sequencer that is attached to it; 0: none is */
	uint64_t poisoned; /* the call that has poisoned it; 0: none has */
	uint64_t other;    /* a call of another thread of the process; 0: none */
};

struct process {
	enum role role;
	int step;
	uint64_t records[BULK_WRITES]; /* tokens of this round */
	int records_n, pending;
	uint64_t node, acquisition, waits, generation, session; /* session: of the open file */
	struct ticket ticket;
	uint64_t opened;   /* the request whose answer has shown the rights of an open file */
	uint64_t call, fh; /* on a mount: the call under way, the open file, */
	struct mount_event event; /* the call; what it points to is gone if it waits */
	int64_t open_from;        /* when the call that opened it began */
	bool through;             /* the call goes through that */
	size_t line;              /* the line that it wrote, as the history calls it */
	char text[2048];          /* and what was read */
	mono_t patient_until;     /* a second after the last signal, by the machine's clock */
	bool fcntl;               /* locks with fcntl(2) this time */
	enum lock_mode holds;     /* the lock of the open file, through that, */
	int64_t lock_from;        /* when the call that took it began */
	struct use use;
	uint64_t wakes; /* only the newest wake-up counts */
	bool idle;
};

/* What the kernel of a machine keeps of what it was answered, and what its driver has still to
 * invalidate there. */
struct kernel {
	struct kernel_copy {
		uint64_t node;
		mono_t until; /* by the machine's clock */
	} * copies;
	size_t copies_n, copies_room;
	struct invalidation {
		uint64_t number;
		bool everything;
		uint64_t *nodes;
		size_t nodes_n;
	} * due; /* in their order */
	size_t due_n, due_room;
	bool busy; /* with the first one */
};

/* A node that its client watches, or has watched in this session. */
struct watched {
	uint64_t node;
	uint64_t known; /* the generation of which the client was told last, or which it has read */
	int64_t known_from; /* since it was told so, or began to watch */
	bool announced;     /* it was told that events may be missing since */
	/* Since then it was told so many of the other events; they began with this one. */
	size_t told, first;
	int64_t told_from; /* the first of these came then: the master knows of the watch */
	int64_t conflict;  /* it was last told then that another one waits for its lock */
	int64_t owed_from; /* another one waits since then at least, and it was not told; else 0 */
	bool ended;
	bool tree; /* with all that is below the root */
};

/* A process that reads .cell/events. */
struct event_reader {
	uint64_t fh, call;
	struct mount_event event; /* the call */
	struct buffer lines;      /* that it has yet to read, besides */
	size_t unnamed;           /* events of nodes that the client cannot name */
	struct buffer text;       /* the line that it has read in part */
	bool overfull;            /* so much was unread that a gap may come */
	bool skips;               /* it has come: what is read next was told some lines later */
};

/* A request of the mount, or that it has given one up. */
struct asking {
	struct record *record;
	bool given_up;
};

struct machine {
	int id;
	bool up, closing;
	uint64_t life;
	struct local_clock clock;
	struct client_config config;
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
	bool lasting;  /* its sessions never expire, */
	uint64_t left; /* and an operator has to end this one of an earlier run; 0: none */
	struct process processes[PROCESSES_MAX];
	uint64_t owners; /* names of lock owners and acquisitions, never used again */
	struct hold *holds;
	size_t holds_n, holds_room;
	struct mount *mount; /* NULL: the processes ask the client themselves */
	struct mount_update mount_update;
	struct asking *asking; /* what the mount wants and the client was not told yet */
	size_t asking_n, asking_room;
	struct record *given_up;    /* whose caller was answered before it: the last one */
	struct mount_watch *wanted; /* likewise */
	size_t wanted_n, wanted_room;
	struct event_reader reader;
	bool flushing;
	struct watched *watched;
	uint64_t watching; /* the session that knows what is about to be watched */
	size_t watched_n, watched_room;
	uint64_t calls;
	struct kernel kernel;
};

void machine_init(struct sim *s, struct machine *m, int id);
/* `earlier`: the session of the run before, to be ended as expired; 0: none. */
void machine_start(struct sim *s, struct machine *m, uint64_t earlier);
void machine_crash(struct sim *s, struct machine *m);
/* Perhaps another process goes on for it, as soon as nothing is under way (successors.c). */
void machine_strike_successor(struct sim *s, struct machine *m);
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
/* And is nobody the wiser? */
bool machine_believes(const struct sim *s, const struct machine *m);
/* Has it left a lasting session to an operator in this very step, under a lease? */
bool machine_has_parted(const struct sim *s, const struct machine *m);
/* Its session was ended behind its back: what it believes counts no more. */
void machine_session_destroyed(struct sim *s, uint64_t session);
void machine_drop_hold(struct machine *m, uint64_t node, uint64_t acquisition);
void machine_drop_owner(struct machine *m, uint64_t node, uint64_t owner);
void machine_add_hold(struct sim *s, struct machine *m, struct hold hold);
/* True if the client is told that an operator has taken a lock from it. */
bool unlocks_told(struct sim *s, struct machine *m, const struct client_grant *g);
/* Fails the run if a mount has a lock that an operator has released. */
void unlocks_check_end(struct sim *s);
/* Was its session ended by an operator? It may not know that yet. */
bool machine_is_destroyed(const struct machine *m);
/* Nobody else believes in what excludes that. */
void machine_check_exclusion(struct sim *s, const struct machine *m, const struct hold *h);
/* Is it a request of the session that the machine has now? One that was not sent yet has none. */
bool machine_made(const struct machine *m, const struct record *r);
/* It asks for a lock that it may have; for the end of an acquisition. */
void machine_weaken_hold(struct machine *m, const struct acquire *a);
void machine_give_up(struct sim *s, struct machine *m, uint64_t node, uint64_t acquisition);

/* ---- cached.c ---- */

/* A read was answered: the kernel may keep that. */
void cached_answered(struct sim *s, struct machine *m, const struct record *r);
/* The driver is to carry out the update's invalidation; it does those that do not take long; the
 * machine's process is gone, and its mount with it. */
void cached_invalidate(struct sim *s, struct machine *m, const struct client_update *u);
void cached_carry_out(struct sim *s, struct machine *m);
void cached_forget(struct machine *m);
void cached_free(struct machine *m);
/* A replica sends a frame to a client: if it is a notice it may be late. A client sends one: it may
 * be a KeepAlive. One from a client comes to a replica: it may be an acknowledgement. */
void cached_sent(struct sim *s, struct conn *c, struct bytes frame);
void cached_asked(struct sim *s, struct conn *c, struct bytes frame);
void cached_acknowledged(struct conn *c, struct bytes frame);
/* A command has taken effect: nobody has cached what it has changed. */
void cached_check(struct sim *s, const struct op *op);

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

/* For its rounds: a request of this one; the answer to the round's i-th; the round goes on after
 * that time; the next one begins. */
void work_ask(struct sim *s, struct machine *m, int p, struct op op);
void work_ask_ordered(struct sim *s, struct machine *m, int p, const struct op *op, bool ordered);
/* While the lock is held that this acquire, which has taken effect, got. */
void work_ask_guarded(struct sim *s, struct machine *m, int p, const struct op *op,
                      const struct record *by);
/* For this user of the principal; for contents, through a handle that was opened with these rights;
 * node 0: through none. */
void work_ask_for(struct sim *s, struct machine *m, int p, const struct op *op, struct bytes user);
void work_ask_through(struct sim *s, struct machine *m, int p, const struct op *op,
                      struct bytes user, const struct client_rights *opened);
const struct record *work_answer(const struct sim *s, const struct process *proc, int i);
void work_wake(struct sim *s, struct machine *m, int p, int64_t delay);
void work_next_round(struct sim *s, struct machine *m, int p);

/* ---- work_rounds.c, work_names.c, work_rights.c, work_transactions.c ---- */

/* The next step of a process's round. */
void work_act(struct sim *s, struct machine *m, int p);
/* The lock of the process's file: a new acquisition of it, and its end. */
struct op work_acquire(struct sim *s, struct machine *m, struct process *proc, enum lock_mode mode,
                       bool waits);
struct op work_release(const struct machine *m, const struct process *proc);
/* Those of four of the roles. */
/* True if the process is in a round of transactions, or begins one. */
bool work_transactions(struct sim *s, struct machine *m, int p);
/* A transaction that takes the lock of that file in the root if it can, and then cannot do all. */
void work_try_lock(struct sim *s, struct machine *m, const char *name);
void work_names(struct sim *s, struct machine *m, int p);
void work_ephemeral(struct sim *s, struct machine *m, int p);
void work_directories(struct sim *s, struct machine *m, int p);
void work_rights(struct sim *s, struct machine *m, int p);
/* A file in the root. */
struct op work_create(const char *name, bool exclusive, bool ephemeral);

/* ---- mounts.c, users.c ---- */

/* The mount of a machine that starts or stops, and what it is told. */
void mounts_start(struct sim *s, struct machine *m);
void mounts_stop(struct machine *m);
struct mount_config mounts_config(const struct sim *s);
void mounts_event(struct sim *s, struct machine *m, struct mount_event event);
void mounts_answered(struct sim *s, struct machine *m, const struct record *r,
                     const struct client_answer *a);
void mounts_flush(struct sim *s, struct machine *m);
void users_start(struct sim *s, struct machine *m, int p);
void users_next(struct sim *s, struct machine *m, int p);
void users_replied(struct sim *s, struct machine *m, const struct mount_reply *r);
void users_signals(struct sim *s, struct machine *m, int p);
void users_check_unopened(struct sim *s, const struct item *it);
/* A call of this process; it goes on after that time. */
void users_call(struct sim *s, struct machine *m, int p, struct mount_event event);
void users_wake(struct sim *s, struct machine *m, int p, int64_t delay);
/* Only the close is left of its round. */
bool users_closes(const struct process *u);

/* ---- user_handles.c ---- */

/* A round begins: perhaps it is one of these. */
void handles_draw(struct sim *s, struct process *u);
/* As users_round. */
bool handles_round(struct sim *s, struct machine *m, int p);
/* A call of such a round was answered: the next step; 0: the open file is closed. */
int handles_after(struct sim *s, const struct machine *m, struct process *u,
                  const struct mount_reply *r);
/* True: the call was that of another thread. */
bool handles_replied(struct machine *m, const struct mount_reply *r);
/* The mount asks for this: may the open file of a process, for which it does? */
void handles_asked(struct sim *s, const struct machine *m, const struct client_call *c);

/* ---- user_rounds.c ---- */

/* Calls of this process: open, also of a new file in the root, write, read, one about an attribute.
 */
void users_create(struct sim *s, struct machine *m, int p, const char *name, int flags,
                  mode_t mode);
void users_write(struct sim *s, struct machine *m, int p, int flags, const char *text);
void users_read(struct sim *s, struct machine *m, int p);
void users_attribute(struct sim *s, struct machine *m, int p, enum mount_event_kind kind,
                     const char *name, const char *value);

/* The next step of a process's round; false when it is over, and only the file has to be closed. */
bool users_round(struct sim *s, struct machine *m, int p);

/* ---- event_readers.c ---- */

void event_readers_start(struct sim *s, struct machine *m);
void event_readers_stop(struct machine *m);
/* The mount is about to be told of an event. */
void event_readers_told(struct machine *m, const struct client_watched *w);
/* True: the call was a reader's. */
bool event_readers_replied(struct sim *s, struct machine *m, const struct mount_reply *r);
void event_readers_check_end(struct sim *s);

/* ---- watches.c ---- */

/* Draws whether clients watch files. */
void watches_init(struct sim *s);
/* An answer came: the client may begin to watch the file, or end it. */
void watches_answered(struct sim *s, struct machine *m, const struct client_answer *a);
/* A mount watches a node, or ends that. */
void watches_wanted(struct sim *s, struct machine *m, const struct mount_watch *w);
/* An event came. */
void watches_told(struct sim *s, struct machine *m, const struct client_watched *e);
/* An acquire was answered: it waits. Or it has the lock, as it was told now. */
void watches_waits(struct sim *s, const struct record *r);
void watches_holds(struct sim *s, struct machine *m, const struct hold *h);
/* The client watches nothing any more. */
void watches_clear(struct machine *m);
/* At the end each client knows the newest generation of what it watches. */
void watches_check_end(struct sim *s);

#endif
