#include "fs/fuse/device.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "cell/sys/log.h"

enum {
	REQUESTS_PER_WAKEUP = 256, /* then the loop's other handles are served */
	/* RELEASE is a background request. With the kernel's default of 12 it may be queued while
	 * an OPEN and a lock of the same file overtake it. */
	MAX_BACKGROUND = 1024,
	CONGESTION_THRESHOLD = 768,
	/* Without ASYNC_DIO the kernel (6.18) gives a short read of io_uring's again, at the same
	 * offset, until the buffer is full of copies of the contents. */
	WANTED = FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_ATOMIC_O_TRUNC |
	         FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_IOCTL_DIR | FUSE_CAP_PARALLEL_DIROPS |
	         FUSE_CAP_ASYNC_DIO,
	/* Without these, locks would exclude only this machine's processes, and other clients would
	 * see the truncation by open(O_TRUNC) as a step of its own. */
	NEEDED = FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_ATOMIC_O_TRUNC,
};

/* ---- the descriptor ---- */

/* libfuse 3.14 does not pass PARALLEL_DIROPS on to the kernel. Without that flag a LOOKUP that
 * waits for the cell blocks every other LOOKUP in its directory, so the flag is set here in the
 * encoded reply to INIT. */
static void
patch_init_reply(struct iovec *iov, int count)
{
	struct fuse_init_out *init;

	if (count < 2 || iov[1].iov_len < sizeof *init)
		return; /* an error reply */
	init = iov[1].iov_base;
	init->flags |= FUSE_PARALLEL_DIROPS;
}

static ssize_t
on_write(int fd, struct iovec *iov, int count, void *user)
{
	struct device *d = user;

	if (d->answering_init) {
		d->answering_init = false;
		patch_init_reply(iov, count);
	}
	return writev(fd, iov, count);
}

static ssize_t
on_read(int fd, void *buf, size_t size, void *user)
{
	(void)user;
	return read(fd, buf, size);
}

void
device_on_init(void *user, struct fuse_conn_info *conn)
{
	struct device *d = user;
	unsigned missing = NEEDED & ~conn->capable;

	if (missing) {
		log_error("FUSE: this kernel lacks capabilities that locks and commits need (0x%x)",
		          missing);
		d->refused = true;
		fuse_session_exit(d->fuse);
	}
	conn->want = WANTED & conn->capable;
	conn->max_background = MAX_BACKGROUND;
	conn->congestion_threshold = CONGESTION_THRESHOLD;
	d->answering_init = (conn->capable & FUSE_CAP_PARALLEL_DIROPS) != 0;
}

/* ---- reading ---- */

static void
stop_polling(struct device *d)
{
	if (!d->polling)
		return;
	d->polling = false;
	uv_poll_stop(&d->poll);
	uv_close((uv_handle_t *)&d->poll, NULL);
	interrupts_stop(&d->interrupts);
}

static void
process_request(struct device *d)
{
	const struct fuse_in_header *header = d->request.mem;
	bool init = header->opcode == FUSE_INIT;

	d->replies.request = (struct bytes){d->request.mem, d->request.size};
	if (init && d->init.len == 0)
		d->init = bytes_copy(d->replies.request);
	fuse_session_process_buf(d->fuse, &d->request);
	if (!TAILQ_EMPTY(&d->replies.interrupted))
		interrupts_hand_in(&d->interrupts);
	if (init && !fuse_session_exited(d->fuse))
		d->config.ready(d->config.user);
}

/* Reads and handles requests. A request may vanish after poll reported it (its caller was killed),
 * so the descriptor is non-blocking, and only -EAGAIN means that no request is left. */
static void
pump(struct device *d)
{
	for (int i = 0; d->polling && i < REQUESTS_PER_WAKEUP; i++) {
		int n = fuse_session_receive_buf(d->fuse, &d->request);

		if (n == -EAGAIN)
			return;
		if (n == -EINTR)
			continue;
		if (n > 0)
			process_request(d);
		if (n <= 0 || fuse_session_exited(d->fuse)) {
			const int error = n < 0 ? -n : d->refused ? EPROTONOSUPPORT : 0;

			d->gone = n == 0;
			stop_polling(d);
			if (error)
				log_error("FUSE: the connection to the kernel broke: %s",
				          strerror(error));
			d->config.ended(d->config.user, error != 0);
			return;
		}
	}
}

static void
on_readable(uv_poll_t *poll, int status, int events)
{
	struct device *d = poll->data;

	(void)events;
	(void)status; /* the next read returns the error, with its reason */
	pump(d);
}

/* ---- writing ---- */

void
device_reply(void *device, const struct mount_reply *reply)
{
	struct device *d = device;

	reply_send(&d->replies, reply);
}

void
device_wake(void *device, uint64_t fh)
{
	struct device *d = device;

	poll_handle_wake(&d->poll_handles, fh);
}

/* Invalidates attributes only: this is the one notification that never waits for a lock which a
 * caller of ours may hold. An inode that the kernel does not know is no error. */
void
device_stale_inode(void *device, uint64_t ino)
{
	struct device *d = device;

	fuse_lowlevel_notify_inval_inode(d->fuse, ino, -1, 0);
}

/* ---- creation and the end ---- */

static void
on_fuse_log(enum fuse_log_level level, const char *format, va_list args)
{
	char line[512], *text = line;

	vsnprintf(line, sizeof line, format, args);
	line[strcspn(line, "\n")] = '\0';
	if (!strncmp(text, "fuse: ", 6))
		text += 6;
	if (level <= FUSE_LOG_ERR)
		log_error("%s", text);
	else
		log_warn("%s", text);
}

/* Puts "fsname=SOURCE,subtype=lsfs" and the given options into a list, which libfuse splits again:
 * commas and backslashes of the source are escaped. */
static void
put_options(struct buffer *list, const struct device_config *config)
{
	buffer_printf(list, "fsname=");
	for (const char *at = config->source ? config->source : "lsfs"; *at; at++)
		buffer_printf(list, "%s%c", *at == ',' || *at == '\\' ? "\\" : "", *at);
	buffer_printf(list, ",subtype=lsfs");
	if (config->options && *config->options)
		buffer_printf(list, ",%s", config->options);
	buffer_put_u8(list, 0);
}

int
device_init(struct device *d, const struct device_config *config)
{
	struct buffer options = BUFFER(4 * PATH_MAX);
	char *argv[] = {"lsfs", "-o", NULL, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);

	memset(d, 0, sizeof *d);
	d->config = *config;
	put_options(&options, config);
	argv[2] = (char *)options.data;
	replies_init(&d->replies, config->uid, config->gid);
	users_init(&d->users, "/etc/passwd", config->uid);
	fuse_set_log_func(on_fuse_log);
	d->fuse = fuse_session_new(&args, &ops_table, sizeof ops_table, d);
	fuse_opt_free_args(&args);
	buffer_free(&options);
	return d->fuse ? 0 : -EINVAL;
}

int
device_attach(struct device *d, int fd)
{
	static const struct fuse_custom_io io = {.writev = on_write, .read = on_read};

	return fuse_session_custom_io(d->fuse, &io, fd);
}

int
device_mount(struct device *d, const char *mountpoint)
{
	int rc;

	if (fuse_session_mount(d->fuse, mountpoint) != 0)
		return -EIO; /* libfuse has logged the reason */
	rc = device_attach(d, fuse_session_fd(d->fuse));
	if (rc == 0 && !mountinfo_at(mountpoint, &d->mounted))
		rc = -EIO;
	if (rc < 0)
		log_error("%s: cannot serve the mount: %s", mountpoint, strerror(-rc));
	return rc;
}

int
device_start(struct device *d, uv_loop_t *loop, struct engine *engine)
{
	int rc = uv_poll_init(loop, &d->poll, fuse_session_fd(d->fuse));

	if (rc == 0)
		rc = interrupts_start(&d->interrupts, loop, &d->replies, engine);
	if (rc < 0)
		return rc;
	d->engine = engine;
	d->poll.data = d;
	d->polling = true;
	return uv_poll_start(&d->poll, UV_READABLE, on_readable);
}

void
device_stop(struct device *d)
{
	if (!d->polling)
		return;
	pump(d);
	stop_polling(d);
}

/* ---- another process goes on with the mount ---- */

void
device_hold(struct device *d)
{
	if (d->polling)
		uv_poll_stop(&d->poll);
}

void
device_resume(struct device *d)
{
	if (d->polling)
		uv_poll_start(&d->poll, UV_READABLE, on_readable);
}

bool
device_is_still(const struct device *d)
{
	return d->polling && reply_is_still(&d->replies);
}

/* The kernel reports an interrupt only once, so the image has it as a request. */
void
device_save(struct device *d, struct image *to)
{
	struct {
		struct fuse_in_header header;
		struct fuse_interrupt_in in;
	} interrupt = {.header = {.len = sizeof interrupt, .opcode = FUSE_INTERRUPT}};
	const struct poll_handle *h = NULL;
	const struct parked *p = NULL;

	image_number(to, d->replies.last_call);
	image_bytes(to, &d->init);
	while ((h = poll_handle_after(&d->poll_handles, h)) != NULL)
		image_bytes(to, &(struct bytes){h->request.data, h->request.len});
	while ((p = reply_after(&d->replies, p)) != NULL) {
		image_bytes(to, &(struct bytes){p->request.data, p->request.len});
		interrupt.in.unique = ((const struct fuse_in_header *)p->request.data)->unique;
		if (p->interrupts != NULL)
			image_bytes(to,
			            &(struct bytes){(const uint8_t *)&interrupt, sizeof interrupt});
	}
	image_bytes(to, &(struct bytes){0});
}

int
device_adopt(struct device *d, int fd, const char *mountpoint)
{
	int rc = device_attach(d, fd);

	if (rc == 0 && !mountinfo_at(mountpoint, &d->mounted))
		rc = -ENOTCONN;
	if (rc < 0)
		log_error("%s: cannot serve the mount: %s", mountpoint, strerror(-rc));
	return rc;
}

bool
device_load(struct device *d, struct image *from, bool dry)
{
	const uint64_t last_call = image_number(from, 0);
	const struct fuse_buf own = d->request;
	struct bytes request = {0};
	const struct fuse_in_header *header;

	if (!dry)
		d->replies.last_call = last_call;
	for (bool first = true;; first = false) {
		image_bytes(from, &request);
		if (request.len == 0)
			return !first && !from->from.failed;
		header = (const void *)request.data;
		if (request.len < sizeof *header || header->len != request.len ||
		    first != (header->opcode == FUSE_INIT))
			image_refuse(from);
		else if (!dry) {
			d->request =
			    (struct fuse_buf){.mem = (void *)request.data, .size = request.len};
			d->again = true;
			process_request(d);
			d->again = false;
			d->request = own;
		}
		free((void *)request.data);
	}
}

/* False when the filesystem was unmounted or another one was mounted over it: then an unmount by
 * path would hit a foreign mount. */
bool
device_is_mounted(const struct device *d)
{
	struct mountinfo now;

	return !d->gone && d->mounted.id && mountinfo_at(d->mounted.path, &now) &&
	       now.id == d->mounted.id;
}

/* libfuse frees its copy of the mount point's path only with an unmount, and does not unmount where
 * its descriptor says that the connection is broken: as of a pipe whose other end is closed. */
static bool
break_connection(int fd)
{
	int ends[2];
	bool broken;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return false;
	close(ends[0]);
	broken = dup3(ends[1], fd, O_CLOEXEC) >= 0;
	close(ends[1]);
	return broken;
}

void
device_fini(struct device *d)
{
	must(!d->polling);
	replies_fini(&d->replies);
	poll_handles_fini(&d->poll_handles);
	pidfds_fini(&d->callers);
	users_free(&d->users);
	if (d->gone || device_is_mounted(d) ||
	    (d->mounted.id && break_connection(fuse_session_fd(d->fuse))))
		fuse_session_unmount(d->fuse);
	fuse_session_destroy(d->fuse);
	free(d->request.mem);
	free((void *)d->init.data);
}
