#include "fs/handover.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/sys/process.h"

enum {
	WORD_MS = 200,   /* until a process that has connected says what it wants */
	STILL_MS = 400,  /* until nothing is under way any more; */
	LOOK_MS = 1,     /* between two looks whether that is so */
	READY_MS = 2000, /* until the other process has read the image */
};

/* ---- messages ---- */

bool
handover_send(int conn, enum handover_word word, struct bytes words, const int *fds, int n)
{
	char first = (char)word, control[CMSG_SPACE(HANDOVER_FDS * sizeof(int))] = {0};
	struct iovec parts[] = {{&first, 1}, {(void *)words.data, words.len}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = 2};
	struct cmsghdr *c;

	if (n > 0) {
		m.msg_control = control;
		m.msg_controllen = CMSG_SPACE((size_t)n * sizeof(int));
		c = CMSG_FIRSTHDR(&m);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN((size_t)n * sizeof(int));
		memcpy(CMSG_DATA(c), fds, (size_t)n * sizeof(int));
	}
	return sendmsg(conn, &m, MSG_NOSIGNAL) == (ssize_t)words.len + 1;
}

int
handover_receive(int conn, char room[HANDOVER_MESSAGE], struct bytes *words, int *fds, int n,
                 int patience_ms)
{
	char control[CMSG_SPACE(HANDOVER_FDS * sizeof(int))];
	struct iovec part = {room, HANDOVER_MESSAGE};
	struct msghdr m = {.msg_iov = &part,
	                   .msg_iovlen = 1,
	                   .msg_control = control,
	                   .msg_controllen = sizeof control};
	struct pollfd wait = {.fd = conn, .events = POLLIN};
	const struct cmsghdr *c;
	ssize_t len;

	*words = (struct bytes){0};
	if (poll(&wait, 1, patience_ms) != 1 || (len = recvmsg(conn, &m, MSG_CMSG_CLOEXEC)) < 1)
		return 0;
	c = CMSG_FIRSTHDR(&m);
	for (int i = 0; i < n; i++)
		fds[i] = -1;
	if (c != NULL && c->cmsg_type == SCM_RIGHTS)
		for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof fd, sizeof fd);
			if (i < (size_t)n)
				fds[i] = fd;
			else
				close(fd);
		}
	if (m.msg_flags & (MSG_TRUNC | MSG_CTRUNC))
		return 0;
	*words = (struct bytes){(uint8_t *)room + 1, (size_t)len - 1};
	return (unsigned char)room[0];
}

int
handover_address(const char *record, struct sockaddr_un *address)
{
	const size_t room = sizeof address->sun_path;

	*address = (struct sockaddr_un){.sun_family = AF_UNIX};
	return snprintf(address->sun_path, room, "%s.socket", record) < (int)room ? 0
	                                                                          : -ENAMETOOLONG;
}

static void
image_text(struct image *i, char **text)
{
	struct bytes b = bytes_of(*text != NULL ? *text : "");

	image_bytes(i, &b);
	if (!image_reads(i))
		return;
	*text = b.len > 0 ? bytes_to_text(b) : NULL;
	free((void *)b.data);
}

void
handover_image_offer(struct image *i, struct options *o, struct bytes *source, struct bytes *shown,
                     struct bytes *manager, uint64_t *watchdog)
{
	IMAGE(i, o->lock_delay_s);
	IMAGE(i, o->grace_s);
	IMAGE(i, o->lasting);
	IMAGE(i, o->commit_at_write);
	IMAGE(i, o->quiet);
	IMAGE(i, o->umask);
	IMAGE(i, o->allow_other);
	image_text(i, &o->kernel);
	image_text(i, &o->key);
	image_bytes(i, source);
	image_bytes(i, shown);
	image_bytes(i, manager);
	IMAGE(i, *watchdog);
}

/* ---- the state ---- */

/* The image after its format and checksum, in a file without a name; -1: it can't be made. */
static int
make_image(struct handover *h)
{
	struct buffer state = BUFFER(SIZE_MAX), file = BUFFER(SIZE_MAX);
	struct image to = image_to(&state);
	int fd = memfd_create("lsfs", MFD_CLOEXEC);

	device_save(h->device, &to);
	engine_save(h->engine, &to);
	buffer_put_u64(&file, HANDOVER_FORMAT);
	buffer_put_u64(&file, checksum(buffer_view(&state)));
	buffer_put_bytes(&file, buffer_view(&state));
	if (fd >= 0 && write(fd, file.data, file.len) != (ssize_t)file.len) {
		close(fd);
		fd = -1;
	}
	buffer_free(&state);
	buffer_free(&file);
	return fd;
}

/* ---- one process that asks ---- */

static void
refuse(int conn, const char *why)
{
	log_warn("another process asks for the mount: refused: %s", why);
	handover_send(conn, HANDOVER_REFUSED, bytes_of(why), NULL, 0);
}

static void
offer(struct handover *h, int conn)
{
	struct options o = *h->options;
	struct bytes source = bytes_of(h->source->path), shown = bytes_of(h->source->shown);
	const char *notify = getenv("NOTIFY_SOCKET");
	const bool managed = o.foreground || o.replace;
	struct bytes manager = bytes_of(managed && notify != NULL ? notify : "");
	uint64_t watchdog = managed ? notify_watchdog_ms() : 0;
	struct buffer words = BUFFER(HANDOVER_MESSAGE - 1);
	struct image to = image_to(&words);

	o.key = (char *)h->source->key_path;
	handover_image_offer(&to, &o, &source, &shown, &manager, &watchdog);
	if (words.failed)
		refuse(conn, "its options are too long");
	else
		handover_send(conn, HANDOVER_OFFER, buffer_view(&words), NULL, 0);
	buffer_free(&words);
}

/* The one moment at which the mount changes hands. After YOURS this process ends, and closes
 * nothing in order: neither the session nor the mount is its own any more. */
static void
give(struct handover *h, int image)
{
	const int fds[HANDOVER_FDS] = {image, fuse_session_fd(h->device->fuse),
	                               h->mountpoint->run.fd, h->listening};
	char room[HANDOVER_MESSAGE], line[64];
	struct bytes words;

	if (!handover_send(h->conn, HANDOVER_STATE, (struct bytes){0}, fds, HANDOVER_FDS) ||
	    handover_receive(h->conn, room, &words, NULL, 0, READY_MS) != HANDOVER_READY)
		return;
	snprintf(line, sizeof line, "MAINPID=%ld", (long)h->heir);
	if (!handover_send(h->conn, HANDOVER_YOURS, (struct bytes){0}, NULL, 0))
		return;
	log_info("%s: process %ld goes on with the mount", h->mountpoint->path, (long)h->heir);
	if (h->options->foreground || h->options->replace)
		notify_manager(line);
	_exit(0);
}

/* This process goes on with the mount. The other one is refused, for the reason `why`; NULL: it has
 * failed. */
static void
go_on(struct handover *h, const char *why)
{
	if (why != NULL)
		refuse(h->conn, why);
	close(h->conn);
	h->conn = -1;
	uv_timer_stop(&h->timer);
	device_resume(h->device);
}

static void
on_look(uv_timer_t *timer)
{
	struct handover *h = timer->data;
	int image;

	if (!device_is_still(h->device) || !engine_is_still(h->engine)) {
		if (mono_reached(clock_now(), h->until))
			go_on(h, "calls are under way that the cell does not answer; try again "
			         "when it does");
		return;
	}
	image = make_image(h);
	if (image < 0) {
		go_on(h, "no memory for the state");
		return;
	}
	give(h, image);
	close(image);
	log_warn("%s: the other process has failed: this one goes on", h->mountpoint->path);
	go_on(h, NULL);
}

/* The reason why the mount can't be handed over now; NULL if it can. */
static const char *
obstacle(const struct handover *h)
{
	if (h->source->process != NULL)
		return "its cell runs in the same process: unmount it and mount it again";
	if (h->conn >= 0)
		return "it is being handed over to another process";
	if (!h->device->polling || engine_status(h->engine).state != CLIENT_SAFE)
		return "its session is not safe: try again when the cell answers";
	return NULL;
}

static void
serve(struct handover *h, int conn, const struct ucred *peer)
{
	char room[HANDOVER_MESSAGE];
	struct bytes words;
	const int word = handover_receive(conn, room, &words, NULL, 0, WORD_MS);
	struct cursor format = cursor_of(words);
	const char *why = obstacle(h);

	if (word == 0)
		return;
	if (cursor_u64(&format) != HANDOVER_FORMAT || !cursor_done(&format))
		why = "the two versions of lsfs keep their state in different formats: unmount it "
		      "and mount it again";
	if (why != NULL) {
		refuse(conn, why);
	} else if (word == HANDOVER_ASK) {
		offer(h, conn);
	} else if (word == HANDOVER_TAKE) {
		h->conn = dup(conn);
		h->heir = peer->pid;
		h->until = mono_add(clock_now(), span_ms(STILL_MS));
		device_hold(h->device);
		must(uv_timer_start(&h->timer, on_look, 0, LOOK_MS) == 0);
	}
}

static void
on_connection(uv_poll_t *poll, int status, int events)
{
	struct handover *h = poll->data;
	const int conn = accept4(h->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	struct ucred peer;
	socklen_t size = sizeof peer;

	(void)status;
	(void)events;
	if (conn < 0)
		return;
	if (getsockopt(conn, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 &&
	    (peer.uid == geteuid() || peer.uid == 0))
		serve(h, conn, &peer);
	else
		refuse(conn, "it belongs to another user");
	close(conn);
}

/* ---- life ---- */

/* A new socket beside the run record, or -errno. A socket that is there was left by a dead process:
 * only the process with the record may listen. */
static int
listen_anew(const char *record)
{
	struct sockaddr_un address;
	int fd = -1, rc = handover_address(record, &address);

	if (rc == 0 && (fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) < 0)
		rc = -errno;
	if (rc == 0)
		unlink(address.sun_path);
	if (rc == 0 &&
	    (bind(fd, (struct sockaddr *)&address, sizeof address) < 0 || listen(fd, 4) < 0))
		rc = -errno;
	if (rc < 0 && fd >= 0)
		close(fd);
	return rc < 0 ? rc : fd;
}

void
handover_start(struct handover *h, uv_loop_t *loop, int fd)
{
	h->conn = -1;
	h->listening = fd >= 0 ? fd : listen_anew(h->mountpoint->run.path);
	if (h->listening < 0) {
		log_warn("%s: lsfs --replace will not be possible: %s", h->mountpoint->path,
		         strerror(-h->listening));
		return;
	}
	must(uv_timer_init(loop, &h->timer) == 0);
	must(uv_poll_init(loop, &h->poll, h->listening) == 0);
	h->poll.data = h->timer.data = h;
	uv_poll_start(&h->poll, UV_READABLE, on_connection);
}

void
handover_stop(struct handover *h)
{
	struct sockaddr_un address;

	if (h->poll.data == NULL)
		return;
	if (h->conn >= 0)
		go_on(h, "it is being unmounted");
	uv_poll_stop(&h->poll);
	uv_close((uv_handle_t *)&h->poll, NULL);
	uv_close((uv_handle_t *)&h->timer, NULL);
	close(h->listening);
	if (handover_address(h->mountpoint->run.path, &address) == 0)
		unlink(address.sun_path);
}
