#include "cell/view/cell_lists.h"

#include <string.h>
#include "cell/base/mono.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/view/output.h"
#include "cell/wire/codec.h"

enum {
	ANSWERS_MAX = 4096, /* of the longest list; a master fills each but the last one */
	ROWS_MAX = 1000000, /* likewise: more than the sessions, or the busy locks, of a cell */
	LISTING_S = 60,     /* for all of it */
};

/* A list that each answer makes longer. */
struct listing {
	json_t *all;
	uint64_t last; /* id of the last session in it, or node of the last lock */
	bool more;
};

static void
on_sessions(void *user, const struct message *m)
{
	struct listing *l = user;
	struct cursor rest = cursor_of(m->sessions.sessions.packed);
	struct session_row row;
	json_t *one;

	l->more = false;
	while (wire_next_session_row(&rest, &row)) {
		one = json_object();
		json_object_set_new(one, "session", json_number(row.session));
		json_object_set_new(one, "principal",
		                    json_text(row.principal.data, row.principal.len));
		json_object_set_new(one, "host", json_text(row.host.data, row.host.len));
		json_object_set_new(one, "lease_ms",
		                    row.lasting ? json_null() : json_integer(row.lease_ms));
		json_object_set_new(one, "lasting", json_boolean(row.lasting));
		json_object_set_new(one, "locks", json_number(row.locks));
		json_object_set_new(one, "heard_ms",
		                    row.heard_ms < 0 ? json_null() : json_integer(row.heard_ms));
		json_array_append_new(l->all, one);
		l->more = m->sessions.more != 0;
		l->last = row.session;
	}
}

/* ---- locks ---- */

json_t *
lock_json(json_t *locks, struct bytes path)
{
	json_t *lock = json_object();

	json_object_set_new(lock, "path", json_path(path));
	json_object_set_new(lock, "lock", json_null());
	json_object_set_new(lock, "holders", json_array());
	json_object_set_new(lock, "waiters", json_array());
	json_array_append_new(locks, lock);
	return lock;
}

void
lock_json_state(json_t *lock, const char *state, int64_t delay_left_s)
{
	json_object_set_new(lock, "lock", json_string(state));
	if (!strcmp(state, "delayed") || delay_left_s > 0)
		json_object_set_new(lock, "delay_left", json_integer(delay_left_s));
}

void
lock_json_party(json_t *lock, const char *list, const struct party *p)
{
	json_t *one = json_object(), *pid = p->pid ? json_integer(p->pid) : json_null();

	json_object_set_new(one, "session", json_number(p->session));
	json_object_set_new(one, "principal", json_text(p->principal.data, p->principal.len));
	json_object_set_new(one, "host", json_text(p->host.data, p->host.len));
	json_object_set_new(one, "pid", pid);
	json_object_set_new(one, "mode", json_string(p->mode));
	json_object_set_new(one, "seconds", json_integer(p->seconds));
	if (p->slot >= 0)
		json_object_set_new(one, "slot", json_integer(p->slot));
	json_array_append_new(json_object_get(lock, list), one);
}

static const char *
state_name(uint8_t state)
{
	static const char *const names[] = {
	    [LOCK_STATE_FREE] = "free",
	    [LOCK_STATE_SHARED] = "shared",
	    [LOCK_STATE_EXCLUSIVE] = "exclusive",
	    [LOCK_STATE_DELAYED] = "delayed",
	};

	return state < sizeof names / sizeof names[0] ? names[state] : "free";
}

static void
add_waiter(json_t *lock, const char *list, const struct lock_waiter *w, int64_t slot,
           int64_t now_ns)
{
	const struct party p = {
	    .session = w->session,
	    .principal = w->principal,
	    .host = w->host,
	    .mode = w->mode == LOCK_SHARED ? "shared" : "exclusive",
	    .pid = w->pid,
	    .slot = slot,
	    .seconds = now_ns > w->since_ns ? (now_ns - w->since_ns) / 1000000000 : 0,
	};

	lock_json_party(lock, list, &p);
}

static void
add_queue(json_t *locks, const struct result_queue *q)
{
	struct cursor holders = cursor_of(q->holders.packed);
	struct cursor waiters = cursor_of(q->waiters.packed);
	json_t *lock = lock_json(locks, q->path);
	struct lock_holder h;
	struct lock_waiter w;

	lock_json_state(lock, state_name(q->state), q->delay_left_s);
	while (wire_next_lock_holder(&holders, &h)) {
		w = (struct lock_waiter){
		    .session = h.session,
		    .mode = h.mode,
		    .since_ns = h.since_ns,
		    .pid = h.pid,
		    .host = h.host,
		    .principal = h.principal,
		};
		add_waiter(lock, "holders", &w, h.slot, q->now_ns);
	}
	while (wire_next_lock_waiter(&waiters, &w))
		add_waiter(lock, "waiters", &w, -1, q->now_ns);
}

static void
on_locks(void *user, const struct message *m)
{
	struct listing *l = user;
	struct cursor rest = cursor_of(m->locks.locks.packed);
	struct result result;
	struct lock_row row;

	l->more = false;
	while (wire_next_lock_row(&rest, &row)) {
		if (wire_get_result(RESULT_queue, row.queue, &result) != RC_OK)
			continue;
		if (result.queue.path.len > 0)
			add_queue(l->all, &result.queue);
		l->more = m->locks.more != 0;
		l->last = result.queue.node;
	}
}

/* ---- the whole of both ---- */

static json_t *
list_all(const struct asker *to, bool locks)
{
	const mono_t deadline = mono_add(clock_now(), span_s(LISTING_S));
	struct listing l = {.all = json_array(), .more = true};
	bool good;

	for (int answers = 1; l.more; answers++) {
		const uint64_t after = l.last;
		struct message question = MESSAGE(sessions_request, l.last);

		if (locks)
			question = MESSAGE(locks_request, l.last);
		good = to->ask(to->cell_file, to->key, &question, locks ? MSG_locks : MSG_sessions,
		               locks ? on_locks : on_sessions, &l);
		if (good && l.more &&
		    (l.last <= after || answers == ANSWERS_MAX ||
		     json_array_size(l.all) > ROWS_MAX || mono_reached(clock_now(), deadline)))
			good = log_error("%s: its master's list of %s has no end",
			                 to->cell_file->name, locks ? "locks" : "sessions");
		if (!good) {
			json_decref(l.all);
			return NULL;
		}
	}
	return l.all;
}

json_t *
cell_sessions(const struct asker *to)
{
	return list_all(to, false);
}

json_t *
cell_locks(const struct asker *to)
{
	return list_all(to, true);
}
