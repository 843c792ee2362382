/* One step of the replica, which each event is, and its output: the step's records go to the log,
 * and its messages are sent as soon as the records that they wait for are durable. */
#include "cell/server/internal.h"

#include "cell/base/must.h"
#include "cell/config/member_addresses.h"
#include "cell/wire/codec.h"
#include "cell/wire/condition.h"

enum { STEP_SLOW_MS = 10 };

/* ---- sending ---- */

/* Frames for the network are sent at once, because sending calls nothing back. */
static void
post(struct server *s, struct queued_frame queued)
{
	if (queued.peer != 0) {
		gateway_send_peer(s->gateway, queued.peer, queued.frame);
	} else if ((queued.conn & GATEWAY_CONN) == 0) {
		if (queued.close)
			inbox_disconnect(&s->inbox, queued.conn);
		frame_queue_put(&s->clients.outbox, queued);
		return;
	} else if (queued.close) {
		inbox_disconnect(&s->inbox, queued.conn); /* the replies could not be sent */
		gateway_close(s->gateway, queued.conn);
	} else if (queued.datagram) {
		gateway_send_datagram(s->gateway, queued.conn, queued.frame);
	} else {
		gateway_send(s->gateway, queued.conn, queued.frame);
	}
	queued_frame_free(&queued);
}

/* ---- news for the owner and for people ---- */

void
server_tell(struct server *s, enum server_verdict news)
{
	if (s->news != SERVER_FAILED)
		s->news = news;
}

static void
follow_members(struct server *s)
{
	static struct cell_file_replica list[LIMIT_MEMBERS];
	const struct msg_members m = replica_members(s->replica);

	gateway_set_members(s->gateway, m.version, list, member_addresses_of(&m.members, list));
}

static void
follow_condition(struct server *s)
{
	const enum voting_condition now = s->update.condition;
	const uint8_t self = s->config.identity->replica;
	const struct condition_words *words;
	enum log_level level = LEVEL_ERROR;
	struct member m;
	bool removed;

	if (now == s->condition)
		return;
	s->condition = now;
	words = condition_words(now);
	removed = tree_member_after(replica_tree(s->replica), (uint8_t)(self - 1), &m) &&
	          m.id == self && m.role == MEMBER_REMOVED;
	if (now == CONDITION_VOTING || now == CONDITION_LEARNER)
		level = LEVEL_INFO;
	else if (now == CONDITION_REPAIRING || now == CONDITION_ALONE)
		level = LEVEL_WARN;
	/* A removed replica has no vote either, even before it has received its expulsion. */
	if (now != CONDITION_JOINING && (now != CONDITION_LEARNER || !removed))
		clock_io_log(&s->io.clock, level, "replica %u %s%s%s", self, words->means,
		             words->todo != NULL ? ": " : "", words->todo ? words->todo : "");
	if (now == CONDITION_EXPELLED || now == CONDITION_OUTDATED)
		server_tell(s, SERVER_FAILED);
}

/* ---- the gate ---- */

/* Other replicas repeat their questions while a disk is stuck. Of the answers that wait for the
 * same write, the last one says all. A promise ends those of earlier ballots, whichever write they
 * wait for; the others tell how far a write has brought this replica, and later ones must not delay
 * that. */
static void
hold(struct server *s, struct queued_frame held)
{
	const unsigned code = wire_frame_code(held.frame);
	struct queued_frame *f, *next;

	TAILQ_FOREACH_SAFE(f, &s->gate, link, next)
		if (held.peer != 0 && f->peer == held.peer && wire_frame_code(f->frame) == code &&
		    (f->after == held.after || code == MSG_promise))
			frame_queue_drop(&s->gate, f);
	frame_queue_put(&s->gate, held);
}

/* ---- the step ---- */

static void
carry_out(struct server *s, struct replica_update *u)
{
	const uint64_t newer = tree_applied(replica_tree(s->replica)) + 1;
	const uint64_t base = px_status(replica_px(s->replica))->first - 1;
	enum trace_kind kind;
	const char *line;

	if (u->records_n > 0)
		s->io.store.append(s->io.store.store, u->write, u->records, u->records_n);
	if (u->rows.n > 0)
		s->unsaved = s->io.store.save(s->io.store.store, u->applied, &u->rows);
	for (size_t i = 0; i < u->sends_n; i++) {
		struct queued_frame queued = {.conn = u->sends[i].conn,
		                              .after = u->sends[i].after,
		                              .datagram = u->sends[i].datagram,
		                              .frame = u->sends[i].frame};

		if (u->sends[i].to_peer)
			queued.peer = u->sends[i].peer;
		must(queued.peer == 0 || s->gateway != NULL);
		u->sends[i].frame = (struct bytes){NULL, 0};
		if (u->sends[i].after > s->durable)
			hold(s, queued);
		else
			post(s, queued);
	}
	for (size_t i = 0; i < u->closes_n; i++)
		post(s, (struct queued_frame){.conn = u->closes[i], .close = true});
	while ((line = trace_take(&s->trace, &kind)) != NULL)
		clock_io_log(&s->io.clock, kind == TRACE_NOTICE ? LEVEL_INFO : LEVEL_DEBUG, "%s",
		             line);
	if (u->diverged) {
		/* The state of this replica differs from the state of a quorum: it must be
		 * fetched from another replica. */
		clock_io_log(
		    &s->io.clock, LEVEL_ERROR,
		    "%s: the state differs from that of the other replicas: sets it aside and "
		    "copies one of theirs",
		    s->config.directory);
		s->failed = true;
		server_tell(s, SERVER_DIVERGED);
	}
	if (s->gateway != NULL && u->members_changed)
		follow_members(s);
	/* The next start would set aside a state that ends before the log begins. */
	if (s->transfer != NULL)
		state_transfer_need(s->transfer, u->behind, newer > base ? newer : base);
}

void
server_step(struct server *s, struct replica_event event)
{
	uint64_t us;
	bool rotates;

	must(!s->stepping);
	if (s->failed || s->left)
		return;
	s->stepping = true;
	event.now = s->io.clock.now(s->io.clock.user, &event.wall_ns);
	if (mono_is_never(s->turn_began))
		s->turn_began = event.now;
	event.times = s->times;
	event.times.clients = s->gateway != NULL ? gateway_clients(s->gateway) : 0;
	event.times.links = s->gateway != NULL ? gateway_links(s->gateway) : NULL;
	if (event.kind == REPLICA_FRAME && event.code == MSG_status_request &&
	    s->io.directory.disk != NULL)
		s->io.directory.disk(s->io.directory.user, &event.times.disk_used,
		                     &event.times.disk_size);
	event.unsaved = s->unsaved > s->config.limits.unsaved;
	event.times.clients_max = s->gateway != NULL ? s->config.clients_max : 0;
	if (event.kind == REPLICA_FRAME && event.code == MSG_status_request)
		event.times.unfinished = inbox_most_unfinished(&s->inbox);
	replica_step(s->replica, &event, &s->update);
	carry_out(s, &s->update);
	follow_condition(s);
	s->deadline = s->update.deadline;

	/* During a long step neither KeepAlives nor messages of other replicas are processed. */
	us = (uint64_t)(mono_since(clock_io_now(&s->io.clock), event.now).ns / 1000);
	if (us > s->times.longest_us)
		s->times.longest_us = us;
	s->times.slow += us > STEP_SLOW_MS * 1000;

	s->stepping = false;
	rotates = s->update.rotates_key;
	s->update.rotates_key = false;
	if (s->key_rotation != NULL) {
		key_rotation_follow(s->key_rotation);
		if (px_role(replica_px(s->replica)) != PX_MASTER)
			key_rotation_cease(s->key_rotation);
	}
	if (rotates && s->key_rotation != NULL)
		key_rotation_begin(s->key_rotation);
	else if (rotates)
		server_keys_agreed(s, (struct bytes){NULL, 0});
}

/* ---- its results ---- */

static bool
is_acceptance(const struct queued_frame *f)
{
	return f->peer != 0 && wire_frame_code(f->frame) == MSG_accepted;
}

/* Opens the gate for the frames that waited for the write. Of several acceptances for a peer, of
 * which there are thousands after a disk was stuck, the last one says all. */
void
server_persisted(struct server *s, uint64_t write)
{
	const struct queued_frame *last[UINT8_MAX + 1] = {0};
	struct queued_frame *f;
	struct queued_frame taken;

	if (write == 0)
		return; /* a write of hints only, for which no frame waits */
	must(write >= s->durable);
	s->durable = write;
	TAILQ_FOREACH(f, &s->gate, link)
		if (f->after > write)
			break;
		else if (is_acceptance(f))
			last[f->peer] = f;
	while ((f = TAILQ_FIRST(&s->gate)) != NULL && f->after <= write) {
		if (is_acceptance(f) && last[f->peer] != f) {
			frame_queue_drop(&s->gate, f);
			continue;
		}
		frame_queue_take(&s->gate, &taken);
		post(s, taken);
	}
	SERVER_STEP(s, .kind = REPLICA_PERSISTED, .write = write);
}

void
server_keep_cell_file(struct server *s, uint64_t saved)
{
	static struct cell_file_replica list[LIMIT_MEMBERS];
	const uint64_t version = tree_members_version(replica_tree(s->replica));
	struct msg_members m;

	if (s->cell_file_writer == NULL || version > saved ||
	    version <= cell_file_writer_version(s->cell_file_writer))
		return;
	m = replica_members(s->replica);
	if (m.version == version)
		cell_file_writer_follow(s->cell_file_writer, version, list,
		                        member_addresses_of(&m.members, list));
}

void
server_saved(struct server *s, uint64_t applied, size_t unsaved)
{
	s->unsaved = unsaved;
	server_keep_cell_file(s, applied);
	SERVER_STEP(s, .kind = REPLICA_SAVED, .index = applied);
}
