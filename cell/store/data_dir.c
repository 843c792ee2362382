#include "cell/store/internal.h"
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "cell/store/dir_lock.h"
#include "cell/store/log_db.h"
#include "cell/store/state_db.h"
#include "cell/store/store.h"
#include "cell/store/swap_in.h"
#include "cell/store/watermark.h"
#include "cell/sys/log.h"

/* Removes the unfinished files and copies that an earlier process of this replica has left, and
 * puts its finished ones into their places. False with one line in `why`. */
static bool
finish_earlier(struct data_dir *f, char *why, size_t why_size)
{
	const char *directory = f->directory;
	int rc = swap_in_remove(directory, STORE_FETCHED);

	if (rc == 0)
		rc = swap_in_remove(directory, STORE_COPY);
	if (rc == 0)
		rc = swap_in_remove(directory, LOG_DB_FRESH);
	if (rc == 0)
		rc = swap_in(directory, LOG_DB_FILE, true);
	if (rc == 0)
		rc = state_db_swap_in(directory);
	return rc == 0 || sqlite_file_error(&f->io_failed, rc, directory, NULL, why, why_size);
}

/* ---- checks of the two databases ---- */

/* The member list in the tree overrides the cell file, which may be older. */
static bool
has_others(const struct data_dir *f, const struct tree *tree)
{
	struct member m;
	bool any = false;

	for (uint8_t id = 0; tree_member_after(tree, id, &m); id = m.id) {
		any = true;
		if (m.role == MEMBER_VOTER && m.id != f->replica)
			return true;
	}
	return !any && f->others;
}

/* True when the log holds a mark of another replica: then the cell has more members than its file
 * may list, or had. */
static bool
has_others_marks(const struct data_dir *f)
{
	for (size_t i = 0; i < f->log.found.marks_n; i++) {
		if (f->log.found.marks[i].replica != f->replica)
			return true;
	}
	return false;
}

/* Refuses a start: adds to `why` what the operator can do. */
static bool
advise(const struct data_dir *f, bool others, char *why, size_t why_size)
{
	size_t len = strlen(why);

	if (f->log.watermark_lost && f->log.found.corruption.n == 1)
		snprintf(why + len, why_size - len, "; remove it if log.db is known to be whole");
	else if (others)
		snprintf(why + len, why_size - len,
		         "; this replica has to be replaced: lsctl replica remove %u, then "
		         "lsctl replica add",
		         f->replica);
	else
		snprintf(why + len, why_size - len,
		         "; the cell has to be restored from a backup: lsctl restore");
	return false;
}

/* Refuses a start without a usable state: in a cell of one no other replica has a copy. */
static bool
refuse_state(const struct data_dir *f, char *why, size_t why_size)
{
	const struct log_db_found *log = &f->log.found;
	size_t len = strlen(why);

	if (log->torn || log->trimmed_lost || log->trimmed > 0)
		return advise(f, false, why, why_size);
	snprintf(why + len, why_size - len,
	         "; log.db still has every entry: move state.db away to have it rebuilt");
	return false;
}

/* Goes on with an empty state: it is rebuilt from the log, or fetched from another replica. */
static bool
drop_state(struct data_dir *f, struct tree **tree, const char *cell, const char *reason)
{
	corruption_add_line(&f->state_corruption, "%s", reason);
	if (*tree != NULL)
		tree_free(*tree);
	*tree = tree_new(cell);
	state_db_close(&f->state, true);
	f->set_aside = true;
	return true;
}

/* True when entries between the end of the state and the beginning of the log are missing. */
static bool
state_is_too_old(const struct data_dir *f, const struct tree *tree)
{
	const struct log_db_found *log = &f->log.found;

	return !log->torn && !log->trimmed_lost && tree_applied(tree) < log->trimmed;
}

static bool
check_state(struct data_dir *f, const char *cell, struct tree **tree, char *why, size_t why_size)
{
	uint64_t applied;

	if (*tree == NULL) {
		if (!f->state.db.damaged)
			return false;
		return f->others ? drop_state(f, tree, cell, why) : refuse_state(f, why, why_size);
	}
	applied = tree_applied(*tree);
	if (!state_is_too_old(f, *tree))
		return true;
	if (has_others(f, *tree) && applied == 0)
		return true; /* an earlier start has set the state aside */
	snprintf(why, why_size,
	         "state.db is %s: it ends at slot %" PRIu64
	         ", but log.db begins behind slot %" PRIu64,
	         applied > 0 ? "an old copy" : "missing", applied, f->log.found.trimmed);
	if (has_others(f, *tree))
		return drop_state(f, tree, cell, why);
	return advise(f, false, why, why_size);
}

/* Together the state and the log must hold every slot: a log that ends before the state does is
 * incomplete. */
static bool
check_together(struct data_dir *f, bool others, const struct tree *tree,
               const struct px_recovered *r, char *why, size_t why_size)
{
	uint64_t applied = tree_applied(tree);
	bool there = f->log.db.handle != NULL;
	uint64_t last = there ? log_db_last(r) : 0;

	/* A state fetched from another replica may be ahead of the log; a restored one has none. */
	if (others || applied <= last || tree_origin(tree).round == 0)
		return true;
	snprintf(why, why_size,
	         "log.db is %s: it ends at slot %" PRIu64 ", but state.db at %" PRIu64,
	         there ? "an old copy" : "missing", last, applied);
	return advise(f, false, why, why_size);
}

/* Reads and checks both databases; changes nothing on the disk. */
static bool
read_databases(struct data_dir *f, const char *cell, struct tree **tree, struct px_recovered *r,
               char *why, size_t why_size)
{
	bool others;

	if (!log_db_open(&f->log, f->directory, cell, f->replica, why, why_size))
		return false;
	if (!state_db_open(&f->state, f->directory, cell, tree, why, why_size) &&
	    !f->state.db.damaged)
		return false;
	f->others = f->others || (has_others_marks(f) && !f->state.alone);
	if (!check_state(f, cell, tree, why, why_size))
		return false;
	others = has_others(f, *tree);
	if (!log_db_recover(&f->log, tree_applied(*tree), others ? LOG_DB_MEMBER : LOG_DB_ALONE, r,
	                    why, why_size))
		return advise(f, others, why, why_size);
	r->applied = tree_applied(*tree);
	r->applied_origin = tree_origin(*tree);
	r->state_lost = r->applied < r->trimmed;
	return check_together(f, others, *tree, r, why, why_size);
}

/* ---- starting ---- */

static bool
start_databases(struct data_dir *f, const char *cell, struct px_recovered *recovered, char *why,
                size_t why_size)
{
	int rc;

	f->log.db.unused = f->state.db.unused = false;
	corruption_log(&f->log.found.corruption, f->directory);
	corruption_log(&f->state_corruption, f->directory);
	if (recovered->damaged > 0)
		log_warn("%s: slots %" PRIu64 " to %" PRIu64
		         " must be fetched from the other replicas",
		         f->directory, log_db_last(recovered) + 1, recovered->damaged);
	if (recovered->state_lost)
		log_warn("%s: the state must be fetched from another replica", f->directory);

	if (f->disk_failure.earlier) {
		log_warn("%s: the disk failed in an earlier boot (%s); its files were checked, "
		         "they are whole",
		         f->directory, f->disk_failure.why);
		rc = disk_failure_clear(&f->disk_failure);
		if (rc < 0)
			return sqlite_file_error(&f->io_failed, rc, f->directory, DISK_FAILURE_FILE,
			                         why, why_size);
	}
	rc = f->set_aside ? swap_in_set_aside(f->directory, STATE_DB_FILE) : 0;
	if (rc < 0)
		return sqlite_file_error(&f->io_failed, rc, f->directory, STATE_DB_FILE, why,
		                         why_size);
	return log_db_start(&f->log, f->directory, cell, f->replica, recovered, why, why_size) &&
	       state_db_start(&f->state, f->directory, cell, why, why_size);
}

static bool
open_locked(struct data_dir *f, const char *cell, struct tree **tree,
            struct px_recovered *recovered, char *why, size_t why_size)
{
	if (!disk_failure_open(&f->disk_failure, f->directory, why, why_size))
		return false;
	if (finish_earlier(f, why, why_size) &&
	    read_databases(f, cell, tree, recovered, why, why_size)) {
		if (start_databases(f, cell, recovered, why, why_size))
			return true;
		f->io_failed |= f->log.db.io_failed || f->state.db.io_failed;
	}
	if (f->io_failed)
		disk_failure_mark(&f->disk_failure, why);
	if (*tree != NULL)
		tree_free(*tree);
	*tree = NULL;
	log_db_recovered_free(recovered);
	state_db_close(&f->state, true);
	log_db_close(&f->log, true);
	disk_failure_close(&f->disk_failure);
	return false;
}

bool
data_dir_open(struct data_dir *f, const char *directory, const char *cell, uint8_t replica,
              bool others, struct tree **tree, struct px_recovered *recovered, char *why,
              size_t why_size)
{
	*f = (struct data_dir){.directory = bytes_to_text(bytes_of(directory)),
	                       .replica = replica,
	                       .others = others,
	                       .log.watermark_file.fd = -1,
	                       .log.db.wal_fd = -1,
	                       .state.watermark_file.fd = -1,
	                       .state.db.wal_fd = -1};
	*tree = NULL;
	*recovered = (struct px_recovered){0};
	f->locked = dir_lock_take(&f->lock, directory, why, why_size);
	if (f->locked) {
		if (open_locked(f, cell, tree, recovered, why, why_size))
			return true;
		dir_lock_release(&f->lock);
	}
	free(f->directory);
	return false;
}

void
data_dir_close(struct data_dir *f)
{
	disk_failure_close(&f->disk_failure);
	dir_lock_release(&f->lock);
	free(f->directory);
}

/* ---- its files while they are open ---- */

static const char *const names[FILE_GUARD_FILES] = {
    DIR_LOCK_FILE,  LOG_DB_FILE,   LOG_DB_FILE "-wal",
    WATERMARK_FILE, STATE_DB_FILE, STATE_DB_FILE "-wal",
};

static int
stat_file(const char *directory, const char *name, struct stat *st)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path)
		return -ENAMETOOLONG;
	return stat(path, st) < 0 ? -errno : 0;
}

void
file_guard_begin(struct file_guard *w, const char *directory)
{
	struct stat st;

	*w = (struct file_guard){.directory = directory};
	for (int i = 0; i < FILE_GUARD_FILES; i++) {
		w->files[i].there = stat_file(directory, names[i], &st) == 0;
		if (!w->files[i].there)
			continue;
		w->files[i].device = st.st_dev;
		w->files[i].number = st.st_ino;
	}
}

bool
file_guard_check(const struct file_guard *w, char *why, size_t why_size)
{
	for (int i = 0; i < FILE_GUARD_FILES; i++) {
		struct stat st;
		int rc;

		if (!w->files[i].there)
			continue;
		rc = stat_file(w->directory, names[i], &st);
		if (rc < 0 && rc != -ENOENT)
			continue; /* nothing is known of it */
		if (rc == 0 && st.st_dev == w->files[i].device && st.st_ino == w->files[i].number)
			continue;
		snprintf(why, why_size, "%s was %s while it was in use", names[i],
		         rc == 0 ? "replaced" : "removed");
		return false;
	}
	return true;
}
