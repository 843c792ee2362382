/* The lists of members: one at a time, each made from the one before by what the log decides, known
 * to every replica as what it was, with ids that are never given twice. Who is elected has asked a
 * majority of the last list that anybody knows as chosen, and what is decided lies on the disks of
 * a majority of the list that decides it. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "tests/sim/sim.h"

enum { OFFICE_SECONDS = 4 }; /* until a master has handed over */

/* ---- the lists ---- */

const struct seats *
members_last(const struct sim *s)
{
	const struct members *m = &s->members;

	return m->lists_n > 0 ? &m->lists[m->lists_n - 1] : &s->hosts[0].disk.file;
}

enum member_role
members_role(const struct sim *s, int id)
{
	const struct seat *seat = seats_find(members_last(s), (uint8_t)id);

	return seat != NULL ? seat->role : 0;
}

int
members_count(const struct sim *s, enum member_role role)
{
	const struct seats *last = members_last(s);
	int n = 0;

	for (int i = 0; i < last->n; i++)
		n += last->list[i].role == role;
	return n;
}

static bool
votes(const struct seat *seat)
{
	return seat != NULL && seat->role == MEMBER_VOTER;
}

/* What paxos makes of a list, as one number. */
static uint64_t
sum_of(const struct px_members *m)
{
	uint8_t roles[LIMIT_REPLICA_ID + 1] = {0};

	for (int i = 0; i < m->n; i++)
		roles[m->list[i].id] = m->list[i].voter ? 1 : 2;
	return checksum((struct bytes){roles, sizeof roles}) | 1;
}

static struct px_members
px_of(const struct seats *seats)
{
	struct px_members m = {.version = seats->version};

	for (int i = 0; i < seats->n; i++)
		if (seats->list[i].role != MEMBER_REMOVED)
			m.list[m.n++] =
			    (struct px_member){seats->list[i].id, votes(&seats->list[i])};
	return m;
}

/* Which list a version is, whoever says it first. */
static void
remember(struct sim *s, const struct px_members *list)
{
	struct members *m = &s->members;
	uint64_t sum = sum_of(list);

	while (list->version >= m->sums_room) {
		size_t more = m->sums_room ? m->sums_room * 2 : 1024;

		m->sums = memory_grow(m->sums, more, sizeof *m->sums);
		memset(m->sums + m->sums_room, 0, (more - m->sums_room) * sizeof *m->sums);
		m->sums_room = more;
	}
	if (m->sums[list->version] != 0 && m->sums[list->version] != sum)
		sim_fail(s, "the list of members of index %lu is not what it was",
		         (unsigned long)list->version);
	m->sums[list->version] = sum;
}

/* ---- what is decided ---- */

/* Those whom a list does not name any more were removed. */
static void
add_removed(struct seats *list, const struct seats *before)
{
	for (int i = 0; i < before->n; i++) {
		struct seat gone = before->list[i];

		gone.role = MEMBER_REMOVED;
		if (seats_find(list, gone.id) == NULL && list->n < LIMIT_MEMBERS)
			list->list[list->n++] = gone;
	}
}

static void
check_ids(struct sim *s, const struct seats *list)
{
	struct members *m = &s->members;

	for (int i = 0; i < list->n; i++) {
		const struct seat *seat = &list->list[i];

		if (seat->body == 0)
			sim_fail(s, "replica %u becomes a member, and has no address", seat->id);
		if (m->bodies[seat->id] != 0 && m->bodies[seat->id] != seat->body)
			sim_fail(s, "the id %u is given a second time", seat->id);
		for (int id = seat->id + 1; m->bodies[seat->id] == 0 && id <= LIMIT_REPLICA_ID;
		     id++)
			if (m->bodies[id] != 0)
				sim_fail(s, "the id %u is given behind %d", seat->id, id);
	}
	for (int i = 0; i < list->n; i++)
		m->bodies[list->list[i].id] = list->list[i].body;
}

/* It is counted on from now on. */
static void
check_promoted(struct sim *s, const struct seat *seat)
{
	const struct disk *d = host_disk(&s->hosts[seat->id - 1]);

	if (disk_is_whole(d) && d->applied == 0)
		sim_fail(s, "replica %u gets a vote, and has nothing", seat->id);
	if (!d->replaced && d->keys.keys.n == 0)
		sim_fail(s, "replica %u gets a vote, and has no signing key", seat->id);
}

static void
check_change(struct sim *s, const struct seats *list, const struct seats *before)
{
	int voters = 0, changed = 0;

	for (int i = 0; i < list->n; i++) {
		const struct seat *seat = &list->list[i], *was = seats_find(before, seat->id);

		voters += votes(seat);
		changed += votes(seat) != votes(was);
		if (was != NULL && was->role == MEMBER_REMOVED && seat->role != MEMBER_REMOVED)
			sim_fail(s, "replica %u was removed, and is a member again", seat->id);
		if (was == NULL && seat->role == MEMBER_VOTER)
			sim_fail(s, "replica %u is new, and has a vote", seat->id);
		if (votes(seat) && !votes(was))
			check_promoted(s, seat);
	}
	if (voters == 0 || changed > 1)
		sim_fail(s, "a change takes or gives %d votes, and leaves %d", changed, voters);
}

static void
put(struct sim *s, const struct seats *list)
{
	struct members *m = &s->members;
	struct px_members px = px_of(list);

	check_ids(s, list);
	ARRAY_ROOM(m->lists, m->lists_n, m->lists_room);
	m->lists[m->lists_n++] = *list;
	s->handed_over = s->now;
	if (list->version > 0)
		remember(s, &px);
}

void
members_first(struct sim *s, struct wire_list first)
{
	struct seats list;

	if (s->members.lists_n > 0)
		return;
	seats_of_list(&list, 0, first);
	put(s, &list);
}

/* It was made from another list, which it does not replace any more. */
void
members_replace(struct sim *s, uint64_t index, const struct op_set_members *op)
{
	const struct seats *before = members_last(s);
	struct seats list;

	if (op->version != before->version)
		return;
	seats_of_list(&list, index, op->members);
	add_removed(&list, before);
	check_change(s, &list, before);
	put(s, &list);
}

/* ---- what replicas know ---- */

static void
check_tree(struct sim *s, const struct host *n)
{
	const struct tree *t = replica_tree(n->replica);
	const struct seats *list = NULL;
	struct member m = {0};
	int members = 0;

	for (size_t i = 0; i < s->members.lists_n; i++)
		if (s->members.lists[i].version == tree_members_version(t))
			list = &s->members.lists[i];
	while (tree_member_after(t, m.id, &m)) {
		const struct seat *seat = list != NULL ? seats_find(list, m.id) : NULL;

		members++;
		if (seat == NULL || seat->role != m.role || seat->body != seat_of(&m).body)
			sim_fail(s, "replica %d has replica %u in a list where it is not", n->id,
			         m.id);
	}
	if (members > 0 && members != list->n)
		sim_fail(s, "replica %d lacks a member", n->id);
}

void
members_check(struct sim *s, struct host *n)
{
	const struct px_members *list = px_members(replica_px(n->replica));

	const uint64_t in_tree = tree_members_version(replica_tree(n->replica));

	if (in_tree != n->tree_list)
		check_tree(s, n);
	n->tree_list = in_tree;
	if (list->version == n->list)
		return;
	if (list->version > n->list)
		adversary_in_force(s, n);
	n->list = list->version;
	if (list->version > 0)
		remember(s, list);
	if (list->version <= s->members.newest.version)
		return;
	s->members.newest = *list;
	s->members.changed = s->now;
}

void
members_check_candidate(struct sim *s, const struct host *n)
{
	const struct px_members *list = px_members(replica_px(n->replica));

	for (int i = 0; i < list->n; i++)
		if (list->list[i].id == n->id && list->list[i].voter)
			return;
	sim_fail(s, "replica %d stands for election, and has no vote", n->id);
}

/* Who removed itself gives the mastership up as soon as that is chosen. */
void
members_check_office(struct sim *s, const struct host *n)
{
	const struct px *px = replica_px(n->replica);

	if (px_role(px) == PX_MASTER && members_role(s, n->id) == MEMBER_REMOVED &&
	    px_members(px)->version == s->members.newest.version &&
	    s->now > s->members.changed + OFFICE_SECONDS * SECOND &&
	    s->now > n->paused_until + OFFICE_SECONDS * SECOND)
		sim_fail(s, "replica %d was removed, knows it, and is master", n->id);
}

static bool
promised(const struct host *n, struct ballot ballot)
{
	return !disk_is_whole(host_disk(n)) || !ballot_less(host_disk(n)->promised, ballot);
}

void
members_check_elected(struct sim *s, const struct host *n)
{
	const struct px_members *list = &s->members.newest;
	struct ballot ballot = px_status(replica_px(n->replica))->master;
	struct px_members first = px_of(members_last(s));
	int voters = 0, with_us = 0;

	if (list->n == 0)
		list = &first;
	for (int i = 0; i < list->n; i++) {
		voters += list->list[i].voter;
		with_us += list->list[i].voter && promised(&s->hosts[list->list[i].id - 1], ballot);
	}
	if (with_us <= voters / 2)
		sim_fail(s, "replica %d is elected with %d of %d votes", n->id, with_us, voters);
}

void
members_check_decided(struct sim *s, uint64_t index, struct ballot origin)
{
	const struct seats *list = members_last(s);
	int voters = 0, have = 0;

	for (int i = 0; i < list->n; i++) {
		if (!votes(&list->list[i]))
			continue;
		voters++;
		have += disk_has(host_disk(&s->hosts[list->list[i].id - 1]), index, origin);
	}
	if (have <= voters / 2)
		sim_fail(s, "index %lu is decided, and %d of %d voters have it",
		         (unsigned long)index, have, voters);
}

/* ---- what the cell can bear ---- */

/* One that missed all that was decided while its acquaintances were removed reaches nobody. */
bool
members_reaches(const struct sim *s, const struct host *n)
{
	for (int id = 1; id <= s->hosts_n; id++)
		if (id != n->id && members_role(s, id) == MEMBER_VOTER &&
		    host_exists(&s->hosts[id - 1]) && gate_passes(s, n->id, id))
			return true;
	return members_role(s, n->id) == MEMBER_VOTER && members_count(s, MEMBER_VOTER) == 1;
}

/* Without a whole disk and a way to the others it can't be relied on. One that is to be started yet
 * has no vote. */
static bool
is_sound(const struct sim *s, const struct host *n)
{
	return n->body == 0 || (!n->gone && disk_is_whole(host_disk(n)) && members_reaches(s, n));
}

/* Of the last list: those with a vote, less those who may lose it; and who can't be relied on. */
static void
weigh(const struct sim *s, const struct host *but, int *voters, int *unsound)
{
	const struct seats *list = members_last(s);

	*voters = *unsound = 0;
	for (int i = 0; i < list->n; i++) {
		const struct host *n = &s->hosts[list->list[i].id - 1];

		if (list->list[i].role == MEMBER_REMOVED || n == but)
			continue;
		if (!is_sound(s, n))
			++*unsound;
		else if (votes(&list->list[i]) && operators_doom(s, list->list[i].id))
			--*voters;
		*voters += votes(&list->list[i]);
	}
}

/* All who vote know the list that they are in, and have for a while: if one of them forgets that,
 * the others still do not need the majority of the list before. */
static bool
is_settled(const struct sim *s)
{
	const struct members *m = &s->members;

	for (int i = 0; i < m->newest.n; i++)
		if (s->hosts[m->newest.list[i].id - 1].list != m->newest.version)
			return false;
	return m->newest.version == members_last(s)->version && s->now - m->changed > SECOND;
}

bool
members_spare_memory(const struct sim *s, const struct host *n)
{
	int voters, unsound;

	weigh(s, n, &voters, &unsound);
	voters += members_role(s, n->id) == MEMBER_VOTER;
	return members_role(s, n->id) == MEMBER_REMOVED || 2 * (unsound + 1) >= voters ||
	       !is_settled(s);
}

bool
members_spare_vote(const struct sim *s, const struct host *n)
{
	int voters, unsound;

	if (members_role(s, n->id) != MEMBER_VOTER)
		return false;
	weigh(s, n, &voters, &unsound);
	return 2 * unsound >= voters;
}

/* ---- the end ---- */

static void
check_member(struct sim *s, const struct seat *seat)
{
	const struct host *n = &s->hosts[seat->id - 1];

	if (n->body != seat->body || !n->up)
		sim_fail(s, "replica %u is a member, and is down", seat->id);
	if (replica_condition(n->replica) == CONDITION_LOST || host_is_bound_by_lies(s, n))
		return; /* host_check_end says whether it may */
	if (seat->role != MEMBER_VOTER)
		sim_fail(s, "replica %u did not get a vote", seat->id);
}

/* Before its first start it asks those in its cell file: a majority of them has to be there. */
static bool
reaches_its_list(const struct sim *s, const struct host *n)
{
	const struct seats *file = &n->disk.file;
	int others = 0, there = 0;

	for (int i = 0; i < file->n; i++) {
		const struct seat *seat = &file->list[i];

		if (seat->role != MEMBER_VOTER || seat->id == n->id)
			continue;
		others++;
		there += members_role(s, seat->id) == MEMBER_VOTER && s->hosts[seat->id - 1].up &&
		         gate_passes(s, n->id, seat->id);
	}
	return there > others / 2;
}

/* It is told so, unless nobody lets it in. */
static void
check_removed(struct sim *s, const struct host *n)
{
	if (!n->up || !members_reaches(s, n) || (!n->up && !reaches_its_list(s, n)))
		return;
	sim_fail(s, "replica %d was removed, and does not know it (condition %d)", n->id,
	         n->up ? (int)replica_condition(n->replica) : -1);
}

void
members_check_end(struct sim *s)
{
	const struct seats *list = members_last(s);

	for (int i = 0; i < list->n; i++) {
		if (list->list[i].role == MEMBER_REMOVED)
			check_removed(s, &s->hosts[list->list[i].id - 1]);
		else
			check_member(s, &list->list[i]);
	}
}

void
members_free(struct members *m)
{
	free(m->lists);
	free(m->sums);
}
