#include "fs/lsfs.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/host/heap_trim.h"
#include "cell/host/server_process.h"
#include "cell/sys/clock.h"
#include "cell/sys/confinement.h"
#include "cell/sys/log.h"
#include "cell/sys/process.h"
#include "fs/handover.h"
#include "fs/local_locks.h"
#include "fs/mountpoint.h"
#include "fs/fuse/device.h"
#include "fs/source.h"
#include "fs/takeover.h"

enum { TELL_FIRST_MS = 1000, TELL_AGAIN_MS = 60000 };

/* One run of lsfs. Its parts end in this order: the reading of requests, the session, the replica
 * of a standalone cell, the loop. */
struct lsfs {
	const struct options *options;
	struct daemon *daemon;
	uv_loop_t loop;
	uv_signal_t terminate, interrupt;
	uv_timer_t begin;    /* expires when to mount, when to give up, and when to log the delay */
	uv_timer_t watchdog; /* expires when to report that the loop still turns */
	struct heap_trim heap;
	struct mountpoint mountpoint;
	struct source source;
	struct link *link;
	struct engine *engine;
	struct device device;
	struct local_locks local_locks;
	struct handover handover;
	struct takeover takeover; /* of the mount of another process; with --replace */
	bool safe;                /* the session has been safe */
	bool refused;             /* every replica refuses us, so there will be no session */
	bool init_answered;
	bool ready; /* the mount answers */
	bool stopping;
	bool session_closed; /* and not left to expire */
	bool failed;
	bool warned; /* of another mount of the cell */
};

/* ---- stopping ---- */

static void
stop_host(struct lsfs *l)
{
	if (l->source.process)
		server_process_stop(l->source.process, NULL, NULL);
}

static void
on_engine_closed(void *user, bool in_order)
{
	struct lsfs *l = user;

	if (!in_order)
		log_warn("the session could not be closed: %s",
		         l->options->lasting ? "it lasts until an operator ends it"
		                             : "it will expire by itself");
	l->session_closed = in_order;
	stop_host(l);
}

static void
stop(struct lsfs *l)
{
	if (l->stopping)
		return;
	l->stopping = true;
	uv_close((uv_handle_t *)&l->terminate, NULL);
	uv_close((uv_handle_t *)&l->interrupt, NULL);
	uv_close((uv_handle_t *)&l->begin, NULL);
	uv_close((uv_handle_t *)&l->watchdog, NULL);
	heap_trim_stop(&l->heap);
	local_locks_stop(&l->local_locks);
	handover_stop(&l->handover);
	device_stop(&l->device);
	if (l->engine)
		engine_close(l->engine, on_engine_closed, l);
	else
		stop_host(l);
}

static void
on_signal(uv_signal_t *signal, int number)
{
	(void)number;
	stop(signal->data);
}

static void
on_device_ended(void *user, bool broken)
{
	struct lsfs *l = user;

	l->failed |= broken;
	stop(l);
}

/* Without the replica of a standalone cell no request can be answered any more. */
static void
on_host_failed(void *user)
{
	struct lsfs *l = user;

	l->failed = true;
	stop(l);
}

/* ---- serving ---- */

static void on_begin(uv_timer_t *timer);

static void
on_watchdog(uv_timer_t *timer)
{
	(void)timer;
	notify_manager("WATCHDOG=1");
}

/* The loop that answers the kernel is the one whose turns are reported. */
static void
report_to_manager(struct lsfs *l)
{
	const uint64_t every = notify_watchdog_ms();

	notify_manager("READY=1");
	if (every > 0)
		must(uv_timer_start(&l->watchdog, on_watchdog, every, every) == 0);
}

static void
report_if_ready(struct lsfs *l)
{
	char why[256];

	if (!l->init_answered || l->ready || engine_status(l->engine).state != CLIENT_SAFE)
		return;
	l->ready = true;
	daemon_leave(l->daemon);
	if (confinement_enter_mounted(l->source.process != NULL, why, sizeof why)) {
		daemon_ready(l->daemon);
		if (l->options->foreground || l->options->replace)
			report_to_manager(l);
		return;
	}
	log_error("%s: can't be confined: %s", l->mountpoint.path, why);
	l->failed = true;
	stop(l);
}

static void
on_init_answered(void *user)
{
	struct lsfs *l = user;

	l->init_answered = true;
	report_if_ready(l);
}

/* Writes the session into the run record: if we are killed the next daemon ends that session. */
static void
record_session(struct lsfs *l, const struct client_status *status)
{
	struct run_record *r = memory_zero(1, sizeof *r);
	int rc;

	strcpy(r->mountpoint, l->mountpoint.path);
	strcpy(r->source, l->source.path);
	strcpy(r->key, l->source.key_path);
	strcpy(r->cell, l->source.cell_file.name);
	r->session = status->session;
	if (status->session)
		memcpy(r->nonce, status->nonce, sizeof r->nonce);
	rc = run_dir_write(&l->mountpoint.run, r);
	if (rc < 0)
		log_warn("%s: cannot write the run record: %s", l->mountpoint.run.path,
		         strerror(-rc));
	free(r);
}

static void
on_session_state(void *user, const struct client_status *status)
{
	struct lsfs *l = user;

	switch (status->state) {
	case CLIENT_SAFE:
		log_info("session %" PRIu64 " is safe", status->session);
		record_session(l, status);
		/* The filesystem is mounted only once the session is safe. */
		if (!l->safe && !l->stopping)
			must(uv_timer_start(&l->begin, on_begin, 0, 0) == 0);
		l->safe = true;
		report_if_ready(l);
		break;
	case CLIENT_JEOPARDY:
		log_warn("session %" PRIu64 " is in jeopardy: the cell does not answer: %s",
		         status->session, link_trouble(l->link));
		break;
	case CLIENT_EXPIRED:
		if (l->safe)
			log_warn("session %" PRIu64 " has expired: its handles and locks are gone",
			         status->session);
		break;
	case CLIENT_NEW:
	case CLIENT_CLOSED:
		break;
	}
}

static void
on_reply(void *user, const struct mount_reply *reply)
{
	device_reply(&((struct lsfs *)user)->device, reply);
}

static void
on_stale_inode(void *user, uint64_t ino)
{
	device_stale_inode(&((struct lsfs *)user)->device, ino);
}

static void
on_wake(void *user, uint64_t fh)
{
	device_wake(&((struct lsfs *)user)->device, fh);
}

/* ---- starting ---- */

/* `state`: of the engine that this one goes on for; NULL: it is the first. */
static int
start_engine(struct lsfs *l, struct image *state)
{
	const struct options *o = l->options;
	static char host_name[LIMIT_HOST + 1];
	struct mount_config mount = {
	    .cell = l->source.cell_file.name,
	    .uid = getuid(),
	    .gid = getgid(),
	    .lock_delay_s = o->lock_delay_s,
	    .commit_at_write = o->commit_at_write,
	    .quiet = o->quiet,
	    .umask = o->umask,
	    .others = o->allow_other,
	};
	struct client_config client = {
	    .host = host_name,
	    .grace = span_s(o->grace_s),
	    .lasting = o->lasting,
	    .drift_permille = 10,
	    .caching = true,
	};
	struct engine_output output = {
	    .reply = on_reply,
	    .stale_inode = on_stale_inode,
	    .wake = on_wake,
	    .session = on_session_state,
	    .user = l,
	    .debug = o->debug,
	};

	process_host(host_name);
	random_fill(&client.seed, sizeof client.seed);
	random_fill(client.nonce, sizeof client.nonce);
	client.replicas_n = l->source.cell_file.replicas_n;
	for (int i = 0; i < client.replicas_n; i++)
		client.replicas[i] = l->source.cell_file.replicas[i].id;
	if (!strcmp(l->mountpoint.earlier.source, l->source.path)) {
		client.earlier_session = l->mountpoint.earlier.session;
		memcpy(client.earlier_nonce, l->mountpoint.earlier.nonce, LIMIT_NONCE);
	}
	return engine_new(&l->engine, &l->loop, l->link, &mount, &client, &output, state);
}

static int
start_signals(struct lsfs *l)
{
	int rc;

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	l->terminate.data = l->interrupt.data = l;
	if ((rc = uv_signal_init(&l->loop, &l->terminate)) < 0 ||
	    (rc = uv_signal_init(&l->loop, &l->interrupt)) < 0 ||
	    (rc = uv_signal_start(&l->terminate, on_signal, SIGTERM)) < 0)
		return rc;
	return uv_signal_start(&l->interrupt, on_signal, SIGINT);
}

static bool
start_device(struct lsfs *l)
{
	const struct options *o = l->options;
	char text[512];
	struct device_config config = {
	    .uid = getuid(),
	    .gid = getgid(),
	    .source = l->source.shown,
	    .options = text,
	    .ready = on_init_answered,
	    .ended = on_device_ended,
	    .user = l,
	};

	snprintf(text, sizeof text, "%s%s%s", o->allow_other ? "allow_other" : "",
	         o->allow_other && o->kernel ? "," : "", o->kernel ? o->kernel : "");
	return device_init(&l->device, &config) == 0;
}

/* To mv and rsync a file of two mounts is two files, which they copy and then remove: they look at
 * the device, and that of a FUSE mount cannot be chosen. */
static void
warn_of_another(void *user, const struct mountinfo *info)
{
	struct lsfs *l = user;

	if (l->warned || !source_is_shown(&l->source, info->source))
		return;
	l->warned = true;
	log_warn("%s: the cell is mounted at %s, too: moving a file from one to the other deletes "
	         "it; mount once, and elsewhere: mount --bind %s %s",
	         l->mountpoint.path, info->path, info->path, l->mountpoint.path);
}

/* `listening`: the socket of the process that had the mount before; -1: none had. */
static bool
serve_mount(struct lsfs *l, int listening)
{
	int rc = device_start(&l->device, &l->loop, l->engine);

	if (rc == 0)
		rc = local_locks_start(&l->local_locks, &l->loop, &l->device.mounted);
	if (rc < 0)
		return log_error("%s: cannot start: %s", l->mountpoint.path, uv_strerror(rc));
	l->handover.options = l->options;
	l->handover.source = &l->source;
	l->handover.mountpoint = &l->mountpoint;
	l->handover.device = &l->device;
	l->handover.engine = l->engine;
	handover_start(&l->handover, &l->loop, listening);
	return true;
}

static _Noreturn void
give_up(struct lsfs *l)
{
	daemon_failed(l->daemon);
	_exit(1);
}

/* Until the other process has let go of the mount it goes on with it, if this one fails: so nothing
 * may be closed in order before that. */
static bool
take_over(struct lsfs *l)
{
	struct takeover *t = &l->takeover;
	struct client_status status;
	struct image state;
	int rc = 0;

	if (!takeover_begin(t, l->mountpoint.path, l->mountpoint.run.path))
		give_up(l);
	state = image_from(t->state);
	if (!device_load(&l->device, &state, true))
		rc = -EBADMSG;
	if (rc == 0)
		rc = start_engine(l, &state);
	if (rc == 0 && !image_done(&state))
		rc = -EBADMSG;
	if (rc < 0) {
		log_error("%s: the state of the running lsfs is not understood: %s",
		          l->mountpoint.path, strerror(-rc));
		give_up(l);
	}
	if (!takeover_end(t, l->mountpoint.path))
		give_up(l);
	l->mountpoint.run.fd = t->record;
	l->safe = true;
	status = engine_status(l->engine);
	record_session(l, &status);
	log_info("%s: took the mount over: session %" PRIu64, l->mountpoint.path, status.session);
	if (device_adopt(&l->device, t->device, l->mountpoint.path) < 0 ||
	    !serve_mount(l, t->listening))
		return false;
	state = image_from(t->state);
	return device_load(&l->device, &state, false);
}

static void
on_refused(void *user)
{
	struct lsfs *l = user;

	if (l->stopping || l->safe)
		return;
	l->refused = true;
	must(uv_timer_start(&l->begin, on_begin, 0, 0) == 0);
}

static void
on_begin(uv_timer_t *timer)
{
	struct lsfs *l = timer->data;

	if (l->refused) {
		log_error("%s: %s", l->source.path, link_trouble(l->link));
		l->failed = true;
		stop(l);
	} else if (!l->safe) {
		/* Logs the reason of the delay for the user, who waits for the mount. */
		log_warn("%s: %s: trying again", l->source.path, link_trouble(l->link));
		if (l->options->background)
			daemon_background(l->daemon);
		must(uv_timer_start(&l->begin, on_begin, TELL_AGAIN_MS, 0) == 0);
	} else {
		mountinfo_each(warn_of_another, l);
		if (device_mount(&l->device, l->mountpoint.path) == 0 && serve_mount(l, -1))
			return;
		l->failed = true;
		stop(l);
	}
}

/* From here on a replica may have handles on the loop, so every end goes through stop(). */
static bool
serve(struct lsfs *l)
{
	int rc;

	l->link = source_link(&l->source, &l->loop);
	if (!l->link)
		return false;
	link_on_refused(l->link, on_refused, l);
	if (l->options->replace)
		return take_over(l);
	if ((rc = start_engine(l, NULL)) == 0)
		rc = uv_timer_start(&l->begin, on_begin, TELL_FIRST_MS, 0);
	if (rc < 0)
		log_error("%s: cannot start: %s", l->mountpoint.path, uv_strerror(rc));
	return rc == 0;
}

static void
run_loop(struct lsfs *l)
{
	if (!serve(l)) {
		l->failed = true;
		stop(l);
	}
	uv_run(&l->loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&l->loop) == 0);
	/* libfuse unmounts only what it has mounted. */
	if (l->options->replace && device_is_mounted(&l->device))
		mountpoint_detach(l->mountpoint.path);
	device_fini(&l->device);
	if (l->engine)
		engine_free(l->engine);
}

static bool
start_loop(struct lsfs *l)
{
	int rc = uv_loop_init(&l->loop);

	if (rc == 0)
		rc = start_signals(l);
	if (rc == 0)
		rc = uv_timer_init(&l->loop, &l->begin);
	if (rc == 0)
		rc = uv_timer_init(&l->loop, &l->watchdog);
	if (rc == 0)
		rc = heap_trim_start(&l->heap, &l->loop);
	l->begin.data = l;
	if (rc < 0)
		log_error("cannot start: %s", uv_strerror(rc));
	return rc == 0;
}

static bool
start(struct lsfs *l)
{
	char why[256];

	if (!source_find(&l->source, l->options, l->mountpoint.path))
		return false;
	if (l->options->replace)
		snprintf(l->source.shown, sizeof l->source.shown, "%s", l->takeover.shown);
	if (!start_device(l))
		return false;
	if (!confinement_before_mount(why, sizeof why))
		log_error("%s: can't be confined: %s", l->mountpoint.path, why);
	else if (source_open(&l->source, l->options, on_host_failed, l) && start_loop(l)) {
		log_about(l->source.cell_file.name, 0);
		return true;
	}
	device_fini(&l->device);
	return false;
}

int
lsfs_run(const struct options *options, struct daemon *daemon)
{
	struct lsfs *l = memory_zero(1, sizeof *l);
	int status = 1;

	l->options = options->replace ? &l->takeover.options : options;
	l->daemon = daemon;
	if (options->replace)
		daemon_stay(daemon);
	if (options->replace ? mountpoint_of_another(&l->mountpoint, options->mountpoint) &&
	                           takeover_ask(&l->takeover, options, l->mountpoint.path,
	                                        l->mountpoint.run.path)
	                     : mountpoint_take(&l->mountpoint, options->mountpoint)) {
		l->session_closed = l->mountpoint.earlier.session == 0;
		if (start(l)) {
			run_loop(l);
			status = l->failed;
		}
		/* Before it was handed over, the record is not ours. */
		if (l->mountpoint.run.fd >= 0)
			mountpoint_release(&l->mountpoint, l->session_closed);
	}
	if (options->replace && status != 0)
		daemon_failed(daemon);
	takeover_free(&l->takeover);
	free(l);
	return status;
}
