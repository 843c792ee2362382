/* A small world of replicas that run paxos alone: virtual time, a network that loses, doubles,
 * reorders and cuts, disks that lag and lose what was not durable, clocks that run at different
 * rates. Everything comes from one seed. After every event the world checks what must always hold,
 * and ends the program with the seed when it does not. */
#ifndef LSFS_TESTS_PX_WORLD_H
#define LSFS_TESTS_PX_WORLD_H

#include <stdbool.h>
#include <stdint.h>

#include "cell/base/rng.h"
#include "cell/paxos/px.h"

enum { WORLD_NODES = 14, WORLD_CLIENTS = 3 };

/* What is durable. */
struct disk {
	uint64_t incarnation;
	struct ballot promised;
	uint64_t chosen, trimmed;
	span_t lease;
	struct log_entry *entries; /* index: slot - 1; payloads owned; slot 0: none */
	size_t entries_n, entries_room;
	uint64_t applied; /* of state.db */
	struct ballot applied_origin;
	struct mark marks[WORLD_NODES + 1]; /* replica 0: none */
	uint64_t rotten;  /* the entry of this slot is unreadable; 0: none is */
	bool state_lost;  /* and the log begins behind it */
};

/* Records on their way to the disk. */
struct transaction {
	uint64_t ticket;
	struct px_record *records; /* payloads owned */
	size_t records_n;
};

/* A message that waits for its ticket. */
struct held {
	uint8_t to;
	uint64_t after;
	struct bytes frame;
};

struct node {
	struct px *px; /* NULL: down */
	struct px_update update;
	uint64_t incarnation; /* counts its starts, with whatever disk */
	int64_t rate_ppm, offset; /* of its clock */
	int64_t paused_until;
	struct disk disk;
	struct transaction *queue;
	size_t queue_n, queue_room;
	size_t syncing; /* of the queue: they share the sync that runs */
	int64_t disk_stuck_until;
	struct held *held;
	size_t held_n, held_room;
	int64_t timer_at;
	struct ballot promised; /* the highest that any of its incarnations told */
	uint64_t checked;      /* chosen slots that were compared with the others' */
	struct ballot term;    /* as a master */
	uint64_t epoch_slot;   /* of the first proposal of that term */
	int64_t restart_at;
	struct px_members file; /* of one that came later: the list of its cell file */
	bool copying;          /* a state, from a replica that has one */
	struct disk backup;    /* an old copy; incarnation 0: none */
	bool lost;             /* its disk was emptied or replaced by an old copy */
	bool welcomed[WORLD_NODES + 1]; /* those whom it ever welcomed */
};

enum world_event_kind { EVENT_DELIVER, EVENT_DISK, EVENT_PERSISTED, EVENT_TIMER, EVENT_COPY };

struct world_event {
	int64_t at;
	uint64_t order;
	enum world_event_kind kind;
	uint8_t node, from; /* replica ids */
	uint64_t incarnation, ticket;
	struct bytes frame;
};

/* A client sends numbered commands without waiting, and anew from the first unanswered one when the
 * master changes. */
struct client {
	uint8_t node; /* 0: none */
	struct ballot term;
	uint64_t next;    /* to be sent */
	uint64_t applied; /* the last one that took effect */
};

struct world {
	uint64_t seed;
	bool tell; /* prints who becomes what, and who is hit by what */
	struct rng rng;
	int64_t now;
	int n; /* nodes that there are, members or not */
	struct node nodes[WORLD_NODES];
	struct client clients[WORLD_CLIENTS];
	bool cut[WORLD_NODES + 1][WORLD_NODES + 1]; /* from, to */

	/* Faults. */
	unsigned drift_permille; /* by which the clocks' rates differ, and that paxos allows for */
	unsigned lose, twice, late; /* permille of messages */
	int64_t delay, late_delay, disk_delay;
	unsigned large; /* permille of proposals */
	bool rolling;    /* partitions without a pause between them */
	uint8_t outdated; /* is cut off, to be let in when the members have changed; 0: nobody */
	uint64_t log_entries; /* kept at most for who needs them; 0: all that may be needed */
	unsigned disk_faults; /* permille of the faults */
	unsigned change; /* permille of chances to change the members */
	bool in_order;  /* of each link, as TCP has it */
	int64_t arrived[WORLD_NODES + 1][WORLD_NODES + 1]; /* the last message from, to */

	struct world_event *events; /* a heap */
	size_t events_n, events_room;
	uint64_t order;

	struct px_members *lists; /* chosen, the first one before all slots */
	size_t lists_n, lists_room;

	uint64_t *sums; /* checksum per chosen slot, index slot - 1 */
	size_t sums_n, sums_room;
	/* Counted, to see that a run does something. */
	uint64_t masterships, proposals, crashes, changes, copies, disks_lost, rotten, states_lost;
};

void world_start(struct world *w, uint64_t seed, int n);
void world_free(struct world *w);
/* Handles all events up to `until`. */
void world_run(struct world *w, int64_t until);
/* Ends the program if `holds` is false, naming the seed. */
void world_check(const struct world *w, bool holds, const char *what);

struct node *world_node(struct world *w, uint8_t id); /* 1.. */
mono_t world_clock(const struct world *w, const struct node *node);
void world_boot(struct world *w, uint8_t id);
/* Power loss: of what waits for the disk, a prefix has made it. */
void world_crash(struct world *w, uint8_t id);
void world_pause(struct world *w, uint8_t id, int64_t length);
void world_step(struct world *w, uint8_t id, struct px_event e);
/* state.db has become durable up to what is chosen. */
void world_save(struct world *w, uint8_t id);
/* A client proposes something somewhere. */
void world_propose(struct world *w, unsigned client);
bool world_is_open(struct world *w, uint8_t id);
/* The replica that may serve reads now: the master, its first entry chosen, its lease valid. 0:
 * none. */
uint8_t world_serving(struct world *w);

/* Prints what has become of a replica, if this run is told. */
void world_tell(const struct world *w, uint8_t id, const char *what);

/* ---- px_world_disk.c ---- */

/* The record is durable. */
void world_disk_write(struct disk *d, const struct px_record *r);
void world_disk_free(struct disk *d);
/* At a start: what is damaged and in the state anyway is dropped with all before it. */
struct disk *world_disk_open(struct disk *d);
/* The entry of a slot, readable or not; NULL: there is none. */
const struct log_entry *world_disk_entry(const struct disk *d, uint64_t slot);
/* What goes wrong with a disk, while its replica is down; only if a majority of the voters stay
 * sound. Emptied, or replaced by the copy made before: only if all others know enough to notice. */
void world_empty_disk(struct world *w, uint8_t id);
void world_back_up_disk(struct world *w, uint8_t id);
void world_restore_disk(struct world *w, uint8_t id);
void world_rot(struct world *w, uint8_t id);
void world_lose_state(struct world *w, uint8_t id);

/* ---- px_world_members.c ---- */

/* The list in force behind a slot. */
const struct px_members *world_members(const struct world *w, uint64_t slot);
bool world_votes(const struct px_members *m, uint8_t id);
bool world_is_majority(const struct px_members *m, int voters);
void world_first_members(struct world *w, int n);
struct px_members world_members_at_start(const struct world *w, uint8_t id);
/* This entry was chosen: it may be a change. */
void world_note_change(struct world *w, uint64_t slot, struct bytes payload);
/* What a replica takes for the list in force. */
void world_check_members(const struct world *w, uint8_t id);
/* It has just become master. */
void world_check_elected(const struct world *w, uint8_t id);
/* The master that serves proposes some change of the members. */
void world_change_members(struct world *w);

#endif
