/* Writes and reads through io_uring(7), at offsets.
 *
 *	ring write FILE TEXT...	the texts, one behind the other
 *	ring read FILE		prints what one read of 64 KiB gets
 *
 * The exit status is 77 where the kernel has no io_uring for this process. */
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int ring;
static struct io_uring_params params;
static char *submissions, *completions;
static struct io_uring_sqe *entries;

static void
check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "ring: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void *
map(size_t size, off_t offset)
{
	void *at =
	    mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring, offset);

	check(at != MAP_FAILED, "mmap");
	return at;
}

/* One operation, done when this returns: the number of bytes. */
static size_t
transfer(int code, int fd, const void *data, size_t size, size_t offset)
{
	unsigned *tail = (unsigned *)(void *)(submissions + params.sq_off.tail);
	unsigned *head = (unsigned *)(void *)(completions + params.cq_off.head);
	struct io_uring_cqe *done =
	    (struct io_uring_cqe *)(void *)(completions + params.cq_off.cqes);

	memset(entries, 0, sizeof *entries);
	entries->opcode = (unsigned char)code;
	entries->fd = fd;
	entries->addr = (unsigned long)data;
	entries->len = (unsigned)size;
	entries->off = offset;
	__atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
	check(syscall(SYS_io_uring_enter, ring, 1, 1, IORING_ENTER_GETEVENTS, NULL, 0) == 1,
	      "io_uring_enter");
	done += *head & (params.cq_entries - 1);
	errno = -done->res;
	check(done->res >= 0, "a transfer");
	__atomic_store_n(head, *head + 1, __ATOMIC_RELEASE);
	return (size_t)done->res;
}

int
main(int argc, char **argv)
{
	static char text[64 * 1024];
	size_t offset = 0;
	int fd;

	check(argc > 2, "usage: ring write|read FILE [TEXT...]");
	ring = (int)syscall(SYS_io_uring_setup, 1, &params);
	if (ring < 0)
		exit(77);
	submissions =
	    map(params.sq_off.array + params.sq_entries * sizeof(unsigned), IORING_OFF_SQ_RING);
	completions = map(params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
	                  IORING_OFF_CQ_RING);
	entries = map(params.sq_entries * sizeof *entries, IORING_OFF_SQES);

	if (strcmp(argv[1], "read") == 0) {
		fd = open(argv[2], O_RDONLY);
		check(fd >= 0, argv[2]);
		offset = transfer(IORING_OP_READ, fd, text, sizeof text, 0);
		check(fwrite(text, 1, offset, stdout) == offset, "standard output");
		return fflush(stdout) != 0;
	}
	fd = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0644);
	check(fd >= 0, argv[2]);
	for (int n = 3; n < argc; n++)
		offset += transfer(IORING_OP_WRITE, fd, argv[n], strlen(argv[n]), offset);
	check(close(fd) == 0, "close");
	return 0;
}
