#include "cell/io/files.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/io/install.h"
#include "cell/io/log.h"
#include "cell/io/store.h"

/* What an earlier life has not finished, or was not asked to keep. */
static int
remove_leftovers(const char *directory)
{
	int rc = install_remove(directory, STORE_SNAPSHOT);

	return rc == 0 ? install_remove(directory, STORE_COPY) : rc;
}

/* A copy from another replica takes the place of state.db, unless that has gone on since. */
static int
install_snapshot(const char *directory)
{
	uint64_t ours = 0, theirs = 0;

	if (!install_waiting(directory, "state.db"))
		return 0;
	if (statedb_applied(directory, "state.db", &ours) &&
	    (!statedb_applied(directory, "state.db.ready", &theirs) || theirs < ours))
		return install_remove(directory, "state.db.ready");
	return install(directory, "state.db", false);
}

static bool
finish_earlier(const char *directory, char *why, size_t why_size)
{
	int rc = remove_leftovers(directory);

	if (rc == 0)
		rc = install_snapshot(directory);
	if (rc < 0)
		snprintf(why, why_size, "%s: %s", directory, strerror(-rc));
	return rc == 0;
}

/* The two files are parts of one story: together they hold every slot. */
static bool
check_together(const struct files *f, bool others, const struct tree *tree,
               const struct px_recovered *r, char *why, size_t why_size)
{
	uint64_t applied = tree_applied(tree);

	if (applied < r->trimmed) {
		snprintf(why, why_size,
		         "state.db is %s: it ends at slot %" PRIu64 ", but log.db begins "
		         "behind slot %" PRIu64,
		         f->state.db.handle ? "an old copy" : "missing", applied, r->trimmed);
		return false;
	}
	/* A state that was restored from a backup has no log yet. */
	if (!others && applied > logdb_last(r) && tree_origin(tree).round != 0) {
		snprintf(why, why_size,
		         "log.db is %s: it ends at slot %" PRIu64 ", but state.db at "
		         "%" PRIu64,
		         f->log.db.handle ? "an old copy" : "missing", logdb_last(r), applied);
		return false;
	}
	return true;
}

/* Reads and checks everything, and changes nothing on the disk. */
static bool
read_databases(struct files *f, const char *cell, uint8_t replica, bool others, struct tree **tree,
               struct px_recovered *recovered, char *why, size_t why_size)
{
	if (!logdb_open(&f->log, f->directory, cell, replica, recovered, why, why_size))
		return false;
	if (statedb_open(&f->state, f->directory, cell, tree, why, why_size)) {
		if (check_together(f, others, *tree, recovered, why, why_size))
			return true;
		tree_free(*tree);
		*tree = NULL;
		statedb_close(&f->state, true);
	}
	logdb_recovered_free(recovered);
	logdb_close(&f->log, true);
	return false;
}

static bool
clear_mark(struct files *f, char *why, size_t why_size)
{
	int rc;

	if (!f->failed.earlier)
		return true;
	log_warn("%s: failed in an earlier boot (%s); its files were checked and are whole",
	         f->directory, f->failed.why);
	rc = failed_clear(&f->failed);
	if (rc == 0)
		return true;
	snprintf(why, why_size, "%s/" FAILED_FILE ": %s", f->directory, strerror(-rc));
	return false;
}

static bool
start_databases(struct files *f, const char *cell, uint8_t replica, struct px_recovered *recovered,
                char *why, size_t why_size)
{
	return clear_mark(f, why, why_size) &&
	       logdb_start(&f->log, f->directory, cell, replica, recovered, why, why_size) &&
	       statedb_start(&f->state, f->directory, cell, why, why_size);
}

static bool
open_locked(struct files *f, const char *cell, uint8_t replica, bool others, struct tree **tree,
            struct px_recovered *recovered, char *why, size_t why_size)
{
	if (!failed_open(&f->failed, f->directory, why, why_size))
		return false;
	if (finish_earlier(f->directory, why, why_size) &&
	    read_databases(f, cell, replica, others, tree, recovered, why, why_size)) {
		if (start_databases(f, cell, replica, recovered, why, why_size)) {
			recovered->applied = tree_applied(*tree);
			recovered->applied_origin = tree_origin(*tree);
			if (recovered->chosen < recovered->applied)
				recovered->chosen = recovered->applied;
			return true;
		}
		if (f->log.db.io_failed || f->state.db.io_failed)
			failed_mark(&f->failed, why);
		tree_free(*tree);
		*tree = NULL;
		logdb_recovered_free(recovered);
		statedb_close(&f->state, true);
		logdb_close(&f->log, true);
	}
	failed_close(&f->failed);
	return false;
}

bool
files_open(struct files *f, const char *directory, const char *cell, uint8_t replica, bool others,
           struct tree **tree, struct px_recovered *recovered, char *why, size_t why_size)
{
	*f = (struct files){.directory = bytes_to_text(bytes_of(directory))};
	if (dirlock_take(&f->lock, directory, why, why_size)) {
		if (open_locked(f, cell, replica, others, tree, recovered, why, why_size))
			return true;
		dirlock_release(&f->lock);
	}
	free(f->directory);
	return false;
}

void
files_close(struct files *f)
{
	failed_close(&f->failed);
	dirlock_release(&f->lock);
	free(f->directory);
}
