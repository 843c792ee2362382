#include "cell/store/watermark.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "cell/base/memory.h"

/* https://www.sqlite.org/fileformat2.html#the_write_ahead_log */
enum { HEAD = 32, FRAME_HEAD = 24, MAGIC = 0x377f0682, PAGE_MAX = 65536 };

struct sum {
	uint32_t a, b;
};

struct reader {
	int fd;
	bool big_endian; /* byte order of the words that the checksums add up */
	uint32_t page_size;
	uint8_t salts[8];
	struct sum sum;
	uint8_t *frame;
};

static uint32_t
big(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

static uint32_t
little(const uint8_t *at)
{
	return (uint32_t)at[3] << 24 | (uint32_t)at[2] << 16 | (uint32_t)at[1] << 8 | at[0];
}

static struct sum
add_up(const struct reader *r, struct sum sum, const uint8_t *data, size_t len)
{
	for (size_t i = 0; i + 8 <= len; i += 8) {
		sum.a += (r->big_endian ? big(data + i) : little(data + i)) + sum.b;
		sum.b += (r->big_endian ? big(data + i + 4) : little(data + i + 4)) + sum.a;
	}
	return sum;
}

static bool
sum_is(struct sum sum, const uint8_t *stored)
{
	return sum.a == big(stored) && sum.b == big(stored + 4);
}

static uint64_t
salt_of(const uint8_t *at)
{
	return (uint64_t)big(at) << 32 | big(at + 4);
}

static bool
read_head(struct reader *r)
{
	uint8_t head[HEAD];

	if (pread(r->fd, head, HEAD, 0) != HEAD || (big(head) & ~1u) != MAGIC)
		return false;
	r->big_endian = (big(head) & 1) != 0;
	r->page_size = big(head + 8);
	for (int i = 0; i < 8; i++)
		r->salts[i] = head[16 + i];
	r->sum = add_up(r, (struct sum){0, 0}, head, 24);
	return sum_is(r->sum, head + 24) && r->page_size >= 512 && r->page_size <= PAGE_MAX;
}

/* Reads the next frame; false when its checksum does not continue that of the frame before. */
static bool
read_frame(struct reader *r, off_t at)
{
	uint8_t *f = r->frame;
	size_t len = FRAME_HEAD + r->page_size;

	if (pread(r->fd, f, len, at) != (ssize_t)len || big(f) == 0)
		return false;
	for (int i = 0; i < 8; i++) {
		if (f[8 + i] != r->salts[i])
			return false;
	}
	r->sum = add_up(r, r->sum, f, 8);
	r->sum = add_up(r, r->sum, f + FRAME_HEAD, r->page_size);
	return sum_is(r->sum, f + 16);
}

/* True for a file without a header, or with one of zeros, as a crash while SQLite makes the file
 * leaves it. */
static bool
is_empty(const struct reader *r)
{
	uint8_t head[HEAD];

	if (pread(r->fd, head, HEAD, 0) != HEAD)
		return true;
	for (int i = 0; i < HEAD; i++) {
		if (head[i] != 0)
			return false;
	}
	return true;
}

int
wal_check(const char *path, struct wal_extent *found)
{
	struct reader r = {.fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
	off_t at = HEAD;
	bool ok;

	*found = (struct wal_extent){0, 0};
	if (r.fd < 0)
		return errno == ENOENT ? 0 : -errno;
	ok = is_empty(&r);
	if (!ok && read_head(&r)) {
		found->salt = salt_of(r.salts);
		r.frame = memory_zero(1, FRAME_HEAD + r.page_size);
		for (uint32_t n = 1; read_frame(&r, at);
		     n++, at += (off_t)(FRAME_HEAD + r.page_size)) {
			if (big(r.frame + 4) != 0)
				found->frames = n;
		}
		free(r.frame);
		ok = true;
	}
	close(r.fd);
	return ok ? 0 : -EBADMSG;
}

uint64_t
wal_salt(int fd)
{
	uint8_t salts[8];

	return pread(fd, salts, sizeof salts, 16) == sizeof salts ? salt_of(salts) : 0;
}
