#include <stdlib.h>
#include "cell/tree/internal.h"

static int
compare_change(const struct dirty_row *a, const struct dirty_row *b)
{
	if (a->table != b->table)
		return a->table > b->table ? 1 : -1;
	for (int i = 0; i < 3; i++) {
		if (a->key[i] != b->key[i])
			return a->key[i] > b->key[i] ? 1 : -1;
	}
	return 0;
}

RB_GENERATE_INTERNAL(dirty_rows, dirty_row, in_tree, compare_change, __attribute__((unused)) static)

static void
changed_of(struct tree *t, const struct dirty_row *change)
{
	struct dirty_row *row = RB_FIND(dirty_rows, &t->dirty.rows, (struct dirty_row *)change);

	if (row != NULL) {
		row->object = change->object;
		row->gone = change->gone;
		return;
	}
	row = memory_zero(1, sizeof *row);
	*row = *change;
	RB_INSERT(dirty_rows, &t->dirty.rows, row);
	t->dirty.n++;
}

static void
changed(struct tree *t, enum row_table table, uint64_t a, uint64_t b, uint64_t c)
{
	changed_of(t, &(struct dirty_row){.table = table, .key = {a, b, c}});
}

void
dirty_node(struct tree *t, const struct node *n)
{
	changed_of(t, &(struct dirty_row){.table = ROWS_nodes, .key = {n->number}, .object = n});
}

void
dirty_node_gone(struct tree *t, uint64_t node)
{
	changed_of(t, &(struct dirty_row){.table = ROWS_nodes, .key = {node}, .gone = true});
}

void
dirty_opener(struct tree *t, uint64_t session, uint64_t opened)
{
	changed(t, ROWS_openers, session, opened, 0);
}

void
dirty_lock(struct tree *t, uint64_t node)
{
	changed(t, ROWS_locks, node, 0, 0);
}

void
dirty_holder(struct tree *t, uint64_t node, uint64_t session, uint64_t owner)
{
	changed(t, ROWS_holders, node, session, owner);
}

void
dirty_session(struct tree *t, const struct session *s)
{
	changed_of(t, &(struct dirty_row){.table = ROWS_sessions, .key = {s->id}, .object = s});
}

void
dirty_session_gone(struct tree *t, uint64_t session)
{
	changed_of(t, &(struct dirty_row){.table = ROWS_sessions, .key = {session}, .gone = true});
}

void
dirty_result(struct tree *t, uint64_t session, const struct cached_reply *k)
{
	changed_of(t, &(struct dirty_row){.table = ROWS_results,
	                                  .key = {session, k->number},
	                                  .object = k});
}

void
dirty_result_gone(struct tree *t, uint64_t session, uint64_t number)
{
	changed_of(t, &(struct dirty_row){.table = ROWS_results,
	                                  .key = {session, number},
	                                  .gone = true});
}

void
dirty_member(struct tree *t, uint8_t id)
{
	changed(t, ROWS_members, id, 0, 0);
}

void
dirty_setting(struct tree *t, uint8_t code)
{
	changed(t, ROWS_settings, code, 0, 0);
}

void
dirty_principal(struct tree *t, uint64_t generation)
{
	changed(t, ROWS_principals, generation, 0, 0);
}

void
dirty_signing_keys(struct tree *t)
{
	changed(t, ROWS_signing_keys, 0, 0, 0);
}

void
dirty_rows_forget(struct tree *t)
{
	struct dirty_row *c;

	while ((c = RB_MIN(dirty_rows, &t->dirty.rows)) != NULL) {
		RB_REMOVE(dirty_rows, &t->dirty.rows, c);
		free(c);
	}
	t->dirty.n = 0;
}

/* ---- one row of each table: false when the object is gone ---- */

#define NUMBER(table, column, value) row->values[COL_##table##_##column].number = (int64_t)(value)
#define BYTES(table, column, value) row->values[COL_##table##_##column].bytes = (value)

static bool
row_of_meta(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	NUMBER(meta, id, of->key[0]);
	NUMBER(meta, applied, t->position.applied);
	NUMBER(meta, origin_round, t->position.origin.round);
	NUMBER(meta, origin_replica, t->position.origin.replica);
	NUMBER(meta, epoch, t->epochs.current);
	NUMBER(meta, settled_epoch, t->epochs.settled);
	NUMBER(meta, next_node, t->nodes.next_number);
	NUMBER(meta, epoch_node, t->epochs.first_number);
	NUMBER(meta, last_fence, t->locks.last_fence);
	NUMBER(meta, digest, t->position.digest);
	NUMBER(meta, bytes, t->nodes.bytes);
	NUMBER(meta, members_version, t->members.version);
	NUMBER(meta, slice, t->slices.behind);
	return true;
}

static bool
row_of_nodes(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct node *n = of->object != NULL ? of->object : node_find(t, of->key[0]);

	if (n == NULL)
		return false;
	NUMBER(nodes, node, n->number);
	NUMBER(nodes, parent, n->parent_number);
	BYTES(nodes, name, n->name);
	NUMBER(nodes, kind, n->kind);
	NUMBER(nodes, ephemeral, n->ephemeral);
	NUMBER(nodes, creator, n->creator == NULL ? 0 : n->creator->id);
	NUMBER(nodes, mtime_ns, n->mtime_ns);
	NUMBER(nodes, ctime_ns, n->ctime_ns);
	NUMBER(nodes, content_generation, n->content_generation);
	NUMBER(nodes, lock_generation, n->lock_generation);
	NUMBER(nodes, acl_generation, n->acl_generation);
	NUMBER(nodes, checksum, n->checksum);
	BYTES(nodes, acl_read, n->acl[ACL_READ]);
	BYTES(nodes, acl_write, n->acl[ACL_WRITE]);
	BYTES(nodes, acl_change, n->acl[ACL_CHANGE]);
	NUMBER(nodes, lock_delay_s, n->lock_delay_s);
	NUMBER(nodes, freed_epoch, n->freed_epoch);
	BYTES(nodes, contents, n->contents);
	return true;
}

static bool
row_of_openers(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct session *s = session_find(t, of->key[0]);
	const struct opener *o = s == NULL ? NULL : opener_find(s, of->key[1]);

	if (o == NULL)
		return false;
	NUMBER(openers, session, of->key[0]);
	NUMBER(openers, opened, of->key[1]);
	NUMBER(openers, node, o->node->number);
	return true;
}

static bool
row_of_locks(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct node *n = node_find(t, of->key[0]);
	const struct lock *l = n == NULL ? NULL : n->lock;

	if (l == NULL)
		return false;
	NUMBER(locks, node, of->key[0]);
	NUMBER(locks, fence, l->fence);
	NUMBER(locks, delay_mode, l->delay.mode);
	if (l->delay.mode == LOCK_NONE)
		return true;
	NUMBER(locks, delay_began, l->delay.began);
	NUMBER(locks, delay_generation, l->delay.generation);
	NUMBER(locks, delay_s, l->delay.seconds);
	return true;
}

static bool
row_of_holders(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct node *n = node_find(t, of->key[0]);
	const struct holder *h = n == NULL ? NULL : holder_find(n->lock, of->key[1], of->key[2]);

	if (h == NULL)
		return false;
	NUMBER(holders, node, of->key[0]);
	NUMBER(holders, session, of->key[1]);
	NUMBER(holders, owner, of->key[2]);
	NUMBER(holders, acquisition, h->acquisition);
	NUMBER(holders, mode, h->mode);
	NUMBER(holders, lock_generation, h->generation);
	NUMBER(holders, fence, h->fence);
	NUMBER(holders, delay_s, h->delay_s);
	NUMBER(holders, earlier_acquisition, h->earlier_acquisition);
	NUMBER(holders, earlier_mode, h->earlier_mode);
	NUMBER(holders, earlier_generation, h->earlier_generation);
	NUMBER(holders, earlier_fence, h->earlier_fence);
	NUMBER(holders, since_ns, h->since_ns);
	NUMBER(holders, pid, h->pid);
	NUMBER(holders, place, h->place);
	return true;
}

static bool
row_of_sessions(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct session *s = of->object != NULL ? of->object : session_find(t, of->key[0]);

	if (s == NULL)
		return false;
	NUMBER(sessions, session, s->id);
	BYTES(sessions, nonce, s->nonce);
	BYTES(sessions, principal, s->principal);
	NUMBER(sessions, principal_generation, s->principal_generation);
	BYTES(sessions, host, s->host);
	NUMBER(sessions, awaited, s->awaited);
	NUMBER(sessions, lasting, s->lasting);
	NUMBER(sessions, below, s->below);
	NUMBER(sessions, ending, s->ending);
	return true;
}

static bool
row_of_results(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct cached_reply *k = of->object;
	const struct session *s = k != NULL ? NULL : session_find(t, of->key[0]);

	if (s != NULL)
		k = reply_cache_find(s, of->key[1]);
	if (k == NULL)
		return false;
	NUMBER(results, session, of->key[0]);
	NUMBER(results, number, k->number);
	NUMBER(results, op, k->op);
	NUMBER(results, rc, k->rc);
	BYTES(results, result, k->result);
	return true;
}

static bool
row_of_members(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct member_row *s = member_row_find(t, (uint8_t)of->key[0]);

	if (s == NULL)
		return false;
	NUMBER(members, id, s->member.id);
	NUMBER(members, role, s->member.role);
	BYTES(members, address, s->member.address);
	BYTES(members, public_key, s->member.key);
	NUMBER(members, since, s->since);
	return true;
}

static bool
row_of_settings(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct setting_info *info = setting_info(of->key[0]);

	if (info == NULL)
		return false;
	NUMBER(settings, setting, of->key[0]);
	BYTES(settings, name, bytes_of(info->name));
	NUMBER(settings, value, t->settings.in_force.value[of->key[0]]);
	NUMBER(settings, longest, t->settings.lowered[of->key[0]].longest);
	NUMBER(settings, since, t->settings.lowered[of->key[0]].since);
	return true;
}

static bool
row_of_principals(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct principal *p = principal_find(t, of->key[0]);

	if (p == NULL)
		return false;
	NUMBER(principals, generation, p->generation);
	BYTES(principals, name, p->name);
	BYTES(principals, public_key, p->key);
	return true;
}

static bool
row_of_signing_keys(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	const struct bytes keys = tree_signing_keys(t);

	if (keys.len == 0)
		return false;
	NUMBER(signing_keys, id, of->key[0]);
	NUMBER(signing_keys, since, t->signing.since);
	BYTES(signing_keys, newest, ((struct bytes){keys.data, SIGNING_KEY}));
	BYTES(signing_keys, former, ((struct bytes){keys.data + SIGNING_KEY, SIGNING_KEY}));
	return true;
}

static bool (*const row_of[ROW_TABLES])(const struct tree *, const struct dirty_row *,
                                        struct row *) = {
#define X(name, keys) row_of_##name,
    ROWS_TABLES(X)
#undef X
};

static bool
show(const struct tree *t, const struct dirty_row *of, struct row *row)
{
	*row = (struct row){.table = of->table};
	return !of->gone && row_of[of->table](t, of, row);
}

bool
dirty_rows_show(const struct tree *t, enum row_table table, const uint64_t key[3], struct row *row)
{
	const struct dirty_row of = {.table = table, .key = {key[0], key[1], key[2]}};

	return show(t, &of, row);
}

static const int keys_of[ROW_TABLES] = {
#define X(name, keys) keys,
    ROWS_TABLES(X)
#undef X
};

void
tree_dirty_rows(struct tree *t, struct row_list *to)
{
	const size_t first = to->n;
	struct dirty_row *c;

	if (t->dirty.saved == t->position.applied)
		return;
	changed(t, ROWS_meta, 0, 0, 0);
	RB_FOREACH(c, dirty_rows, &t->dirty.rows) {
		/* The row, as a view of the state. */
		struct row *row;

		ARRAY_ROOM(to->rows, to->n, to->room);
		row = &to->rows[to->n++];
		row->deleted = !show(t, c, row);
		for (int i = 0; row->deleted && i < keys_of[c->table]; i++)
			row->values[i].number = (int64_t)c->key[i];
	}
	dirty_rows_forget(t);
	t->dirty.saved = t->position.applied;
	row_list_own(to, first);
}
