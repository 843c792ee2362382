#include "cell/store/state_db.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/store/swap_in.h"

enum { SQL_MAX = 4096 };

static const struct sqlite_kind kind = {.name = STATE_DB_FILE,
                                        .application_id = 0x6c737374,
                                        .format = 3};

/* The keys of all tables must be numbers: rows are sorted and compared by them. */
static void
check_info(const struct row_table_info *info)
{
	must(info->columns <= ROW_COLUMNS_MAX && info->keys >= 1 && info->keys <= info->columns);
	for (int i = 0; i < info->keys; i++)
		must(info->column[i].kind == 'i');
}

/* The declaration of a column. Its default is the value that one of a later level has at first:
 * programs of the level before go on writing rows without it. */
static void
print_column(struct buffer *sql, const struct row_table_info *info, int i)
{
	const char kind_of = info->column[i].kind;

	buffer_printf(sql, "%s %s NOT NULL DEFAULT %s", info->column[i].name,
	              kind_of == 'i'   ? "INTEGER"
	              : kind_of == 't' ? "TEXT"
	                               : "BLOB",
	              kind_of == 'i'   ? "0"
	              : kind_of == 't' ? "''"
	                               : "x''");
}

static void
print_schema(struct buffer *sql, const char *cell)
{
	char *insert = sqlite3_mprintf("INSERT INTO cell VALUES (0, %Q, %lld)", cell,
	                               (long long)checksum(bytes_of(cell)));

	must(insert != NULL);
	buffer_printf(sql,
	              "CREATE TABLE cell (id INTEGER PRIMARY KEY CHECK (id = 0),"
	              " name TEXT NOT NULL, checksum INTEGER NOT NULL) STRICT; %s",
	              insert);
	sqlite3_free(insert);
	for (int t = 0; t < ROW_TABLES; t++) {
		const struct row_table_info *info = row_table_info((enum row_table)t);

		check_info(info);
		buffer_printf(sql, "; CREATE TABLE %s (", info->name);
		for (int i = 0; i < info->columns; i++) {
			print_column(sql, info, i);
			buffer_printf(sql, ", ");
		}
		buffer_printf(sql, "row_checksum INTEGER NOT NULL, PRIMARY KEY (");
		for (int i = 0; i < info->keys; i++)
			buffer_printf(sql, "%s%s", i > 0 ? ", " : "", info->column[i].name);
		/* A key of one number is the rowid. */
		buffer_printf(sql, ")) STRICT%s", info->keys > 1 ? ", WITHOUT ROWID" : "");
	}
	buffer_put_u8(sql, 0);
}

/* ---- reading ---- */

static bool
damaged_row(struct state_db *state, const struct row *row, const char *what, char *why,
            size_t why_size)
{
	const struct row_table_info *info = row_table_info(row->table);
	char keys[ROW_COLUMNS_MAX * 22] = "";
	size_t len = 0;

	for (int i = 0; i < info->keys; i++)
		len += (size_t)snprintf(keys + len, sizeof keys - len, "%s%" PRId64,
		                        i > 0 ? "," : "", row->values[i].number);
	return sqlite_damaged(&state->db, why, why_size, "%s row %s: %s", info->name, keys, what);
}

/* Reads a row of row->table, whose checksum comes last. The statement owns its bytes. */
static bool
read_row(sqlite3_stmt *s, struct row *row)
{
	const struct row_table_info *info = row_table_info(row->table);

	for (int i = 0; i < info->columns; i++) {
		if (info->column[i].kind == 'i') {
			row->values[i].number = sqlite3_column_int64(s, i);
		} else {
			const void *data = sqlite3_column_blob(s, i);

			row->values[i].bytes =
			    (struct bytes){data, (size_t)sqlite3_column_bytes(s, i)};
		}
	}
	return (uint64_t)sqlite3_column_int64(s, info->columns) == row_checksum(row);
}

static bool
load_row(struct state_db *state, sqlite3_stmt *s, enum row_table table, struct tree *tree,
         char *why, size_t why_size)
{
	struct row row = {.table = table};

	if (!read_row(s, &row))
		return damaged_row(state, &row, "checksum", why, why_size);
	if (tree_load_row(tree, &row) != RC_OK)
		return damaged_row(state, &row, "not a valid row", why, why_size);
	return true;
}

/* Whether the file has the column: one of an earlier level lacks later ones. */
static bool
has_column(struct state_db *state, const struct row_table_info *info, int i)
{
	char sql[256], why[SQLITE_WHY];
	int64_t n = 1;

	snprintf(sql, sizeof sql, "SELECT count(*) FROM pragma_table_info('%s') WHERE name = '%s'",
	         info->name, info->column[i].name);
	return !sqlite_number(&state->db, sql, &n, why, sizeof why) || n > 0;
}

static bool
load_table(struct state_db *state, enum row_table table, struct tree *tree, char *why,
           size_t why_size)
{
	const struct row_table_info *info = row_table_info(table);
	char sql[SQL_MAX];
	sqlite3_stmt *s;
	int len = snprintf(sql, sizeof sql, "SELECT ");
	bool ok = true;
	int rc;

	check_info(info);
	for (int i = 0; i < info->columns; i++)
		len += snprintf(sql + len, sizeof sql - (size_t)len, "%s, ",
		                has_column(state, info, i)    ? info->column[i].name
		                : info->column[i].kind == 'i' ? "0"
		                                              : "''");
	snprintf(sql + len, sizeof sql - (size_t)len, "row_checksum FROM %s", info->name);
	if (!sqlite_prepare(&state->db, &s, sql, why, why_size))
		return false;
	while ((rc = sqlite3_step(s)) == SQLITE_ROW && ok)
		ok = load_row(state, s, table, tree, why, why_size);
	if (ok && rc != SQLITE_DONE)
		ok = sqlite_error(&state->db, why, why_size);
	sqlite3_finalize(s);
	return ok;
}

static bool
read_cell(struct state_db *state, char *cell, size_t cell_size, char *why, size_t why_size)
{
	const char *name = NULL;
	sqlite3_stmt *s;
	bool ok = true;

	if (!sqlite_prepare(&state->db, &s, "SELECT name, checksum FROM cell", why, why_size))
		return false;
	if (sqlite3_step(s) == SQLITE_ROW)
		name = (const char *)sqlite3_column_text(s, 0);
	if (name == NULL)
		ok = sqlite_damaged(&state->db, why, why_size, "cell: no row");
	else if (checksum(bytes_of(name)) == (uint64_t)sqlite3_column_int64(s, 1))
		snprintf(cell, cell_size, "%s", name);
	else
		ok = sqlite_damaged(&state->db, why, why_size, "cell: checksum");
	sqlite3_finalize(s);
	return ok;
}

/* Rows of a later level would be taken for damaged ones. */
static bool
is_of_later_level(struct state_db *state)
{
	struct row row = {.table = ROWS_settings};
	char sql[128], why[SQLITE_WHY];
	sqlite3_stmt *s;
	bool later;

	snprintf(sql, sizeof sql,
	         "SELECT setting, name, value, longest, since, row_checksum FROM settings"
	         " WHERE setting = %d",
	         SETTING_minor_version);
	if (!sqlite_prepare(&state->db, &s, sql, why, sizeof why))
		return false;
	later = sqlite3_step(s) == SQLITE_ROW && read_row(s, &row) &&
	        row.values[COL_settings_value].number > WIRE_MINOR;
	sqlite3_finalize(s);
	return later;
}

static bool
load_all(struct state_db *state, const char *cell, struct tree *tree, char *why, size_t why_size)
{
	char reason[SQLITE_WHY], name[LIMIT_CELL_NAME + 2];

	if (!read_cell(state, name, sizeof name, why, why_size))
		return false;
	if (strcmp(name, cell) != 0) {
		snprintf(why, why_size, STATE_DB_FILE " belongs to cell %.64s, not to %s", name,
		         cell);
		return false;
	}
	if (is_of_later_level(state)) {
		snprintf(why, why_size,
		         "this program speaks an earlier minor version than the log is written in:"
		         " install a newer version there, and start it again");
		return false;
	}
	for (int t = 0; t < ROW_TABLES; t++) {
		if (!load_table(state, (enum row_table)t, tree, why, why_size))
			return false;
	}
	snprintf(reason, sizeof reason, "its rows do not fit together");
	if (tree_load_done(tree, reason, sizeof reason) == RC_OK)
		return true;
	return sqlite_damaged(&state->db, why, why_size, "%s", reason);
}

bool
state_db_load_copy(const char *directory, const char *name, const char *cell, struct tree **tree,
                   char *why, size_t why_size)
{
	struct sqlite_kind other = kind;
	struct state_db copy = {0};
	bool ok;

	*tree = NULL;
	other.name = name;
	if (!sqlite_open_copy(&copy.db, directory, &other, why, why_size)) {
		sqlite_close(&copy.db, true);
		return false;
	}
	*tree = tree_new(cell);
	ok = copy.db.handle != NULL && load_all(&copy, cell, *tree, why, why_size);
	if (copy.db.handle == NULL)
		snprintf(why, why_size, "%s: there is nothing in it", name);
	if (!ok) {
		tree_free(*tree);
		*tree = NULL;
	}
	sqlite_close(&copy.db, true);
	return ok;
}

/* The applied index in the file of this name, 0 when there is none or it is damaged; false when it
 * can't be read for another reason. */
static bool
read_applied(const char *directory, const char *name, uint64_t *applied)
{
	struct sqlite_kind other = kind;
	char why[SQLITE_WHY];
	const struct wal_extent none = {0, 0};
	struct sqlite_db db;
	int64_t number = 0;
	bool known;

	other.name = name;
	known =
	    sqlite_open(&db, directory, &other, &none, why, sizeof why) &&
	    (db.handle == NULL || sqlite_number(&db, "SELECT coalesce(max(applied), 0) FROM meta",
	                                        &number, why, sizeof why));
	known = known || db.damaged;
	*applied = (uint64_t)number;
	sqlite_close(&db, true);
	return known;
}

/* Where one of them can't be read both stay, and the opening that follows tells the reason. */
int
state_db_swap_in(const char *directory)
{
	uint64_t ours, theirs;

	if (!swap_in_waiting(directory, STATE_DB_FILE) ||
	    !read_applied(directory, STATE_DB_FILE, &ours) ||
	    !read_applied(directory, STATE_DB_FILE SWAP_IN_READY, &theirs))
		return 0;
	if (theirs < ours)
		return swap_in_remove(directory, STATE_DB_FILE SWAP_IN_READY);
	return swap_in(directory, STATE_DB_FILE, false);
}

static bool
has_one_member(struct state_db *state, const char *cell)
{
	struct tree *tree = tree_new(cell);
	struct member m = {.id = 0};
	char why[SQLITE_WHY];
	bool whole = load_table(state, ROWS_members, tree, why, sizeof why);
	int n = 0;

	while (whole && tree_member_after(tree, m.id, &m))
		n += m.role != MEMBER_REMOVED;
	tree_free(tree);
	return n == 1;
}

bool
state_db_open(struct state_db *state, const char *directory, const char *cell, struct tree **tree,
              char *why, size_t why_size)
{
	bool ok;
	int rc;

	*tree = NULL;
	*state = (struct state_db){.watermark_file.fd = -1};
	*tree = NULL;
	rc = watermark_read(directory, WATERMARK_STATE, &state->watermark);
	if (rc < 0 && rc != -EBADMSG) {
		snprintf(why, why_size, "%s/" WATERMARK_FILE ": %s", directory, strerror(-rc));
		return false;
	}
	ok = sqlite_open(&state->db, directory, &kind, &state->watermark.wal, why, why_size);
	if (ok) {
		*tree = tree_new(cell);
		ok = state->db.handle == NULL || load_all(state, cell, *tree, why, why_size);
	}
	if (ok)
		return true;

	state->alone = state->db.damaged && !state->db.mixed && state->db.handle != NULL &&
	               has_one_member(state, cell);
	if (*tree != NULL)
		tree_free(*tree);
	*tree = NULL;
	sqlite_close(&state->db, true);
	return false;
}

bool
state_db_owner(const char *directory, const char *name, char *cell, size_t cell_size, char *why,
               size_t why_size)
{
	struct sqlite_kind other = kind;
	struct state_db copy = {0};
	bool ok;

	cell[0] = '\0';
	other.name = name;
	ok = sqlite_open_copy(&copy.db, directory, &other, why, why_size) &&
	     (copy.db.handle == NULL || read_cell(&copy, cell, cell_size, why, why_size));
	sqlite_close(&copy.db, true);
	return ok;
}

/* ---- writing ---- */

/* Columns that the file of an earlier level lacks. */
static bool
add_columns(struct state_db *state, enum row_table table, char *why, size_t why_size)
{
	const struct row_table_info *info = row_table_info(table);
	bool ok = true;

	for (int i = 0; i < info->columns && ok; i++) {
		struct buffer sql = BUFFER(SQL_MAX);
		sqlite3_stmt *s;

		if (has_column(state, info, i))
			continue;
		buffer_printf(&sql, "ALTER TABLE %s ADD COLUMN ", info->name);
		print_column(&sql, info, i);
		buffer_put_u8(&sql, 0);
		ok = sqlite_prepare(&state->db, &s, (char *)sql.data, why, why_size);
		if (ok) {
			ok = sqlite3_step(s) == SQLITE_DONE ||
			     sqlite_error(&state->db, why, why_size);
			sqlite3_finalize(s);
		}
		buffer_free(&sql);
	}
	return ok;
}

static bool
prepare_table(struct state_db *state, enum row_table table, char *why, size_t why_size)
{
	const struct row_table_info *info = row_table_info(table);
	char sql[SQL_MAX];
	int len = snprintf(sql, sizeof sql, "REPLACE INTO %s (", info->name);

	for (int i = 0; i < info->columns; i++)
		len += snprintf(sql + len, sizeof sql - (size_t)len, "%s, ", info->column[i].name);
	len += snprintf(sql + len, sizeof sql - (size_t)len, "row_checksum) VALUES (");
	for (int i = 0; i < info->columns; i++)
		len += snprintf(sql + len, sizeof sql - (size_t)len, "?, ");
	snprintf(sql + len, sizeof sql - (size_t)len, "?)");
	if (!sqlite_prepare(&state->db, &state->put[table], sql, why, why_size))
		return false;
	len = snprintf(sql, sizeof sql, "DELETE FROM %s WHERE ", info->name);
	for (int i = 0; i < info->keys; i++)
		len += snprintf(sql + len, sizeof sql - (size_t)len, "%s%s = ?",
		                i > 0 ? " AND " : "", info->column[i].name);
	return sqlite_prepare(&state->db, &state->delete[table], sql, why, why_size);
}

bool
state_db_start(struct state_db *state, const char *directory, const char *cell, char *why,
               size_t why_size)
{
	struct buffer sql = BUFFER(SQL_MAX * ROW_TABLES);
	bool ok = true;
	int rc;

	if (state->db.handle == NULL) {
		print_schema(&sql, cell);
		must(!sql.failed);
		ok = sqlite_create(&state->db, directory, (char *)sql.data, why, why_size);
		buffer_free(&sql);
	}
	for (int t = 0; t < ROW_TABLES && ok; t++)
		ok = add_columns(state, (enum row_table)t, why, why_size) &&
		     prepare_table(state, (enum row_table)t, why, why_size);
	if (!ok || !sqlite_ready(&state->db, why, why_size))
		return false;
	sqlite_update_wal(&state->db);
	state->watermark.wal = state->db.wal;
	rc = watermark_open(&state->watermark_file, directory, WATERMARK_STATE, &state->watermark);
	return rc == 0 || sqlite_file_error(&state->db.io_failed, rc, directory, WATERMARK_FILE,
	                                    why, why_size);
}

enum work
state_db_close(struct state_db *state, bool untouched)
{
	for (int t = 0; t < ROW_TABLES; t++) {
		sqlite3_finalize(state->put[t]);
		sqlite3_finalize(state->delete[t]);
		state->put[t] = state->delete[t] = NULL;
	}
	if (!untouched && state->watermark_file.fd >= 0) {
		state->watermark.wal = (struct wal_extent){0, 0}; /* SQLite removes the WAL now */
		watermark_write(&state->watermark_file, &state->watermark);
	}
	watermark_close(&state->watermark_file);
	return sqlite_close(&state->db, untouched);
}

void
state_db_written(struct state_db *state)
{
	sqlite_update_wal(&state->db);
	state->watermark.wal = state->db.wal;
	watermark_write(&state->watermark_file, &state->watermark);
}

static int
write_row(struct state_db *state, const struct row *row)
{
	const struct row_table_info *info = row_table_info(row->table);
	sqlite3_stmt *s = row->deleted ? state->delete[row->table] : state->put[row->table];
	int n = row->deleted ? info->keys : info->columns;

	for (int i = 0; i < n; i++) {
		const void *data =
		    row->values[i].bytes.len > 0 ? (const void *)row->values[i].bytes.data : "";
		int rc, len = (int)row->values[i].bytes.len;

		if (info->column[i].kind == 'i')
			rc = sqlite3_bind_int64(s, i + 1, row->values[i].number);
		else if (info->column[i].kind == 't')
			rc = sqlite3_bind_text(s, i + 1, data, len, SQLITE_STATIC);
		else
			rc = sqlite3_bind_blob(s, i + 1, data, len, SQLITE_STATIC);
		must(rc == SQLITE_OK);
	}
	if (!row->deleted)
		must(sqlite3_bind_int64(s, n + 1, (int64_t)row_checksum(row)) == SQLITE_OK);
	return sqlite_step(s);
}

/* A version of a row; the newer version has the higher turn. */
struct version {
	const struct row *row;
	size_t turn;
};

static int
compare_rows(const struct row *a, const struct row *b)
{
	const struct row_table_info *info = row_table_info(a->table);

	if (a->table != b->table)
		return a->table < b->table ? -1 : 1;
	for (int i = 0; i < info->keys; i++) {
		if (a->values[i].number != b->values[i].number)
			return a->values[i].number < b->values[i].number ? -1 : 1;
	}
	return 0;
}

static int
compare_versions(const void *a, const void *b)
{
	const struct version *va = a, *vb = b;
	int order = compare_rows(va->row, vb->row);

	return order != 0 ? order : va->turn < vb->turn ? -1 : 1;
}

int
state_db_write(struct state_db *state, const struct row_list *const *lists, size_t n)
{
	size_t total = 0, at = 0;
	struct version *versions;
	int rc = SQLITE_OK;

	for (size_t i = 0; i < n; i++)
		total += lists[i]->n;
	versions = memory_zero(total + 1, sizeof *versions);
	for (size_t i = 0; i < n; i++) {
		for (size_t j = 0; j < lists[i]->n; j++, at++)
			versions[at] = (struct version){&lists[i]->rows[j], at};
	}
	qsort(versions, total, sizeof *versions, compare_versions);
	for (size_t i = 0; i < total && rc == SQLITE_OK; i++) {
		bool last =
		    i + 1 == total || compare_rows(versions[i].row, versions[i + 1].row) != 0;

		if (last)
			rc = write_row(state, versions[i].row);
	}
	free(versions);
	return rc;
}
