#include "cell/server/cell_file_writer.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/log.h"

struct cell_file_writer {
	uv_loop_t *loop;
	char path[PATH_MAX];
	uint8_t self;
	void (*failed)(void *user, const char *why);
	void *user;
	struct cell_file cell_file; /* as it is to be */
	struct cell_file writing;   /* by the thread */
	uv_work_t work;
	bool busy;
	int rc;              /* of the last writing */
	void (*stopped)(void *user); /* NULL: not stopping */
	void *stopped_user;
};

static void begin(struct cell_file_writer *c);

static void
end(struct cell_file_writer *c)
{
	void (*stopped)(void *user) = c->stopped;
	void *user = c->stopped_user;

	free(c);
	stopped(user);
}

static void
write_it(uv_work_t *work)
{
	struct cell_file_writer *c = work->data;

	c->rc = cell_file_replace(c->path, &c->writing);
}

static void
disk_failed(struct cell_file_writer *c)
{
	char why[PATH_MAX + 100];

	snprintf(why, sizeof why, "%s: %s", c->path, strerror(-c->rc));
	c->failed(c->user, why);
}

/* A disk that fails here fails. What else can't be written is of no use to anybody before the next
 * start: there is nothing to stop for. */
static void
on_written(uv_work_t *work, int status)
{
	struct cell_file_writer *c = work->data;

	must(status == 0);
	c->busy = false;
	if (c->rc == -EIO || c->rc == -EROFS)
		disk_failed(c);
	else if (c->rc < 0)
		log_warn("%s: cannot be brought up to date: %s", c->path, strerror(-c->rc));
	if (c->stopped != NULL)
		end(c);
	else if (c->cell_file.version > c->writing.version)
		begin(c);
}

static void
begin(struct cell_file_writer *c)
{
	c->busy = true;
	c->writing = c->cell_file;
	must(uv_queue_work(c->loop, &c->work, write_it, on_written) == 0);
}

struct cell_file_writer *
cell_file_writer_new(uv_loop_t *loop, const struct cell_file_writer_config *config)
{
	struct cell_file_writer *c = memory_zero(1, sizeof *c);

	c->loop = loop;
	snprintf(c->path, sizeof c->path, "%s/cell.conf", config->directory);
	c->cell_file = *config->cell_file;
	c->self = config->self;
	c->failed = config->failed;
	c->user = config->user;
	c->work.data = c;
	return c;
}

uint64_t
cell_file_writer_version(const struct cell_file_writer *c)
{
	return c->cell_file.version;
}

void
cell_file_writer_follow(struct cell_file_writer *c, uint64_t version,
                        const struct cell_file_replica *list, int n)
{
	struct cell_file cell_file = c->cell_file;
	bool has_self = false;

	if (version <= c->cell_file.version || c->stopped != NULL)
		return;
	cell_file.version = version;
	cell_file.replicas_n = 0;
	for (int i = 0; i < n; i++) {
		if (list[i].role == MEMBER_REMOVED)
			continue;
		must(cell_file.replicas_n < LIMIT_REPLICAS);
		cell_file.replicas[cell_file.replicas_n++] = list[i];
		has_self |= list[i].id == c->self;
	}
	if (!has_self)
		return;
	c->cell_file = cell_file;
	if (!c->busy)
		begin(c);
}

void
cell_file_writer_stop(struct cell_file_writer *c, void (*stopped)(void *user), void *user)
{
	c->stopped = stopped;
	c->stopped_user = user;
	if (!c->busy)
		end(c);
}
