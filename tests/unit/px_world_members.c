/* The members of the world: what list is in force for which slot, by the chosen entries alone, and
 * changes of it that some master proposes. */
#include <stdio.h>
#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "cell/wire/codec.h"
#include "tests/unit/px_world.h"

static int
place(const struct px_members *m, uint8_t id)
{
	for (int i = 0; i < m->n; i++)
		if (m->list[i].id == id)
			return i;
	return -1;
}

static int
voters(const struct px_members *m)
{
	int n = 0;

	for (int i = 0; i < m->n; i++)
		n += m->list[i].voter;
	return n;
}

bool
world_votes(const struct px_members *m, uint8_t id)
{
	return place(m, id) >= 0 && m->list[place(m, id)].voter;
}

bool
world_is_majority(const struct px_members *m, int n)
{
	return n > voters(m) / 2;
}

const struct px_members *
world_members(const struct world *w, uint64_t slot)
{
	size_t i = w->lists_n - 1;

	while (w->lists[i].version > slot)
		i--;
	return &w->lists[i];
}

void
world_first_members(struct world *w, int n)
{
	struct px_members m = {.n = n};

	for (int i = 0; i < n; i++)
		m.list[i] = (struct px_member){(uint8_t)(i + 1), true};
	ARRAY_ROOM(w->lists, w->lists_n, w->lists_room);
	w->lists[w->lists_n++] = m;
}

/* ---- what is chosen ---- */

static void
mark_removed(struct px_members *m, uint8_t id)
{
	m->removed[id / 64] |= (uint64_t)1 << id % 64;
}

static void
tell_list(const struct world *w, const struct px_members *m)
{
	if (!w->tell)
		return;
	printf("%6lld ms  slot %llu makes the list", (long long)(w->now / 1000000),
	       (unsigned long long)m->version);
	for (int i = 0; i < m->n; i++)
		printf(" %u%s", m->list[i].id, m->list[i].voter ? "" : " (learns)");
	printf("\n");
}

void
world_note_change(struct world *w, uint64_t slot, struct bytes payload)
{
	struct px_members old = w->lists[w->lists_n - 1], m = {.version = slot};
	struct op_set_members change;
	struct member member;
	struct cursor c;

	if (!wire_entry_members(payload, &change) || change.version != old.version)
		return;
	c = cursor_of(change.members.packed);
	while (wire_next_member(&c, &member)) {
		world_check(w, m.n < LIMIT_REPLICAS, "a list has room for its members");
		m.list[m.n++] = (struct px_member){member.id, member.role == MEMBER_VOTER};
	}
	for (int i = 0; i < 4; i++)
		m.removed[i] = old.removed[i];
	for (int i = 0; i < old.n; i++)
		if (place(&m, old.list[i].id) < 0)
			mark_removed(&m, old.list[i].id);
	ARRAY_ROOM(w->lists, w->lists_n, w->lists_room);
	w->lists[w->lists_n++] = m;
	tell_list(w, &m);
}

/* A new replica begins with the list of its cell file, which may be of another time than the
 * beginning of the log. */
struct px_members
world_members_at_start(const struct world *w, uint8_t id)
{
	const struct node *node = &w->nodes[id - 1];

	if (node->disk.applied == 0 && node->file.n > 0)
		return node->file;
	return *world_members(w, node->disk.applied);
}

void
world_check_members(const struct world *w, uint8_t id)
{
	const struct node *node = &w->nodes[id - 1];
	const struct px_members *known = px_members(node->px);
	const struct px_members *chosen = world_members(w, px_chosen(node->px));

	if ((known->version == 0 && node->file.n > 0) || node->lost || node->disk.state_lost)
		return;
	world_check(w, known->version == chosen->version && known->n == chosen->n,
	            "the list in force is that of the last change");
	for (int i = 0; i < chosen->n; i++)
		world_check(w, known->list[i].id == chosen->list[i].id &&
		               known->list[i].voter == chosen->list[i].voter,
		            "the list in force is as it was chosen");
	world_check(w, px_role(node->px) != PX_CANDIDATE || world_votes(chosen, id),
	            "only voters stand for election");
}

/* By induction a new master knows of every list that was chosen, and a majority of the last one has
 * promised.
 * (One who is late may be elected below a ballot that others have promised since.) */
void
world_check_elected(const struct world *w, uint8_t id)
{
	const struct px_members *m = world_members(w, w->sums_n);
	struct ballot ballot = px_master(w->nodes[id - 1].px);
	int n = 0;

	for (int i = 0; i < w->n; i++)
		if (ballot_less(ballot, w->nodes[i].promised))
			return;
	for (int i = 0; i < m->n; i++) {
		const struct node *voter = &w->nodes[m->list[i].id - 1];

		if (m->list[i].voter)
			n += m->list[i].id == id || ballot_equal(voter->promised, ballot);
	}
	world_check(w, world_is_majority(m, n), "a master has a majority of the last list");
}

/* ---- changes ---- */

/* A replica that was never a member: one that is here already, or a new one. 0: no room. */
static uint8_t
newcomer(struct world *w, const struct px_members *now)
{
	struct node *node;

	for (uint8_t id = 1; id <= w->n; id++)
		if (place(now, id) < 0 && !(now->removed[id / 64] >> id % 64 & 1))
			return id;
	if (w->n == WORLD_NODES)
		return 0;
	node = &w->nodes[w->n++];
	node->file = *now;
	node->file.version = 0;
	node->file.list[node->file.n++] = (struct px_member){(uint8_t)w->n, false};
	world_boot(w, (uint8_t)w->n);
	return (uint8_t)w->n;
}

static void
add(struct world *w, struct px_members *m)
{
	uint8_t id = m->n < LIMIT_REPLICAS ? newcomer(w, m) : 0;

	if (id != 0)
		m->list[m->n++] = (struct px_member){id, rng_chance(&w->rng, 300)};
}

/* Removes a member, or makes a voter a learner or the other way round; one voter stays. */
static void
alter(struct world *w, struct px_members *m)
{
	int i = (int)rng_below(&w->rng, (uint64_t)m->n);
	bool voter = m->list[i].voter;

	if (voter && voters(m) == 1)
		return;
	if (rng_chance(&w->rng, voter ? 200 : 900))
		m->list[i].voter = !voter;
	else
		m->list[i] = m->list[--m->n];
}

static void
propose(struct world *w, uint8_t master, const struct px_members *m)
{
	struct buffer list = BUFFER(LIMIT_ENTRY), op = BUFFER(LIMIT_ENTRY);
	struct buffer command = BUFFER(LIMIT_ENTRY), payload = BUFFER(LIMIT_ENTRY);

	for (int i = 0; i < m->n; i++)
		wire_put_member(&list, &(struct member){
			.id = m->list[i].id,
			.role = m->list[i].voter ? MEMBER_VOTER : MEMBER_LEARNER});
	wire_put_op(&op, &(struct op){.code = OP_set_members, .set_members = {
		.version = m->version, .members = {buffer_view(&list), (uint32_t)m->n}}});
	wire_put_command(&command, &(struct command){.op = buffer_view(&op)});
	wire_put_entry(&payload, &(struct entry){.commands = {buffer_view(&command), 1}});
	must(!payload.failed);
	w->changes++;
	world_step(w, master, (struct px_event){.kind = PX_PROPOSE,
	                                        .payload = buffer_view(&payload)});
	buffer_free(&list);
	buffer_free(&op);
	buffer_free(&command);
	buffer_free(&payload);
}

void
world_change_members(struct world *w)
{
	uint8_t master = world_serving(w);
	struct px_members m;

	if (!world_is_open(w, master))
		return;
	m = *world_members(w, px_chosen(world_node(w, master)->px));
	if (rng_chance(&w->rng, 400))
		add(w, &m);
	else
		alter(w, &m);
	if (world_is_open(w, master)) /* a newcomer may have started in between */
		propose(w, master, &m);
}
