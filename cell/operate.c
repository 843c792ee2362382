/* Operators' commands, which come on a connection without a session. Each can be asked again: what
 * is done already is no error, and after a change of the master the next one is asked.
 *
 *   ADD, REMOVE_REPLICA   decided here, proposed, answered when the new list is applied
 *   TRANSFER              answered when this replica is master no more
 *   DESTROY_SESSION       answered when the session has ended */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/replica_internal.h"
#include "cell/wire/codec.h"

enum { OPERATORS_MAX = 256 };

/* ---- answers ---- */

static void
answer(struct replica *r, uint64_t conn, enum rc rc, uint64_t id, const char *why)
{
	struct message m = {
		.code = MSG_operated,
		.operated = {.rc = (uint8_t)rc, .id = id, .why = bytes_of(why)},
	};

	r_answer(r, conn, &m);
}

static void
wait_for(struct replica *r, uint64_t conn, enum operation what, uint64_t id)
{
	struct operator *o = memory_zero(1, sizeof *o);

	o->conn = conn;
	o->what = what;
	o->id = id;
	TAILQ_INSERT_TAIL(&r->operators, o, entry);
	r->operators_n++;
}

static void
forget(struct replica *r, struct operator *o)
{
	TAILQ_REMOVE(&r->operators, o, entry);
	r->operators_n--;
	free(o);
}

static bool
is_about_members(const struct operator *o)
{
	return o->what == OPERATION_ADD_REPLICA || o->what == OPERATION_REMOVE_REPLICA;
}

/* ---- asking ---- */

static void
operate_members(struct replica *r, uint64_t conn, const struct msg_operate *m)
{
	struct membership view;
	struct membership_verdict v;

	r_members_view(r, &view);
	if (r->changing) {
		answer(r, conn, RC_BUSY, 0, "another change of the members is under way");
		return;
	}
	if (m->what == OPERATION_ADD_REPLICA)
		v = membership_add(&view, m->address, m->key);
	else
		v = membership_remove(&view, m->id);
	if (!v.changed) {
		answer(r, conn, v.rc, v.id, v.why);
		return;
	}
	buffer_printf(&r->update->trace, "replica %u is to be %s\n", v.id,
	              m->what == OPERATION_ADD_REPLICA ? "added" : "removed");
	r_members_propose(r, &view);
	wait_for(r, conn, m->what, v.id);
}

static void
operate_transfer(struct replica *r, uint64_t conn, uint64_t id)
{
	struct membership view;
	struct membership_verdict v;

	r_members_view(r, &view);
	v = membership_transfer(&view, id);
	if (v.rc != RC_OK || v.id == view.self) {
		answer(r, conn, v.rc, v.id, v.why);
		return;
	}
	buffer_printf(&r->update->trace, "the mastership is to go to replica %u\n", v.id);
	wait_for(r, conn, OPERATION_TRANSFER, v.id);
	r_step_px(r, (struct px_event){.kind = PX_STEP_DOWN, .to = v.id});
}

static void
operate_session(struct replica *r, uint64_t conn, uint64_t id, bool keep_delay)
{
	if (!master_destroy_session(r->master, r_clock(r), id, keep_delay, &r->master_update)) {
		answer(r, conn, RC_NO_SESSION, id, "");
		return;
	}
	wait_for(r, conn, OPERATION_DESTROY_SESSION, id);
	r_absorb_master(r);
}

/* Who is no administrator may end his own sessions. */
static bool
may_operate(const struct replica *r, struct bytes principal, const struct msg_operate *m)
{
	struct tree_session s;

	if (tree_is_admin(r->tree, principal))
		return true;
	return m->what == OPERATION_DESTROY_SESSION && tree_session(r->tree, m->id, &s) &&
	       bytes_equal(s.principal, principal);
}

void
r_operate(struct replica *r, uint64_t conn, const struct msg_operate *m)
{
	struct bytes principal;

	must(master_serving(r->master));
	if (!master_principal(r->master, conn, &principal))
		return;
	if (!may_operate(r, principal, m)) {
		answer(r, conn, RC_PERM, 0, "not an administrator");
		return;
	}
	if (r->operators_n == OPERATORS_MAX) {
		answer(r, conn, RC_BUSY, 0, "too many operators");
		return;
	}
	switch (m->what) {
	case OPERATION_ADD_REPLICA:
	case OPERATION_REMOVE_REPLICA:
		operate_members(r, conn, m);
		return;
	case OPERATION_TRANSFER:
		operate_transfer(r, conn, m->id);
		return;
	case OPERATION_DESTROY_SESSION:
		operate_session(r, conn, m->id, m->keep_delay);
		return;
	default:
		answer(r, conn, RC_INVAL, 0, "no such operation");
	}
}

/* ---- what became of it ---- */

static void
members_decided(struct replica *r, enum rc rc)
{
	struct operator *o, *next;

	r->changing = false;
	TAILQ_FOREACH_SAFE(o, &r->operators, entry, next) {
		if (!is_about_members(o))
			continue;
		answer(r, o->conn, rc, o->id, "");
		forget(r, o);
	}
}

static void
session_ended(struct replica *r, uint64_t id)
{
	struct operator *o, *next;

	TAILQ_FOREACH_SAFE(o, &r->operators, entry, next) {
		if (o->what != OPERATION_DESTROY_SESSION || o->id != id)
			continue;
		answer(r, o->conn, RC_OK, id, "");
		forget(r, o);
	}
}

void
r_operate_applied(struct replica *r, const struct tree_outcome *outcome)
{
	for (size_t i = 0; i < outcome->answers_n; i++)
		if (outcome->answers[i].op == OP_set_members && r->changing)
			members_decided(r, outcome->answers[i].rc);
	for (size_t i = 0; i < outcome->notes_n; i++)
		if (outcome->notes[i].kind == TREE_SESSION_ENDED)
			session_ended(r, outcome->notes[i].session);
}

/* A master that removes itself is it no more when that is chosen, and before it is applied. */
static bool
change_is_chosen(const struct replica *r)
{
	uint64_t version = px_members(r->px)->version;
	struct ballot origin;

	if (!r->changing || version <= tree_applied(r->tree))
		return false;
	origin = px_origin(r->px, version);
	return origin.round == r->candidacy.round && origin.replica == r->candidacy.replica;
}

void
r_operate_left(struct replica *r)
{
	bool changed = change_is_chosen(r);
	struct operator *o;

	r->changing = false;
	while ((o = TAILQ_FIRST(&r->operators)) != NULL) {
		if (o->what == OPERATION_TRANSFER || (changed && is_about_members(o)))
			answer(r, o->conn, RC_OK, o->id, "");
		forget(r, o);
	}
}

void
r_operate_disconnected(struct replica *r, uint64_t conn)
{
	struct operator *o, *next;

	TAILQ_FOREACH_SAFE(o, &r->operators, entry, next) {
		if (o->conn == conn)
			forget(r, o);
	}
}

void
r_operate_free(struct replica *r)
{
	while (!TAILQ_EMPTY(&r->operators))
		forget(r, TAILQ_FIRST(&r->operators));
}
