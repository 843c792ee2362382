/* The master lease ("Paxos Made Live", section 5.2; Chubby, section 2.1: "promises that those
 * replicas will not elect a different master for an interval of a few seconds").
 *
 * An acceptor grants it with its answer to a heartbeat and counts it from the receipt; the master
 * counts it from the sending of the heartbeat, less the drift allowance. So it ends for the master
 * first. A grant is in memory only: a replica that restarts waits out the longest lease that it may
 * have granted (px_recovered.wait), therefore the length is durable before the first grant of an
 * incarnation is sent. A candidate's quorum of promises intersects every quorum of grants in a
 * replica whose grant has expired and which refuses the old ballot from then on: two leases never
 * overlap. */
#include <stdio.h>

#include "cell/base/must.h"
#include "cell/paxos/internal.h"

/* The end of a replica's grant. The master's own counts: while it is master it promises no other
 * ballot. */
static mono_t
grant_end(const struct px *px, uint8_t id)
{
	return id == px->config.self ? MONO_NEVER : px->leader.peers[id].lease_end;
}

/* The end of the time in which a majority of the list has granted the lease. */
static mono_t
granted_until(const struct px *px, const struct px_members *m)
{
	mono_t until = {INT64_MIN};

	for (int i = 0; i < m->n; i++) {
		const mono_t end = grant_end(px, m->list[i].id);

		if (mono_before(until, end) &&
		    PX_MAJORITY(m, id, !mono_before(grant_end(px, id), end)))
			until = end;
	}
	return until;
}

/* While a change of the members is open, another replica may know it as chosen and be elected by
 * the new list: so a majority of that list must have granted the lease, too. */
void
px_lease_count(struct px *px)
{
	const struct px_members *m = &px->group.members;

	px->lease.until = MONO_NEVER;
	for (; m; m = px_next_members(&px->group.changes, m))
		px->lease.until = mono_min(px->lease.until, granted_until(px, m));
}

bool
px_lease_valid(const struct px *px, mono_t now)
{
	return px->candidate.role == PX_MASTER && mono_before(now, px->lease.until);
}

/* The replica that holds the lease may become a candidate again: in doing so it gives up its old
 * ballot. */
bool
px_is_bound(const struct px *px, uint8_t candidate)
{
	if (px_lease_valid(px, px->now))
		return true;
	if (px->candidate.role != PX_FOLLOWER && mono_before(px->now, px->lease.kept_until))
		return candidate != px->config.self;
	return mono_before(px->now, px->lease.granted_until) &&
	       px->lease.granted_to.replica != candidate;
}

void
px_lease_keep(struct px *px)
{
	px->lease.kept_until = px->lease.until;
}

void
px_lease_begin(struct px *px, span_t wait)
{
	px->lease.granted_until = px->lease.kept_until = px->now;
	px->lease.silent_until = mono_add(px->now, wait);
}

void
px_lease_close(struct px *px)
{
	px->lease.closing = true;
	PX_TRACE(px, "grants no lease any more");
}

void
px_lease_ends(struct px *px, uint8_t master, struct bytes why)
{
	px->lease.former = master;
	snprintf(px->lease.why, sizeof px->lease.why, "%.*s", (int)why.len, (const char *)why.data);
}

uint8_t
px_former(const struct px *px, const char **why)
{
	*why = px->lease.why;
	return px->lease.former;
}

void
px_grant_void(struct px *px)
{
	px->lease.granted_until = px->now;
	PX_TRACE(px, "the lease of " BALLOT " is over", BALLOT_OF(px->lease.granted_to));
}

void
px_grant(struct px *px, struct ballot ballot, span_t length)
{
	must(!ballot_less(ballot, px->acceptor.promised));
	if (length.ns > px->lease.recorded.ns) {
		px->lease.recorded = length;
		px_record(px, (struct px_record){.kind = PX_RECORD_LEASE, .length = length});
		px->lease.write = px->write;
	}
	PX_TRACE(px, "grants " BALLOT " a lease of %" PRId64 " ms", BALLOT_OF(ballot),
	         span_to_ms(length));
	if (!ballot_equal(px->lease.granted_to, ballot))
		px_lease_ends(px, ballot.replica, bytes_of("its lease ran out"));
	px->lease.granted_to = ballot;
	px->lease.granted_until = mono_max(px->lease.granted_until, mono_add(px->now, length));
	px_stand_from(px, mono_add(px->lease.granted_until, px_jitter(px)));
}

uint32_t
px_lease_ms(const struct px *px)
{
	return (uint32_t)span_to_ms(px->config.lease);
}

mono_t
px_lease_end(const struct px *px, mono_t sent)
{
	int64_t length = span_ms(px_lease_ms(px)).ns;

	return mono_add(sent, (span_t){length - length / 1000 * px->config.drift_permille});
}

mono_t
px_close_at(const struct px *px)
{
	if (!px->lease.closing || px->lease.closed || px->candidate.role != PX_FOLLOWER)
		return MONO_NEVER;
	return mono_max(px->lease.granted_until, px->lease.silent_until);
}

/* No lease of this incarnation or an earlier one is valid: this replica has waited for the end of
 * earlier ones (silent_until). */
void
px_close_if_free(struct px *px)
{
	if (!mono_reached(px->now, px_close_at(px)))
		return;
	px->lease.closed = true;
	PX_TRACE(px, "no lease of its is left");
	px_record(px, (struct px_record){.kind = PX_RECORD_LEASE, .length = {0}});
}

bool
px_closed(const struct px *px)
{
	return px->lease.closed;
}
