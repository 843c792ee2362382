#include "cell/store/watermark.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/sys/file.h"

/* Each database has two lines, written in turn: when a write is torn, the line before it is
 * whole. */
enum { LINE = 256, LINES = 2, LINES_IN_ALL = 4, BODY = LINE - 18 };

static void
print_line(char line[LINE + 1], const struct watermark *m)
{
	memset(line, ' ', LINE);
	line[snprintf(line, BODY,
	              "%" PRIu64 " incarnation %" PRIu64 " ballot %" PRIu64 ".%u slot %" PRIu64
	              " wal %016" PRIx64 " %" PRIu32 " own %" PRIu64 " %016" PRIx64,
	              m->count, m->incarnation, m->ballot.round, m->ballot.replica, m->slot,
	              m->wal.salt, m->wal.frames, m->own, m->start)] = ' ';
	snprintf(line + BODY, LINE + 1 - BODY, " %016" PRIx64 "\n",
	         checksum((struct bytes){(uint8_t *)line, BODY}));
}

/* An earlier program has written no own mark. */
static bool
parse_line(const char line[LINE], struct watermark *m)
{
	unsigned replica;
	uint64_t sum;
	char text[LINE + 1];

	memcpy(text, line, LINE);
	text[LINE] = '\0';
	if (sscanf(text,
	           "%" SCNu64 " incarnation %" SCNu64 " ballot %" SCNu64 ".%u slot %" SCNu64
	           " wal %" SCNx64 " %" SCNu32 " own %" SCNu64 " %" SCNx64,
	           &m->count, &m->incarnation, &m->ballot.round, &replica, &m->slot, &m->wal.salt,
	           &m->wal.frames, &m->own, &m->start) < 7 ||
	    sscanf(text + BODY, " %" SCNx64, &sum) != 1 || replica > 255)
		return false;
	m->ballot.replica = (uint8_t)replica;
	return sum == checksum((struct bytes){(uint8_t *)text, BODY});
}

static void
path_of(char path[PATH_MAX], const char *directory)
{
	snprintf(path, PATH_MAX, "%s/" WATERMARK_FILE, directory);
}

static int
read_lines(const char *path, struct buffer *text)
{
	int fd = file_open(path, O_RDONLY | O_NOFOLLOW);
	int rc = fd < 0 ? fd : file_read(fd, LINE * LINES_IN_ALL, text);

	if (fd >= 0)
		close(fd);
	return rc;
}

int
watermark_read(const char *directory, enum watermark_of of, struct watermark *watermark)
{
	struct buffer text = BUFFER(LINE * LINES_IN_ALL);
	char path[PATH_MAX];
	int rc, good = 0;

	path_of(path, directory);
	rc = read_lines(path, &text);
	*watermark = (struct watermark){0};
	for (size_t i = 0, at = (size_t)of * LINES * LINE; i < LINES && rc == 0; i++, at += LINE) {
		struct watermark m = {0};

		if (at + LINE > text.len || !parse_line((const char *)text.data + at, &m))
			continue;
		good++;
		if (m.count >= watermark->count)
			*watermark = m;
	}
	buffer_free(&text);
	if (rc == -ENOENT)
		return 0;
	return rc == -EFBIG || rc == -EIO || (rc == 0 && good == 0) ? -EBADMSG : rc;
}

static int
write_line(struct watermark_file *f, struct watermark *watermark)
{
	char line[LINE + 1];
	int at = ((int)f->of * LINES + f->turn) * LINE;

	watermark->count++;
	print_line(line, watermark);
	f->turn = (f->turn + 1) % LINES;
	return file_write_at(f->fd, (struct bytes){(uint8_t *)line, LINE}, at);
}

int
watermark_open(struct watermark_file *f, const char *directory, enum watermark_of of,
               struct watermark *watermark)
{
	char path[PATH_MAX], text[LINES_IN_ALL * LINE + 1];
	struct bytes lines = {(uint8_t *)text, LINES_IN_ALL * LINE};
	struct buffer old = BUFFER(LINE * LINES_IN_ALL);
	struct watermark none = {0};
	int rc;

	/* A new file is created atomically with all its lines: a file without a good line of each
	 * database is always damaged. */
	path_of(path, directory);
	for (int i = 0; i < LINES_IN_ALL; i++)
		print_line(text + (size_t)i * LINE, &none);
	rc = file_create(path, lines, 0600);
	/* Where a sector can't be read, no part of it can be written. */
	if (rc == -EEXIST)
		rc = read_lines(path, &old) == -EIO ? file_replace(path, lines, 0600) : 0;
	buffer_free(&old);
	f->of = of;
	f->turn = 0;
	f->fd = rc == 0 ? file_open(path, O_RDWR | O_NOFOLLOW) : rc;
	if (f->fd < 0)
		return f->fd;
	if (ftruncate(f->fd, LINES_IN_ALL * LINE) < 0)
		rc = -errno;
	/* One line is synced before the next is written, so that one of them is always whole. */
	for (int i = 0; i < LINES && rc == 0; i++) {
		rc = write_line(f, watermark);
		if (rc == 0 && fdatasync(f->fd) < 0)
			rc = -errno;
	}
	if (rc < 0)
		watermark_close(f);
	return rc;
}

/* The kernel alone would keep the line in memory for half a minute. All lines are in one block,
 * whose write-back is begun with those of state.db: what the log commits is soon applied, and
 * written there. The file's blocks are allocated, so no metadata has to be written with it. */
void
watermark_write(struct watermark_file *f, struct watermark *watermark)
{
	if (write_line(f, watermark) == 0 && f->of == WATERMARK_STATE)
		sync_file_range(f->fd, 0, 0, SYNC_FILE_RANGE_WRITE);
}

void
watermark_close(struct watermark_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
