/* The world of a transcript of paxos: replicas with a clock, disks, and messages under way. */
#ifndef LSFS_TESTS_TRANSCRIPTS_PX_WORLD_H
#define LSFS_TESTS_TRANSCRIPTS_PX_WORLD_H

#include "tests/transcripts/px_disk.h"
#include "tests/transcripts/px_text.h"

enum { REPLICAS = 9 };

/* A write that is not durable yet. */
struct pending {
	uint64_t write;
	struct px_record *records; /* with their payloads, owned */
	size_t n;
};

struct replica {
	uint8_t id;
	char name[2];
	struct px *px; /* NULL: not started */
	struct px_update update;
	struct trace trace;
	struct px_disk disk;
	uint64_t start;
	struct ballot ballot; /* of its last Prepare */
	struct pending *pending;
	size_t pending_n, pending_room;
	uint64_t durable;
	bool slow;
};

/* A message under way between two started replicas. */
struct flight {
	uint8_t from, to;
	uint64_t after;
	struct bytes frame;
};

struct world {
	struct px_config config; /* of all */
	struct replica replicas[REPLICAS + 1];
	struct flight *flights;
	size_t flights_n, flights_room;
	mono_t now;
	bool marks; /* are printed */
	bool votes; /* are asked for; else the others give them at once, unsaid */
	struct px_text text;
};

/* A world without replicas, and its end. */
void px_world_begin(void *world);
void px_world_end(void *world);
/* A process starts, with the number `number` (0: one of the replica's id and the incarnation). */
void px_world_start(struct script *s, struct world *w, struct replica *r, uint64_t number);
/* It ends: its writes that are not durable, and messages that wait for them, are lost. */
void px_world_crash(struct world *w, struct replica *r);
/* An event happens to a replica; what it decides, writes and sends is said. */
void px_world_step(struct script *s, struct world *w, struct replica *r, struct px_event e);
void px_world_receive(struct script *s, struct world *w, uint8_t from, uint8_t to,
                      const struct message *m);
/* Its deadline is reached. */
void px_world_time_out(struct script *s, struct world *w, struct replica *r);
/* The started replica whose deadline is the earliest; NULL: none has one. */
struct replica *px_world_next(struct world *w);
/* The writes up to this one become durable. */
void px_world_sync(struct script *s, struct world *w, struct replica *r, uint64_t write);
/* Takes the messages out that are under way now (from, to: 0 is any), and delivers them, or drops
 * them; returns how many they are. */
size_t px_world_take(struct script *s, struct world *w, uint8_t from, uint8_t to, bool deliver);

#endif
