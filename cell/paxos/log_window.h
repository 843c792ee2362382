/* A window of the log: consecutive slots base + 1 .. last, each with one accepted entry. */
#ifndef LSFS_PAXOS_LOG_WINDOW_H
#define LSFS_PAXOS_LOG_WINDOW_H

#include "cell/wire/types.h"

struct log_window_entry {
	struct ballot ballot, origin, before;
	uint64_t checksum;
	uint64_t offset;      /* payload bytes before it; see log_window_recount */
	struct bytes payload; /* owned */
	/* In a candidate's window of what the promises reported: */
	uint8_t holder; /* a replica that has the payload, which is not here; 0: it is here */
	bool chosen;
};

struct log_window {
	uint64_t base;                  /* the slot before the first */
	uint64_t last;                  /* the last slot; the base when the window is empty */
	struct ballot origin;           /* of the base's entry, when it is known */
	struct log_window_entry *items; /* a ring */
	size_t head, room;              /* room is a power of two, or 0 */
};

/* Empties the window; its first slot will be base + 1, and the origin of `base` is not known. */
void log_window_start(struct log_window *w, uint64_t base);
/* Frees the entries; the window is empty. */
void log_window_free(struct log_window *w);

/* The entry of a slot that is in the window. */
struct log_window_entry *log_window_at(const struct log_window *w, uint64_t slot);
/* The origin of a slot's entry or of the base; BALLOT_NONE for a slot that is not in the window. */
struct ballot log_window_origin(const struct log_window *w, uint64_t slot);

/* True when a slot's entry was proposed after the entry that now precedes it, as far as known. */
bool log_window_goes_on(const struct log_window *w, uint64_t slot);

/* Puts an entry, whose payload is copied, over an older one or directly after the last one.
 * Returns it as it is in the window, where it stays until the next one is put. */
const struct log_window_entry *log_window_put(struct log_window *w, const struct log_entry *e);
/* Drops the entries above `last`. */
void log_window_cut(struct log_window *w, uint64_t last);
/* Drops the entries up to `slot`, which becomes the base. */
void log_window_trim(struct log_window *w, uint64_t slot);

/* The entry as it is sent in messages; a view. */
struct log_entry log_window_entry(const struct log_window *w, uint64_t slot);

/* Computes the offsets again, after entries were replaced by others of a different length. */
void log_window_recount(struct log_window *w);
/* Payload bytes of the slots above `after` up to `slot`, both inside or at the base. */
uint64_t log_window_bytes(const struct log_window *w, uint64_t after, uint64_t slot);

#endif
