#include "cell/store/sqlite.h"
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/store/swap_in.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"

enum {
	BUSY_MS = 1000,         /* wait for another program that has the file locked */
	UNTIDY = 64,            /* pages */
	CHECKPOINT_EARLY = 256, /* pages; a commit of one small record writes two or three */
	CHECKPOINT_ANYWAY = 2048,
	VALUE_MAX = 64 << 20, /* bytes: more than every real value, a bound on damaged lengths */
};

bool
sqlite_damaged(struct sqlite_db *db, char *why, size_t why_size, const char *what, ...)
{
	va_list args;
	int len = snprintf(why, why_size, "%s is damaged: ", db->kind->name);

	db->damaged = true;
	va_start(args, what);
	if (len >= 0 && (size_t)len < why_size)
		vsnprintf(why + len, why_size - (size_t)len, what, args);
	va_end(args);
	return false;
}

/* True for an error that only means a full disk: nothing was committed and nothing is damaged. A
 * failed sync never is, whatever its errno: the contents of the disk are unknown afterwards. */
static bool
no_room(const struct sqlite_db *db, int rc)
{
	int error = sqlite3_system_errno(db->handle);

	if ((rc & 0xff) == SQLITE_FULL)
		return true;
	return (error == ENOSPC || error == EDQUOT) &&
	       (rc == SQLITE_IOERR_WRITE || rc == SQLITE_IOERR_SHMSIZE ||
	        rc == SQLITE_IOERR_SHMOPEN);
}

/* Our statements fit our schema, so a schema error also means that the file is damaged. */
static bool
is_damage(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
	case SQLITE_FORMAT:
	case SQLITE_TOOBIG:
	case SQLITE_ERROR:
		return true;
	default:
		return false;
	}
}

bool
sqlite_error(struct sqlite_db *db, char *why, size_t why_size)
{
	const int rc = sqlite3_extended_errcode(db->handle);
	const int error = sqlite3_system_errno(db->handle);
	const char *text = sqlite3_errmsg(db->handle), *word = NULL;

	/* There is an errno behind "disk I/O error" and similar errors. */
	if (error != 0 && ((rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN))
		word = strerror(error);
	if (db->unused && (rc == SQLITE_IOERR_READ || rc == SQLITE_IOERR_CORRUPTFS) && error == EIO)
		return sqlite_damaged(db, why, why_size, "%s: %s", text, word);
	if ((rc & 0xff) == SQLITE_IOERR && !no_room(db, rc))
		db->io_failed = true;
	if ((rc & 0xff) == SQLITE_NOTADB)
		return sqlite_damaged(db, why, why_size, "not an SQLite database");
	if (is_damage(rc))
		return sqlite_damaged(db, why, why_size, "%s", text);
	snprintf(why, why_size, "%s: %s (%d)%s%s", db->kind->name, text, rc, word ? ": " : "",
	         word ? word : "");
	return false;
}

bool
sqlite_file_error(bool *io_failed, int rc, const char *directory, const char *name, char *why,
                  size_t why_size)
{
	*io_failed |= rc == -EIO;
	snprintf(why, why_size, "%s%s%s: %s", directory, name != NULL ? "/" : "",
	         name != NULL ? name : "", strerror(-rc));
	return false;
}

/* The WAL's file stays the same while the connection is open; its salt changes when SQLite begins
 * the file again. */
void
sqlite_update_wal(struct sqlite_db *db)
{
	if (db->wal_fd < 0)
		db->wal_fd = open(sqlite3_filename_wal(sqlite3_db_filename(db->handle, "main")),
		                  O_RDONLY | O_CLOEXEC);
	db->wal.salt = db->wal_fd < 0 ? 0 : wal_salt(db->wal_fd);
}

static int
on_commit(void *user, sqlite3 *handle, const char *schema, int pages)
{
	struct sqlite_db *db = user;

	(void)handle;
	(void)schema;
	db->wal_pages = pages;
	db->untidy = pages >= UNTIDY;
	db->wal.frames = (uint32_t)pages;
	return SQLITE_OK;
}

static bool
execute(struct sqlite_db *db, const char *sql, char *why, size_t why_size)
{
	if (sqlite3_exec(db->handle, sql, NULL, NULL, NULL) == SQLITE_OK)
		return true;
	return sqlite_error(db, why, why_size);
}

bool
sqlite_number(struct sqlite_db *db, const char *sql, int64_t *number, char *why, size_t why_size)
{
	sqlite3_stmt *statement;
	bool ok;

	if (!sqlite_prepare(db, &statement, sql, why, why_size))
		return false;
	ok = sqlite3_step(statement) == SQLITE_ROW;
	if (ok)
		*number = sqlite3_column_int64(statement, 0);
	else
		sqlite_error(db, why, why_size);
	sqlite3_finalize(statement);
	return ok;
}

bool
sqlite_prepare(struct sqlite_db *db, sqlite3_stmt **statement, const char *sql, char *why,
               size_t why_size)
{
	if (sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, statement, NULL) ==
	    SQLITE_OK)
		return true;
	return sqlite_error(db, why, why_size);
}

/* Opens the connection and configures it; no setting changes the file. */
static bool
connect_to(struct sqlite_db *db, const char *path, int flags, char *why, size_t why_size)
{
	int rc = sqlite3_open_v2(path, &db->handle, SQLITE_OPEN_NOMUTEX | flags, NULL);

	must(db->handle != NULL);
	if (rc != SQLITE_OK)
		return sqlite_error(db, why, why_size);
	sqlite3_extended_result_codes(db->handle, 1);
	sqlite3_busy_timeout(db->handle, BUSY_MS);
	must(sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) == SQLITE_OK);
	sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, VALUE_MAX);
	sqlite3_wal_hook(db->handle, on_commit, db);
	return execute(db,
	               "PRAGMA synchronous = FULL; PRAGMA secure_delete = OFF; "
	               "PRAGMA temp_store = MEMORY",
	               why, why_size);
}

static bool
prepare_transaction(struct sqlite_db *db, char *why, size_t why_size)
{
	return sqlite_prepare(db, &db->begin, "BEGIN IMMEDIATE", why, why_size) &&
	       sqlite_prepare(db, &db->commit, "COMMIT", why, why_size) &&
	       sqlite_prepare(db, &db->rollback, "ROLLBACK", why, why_size);
}

/* A file from another source may hold a trigger or view that runs when our tables are read or
 * written, for example a view that never ends. Our own files hold only tables and their indexes. */
static bool
check_plain(struct sqlite_db *db, char *why, size_t why_size)
{
	sqlite3_stmt *s;
	int rc;

	if (!sqlite_prepare(db, &s,
	                    "SELECT type, name FROM sqlite_schema WHERE type NOT IN"
	                    " ('table', 'index') OR sql LIKE 'CREATE VIRTUAL%'",
	                    why, why_size))
		return false;
	rc = sqlite3_step(s);
	if (rc == SQLITE_ROW)
		sqlite_damaged(db, why, why_size, "%s %s is none of its own",
		               (const char *)sqlite3_column_text(s, 0),
		               (const char *)sqlite3_column_text(s, 1));
	else if (rc != SQLITE_DONE)
		sqlite_error(db, why, why_size);
	sqlite3_finalize(s);
	return rc == SQLITE_DONE;
}

/* Checks the application id and format. A crash during the first start leaves a file without
 * tables, which counts as new. */
static bool
check_kind(struct sqlite_db *db, bool *is_new, char *why, size_t why_size)
{
	const struct sqlite_kind *kind = db->kind;
	int64_t id, format, tables;

	*is_new = false;
	if (!sqlite_number(db, "SELECT count(*) FROM sqlite_schema", &tables, why, why_size) ||
	    !sqlite_number(db, "PRAGMA application_id", &id, why, why_size) ||
	    !sqlite_number(db, "PRAGMA user_version", &format, why, why_size))
		return false;
	if (tables == 0 && id == 0 && format == 0) {
		*is_new = true;
		return true;
	}
	if (id != kind->application_id) {
		snprintf(why, why_size, "%s is a database of another program", kind->name);
		return false;
	}
	if (format != kind->format) {
		snprintf(why, why_size, "%s has format %lld; this program reads format %d",
		         kind->name, (long long)format, kind->format);
		return false;
	}
	return check_plain(db, why, why_size);
}

static bool
check_structure(struct sqlite_db *db, char *why, size_t why_size)
{
	sqlite3_stmt *statement;
	const char *answer = "";
	bool ok;

	if (!sqlite_prepare(db, &statement, "PRAGMA quick_check(1)", why, why_size))
		return false;
	if (sqlite3_step(statement) == SQLITE_ROW &&
	    sqlite3_column_type(statement, 0) != SQLITE_NULL)
		answer = (const char *)sqlite3_column_text(statement, 0);
	ok = strcmp(answer, "ok") == 0;
	if (!ok && answer[0] != '\0')
		sqlite_damaged(db, why, why_size, "%s", answer);
	else if (!ok)
		sqlite_error(db, why, why_size);
	for (char *c = why; !ok && *c != '\0'; c++)
		*c = *c == '\n' ? ' ' : *c;
	sqlite3_finalize(statement);
	return ok;
}

static bool
file_path(const struct sqlite_kind *kind, const char *directory, char path[PATH_MAX], char *why,
          size_t why_size)
{
	if (snprintf(path, PATH_MAX, "%s/%s", directory, kind->name) < PATH_MAX)
		return true;
	snprintf(why, why_size, "%.64s...: %s", directory, strerror(ENAMETOOLONG));
	return false;
}

/* True unless the header of the file names a version for writing that SQLite does not know. */
static bool
has_write_version(const char *path)
{
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint8_t version = 0;
	const bool known = fd < 0 || pread(fd, &version, 1, 18) != 1 || version <= 2;

	if (fd >= 0)
		close(fd);
	return known;
}

static bool
open_file(struct sqlite_db *db, const char *path, int flags, char *why, size_t why_size)
{
	bool is_new = false;
	bool ok =
	    connect_to(db, path, flags, why, why_size) && check_kind(db, &is_new, why, why_size);

	/* So a file is that could not be opened for writing, or whose header names an unknown
	 * version for writing: SQLite would only say it at the first commit. */
	if (ok && !is_new && (flags & SQLITE_OPEN_READWRITE) != 0 &&
	    sqlite3_db_readonly(db->handle, "main") == 1)
		ok = has_write_version(path)
		         ? sqlite_file_error(&db->io_failed,
		                             access(path, W_OK) < 0 ? -errno : -EACCES, path, NULL,
		                             why, why_size)
		         : sqlite_damaged(db, why, why_size, "the write version of its header");
	if (ok && !is_new)
		ok = check_structure(db, why, why_size) && prepare_transaction(db, why, why_size);
	if (is_new || (!ok && !db->damaged))
		sqlite_close(db, true);
	return ok;
}

/* Detects a damaged frame in the write-ahead log: SQLite would silently drop it and all frames
 * after it, though they were synced. A log that can't be opened is no damaged one. */
static bool
check_wal(struct sqlite_db *db, const char *path, const struct wal_extent *known, char *why,
          size_t why_size)
{
	char wal[PATH_MAX + 8];
	int rc;

	snprintf(wal, sizeof wal, "%s-wal", path);
	rc = wal_check(wal, &db->wal);
	if (rc < 0 && rc != -EBADMSG)
		return sqlite_file_error(&db->io_failed, rc, wal, NULL, why, why_size);
	if (rc < 0)
		sqlite_damaged(db, why, why_size, "the head of its write-ahead log");
	else if (db->wal.salt == known->salt && db->wal.frames < known->frames)
		sqlite_damaged(db, why, why_size, "frame %" PRIu32 " of its write-ahead log",
		               db->wal.frames + 1);
	db->mixed = db->damaged;
	return !db->mixed;
}

bool
sqlite_open(struct sqlite_db *db, const char *directory, const struct sqlite_kind *kind,
            const struct wal_extent *wal, char *why, size_t why_size)
{
	char path[PATH_MAX], other[SQLITE_WHY];
	bool whole;

	*db = (struct sqlite_db){.kind = kind, .wal_fd = -1, .unused = true};
	if (!file_path(kind, directory, path, why, why_size))
		return false;
	if (access(path, F_OK) < 0 && errno == ENOENT)
		return true;
	whole = check_wal(db, path, wal, why, why_size);
	if (whole)
		return open_file(db, path, SQLITE_OPEN_READWRITE, why, why_size);
	if (!db->damaged)
		return false;
	if (!open_file(db, path, SQLITE_OPEN_READWRITE, other, sizeof other) && db->handle == NULL)
		snprintf(why, why_size, "%s", other); /* the file can't be opened at all */
	return false;
}

bool
sqlite_open_copy(struct sqlite_db *db, const char *directory, const struct sqlite_kind *kind,
                 char *why, size_t why_size)
{
	struct buffer uri = BUFFER(4 * PATH_MAX);
	char path[PATH_MAX];
	bool ok;

	*db = (struct sqlite_db){.kind = kind, .wal_fd = -1};
	if (!file_path(kind, directory, path, why, why_size))
		return false;
	/* Of an immutable file SQLite makes no files beside it. */
	buffer_printf(&uri, path[0] == '/' ? "file://" : "file:");
	for (const char *c = path; *c != '\0'; c++)
		buffer_printf(&uri, strchr("%?#", *c) != NULL ? "%%%02X" : "%c", *c);
	buffer_printf(&uri, "?immutable=1%c", '\0');
	ok = open_file(db, (char *)uri.data, SQLITE_OPEN_READONLY | SQLITE_OPEN_URI, why, why_size);
	buffer_free(&uri);
	return ok;
}

bool
sqlite_open_again(struct sqlite_db *db, const struct sqlite_kind *kind, const char *path)
{
	*db = (struct sqlite_db){.kind = kind, .wal_fd = -1};
	if (connect_to(db, path, SQLITE_OPEN_READWRITE, db->why, sizeof db->why) &&
	    sqlite_ready(db, db->why, sizeof db->why))
		return true;
	sqlite_close(db, true);
	return false;
}

bool
sqlite_create(struct sqlite_db *db, const char *directory, const char *schema, char *why,
              size_t why_size)
{
	const struct sqlite_kind *kind = db->kind;
	char path[PATH_MAX], *sql;
	bool ok;
	int rc, fd;

	if (!file_path(kind, directory, path, why, why_size))
		return false;
	db->damaged = db->unused = false;
	rc = swap_in_remove_besides(directory, kind->name);
	if (rc == 0) {
		/* Mode 0600, since the data is not public. SQLite gives the files beside it the
		 * same mode. */
		fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
		rc = fd < 0 ? -errno : 0;
		if (fd >= 0)
			close(fd);
	}
	if (rc < 0)
		return sqlite_file_error(&db->io_failed, rc, directory, kind->name, why, why_size);
	sql = sqlite3_mprintf(
	    "BEGIN; %s; PRAGMA application_id = %d; PRAGMA user_version = %d; COMMIT", schema,
	    kind->application_id, kind->format);
	must(sql != NULL);
	ok = connect_to(db, path, SQLITE_OPEN_READWRITE, why, why_size) &&
	     execute(db, "PRAGMA journal_mode = WAL", why, why_size) &&
	     execute(db, sql, why, why_size) && prepare_transaction(db, why, why_size);
	sqlite3_free(sql);
	rc = ok ? file_sync_directory(directory) : 0;
	if (rc < 0)
		sqlite_file_error(&db->io_failed, rc, directory, NULL, why, why_size);
	if (ok && rc == 0)
		return true;
	sqlite_close(db, true);
	return false;
}

bool
sqlite_ready(struct sqlite_db *db, char *why, size_t why_size)
{
	db->unused = false;
	must(sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0, NULL) == SQLITE_OK);
	return execute(db, "PRAGMA journal_mode = WAL", why, why_size);
}

static enum work
judge(struct sqlite_db *db, int rc)
{
	if (rc == SQLITE_OK)
		return WORK_DONE;
	/* Running out of memory is no disk failure and must not mark the disk as failed. */
	must(rc != SQLITE_NOMEM && rc != SQLITE_IOERR_NOMEM && "out of memory");
	sqlite_error(db, db->why, sizeof db->why);
	if (no_room(db, rc))
		return WORK_LATER;
	return (rc & 0xff) == SQLITE_BUSY ? WORK_BUSY : WORK_FAILED;
}

static enum work
checkpoint(struct sqlite_db *db)
{
	int in_wal, moved;
	enum work work =
	    judge(db, sqlite3_wal_checkpoint_v2(db->handle, NULL, SQLITE_CHECKPOINT_PASSIVE,
	                                        &in_wal, &moved));

	if (work == WORK_DONE)
		db->wal_pages = in_wal - moved;
	return work;
}

enum work
sqlite_close(struct sqlite_db *db, bool untouched)
{
	enum work work = WORK_DONE;

	if (db->handle == NULL)
		return work;
	/* sqlite3_close would checkpoint as well, but not report an error of it. */
	if (!untouched)
		work = checkpoint(db);
	if (untouched || work != WORK_DONE)
		must(sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL) ==
		     SQLITE_OK);
	sqlite3_finalize(db->begin);
	sqlite3_finalize(db->commit);
	sqlite3_finalize(db->rollback);
	must(sqlite3_close(db->handle) == SQLITE_OK);
	if (db->wal_fd >= 0)
		close(db->wal_fd);
	db->wal_fd = -1;
	db->handle = NULL;
	db->begin = db->commit = db->rollback = NULL;
	return work;
}

int
sqlite_step(sqlite3_stmt *statement)
{
	int rc = sqlite3_step(statement);
	int again = sqlite3_reset(statement);

	must(rc != SQLITE_ROW);
	return rc == SQLITE_DONE ? again : rc;
}

int
sqlite_begin(struct sqlite_db *db)
{
	return sqlite_step(db->begin);
}

enum work
sqlite_end(struct sqlite_db *db, int rc)
{
	enum work work;

	if (rc == SQLITE_OK)
		rc = sqlite_step(db->commit);
	work = judge(db, rc);
	if (work != WORK_DONE && !sqlite3_get_autocommit(db->handle) &&
	    sqlite_step(db->rollback) != SQLITE_OK)
		work = WORK_FAILED;
	return work;
}

enum work
sqlite_checkpoint(struct sqlite_db *db)
{
	enum work work = checkpoint(db);

	/* The write-ahead log is durable. */
	return work == WORK_LATER || work == WORK_BUSY ? WORK_DONE : work;
}

enum work
sqlite_tidy(struct sqlite_db *db, bool early)
{
	if (db->wal_pages < (early ? CHECKPOINT_EARLY : CHECKPOINT_ANYWAY))
		return WORK_DONE;
	return sqlite_checkpoint(db);
}

/* ---- corruption ---- */

static void
add(struct corruption *d, const char *before, const char *between, const char *what, va_list args)
{
	char *line;
	int len;

	if (d->n++ >= CORRUPTION_LINES)
		return;
	line = d->lines[d->n - 1];
	len = snprintf(line, CORRUPTION_LINE, "%s%s", before, between);
	vsnprintf(line + len, CORRUPTION_LINE - (size_t)len, what, args);
}

void
corruption_add(struct corruption *d, const char *file, const char *what, ...)
{
	va_list args;

	va_start(args, what);
	add(d, file, " is damaged: ", what, args);
	va_end(args);
}

void
corruption_add_line(struct corruption *d, const char *what, ...)
{
	va_list args;

	va_start(args, what);
	add(d, "", "", what, args);
	va_end(args);
}

void
corruption_log(const struct corruption *d, const char *directory)
{
	size_t n = d->n < CORRUPTION_LINES ? d->n : CORRUPTION_LINES;

	for (size_t i = 0; i < n; i++)
		log_warn("%s: %s", directory, d->lines[i]);
	if (d->n > n)
		log_warn("%s: %zu more findings of damage", directory, d->n - n);
}
