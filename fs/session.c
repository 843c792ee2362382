#include "fs/session.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "cell/io/log.h"
#include "fs/ops.h"

enum {
	REQUESTS_PER_WAKEUP = 256, /* then the loop's other work has its turn */
	/* RELEASE is a background request: held back, it is overtaken by an OPEN and a lock. */
	MAX_BACKGROUND = 1024,
	CONGESTION_THRESHOLD = 768,
	/* In kernels since protocol 7.44; not in the headers that we build with. */
	NOTIFY_INC_EPOCH = 8,
	EPOCH_MINOR = 44,
	WANTED = FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_ATOMIC_O_TRUNC |
	         FUSE_CAP_AUTO_INVAL_DATA | FUSE_CAP_IOCTL_DIR | FUSE_CAP_PARALLEL_DIROPS,
	/* Without these, locks would be this machine's only and truncation a visible step. */
	NEEDED = FUSE_CAP_FLOCK_LOCKS | FUSE_CAP_POSIX_LOCKS | FUSE_CAP_ATOMIC_O_TRUNC,
};

/* ---- the descriptor ---- */

/* libfuse 3.14 does not pass PARALLEL_DIROPS on to the kernel, and without it one LOOKUP that
 * waits for the cell holds up every other one in its directory: so the flag is set in the INIT
 * reply here, on its way out. */
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
	struct session *s = user;

	if (s->answering_init) {
		s->answering_init = false;
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
session_on_init(void *user, struct fuse_conn_info *conn)
{
	struct session *s = user;
	unsigned missing = NEEDED & ~conn->capable;

	if (missing) {
		log_error("this kernel's FUSE lacks what locks and commits need (flags 0x%x)",
		          missing);
		s->refused = true;
		fuse_session_exit(s->fuse);
	}
	conn->want = WANTED & conn->capable;
	conn->max_background = MAX_BACKGROUND;
	conn->congestion_threshold = CONGESTION_THRESHOLD;
	s->has_epochs = conn->proto_minor >= EPOCH_MINOR;
	s->answering_init = (conn->capable & FUSE_CAP_PARALLEL_DIROPS) != 0;
}

/* ---- reading ---- */

static void
hand_in_interrupts(struct session *s)
{
	struct mount_event event = {.kind = MOUNT_INTERRUPT};

	while (reply_interrupted(&s->replies, &event.call))
		engine_call(s->engine, &event);
}

static void
stop_polling(struct session *s)
{
	if (!s->polling)
		return;
	s->polling = false;
	uv_poll_stop(&s->poll);
	uv_close((uv_handle_t *)&s->poll, NULL);
}

static void
session_ended(struct session *s, int error)
{
	stop_polling(s);
	if (error)
		log_error("the kernel's FUSE connection broke: %s", strerror(error));
	s->config.ended(s->config.user, error != 0);
}

static void
process_request(struct session *s)
{
	const struct fuse_in_header *header = s->request.mem;
	bool init = header->opcode == FUSE_INIT;

	fuse_session_process_buf(s->fuse, &s->request);
	hand_in_interrupts(s);
	if (init && !fuse_session_exited(s->fuse))
		s->config.ready(s->config.user);
}

/* A request may vanish after it was announced (its caller was killed), so the descriptor does not
 * block, and only -EAGAIN says that there are no more. */
static void
pump(struct session *s)
{
	for (int i = 0; s->polling && i < REQUESTS_PER_WAKEUP; i++) {
		int n = fuse_session_receive_buf(s->fuse, &s->request);

		if (n == -EAGAIN)
			return;
		if (n == -EINTR)
			continue;
		if (n > 0)
			process_request(s);
		if (n <= 0 || fuse_session_exited(s->fuse)) {
			s->gone = n == 0;
			session_ended(s, n < 0 ? -n : s->refused ? EPROTONOSUPPORT : 0);
			return;
		}
	}
}

static void
on_readable(uv_poll_t *poll, int status, int events)
{
	struct session *s = poll->data;

	(void)events;
	(void)status; /* an error shows at the next read, with its reason */
	pump(s);
}

/* ---- writing ---- */

void
session_reply(void *session, const struct mount_reply *reply)
{
	struct session *s = session;

	reply_send(&s->replies, reply);
}

/* Attributes only: the one notification that never waits for a lock that one of our own callers may
 * hold. That the kernel does not know the inode is no error. */
void
session_stale_inode(void *session, uint64_t ino)
{
	struct session *s = session;

	fuse_lowlevel_notify_inval_inode(s->fuse, ino, -1, 0);
}

void
session_forget_names(void *session)
{
	struct session *s = session;
	struct fuse_out_header header = {.len = sizeof header, .error = NOTIFY_INC_EPOCH};

	if (s->has_epochs && write(fuse_session_fd(s->fuse), &header, sizeof header) < 0)
		log_warn("names of the old session stay up to a second: %s", strerror(errno));
}

/* ---- life ---- */

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

int
session_init(struct session *s, const struct session_config *config)
{
	char options[512] = "fsname=lsfs,subtype=lsfs";
	char *argv[] = {"lsfs", "-o", options, NULL};
	struct fuse_args args = FUSE_ARGS_INIT(3, argv);
	size_t n = strlen(options);

	memset(s, 0, sizeof *s);
	s->config = *config;
	if (config->options && *config->options)
		snprintf(options + n, sizeof options - n, ",%s", config->options);
	replies_init(&s->replies, config->uid, config->gid);
	fuse_set_log_func(on_fuse_log);
	s->fuse = fuse_session_new(&args, &ops_table, sizeof ops_table, s);
	fuse_opt_free_args(&args);
	return s->fuse ? 0 : -EINVAL;
}

int
session_attach(struct session *s, int fd)
{
	static const struct fuse_custom_io io = {.writev = on_write, .read = on_read};

	return fuse_session_custom_io(s->fuse, &io, fd);
}

int
session_mount(struct session *s, const char *mountpoint)
{
	int rc;

	if (fuse_session_mount(s->fuse, mountpoint) != 0)
		return -EIO; /* libfuse has logged why */
	rc = session_attach(s, fuse_session_fd(s->fuse));
	if (rc == 0 && !mountinfo_at(mountpoint, &s->mounted))
		rc = -EIO;
	if (rc < 0)
		log_error("%s: cannot serve the mount: %s", mountpoint, strerror(-rc));
	return rc;
}

int
session_start(struct session *s, uv_loop_t *loop, struct engine *engine)
{
	int rc = uv_poll_init(loop, &s->poll, fuse_session_fd(s->fuse));

	if (rc < 0)
		return rc;
	s->engine = engine;
	s->poll.data = s;
	s->polling = true;
	return uv_poll_start(&s->poll, UV_READABLE, on_readable);
}

void
session_stop(struct session *s)
{
	if (!s->polling)
		return;
	pump(s);
	stop_polling(s);
}

/* Somebody may have unmounted it, or mounted over it: then the path is not ours to unmount. */
static bool
still_mounted(const struct session *s)
{
	struct mountinfo now;

	return s->mounted.id && mountinfo_at(s->mounted.path, &now) && now.id == s->mounted.id;
}

void
session_fini(struct session *s)
{
	must(!s->polling);
	replies_fini(&s->replies);
	if (s->gone || still_mounted(s))
		fuse_session_unmount(s->fuse); /* frees its copy of the path, too */
	fuse_session_destroy(s->fuse);
	free(s->request.mem);
}
