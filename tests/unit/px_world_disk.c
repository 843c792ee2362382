/* The world's disks: what is durable, and what goes wrong with that. */
#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/paxos/ballot.h"
#include "tests/unit/px_world.h"

static void
disk_reach(struct disk *d, uint64_t slot)
{
	while (d->entries_n < slot) {
		ARRAY_ROOM(d->entries, d->entries_n, d->entries_room);
		d->entries[d->entries_n++] = (struct log_entry){0};
	}
}

static void
disk_put(struct disk *d, const struct px_record *r)
{
	disk_reach(d, r->slot);
	free((void *)d->entries[r->slot - 1].payload.data);
	d->entries[r->slot - 1] = (struct log_entry){
		.slot = r->slot,
		.ballot = r->ballot,
		.origin = r->origin,
		.before = r->before,
		.checksum = r->checksum,
		.payload = bytes_copy(r->payload),
	};
	if (d->rotten == r->slot)
		d->rotten = 0;
}

static void
disk_trim(struct disk *d, uint64_t slot)
{
	disk_reach(d, slot);
	for (; d->trimmed < slot; d->trimmed++) {
		free((void *)d->entries[d->trimmed].payload.data);
		d->entries[d->trimmed] = (struct log_entry){0};
	}
	if (d->rotten <= d->trimmed)
		d->rotten = 0;
}

void
world_disk_write(struct disk *d, const struct px_record *r)
{
	switch (r->kind) {
	case PX_RECORD_PROMISE:
		d->promised = ballot_max(d->promised, r->ballot);
		break;
	case PX_RECORD_ENTRY:
		disk_put(d, r);
		break;
	case PX_RECORD_CHOSEN:
		d->chosen = r->slot;
		break;
	case PX_RECORD_TRIM:
		disk_trim(d, r->slot);
		break;
	case PX_RECORD_LEASE:
		if (d->lease.ns < r->length.ns)
			d->lease = r->length;
		break;
	case PX_RECORD_MARK:
		d->marks[r->mark.replica] = r->mark;
		break;
	}
}

const struct log_entry *
world_disk_entry(const struct disk *d, uint64_t slot)
{
	if (slot == 0 || slot > d->entries_n || d->entries[slot - 1].slot == 0)
		return NULL;
	return &d->entries[slot - 1];
}

struct disk *
world_disk_open(struct disk *d)
{
	if (d->rotten != 0 && d->rotten <= d->applied)
		disk_trim(d, d->applied);
	return d;
}

void
world_disk_free(struct disk *d)
{
	for (size_t i = 0; i < d->entries_n; i++)
		free((void *)d->entries[i].payload.data);
	free(d->entries);
	*d = (struct disk){0};
}

static void
copy_disk(struct disk *to, const struct disk *from)
{
	world_disk_free(to);
	*to = *from;
	to->entries = NULL;
	to->entries_n = to->entries_room = 0;
	for (size_t i = 0; i < from->entries_n; i++) {
		ARRAY_ROOM(to->entries, to->entries_n, to->entries_room);
		to->entries[i] = from->entries[i];
		to->entries[i].payload = bytes_copy(from->entries[i].payload);
		to->entries_n++;
	}
}

/* ---- what goes wrong ---- */

/* With one disk more that fails, is there still a majority of sound ones? */
static bool
may_fail(const struct world *w, uint8_t id)
{
	const struct px_members *members = world_members(w, w->sums_n);
	int sound = 0;

	for (int i = 0; i < members->n; i++) {
		const struct node *node = &w->nodes[members->list[i].id - 1];

		sound += members->list[i].voter && members->list[i].id != id && !node->lost &&
		         node->disk.rotten == 0 && !node->disk.state_lost &&
		         (!node->px || px_condition(node->px) != CONDITION_REPAIRING);
	}
	return world_is_majority(members, sound);
}

/* The highest slot and ballot that a disk knows. */
static uint64_t
highest_slot(const struct disk *d)
{
	return d->applied > d->entries_n ? d->applied : d->entries_n;
}

static struct ballot
highest_ballot(const struct disk *d)
{
	struct ballot highest = d->promised;

	for (size_t i = d->trimmed; i < d->entries_n; i++)
		highest = ballot_max(highest, d->entries[i].ballot);
	return highest;
}

/* Does `other` know, and never forget, that this replica is beyond this disk? */
static bool
knows_more(const struct node *other, uint8_t id, const struct disk *d)
{
	const struct mark *m = &other->disk.marks[id];

	if (d->incarnation == 0)
		return other->welcomed[id];
	return m->slot > highest_slot(d) || ballot_less(highest_ballot(d), m->ballot);
}

/* An acceptor that forgets is found out if all others remember more of it. If some do not, nobody
 * can know. */
static bool
is_found_out(const struct world *w, uint8_t id, const struct disk *d)
{
	const struct px_members *members = world_members(w, d->applied);

	for (int i = 0; i < members->n; i++) {
		uint8_t other = members->list[i].id;

		if (other != id && !w->nodes[other - 1].lost &&
		    !knows_more(&w->nodes[other - 1], id, d))
			return false;
	}
	return members->n > 1 && world_votes(members, id);
}

static void
replace_disk(struct world *w, uint8_t id, const struct disk *with)
{
	struct node *node = world_node(w, id);

	if (!may_fail(w, id) || !is_found_out(w, id, with))
		return;
	world_crash(w, id);
	copy_disk(&node->disk, with);
	node->lost = true;
	w->disks_lost++;
	world_tell(w, id, with->incarnation ? "gets an old copy of its disk"
	                                    : "gets an empty disk");
}

void
world_empty_disk(struct world *w, uint8_t id)
{
	static const struct disk empty;

	replace_disk(w, id, &empty);
}

void
world_back_up_disk(struct world *w, uint8_t id)
{
	if (!world_node(w, id)->lost)
		copy_disk(&world_node(w, id)->backup, &world_node(w, id)->disk);
}

void
world_restore_disk(struct world *w, uint8_t id)
{
	if (world_node(w, id)->backup.incarnation > 0)
		replace_disk(w, id, &world_node(w, id)->backup);
}

void
world_rot(struct world *w, uint8_t id)
{
	struct disk *d = &world_node(w, id)->disk;

	if (!may_fail(w, id) || d->rotten != 0 || world_node(w, id)->lost)
		return;
	world_crash(w, id);
	if (d->entries_n == d->trimmed)
		return;
	d->rotten = d->trimmed + 1 + rng_below(&w->rng, d->entries_n - d->trimmed);
	w->rotten++;
	world_tell(w, id, "has a damaged entry");
}

void
world_lose_state(struct world *w, uint8_t id)
{
	struct disk *d = &world_node(w, id)->disk;

	if (!may_fail(w, id) || world_node(w, id)->lost)
		return;
	world_crash(w, id);
	d->applied = 0;
	d->applied_origin = BALLOT_NONE;
	d->state_lost = d->trimmed > 0;
	w->states_lost++;
	world_tell(w, id, "has lost its state");
}
