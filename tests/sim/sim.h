/* The simulator: whole cells and their clients in one process, on virtual time, from one seed.
 *
 *   world.h     heap.c: events, ordered by (time, sequence); clocks.c: each machine's own clock;
 *               net.c, net_frames.c: clients' connections that delay, stall and break, and who
 *               cannot reach whom; link.c: connections between replicas; uplink.c: how fast a
 *               machine can send; gates.c: addresses and keys of replicas, and whom one knows
 *   disk.h      disk.c, disk_recovery.c: what a replica wrote, and what of it survives a crash
 *   host.h      host.c, host_turns.c: the process of one replica, which runs cell/server;
 *               host_io.c: what that stands on; host_checks.c: what must hold of it;
 *               host_damage.c: what happens to its disk while it is down; copies.c: copies of its
 *               state, given to others and fetched from them; boots.c: the machine below it, after
 *               a failed fsync
 *   machine.h   machine.c: drives one client, and the processes or the mount above it; holds.c:
 *               what these believe to hold; work.c, work_rounds.c, work_names.c, work_rights.c,
 *               work_transactions.c: what the processes of a client do; watches.c: nodes that it
 *               watches; mounts.c, users.c, user_rounds.c, user_handles.c: a mount, and what the
 *               processes on it do; event_readers.c: one that reads the mount's events; bulk.c: a
 *               client that writes much at once; hub.c: with one replica away, which is needed
 *               then; cached.c: what machines have cached, and must not have when it changes
 *   history.h   history.c: every request: when it was made, sent, took effect, was answered;
 *               judgement.c: all of them before the judgement of calls (tests/calls)
 *   model.h     model.c, model_files.c, model_sessions.c, model_rights.c, digits.c, signing_keys.c,
 *               locks.c, declared.c, agreed.c, model_transactions.c: what the cell should do,
 *               written down a second time and as simply as possible, fed with the log, compared
 *               with what clients are told; reads.c: and what reads show with what was there at
 *               that moment
 *   members.h   members.c: the lists of members that there were, and what has to hold of them;
 *               operators.c, wishes.c: those who add replicas, remove them, hand the mastership
 *               over, change settings
 *   setting_changes.h   the settings that there were
 *   faults.h    swarm.c: which faults a seed has; faults.c: when they strike; adversary.c and its
 *               parts: those that wait for their moment; ambush.c: for what clients do; liar.c: a
 *               replica that says what is not so; stolen_key.c: somebody who speaks in the name of
 *               one; core.c: only a quorum heals; election.c: a master is found; guest.c: a
 *               principal that comes and goes; rot.c: rows of a state that are not what they were
 *   restored.h  a copy of the cell becomes a new one
 *   blocks.c    memory that is not freed
 *   quiet.c     what happens when nobody asks for anything
 *   trace.c     what happens, in words
 *   soak.c      many runs, on all cores
 *
 * A run takes a minute or more of virtual time and has two parts: with faults, in which only safety
 * counts; then without, in which everything that was begun must come to an end. Nothing here
 * depends on addresses, the clock or the machine. */
#ifndef LSFS_SIM_H
#define LSFS_SIM_H

#include "cell/base/rng.h"
#include "cell/client/client.h"
#include "cell/replica/replica.h"
#include "cell/wire/codec.h"
#include "tests/sim/disk.h"
#include "tests/sim/faults.h"
#include "tests/sim/history.h"
#include "tests/sim/host.h"
#include "tests/sim/liar.h"
#include "tests/sim/machine.h"
#include "tests/sim/members.h"
#include "tests/sim/model.h"
#include "tests/sim/setting_changes.h"
#include "tests/sim/world.h"

/* ---- rot.c ---- */

struct disk;

/* Loads the state of a disk with a mistake in it, sometimes. */
void rot_try(struct sim *s, const struct disk *d);

/* ---- quiet.c ---- */

/* What has happened since nobody asks for anything. */
struct quiet {
	int64_t since;    /* 0: some replica was not well */
	uint64_t applied; /* then */
	unsigned keepalives, keepalive_replies, heartbeats, heartbeat_replies, datagrams;
	unsigned drops;                   /* of caches, by clients */
	unsigned indices;                 /* messages of events that have none */
	unsigned lapses;                  /* of leaves to cache */
	unsigned others, other;           /* other messages, and the code of the last one */
	unsigned connects, writes, lines; /* lines: in logs */
	unsigned client_timers, server_timers, turns; /* that a driver's loop has woken up for */
};

struct sim;

/* From here on; a client or a replica sends that; the run ends. */
void quiet_begin(struct sim *s);
/* All replicas have all that was decided, saved. */
bool quiet_all_have_everything(const struct sim *s);
void quiet_frame(struct sim *s, struct bytes frame);
void quiet_check(struct sim *s);

/* ---- blocks.c ---- */

/* Blocks of memory that were allocated and are not freed. */
long blocks_count(void);
/* Asked at each allocation, true: it fails; NULL: none does. */
extern bool (*blocks_refuse)(void);

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
	struct rng rng, watching;
	int64_t now;
	bool calm; /* the second part */
	struct swarm swarm;
	struct heap heap;
	struct net net;
	struct liar liar;
	struct {
		int holder; /* the replica that has the master's lease; 0: none */
		int64_t since, until;
	} leased;
	struct stolen_key stolen_key;
	struct guest guest;
	struct hub hub;
	struct core core;
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
	struct {
		struct rng rng; /* of late notices and slow kernels */
	} cached;
	struct {
		struct rng rng; /* of those who have different rights */
		bool on;
		uint64_t opened[4]; /* requests that have shown rights to somebody */
		size_t opened_n;
	} rights;
	struct {
		struct rng rng;                  /* of what processes do with open files */
		char shown[LIMIT_SEQUENCER + 1]; /* a sequencer, for all */
	} handles;
	uint64_t values;
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
	bool bare; /* there is one replica, whose log the model does not follow, and nobody is told:
	            */
	/* A line of its log. */
	void (*said)(void *user, int replica, enum log_level level, const char *line);
	/* A command of the log takes effect; `r` NULL: the master's own; `want` NULL: again, or of
	 * a session that is over. */
	void (*decided)(void *user, uint64_t index, const struct op *op, const struct record *r,
	                const struct outcome *want);
	void (*heard)(void *user, uint64_t conn, enum client_event_kind kind, struct bytes frame);
	void (*answered)(void *user, const struct record *r);
	void (*granted)(void *user, int machine, const struct client_grant *g);
	void (*state)(void *user, int machine);
	void (*watched)(void *user, int machine, const struct client_watched *w);
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
