/* While nothing else is to be done log.db deletes what was trimmed, in transactions of their own. A
 * disk that fails in one of those must be told like any other. */
#include "cell/store/log_db.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

enum { ENTRIES = 1000 };

enum work __real_log_db_tidy(struct log_db *log);
enum work __wrap_log_db_tidy(struct log_db *log);
enum work __real_sqlite_end(struct sqlite_db *db, int rc);
enum work __wrap_sqlite_end(struct sqlite_db *db, int rc);

static struct fixture f;
static _Thread_local bool tidies; /* the thread that writes log.db */

enum work
__wrap_log_db_tidy(struct log_db *log)
{
	enum work work;

	tidies = true;
	work = __real_log_db_tidy(log);
	tidies = false;
	return work;
}

enum work
__wrap_sqlite_end(struct sqlite_db *db, int rc)
{
	if (!tidies)
		return __real_sqlite_end(db, rc);
	(void)__real_sqlite_end(db, SQLITE_IOERR);
	return WORK_FAILED;
}

TEST_ON(test_a_failure_while_idle_is_told, fixture_setup, fixture_teardown, &f)
{
	struct px_record trim = {.kind = PX_RECORD_TRIM, .slot = ENTRIES};

	fixture_open_started(&f);
	fixture_log_slots(&f, 1, ENTRIES);
	fixture_wait_persisted(&f, ENTRIES);
	store_log(f.store, ENTRIES + 1, &trim, 1);
	fixture_wait_failed(&f);
	fixture_close(&f);
}
