/* How much a master may have open, and how much of it may be in flight to a follower. Entries sent
 * faster than the follower accepts them only wait in queues, ahead of all that is sent later and of
 * messages to others over the same link. So the time from sending to acceptance is measured, of one
 * message at a time, and the window is adjusted to it: its new size is the one for which that time
 * would be the shortest one measured so far plus one heartbeat interval. */
#include "cell/paxos/internal.h"

uint64_t
px_known_to(const struct px *px, const struct peer *p)
{
	const uint64_t known = p->have > p->told ? p->have : p->told;

	return known > px->log.base ? known : px->log.base;
}

size_t
px_flight(const struct px *px, const struct peer *p)
{
	const uint64_t known = px_known_to(px, p);

	return p->next - 1 > known ? log_window_bytes(&px->log, known, p->next - 1) : 0;
}

size_t
px_flow_room(const struct px *px, const struct peer *p)
{
	const size_t flight = px_flight(px, p);

	return flight < p->flow.window ? p->flow.window - flight : 0;
}

static bool
answers(const struct px *px, const struct px_member *m)
{
	const mono_t answered_at = px->leader.peers[m->id].answered_at;

	return m->voter && m->id != px->config.self &&
	       mono_before(px->now, mono_add(answered_at, px->config.lease));
}

/* The number of answering voters whose windows are at least as large as this one. */
static int
as_large(const struct px *px, size_t window)
{
	const struct px_members *m = &px->group.members;
	int n = 0;

	for (int i = 0; i < m->n; i++)
		n += answers(px, &m->list[i]) &&
		     px->leader.peers[m->list[i].id].flow.window >= window;
	return n;
}

/* If the master is lost, its successor proposes the open entries again before it serves, perhaps to
 * voters that have none of them. So no more is open than the fastest voters that make a majority
 * accept in a short time; further commands wait in front of the log. */
static size_t
open_bytes(const struct px *px)
{
	const struct px_members *m = &px->group.members;
	size_t window = 0;
	int voters = 0;

	for (int i = 0; i < m->n; i++)
		voters += m->list[i].voter;
	if (voters < 2)
		return PX_ROOM_BYTES;
	for (int i = 0; i < m->n; i++) {
		const size_t w = px->leader.peers[m->list[i].id].flow.window;

		if (answers(px, &m->list[i]) && w > window && as_large(px, w) >= voters / 2)
			window = w;
	}
	return 2 * window > PX_ROOM_LEAST ? 2 * window : PX_ROOM_LEAST;
}

bool
px_room(const struct px *px)
{
	const uint64_t last = px->log.last, chosen = px->learner.chosen;
	const uint64_t from = chosen > px->leader.inherited ? chosen : px->leader.inherited;

	if (px->group.changes.n > 0 && px_next_members(&px->group.changes, &px->group.members))
		return false;
	return px->status.open && last - chosen < PX_ROOM_SLOTS &&
	       (last == from || log_window_bytes(&px->log, from, last) < open_bytes(px));
}

void
px_flow_sent(struct px *px, struct peer *p)
{
	struct flow *f = &p->flow;

	if (f->sample != 0)
		return;
	f->sample = p->next - 1;
	f->sent = px->now;
	f->limited = false;
}

/* Behind other traffic, or on another path through the network, acceptance may take longer than it
 * did. When the window limited the follower, a longer time may be due to a queue; when it did not,
 * the path itself takes longer and the shortest time is raised. */
static void
follow_shortest(struct flow *f, int64_t took)
{
	if (f->shortest_us == 0 || took < f->shortest_us)
		f->shortest_us = took;
	else if (!f->limited)
		f->shortest_us += (took - f->shortest_us) / 8;
}

void
px_flow_accepted(struct px *px, struct peer *p)
{
	struct flow *f = &p->flow;
	const int64_t took = mono_since(px->now, f->sent).ns / 1000 + 1; /* microseconds */
	int64_t wanted;

	if (f->sample == 0 || p->have < f->sample)
		return;
	f->sample = 0;
	follow_shortest(f, took);
	if (!f->limited)
		return;
	wanted = f->shortest_us + px->config.heartbeat.ns / 1000;
	wanted = wanted < 2 * took ? wanted : 2 * took;
	f->window = (size_t)((int64_t)f->window * wanted / took);
	if (f->window < PX_FLIGHT_LEAST)
		f->window = PX_FLIGHT_LEAST;
	if (f->window > PX_FLIGHT_BYTES)
		f->window = PX_FLIGHT_BYTES;
	PX_TRACE(px, "replica %u has accepted after %" PRId64 " us: %zu bytes may be in flight",
	         (unsigned)(p - px->leader.peers), took, f->window);
}
