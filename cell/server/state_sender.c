#include "cell/server/state_sender.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"

enum copy_state {
	COPY_NONE,
	COPY_WAITING, /* for the store */
	COPY_MAKING,
	COPY_READY,
	COPY_BROKEN,  /* could not be made: its reader is still to be told */
};

struct copy {
	enum copy_state state;
	struct state_sender_reader reader;
	bool abandoned;  /* being made, for nobody */
	uint64_t id;     /* random: a reader may come with the number of an earlier process */
	int fd;
	uint64_t applied, size;
	enum rc why;     /* it is broken */
	bool begun;      /* a part was asked for */
	uint64_t has;    /* the reader has what lies before: its last question */
	uint64_t next;   /* of the next part; this and those behind it are to be sent: */
	int ahead;       /* while so many are on their way */
	mono_t sent[STATE_SENDER_AHEAD]; /* when they were, by number */
	mono_t idle;     /* when it is dropped */
};

struct state_sender {
	struct state_sender_config config;
	char *path;
	struct copy all[STATE_SENDER_MAX];
	int turn;         /* who is served first */
	mono_t next;      /* when a part may be read */
	uv_timer_t timer;
	uint8_t *part;
	bool stopping;
	void (*stopped)(void *user);
	void *stopped_user;
};

/* ---- one copy ---- */

static bool
reader_equal(struct state_sender_reader a, struct state_sender_reader b)
{
	return a.peer == b.peer && a.conn == b.conn;
}

static struct copy *
find(struct state_sender *c, struct state_sender_reader reader)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		if (c->all[i].state != COPY_NONE && !c->all[i].abandoned &&
		    reader_equal(c->all[i].reader, reader))
			return &c->all[i];
	return NULL;
}

static bool
is_read(const struct copy *copy)
{
	return copy->state == COPY_READY && copy->begun && copy->next == copy->size;
}

static bool
part_is_due(const struct copy *copy)
{
	return copy->state == COPY_READY && copy->begun && copy->next < copy->size &&
	       copy->next - copy->has < (uint64_t)copy->ahead * LIMIT_PART;
}

static mono_t *
time_of(struct copy *copy, uint64_t offset)
{
	return &copy->sent[offset / LIMIT_PART % STATE_SENDER_AHEAD];
}

static void
drop(struct copy *copy)
{
	if (copy->state == COPY_MAKING) {
		copy->abandoned = true;
		return;
	}
	if (copy->state == COPY_READY)
		close(copy->fd);
	*copy = (struct copy){.fd = -1};
}

static void
answer(struct state_sender *c, const struct copy *copy, struct msg_copy_part part)
{
	part.copy = copy->id;
	part.applied = copy->applied;
	part.size = copy->size;
	c->config.answer(c->config.user, copy->reader, &part);
}

static void
refuse(struct state_sender *c, struct state_sender_reader reader, enum rc rc)
{
	const struct copy nobody = {.reader = reader};

	answer(c, &nobody, (struct msg_copy_part){.rc = rc});
}

/* ---- making ---- */

static void begin_next(struct state_sender *c);
static void end(struct state_sender *c);

/* Without a name it goes with its descriptor. */
static bool
open_copy(struct state_sender *c, struct copy *copy)
{
	struct stat st;
	int fd = open(c->path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || unlink(c->path) < 0) {
		log_error("%s: %s", c->path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return false;
	}
	copy->fd = fd;
	copy->size = (uint64_t)st.st_size;
	return true;
}

static void
on_made(void *user, enum rc rc, uint64_t applied, const char *why)
{
	struct state_sender *c = user;
	struct copy *copy = NULL;

	for (int i = 0; i < STATE_SENDER_MAX; i++)
		if (c->all[i].state == COPY_MAKING)
			copy = &c->all[i];
	must(copy != NULL);
	if (rc != RC_OK && !c->stopping)
		log_error("cannot make a copy of the state: %s", why);
	if (rc == RC_OK && !open_copy(c, copy))
		rc = RC_IO;
	copy->applied = applied;
	copy->state = rc == RC_OK ? COPY_READY : COPY_BROKEN;
	copy->why = rc;
	copy->idle = mono_add(clock_now(), span_ms(STATE_SENDER_IDLE_MS));
	if (copy->state == COPY_BROKEN)
		unlink(c->path);
	if (copy->abandoned)
		drop(copy);
	begin_next(c);
	if (c->stopping)
		end(c);
}

static void
begin_next(struct state_sender *c)
{
	struct copy *next = NULL;

	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		if (c->all[i].state == COPY_MAKING)
			return;
		if (c->all[i].state == COPY_WAITING)
			next = &c->all[i];
	}
	if (next == NULL || c->stopping)
		return;
	next->state = COPY_MAKING;
	if (next->reader.peer != 0 && c->config.begun != NULL)
		c->config.begun(c->config.user, next->reader.peer);
	store_copy(c->config.store, STORE_COPY, on_made, c);
}

/* A free place, else that of one which was read to its end. */
static struct copy *
find_place(struct state_sender *c)
{
	struct copy *done = NULL;

	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		if (c->all[i].state == COPY_NONE)
			return &c->all[i];
		if (is_read(&c->all[i]))
			done = &c->all[i];
	}
	if (done != NULL)
		drop(done);
	return done;
}

/* NULL: there are as many as may be. */
static struct copy *
begin(struct state_sender *c, struct state_sender_reader reader)
{
	struct copy *copy = find_place(c);

	if (copy == NULL)
		return NULL;
	*copy = (struct copy){.state = COPY_WAITING, .reader = reader, .fd = -1, .ahead = 1};
	while (copy->id == 0)
		random_fill(&copy->id, sizeof copy->id);
	begin_next(c);
	return copy;
}

/* ---- reading ---- */

static bool
read_whole(int fd, uint8_t *to, size_t n, uint64_t offset)
{
	while (n > 0) {
		ssize_t got = pread(fd, to, n, (off_t)offset);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		to += got;
		n -= (size_t)got;
		offset += (uint64_t)got;
	}
	return true;
}

static void
serve(struct state_sender *c, struct copy *copy)
{
	const uint64_t left = copy->size - copy->next, offset = copy->next;
	struct bytes data = {c->part, left < LIMIT_PART ? (size_t)left : LIMIT_PART};

	if (!read_whole(copy->fd, c->part, data.len, offset)) {
		log_error("cannot read a copy of the state: %s", strerror(errno));
		answer(c, copy, (struct msg_copy_part){.rc = RC_IO});
		drop(copy);
		return;
	}
	*time_of(copy, offset) = clock_now();
	copy->next += data.len;
	if (is_read(copy))
		copy->idle = mono_add(clock_now(), span_ms(STATE_SENDER_DONE_MS));
	answer(c, copy, (struct msg_copy_part){.rc = RC_OK, .offset = offset, .data = data,
	                                       .checksum = checksum(data)});
}

static void on_timer(uv_timer_t *timer);

static void
arm(struct state_sender *c)
{
	mono_t next = MONO_NEVER;
	int64_t ms;

	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		const struct copy *copy = &c->all[i];

		if (copy->state == COPY_READY || copy->state == COPY_BROKEN)
			next = mono_min(next, part_is_due(copy) ? c->next : copy->idle);
	}
	if (mono_is_never(next)) {
		must(uv_timer_stop(&c->timer) == 0);
		return;
	}
	ms = (mono_since(next, clock_now()).ns + 999999) / 1000000;
	uv_update_time(c->timer.loop);
	must(uv_timer_start(&c->timer, on_timer, ms < 0 ? 0 : (uint64_t)ms, 0) == 0);
}

static bool
serve_one(struct state_sender *c)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		struct copy *copy = &c->all[(c->turn + i) % STATE_SENDER_MAX];

		if (!part_is_due(copy))
			continue;
		c->turn = (c->turn + i + 1) % STATE_SENDER_MAX;
		serve(c, copy);
		return true;
	}
	return false;
}

static void
serve_what_is_due(struct state_sender *c, mono_t now)
{
	c->next =
	    mono_max(c->next, mono_add(now, span_ms(-STATE_SENDER_BURST * STATE_SENDER_PACE_MS)));
	while (mono_before(c->next, now) && serve_one(c))
		c->next = mono_add(c->next, span_ms(STATE_SENDER_PACE_MS));
}

static void
drop_idle(struct state_sender *c, mono_t now)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		struct copy *copy = &c->all[i];

		if ((copy->state == COPY_READY || copy->state == COPY_BROKEN) &&
		    !part_is_due(copy) && mono_reached(now, copy->idle))
			drop(copy);
	}
}

static void
on_timer(uv_timer_t *timer)
{
	struct state_sender *c = timer->data;
	mono_t now = clock_now();

	drop_idle(c, now);
	serve_what_is_due(c, now);
	arm(c);
}

/* Who asks for a new one while nothing was read of the last one may as well have that. */
static struct copy *
copy_for(struct state_sender *c, struct state_sender_reader reader, uint64_t id)
{
	struct copy *copy = find(c, reader);

	if (id != 0)
		return copy != NULL && copy->id == id ? copy : NULL;
	if (copy != NULL && copy->begun) {
		drop(copy);
		copy = NULL;
	}
	return copy != NULL ? copy : begin(c, reader);
}

/* The next question, or an earlier one again: what was on its way is lost. */
static void
go_on(struct state_sender *c, struct copy *copy, uint64_t offset)
{
	const mono_t soon = mono_add(clock_now(), (span_t){-c->config.soon.ns});

	if (offset > copy->has && offset <= copy->next) {
		if (mono_before(*time_of(copy, offset - 1), soon))
			copy->ahead = 1;
		else if (copy->ahead < STATE_SENDER_AHEAD)
			copy->ahead++;
	} else {
		copy->next = offset;
		copy->ahead = 1;
	}
	copy->has = offset;
	copy->begun = true;
	arm(c);
}

void
state_sender_ask(struct state_sender *c, struct state_sender_reader reader,
                 const struct msg_copy_request *request)
{
	struct copy *copy = copy_for(c, reader, request->copy);

	must(!c->stopping);
	if (copy == NULL) {
		refuse(c, reader, request->copy == 0 ? RC_BUSY : RC_NOENT);
		return;
	}
	copy->idle = mono_add(clock_now(), span_ms(STATE_SENDER_IDLE_MS));
	if (copy->state == COPY_BROKEN) {
		answer(c, copy, (struct msg_copy_part){.rc = copy->why});
		drop(copy);
	} else if (copy->state != COPY_READY) {
		answer(c, copy, (struct msg_copy_part){.rc = RC_BUSY});
	} else if (request->offset >= copy->size) {
		answer(c, copy, (struct msg_copy_part){.rc = RC_INVAL});
	} else {
		go_on(c, copy, request->offset);
	}
}

void
state_sender_forget(struct state_sender *c, struct state_sender_reader reader)
{
	struct copy *copy = find(c, reader);

	if (copy != NULL)
		drop(copy);
}

/* ---- life ---- */

struct state_sender *
state_sender_new(const struct state_sender_config *config)
{
	struct state_sender *c = memory_zero(1, sizeof *c);
	char path[PATH_MAX];

	c->config = *config;
	if (c->config.soon.ns == 0)
		c->config.soon = span_ms(STATE_SENDER_SOON_MS);
	snprintf(path, sizeof path, "%s/" STORE_COPY, config->directory);
	c->path = bytes_to_text(bytes_of(path));
	c->part = memory_zero(1, LIMIT_PART);
	c->next = clock_now();
	must(uv_timer_init(config->loop, &c->timer) == 0);
	c->timer.data = c;
	return c;
}

static void
on_timer_closed(uv_handle_t *timer)
{
	struct state_sender *c = timer->data;
	void (*stopped)(void *user) = c->stopped;
	void *user = c->stopped_user;

	free(c->path);
	free(c->part);
	free(c);
	stopped(user);
}

static void
end(struct state_sender *c)
{
	uv_close((uv_handle_t *)&c->timer, on_timer_closed);
}

/* The store says when it has given up the one that it is making. */
void
state_sender_stop(struct state_sender *c, void (*stopped)(void *user), void *user)
{
	bool making = false;

	c->stopping = true;
	c->stopped = stopped;
	c->stopped_user = user;
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		making |= c->all[i].state == COPY_MAKING;
		drop(&c->all[i]);
	}
	if (!making)
		end(c);
}
