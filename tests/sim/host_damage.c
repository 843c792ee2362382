/* What happens to the disk of a replica while it is down, as far as a cell can bear it: an acceptor
 * that forgets is found out when those who may welcome it remember more of it. */
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "tests/sim/sim.h"

/* A log that was trimmed tells of what it held, also when the state is lost. */
static bool
has_acknowledged_more(const struct host *other, const struct host *n, const struct disk *with)
{
	const struct mark *m = &host_disk(other)->marks[n->id];
	uint64_t last = with->highest > with->applied ? with->highest : with->applied;

	return (m->slot > last && m->slot > with->trimmed) ||
	       ballot_less(with->promised, m->ballot);
}

bool
host_is_bound_by_lies(const struct sim *s, const struct host *n)
{
	bool more = false;

	for (int i = 0; i < s->hosts_n; i++) {
		const struct mark *m = &host_disk(&s->hosts[i])->marks[n->id];

		more = more || has_acknowledged_more(&s->hosts[i], n, &n->disk) ||
		       (m->replica != 0 && m->start != n->disk.marks[n->id].start);
	}
	return n->id == s->liar.id && more;
}

/* True if the other one has welcomed a later start than the next one from this disk, or another one
 * of that incarnation. If the last start from it was not welcomed, the next one is the same. */
static bool
has_welcomed_another(const struct host *other, const struct host *n, const struct disk *with)
{
	const struct mark *m = &host_disk(other)->marks[n->id], *own = &with->marks[n->id];
	const bool again = own->replica != 0 && own->slot == 0;
	const uint64_t next = own->replica != 0 ? own->incarnation + !again : with->incarnation + 1;

	return m->incarnation > next ||
	       (m->incarnation == next && !(again && m->start == own->start));
}

/* An acceptor that forgets is found out when whoever may welcome it remembers more of it, or a
 * later start. If a majority with it remembers less, nobody can know. `emptied`: one that remembers
 * nothing, or NULL. */
static bool
is_found_out_by(const struct sim *s, const struct seats *list, const struct host *n,
                const struct disk *with, const struct host *emptied)
{
	int others = 0, voters = 0, welcome = 0;

	for (int i = 0; i < list->n; i++) {
		const struct host *other = &s->hosts[list->list[i].id - 1];

		if (list->list[i].role != MEMBER_VOTER)
			continue;
		voters++;
		others += other != n;
		welcome += other != n && host_exists(other) &&
		           (other == emptied || (!has_acknowledged_more(other, n, with) &&
		                                 !has_welcomed_another(other, n, with)));
	}
	return welcome < (others < voters ? voters / 2 : voters / 2 + 1);
}

/* It asks those in its file first, or those whom the disk names: one from the time when it had the
 * only vote asks nobody. */
static bool
is_found_out(const struct sim *s, const struct host *n, const struct disk *with,
             const struct host *emptied)
{
	const struct members *m = &s->members;

	for (size_t i = 0; i < m->lists_n; i++) {
		bool over = i + 1 < m->lists_n && m->lists[i + 1].version <= with->applied;

		if (!over && m->lists[i].version <= with->highest &&
		    !is_found_out_by(s, &m->lists[i], n, with, emptied))
			return false;
	}
	return is_found_out_by(s, members_last(s), n, with, emptied) &&
	       is_found_out_by(s, &with->file, n, with, emptied);
}

/* Those whose disks were replaced before are found out without what this one remembers, too. */
static bool
may_forget(const struct sim *s, const struct host *n)
{
	for (int i = 0; i < s->hosts_n; i++) {
		const struct host *h = &s->hosts[i];

		if (h != n && host_exists(h) && h->disk.replaced &&
		    !is_found_out(s, h, &h->disk, n))
			return false;
	}
	return true;
}

/* A state that is lost has to be somebody else's, too, and as far as the logs begin. */
static bool
has_state_elsewhere(const struct sim *s, const struct host *n)
{
	uint64_t begins = 0, reached = 0;

	for (int i = 0; i < s->hosts_n; i++) {
		const struct disk *d = &s->hosts[i].disk;

		if (!host_exists(&s->hosts[i]))
			continue;
		begins = d->trimmed > begins ? d->trimmed : begins;
		if (&s->hosts[i] != n && disk_is_whole(d) && d->applied > reached)
			reached = d->applied;
	}
	return reached >= begins;
}

static void
run_unheard(struct sim *s, struct event *e)
{
	if (!s->calm)
		host_crash_for(s, &s->hosts[e->who], LOSE_SOME, 50 * MS);
}

/* It is started again and again, and nobody hears it: it is cut off, or waits for its disk. */
static void
start_unheard(struct sim *s, struct host *n)
{
	if (rng_chance(&s->rng, 500))
		n->disk.stuck_until = s->now + 900 * MS;
	else
		for (int id = 1; id <= s->hosts_n; id++)
			if (id != n->id)
				net_cut_replicas(s, id, n->id, s->now + 900 * MS);
	for (int i = 1; i <= 2; i++)
		heap_push(&s->heap, (struct event){.at = s->now + i * 300 * MS,
		                                   .run = run_unheard,
		                                   .who = n->id - 1});
}

static bool
damage(struct sim *s, struct host *n, enum fault f)
{
	struct disk *d = &n->disk, empty = {.file = d->file, .keys = d->keys};

	switch (f) {
	case FAULT_ROT_LOG:
		return disk_rot_log(s, d);
	case FAULT_ROT_STATE:
		return disk_rot_state(d);
	case FAULT_OLD_COPY:
		if (n->copy.incarnation == 0 || !is_found_out(s, n, &n->copy, NULL) ||
		    !may_forget(s, n))
			return false;
		disk_copy(d, &n->copy);
		copies_forget_ready(n);
		d->replaced = true;
		return true;
	case FAULT_MACHINE_LOST:
		n->gone = true;
		return true;
	default:
		if (!is_found_out(s, n, &empty, NULL) || !may_forget(s, n))
			return false;
		disk_free(d);
		copies_forget_ready(n);
		*d = empty;
		disk_init(d);
		d->replaced = true;
		return true;
	}
}

void
host_damage(struct sim *s, struct host *n, enum fault f, bool unheard)
{
	static const char *const what[] = {
	    [FAULT_ROT_LOG] = "an entry of its log is damaged",
	    [FAULT_ROT_STATE] = "its state is damaged",
	    [FAULT_OLD_COPY] = "an old copy of its data is put in their place",
	    [FAULT_WIPED] = "its data directory is emptied",
	    [FAULT_MACHINE_LOST] = "it is lost for good",
	};

	if (members_spare_memory(s, n) || n->disk.replaced || n->boot.failed ||
	    (f != FAULT_ROT_LOG && !has_state_elsewhere(s, n)))
		return;
	if (unheard)
		host_crash_for(s, n, LOSE_SOME, 50 * MS);
	else
		host_crash(s, n, FAULT_CRASH);
	if (!damage(s, n, f))
		return;
	fault(s, f, "replica %d: %s", n->id, what[f]);
	if (unheard)
		start_unheard(s, n);
}
