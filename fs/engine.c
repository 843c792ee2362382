#include "fs/engine.h"

#include <errno.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"

enum { CLOSE_PATIENCE_S = 5 };

struct engine {
	uv_loop_t *loop;
	uv_timer_t timer;
	mono_t armed;         /* the time for which the timer is set; MONO_NEVER: it is not */
	struct link *link;    /* NULL: stopped */
	unsigned attempts[2]; /* numbers of connection attempts: for requests, of the standby */
	struct client *client;
	struct client_update update;
	struct mount *mount;
	struct mount_update done;
	struct trace trace; /* of the client and the mount */
	/* From the mount, not yet with the client, which may have answers for the mount first. */
	struct client_request **requests;
	size_t requests_n, requests_room;
	struct mount_watch *watches; /* likewise */
	size_t watches_n, watches_room;
	struct engine_output output;
	void (*closed)(void *user, bool in_order);
	void *closed_user;
	bool closed_in_order;
	mono_t close_deadline; /* MONO_NEVER: not closing */
	bool kept;             /* the kernel keeps replies of this turn */
};

/* ---- the mount's side ---- */

/* Notifications are written before replies: a read after the reply must not use old attributes. */
static void
step_mount(struct engine *e, const struct mount_event *event)
{
	struct mount_update *u = &e->done;

	mount_step(e->mount, event, u);
	e->kept |= u->kept;
	for (size_t i = 0; i < u->stale_inodes_n; i++)
		e->output.stale_inode(e->output.user, u->stale_inodes[i]);
	for (size_t i = 0; i < u->replies_n; i++)
		e->output.reply(e->output.user, &u->replies[i]);
	for (size_t i = 0; i < u->woken_n; i++)
		e->output.wake(e->output.user, u->woken[i]);
	for (size_t i = 0; i < u->watches_n; i++) {
		ARRAY_ROOM(e->watches, e->watches_n, e->watches_room);
		e->watches[e->watches_n] = u->watches[i];
		e->watches[e->watches_n++].user = bytes_copy(u->watches[i].user);
	}
	for (size_t i = 0; i < u->requests_n; i++) {
		ARRAY_ROOM(e->requests, e->requests_n, e->requests_room);
		e->requests[e->requests_n++] = client_request_new(&u->requests[i]);
	}
}

#define STEP_MOUNT(e, ...) step_mount(e, &(struct mount_event){__VA_ARGS__})

/* ---- the client's side ---- */

static void
connect_again(struct engine *e, bool standby, uint8_t replica)
{
	e->attempts[standby]++;
	if (e->link && standby)
		link_listen(e->link, replica);
	else if (e->link)
		link_connect(e->link, replica);
}

/* The mount follows the session before it receives the answers of the same step: if the session is
 * over, its handles are void by then. */
static void
tell_session(struct engine *e, mono_t now)
{
	const struct client_status status = client_status(e->client);

	STEP_MOUNT(e, .kind = MOUNT_SESSION, .now = now);
	if (e->update.state_changed)
		e->output.session(e->output.user, &status);
}

/* The kernel must not keep attributes that the client has dropped. */
static void
invalidate(struct engine *e, mono_t now)
{
	const struct client_update *u = &e->update;

	if (u->invalid_n > 0 || u->invalid_all)
		STEP_MOUNT(e, .kind = MOUNT_DROPPED, .now = now, .nodes = u->invalid,
		           .nodes_n = u->invalid_n, .everything = u->invalid_all);
}

#define STEP_CLIENT(e, ...) step_client(e, &(struct client_event){__VA_ARGS__})

static void
step_client(struct engine *e, struct client_event *event)
{
	struct client_update *u = &e->update;
	mono_t now = event->now;
	uint64_t invalidation;

	client_step(e->client, event, u);
	invalidate(e, now);
	if (u->members_changed && e->link)
		link_set_members(e->link, client_members(e->client));
	if (u->connect)
		connect_again(e, false, u->replica);
	if (u->listen)
		connect_again(e, true, u->listen_to);
	if (u->frames.len && e->link)
		link_send(e->link, buffer_view(&u->frames));
	if (u->datagram.len && e->link)
		link_send_datagram(e->link, buffer_view(&u->datagram));
	if (u->state_changed || u->opened)
		tell_session(e, now);
	for (size_t i = 0; i < u->answers_n; i++)
		STEP_MOUNT(e, .kind = MOUNT_ANSWER, .now = now, .answer = &u->answers[i]);
	for (size_t i = 0; i < u->grants_n; i++)
		STEP_MOUNT(e, .kind = MOUNT_GRANT, .now = now, .grant = &u->grants[i]);
	for (size_t i = 0; i < u->watched_n; i++)
		STEP_MOUNT(e, .kind = MOUNT_WATCHED, .now = now, .watched = &u->watched[i],
		           .wall_ns = clock_wall_ns());
	invalidation = u->invalidation;
	if (invalidation != 0)
		STEP_CLIENT(e, .kind = CLIENT_INVALIDATED, .now = now,
		            .invalidation = invalidation);
}

/* ---- the loop ---- */

static void on_timer(uv_timer_t *timer);

/* The timer only wakes the loop; deadlines are compared with clock_now, which also counts while the
 * machine is suspended. A timer that is set to an earlier time is not changed: a needless wake-up
 * is cheaper than setting the timer at every call. */
static void
arm(struct engine *e, mono_t now)
{
	const mono_t deadline =
	    mono_min(mono_min(e->update.deadline, e->done.deadline), e->close_deadline);
	int64_t left = mono_since(deadline, now).ns;
	uint64_t ms = left <= 0 ? 0 : (uint64_t)(left + 999999) / 1000000;

	if (!mono_before(deadline, e->armed))
		return;
	e->armed = deadline;
	uv_timer_start(&e->timer, on_timer, ms, 0);
}

static void
on_timer_closed(uv_handle_t *timer)
{
	struct engine *e = timer->data;

	e->closed(e->closed_user, e->closed_in_order);
}

static void
on_link_stopped(void *user)
{
	struct engine *e = user;

	uv_close((uv_handle_t *)&e->timer, on_timer_closed);
}

static void
finish(struct engine *e, bool in_order)
{
	struct link *link = e->link;

	e->closed_in_order = in_order;
	e->link = NULL;
	uv_timer_stop(&e->timer);
	link_stop(link, on_link_stopped, e);
}

static void
log_traces(struct engine *e)
{
	enum trace_kind kind;
	const char *line;

	while ((line = trace_take(&e->trace, &kind)))
		if (kind == TRACE_NOTICE)
			log_info("%s", line);
		else
			log_debug("%s", line);
}

/* Handles expired deadlines. Called before every event: after a pause of the process the lease may
 * have ended, and then nothing may be answered from the cache. */
static mono_t
catch_up(struct engine *e)
{
	mono_t now = clock_now();

	if (mono_reached(now, e->update.deadline))
		STEP_CLIENT(e, .kind = CLIENT_TIMEOUT, .now = now);
	if (mono_reached(now, e->done.deadline))
		STEP_MOUNT(e, .kind = MOUNT_TIMEOUT, .now = now);
	return now;
}

/* If the process was paused in the middle of a turn, the kernel keeps replies for longer than the
 * mount has reckoned, and the leave to cache may have ended. */
static mono_t
report_written(struct engine *e)
{
	mono_t now = catch_up(e);

	e->kept = false;
	STEP_MOUNT(e, .kind = MOUNT_WRITTEN, .now = now);
	return now;
}

static void
settle(struct engine *e, mono_t now)
{
	for (;;) {
		/* An answer may cause further requests. */
		for (size_t i = 0; i < e->requests_n; i++)
			STEP_CLIENT(e, .kind = CLIENT_REQUEST, .now = now,
			            .request = e->requests[i]);
		e->requests_n = 0;
		for (size_t i = 0; i < e->watches_n; i++) {
			STEP_CLIENT(e, .kind = CLIENT_WATCH, .now = now, .node = e->watches[i].node,
			            .mask = e->watches[i].mask,
			            .generation = e->watches[i].generation,
			            .user = e->watches[i].user);
			free((void *)e->watches[i].user.data);
		}
		e->watches_n = 0;
		if (!e->kept)
			break;
		now = report_written(e);
	}
	if (e->trace.lines.len > 0)
		log_traces(e);
	if (!e->link)
		return;
	if (e->closed && client_status(e->client).state == CLIENT_CLOSED)
		finish(e, !client_status(e->client).left_open);
	else if (mono_reached(now, e->close_deadline))
		finish(e, false);
	else
		arm(e, now);
}

static void
on_timer(uv_timer_t *timer)
{
	struct engine *e = timer->data;

	e->armed = MONO_NEVER;
	settle(e, catch_up(e));
}

/* Passes an event of a connection to the client, unless catch_up has just abandoned the
 * connection. */
static void
connection_event(struct engine *e, struct client_event *event)
{
	unsigned attempt = e->attempts[event->standby];

	event->now = catch_up(e);
	if (attempt == e->attempts[event->standby])
		step_client(e, event);
	settle(e, event->now);
}

static void
on_connected(void *user)
{
	connection_event(user, &(struct client_event){.kind = CLIENT_CONNECTED});
}

static void
on_frame(void *user, bool standby, struct bytes frame)
{
	connection_event(user, &(struct client_event){.kind = CLIENT_FRAME,
	                                              .standby = standby,
	                                              .frame = frame});
}

static void
on_datagram(void *user, struct bytes frame)
{
	connection_event(user, &(struct client_event){.kind = CLIENT_DATAGRAM, .frame = frame});
}

static void
on_disconnected(void *user, bool standby, bool denied)
{
	connection_event(user, &(struct client_event){.kind = CLIENT_DISCONNECTED,
	                                              .standby = standby,
	                                              .denied = denied});
}

void
engine_call(struct engine *e, struct mount_event *event)
{
	event->now = catch_up(e);
	step_mount(e, event);
	settle(e, event->now);
}

unsigned
engine_wants(const struct engine *e, const struct mount_event *event)
{
	return mount_wants(e->mount, event);
}

uint64_t
engine_shown(const struct engine *e, uint64_t ino)
{
	return mount_shown(e->mount, ino);
}

struct client_status
engine_status(const struct engine *e)
{
	return client_status(e->client);
}

/* ---- creation and the end ---- */

int
engine_new(struct engine **engine, uv_loop_t *loop, struct link *link,
           const struct mount_config *mount, const struct client_config *client,
           const struct engine_output *output, struct image *image)
{
	struct engine *e = memory_zero(1, sizeof *e);
	struct client_config traced_client = *client;
	struct mount_config traced_mount = *mount;
	const struct client_members *members;
	mono_t now = clock_now();
	int rc = uv_timer_init(loop, &e->timer);

	if (rc < 0) {
		free(e);
		return rc;
	}
	e->loop = loop;
	e->timer.data = e;
	e->link = link;
	e->output = *output;
	e->armed = e->close_deadline = MONO_NEVER;
	e->trace.on = output->debug;
	traced_client.trace = traced_mount.trace = &e->trace;
	e->client = image != NULL ? client_load(&traced_client, image, now)
	                          : client_new(&traced_client, now);
	if (e->client == NULL)
		return -EBADMSG;
	e->mount = image != NULL ? mount_load(&traced_mount, e->client, image)
	                         : mount_new(&traced_mount, e->client);
	if (e->mount == NULL)
		return -EBADMSG;
	e->update.deadline = client_deadline(e->client);
	e->done.deadline = mount_deadline(e->mount);
	members = client_members(e->client);
	if (members->n > 0)
		link_set_members(link, members);
	link_start(link, &(struct link_callbacks){.connected = on_connected,
	                                          .frame = on_frame,
	                                          .disconnected = on_disconnected,
	                                          .datagram = on_datagram,
	                                          .user = e});
	arm(e, now);
	*engine = e;
	return 0;
}

bool
engine_is_still(const struct engine *e)
{
	return !e->closed && e->requests_n == 0 && e->watches_n == 0 &&
	       client_is_still(e->client) && mount_is_still(e->mount);
}

void
engine_save(const struct engine *e, struct image *to)
{
	client_save(e->client, to);
	mount_save(e->mount, clock_now(), to);
}

void
engine_close(struct engine *e, void (*closed)(void *user, bool in_order), void *user)
{
	mono_t now = catch_up(e);

	must(!e->closed);
	e->closed = closed;
	e->closed_user = user;
	e->close_deadline = mono_add(now, span_s(CLOSE_PATIENCE_S));
	STEP_CLIENT(e, .kind = CLIENT_CLOSE, .now = now,
	            .as_expired = mount_has_file_locks(e->mount));
	settle(e, now);
}

void
engine_free(struct engine *e)
{
	for (size_t i = 0; i < e->requests_n; i++)
		client_request_free(e->requests[i]);
	free(e->requests);
	for (size_t i = 0; i < e->watches_n; i++)
		free((void *)e->watches[i].user.data);
	free(e->watches);
	mount_free(e->mount);
	mount_update_free(&e->done);
	client_free(e->client);
	client_update_free(&e->update);
	trace_free(&e->trace);
	free(e);
}
