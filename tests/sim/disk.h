/* A replica's disk: what was written, and what of it survives a crash. */
#ifndef LSFS_SIM_DISK_H
#define LSFS_SIM_DISK_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/config/key_file.h"
#include "cell/paxos/px.h"
#include "cell/tree/tree.h"
#include "tests/sim/world.h"

struct slot {
	RB_ENTRY(slot) node;
	uint64_t number, checksum;
	struct ballot ballot, origin, before;
	struct bytes payload;
};
RB_HEAD(slot_tree, slot);
RB_PROTOTYPE(slot_tree, slot, node, slot_compare)

struct saved_row {
	RB_ENTRY(saved_row) node;
	struct row row; /* owns its bytes */
};
RB_HEAD(saved_rows, saved_row);
RB_PROTOTYPE(saved_rows, saved_row, node, row_compare)

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
	int64_t state_stuck_until; /* though the log is written */
	size_t unsaved;            /* bytes of rows that are being written */
	bool broken;               /* the next fsync fails */
	uint64_t highest; /* slot that the log ever held: more than it holds when it rotted */
	bool state_lost;  /* by rot, and not copied yet */
	bool replaced;    /* emptied or an old copy */
	struct key_files {
		struct sign_keys keys;
		bool named;       /* the cell file names these */
		uint64_t version; /* of the cell when it had them */
		uint8_t newest[SIGN_PUBLIC], former[SIGN_PUBLIC];
	} keys;
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
/* The highest in the log; 0: it is empty. */
uint64_t disk_last_slot(const struct disk *d);

/* ---- disk_recovery.c ---- */

/* What a start finds. `entries` are to be freed with free(). */
struct tree *disk_recover(struct sim *s, struct disk *d, struct px_recovered *recovered);

#endif
