#include "cell/base/must.h"
#include "cell/store/internal.h"

/* Pages of the write-ahead log: a commit of one small record writes one or two. TOO_MANY of them,
 * and the pages that they need in the file, fit into the reserve. */
enum { MANY = 512, FEW = 64, TOO_MANY = 1536 };

/* ---- in the checkpointer's thread ---- */

static enum work
run(void *user, const struct job_list *batch)
{
	struct checkpointer *c = user;

	(void)batch;
	if (c->db.handle == NULL && !sqlite_open_again(&c->db, c->log->kind, c->path))
		return c->db.io_failed ? WORK_FAILED : WORK_DONE;
	return sqlite_checkpoint(&c->db);
}

static enum work
tidy(void *user, bool idle)
{
	(void)user;
	(void)idle;
	return WORK_DONE;
}

static void
finish(void *user)
{
	(void)sqlite_close(&((struct checkpointer *)user)->db, true);
}

static void
failed(void *user)
{
	struct checkpointer *c = user;

	c->failed(c->user, &c->db);
}

static void
wake(void *user)
{
	uv_sem_post(&((struct checkpointer *)user)->news);
}

static const struct writer_thread_ops ops = {run, tidy, finish, failed, wake};

/* ---- in the thread that commits ---- */

void
checkpointer_init(struct checkpointer *c, struct sqlite_db *log, atomic_bool *broken,
                  void (*on_failure)(void *user, const struct sqlite_db *db), void *user)
{
	*c = (struct checkpointer){.log = log, .failed = on_failure, .user = user};
	must(uv_sem_init(&c->news, 0) == 0);
	writer_thread_init(&c->writer, "log.db-wal", &ops, c, broken);
}

/* With `wait` only when the thread has failed. */
static bool
is_under_way(struct checkpointer *c, bool wait)
{
	struct writer_thread_news news;

	while (c->under_way) {
		writer_thread_collect(&c->writer, &news);
		c->under_way = TAILQ_EMPTY(&news.done);
		if (!c->under_way || !wait || news.exited)
			break;
		uv_sem_wait(&c->news);
	}
	return c->under_way;
}

/* Gives the thread a checkpoint to do; false when there can be no thread. */
static bool
begin(struct checkpointer *c)
{
	if (!c->started) {
		c->path = sqlite3_db_filename(c->log->handle, "main");
		c->started = writer_thread_start(&c->writer) == 0;
	}
	if (!c->started)
		return false;
	c->moved = c->log->wal_pages;
	c->under_way = true;
	writer_thread_put(&c->writer, &c->job);
	return true;
}

enum work
checkpointer_tidy(struct checkpointer *c, bool scarce)
{
	const int pages = c->log->wal_pages;
	bool rest_is_short, must_be_now;

	/* The commits wait for a checkpoint that is slower than they are. */
	if (is_under_way(c, pages >= TOO_MANY))
		return WORK_DONE;
	if (pages < c->moved)
		c->moved = 0; /* SQLite has started the write-ahead log over */
	rest_is_short = c->moved > 0 && pages - c->moved <= FEW;
	must_be_now = pages >= TOO_MANY || (scarce && pages > FEW);
	if (!rest_is_short && !must_be_now && (pages < MANY || begin(c)))
		return WORK_DONE;
	c->moved = 0;
	return sqlite_checkpoint(c->log);
}

void
checkpointer_finish(struct checkpointer *c)
{
	if (!c->started)
		return;
	writer_thread_finish(&c->writer);
	writer_thread_join(&c->writer);
}

void
checkpointer_fini(struct checkpointer *c)
{
	struct job_list rest;

	writer_thread_fini(&c->writer, &rest);
	uv_sem_destroy(&c->news);
}
