/* The server's events: a client's frame, a record that became durable, a deadline. Each is one step
 * of the replica (server_step.c), at once or when there is time for it. Frames for clients in this
 * process are queued and delivered at the end of the turn, so that no client is called within a
 * step, and no step is taken within a client's call. */
#include "cell/server/internal.h"

#include <sodium.h>
#include <string.h>

#include "cell/base/must.h"
#include "cell/wire/codec.h"

enum {
	TURN_MS = 1,       /* the part of a turn in which clients' requests are read */
	UNSENT_PARTS = 16, /* connections of a principal that may each have all of it */
	/* One of them has room for each principal, though others have filled the inbox. */
	INBOX_PARTS = 8,
	ACKNOWLEDGEMENT = 256, /* bytes of its frame at most; one that gives nodes back is longer */
};

static mono_t
now_of(const struct server *s)
{
	return clock_io_now(&s->io.clock);
}

/* ---- the inbox ---- */

static bool
behind(const struct server *s)
{
	return s->unsaved > s->config.limits.unsaved ||
	       s->update.backlog > s->config.limits.backlog;
}

/* True if the frame can be processed now. Requests wait while writing the log or the state is far
 * after; and a client that does not read its replies gets no more of them. */
static bool
may_step(struct server *s, uint64_t conn, unsigned code)
{
	size_t n, most = s->config.limits.unsent;

	if (code == MSG_request && behind(s))
		return false;
	if ((conn & GATEWAY_CONN) == 0)
		return true;
	/* The connections of a principal share what may be unsent to them. */
	n = inbox_connections_beside(&s->inbox, conn);
	if (n > UNSENT_PARTS)
		most = most * UNSENT_PARTS / n + 1;
	return gateway_unsent_bytes(s->gateway, conn) < most;
}

static bool
is_ready(void *user, uint64_t conn, struct bytes frame)
{
	return may_step(user, conn, wire_frame_code(frame));
}

static void
step_frame(struct server *s, uint64_t conn, unsigned code, struct bytes frame)
{
	SERVER_STEP(s, .kind = REPLICA_FRAME, .conn = conn, .code = code, .frame = frame);
}

/* False: all clients are of one principal, which delays no other one. */
static bool
has_others(const struct server *s)
{
	return s->inbox.principals_n > 1;
}

static void
charge(struct server *s, uint64_t conn, size_t len)
{
	if (has_others(s))
		inbox_charge(&s->inbox, conn, s->heard, len, replica_under_way(s->replica, conn));
}

/* Clients' frames are processed in a part of the turn only: KeepAlives, messages of other replicas
 * and deadlines are handled between two parts. */
static void
read_inbox(struct server *s)
{
	struct queued_frame p;
	mono_t end;

	s->turn_runs = s->turn_over = s->inbox_due = false;
	if (s->inbox.bytes == 0)
		return;
	end = mono_add(now_of(s), span_ms(TURN_MS));
	while (!s->left && !s->turn_over && inbox_take(&s->inbox, s->heard, is_ready, s, &p)) {
		const size_t half = s->config.limits.flood / 2;
		const size_t left = inbox_bytes(&s->inbox, p.conn);

		/* A client that was held is read again when half of what it may have in the inbox
		 * is processed, or all of its frames are. */
		if ((p.conn & GATEWAY_CONN) != 0 &&
		    (left == 0 || (left <= half && left + p.frame.len > half)))
			gateway_hold(s->gateway, p.conn, false);
		charge(s, p.conn, p.frame.len);
		step_frame(s, p.conn, wire_frame_code(p.frame), p.frame);
		queued_frame_free(&p);
		s->turn_over = mono_reached(now_of(s), end);
	}
}

/* The time in which clients' frames are processed at once begins with the first one of a turn. */
static bool
out_of_turn(struct server *s)
{
	if (s->turn_runs)
		return mono_reached(now_of(s), mono_add(s->turn_began, span_ms(TURN_MS)));
	s->turn_runs = true;
	s->turn_began = MONO_NEVER;
	return false;
}

/* True if the frame must wait in the inbox; a KeepAlive does only where a client sends more of them
 * than it has reason to. */
static bool
must_wait(struct server *s, uint64_t conn, unsigned code)
{
	if (code == MSG_keepalive)
		return !inbox_keepalive(&s->inbox, conn, s->heard, false);
	return s->inbox.bytes > 0 || out_of_turn(s) || !may_step(s, conn, code) ||
	       (has_others(s) && !inbox_in_budget(&s->inbox, conn, s->heard));
}

/* True if the inbox has no room for more of the connection's principal. Others find some room when
 * one has filled it. */
static bool
is_full(const struct server *s, uint64_t conn)
{
	const size_t most = s->config.limits.inbox;

	return s->inbox.bytes + s->inbox.unfinished_bytes > most &&
	       inbox_bytes_of_principal(&s->inbox, conn) > most / INBOX_PARTS;
}

/* False: it has to wait, and there is no room for it. Clients in this process find room. */
static bool
take(struct server *s, uint64_t conn, unsigned code, struct bytes frame)
{
	const bool remote = (conn & GATEWAY_CONN) != 0;
	struct message m;
	size_t waiting;

	/* An acknowledgement of a notice, for which others wait, waits for nothing. There are no
	 * more of these than notices, each of which has cost the master more. */
	if (code == MSG_dropped && frame.len <= ACKNOWLEDGEMENT &&
	    wire_get_frame(frame, &m) == RC_OK && replica_awaits(s->replica, conn, &m.dropped)) {
		step_frame(s, conn, code, frame);
		return true;
	}
	if (code == MSG_keepalive || has_others(s))
		s->heard = now_of(s);
	if (!must_wait(s, conn, code)) {
		if (code != MSG_keepalive)
			charge(s, conn, frame.len);
		step_frame(s, conn, code, frame);
		return true;
	}
	if (remote && is_full(s, conn))
		return false;
	waiting = inbox_put(&s->inbox, conn, bytes_copy(frame));
	/* A KeepAlive that waits is one too many: where a client sends these without end, to read
	 * them costs more than to answer them. */
	if (remote && (code == MSG_keepalive || waiting > s->config.limits.flood))
		gateway_hold(s->gateway, conn, true);
	s->inbox_due = true;
	return true;
}

/* ---- unfinished frames ---- */

void
server_client_gone(struct server *s, uint64_t conn)
{
	state_transfer_forget(s->transfer, conn);
	inbox_disconnect(&s->inbox, conn);
	SERVER_STEP(s, .kind = REPLICA_DISCONNECTED, .conn = conn);
}

/* A client repeats its requests on a new connection. */
static void
close_client(struct server *s, uint64_t conn, const char *why)
{
	clock_io_log(&s->io.clock, LEVEL_DEBUG, "client %llu is closed: %s",
	             (unsigned long long)(conn & ~GATEWAY_CONN), why);
	gateway_close(s->gateway, conn);
	server_client_gone(s, conn);
}

/* A client without a session has little to say. */
void
server_unfinished(struct server *s, uint64_t conn, size_t bytes, bool fresh)
{
	const bool session = replica_has_session(s->replica, conn | GATEWAY_CONN);
	const size_t most = session ? LIMIT_PRINCIPAL_WINDOW : LIMIT_PRINCIPAL_EARLY;

	conn |= GATEWAY_CONN;
	if (inbox_set_unfinished(&s->inbox, conn, session, bytes, fresh, now_of(s)) > most ||
	    (bytes > 0 && is_full(s, conn)))
		close_client(s, conn, "too much of its principal has come in part");
}

/* ---- turns ---- */

void
server_timeout(struct server *s)
{
	s->due = true;
	s->heard = now_of(s);
}

/* Handles the deadlines after the input of the turn: a KeepAlive that arrived before the deadline
 * counts, even after a long pause of the whole process. */
static void
take_deadlines(struct server *s)
{
	const mono_t now = s->due ? now_of(s) : (mono_t){0};
	uint64_t conn;

	if (!s->due)
		return;
	s->due = false;
	if (mono_reached(now, s->deadline)) {
		SERVER_STEP(s, .kind = REPLICA_TIMEOUT);
		/* The step may have made room. */
		s->inbox_due |= inbox_has(&s->inbox, s->heard, is_ready, s);
	}
	if (s->gateway == NULL)
		return;
	while (inbox_stalled(&s->inbox, now, &conn))
		close_client(s, conn, "the rest of a frame does not come");
	if (mono_reached(now, gateway_deadline(s->gateway)))
		gateway_timeout(s->gateway, now);
	if (mono_reached(now, state_transfer_deadline(s->transfer)))
		state_transfer_timeout(s->transfer, now);
	if (mono_reached(now, key_rotation_deadline(s->key_rotation)))
		key_rotation_timeout(s->key_rotation, now);
	cell_file_writer_timeout(s->cell_file_writer, now);
}

static bool
has_unsent(const struct server *s)
{
	return !s->failed && !s->left && s->update.unsent;
}

enum server_verdict
server_turn(struct server *s)
{
	enum server_verdict news;

	local_clients_deliver(&s->clients);
	read_inbox(s);
	take_deadlines(s);
	/* One message has all that the frames of a turn have proposed, and has one answer. */
	if (has_unsent(s))
		SERVER_STEP(s, .kind = REPLICA_SEND);
	local_clients_deliver(&s->clients);

	/* While the server is being stopped, the owner gets no other verdicts than SERVER_LEFT. */
	news = s->news;
	s->news = SERVER_GOES_ON;
	if (mono_is_never(s->leave_by))
		return news;
	s->left = s->left || server_has_left(s);
	return s->left ? SERVER_LEFT : SERVER_GOES_ON;
}

mono_t
server_deadline(const struct server *s)
{
	mono_t next = mono_min(s->deadline, s->leave_by);

	next = mono_min(next, inbox_deadline(&s->inbox, s->heard));
	if (!TAILQ_EMPTY(&s->clients.outbox) || s->turn_over || s->inbox_due ||
	    s->news != SERVER_GOES_ON || has_unsent(s) ||
	    (!mono_is_never(s->leave_by) && server_has_left(s)))
		return (mono_t){0};
	if (s->failed)
		next = s->leave_by;
	if (s->gateway != NULL) {
		next = mono_min(next, gateway_deadline(s->gateway));
		next = mono_min(next, state_transfer_deadline(s->transfer));
		next = mono_min(next, key_rotation_deadline(s->key_rotation));
		next = mono_min(next, cell_file_writer_deadline(s->cell_file_writer));
	}
	return next;
}

/* ---- the disk ---- */

void
server_full(struct server *s, bool full)
{
	if (full)
		clock_io_log(&s->io.clock, LEVEL_WARN, "%s: no room on the disk; waiting for it",
		             s->config.directory);
	else
		clock_io_log(&s->io.clock, LEVEL_INFO, "%s: there is room on the disk again",
		             s->config.directory);
	SERVER_STEP(s, .kind = REPLICA_FULL, .on = full);
}

void
server_disk_failed(struct server *s, const char *why)
{
	clock_io_log(&s->io.clock, LEVEL_ERROR, "%s: %s", s->config.directory, why);
	s->failed = true;
	server_tell(s, SERVER_FAILED);
}

void
server_cell_file_written(struct server *s, enum rc rc, bool keys_kept, const char *why)
{
	cell_file_writer_written(s->cell_file_writer, rc, keys_kept, why);
	key_rotation_written(s->key_rotation);
}

void
server_copy_made(struct server *s, enum rc rc, uint64_t applied, uint64_t size, const char *why)
{
	state_transfer_made(s->transfer, rc, applied, size, why);
}

void
server_fetch_checked(struct server *s, const char *why)
{
	state_transfer_checked(s->transfer, why);
}

/* ---- clients ---- */

uint64_t
server_connect(struct server *s, const struct server_client *client, const char *principal)
{
	static const uint8_t no_key[INBOX_KEY];
	uint64_t conn = local_clients_connect(&s->clients, client);

	inbox_connect(&s->inbox, conn, no_key);
	SERVER_STEP(s, .kind = REPLICA_CONNECTED, .conn = conn, .principal = bytes_of(principal));
	return conn;
}

void
server_send(struct server *s, uint64_t conn, struct bytes frames)
{
	while (frames.len > 0) {
		const long len = wire_frame_length(frames);
		const unsigned code = wire_frame_code(frames);
		const struct bytes frame = {frames.data, (size_t)len};

		must(len > 0 && frame.len <= frames.len);
		frames.data += len;
		frames.len -= frame.len;
		take(s, conn, code, frame);
	}
}

void
server_disconnect(struct server *s, uint64_t conn)
{
	inbox_disconnect(&s->inbox, conn);
	if (local_clients_disconnect(&s->clients, conn))
		SERVER_STEP(s, .kind = REPLICA_DISCONNECTED, .conn = conn);
}

/* ---- the network ---- */

void
server_peer_frame(struct server *s, uint8_t replica, struct bytes frame)
{
	const bool member = gateway_has_member(s->gateway, replica);

	if (wire_frame_code(frame) == MSG_accept && behind(s))
		return; /* the master repeats it like every lost message */
	if (!state_transfer_peer(s->transfer, replica, member, frame) &&
	    !key_rotation_peer(s->key_rotation, replica, member,
	                       px_status(replica_px(s->replica))->master.replica == replica, frame))
		SERVER_STEP(s, .kind = REPLICA_PEER, .peer = replica, .frame = frame);
}

void
server_keys_agreed(void *user, struct bytes keys)
{
	SERVER_STEP(user, .kind = REPLICA_KEYS, .key = keys);
}

void
server_keys_changed(void *user)
{
	struct server *s = user;
	struct master_keys keys;

	key_rotation_keys(s->key_rotation, &keys);
	replica_set_keys(s->replica, &keys);
	sodium_memzero(&keys, sizeof keys);
}

void
server_copy_begun(void *user, uint8_t replica)
{
	SERVER_STEP(user, .kind = REPLICA_COPY_BEGUN, .peer = replica);
}

void
server_transfer_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame)
{
	struct server *s = user;

	if (replica != 0)
		gateway_send_peer(s->gateway, replica, frame);
	else
		gateway_send(s->gateway, conn, frame);
}

static enum rc
not_known(const struct server *s)
{
	return replica_serving(s->replica, now_of(s)) ? RC_PERM : RC_NOT_MASTER;
}

/* Before its first epoch a replica has no principals, and lets the administrator of its cell file
 * in, who may want to see why it has none. */
enum rc
server_principal(const struct server *s, enum channel_role role, const uint8_t key[NOISE_KEY],
                 struct bytes *name)
{
	const struct cell_file *cell_file = &s->config.identity->cell_file;
	const struct tree *tree = replica_tree(s->replica);
	const struct bytes proved = {key, NOISE_KEY};
	struct tree_principal p;

	*name = (struct bytes){0};
	if (role == CHANNEL_HOST) {
		/* The holder of a replica's key, who recovers a principal, needs few
		 * connections. */
		if (!tree_has_member_key(tree, proved))
			return not_known(s);
		return inbox_connections(&s->inbox, key) < LIMIT_OPERATOR_CONNECTIONS ? RC_OK
		                                                                      : RC_FULL;
	}
	*name = bytes_of("admin");
	if (tree_epoch(tree) == 0 && cell_file->has_admin &&
	    memcmp(cell_file->admin_public, key, NOISE_KEY) == 0)
		return RC_OK;
	if (!tree_principal_of_key(tree, proved, &p))
		return not_known(s);
	*name = p.name;
	return inbox_connections(&s->inbox, key) < LIMIT_PRINCIPAL_CONNECTIONS ? RC_OK : RC_FULL;
}

void
server_client_connected(struct server *s, uint64_t conn, struct bytes principal, struct bytes key)
{
	inbox_connect(&s->inbox, conn, key.data);
	SERVER_STEP(s, .kind = REPLICA_CONNECTED, .conn = conn, .principal = principal, .key = key);
}

/* Closes the connections of clients that send more than the inbox can hold. */
void
server_client_frame(struct server *s, uint64_t conn, struct bytes frame)
{
	const unsigned code = wire_frame_code(frame);
	struct bytes principal;

	if (code == MSG_state_request) {
		const bool admin = gateway_principal(s->gateway, conn, &principal) &&
		                   tree_is_admin(replica_tree(s->replica), principal);

		if (state_transfer_client(s->transfer, conn, admin, frame))
			return;
	}
	if (!take(s, conn, code, frame))
		close_client(s, conn, "too many of its frames wait");
}

/* The tree of a replica that is new, or whose disk was emptied, knows nobody: it knows the other
 * replicas by its cell file. */
bool
server_knows(const struct server *s, const uint8_t key[NOISE_KEY])
{
	const struct tree *tree = replica_tree(s->replica);
	const struct bytes claimed = {key, NOISE_KEY};
	struct tree_principal p;

	return gateway_knows(s->gateway, key) || tree_has_member_key(tree, claimed) ||
	       tree_principal_of_key(tree, claimed, &p);
}

/* A datagram is processed at once, like a KeepAlive on the connection; those beyond what a client
 * has reason to send are lost, as datagrams may be. */
void
server_datagram(struct server *s, uint64_t conn, struct bytes frame)
{
	struct message m;

	conn |= GATEWAY_CONN;
	if (!inbox_keepalive(&s->inbox, conn, now_of(s), true))
		return;
	/* A KeepAlive of no session asks only whether datagrams get through. */
	if (wire_get_frame(frame, &m) == RC_OK && m.code == MSG_keepalive &&
	    m.keepalive.session == 0)
		gateway_send_datagram(s->gateway, conn, frame);
	else
		SERVER_STEP(s, .kind = REPLICA_DATAGRAM, .conn = conn, .frame = frame);
}

const struct replica *
server_replica(const struct server *s)
{
	return s->replica;
}
