#include "cell/io/marks.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/io/file.h"

/* Two lines, written in turn: a torn one leaves the one before it. */
enum { LINE = 256, LINES = 2, BODY = LINE - 18 };

static void
print_line(char line[LINE + 1], const struct marks *m)
{
	memset(line, ' ', LINE);
	line[snprintf(line, BODY, "incarnation %" PRIu64 " ballot %" PRIu64 ".%u slot %" PRIu64,
	              m->incarnation, m->ballot.round, m->ballot.replica, m->slot)] = ' ';
	snprintf(line + BODY, LINE + 1 - BODY, " %016" PRIx64 "\n",
	         checksum((struct bytes){(uint8_t *)line, BODY}));
}

static bool
parse_line(const char line[LINE], struct marks *m)
{
	unsigned replica;
	uint64_t sum;
	char text[LINE + 1];

	memcpy(text, line, LINE);
	text[LINE] = '\0';
	if (sscanf(text, "incarnation %" SCNu64 " ballot %" SCNu64 ".%u slot %" SCNu64,
	           &m->incarnation, &m->ballot.round, &replica, &m->slot) != 4 ||
	    sscanf(text + BODY, " %" SCNx64, &sum) != 1 || replica > 255)
		return false;
	m->ballot.replica = (uint8_t)replica;
	return sum == checksum((struct bytes){(uint8_t *)text, BODY});
}

static bool
less(const struct marks *a, const struct marks *b)
{
	if (a->incarnation != b->incarnation)
		return a->incarnation < b->incarnation;
	if (a->slot != b->slot)
		return a->slot < b->slot;
	return a->ballot.round < b->ballot.round;
}

bool
marks_read(const char *directory, struct marks *marks, char *why, size_t why_size)
{
	struct buffer text = BUFFER(LINE * LINES);
	char path[PATH_MAX];
	int fd, rc, good = 0;

	memset(marks, 0, sizeof *marks);
	snprintf(path, sizeof path, "%s/" MARKS_FILE, directory);
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return true;
	rc = fd < 0 ? -errno : file_read(fd, LINE * LINES, &text);
	if (fd >= 0)
		close(fd);
	for (size_t at = 0; rc == 0 && at + LINE <= text.len; at += LINE) {
		struct marks m;

		if (parse_line((const char *)text.data + at, &m)) {
			good++;
			if (less(marks, &m))
				*marks = m;
		}
	}
	buffer_free(&text);
	if (good > 0)
		return true;
	snprintf(why, why_size, "%s: %s", path,
	         rc == 0 || rc == -EFBIG
	             ? "damaged: checksum (remove it if log.db is known to be whole)"
	             : strerror(-rc));
	return false;
}

static int
write_line(struct marks_file *f, const struct marks *marks)
{
	char line[LINE + 1];
	int at = f->turn * LINE;

	print_line(line, marks);
	f->turn = (f->turn + 1) % LINES;
	return file_write_at(f->fd, (struct bytes){(uint8_t *)line, LINE}, at);
}

/* A new file comes into being whole, so that none is ever found without a good line. */
static int
create_if_missing(const char *path, const struct marks *marks)
{
	char line[LINE + 1];
	int rc;

	print_line(line, marks);
	rc = file_create(path, (struct bytes){(uint8_t *)line, LINE}, 0600);
	return rc == -EEXIST ? 0 : rc;
}

int
marks_open(struct marks_file *f, const char *directory, const struct marks *marks)
{
	char path[PATH_MAX];
	int rc;

	snprintf(path, sizeof path, "%s/" MARKS_FILE, directory);
	rc = create_if_missing(path, marks);
	f->turn = 0;
	f->fd = rc == 0 ? open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW) : -1;
	if (f->fd < 0)
		return rc < 0 ? rc : -errno;
	/* One synced line at a time: the other one is whole whatever happens. */
	for (int i = 0; i < LINES && rc == 0; i++) {
		rc = write_line(f, marks);
		if (rc == 0 && fdatasync(f->fd) < 0)
			rc = -errno;
	}
	if (rc < 0)
		marks_close(f);
	return rc;
}

void
marks_write(struct marks_file *f, const struct marks *marks)
{
	(void)write_line(f, marks);
}

void
marks_close(struct marks_file *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
