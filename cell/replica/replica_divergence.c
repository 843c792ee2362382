/* Digests of the state: computed, sent and received by this replica; see divergence.h. */
#include "cell/replica/internal.h"

/* The digest is that of all applied entries, and of a slice of the stored state. The factor is
 * there because the same error in both could cancel itself otherwise. */
void
r_divergence_compute(struct replica *r, uint64_t index)
{
	uint64_t slice = tree_slice_digest(r->tree);
	uint64_t digest = tree_digest(r->tree) ^ slice * 0x9e3779b97f4a7c15;
	uint8_t master = r->paxos->master.replica;
	struct message m = MESSAGE(digest, index, digest);

	divergence_computed(&r->divergence, index, digest);
	if (master == r->config.paxos.self)
		divergence_reported(&r->divergence, master, index, digest, index);
	else if (master != 0)
		r_send_peer(r, master, &m);
}

/* A replica with a wrong state may do everything wrong that follows, so it gives up the
 * mastership. */
void
r_divergence_checked(struct replica *r, const struct tree_note *n)
{
	if (!divergence_differ(&r->divergence, n->index, n->digest)) {
		R_TRACE(r, "digest of entry %" PRIu64 ": no difference from the majority",
		        n->index);
		return;
	}
	NOTICE(r->config.trace, "the state differs from that of the majority, at entry %llu",
	       (unsigned long long)n->index);
	r->diverged = true;
	r_step_px(r, (struct px_event){.kind = PX_STEP_DOWN, .why = "its state was wrong"});
}

/* A master receives the digests of the others; in a dispute they receive that of the master. */
void
r_divergence_received(struct replica *r, uint8_t from, const struct msg_digest *m)
{
	if (r->paxos->master.replica == r->config.paxos.self)
		divergence_reported(&r->divergence, from, m->index, m->digest, r->paxos->chosen);
	else if (from == r->paxos->master.replica &&
	         divergence_differ(&r->divergence, m->index, m->digest))
		NOTICE(r->config.trace,
		       "the state differs from that of replica %u, at entry %llu, and too few "
		       "replicas answer to tell which is right",
		       from, (unsigned long long)m->index);
}

void
r_divergence_supervise(struct replica *r)
{
	const struct px_members *members = px_members(r->px);
	struct op op = {.code = OP_check_digest};
	struct message m = {.code = MSG_digest};

	while (r_is_master(r) && members->n > 1 &&
	       divergence_agreed(&r->divergence, members, &op.check_digest.index,
	                         &op.check_digest.digest)) {
		R_TRACE(r, "digest of entry %" PRIu64 " is that of a majority",
		        op.check_digest.index);
		r_propose(r, &op);
	}
	if (!divergence_disputed(&r->divergence, members, r->now))
		return;
	NOTICE(r->config.trace,
	       "replicas have different states, at entry %llu, and too few answer to tell "
	       "which is right: start the others",
	       (unsigned long long)r->divergence.disputed);
	/* The other members are sent the digest of the master, and log it if theirs differs. */
	m.digest.index = r->divergence.disputed;
	if (!divergence_own(&r->divergence, m.digest.index, &m.digest.digest))
		return;
	for (int i = 0; i < members->n; i++)
		if (members->list[i].id != r->config.paxos.self)
			r_send_peer(r, members->list[i].id, &m);
}
