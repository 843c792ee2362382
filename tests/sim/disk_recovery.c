/* What a start finds on a replica's disk. */
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

static void
recover_entries(struct disk *d, struct px_recovered *recovered)
{
	struct log_entry *entries;
	struct slot *slot;
	size_t n = 0;

	RB_FOREACH(slot, slot_tree, &d->slots)
		n++;
	entries = memory_zero(n + 1, sizeof *entries);
	n = 0;
	RB_FOREACH(slot, slot_tree, &d->slots) {
		must(checksum(slot->payload) == slot->checksum);
		entries[n++] = (struct log_entry){.slot = slot->number,
		                                  .ballot = slot->ballot,
		                                  .origin = slot->origin,
		                                  .before = slot->before,
		                                  .checksum = slot->checksum,
		                                  .payload = slot->payload};
	}
	recovered->entries = entries;
	recovered->entries_n = n;
}

static struct tree *
recover_tree(struct sim *s, struct disk *d)
{
	struct tree *t = tree_new("sim");
	struct saved_row *r;
	char why[256] = "";

	tree_set_ending(t, s->swarm.ending);
	RB_FOREACH(r, saved_rows, &d->rows) {
		if (tree_load_row(t, &r->row) != RC_OK)
			sim_fail(s, "a row of %s that was saved does not load",
			         row_table_info(r->row.table)->name);
	}
	if (tree_load_done(t, why, sizeof why) != RC_OK)
		sim_fail(s, "the saved rows do not load: %s", why);
	if (tree_applied(t) != d->applied)
		sim_fail(s, "rows saved at %lu load as %lu", (unsigned long)d->applied,
		         (unsigned long)tree_applied(t));
	return t;
}

/* A state that ends before the log begins is of no use, and is set aside, as the store does. Of the
 * leases that it ever granted the longest may still hold, unless the last incarnation has
 * recorded that none does. */
struct tree *
disk_recover(struct sim *s, struct disk *d, struct px_recovered *recovered)
{
	const bool none_left = d->incarnation != 0 && d->free_of_leases == d->incarnation;
	struct tree *tree;

	*recovered = (struct px_recovered){
	    .incarnation = ++d->incarnation,
	    .promised = d->promised,
	    .chosen = d->chosen > d->trimmed ? d->chosen : d->trimmed,
	    .trimmed = d->trimmed,
	    .wait = none_left ? (span_t){0} : d->lease,
	    .marks = d->marks,
	    .marks_n = LIMIT_REPLICA_ID + 1,
	};
	recover_entries(d, recovered);
	if (d->highest > disk_last_slot(d) && d->highest > d->applied)
		recovered->damaged = d->highest;
	if (d->applied < d->trimmed)
		disk_rot_state(d);
	recovered->state_lost = d->state_lost;
	tree = recover_tree(s, d);
	recovered->applied = tree_applied(tree);
	recovered->applied_origin = tree_origin(tree);
	return tree;
}
