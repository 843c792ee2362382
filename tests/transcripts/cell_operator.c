/* An operator of cell scripts: each question goes out on a connection of its own. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/transcripts/cell_player.h"

enum { UNKNOWN = 99 }; /* no operation */

/* ---- questions ---- */

static void
member_question(struct player *p, struct script *w, struct msg_operate *m, uint8_t *body)
{
	struct member member;

	/* `again`: the one of that number */
	*body = script_take(w, "again") ? (uint8_t)script_number(w) : ++p->s->bodies;
	member = seat_member((struct seat){.body = *body});
	m->address = member.address;
	m->key = member.key;
}

static void
session_question(struct player *p, struct script *w, struct msg_operate *m)
{
	const bool all_of = script_take(w, "all-of");
	const char *name = script_needed(w);
	const struct bare *b = bare_find(p, name);
	const struct machine *client = player_client(p, name);

	m->keep_delay = script_take(w, "keep");
	if (all_of) {
		m->name = bytes_of(name);
		m->seen = script_take(w, "up-to") ? script_number(w) : UINT64_MAX;
		return;
	}
	m->id = b != NULL        ? b->session
	        : client != NULL ? client->session
	                         : strtoull(name, NULL, 10);
	history_waits_over(p->s, m->id); /* the model knows of no such end */
	machine_session_destroyed(p->s, m->id);
}

/* The key is made of the first letter of a word: the name, or what is written after it. The
 * operator has seen the principal as it is, or as it was at an index. */
static void
principal_question(struct player *p, struct script *w, struct msg_operate *m)
{
	static uint8_t key[32];
	const struct host *serving = sim_serving(p->s);
	struct tree_principal now = {0};
	const char *name, *word;

	m->purge = script_take(w, "purge");
	if (script_take(w, "seen"))
		m->seen = script_number(w);
	name = script_needed(w);
	word = script_word(w);
	m->name = bytes_of(name);
	if (m->seen == 0 && serving != NULL &&
	    tree_principal(replica_tree(serving->replica), m->name, &now))
		m->seen = now.generation;
	memset(key, (word != NULL ? word : name)[0], sizeof key);
	m->key = (struct bytes){key, sizeof key};
}

static void
operate_question(struct player *p, struct script *w, const char *word, struct msg_operate *m,
                 uint8_t *body)
{
	static const char *const operations[] = {[OPERATION_ADD_REPLICA] = "add",
	                                         [OPERATION_REMOVE_REPLICA] = "remove",
	                                         [OPERATION_TRANSFER] = "transfer",
	                                         [OPERATION_DESTROY_SESSION] = "end",
	                                         [OPERATION_SET] = "set",
	                                         [OPERATION_ADD_PRINCIPAL] = "add-principal",
	                                         [OPERATION_REMOVE_PRINCIPAL] = "remove-principal",
	                                         [OPERATION_RECOVER_PRINCIPAL] = "recover",
	                                         [OPERATION_ROTATE_KEY] = "rotate-key",
	                                         [OPERATION_UNLOCK] = "unlock",
	                                         [OPERATION_BACKED_UP] = "backed-up",
	                                         [UNKNOWN] = "juggle"};

	m->what = (uint8_t)script_choice(w, word, operations, UNKNOWN + 1);
	switch (m->what) {
	case OPERATION_ADD_REPLICA:
		member_question(p, w, m, body);
		break;
	case OPERATION_SET:
		m->name = bytes_of(script_needed(w));
		m->value = script_number(w);
		break;
	case OPERATION_DESTROY_SESSION:
		session_question(p, w, m);
		break;
	case OPERATION_ADD_PRINCIPAL:
	case OPERATION_REMOVE_PRINCIPAL:
	case OPERATION_RECOVER_PRINCIPAL:
		principal_question(p, w, m);
		break;
	case OPERATION_UNLOCK:
		m->value = names_find(p->s, &p->names, script_needed(w));
		m->seen = script_number(w); /* a fence */
		break;
	case OPERATION_BACKED_UP:
		m->value = script_number(w);
		break;
	case OPERATION_ROTATE_KEY:
	case UNKNOWN:
		break;
	default:
		m->id = script_number(w);
	}
}

static struct message
question(struct player *p, struct script *w, uint8_t *body)
{
	static const struct {
		const char *word;
		enum message_code code;
	} requests[] = {
	    {"sessions", MSG_sessions_request}, {"locks", MSG_locks_request},
	    {"members", MSG_members_request},   {"settings", MSG_settings_request},
	    {"status", MSG_status_request},     {"principals", MSG_principals_request},
	};
	struct message m = {.code = MSG_operate};

	if (script_take(w, "again-behind"))
		m.operate.behind = script_number(w);
	for (size_t i = 0; i < sizeof requests / sizeof *requests; i++)
		if (script_take(w, requests[i].word))
			return (struct message){.code = requests[i].code};
	operate_question(p, w, script_needed(w), &m.operate, body);
	return m;
}

/* It is answered, or does not wait for that. */
static void
operator_leaves(struct player *p, struct question *q)
{
	net_client_drops(p->s, q->conn);
	q->conn = 0;
}

void
operator_command(struct player *p, struct script *w)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);
	struct question *q;
	struct message m;
	uint64_t at = 0;
	uint8_t seat = SEAT_ADMIN;

	if (script_take(w, "leaves")) {
		for (int i = 0; i < QUESTIONS_MAX; i++)
			if (p->questions[i].conn != 0)
				operator_leaves(p, &p->questions[i]);
		return;
	}
	q = &p->questions[p->questions_n++ % QUESTIONS_MAX];
	*q = (struct question){0};
	if (script_take(w, "at"))
		at = script_number(w);
	if (script_take(w, "replica"))
		seat = (uint8_t)script_number(w);
	q->limits = script_take(w, "limits");
	m = q->limits ? (struct message){.code = MSG_status_request} : question(p, w, &q->body);
	q->conn = player_connect(p, SCRIPTED, (int)at, seat);
	q->asked = m.code;
	wire_put_frame(&frame, &m);
	must(!frame.failed);
	net_to_node(p->s, q->conn, buffer_view(&frame));
	buffer_free(&frame);
}

/* ---- answers ---- */

/* The new replica's machine is there, with a cell file that the operator has brought; it is started
 * by `start`. */
static void
create(struct player *p, uint8_t id, uint8_t body)
{
	const struct seats *last = members_last(p->s);
	struct seats file = {.version = last->version};
	struct host *n;

	must(id > 0 && id <= HOSTS_MAX);
	n = &p->s->hosts[id - 1];
	if (n->body != 0)
		return;
	for (int i = 0; i < last->n && file.n < LIMIT_REPLICAS - 1; i++)
		if (last->list[i].role != MEMBER_REMOVED && last->list[i].id != id)
			file.list[file.n++] = last->list[i];
	file.list[file.n++] = (struct seat){id, MEMBER_LEARNER, body};
	host_create(p->s, n, body, &file);
	p->s->hosts_n = id > p->s->hosts_n ? id : p->s->hosts_n;
}

static void
print_sessions(struct player *p, const struct msg_sessions *m)
{
	struct cursor at = cursor_of(m->sessions.packed);
	struct session_row row;

	while (wire_next_session_row(&at, &row))
		player_say(p,
		           "operator: session %lu of %.*s: lease %u ms, %lu locks, heard %ld ms "
		           "ago%s",
		           (unsigned long)row.session, (int)row.host.len,
		           (const char *)row.host.data, row.lease_ms, (unsigned long)row.locks,
		           (long)row.heard_ms, row.lasting ? "; it lasts" : "");
}

static void
print_locks(struct player *p, const struct msg_locks *m)
{
	static const char *const states[] = {
	    [LOCK_STATE_FREE] = "free",
	    [LOCK_STATE_SHARED] = "shared",
	    [LOCK_STATE_EXCLUSIVE] = "exclusive",
	    [LOCK_STATE_DELAYED] = "delayed",
	};
	struct cursor at = cursor_of(m->locks.packed);
	struct lock_row row;
	struct result r;

	while (wire_next_lock_row(&at, &row) &&
	       wire_get_result(RESULT_queue, row.queue, &r) == RC_OK)
		player_say(p, "operator: lock of %.*s: %s, %u holders, %u waiters, %ld s left",
		           (int)r.queue.path.len, (const char *)r.queue.path.data,
		           states[r.queue.state], r.queue.holders.count, r.queue.waiters.count,
		           (long)r.queue.delay_left_s);
}

static void
print_members(struct player *p, const struct msg_members *m)
{
	static const char *const roles[] =
	    {[MEMBER_VOTER] = "", [MEMBER_LEARNER] = " (learner)", [MEMBER_REMOVED] = " (removed)"};
	struct cursor at = cursor_of(m->members.packed);
	struct buffer text = BUFFER(1000);
	struct member member;

	while (wire_next_member(&at, &member))
		buffer_printf(&text, " %u%s", member.id, roles[member.role]);
	player_say(p, "operator: members of log %lu:%.*s", (unsigned long)m->version, (int)text.len,
	           (const char *)text.data);
	buffer_free(&text);
}

static void
print_settings(struct player *p, const struct msg_settings *m)
{
	struct cursor at = cursor_of(m->settings.packed);
	struct setting_row row;

	while (wire_next_setting_row(&at, &row))
		if (row.value != row.standard || row.longest != row.value)
			player_say(p, "operator: %.*s %lu, was promised up to %lu",
			           (int)row.name.len, (const char *)row.name.data,
			           (unsigned long)row.value, (unsigned long)row.longest);
}

static void
print_principals(struct player *p, const struct msg_principals *m)
{
	struct cursor at = cursor_of(m->principals.packed);
	struct principal_row row;

	while (wire_next_principal_row(&at, &row))
		player_say(p, "operator: principal %.*s", (int)row.name.len,
		           (const char *)row.name.data);
}

static void
print_status(struct player *p, const struct msg_status_reply *m)
{
	static const char *const roles[] = {[REPLICA_MASTER] = "master"};
	struct cursor at = cursor_of(m->progress.packed);
	struct cursor links = cursor_of(m->links.packed);
	struct progress row;
	struct peer_link link;

	player_say(p,
	           "operator: replica %u is %s, master %u, epoch %lu, applied %lu of %lu, "
	           "log from %lu, %lu sessions, %lu locks, condition %u%s%s",
	           m->self, m->role == REPLICA_MASTER ? roles[REPLICA_MASTER] : "no master",
	           m->master, (unsigned long)m->epoch, (unsigned long)m->applied,
	           (unsigned long)m->last, (unsigned long)m->first, (unsigned long)m->sessions,
	           (unsigned long)m->locks_held, m->condition, m->full ? ", its disk is full" : "",
	           m->disputed != 0 ? ", states differ" : "");
	while (wire_next_progress(&at, &row))
		player_say(p, "operator: replica %u has %lu, heard %ld ms ago%s", row.id,
		           (unsigned long)row.match, (long)row.heard_ms,
		           row.full ? ", its disk is full" : "");
	while (wire_next_peer_link(&links, &link))
		if (link.down_ms >= 0)
			player_say(p, "operator: no connection to replica %u for %ld ms", link.id,
			           (long)link.down_ms);
}

static void
say_whose(const struct limit_row *row, char of[LIMIT_PRINCIPAL + 16])
{
	static const char *const whose[] = {"its", "the cell's", "any principal's"};

	must(row->whose < sizeof whose / sizeof *whose);
	snprintf(of, LIMIT_PRINCIPAL + 16, "%s", whose[row->whose]);
	if (row->principal.len > 0)
		snprintf(of, LIMIT_PRINCIPAL + 16, "principal %.*s's", (int)row->principal.len,
		         (const char *)row->principal.data);
}

/* The sim's driver accepts any number of clients. */
static void
print_limits(struct player *p, const struct msg_status_reply *m)
{
	struct cursor at = cursor_of(m->limits.packed);
	char of[LIMIT_PRINCIPAL + 16];
	struct limit_row row;

	while (wire_next_limit_row(&at, &row)) {
		if (row.most == SIZE_MAX)
			continue;
		say_whose(&row, of);
		player_say(p, "operator: %s %.*s: %lu of %lu %.*s", of, (int)row.name.len,
		           (const char *)row.name.data, (unsigned long)row.used,
		           (unsigned long)row.most, (int)row.unit.len, (const char *)row.unit.data);
	}
}

static void
on_operated(struct player *p, const struct question *q, const struct msg_operated *m)
{
	struct cursor at = cursor_of(m->naming.packed);
	struct acl_file file;

	player_say(p, "operator: %s%s%.*s", m->rc == RC_OK ? "done" : rc_name(m->rc),
	           m->why.len > 0 ? ": " : "", (int)m->why.len, (const char *)m->why.data);
	while (wire_next_acl_file(&at, &file))
		player_say(p, "operator: named by acl/%.*s", (int)file.name.len,
		           (const char *)file.name.data);
	if (m->rc == RC_OK && q->body != 0) {
		player_say(p, "operator: it is replica %lu", (unsigned long)m->id);
		create(p, (uint8_t)m->id, q->body);
	}
}

static void
on_message(struct player *p, struct question *q, const struct message *m)
{
	switch (m->code) {
	case MSG_operated:
		on_operated(p, q, &m->operated);
		return;
	case MSG_sessions:
		print_sessions(p, &m->sessions);
		return;
	case MSG_locks:
		print_locks(p, &m->locks);
		return;
	case MSG_members: /* also comes by itself */
		if (q->asked == MSG_members_request)
			print_members(p, &m->members);
		return;
	case MSG_settings:
		print_settings(p, &m->settings);
		return;
	case MSG_principals:
		print_principals(p, &m->principals);
		return;
	case MSG_status_reply:
		(q->limits ? print_limits : print_status)(p, &m->status_reply);
		return;
	case MSG_redirect: /* again whenever the master changes */
		if (!q->sent_away)
			player_say(p, "operator: replica %u is the master", m->redirect.master);
		q->sent_away = true;
		return;
	default:
		player_say(p, "operator: %s", "another message");
	}
}

bool
operator_waits(const struct player *p)
{
	for (int i = 0; i < QUESTIONS_MAX; i++)
		if (p->questions[i].conn != 0 && !p->questions[i].sent_away)
			return true;
	return false;
}

static bool
is_answer(const struct question *q, enum message_code code)
{
	return code != 0 && code != MSG_redirect &&
	       (code != MSG_members || q->asked == MSG_members_request);
}

bool
operator_heard(struct player *p, uint64_t conn, enum client_event_kind kind, struct bytes frame)
{
	for (int i = 0; i < QUESTIONS_MAX; i++) {
		struct question *q = &p->questions[i];
		struct message m = {0};

		if (q->conn != conn || conn == 0)
			continue;
		if (kind == CLIENT_FRAME && wire_get_frame(frame, &m) == RC_OK)
			on_message(p, q, &m);
		if (kind == CLIENT_DISCONNECTED || is_answer(q, m.code))
			operator_leaves(p, q);
		return true;
	}
	return false;
}
