#include "fs/takeover.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include "cell/base/checksum.h"
#include "cell/sys/log.h"
#include "fs/handover.h"

enum { PATIENCE_MS = 5000 };

static bool
failed(const char *mountpoint, const char *what, const char *why)
{
	return log_error("%s: %s%s: nothing has changed", mountpoint, what, why);
}

/* ---- talking ---- */

/* The answer to one word; false if there is none, or not the one expected. */
static bool
ask(struct takeover *t, const char *mountpoint, enum handover_word word,
    enum handover_word expected, char room[HANDOVER_MESSAGE], struct bytes *words, int *fds, int n)
{
	struct buffer format = BUFFER(8);
	char why[256];
	int got = 0;

	*words = (struct bytes){0};
	buffer_put_u64(&format, HANDOVER_FORMAT);
	if (handover_send(t->conn, word,
	                  word == HANDOVER_READY ? (struct bytes){0} : buffer_view(&format), NULL,
	                  0))
		got = handover_receive(t->conn, room, words, fds, n, PATIENCE_MS);
	buffer_free(&format);
	if (got == (int)expected)
		return true;
	snprintf(why, sizeof why, "%.*s", (int)words->len,
	         words->len > 0 ? (const char *)words->data : "");
	return got == HANDOVER_REFUSED ? failed(mountpoint, "can't be replaced: ", why)
	                               : failed(mountpoint, "the running lsfs does not answer", "");
}

static bool
open_connection(struct takeover *t, const char *mountpoint, const char *record)
{
	struct sockaddr_un address;
	int rc = handover_address(record, &address);

	t->conn = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	if (rc == 0 &&
	    (t->conn < 0 || connect(t->conn, (struct sockaddr *)&address, sizeof address) < 0))
		rc = -errno;
	return rc == 0 ||
	       failed(mountpoint, "no lsfs of this user serves it, or one that can't be replaced: ",
	              strerror(-rc));
}

/* ---- the offer ---- */

/* The manager knows the process by the variables that it was given; this one has its part now. */
static void
follow_manager(struct bytes manager, uint64_t watchdog)
{
	char *socket = bytes_to_text(manager), number[32];

	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	unsetenv("NOTIFY_SOCKET");
	snprintf(number, sizeof number, "%" PRIu64, watchdog * 3000);
	if (manager.len > 0)
		setenv("NOTIFY_SOCKET", socket, 1);
	if (watchdog > 0)
		setenv("WATCHDOG_USEC", number, 1);
	free(socket);
}

bool
takeover_ask(struct takeover *t, const struct options *own, const char *mountpoint,
             const char *record)
{
	struct options *o = &t->options;
	char room[HANDOVER_MESSAGE];
	struct bytes words, source = {0}, shown = {0}, manager = {0};
	uint64_t watchdog = 0;
	struct image from;
	bool good;

	*t = (struct takeover){.conn = -1, .device = -1, .record = -1, .listening = -1};
	*o = (struct options){.replace = true,
	                      .foreground = own->foreground,
	                      .debug = own->debug,
	                      .mountpoint = own->mountpoint};
	if (!open_connection(t, mountpoint, record))
		return false;
	good = ask(t, mountpoint, HANDOVER_ASK, HANDOVER_OFFER, room, &words, NULL, 0);
	close(t->conn);
	if (!good)
		return false;
	from = image_from(words);
	handover_image_offer(&from, o, &source, &shown, &manager, &watchdog);
	o->source = t->source = bytes_to_text(source);
	t->shown = bytes_to_text(shown);
	follow_manager(manager, watchdog);
	free((void *)source.data);
	free((void *)shown.data);
	free((void *)manager.data);
	return image_done(&from) ||
	       failed(mountpoint, "the running lsfs makes an offer that is not understood", "");
}

/* ---- the state ---- */

static bool
read_state(struct takeover *t, int fd)
{
	struct stat st;
	uint8_t *at;
	struct cursor c;
	uint64_t format, sum;

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < 16)
		return false;
	at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
	if (at == MAP_FAILED)
		return false;
	c = cursor_of((struct bytes){at, (size_t)st.st_size});
	format = cursor_u64(&c);
	sum = cursor_u64(&c);
	t->state = bytes_copy(cursor_bytes(&c, cursor_left(&c)));
	munmap(at, (size_t)st.st_size);
	return format == HANDOVER_FORMAT && sum == checksum(t->state);
}

bool
takeover_begin(struct takeover *t, const char *mountpoint, const char *record)
{
	char room[HANDOVER_MESSAGE];
	int fds[HANDOVER_FDS];
	struct bytes words;
	bool good;

	if (!open_connection(t, mountpoint, record) ||
	    !ask(t, mountpoint, HANDOVER_TAKE, HANDOVER_STATE, room, &words, fds, HANDOVER_FDS))
		return false;
	t->device = fds[1];
	t->record = fds[2];
	t->listening = fds[3];
	good = read_state(t, fds[0]) && t->device >= 0 && t->record >= 0 && t->listening >= 0;
	close(fds[0]);
	return good || failed(mountpoint, "the state of the running lsfs is not understood", "");
}

bool
takeover_end(struct takeover *t, const char *mountpoint)
{
	char room[HANDOVER_MESSAGE];
	struct bytes words;
	const bool good = ask(t, mountpoint, HANDOVER_READY, HANDOVER_YOURS, room, &words, NULL, 0);

	close(t->conn);
	return good;
}

void
takeover_free(struct takeover *t)
{
	options_free(&t->options);
	free(t->source);
	free((void *)t->state.data);
	free(t->shown);
}
