/* The rows of state.db, in which a tree is stored. Tables and columns are named for people who open
 * the file with sqlite3. C(kind, name): `i` a 64-bit number, `b` a blob, `t`
 * a text. The first `keys` columns are the primary key. The store adds a checksum column to each
 * row. */
#ifndef LSFS_TREE_ROWS_H
#define LSFS_TREE_ROWS_H

#include <stdbool.h>
#include <stdint.h>
#include "cell/base/bytes.h"

/* clang-format off */
#define ROWS_meta(C) /* one row, id 0 */                                                      \
	C(i, id) C(i, applied) C(i, origin_round) C(i, origin_replica) C(i, epoch)                \
	C(i, settled_epoch) C(i, next_node) C(i, epoch_node) C(i, last_fence) C(i, digest)        \
	C(i, bytes) C(i, members_version) C(i, slice)
#define ROWS_nodes(C)                                                                         \
	C(i, node) C(i, parent) C(t, name) C(i, kind) C(i, ephemeral) C(i, creator)              \
	C(i, mtime_ns) C(i, ctime_ns)                                                             \
	C(i, content_generation) C(i, lock_generation) C(i, acl_generation) C(i, checksum)        \
	C(t, acl_read) C(t, acl_write) C(t, acl_change) C(i, lock_delay_s) C(i, freed_epoch)     \
	C(b, contents)
#define ROWS_openers(C) /* `opened`: the number of `node`, or of a file renamed to it */          \
	C(i, session) C(i, opened) C(i, node)
#define ROWS_locks(C) /* a node's lock while it is held or delayed */                         \
	C(i, node) C(i, fence) C(i, delay_began) C(i, delay_generation) C(i, delay_s)             \
	C(i, delay_mode)
#define ROWS_holders(C)                                                                       \
	C(i, node) C(i, session) C(i, owner) C(i, acquisition) C(i, mode) C(i, lock_generation)   \
	C(i, fence) C(i, delay_s) C(i, earlier_acquisition) C(i, earlier_mode)                    \
	C(i, earlier_generation) C(i, earlier_fence) C(i, since_ns) C(i, pid) C(i, place)
#define ROWS_sessions(C)                                                                      \
	C(i, session) C(b, nonce) C(t, principal) C(i, principal_generation) C(t, host)           \
	C(i, awaited) C(i, lasting) C(i, below) C(i, ending)
#define ROWS_results(C) C(i, session) C(i, number) C(i, op) C(i, rc) C(b, result)
#define ROWS_members(C) /* `since`: log index of the list that gave it its role */            \
	C(i, id) C(i, role) C(t, address) C(b, public_key) C(i, since)
#define ROWS_settings(C) /* `longest`: may still be promised; `since`: index of the lowering */ \
	C(i, setting) C(t, name) C(i, value) C(i, longest) C(i, since)
#define ROWS_principals(C) C(i, generation) C(t, name) C(b, public_key)
#define ROWS_signing_keys(C) /* one row, id 0, after a rotation: `since` its log index */     \
	C(i, id) C(i, since) C(b, newest) C(b, former)

/* T(name, key columns) */
#define ROWS_TABLES(T)                                                                        \
	T(meta, 1) T(nodes, 1) T(openers, 2) T(locks, 1) T(holders, 3) T(sessions, 1)             \
	T(results, 2) T(members, 1) T(settings, 1) T(principals, 1)              \
	T(signing_keys, 1)
/* clang-format on */

enum row_table {
#define X(name, keys) ROWS_##name,
	ROWS_TABLES(X)
#undef X
	    ROW_TABLES
};

/* Column positions: COL_nodes_parent and so on. */
#define ROW_TABLE_COLUMNS(name, keys) enum { ROWS_##name(ROW_COLUMN_##name) COLS_##name };
#define ROW_COLUMN_meta(kind, name) COL_meta_##name,
#define ROW_COLUMN_nodes(kind, name) COL_nodes_##name,
#define ROW_COLUMN_openers(kind, name) COL_openers_##name,
#define ROW_COLUMN_locks(kind, name) COL_locks_##name,
#define ROW_COLUMN_holders(kind, name) COL_holders_##name,
#define ROW_COLUMN_sessions(kind, name) COL_sessions_##name,
#define ROW_COLUMN_results(kind, name) COL_results_##name,
#define ROW_COLUMN_members(kind, name) COL_members_##name,
#define ROW_COLUMN_settings(kind, name) COL_settings_##name,
#define ROW_COLUMN_principals(kind, name) COL_principals_##name,
#define ROW_COLUMN_signing_keys(kind, name) COL_signing_keys_##name,
ROWS_TABLES(ROW_TABLE_COLUMNS)
#undef ROW_TABLE_COLUMNS

enum { ROW_COLUMNS_MAX = 18 };

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
/* A checksum over all columns of the row, in order. */
uint64_t row_checksum(const struct row *row);

#endif
