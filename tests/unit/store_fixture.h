/* A store in a directory of its own, on a loop of its own, with everything it tells written down.
 */
#ifndef LSFS_TESTS_STORE_FIXTURE_H
#define LSFS_TESTS_STORE_FIXTURE_H

#include <uv.h>
#include "cell/store/store.h"

struct fixture {
	char directory[64];
	bool others; /* the cell has more replicas */
	uv_loop_t loop;
	struct store *store;
	struct tree *tree;
	struct px_recovered recovered;
	char why[512];
	/* what the callbacks told */
	uint64_t persisted, saved; /* the last one */
	size_t unsaved;            /* as it was told then */
	bool in_order;             /* tickets came one by one */
	bool full, failed, closed;
	int fulls; /* how often it got full */
	char reason[512];
};

/* For cmocka: makes the fixture that *state points to, and removes it. */
int fixture_setup(void **state);
int fixture_teardown(void **state);

/* The directory, in memory where the system has a place for that, and the loop. */
void fixture_make(struct fixture *f);
bool fixture_open(struct fixture *f); /* store_open; false with `why` */
void fixture_start(struct fixture *f);
void fixture_open_started(struct fixture *f); /* both; a failure of the test if it can't */
int fixture_try_start(struct fixture *f);     /* store_start */
/* Runs the loop until the store closed, frees what was loaded. */
void fixture_close(struct fixture *f);
void fixture_remove(struct fixture *f); /* the directory and the loop */

/* Logs one entry as `ticket` = slot. */
void fixture_log(struct fixture *f, uint64_t slot, struct bytes payload);
/* Entries that say "entry N" for their slot. */
void fixture_log_slots(struct fixture *f, uint64_t first, uint64_t last);
/* Rows of node 2: its contents as of `applied`. */
void fixture_save(struct fixture *f, uint64_t applied, struct bytes contents);
void fixture_wait_persisted(struct fixture *f, uint64_t ticket);
void fixture_wait_saved(struct fixture *f, uint64_t applied);
void fixture_wait_full(struct fixture *f, bool full);
void fixture_wait_failed(struct fixture *f);

/* Logs a record behind all others, and waits until it is durable. */
void fixture_put(struct fixture *f, const struct px_record *record);
void fixture_put_lease(struct fixture *f, int64_t ms);

/* ---- the files, from outside ---- */

/* The path of one of them; the next call but one changes it. */
const char *fixture_path(const struct fixture *f, const char *name);
bool fixture_has(const struct fixture *f, const char *name);
void fixture_remove_file(struct fixture *f, const char *name);
/* Puts bytes into one of them, which is made where it is missing. */
void fixture_overwrite(struct fixture *f, const char *name, long offset, const void *bytes,
                       size_t n);
/* Expects that the store can't be opened, and that the one line which tells why has this text. */
void fixture_refused(struct fixture *f, const char *reason);

/* Runs a statement on one of them. */
void fixture_sql(struct fixture *f, const char *file, const char *sql);
/* The number that a SELECT answers. */
int64_t fixture_number(struct fixture *f, const char *file, const char *sql);

#endif
