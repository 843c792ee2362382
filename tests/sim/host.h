/* The process of one replica, and what it stands on. */
#ifndef LSFS_SIM_HOST_H
#define LSFS_SIM_HOST_H

#include "cell/server/server.h"
#include "cell/copy/state_transfer.h"
#include "cell/store/boot_verdict.h"
#include "tests/sim/disk.h"
#include "tests/sim/faults.h"

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

/* The server's access to them. */
struct copy_io copies_io(struct host *n);
/* The server is to start again for one: the run fails if its state is as new, or
 * if the log here begins behind the copy. */
void copies_check_newer(const struct host *n);
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
	bool up, stopping;  /* up: its server runs */
	bool disk_failed;   /* and it knows */
	uint64_t life;
	struct local_clock clock;
	int64_t wall_off; /* by how much the time of day is wrong */
	struct identity identity;
	struct server *server;
	const struct replica *replica; /* what it runs */
	struct copies copies;
	struct seats writing; /* the cell file that is being written */
	struct key_files writing_keys;
	struct disk disk, copy; /* and what it was like earlier */
	struct boot boot;
	bool full;
	int64_t stopped_for;
	int64_t paused_until, timer_at, back_at, heard_at; /* the last: a heartbeat */
	int64_t busy_until;                                /* with its last turn */
	int64_t spent;                                     /* in the turn that it has now */
	mono_t shown;                                      /* by its clock, when it looked last */
	size_t step_size;                                  /* rows and frames of its last step */
	int acceptances;                                   /* sent since a write became durable */
	int promises;                                      /* since the first one of this time */
	int64_t persisted_at;                              /* of its last durable write */
	size_t clients;        /* connections of clients that it has let in */
	unsigned lines;        /* that it has logged in the last second */
	int64_t requests_from; /* how long its turn had lasted at the first request; -1: none yet */
	uint64_t deeds;  /* steps that it has taken, frames sent, connections begun and ended */
	bool turn_waits; /* an event will begin it */
	uint64_t timers, checked;
	int role; /* enum px_role, as of the last step: for the trace */
};

/* A replica: made once, started, crashed and stopped many times. */
void host_init(struct sim *s, struct host *n, int id);
/* It gets an address, a key, and a cell file with these members; a learner has no signing key. */
void host_create(struct sim *s, struct host *n, uint8_t body, const struct seats *file);
/* Is it, or may it be, a running process? */
bool host_exists(const struct host *n);
/* What its disk holds, whatever the page cache shows. */
const struct disk *host_disk(const struct host *n);
/* Has it lost its vote for good? */
bool host_is_lost(const struct host *n);
void host_start(struct sim *s, struct host *n);
/* So many clients each replica lets in. */
size_t host_clients_max(const struct sim *s);
/* `why`: what is counted. */
void host_crash(struct sim *s, struct host *n, enum fault why);
/* Starts it after that time. */
void host_down(struct sim *s, struct host *n, int64_t back);
/* It is back after that time. */
void host_crash_for(struct sim *s, struct host *n, enum loss loss, int64_t back);
/* It has been told that it was removed. */
void host_expelled(struct sim *s, struct host *n);
void host_stop(struct sim *s, struct host *n, int64_t back);
/* Its disk becomes full, or has room again. */
void host_full(struct sim *s, struct host *n, bool full);
void host_pause(struct sim *s, struct host *n, int64_t until);
/* What was wrong with its disk and its clock is over. */
void host_calm_down(struct sim *s, struct host *n);
void host_clock_changed(struct sim *s, struct host *n);
void host_free(struct host *n);
struct server_io host_io(struct host *n);
/* Likewise, or its disk is stuck. */
bool disk_puts_off(struct sim *s, const struct host *n, struct event *e);
/* Nothing of its disk is stuck any more. */
void host_disk_goes_on(struct sim *s, struct host *n);
struct host *sim_serving(struct sim *s);
/* One of those that exist. */
struct host *sim_random_host(struct sim *s);

/* ---- host_turns.c ---- */

/* Its connections, as in server_io.h. */
bool host_opened(struct host *n, uint64_t conn, enum channel_role role, const uint8_t *key);
void host_frame(struct host *n, uint64_t conn, struct bytes frame);
void host_closed(struct host *n, uint64_t conn, const char *why);
/* After its server was handed something; when there is something for it to look at again. */
void host_settle(struct sim *s, struct host *n);
void host_wake(struct sim *s, struct host *n);
/* Until when it is paused or has no time; `now`: it is there. */
int64_t host_busy_until(const struct sim *s, const struct host *n);
/* Does it know the replica of this body as a member? And the id of that replica; 0: there is none.
 */
bool host_knows(const struct host *n, uint8_t body);
int host_with_body(const struct sim *s, uint8_t body);
/* When what it sends now leaves it: a turn has taken what it has cost so far. */
int64_t host_departure(const struct sim *s, const struct host *n);
/* True: it is, and the event comes again by then. */
bool host_puts_off(struct sim *s, const struct host *n, struct event *e);
/* Its next deadline, which may have changed. */
void host_schedule(struct sim *s, struct host *n);
/* What its server says after a turn, in host.c. */
void host_obey(struct sim *s, struct host *n, enum server_verdict verdict);

/* ---- host_damage.c ---- */

/* Do others remember more of it than it has ever had, for it has told them so? What it lacks, and
 * lacks for that, nobody can give it. */
bool host_is_bound_by_lies(const struct sim *s, const struct host *n);
/* Something happens to its disk while it is down; `unheard`: then it starts several times before
 * another replica hears it. */
void host_damage(struct sim *s, struct host *n, enum fault f, bool unheard);

/* ---- host_checks.c ---- */

/* After each turn. */
void host_check(struct sim *s, struct host *n);
/* Every second: what is in memory hangs together, and is the same everywhere. */
void host_inspect(struct sim *s, struct host *n);
/* Every replica is here and serves or follows, with everything that was decided. */
void host_check_end(struct sim *s);
/* The log is written in what every member understands. */
void host_check_minor(struct sim *s);
/* This was the value of an index for some replica, and is for all. */
void host_remember(struct sim *s, uint64_t **values, size_t *room, uint64_t index, uint64_t value,
                   const struct host *n, const char *what);

/* ---- boots.c ---- */

/* A sync of its disk has failed: the process marks that, and ends. The machine itself restarts
 * later; returns when. */
int64_t boot_failed(struct sim *s, struct host *n);
/* A supervisor starts the process again: does it run? */
bool boot_allows(struct sim *s, struct host *n);

#endif
