/* The mastership of this replica: its beginning and end, news of it for clients, and the regular
 * work of a master. */
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"
#include "cell/replica/internal.h"
#include "cell/wire/codec.h"

enum {
	PARKED_MAX = 4096, /* open_session frames that wait for the epoch */
};

bool
r_is_master(const struct replica *r)
{
	return r->paxos->open;
}

/* The master as far as known; 0: unknown, or this replica, which does not serve yet or no longer
 * serves. */
static uint8_t
other_master(const struct replica *r)
{
	uint8_t master = r->paxos->master.replica;

	return master == r->config.paxos.self ? 0 : master;
}

/* ---- the beginning and the end ---- */

uint64_t
r_propose(struct replica *r, const struct op *op)
{
	return r_backlog_put(r, wire_entry_of(op, r->wall_ns));
}

/* A master first commits an entry of its own; all entries before it are of earlier masters. */
static void
propose_epoch(struct replica *r)
{
	struct buffer settings = BUFFER(LIMIT_ENTRY);
	const char *why;
	const uint8_t former = px_former(r->px, &why);
	struct op begin =
	    OPERATION(begin_epoch, .ballot = r->paxos->master, .members = r_member_list_first(r),
	              .settings = r_settings_first(r, &settings), .admin_key = r->admin.first_key,
	              .closed = r->config.closed, .former = former, .why = bytes_of(why));

	R_TRACE(r, "mastership in %" PRIu64 ".%u: proposes its epoch", r->paxos->master.round,
	        r->paxos->master.replica);
	r_settings_elected(r);
	r->mastership.candidacy = r->paxos->master;
	r->mastership.elected_at = r->now;
	must(r->backlog.n == 0);
	r_propose(r, &begin);
	buffer_free(&settings);
}

/* Redirects the client to the master. */
static void
redirect(struct replica *r, uint64_t conn, struct bytes frame)
{
	master_redirect(r->master, conn, frame, other_master(r), &r->master_update);
	r_absorb_master(r);
}

/* Processes the frames that arrived between the election and the applied epoch. */
static void
admit_parked(struct replica *r)
{
	struct queued_frame w;

	while (frame_queue_take(&r->mastership.parked, &w)) {
		if (r->mastership.serving)
			master_frame(r->master, r_clock(r), w.conn, w.frame, &r->master_update);
		else
			redirect(r, w.conn, w.frame);
		r_absorb_master(r);
		queued_frame_free(&w);
		r->mastership.parked_n--;
	}
}

/* True if this replica will serve soon: it is elected, or no other replica can be. */
static bool
master_soon(const struct replica *r)
{
	return r_is_master(r) || r->paxos->alone;
}

void
r_mastership_follow(struct replica *r)
{
	r_mastership_news(r);
	if (r->mastership.serving) {
		r_admin_left(r);
		r->mastership.serving = false;
		master_end(r->master, other_master(r), &r->master_update);
		r_absorb_master(r);
		r->mastership.refuses_growth = false;
		divergence_forget(&r->divergence);
		NOTICE(r->config.trace, "no longer master");
	}
	r_backlog_clear(r);
	if (r_is_master(r))
		propose_epoch(r);
	else if (!master_soon(r))
		admit_parked(r);
}

static void
print_replica(const struct replica *r, uint8_t id, struct buffer *to)
{
	struct member m = {0};

	buffer_printf(to, "replica %u", id);
	if (id > 0 && tree_member_after(r->tree, id - 1, &m) && m.id == id && m.address.len > 0)
		buffer_printf(to, " at %.*s", (int)m.address.len, (const char *)m.address.data);
}

/* The same line at each replica: what the master knew of its election is in the entry. */
static void
tell_of_master(const struct replica *r, const struct tree_note *n)
{
	struct buffer line = BUFFER(LIMIT_FRAME);

	print_replica(r, n->ballot.replica, &line);
	buffer_printf(&line, " is master of epoch %" PRIu64 ", ", n->epoch);
	if (n->former == 0) {
		buffer_printf(&line, n->epoch == 1 ? "the first" : "none was heard before");
	} else {
		buffer_printf(&line, "after ");
		print_replica(r, n->former, &line);
		buffer_printf(&line, ": %.*s", (int)n->name.len, (const char *)n->name.data);
	}
	NOTICE(r->config.trace, "%.*s", (int)buffer_view(&line).len,
	       (const char *)buffer_view(&line).data);
	buffer_free(&line);
}

void
r_mastership_epoch(struct replica *r, const struct tree_note *n)
{
	r_mastership_news(r);
	if (!ballot_equal(n->ballot, r->paxos->master))
		return;
	tell_of_master(r, n);
	if (!r_is_master(r) || !ballot_equal(n->ballot, r->mastership.candidacy))
		return;
	r->mastership.epoch_wall_ns = r->wall_ns;
	r_mastership_supervise(r);
	r->mastership.serving = true;
	r->mastership.since = r->applied;
	master_begin(r->master, r_clock(r), n->epoch, &r->master_update);
	r_absorb_master(r);
	admit_parked(r);
}

void
r_mastership_free(struct replica *r)
{
	r_backlog_clear(r);
	frame_queue_free(&r->mastership.parked);
}

/* ---- clients ---- */

void
r_mastership_frame(struct replica *r, uint64_t conn, struct bytes frame)
{
	struct message m;

	if (master_soon(r) && r->mastership.parked_n < PARKED_MAX &&
	    wire_get_frame(frame, &m) == RC_OK && m.code == MSG_open_session) {
		frame_queue_put(&r->mastership.parked,
		                (struct queued_frame){.conn = conn, .frame = bytes_copy(frame)});
		r->mastership.parked_n++;
		R_TRACE(r, "mastership has no epoch yet: open_session waits, %zu in all",
		        r->mastership.parked_n);
	} else {
		redirect(r, conn, frame);
	}
}

/* A client has an idle connection to a replica that is not the master, over which it learns of a
 * new master at once. The master is announced when it is known, and again when its epoch has begun.
 * In a cell of one replica there is no news. */
static bool
has_news(const struct replica *r)
{
	struct ballot master = r->paxos->master;

	if (px_members(r->px)->n == 1 || master.round == 0)
		return false;
	return master.replica != r->config.paxos.self || r->mastership.serving;
}

void
r_mastership_news(struct replica *r)
{
	r->mastership.news = true;
}

void
r_mastership_announce(struct replica *r)
{
	struct ballot master = r->paxos->master;
	uint64_t epoch = tree_epoch(r->tree);

	r->mastership.news = false;
	if (!has_news(r) || (ballot_equal(r->mastership.announced, master) &&
	                     r->mastership.announced_epoch == epoch))
		return;
	r->mastership.announced = master;
	r->mastership.announced_epoch = epoch;
	master_announce(r->master, 0, master.replica, &r->master_update);
	r_absorb_master(r);
}

/* The members are sent first: the master may be a member that the client does not know. */
void
r_mastership_greet(struct replica *r, uint64_t conn)
{
	r_member_list_send(r, conn);
	if (!has_news(r))
		return;
	master_announce(r->master, conn, r->paxos->master.replica, &r->master_update);
	r_absorb_master(r);
}

/* ---- the regular work of a master ---- */

/* A master whose disk is stuck must not lead: its log may be needed for the next majority, and
 * requests wait for its state, which is saved in large parts. One that can have no successor goes
 * on: it answers reads and keeps sessions. */
enum { STATE_PATIENCE = 4 };

mono_t
r_mastership_disk_deadline(const struct replica *r)
{
	const span_t patience = r_settings_span(r, SETTING_disk_patience);

	if (!r_is_master(r) || !r->paxos->replaceable)
		return MONO_NEVER;
	return mono_min(mono_add(r->disk.synced, patience),
	                mono_add(r->disk.unsaved, (span_t){STATE_PATIENCE * patience.ns}));
}

void
r_mastership_give_up_stuck_disk(struct replica *r)
{
	NOTICE(r->config.trace, "nothing synced for %lld ms: gives up the mastership",
	       (long long)span_to_ms(
	           mono_since(r->now, mono_min(r->disk.synced, r->disk.unsaved))));
	r_step_px(r, (struct px_event){.kind = PX_STEP_DOWN, .why = "its disk stood still"});
}

static void
supervise_disks(struct replica *r, const struct member_view *m)
{
	struct disk_full_verdict f = member_rules_disk_full(m);

	if (f.refuse != r->mastership.refuses_growth)
		NOTICE(r->config.trace,
		       f.refuse ? "a majority has no room on its disks: nothing that grows is taken"
		                : "there is room on the disks again");
	r->mastership.refuses_growth = f.refuse;
	if (f.hand_over == 0)
		return;
	NOTICE(r->config.trace, "the disk is full: replica %u is to be master", f.hand_over);
	r_step_px(r, (struct px_event){.kind = PX_STEP_DOWN,
	                               .to = f.hand_over,
	                               .why = "its disk is full"});
}

void
r_mastership_supervise(struct replica *r)
{
	struct member_verdict promoted;
	struct member_view m;

	if (!r_is_master(r))
		return;
	r_member_list_view(r, &m);
	supervise_disks(r, &m);
	if (!r->mastership.serving)
		return;
	if (r_members_may_change(r)) {
		promoted = member_rules_promote(&m);
		if (promoted.rc == RC_OK && r_member_list_propose(r, &m))
			NOTICE(r->config.trace, "replica %u has caught up and gets a vote",
			       promoted.id);
	}
	r_settings_supervise(r, &m);
	r_divergence_supervise(r);
}

/* ---- for the driver ---- */

bool
replica_left(const struct replica *r, mono_t by)
{
	return px_role(r->px) == PX_FOLLOWER &&
	       (px_closed(r->px) || mono_before(by, px_close_at(r->px)));
}

bool
replica_serving(const struct replica *r, mono_t now)
{
	return r->mastership.serving && px_lease_valid(r->px, now);
}
