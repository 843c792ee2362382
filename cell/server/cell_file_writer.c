#include "cell/server/cell_file_writer.h"

#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"

struct cell_file_writer {
	const struct server_io *io;
	uint8_t self;
	struct cell_file cell_file; /* the newest version, written or still to be written */
	uint64_t writing;           /* the version that is being written */
	bool busy;
};

static void
begin(struct cell_file_writer *c)
{
	c->busy = true;
	c->writing = c->cell_file.version;
	c->io->write_cell_file(c->io->user, &c->cell_file);
}

/* An I/O error is a failure of the disk. After any other error the server goes on: the cell file is
 * not read again before the next start. */
void
cell_file_writer_written(struct cell_file_writer *c, enum rc rc, const char *why)
{
	must(c->busy);
	c->busy = false;
	if (rc == RC_IO)
		c->io->fail(c->io->user, why);
	else if (rc != RC_OK)
		server_io_log(c->io, SERVER_WARN, "the cell file is not up to date: %s", why);
	if (c->cell_file.version > c->writing)
		begin(c);
}

struct cell_file_writer *
cell_file_writer_new(const struct server_io *io, const struct cell_file *cell_file, uint8_t self)
{
	struct cell_file_writer *c = memory_zero(1, sizeof *c);

	c->io = io;
	c->cell_file = *cell_file;
	c->self = self;
	return c;
}

void
cell_file_writer_free(struct cell_file_writer *c)
{
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
	if (!c->busy)
		begin(c);
}
