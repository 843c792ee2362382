/* Operators' commands, which arrive on a connection without a session. A command is decided only
 * while the lease of this replica is valid: otherwise another replica may be master. A command
 * that was not answered is sent again, to the next master perhaps: it is no error if its effect is
 * there already, and no lock, signing key or mastership is given up twice.
 *
 *   ADD, REMOVE_REPLICA   one after the other; answered when a removed one may be switched off
 *   TRANSFER              answered when this replica is no longer master
 *   DESTROY_SESSION       answered when the session has ended
 *   UNLOCK                answered when no such holder has the lock, which others may have then
 *   SET, BACKED_UP        answered when the setting, or the time by the master's clock, is noted
 *   ROTATE_KEY            answered when the new signing key is in force
 *   ADD, REMOVE_PRINCIPAL answered when the principal is there, or gone; the sessions of one that
 *                         is gone end after that; with `purge` when no ACL file names it, too
 *   RECOVER_PRINCIPAL     likewise, when it has the key; a member's key may do nothing else */
#include <stdio.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/replica/internal.h"
#include "cell/tree/signing.h"
#include "cell/wire/codec.h"

enum { OPERATORS_MAX = 256, OPERATORS_OF_ONE = 64, NAMING_MOST = 1000 };

/* ---- answers ---- */

static void
send_answer(struct replica *r, uint64_t conn, const struct msg_operated *operated)
{
	const struct message m = {.code = MSG_operated, .operated = *operated};

	R_TRACE(r, "operator is answered %s%s%.*s", rc_name(operated->rc),
	        operated->why.len > 0 ? ": " : "", (int)operated->why.len,
	        (const char *)operated->why.data);
	r_answer(r, conn, &m);
}

static void
answer(struct replica *r, uint64_t conn, enum rc rc, uint64_t id, const char *why)
{
	send_answer(r, conn,
	            &(struct msg_operated){.rc = (uint8_t)rc, .id = id, .why = bytes_of(why)});
}

static void
forget(struct replica *r, struct admin_request *o)
{
	TAILQ_REMOVE(&r->admin.requests, o, entry);
	r->admin.n--;
	free((void *)o->asked.address.data);
	free((void *)o->asked.key.data);
	free((void *)o->asked.name.data);
	free(o);
}

/* A line of the log: the principal, its command, the object, and what came of it. */
static void
audit(const struct replica *r, const struct admin_request *o, enum rc rc, const char *why)
{
	static const char *const commands[] = {
	    [OPERATION_ADD_REPLICA] = "replica add",
	    [OPERATION_REMOVE_REPLICA] = "replica remove",
	    [OPERATION_TRANSFER] = "master transfer",
	    [OPERATION_DESTROY_SESSION] = "session destroy",
	    [OPERATION_SET] = "cell set",
	    [OPERATION_ADD_PRINCIPAL] = "principal add",
	    [OPERATION_REMOVE_PRINCIPAL] = "principal remove",
	    [OPERATION_RECOVER_PRINCIPAL] = "principal recover",
	    [OPERATION_ROTATE_KEY] = "cell rotate-key",
	    [OPERATION_BACKED_UP] = "backup",
	    [OPERATION_UNLOCK] = "unlock",
	};
	const char *command =
	    o->asked.what < sizeof commands / sizeof *commands ? commands[o->asked.what] : NULL;
	const struct bytes object = o->asked.address.len > 0 ? o->asked.address : o->asked.name;
	struct buffer line = BUFFER(LIMIT_FRAME);

	buffer_printf(&line, "operator %s: %s",
	              o->principal[0] != '\0' ? o->principal : "on a replica's host",
	              command != NULL ? command : "?");
	if (object.len > 0)
		buffer_printf(&line, " %.*s", (int)object.len, (const char *)object.data);
	if (object.len == 0 && o->asked.id != 0)
		buffer_printf(&line, " %llu", (unsigned long long)o->asked.id);
	if (o->asked.what == OPERATION_SET)
		buffer_printf(&line, " %llu", (unsigned long long)o->asked.value);
	NOTICE(r->config.trace, "%.*s: %s%s", (int)buffer_view(&line).len,
	       (const char *)buffer_view(&line).data, rc == RC_OK ? "done" : "refused: ",
	       rc == RC_OK      ? ""
	       : why[0] != '\0' ? why
	                        : rc_text(rc));
	buffer_free(&line);
}

static void
conclude(struct replica *r, struct admin_request *o, enum rc rc, uint64_t id, const char *why)
{
	audit(r, o, rc, why);
	answer(r, o->conn, rc, id, why);
	forget(r, o);
}

/* ---- decisions ---- */

/* A new signing key is on the disks of a majority: of the members as they are until its entry takes
 * effect. */
bool
r_members_may_change(const struct replica *r)
{
	return !r_member_list_changing(r) && !r->admin.rotating;
}

/* The command is decided again until the list has the change, or can't have it. */
static void
admin_members(struct replica *r, struct admin_request *o)
{
	const bool add = o->asked.what == OPERATION_ADD_REPLICA;
	struct member_view view;
	struct member_verdict v;

	if (!r_members_may_change(r))
		return;
	if (o->slot == 0 && !add) { /* the trial: an empty entry, by which voters show themselves */
		o->slot = r_backlog_put(r, (struct bytes){NULL, 0});
		o->since = r->now;
	}
	r_member_list_view(r, &view);
	view.asked = o->since;
	view.trial = o->slot;
	v = add ? member_rules_add(&view, o->asked.address, o->asked.key)
	        : member_rules_remove(&view, o->asked.id);
	if (v.changed && r_member_list_propose(r, &view))
		NOTICE(r->config.trace, "replica %u is to be %s", v.id, add ? "added" : "removed");
	else if (v.changed)
		conclude(r, o, RC_INVAL, v.id, "there can be no such list of members");
	else if (v.rc != RC_BUSY)
		conclude(r, o, v.rc, v.id, v.why);
}

static void
admin_transfer(struct replica *r, struct admin_request *o)
{
	struct member_view view;
	struct member_verdict v;

	r_member_list_view(r, &view);
	/* Sent again, to go to any other replica: it has come here since. */
	if (o->asked.behind > 0 && o->asked.id == 0 && r->mastership.since > o->asked.behind)
		o->asked.id = view.self;
	v = member_rules_transfer(&view, o->asked.id);
	if (v.rc != RC_OK || v.id == view.self) {
		conclude(r, o, v.rc, v.id, v.why);
		return;
	}
	NOTICE(r->config.trace, "the mastership is to go to replica %u", v.id);
	o->asked.id = v.id;
	o->under_way = true;
	r_step_px(r, (struct px_event){.kind = PX_STEP_DOWN,
	                               .to = v.id,
	                               .why = "an operator's command"});
}

static void
admin_unlock(struct replica *r, struct admin_request *o)
{
	const struct msg_operate *m = &o->asked;
	const struct op op = OPERATION(unlock, m->value, m->id, m->seen, m->keep_delay);
	struct tree_session s;

	/* Sent again: what is left of a session that has ended is free after its delay. */
	if ((m->behind > 0 && m->id > 0 && !tree_session(r->tree, m->id, &s)) ||
	    !tree_lock_holder(r->tree, m->value, m->id, m->seen)) {
		conclude(r, o, RC_OK, m->id, "");
		return;
	}
	o->under_way = true;
	o->slot = r_propose(r, &op);
}

/* The command is decided again until the setting has the value, or can't have it. */
static void
admin_setting(struct replica *r, struct admin_request *o)
{
	const struct bytes name = o->asked.name;
	const bool backup = o->asked.what == OPERATION_BACKED_UP;
	const uint8_t code =
	    backup ? SETTING_last_backup : setting_named((const char *)name.data, name.len);
	const uint64_t noted = tree_setting(r->tree, code),
	               now = (uint64_t)(r->wall_ns / 1000000000);
	struct op op = {.code = OP_set_setting};
	char why[LIMIT_WHY];

	if (backup && o->asked.value == 0)
		o->asked.value = now;
	op.set_setting = (struct op_set_setting){code, o->asked.value};
	if (tree_setting_refused(r->tree, code, o->asked.value, why, sizeof why)) {
		conclude(r, o, RC_RANGE, 0, why);
		return;
	}
	/* A later backup counts, unless it is one of the future: by a clock that was far ahead. */
	if (noted == o->asked.value || (backup && noted > o->asked.value && noted <= now)) {
		conclude(r, o, RC_OK, 0, "");
		return;
	}
	NOTICE(r->config.trace, "%s is to be %llu %s", setting_info(code)->name,
	       (unsigned long long)o->asked.value, setting_info(code)->unit);
	o->under_way = true;
	o->slot = r_propose(r, &op);
}

static const char *
principal_refusal(enum operation what, enum rc rc)
{
	const bool recovers = what == OPERATION_RECOVER_PRINCIPAL;

	switch (rc) {
	case RC_EXIST:
		return recovers ? "another principal has this key"
		                : "the name or the key is in use";
	case RC_NOENT:
		return "no such principal";
	case RC_PERM:
		return recovers ? "the principal is no administrator (see the file acl/admin)"
		                : "no administrator would be left (see the file acl/admin)";
	case RC_FULL:
		return "there are too many principals";
	default:
		return "not the name and the key of a principal";
	}
}

static bool
is_named(const struct replica *r, struct bytes principal)
{
	return tree_acl_naming(r->tree, principal, (struct bytes){0}).len > 0;
}

/* True if the tree has the principal or not, as the command wants it. A name that was gone when its
 * operator looked, and is nowhere to be purged, is a mistake. */
static bool
principal_settled(const struct replica *r, const struct admin_request *o)
{
	struct tree_principal p;
	const bool there = tree_principal(r->tree, o->asked.name, &p);

	if (o->asked.what == OPERATION_REMOVE_PRINCIPAL)
		return !there && (o->proposed || o->asked.seen > 0 ||
		                  (o->asked.purge && is_named(r, o->asked.name)));
	return there && bytes_equal(p.key, o->asked.key);
}

static struct op
principal_op(const struct msg_operate *m)
{
	if (m->what == OPERATION_ADD_PRINCIPAL)
		return OPERATION(add_principal, m->name, m->key);
	if (m->what == OPERATION_REMOVE_PRINCIPAL)
		return OPERATION(remove_principal, m->name);
	must(m->what == OPERATION_RECOVER_PRINCIPAL);
	return OPERATION(rekey_principal, m->name, m->key);
}

/* A new principal finds the rights that ACL files give to its name, and one that is gone leaves
 * them. */
static void
conclude_principal(struct replica *r, struct admin_request *o)
{
	struct msg_operated done = {.rc = RC_OK};
	struct buffer files = BUFFER(LIMIT_FRAME);

	if (o->asked.what != OPERATION_RECOVER_PRINCIPAL) {
		struct bytes file = {0};

		while (done.naming.count < NAMING_MOST &&
		       (file = tree_acl_naming(r->tree, o->asked.name, file)).len > 0) {
			wire_put_acl_file(&files, &(struct acl_file){file});
			done.naming.count++;
		}
		must(!files.failed);
		done.naming.packed = buffer_view(&files);
	}
	audit(r, o, RC_OK, "");
	send_answer(r, o->conn, &done);
	buffer_free(&files);
	forget(r, o);
}

/* The command is decided again until the principal is there, or gone, or that can't be. */
static void
admin_principal(struct replica *r, struct admin_request *o)
{
	static const char *const becomes[] = {
	    [OPERATION_ADD_PRINCIPAL] = "added",
	    [OPERATION_REMOVE_PRINCIPAL] = "removed",
	    [OPERATION_RECOVER_PRINCIPAL] = "given another key, from a replica's host",
	};
	const struct op op = principal_op(&o->asked);
	const enum rc rc = tree_check_principal(r->tree, &op);
	struct tree_principal p;

	if (o->asked.what == OPERATION_REMOVE_PRINCIPAL &&
	    tree_principal(r->tree, o->asked.name, &p) && p.generation > o->asked.seen) {
		conclude(r, o, RC_CANCELED, 0,
		         "it was added again since, or has another key now: it stays");
	} else if (principal_settled(r, o)) {
		o->proposed = true;
		if (o->asked.purge && is_named(r, o->asked.name))
			master_purge_name(r->master, r_clock(r), o->asked.name, &r->master_update);
		else
			conclude_principal(r, o);
	} else if (rc != RC_OK) {
		conclude(r, o, rc, 0, principal_refusal(o->asked.what, rc));
	} else {
		NOTICE(r->config.trace, "principal %.*s is to be %s", (int)o->asked.name.len,
		       (const char *)o->asked.name.data, becomes[o->asked.what]);
		o->under_way = o->proposed = true;
		o->slot = r_propose(r, &op);
	}
}

/* A principal that is no administrator may end its own sessions, and release their locks: those of
 * one session, since a lock may have other holders. */
static bool
may_operate(const struct replica *r, const struct tree_principal *principal,
            const struct msg_operate *m)
{
	struct tree_session s;

	if (tree_is_admin(r->tree, principal->name))
		return true;
	if (m->what != OPERATION_DESTROY_SESSION && m->what != OPERATION_UNLOCK)
		return false;
	if (m->what == OPERATION_DESTROY_SESSION && m->name.len > 0)
		return bytes_equal(m->name, principal->name);
	return tree_session(r->tree, m->id, &s)
	           ? s.principal_generation == principal->generation
	           : m->id != 0 && m->behind > 0; /* it has ended since the first time */
}

/* True if the command was decided as that of an operator on a replica's host, or is for one. */
static bool
decide_recovery(struct replica *r, struct admin_request *o)
{
	const bool on_host = master_of_member(r->master, o->conn);
	const bool recovers = o->asked.what == OPERATION_RECOVER_PRINCIPAL;

	if (on_host && recovers)
		admin_principal(r, o);
	else if (on_host)
		conclude(r, o, RC_PERM, 0, "with a replica's key principals are recovered only");
	else if (recovers)
		conclude(r, o, RC_PERM, 0, "not with the key of a replica");
	return on_host || recovers;
}

static void
decide(struct replica *r, struct admin_request *o)
{
	const struct msg_operate *m = &o->asked;
	struct tree_principal principal;
	const bool known = master_principal(r->master, o->conn, &principal);

	if (decide_recovery(r, o))
		return;
	if (!known) {
		R_TRACE(r, "operator is not answered: it has gone, or its principal has");
		forget(r, o);
		return;
	}
	if (!may_operate(r, &principal, m)) {
		conclude(r, o, RC_PERM, 0, "not an administrator");
		return;
	}
	switch (m->what) {
	case OPERATION_ADD_REPLICA:
	case OPERATION_REMOVE_REPLICA:
		admin_members(r, o);
		return;
	case OPERATION_TRANSFER:
		admin_transfer(r, o);
		return;
	case OPERATION_DESTROY_SESSION:
		/* Of a principal those that its operator has seen: later ones have higher ids. */
		o->under_way =
		    m->name.len > 0
		        ? master_destroy_sessions(r->master, r_clock(r), m->name, m->seen,
		                                  m->keep_delay, &r->master_update)
		        : master_destroy_session(r->master, r_clock(r), m->id, m->keep_delay,
		                                 &r->master_update);
		if (!o->under_way)
			conclude(r, o, m->name.len > 0 || m->behind > 0 ? RC_OK : RC_NO_SESSION,
			         m->id, "");
		return;
	case OPERATION_UNLOCK:
		admin_unlock(r, o);
		return;
	case OPERATION_SET:
	case OPERATION_BACKED_UP:
		admin_setting(r, o);
		return;
	case OPERATION_ADD_PRINCIPAL:
	case OPERATION_REMOVE_PRINCIPAL:
		admin_principal(r, o);
		return;
	case OPERATION_ROTATE_KEY:
		if (m->behind > 0 && tree_signing_since(r->tree) > m->behind) {
			conclude(r, o, RC_OK, 0, "");
			return;
		}
		/* The server introduces the key, and then it is proposed: r_admin_keys. Until that
		 * is decided no other key may take its place on the disks. */
		NOTICE(r->config.trace, "the cell's signing key is to be rotated");
		o->under_way = true;
		if (!r->admin.rotating)
			r->update->rotates_key = true;
		return;
	default:
		conclude(r, o, RC_INVAL, 0, "no such operation");
	}
}

void
r_admin_go_on(struct replica *r)
{
	struct admin_request *o, *next;

	TAILQ_FOREACH_SAFE(o, &r->admin.requests, entry, next)
		if (!o->under_way && r_is_master(r) && r_lease_valid(r))
			decide(r, o);
	r_absorb_master(r);
}

void
r_admin_init(struct replica *r, struct bytes admin_key)
{
	r->admin.first_key = bytes_copy(admin_key);
	TAILQ_INIT(&r->admin.requests);
}

/* A master without a valid lease may have a successor, so it does not know the present state.
 * Everybody may end sessions of their own, and leaves room for administrators in doing so. */
bool
r_admin_frame(struct replica *r, uint64_t conn, struct bytes frame)
{
	struct message nobody = {.code = MSG_redirect, .redirect.epoch = tree_epoch(r->tree)};
	struct tree_principal principal = {0};
	const struct msg_operate *m;
	struct admin_request *o;
	struct message message;
	size_t others = 0;

	must(r->mastership.serving);
	if (!r_lease_valid(r)) {
		r_answer(r, conn, &nobody);
		return true;
	}
	if (wire_get_frame(frame, &message) != RC_OK || message.code != MSG_operate)
		return false;
	m = &message.operate;
	(void)master_principal(r->master, conn, &principal);
	TAILQ_FOREACH(o, &r->admin.requests, entry)
		others += bytes_equal(bytes_of(o->principal), principal.name);
	if (r->admin.n == OPERATORS_MAX || others >= OPERATORS_OF_ONE) {
		answer(r, conn, RC_BUSY, 0, "too many operators");
		return true;
	}
	o = memory_zero(1, sizeof *o);
	snprintf(o->principal, sizeof o->principal, "%.*s", (int)principal.name.len,
	         (const char *)principal.name.data);
	o->conn = conn;
	o->asked = *m;
	o->asked.address = bytes_copy(m->address);
	o->asked.key = bytes_copy(m->key);
	o->asked.name = bytes_copy(m->name);
	o->since = r->now;
	TAILQ_INSERT_TAIL(&r->admin.requests, o, entry);
	r->admin.n++;
	return true;
}

/* ---- outcomes ---- */

static void
session_ended(struct replica *r, uint64_t id)
{
	struct admin_request *o, *next;
	struct tree_session first;

	TAILQ_FOREACH_SAFE(o, &r->admin.requests, entry, next) {
		const struct msg_operate *m = &o->asked;

		if (o->under_way && m->what == OPERATION_DESTROY_SESSION &&
		    (m->name.len == 0 ? m->id == id
		                      : !tree_session_of_after(r->tree, m->name, 0, &first) ||
		                            first.id > m->seen))
			conclude(r, o, RC_OK, id, "");
	}
}

static void
conclude_rotations(struct replica *r, enum rc rc, const char *why)
{
	struct admin_request *o, *next;

	TAILQ_FOREACH_SAFE(o, &r->admin.requests, entry, next)
		if (o->under_way && o->asked.what == OPERATION_ROTATE_KEY)
			conclude(r, o, rc, 0, why);
}

void
r_admin_keys(struct replica *r, struct bytes keys)
{
	struct op op = {.code = OP_rotate_key};

	if (keys.len > 0)
		op.rotate_key = (struct op_rotate_key){
		    {keys.data, SIGNING_KEY},
		    {keys.data + SIGNING_KEY, SIGNING_KEY},
		    {keys.data + 2 * SIGNING_KEY, keys.len - 2 * SIGNING_KEY},
		};
	if (keys.len == 0) {
		conclude_rotations(r, RC_IO, "the master can't store a new signing key");
	} else if (r_member_list_changing(r)) {
		conclude_rotations(r, RC_BUSY, "the members have changed: try again");
	} else if (r_is_master(r)) {
		r->admin.rotating = true;
		r_propose(r, &op);
	}
}

void
replica_set_keys(struct replica *r, const struct master_keys *keys)
{
	master_set_keys(r->master, keys);
	r->admin.keys = keys->incomplete ? 0 : keys->since + 1;
	px_set_keys(r->px, r->admin.keys, keys->n > 0);
}

void
r_admin_applied(struct replica *r, const struct tree_outcome *outcome)
{
	struct admin_request *o;

	for (size_t i = 0; i < outcome->answers_n; i++) {
		const enum rc rc = outcome->answers[i].rc;

		if (outcome->answers[i].op == OP_rotate_key) {
			r->admin.rotating = false;
			conclude_rotations(r, rc,
			                   rc == RC_OK ? "" : "another signing key came first");
		} else if (outcome->answers[i].op == OP_set_members) {
			r_member_list_settled(r);
		}
	}
	for (size_t i = 0; i < outcome->notes_n; i++)
		if (outcome->notes[i].kind == TREE_SESSION_ENDED)
			session_ended(r, outcome->notes[i].session);
	TAILQ_FOREACH(o, &r->admin.requests, entry)
		o->under_way &= o->slot == 0 || o->slot > r->applied;
}

void
r_admin_left(struct replica *r)
{
	struct admin_request *o;

	r_member_list_settled(r);
	r->admin.rotating = false;
	while ((o = TAILQ_FIRST(&r->admin.requests)) != NULL) {
		if (o->under_way && o->asked.what == OPERATION_TRANSFER) {
			conclude(r, o, RC_OK, o->asked.id, "");
		} else {
			R_TRACE(r, "operator is not answered: the next master decides");
			forget(r, o);
		}
	}
}

void
r_admin_disconnected(struct replica *r, uint64_t conn)
{
	struct admin_request *o, *next;

	TAILQ_FOREACH_SAFE(o, &r->admin.requests, entry, next)
		if (o->conn == conn)
			forget(r, o);
}

void
r_admin_free(struct replica *r)
{
	while (!TAILQ_EMPTY(&r->admin.requests))
		forget(r, TAILQ_FIRST(&r->admin.requests));
	free((void *)r->admin.first_key.data);
}
