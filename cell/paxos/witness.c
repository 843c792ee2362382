/* Marks: what each replica has acknowledged, kept by the others.
 *
 * An acceptor that forgets what it answered breaks the algorithm, and a disk that was emptied,
 * replaced or restored from an old copy forgets without a sign. "Paxos Made Live", section 5.1,
 * detects the empty disk by a marker that the replica leaves elsewhere; here all other replicas
 * keep one mark of each: its incarnation, and the highest ballot and slot that it has acknowledged.
 *
 *   starts            sends hello                  welcomed by half of the other voters
 *   ------> mute ----------------------> others -----------------------------------------> acceptor
 *                                          |
 *                                          +--> lost: their marks exceed what its log holds
 *
 * The master's heartbeats spread the marks. A mark holds only what was durable when it was sent.
 *
 * A mark carries a proof that only the replica itself can make, with a secret that is not in its
 * log. So no other replica can take its vote with false marks: it alone decides that it has
 * acknowledged more before, by the marks that it recognises as its own.
 *
 * The upper half of a start's number stays the same as long as the disk does: it is recorded in the
 * replica's own mark. So an emptied disk is detected however often it starts before its hello is
 * received. A replica that was not welcomed has acknowledged nothing, and begins its next start
 * with the same incarnation and number; one whose own mark was not durable has said nothing, and
 * its next start has the same incarnation. So those of an old copy do not catch up with the
 * remembered ones either. The own mark also records for good that the vote is lost. */
#include <sodium.h>
#include <string.h>

#include "cell/base/must.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

#define NEVER_AGAIN UINT64_MAX /* as the incarnation of the own mark: the vote is lost */
enum { WELCOMED = 1 };         /* as its slot: that start was welcomed */

/* ---- the marks ---- */

static void
record_mark(struct px *px, struct witness *known)
{
	px_record(px, (struct px_record){.kind = PX_RECORD_MARK, .mark = known->mark});
	known->write = px->write;
	known->changed = false;
}

static bool
is_same_disk(uint64_t start, uint64_t other)
{
	return start >> 32 == other >> 32;
}

/* True when the remembered mark of a replica exceeds the one that it sent now. */
static bool
is_less(const struct mark *told, const struct mark *remembered)
{
	return ballot_less(told->ballot, remembered->ballot) || told->slot < remembered->slot;
}

/* A replica has forgotten when a mark of its earlier start exceeds the one that it sends now. The
 * earlier mark, with its proof, is replaced only by one that tells at least as much, and comes
 * neither from an earlier start nor from another start of the same incarnation: then two disks have
 * counted to that number, and one is a copy of the other. */
static bool
is_kept(const struct px *px, const struct mark *known, const struct mark *told)
{
	if (known->replica == 0)
		return false;
	if (!is_same_disk(told->start, known->start))
		PX_TRACE(px, "keeps the mark of another disk of replica %u", told->replica);
	else if (told->incarnation < known->incarnation ||
	         (told->incarnation == known->incarnation && told->start != known->start))
		PX_TRACE(px, "keeps the mark of another start of replica %u, incarnation %" PRIu64,
		         told->replica, known->incarnation);
	else if (is_less(told, known))
		PX_TRACE(px, "keeps the higher mark of replica %u: " BALLOT " and slot " SLOT,
		         told->replica, BALLOT_OF(known->ballot), known->slot);
	else
		return false;
	return true;
}

/* A new incarnation is recorded at once, other changes together with the next records. */
static void
remember(struct px *px, const struct mark *told)
{
	struct witness *known = &px->witness.of[told->replica];
	const bool restarted = told->incarnation > known->mark.incarnation;

	if (is_kept(px, &known->mark, told) || (!restarted && !is_less(&known->mark, told)))
		return;
	PX_TRACE(px,
	         "keeps a mark of replica %u, incarnation %" PRIu64 ": " BALLOT " and slot " SLOT,
	         told->replica, told->incarnation, BALLOT_OF(told->ballot), told->slot);
	known->mark = *told;
	known->changed = px->witness.changed = true;
	if (restarted)
		record_mark(px, known);
}

/* ---- the own mark ---- */

static_assert(crypto_shorthash_KEYBYTES == PX_KEY, "SipHash");
static_assert(crypto_shorthash_BYTES == sizeof((struct mark *)0)->proof, "SipHash");

uint64_t
px_proof(const uint8_t key[PX_KEY], const struct mark *m)
{
	struct mark text = *m;
	struct buffer b = BUFFER(64);
	uint64_t proof;

	text.proof = 0;
	wire_put_mark(&b, &text);
	must(!b.failed);
	must(crypto_shorthash((uint8_t *)&proof, b.data, b.len, key) == 0);
	buffer_free(&b);
	return proof;
}

static struct mark
own_mark(const struct px *px, struct mark of)
{
	of.replica = px->config.self;
	of.incarnation = px->witness.incarnation;
	of.start = px->witness.start;
	of.proof = px_proof(px->config.key, &of);
	return of;
}

struct mark
px_mark_durable(const struct px *px)
{
	return own_mark(px, px->witness.durable);
}

struct mark
px_mark_recorded(const struct px *px)
{
	struct mark of = {.ballot =
	                      ballot_max(px->witness.found.ballot, px->acceptor.promised_recorded),
	                  .slot = px->acceptor.held};

	return own_mark(px, of);
}

void
px_witness_recover(struct px *px, const struct px_recovered *recovered)
{
	struct mark *own = &px->witness.of[px->config.self].mark;

	for (size_t i = 0; i < recovered->marks_n; i++)
		if (recovered->marks[i].replica != 0)
			px->witness.of[recovered->marks[i].replica].mark = recovered->marks[i];
	px->witness.incarnation = recovered->incarnation;
	px->witness.start = px->config.start;
	px->witness.lost = own->incarnation == NEVER_AGAIN;
	if (own->replica != 0 && !px->witness.lost) {
		px->witness.incarnation = own->incarnation + 1;
		px->witness.start = own->start >> 32 << 32 | (px->witness.start & UINT32_MAX);
	}
	px->witness.unrecorded = !px->witness.lost && (own->replica == 0 || own->slot == WELCOMED);
	if (!px->witness.lost && !px->witness.unrecorded) {
		px->witness.incarnation = own->incarnation;
		px->witness.start = own->start;
		PX_TRACE(px, "was not welcomed, and is still incarnation %" PRIu64,
		         own->incarnation);
	}
	px->witness.write_at = px->now;
}

void
px_witness_durable(struct px *px, struct ballot ballot, uint64_t slot)
{
	struct mark *durable = &px->witness.durable;

	durable->ballot = ballot_max(durable->ballot, ballot);
	durable->slot = slot > durable->slot ? slot : durable->slot;
}

static void
record_own(struct px *px, uint64_t incarnation)
{
	struct witness *own = &px->witness.of[px->config.self];

	own->mark = (struct mark){
	    .replica = px->config.self,
	    .incarnation = incarnation,
	    .start = px->witness.start,
	    .slot = px->witness.mute ? 0 : WELCOMED,
	};
	record_mark(px, own);
}

void
px_witness_write_own(struct px *px)
{
	if (px->witness.unrecorded)
		record_own(px, px->witness.incarnation);
	px->witness.unrecorded = false;
}

static void
fall_silent(struct px *px)
{
	if (px->candidate.role != PX_FOLLOWER)
		px_follow(px, BALLOT_NONE, px->config.lease);
	px_accept_follow(px, BALLOT_NONE);
}

/* ---- sending and receiving marks ---- */

void
px_witness_write(struct px *px)
{
	if (!px->witness.changed || mono_before(px->now, px->witness.write_at))
		return;
	for (int id = 1; id <= LIMIT_REPLICA_ID; id++)
		if (px->witness.of[id].changed)
			record_mark(px, &px->witness.of[id]);
	px->witness.changed = false;
	px->witness.write_at = mono_add(px->now, px->config.heartbeat);
}

struct wire_list
px_witness_pack(const struct px *px, struct buffer *to)
{
	const struct px_members *members = &px->group.members;
	struct mark own = px_mark_durable(px);
	uint32_t count = 1;

	wire_put_mark(to, &own);
	for (int i = 0; i < members->n; i++) {
		const struct mark *m = &px->witness.of[members->list[i].id].mark;

		if (members->list[i].id == px->config.self || m->replica == 0)
			continue;
		wire_put_mark(to, m);
		count++;
	}
	return (struct wire_list){.packed = buffer_view(to), .count = count};
}

/* Compares a mark that this replica made with its log, in which entries that it learned may have
 * higher ballots than it has promised. Its answers since the start may already have done harm, but
 * the vote is lost for all later ones. */
static void
check_own(struct px *px, const struct mark *m)
{
	const struct mark own = {.ballot = ballot_max(px->acceptor.promised,
	                                              px->acceptor.promised_recorded),
	                         .slot = px->acceptor.held};
	bool more;

	if (m->replica != px->config.self || m->proof != px_proof(px->config.key, m))
		return;
	more = m->incarnation > px->witness.incarnation ||
	       (m->incarnation == px->witness.incarnation && m->start != px->witness.start) ||
	       !is_same_disk(m->start, px->witness.start) || is_less(&own, m);
	if (!more || px->witness.lost)
		return;
	PX_TRACE(px, "has lost its vote for good: it has acknowledged more than its log holds");
	px->witness.lost = true;
	record_own(px, NEVER_AGAIN);
	fall_silent(px);
}

/* True when a replica may have sent this mark. An impossible one is not kept, for no later mark
 * would ever exceed it. */
static bool
is_possible(const struct px *px, const struct mark *m)
{
	const bool possible = m->replica != 0 && m->slot <= px->log.last + PX_PICKED_MAX &&
	                      m->ballot.round <= px->acceptor.seen.round + BALLOT_ROUND_STEP;

	if (!possible)
		PX_TRACE(px, "keeps no impossible mark of replica %u: " BALLOT " and slot " SLOT,
		         m->replica, BALLOT_OF(m->ballot), m->slot);
	return possible;
}

void
px_note_marks(struct px *px, const struct msg_heartbeat *heartbeat)
{
	struct cursor c = cursor_of(heartbeat->marks.packed);
	struct mark m = {0};

	while (wire_next_mark(&c, &m)) {
		if (m.replica == px->config.self)
			check_own(px, &m);
		else if (is_possible(px, &m))
			remember(px, &m);
	}
}

void
px_witness_note(struct px *px, uint8_t from, const struct message *m)
{
	struct mark told = {0};

	if (m->code == MSG_promise)
		told = m->promise.own;
	else if (m->code == MSG_accepted)
		told = m->accepted.own;
	else if (m->code == MSG_heartbeat_reply)
		told = m->heartbeat_reply.own;
	if (told.replica == from && is_possible(px, &told))
		remember(px, &told);
}

/* ---- hello and welcome ---- */

/* Together with this replica the voters that welcome it are a majority. A learner needs a majority
 * without itself, for it may have been a voter and not know it any more. */
static int
welcomes_needed(const struct px *px)
{
	const struct px_members *m = &px->witness.greeters;
	const int voters = PX_VOTERS(m, id, true);

	return px_is_voter(m, px->config.self) ? voters / 2 : voters / 2 + 1;
}

static int
welcomes(const struct px *px)
{
	return PX_VOTERS(&px->witness.greeters, id, px->witness.welcomed[id]);
}

static bool
has_other_voter(const struct px *px, const struct px_members *members)
{
	return PX_VOTERS(members, id, id != px->config.self) > 0;
}

/* Where the state is old, the replicas that its list names may all be gone. */
void
px_begin_mute(struct px *px)
{
	const struct px_members *newest = &px->config.newest;

	px->witness.greeters = px->group.members;
	if (newest->version > px->group.members.version && has_other_voter(px, newest))
		px->witness.greeters = *newest;
	px->witness.mute = welcomes_needed(px) > 0;
	px->witness.hello_at = px->now;
	px->witness.found = px->witness.durable =
	    (struct mark){.ballot = px->acceptor.promised, .slot = px->acceptor.held};
}

/* Every message of a replica begins with a ballot of a round that is not 0. */
static struct ballot
first_if_none(struct ballot ballot)
{
	return ballot.round > 0 ? ballot : (struct ballot){1, 0};
}

/* Others will keep the mark in this hello. So before it is sent the log must hold the disk's
 * identity, where the log begins, and all promises since the start. A mute replica has promised and
 * accepted nothing since. */
void
px_say_hello_to(struct px *px, uint8_t to)
{
	uint64_t write = px->witness.of[px->config.self].write;
	const struct mark own =
	    px->witness.mute ? own_mark(px, px->witness.found) : px_mark_recorded(px);

	if (write < px->repair.base_write)
		write = px->repair.base_write;
	if (!px->witness.mute)
		write = px->write;
	PX_SEND(px, to, write, hello, .ballot = first_if_none(own.ballot),
	        .incarnation = px->witness.incarnation, .start = px->witness.start,
	        .last = own.slot, .proof = own.proof);
}

void
px_greet(struct px *px, uint8_t id)
{
	for (int i = 0; i < px->witness.greeters.n; i++)
		if (px->witness.greeters.list[i].id == id)
			return;
	px_say_hello_to(px, id);
}

/* A replica that knows itself removed asks whether the others know it, too: until then one of them
 * may need its vote to be elected. One that has lost its vote asks whether it was removed; the
 * others keep the marks that exceed what it says of itself. */
void
px_say_hello(struct px *px)
{
	const bool told =
	    px->witness.mute || px->witness.greeters.version > px->group.members.version;
	const struct px_members *to = told ? &px->witness.greeters : &px->group.members;
	const bool waits = px->witness.mute && !px->witness.lost;

	for (int i = 0; i < to->n; i++) {
		uint8_t id = to->list[i].id;

		if (id != px->config.self)
			px_say_hello_to(px, id); /* a replica that has welcomed this one may know a
			                          * newer list by now */
	}
	px->witness.hello_at = mono_add(px->now, waits ? px->config.heartbeat : px->config.lease);
}

/* The mark is durable before the welcome is sent: if it were forgotten, another start of that
 * replica, from a disk without the records of this one, would be welcomed, too. A replica that has
 * lost its own vote, or whose damaged log may have lost marks, knows too little of the others to
 * welcome them; nor is one whose log is damaged needed for an election. */
void
px_on_hello(struct px *px, uint8_t from, const struct msg_hello *m)
{
	struct mark told = {from, m->incarnation, m->start, m->ballot, m->last, m->proof};
	struct buffer packed = BUFFER(LIMIT_FRAME);

	if (px->witness.lost || px->repair.damaged > 0) {
		PX_TRACE(px, "welcomes no replica: %s",
		         px->witness.lost ? "it has lost its vote" : "its log is damaged");
		return;
	}
	if (told.ballot.replica == 0)
		told.ballot = BALLOT_NONE;
	px->witness.of[from].incarnation = m->incarnation;
	px->witness.of[from].start = m->start;
	remember(px, &told);
	PX_SEND(px, from, px->witness.of[from].write, welcome,
	        .ballot = first_if_none(px->acceptor.promised), .incarnation = m->incarnation,
	        .start = m->start, .verdict = WELCOME_FINE, .remembered = px->witness.of[from].mark,
	        .version = px->group.members.version,
	        .members = px_pack_members(&px->group.members, &packed));
	buffer_free(&packed);
}

/* While this replica was away the members may have changed, and those that it knows may be gone.
 * One that has a master hears of changes from its log. */
static void
take_newer_list(struct px *px, uint64_t version, struct wire_list list)
{
	struct px_members told = {.version = version};

	if (version <= px->witness.greeters.version || px_has_master(px, px->now) ||
	    !px_read_members(&told, list))
		return;
	PX_TRACE(px, "knows of a newer list of members, of slot " SLOT, version);
	px->witness.greeters = told;
	px->witness.hello_at = px->now;
}

/* A list from a member, which may be no member any more when the hello arrives. If the list leaves
 * this replica as the only voter, other replicas still have to welcome it: those of its own
 * list. */
void
px_on_members(struct px *px, const struct msg_members *m)
{
	struct px_members told = {.version = m->version};

	if (px_read_members(&told, m->members) && has_other_voter(px, &told))
		take_newer_list(px, m->version, m->members);
}

/* True when a majority of the voters whose welcomes count have answered that this replica is
 * removed. A single one may be mistaken. */
static bool
is_expelled(const struct px *px)
{
	const struct px_members *greeters = &px->witness.greeters, *members = &px->group.members;
	const struct px_members *newest = greeters->version > members->version ? greeters : members;
	const uint8_t self = px->config.self;

	return PX_VOTERS(newest, id, id != self && px->witness.expelled_by[id]) >
	       PX_VOTERS(newest, id, id != self) / 2;
}

/* A delayed hello may report less than was acknowledged after it: so the remembered mark is
 * compared with what this replica has by now. */
void
px_on_welcome(struct px *px, uint8_t from, const struct msg_welcome *m)
{
	px->witness.expelled_by[from] = m->verdict == WELCOME_NO_MEMBER;
	if (is_expelled(px) && !px->witness.expelled) {
		PX_TRACE(px, "was removed: a majority of the members has answered so");
		px->witness.expelled = true;
		fall_silent(px);
	}
	if (m->incarnation != px->witness.incarnation || m->start != px->witness.start) {
		PX_TRACE(px, "needs no welcome to an earlier start");
		return;
	}
	check_own(px, &m->remembered);
	if (px->witness.lost || m->verdict != WELCOME_FINE)
		return;
	take_newer_list(px, m->version, m->members);

	px->witness.welcomed[from] = true;
	if (!px->witness.mute)
		return;
	PX_TRACE(px, "is welcomed by replica %u: %d of %d welcomes", from, welcomes(px),
	         welcomes_needed(px));
	if (welcomes(px) < welcomes_needed(px))
		return;
	PX_TRACE(px, "takes part from now on");
	px->witness.mute = false;
	record_own(px, px->witness.incarnation);
	px_stand_from(px, mono_max(px->candidate.stand_at, mono_add(px->now, px_jitter(px))));
}
