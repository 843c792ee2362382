#include "cell/server/internal.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"

enum { RETRY_S = 10 };

struct cell_file_writer {
	const struct server_io *io;
	uint8_t self;
	struct cell_file cell_file; /* the newest version, written or still to be written */
	struct sign_keys keys, writing, durable;
	bool busy, due; /* due: there is something newer than what is being written */
	bool failed;    /* the last time */
	mono_t again;
};

static void
begin(struct cell_file_writer *c)
{
	c->busy = true;
	c->due = false;
	c->again = MONO_NEVER;
	c->writing = c->keys;
	c->io->directory.write_cell_file(c->io->directory.user, &c->cell_file, &c->keys);
}

static void
change(struct cell_file_writer *c)
{
	c->due = true;
	if (!c->busy)
		begin(c);
}

/* An I/O error is a failure of the disk. */
void
cell_file_writer_written(struct cell_file_writer *c, enum rc rc, bool keys_kept, const char *why)
{
	must(c->busy);
	c->busy = false;
	if (keys_kept)
		c->durable = c->writing;
	if (rc == RC_IO) {
		c->io->store.fail(c->io->store.store, why);
	} else if (rc != RC_OK) {
		/* The server goes on: the cell file is not read again before the next start. */
		if (!c->failed)
			clock_io_log(&c->io->clock, LEVEL_WARN,
			             "the cell file is not up to date: %s", why);
		c->again = mono_add(clock_io_now(&c->io->clock), span_s(RETRY_S));
	}
	c->failed = rc != RC_OK;
	if (c->due)
		begin(c);
}

void
cell_file_writer_set_keys(struct cell_file_writer *c, const struct sign_keys *keys,
                          const uint8_t *newest, const uint8_t *former, uint64_t since)
{
	struct cell_file *f = &c->cell_file;

	c->keys = *keys;
	if (newest != NULL) {
		memcpy(f->signing_public, newest, SIGN_PUBLIC);
		memcpy(f->former_public, former, SIGN_PUBLIC);
		f->has_former = true;
		f->key_version = since;
	}
	change(c);
}

void
cell_file_writer_retry(struct cell_file_writer *c)
{
	if (!c->busy)
		begin(c);
}

mono_t
cell_file_writer_deadline(const struct cell_file_writer *c)
{
	return c->again;
}

void
cell_file_writer_timeout(struct cell_file_writer *c, mono_t now)
{
	if (mono_reached(now, c->again))
		begin(c);
}

bool
cell_file_writer_busy(const struct cell_file_writer *c)
{
	return c->busy;
}

const struct sign_keys *
cell_file_writer_keys(const struct cell_file_writer *c)
{
	return &c->durable;
}

struct cell_file_writer *
cell_file_writer_new(const struct server_io *io, const struct identity *identity)
{
	struct cell_file_writer *c = memory_zero(1, sizeof *c);

	c->io = io;
	c->again = MONO_NEVER;
	c->cell_file = identity->cell_file;
	c->keys = c->durable = identity->signing;
	c->self = identity->replica;
	return c;
}

void
cell_file_writer_free(struct cell_file_writer *c)
{
	if (c != NULL)
		sodium_memzero(c, sizeof *c);
	free(c);
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

	if (version <= c->cell_file.version)
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
	change(c);
}
