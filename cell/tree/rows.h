/* The rows of state.db, in which a tree is stored. Tables and columns are named for people who open
 * the file with sqlite3. C(kind, name, place, load): `i` a 64-bit number, `b` a blob, `t` a text;
 * the place of it in the state, as the functions name it that store and load a row (dirty_rows.c,
 * load.c); SET: loading sets that place, BY: it is loaded by code. The first `keys` columns are the
 * primary key. The store adds a checksum column to each row. */
#ifndef LSFS_TREE_ROWS_H
#define LSFS_TREE_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include "cell/base/bytes.h"

/* clang-format off */
#define ROWS_meta(C) /* one row, id 0 */                                                      \
	C(i, id, of->key[0], BY) C(i, applied, t->position.applied, SET)                      \
	C(i, origin_round, t->position.origin.round, SET)                                     \
	C(i, origin_replica, t->position.origin.replica, SET)                                 \
	C(i, epoch, t->epochs.current, SET) C(i, settled_epoch, t->epochs.settled, SET)       \
	C(i, next_node, t->nodes.next_number, SET)                                            \
	C(i, epoch_node, t->epochs.first_number, SET)                                         \
	C(i, last_fence, t->locks.last_fence, SET) C(i, digest, t->position.digest, SET)      \
	C(i, bytes, t->counts.bytes, BY) C(i, members_version, t->members.version, SET)        \
	C(i, slice, t->slices.behind, SET) C(i, compacted, t->history.compacted, SET)         \
	C(i, last_change, t->history.last, SET)
#define ROWS_nodes(C)                                                                         \
	C(i, node, n->number, SET) C(i, parent, n->parent_number, SET)                        \
	C(t, name, n->name, SET) C(i, kind, n->kind, SET) C(i, ephemeral, n->ephemeral, SET)  \
	C(i, creator, n->creator == NULL ? 0 : n->creator->id, BY)                            \
	C(i, mtime_ns, n->mtime_ns, SET) C(i, ctime_ns, n->ctime_ns, SET)                     \
	C(i, content_generation, n->content_generation, SET)                                  \
	C(i, lock_generation, n->lock_generation, SET)                                        \
	C(i, acl_generation, n->acl_generation, SET) C(i, checksum, n->checksum, SET)         \
	C(t, acl_read, n->acl[ACL_READ], SET) C(t, acl_write, n->acl[ACL_WRITE], SET)         \
	C(t, acl_change, n->acl[ACL_CHANGE], SET) C(i, lock_delay_s, n->lock_delay_s, SET)    \
	C(i, lock_slots, n->lock_slots, SET) C(i, freed_epoch, n->freed_epoch, SET)           \
	C(b, contents, n->contents, SET) C(i, ttl_s, n->ttl_s, SET)                           \
	C(i, ttl_began, n->ttl_began, SET)                                                    \
	C(i, quota_nodes, n->budget[QUOTA_NODES], SET)                                        \
	C(i, quota_bytes, n->budget[QUOTA_BYTES], SET)
#define ROWS_openers(C) /* `opened`: the number of `node`, or of a file renamed to it */      \
	C(i, session, of->key[0], BY) C(i, opened, of->key[1], BY)                            \
	C(i, node, o->node->number, BY)
#define ROWS_locks(C) /* a node's lock while it is held or delayed */                         \
	C(i, node, of->key[0], BY) C(i, fence, l->fence, SET)                                 \
	C(i, delay_began, delay.began, BY) C(i, delay_generation, delay.generation, BY)       \
	C(i, delay_s, delay.seconds, BY) C(i, delay_mode, delay.mode, BY)                      \
	C(i, delay_slots, delay.slots, BY)
#define ROWS_holders(C)                                                                       \
	C(i, node, of->key[0], BY) C(i, session, of->key[1], BY) C(i, owner, of->key[2], BY)  \
	C(i, acquisition, h->acquisition, SET) C(i, mode, h->mode, SET)                       \
	C(i, lock_generation, h->generation, SET) C(i, fence, h->fence, SET)                  \
	C(i, delay_s, h->delay_s, BY) C(i, earlier_acquisition, h->earlier_acquisition, SET)  \
	C(i, earlier_mode, h->earlier_mode, SET)                                              \
	C(i, earlier_generation, h->earlier_generation, SET)                                  \
	C(i, earlier_fence, h->earlier_fence, SET) C(i, since_ns, h->since_ns, SET)           \
	C(i, pid, h->pid, SET) C(i, place, h->place, BY) C(i, slot, h->slot, BY)
#define ROWS_sessions(C)                                                                      \
	C(i, session, s->id, BY) C(b, nonce, s->nonce, BY) C(t, principal, s->principal, BY)  \
	C(i, principal_generation, s->principal_generation, BY) C(t, host, s->host, BY)       \
	C(i, awaited, s->awaited, BY) C(i, lasting, s->lasting, BY)                           \
	C(i, below, s->below, BY) C(i, ending, s->ending, BY)
#define ROWS_results(C)                                                                       \
	C(i, session, of->key[0], BY) C(i, number, k->number, BY) C(i, op, k->op, BY)         \
	C(i, rc, k->rc, BY) C(b, result, k->result, BY) C(i, log_index, k->index, BY)
#define ROWS_members(C) /* `since`: log index of the list that gave it its role */            \
	C(i, id, s->member.id, BY) C(i, role, s->member.role, BY)                             \
	C(t, address, s->member.address, BY) C(b, public_key, s->member.key, BY)              \
	C(i, since, s->since, BY)
#define ROWS_settings(C) /* `longest`: may still be promised; `since`: index of the lowering */ \
	C(i, setting, code, BY) C(t, name, bytes_of(info->name), BY)                          \
	C(i, value, t->settings.in_force.value[code], SET)                                    \
	C(i, longest, t->settings.lowered[code].longest, SET)                                 \
	C(i, since, t->settings.lowered[code].since, SET)
#define ROWS_principals(C)                                                                    \
	C(i, generation, p->generation, BY) C(t, name, p->name, BY)                           \
	C(b, public_key, p->key, BY)
#define ROWS_signing_keys(C) /* one row, id 0, after a rotation: `since` its log index */     \
	C(i, id, of->key[0], BY) C(i, since, t->signing.since, BY)                            \
	C(b, newest, newest, BY) C(b, former, former, BY)

#define ROWS_changes(C) /* the history; of a deleted node `path`, `acl_read` and `parent` */  \
	C(i, number, c->number, SET) C(i, log_index, c->index, SET)                           \
	C(i, stamp_ns, c->stamp_ns, SET) C(i, kind, c->kind, SET) C(i, node, c->node, SET)    \
	C(i, generation, c->generation, SET) C(t, path, c->path, SET)                         \
	C(t, acl_read, c->acl_read, SET) C(i, parent, c->parent, SET)

/* T(name, key columns) */
#define ROWS_TABLES(T)                                                                        \
	T(meta, 1) T(nodes, 1) T(openers, 2) T(locks, 1) T(holders, 3) T(sessions, 1)             \
	T(results, 2) T(members, 1) T(settings, 1) T(principals, 1)              \
	T(signing_keys, 1) T(changes, 1)
/* clang-format on */

enum row_table {
#define X(name, keys) ROWS_##name,
	ROWS_TABLES(X)
#undef X
	    ROW_TABLES
};

/* Column positions: COL_nodes_parent and so on. */
#define ROW_TABLE_COLUMNS(name, keys) enum { ROWS_##name(ROW_COLUMN_##name) COLS_##name };
#define ROW_COLUMN_meta(kind, name, ...) COL_meta_##name,
#define ROW_COLUMN_nodes(kind, name, ...) COL_nodes_##name,
#define ROW_COLUMN_openers(kind, name, ...) COL_openers_##name,
#define ROW_COLUMN_locks(kind, name, ...) COL_locks_##name,
#define ROW_COLUMN_holders(kind, name, ...) COL_holders_##name,
#define ROW_COLUMN_sessions(kind, name, ...) COL_sessions_##name,
#define ROW_COLUMN_results(kind, name, ...) COL_results_##name,
#define ROW_COLUMN_members(kind, name, ...) COL_members_##name,
#define ROW_COLUMN_settings(kind, name, ...) COL_settings_##name,
#define ROW_COLUMN_principals(kind, name, ...) COL_principals_##name,
#define ROW_COLUMN_signing_keys(kind, name, ...) COL_signing_keys_##name,
#define ROW_COLUMN_changes(kind, name, ...) COL_changes_##name,
ROWS_TABLES(ROW_TABLE_COLUMNS)
#undef ROW_TABLE_COLUMNS

enum { ROW_COLUMNS_MAX = 23 };

struct row_value {
	int64_t number;     /* kind i; counters above INT64_MAX keep their bit pattern */
	struct bytes bytes; /* kinds b and t */
};

struct row {
	enum row_table table;
	bool deleted; /* only the key columns count */
	struct row_value values[ROW_COLUMNS_MAX];
};

/* Rows with the bytes that they point to; owns both. */
struct row_list {
	struct row *rows;
	size_t n, room;
	size_t bytes; /* in their columns of bytes */
};

struct row_table_info {
	const char *name;
	int keys, columns;
	struct {
		char kind;
		const char *name;
	} column[ROW_COLUMNS_MAX];
};

/* The name and the columns of a table. */
const struct row_table_info *row_table_info(enum row_table table);
/* Appends a copy of `row`, its bytes included. */
void row_list_add(struct row_list *list, const struct row *row);
/* Copies the bytes of all rows from the number `first` on, which are views so far. */
void row_list_own(struct row_list *list, size_t first);
/* Frees the rows with their bytes, and clears the list. */
void row_list_free(struct row_list *list);
/* A checksum over the columns of the row, in order, up to the last one that is not 0 or empty: so a
 * column that a later level adds at the end does not count before that level is in force. */
uint64_t row_checksum(const struct row *row);

#endif
