#include "ctl/holder.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/sys/lsfs_ioctl.h"
#include "cell/view/output.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"

enum { ASK_EVERY_MS = 200 }; /* interval at which the mount is asked if the session lives */

struct holder {
	const struct lock_options *l;
	int orders, reports;
	const sigset_t *before;
	const struct command_group *group;
	struct earlier_try earlier;
	int fd;
	bool directory;
	bool blind;    /* poll(2) tells nothing of a directory, nor of what we may not read */
	short stirred; /* poll(2) has told so of the node */
	uint64_t session;
	bool lasting; /* it never expires */
	mono_t asked; /* when the mount was last asked and answered */
	mono_t lease_end;
	span_t delay;
	int64_t began_s; /* when a run of `once` began */
	bool started;    /* the command, whose descendants may outlive it with the descriptor */
};

static void
report(const struct holder *h, struct report r)
{
	if (write(h->reports, &r, sizeof r) != sizeof r)
		_exit(CTL_FAILED); /* the supervisor has ended */
}

static void __attribute__((noreturn)) fail(const struct holder *h, int code)
{
	report(h, (struct report){.kind = HOLDER_FAILED, .code = code});
	_exit(code);
}

/* Of a call into the mount. The first try tells whether the lock can be had at all: an outage may
 * pass, and so may what a later try meets. That is printed once. */
static void __attribute__((noreturn, format(printf, 3, 4)))
fail_of(const struct holder *h, int error, const char *format, ...)
{
	const bool outage = error == EIO || error == EINTR || error == ESTALE ||
	                    error == ENOTCONN || error == ECONNABORTED;
	const bool again = h->l->restarts && (outage || h->earlier.tried);
	char text[512];
	va_list args;

	if (error == EINTR && time_limit_passed())
		fail(h, h->l->busy_code);
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (!again || error != h->earlier.told)
		log_error("%s: %s%s", h->l->path, text, again ? "; tries again" : "");
	report(h, (struct report){.kind = HOLDER_FAILED,
	                          .code = CTL_FAILED,
	                          .error = again ? error : 0});
	_exit(CTL_FAILED);
}

/* ---- the session of the mount ---- */

struct mount_status {
	uint64_t session; /* 0: none */
	bool lasting;     /* the session never expires */
	bool over;        /* the session expired or was closed: it holds no lock any more */
	mono_t asked;     /* when the read began */
	bool leased;      /* the local lease is valid */
	mono_t lease_end; /* if so its end, or a little earlier; else `asked` */
};

/* From the attribute user.ls.status, which a mount answers without asking the cell; but when its
 * daemon is frozen, the call blocks. 0, or -errno: the daemon has ended. */
static int
mount_status_read(int fd, struct mount_status *s)
{
	unsigned long long seconds;
	char text[4096];
	unsigned ms;
	ssize_t n;

	*s = (struct mount_status){.asked = clock_now()};
	s->lease_end = s->asked;
	n = fgetxattr(fd, "user.ls.status", text, sizeof text - 1);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
		if (sscanf(line, "session: %" SCNu64, &s->session) == 1)
			continue;
		if (!strcmp(line, "lasting: yes"))
			s->lasting = true;
		else if (!strcmp(line, "state: expired") || !strcmp(line, "state: closed"))
			s->over = true;
		else if (sscanf(line, "lease_left: %llu.%3u", &seconds, &ms) == 2)
			s->lease_end =
			    mono_add(s->asked, span_ms((int64_t)seconds * 1000 + (int64_t)ms));
	}
	s->leased = mono_before(s->asked, s->lease_end);
	return 0;
}

/* ---- opening ---- */

static void
open_node(struct holder *h)
{
	char canonical[PATH_MAX] = "";
	const char *path = h->l->path;
	/* A FIFO elsewhere would block us. */
	const int how = O_CREAT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
	struct mount_status s;
	struct stat st;
	bool gone;
	int rc;

	/* No file is made where no cell is mounted, or none any more. */
	gone = realpath(path, canonical) == NULL && errno == ENOENT &&
	       getxattr(dirname(canonical), "user.ls.lock_generation", NULL, 0) < 0;
	if (!gone)
		h->fd = open(path, O_RDONLY | how, 0666);
	h->blind = !gone && h->fd < 0 && errno == EACCES && h->l->every_s == 0;
	if (h->blind) /* locks need the right to write alone */
		h->fd = open(path, O_WRONLY | how, 0666);
	if (!gone && h->fd < 0 && errno == EISDIR)
		h->fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (gone || h->fd < 0 || fstat(h->fd, &st) < 0 ||
	    fgetxattr(h->fd, "user.ls.lock_generation", NULL, 0) < 0)
		fail_of(h, errno, "%s",
		        errno == ENODATA || errno == EOPNOTSUPP ? "not on a mounted cell"
		                                                : strerror(errno));
	h->directory = S_ISDIR(st.st_mode);
	h->blind |= h->directory;
	/* The command inherits the descriptor, as with flock(1): if we are killed, the lock is held
	 * until the command ends. When the command ends we unlock explicitly, since a descendant of
	 * it may still have the descriptor open. */
	fcntl(h->fd, F_SETFD, 0);
	rc = mount_status_read(h->fd, &s);
	if (rc < 0)
		fail_of(h, -rc, "the status of the mount: %s", strerror(-rc));
	h->session = s.session;
	h->lasting = s.lasting;
	h->lease_end = s.lease_end;
}

static void
read_attribute(const struct holder *h, const char *attribute, char *value, size_t room)
{
	ssize_t n = fgetxattr(h->fd, attribute, value, room - 1);

	if (n < 0)
		fail_of(h, errno, "cannot read %s: %s", attribute, strerror(errno));
	value[n] = '\0';
}

/* The lock-delay of an ephemeral file may end with it: nothing keeps others from a new file. */
static span_t
read_delay(const struct holder *h)
{
	char value[32];

	read_attribute(h, "user.ls.ephemeral", value, sizeof value);
	if (strcmp(value, "1") == 0)
		return span_s(0);
	read_attribute(h, "user.ls.lock_delay", value, sizeof value);
	return span_s(atoi(value));
}

/* ---- acquiring ---- */

/* flock on a directory would exclude this machine's processes only. A process that was stopped, or
 * frozen, has its call interrupted. */
static int
lock_node(const struct holder *h, int how)
{
	int rc;

	do
		rc = h->directory ? lsfs_lock(h->fd, how) : flock(h->fd, how);
	while (rc < 0 && errno == EINTR && !time_limit_passed());
	return rc;
}

static void
export_attribute(const struct holder *h, const char *attribute, const char *variable)
{
	char value[LIMIT_SEQUENCER + 1];

	read_attribute(h, attribute, value, sizeof value);
	setenv(variable, value, 1);
}

/* All that count with a lock have to count alike. */
static void
set_slots(const struct holder *h)
{
	char value[32];

	if (h->directory) {
		log_error("%s: the lock of a directory does not count", h->l->path);
		fail(h, CTL_FAILED);
	}
	read_attribute(h, "user.ls.lock_slots", value, sizeof value);
	if (atoi(value) == h->l->slots)
		return;
	if (atoi(value) > 0) {
		log_error("%s: has %s slots, not %d (user.ls.lock_slots)", h->l->path, value,
		          h->l->slots);
		fail(h, CTL_FAILED);
	}
	snprintf(value, sizeof value, "%d", h->l->slots);
	if (fsetxattr(h->fd, "user.ls.lock_slots", value, strlen(value), 0) < 0)
		fail_of(h, errno, "cannot set its slots: %s", strerror(errno));
}

/* A file that goes after a time goes under its lock, too, without a lock-delay, and nothing tells
 * when: another one could be locked while the command runs. */
static void
refuse_ttl(const struct holder *h)
{
	if (fgetxattr(h->fd, "user.ls.ttl", NULL, 0) >= 0) {
		log_error("%s: has a time to live (user.ls.ttl): its lock would not last",
		          h->l->path);
		fail(h, CTL_FAILED);
	}
	if (errno != ENODATA)
		fail_of(h, errno, "cannot read user.ls.ttl: %s", strerror(errno));
}

/* The lock-delay is fixed into the lock when it is acquired, between our two reads of it: the
 * shorter value is used. A time to live may be set while the lock is waited for. */
static void
acquire(struct holder *h)
{
	const struct lock_options *l = h->l;
	const char *delay = l->delay;
	int how = (l->shared ? LOCK_SH : LOCK_EX) | (l->wait_s == 0 ? LOCK_NB : 0), error;
	span_t delay_now;

	refuse_ttl(h);
	if (delay && fsetxattr(h->fd, "user.ls.lock_delay", delay, strlen(delay), 0) < 0)
		fail_of(h, errno, "cannot set the lock-delay: %s", strerror(errno));
	if (h->l->slots > 0)
		set_slots(h);
	h->delay = read_delay(h);
	error = lock_node(h, how) < 0 ? errno : 0;
	if (error != 0 && error != EAGAIN)
		fail_of(h, error, "cannot lock: %s", strerror(error));
	if (error != 0)
		fail(h, h->l->busy_code);
	time_limit_end();
	refuse_ttl(h);
	export_attribute(h, "user.ls.sequencer", "LS_SEQUENCER");
	export_attribute(h, "user.ls.fence", "LS_FENCE");
	if (h->l->slots > 0)
		export_attribute(h, "user.ls.lock_slot", "LS_SLOT");
	delay_now = read_delay(h);
	if (delay_now.ns < h->delay.ns)
		h->delay = delay_now;
}

/* ---- what the holder writes ---- */

static bool check_session(struct holder *h);

/* Why the lock was lost, if it was, while the session lives. */
static enum report_kind
lost_kind(const struct holder *h)
{
	return lsfs_set_sequencer(h->fd, NULL) < 0 && errno == ECANCELED ? HOLDER_UNLOCKED
	                                                                 : HOLDER_DELETED;
}

/* Writes a line into the locked file (NULL: empties it), unless the lock was lost meanwhile. The
 * node of the lock is opened again, whatever its name leads to by now. */
static void
write_line(struct holder *h, const char *line, const char *what)
{
	const char *sequencer = getenv("LS_SEQUENCER");
	char path[64];
	bool written;
	int fd, error;

	snprintf(path, sizeof path, "/proc/self/fd/%d", h->fd);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	written = fd >= 0 && sequencer && lsfs_set_sequencer(fd, sequencer) == 0 &&
	          (line == NULL || dprintf(fd, "%s\n", line) > 0) && fsync(fd) == 0;
	if (written && close(fd) == 0)
		return;
	error = errno;
	if (fd >= 0)
		lsfs_poison(fd); /* its truncation would be committed when we exit */
	if (h->started && error == ESTALE) {
		const enum report_kind kind = lost_kind(h);

		if (check_session(h))
			report(h, (struct report){.kind = kind});
		_exit(CTL_OK);
	}
	if (h->started)
		lock_node(h, LOCK_UN);
	fail_of(h, error, "cannot write %s: %s", what, strerror(error));
}

/* Election: the name of the process is that of the supervisor: a signal to it ends the primary. */
static void
announce(struct holder *h)
{
	char host[LIMIT_HOST + 1] = "", own[LIMIT_HOST + 32];

	gethostname(host, sizeof host - 1);
	snprintf(own, sizeof own, "%s:%ld", host, (long)getppid());
	write_line(h, h->l->value ? h->l->value : own, "the name of the primary");
}

/* ---- once in a period: the time of the last run stands in the file ---- */

/* Periods are counted from 1970, by the cell's clock: what it sets as the time of the file. After a
 * fail-over that clock may be a little behind, and the period of before has had its run. */
static void
check_due(struct holder *h)
{
	static const struct timespec now[] = {{.tv_nsec = UTIME_OMIT}, {.tv_nsec = UTIME_NOW}};
	const int64_t every = h->l->every_s;
	char text[64] = "", *end;
	struct tm last = {0};
	struct stat st;
	ssize_t n;

	n = pread(h->fd, text, sizeof text - 1, 0);
	if (n < 0 || futimens(h->fd, now) < 0 || fstat(h->fd, &st) < 0)
		fail_of(h, errno, "%s", strerror(errno));
	text[n] = '\0';
	end = strptime(text, "%Y-%m-%dT%H:%M:%SZ", &last);
	if (n > 0 && (end == NULL || strcmp(end, "\n") != 0)) {
		log_error("%s: holds no time of a last run", h->l->path);
		fail(h, CTL_FAILED);
	}
	h->began_s = st.st_mtim.tv_sec;
	if (n > 0 && (timegm(&last) / every == h->began_s / every ||
	              timegm(&last) / every == h->began_s / every + 1))
		fail(h, CTL_OK);
}

/* ---- the command ---- */

static int
execute(void *user)
{
	const struct holder *h = user;

	command_group_enter(h->group);
	sigprocmask(SIG_SETMASK, h->before, NULL);
	_exit(program_become(h->l->command));
}

/* Starts the command with our descriptors and environment, but as a child of the supervisor; it is
 * reported when it has entered its group. */
static void
start_command(struct holder *h)
{
	static char stack[256 * 1024] __attribute__((aligned(16)));
	pid_t pid = clone(execute, stack + sizeof stack, CLONE_PARENT | CLONE_VFORK | SIGCHLD, h);

	if (pid < 0) {
		log_error("%s: cannot run it: %s", h->l->command[0], strerror(errno));
		pid = 0;
	}
	h->started = true;
	report(h, (struct report){.kind = HOLDER_STARTED, .pid = pid});
}

/* ---- holding ---- */

/* Asks the mount for the session and reports it; false when the lock is lost. */
static bool
check_session(struct holder *h)
{
	struct mount_status s;

	if (mount_status_read(h->fd, &s) < 0) {
		report(h, (struct report){.kind = HOLDER_DAEMON_ENDED, .time = h->asked});
		return false;
	}
	h->asked = s.asked;
	if (s.leased)
		h->lease_end = s.lease_end;
	if (s.over || s.session != h->session) {
		report(h, (struct report){.kind = HOLDER_LOST});
		return false;
	}
	report(h, (struct report){.kind = HOLDER_LEASE, .time = h->lease_end});
	return true;
}

/* Looks whether the node is still there when its descriptor is dead or has an event pending, which
 * the read takes away. False when the lock is lost. */
static bool
check_node(const struct holder *h)
{
	bool deleted = (h->stirred & (POLLERR | POLLHUP)) != 0;
	struct stat st;
	char byte;

	if (!deleted && !h->stirred && !h->blind)
		return true;
	if ((deleted || h->blind) && lost_kind(h) == HOLDER_UNLOCKED) {
		report(h, (struct report){.kind = HOLDER_UNLOCKED});
		return false;
	}
	if (!deleted)
		deleted = fstat(h->fd, &st) < 0 ? errno == ESTALE : st.st_nlink == 0;
	if (deleted)
		report(h, (struct report){.kind = HOLDER_DELETED});
	else if (!h->blind && pread(h->fd, &byte, 1, 0) < 0)
		log_debug("%s: %s", h->l->path, strerror(errno));
	return !deleted;
}

/* The next order; 0 when none came in a while, or the node has stirred. Without a supervisor the
 * holder ends, and releases nothing: the command has inherited its descriptor. */
static int
order(struct holder *h)
{
	struct pollfd wait[] = {{.fd = h->orders, .events = POLLIN},
	                        {.fd = h->fd, .events = h->blind ? 0 : POLLPRI}};
	char byte;

	poll(wait, 2, ASK_EVERY_MS);
	h->stirred = wait[1].revents;
	if (wait[0].revents == 0)
		return 0;
	if (read(h->orders, &byte, 1) != 1)
		_exit(CTL_FAILED);
	return byte;
}

void
holder_run(const struct lock_options *l, struct earlier_try earlier, int orders, int reports,
           const sigset_t *before, const struct command_group *group)
{
	struct holder h = {.l = l,
	                   .earlier = earlier,
	                   .orders = orders,
	                   .reports = reports,
	                   .before = before,
	                   .group = group};
	char began[UTC_TEXT];
	bool held;
	int next = 0;

	if (l->wait_s > 0)
		time_limit_start(l->wait_s);
	open_node(&h);
	acquire(&h);
	if (l->every_s > 0)
		check_due(&h);
	if (l->elects)
		announce(&h);
	held = check_session(&h);
	if (held)
		report(&h, (struct report){.kind = HOLDER_HOLDS,
		                           .delay = h.delay,
		                           .lasting = h.lasting});
	while (held && (next = order(&h)) != HOLDER_RELEASE && next != HOLDER_RELEASE_DONE) {
		if (next == HOLDER_GO)
			start_command(&h);
		held = check_session(&h) && check_node(&h);
	}
	if (held && l->every_s > 0 && next == HOLDER_RELEASE_DONE) {
		utc_text(h.began_s, began);
		write_line(&h, began, "the time of the run");
	}
	if (held && l->clears)
		write_line(&h, NULL, "that there is no primary");
	if (held) {
		const enum report_kind kind =
		    lock_node(&h, LOCK_UN) == 0 ? HOLDER_RELEASED : lost_kind(&h);

		if (check_session(&h))
			report(&h, (struct report){.kind = kind});
	}
	_exit(CTL_OK);
}
