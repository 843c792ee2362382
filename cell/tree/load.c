/* Rows that come from a disk are checked like messages that come from outside. Rows that refer to
 * others wait until all are there. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/tree/internal.h"

#define NUMBER(table, column) ((uint64_t)row->values[COL_##table##_##column].number)
#define SIGNED(table, column) (row->values[COL_##table##_##column].number)
#define BYTES(table, column) (row->values[COL_##table##_##column].bytes)

/* Stores the values of a row's columns that need no check. */
#define SET_i(place) place = (__typeof__(place))v->number;
#define SET_b(place) place = bytes_copy(v->bytes);
#define SET_t(place) SET_b(place)
#define LOAD_SET(kind, place) SET_##kind(place)
#define LOAD_BY(kind, place)
#define LOAD(kind, column, place, load) LOAD_##load(kind, place) v++;
#define LOAD_ROW(table)                                  \
	do {                                             \
		const struct row_value *v = row->values; \
                                                         \
		ROWS_##table(LOAD)                       \
	} while (0)

/* ---- rows that stand alone ---- */

static bool
load_meta(struct tree *t, const struct row *row)
{
	if (t->loading.meta || NUMBER(meta, id) != 0 || NUMBER(meta, next_node) < NODE_ROOT ||
	    NUMBER(meta, origin_replica) > UINT8_MAX)
		return false;
	t->loading.meta = true;
	LOAD_ROW(meta);
	t->dirty.saved = t->position.applied;
	t->loading.bytes = NUMBER(meta, bytes);
	return true;
}

static bool
node_row_sound(const struct row *row)
{
	bool root = NUMBER(nodes, node) == NODE_ROOT, file = NUMBER(nodes, kind) == NODE_FILE;

	return NUMBER(nodes, node) >= NODE_ROOT && root == (NUMBER(nodes, parent) == 0) &&
	       (root ? BYTES(nodes, name).len == 0 : name_valid(BYTES(nodes, name))) &&
	       (file || NUMBER(nodes, kind) == NODE_DIRECTORY) && NUMBER(nodes, ephemeral) <= 1 &&
	       BYTES(nodes, contents).len <= (file ? LIMIT_CONTENTS : 0) &&
	       NUMBER(nodes, checksum) == (file ? checksum(BYTES(nodes, contents)) : 0) &&
	       SIGNED(nodes, lock_delay_s) >= -1 &&
	       SIGNED(nodes, lock_delay_s) <= LIMIT_LOCK_DELAY_S &&
	       NUMBER(nodes, lock_slots) <= LIMIT_SLOTS &&
	       NUMBER(nodes, ttl_s) <= (file ? LIMIT_TTL_S : 0) &&
	       (NUMBER(nodes, ttl_s) > 0) == (NUMBER(nodes, ttl_began) > 0) &&
	       NUMBER(nodes, quota_nodes) <= (file ? 0 : quota_highest(QUOTA_NODES)) &&
	       NUMBER(nodes, quota_bytes) <= (file ? 0 : quota_highest(QUOTA_BYTES)) &&
	       name_valid(BYTES(nodes, acl_read)) && name_valid(BYTES(nodes, acl_write)) &&
	       name_valid(BYTES(nodes, acl_change));
}

static bool
load_node(struct tree *t, const struct row *row)
{
	struct node *n;

	if (!node_row_sound(row))
		return false;
	n = memory_zero(1, sizeof *n);
	LOAD_ROW(nodes);
	if (node_link(t, n))
		return true;
	node_free(n);
	return false;
}

static bool
load_session(struct tree *t, const struct row *row)
{
	struct tree_session from = {
	    .id = NUMBER(sessions, session),
	    .nonce = BYTES(sessions, nonce),
	    .principal = BYTES(sessions, principal),
	    .principal_generation = NUMBER(sessions, principal_generation),
	    .host = BYTES(sessions, host),
	    .awaited = NUMBER(sessions, awaited) != 0,
	    .lasting = NUMBER(sessions, lasting) != 0,
	    .ending = (enum end_cause)NUMBER(sessions, ending),
	};

	if (from.nonce.len == 0 || from.nonce.len > LIMIT_NONCE || NUMBER(sessions, awaited) > 1 ||
	    NUMBER(sessions, lasting) > 1 || NUMBER(sessions, ending) > SESSION_DESTROYED ||
	    from.principal.len > LIMIT_PRINCIPAL || from.host.len > LIMIT_HOST)
		return false;
	if (session_find(t, from.id) != NULL ||
	    (from.ending == 0 && session_by_nonce(t, from.nonce) != NULL))
		return false;
	session_add(t, &from)->below = NUMBER(sessions, below);
	return true;
}

static bool
load_member(struct tree *t, const struct row *row)
{
	struct member m = {
	    .id = (uint8_t)NUMBER(members, id),
	    .role = (uint8_t)NUMBER(members, role),
	    .address = BYTES(members, address),
	    .key = BYTES(members, public_key),
	};

	if (NUMBER(members, id) > LIMIT_REPLICA_ID || NUMBER(members, role) > MEMBER_REMOVED ||
	    !member_table_sound(&m) || member_row_find(t, m.id) != NULL)
		return false;
	member_row_add(t, &m, NUMBER(members, since));
	return true;
}

static bool
load_setting(struct tree *t, const struct row *row)
{
	const uint64_t code = NUMBER(settings, setting);
	const struct setting_info *info = setting_info(code);

	/* A later program has written the row: the replica applies nothing, and says why. The rows
	 * come in the order of their codes, that of the minor version before such a one. */
	if (code >= SETTING_CODES && t->settings.in_force.value[SETTING_minor_version] > WIRE_MINOR)
		return true;
	if (info == NULL || !bytes_equal(BYTES(settings, name), bytes_of(info->name)) ||
	    NUMBER(settings, longest) > info->highest)
		return false;
	LOAD_ROW(settings);
	return true;
}

static bool
load_principal(struct tree *t, const struct row *row)
{
	const struct bytes name = BYTES(principals, name), key = BYTES(principals, public_key);
	const uint64_t generation = NUMBER(principals, generation);

	if (generation == 0 || !principal_sound(name, key) ||
	    principal_find(t, generation) != NULL || principal_named(t, name) != NULL ||
	    principal_of_key(t, key) != NULL)
		return false;
	principal_add(t, generation, name, key);
	return true;
}

static bool
load_signing_keys(struct tree *t, const struct row *row)
{
	return NUMBER(signing_keys, id) == 0 &&
	       signing_load(t, NUMBER(signing_keys, since), BYTES(signing_keys, newest),
	                    BYTES(signing_keys, former));
}

static bool
load_change(struct tree *t, const struct row *row)
{
	const struct change_history *h = &t->history;
	const bool deletion = NUMBER(changes, kind) == CHANGE_DELETED;
	const uint64_t last = h->last;
	struct change before, loaded, *c = &loaded;

	if (NUMBER(changes, number) == 0 || NUMBER(changes, kind) < CHANGE_CREATED ||
	    NUMBER(changes, kind) > CHANGE_LOCK || BYTES(changes, path).len > LIMIT_PATH ||
	    (BYTES(changes, path).len > 0) != deletion ||
	    (NUMBER(changes, parent) != 0) != deletion ||
	    (deletion ? !name_valid(BYTES(changes, acl_read)) : BYTES(changes, acl_read).len > 0))
		return false;
	if (h->n > 0 && !(NUMBER(changes, number) == h->first + h->n &&
	                  change_at(t, NUMBER(changes, number) - 1, &before) &&
	                  NUMBER(changes, log_index) >= before.index))
		return false;
	if (deletion && change_deletion(t, NUMBER(changes, node)) != NULL)
		return false;
	LOAD_ROW(changes);
	change_add(t, c);
	t->history.last = last; /* as meta counts */
	return true;
}

/* ---- rows that refer to nodes and sessions ---- */

static bool
link_opener(struct tree *t, const struct row *row)
{
	struct node *n = node_find(t, NUMBER(openers, node));
	struct session *s = session_find(t, NUMBER(openers, session));

	if (n == NULL || s == NULL || n->kind != NODE_FILE || !n->ephemeral ||
	    opener_find(s, NUMBER(openers, opened)) != NULL)
		return false;
	opener_new(t, n, s, NUMBER(openers, opened));
	return true;
}

static bool
link_lock(struct tree *t, const struct row *row)
{
	struct node *n = node_find(t, NUMBER(locks, node));
	struct lock *l;

	if (n == NULL || n->lock != NULL || NUMBER(locks, delay_mode) > LOCK_EXCLUSIVE)
		return false;
	l = lock_of(t, n);
	LOAD_ROW(locks);
	lock_delay_set(t, l,
	               (struct lock_delay){.mode = (enum lock_mode)NUMBER(locks, delay_mode),
	                                   .began = NUMBER(locks, delay_began),
	                                   .generation = NUMBER(locks, delay_generation),
	                                   .seconds = SIGNED(locks, delay_s),
	                                   .slots = NUMBER(locks, delay_slots)});
	return true;
}

static bool
holder_row_sound(const struct row *row)
{
	return NUMBER(holders, mode) >= LOCK_SHARED && NUMBER(holders, mode) <= LOCK_EXCLUSIVE &&
	       NUMBER(holders, earlier_mode) <= LOCK_EXCLUSIVE && SIGNED(holders, delay_s) >= 0 &&
	       SIGNED(holders, delay_s) <= LIMIT_LOCK_DELAY_S && SIGNED(holders, slot) >= -1 &&
	       SIGNED(holders, slot) < LIMIT_SLOTS && NUMBER(holders, pid) <= UINT32_MAX;
}

static bool
link_holder(struct tree *t, const struct row *row)
{
	struct node *n = node_find(t, NUMBER(holders, node));
	struct session *s = session_find(t, NUMBER(holders, session));
	struct holder *h;

	if (!holder_row_sound(row) || n == NULL || s == NULL || n->lock == NULL ||
	    holder_find(n->lock, s->id, NUMBER(holders, owner)) != NULL)
		return false;
	h = holder_add(t, n->lock, s, NUMBER(holders, owner), NUMBER(holders, place));
	LOAD_ROW(holders);
	holder_set_slot(h, (int)SIGNED(holders, slot));
	holder_set_delay(h, SIGNED(holders, delay_s));
	return true;
}

/* A replica has encoded the result, for the operation that the row names: it decodes as such. */
static bool
result_row_sound(const struct row *row)
{
	struct bytes result = BYTES(results, result);
	uint64_t op = NUMBER(results, op);
	struct result decoded;

	return op <= UINT8_MAX && wire_op((unsigned)op) != NULL &&
	       NUMBER(results, rc) <= UINT8_MAX && NUMBER(results, number) != 0 &&
	       wire_get_result(wire_answer_kind((enum op_code)op, (enum rc)NUMBER(results, rc)),
	                       result, &decoded) == RC_OK;
}

static bool
link_result(struct tree *t, const struct row *row)
{
	struct session *s = session_find(t, NUMBER(results, session));
	const struct cached_reply kept = {
	    .number = NUMBER(results, number),
	    .op = (enum op_code)NUMBER(results, op),
	    .rc = (enum rc)NUMBER(results, rc),
	    .index = NUMBER(results, log_index),
	    .result = BYTES(results, result),
	};

	if (s == NULL || !result_row_sound(row) || reply_cache_find(s, kept.number) != NULL)
		return false;
	reply_cache_keep(t, s, &kept);
	return true;
}

/* Creators are named in the rows of nodes; these wait as rows of their own kind do. */
static bool
link_creator(struct tree *t, const struct row *row)
{
	struct node *n = node_find(t, NUMBER(nodes, node));
	struct session *s = session_find(t, NUMBER(nodes, creator));

	if (n == NULL || s == NULL || n->kind != NODE_DIRECTORY || !n->ephemeral ||
	    n->children_n > 0)
		return false;
	creator_set(t, n, s);
	return true;
}

/* ---- the two calls ---- */

/* How the rows of each table are loaded, at once, or linked, when all are there. A node's row is
 * loaded at once and, if it has a creator, linked as well. */
static const struct {
	bool (*load)(struct tree *t, const struct row *row);
	bool (*link)(struct tree *t, const struct row *row);
} tables[ROW_TABLES] = {
    [ROWS_meta] = {.load = load_meta},
    [ROWS_sessions] = {.load = load_session},
    [ROWS_members] = {.load = load_member},
    [ROWS_settings] = {.load = load_setting},
    [ROWS_principals] = {.load = load_principal},
    [ROWS_signing_keys] = {.load = load_signing_keys},
    [ROWS_changes] = {.load = load_change},
    [ROWS_nodes] = {load_node, link_creator},
    [ROWS_openers] = {.link = link_opener},
    [ROWS_locks] = {.link = link_lock},
    [ROWS_holders] = {.link = link_holder},
    [ROWS_results] = {.link = link_result},
};

enum rc
tree_load_row(struct tree *t, const struct row *row)
{
	if (row->deleted || (tables[row->table].load != NULL && !tables[row->table].load(t, row)))
		return RC_CORRUPT;
	if (tables[row->table].link != NULL &&
	    (row->table != ROWS_nodes || NUMBER(nodes, creator) != 0))
		row_list_add(&t->loading.rows, row);
	return RC_OK;
}

static enum rc __attribute__((format(printf, 3, 4)))
corrupt(char *why, size_t why_size, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, why_size, format, arguments);
	va_end(arguments);
	return RC_CORRUPT;
}

static enum rc
link_children(struct tree *t, char *why, size_t why_size)
{
	struct node *n;

	RB_FOREACH(n, nodes, &t->nodes.by_number) {
		if (n->number == NODE_ROOT)
			continue;
		n->parent = node_find(t, n->parent_number);
		if (n->parent == NULL || n->parent->kind != NODE_DIRECTORY)
			return corrupt(why, why_size, "node %llu has no parent directory",
			               (unsigned long long)n->number);
		if (RB_INSERT(children, &n->parent->children, n) != NULL)
			return corrupt(why, why_size, "directory %llu has a name twice",
			               (unsigned long long)n->parent_number);
		n->parent->children_n++;
	}
	if (!quota_count_all(t))
		return corrupt(why, why_size, "a node is not below the root");
	return RC_OK;
}

/* Locks are linked before their holders: the tables are in that order. */
static enum rc
link_rows(struct tree *t, char *why, size_t why_size)
{
	for (enum row_table table = 0; table < ROW_TABLES; table++) {
		for (size_t i = 0; i < t->loading.rows.n; i++) {
			const struct row *row = &t->loading.rows.rows[i];

			if (row->table == table && !tables[table].link(t, row))
				return corrupt(why, why_size, "%s: the row of %lld makes no sense",
				               row_table_info(table)->name,
				               (long long)row->values[0].number);
		}
	}
	return RC_OK;
}

enum rc
tree_load_done(struct tree *t, char *why, size_t why_size)
{
	const char *broken;
	enum rc rc;

	if (!t->loading.meta && t->counts.nodes == 0 && t->sessions.n == 0 && t->members.n == 0 &&
	    t->principals.n == 0 && t->signing.since == 0 && t->loading.rows.n == 0 &&
	    t->history.n == 0)
		return RC_OK;
	if (!t->loading.meta)
		return corrupt(why, why_size, "the row of meta is missing");
	if ((rc = link_children(t, why, why_size)) != RC_OK ||
	    (rc = link_rows(t, why, why_size)) != RC_OK)
		return rc;
	row_list_free(&t->loading.rows);
	dirty_rows_forget(t);
	removed_begin(t);
	if (t->counts.bytes != t->loading.bytes)
		return corrupt(why, why_size, "meta counts %llu bytes, the nodes have %llu",
		               (unsigned long long)t->loading.bytes,
		               (unsigned long long)t->counts.bytes);
	if ((broken = tree_check(t)) != NULL)
		return corrupt(why, why_size, "%s", broken);
	return RC_OK;
}
