#include "cell/copy/state_transfer.h"

#include <stdlib.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"

enum copy_state {
	COPY_NONE,
	COPY_WAITING, /* until it is made */
	COPY_MAKING,
	COPY_READY,
	COPY_BROKEN, /* could not be made; its reader was not answered yet */
};

struct copy {
	enum copy_state state;
	struct state_sender_reader reader;
	bool abandoned; /* being made, but its reader is gone */
	uint64_t id;    /* random, because a reader may ask for a copy of an earlier process */
	uint64_t applied, size;
	enum rc why;   /* the error of a copy that is broken */
	bool begun;    /* a part was requested */
	uint64_t has;  /* offset up to which the reader has the copy, from its last request */
	uint64_t next; /* offset of the next part to be sent */
	int ahead;     /* number of parts that may be on their way */
	mono_t sent[STATE_SENDER_AHEAD]; /* the times at which parts were sent, by part number */
	mono_t idle;                     /* when to drop the copy */
};

struct state_sender {
	struct state_sender_config config;
	struct copy all[STATE_SENDER_MAX];
	int turn;    /* the place that is served first */
	mono_t next; /* the time from which a part may be read */
	mono_t due;  /* of the next action */
	uint8_t *part;
};

static mono_t
now_of(const struct state_sender *c)
{
	return clock_io_now(c->config.clock);
}

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
part_is_due(const struct state_sender *c, const struct copy *copy)
{
	return copy->state == COPY_READY && copy->begun && copy->next < copy->size &&
	       copy->next - copy->has < (uint64_t)copy->ahead * c->config.part_max;
}

static mono_t *
time_of(const struct state_sender *c, struct copy *copy, uint64_t offset)
{
	return &copy->sent[offset / c->config.part_max % STATE_SENDER_AHEAD];
}

static void
drop(struct state_sender *c, struct copy *copy)
{
	if (copy->state == COPY_MAKING) {
		copy->abandoned = true;
		return;
	}
	if (copy->state == COPY_READY)
		c->config.files->drop(c->config.files->user, (int)(copy - c->all));
	*copy = (struct copy){0};
}

static void
refuse(struct state_sender *c, struct state_sender_reader reader, uint64_t copy, enum rc rc)
{
	c->config.send(c->config.user, reader,
	               &MESSAGE(state_refused, .rc = (uint8_t)rc, .copy = copy));
}

/* ---- making ---- */

static void begin_next(struct state_sender *c);
static void arm(struct state_sender *c);

static struct copy *
copy_being_made(struct state_sender *c)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		if (c->all[i].state == COPY_MAKING)
			return &c->all[i];
	return NULL;
}

void
state_sender_made(struct state_sender *c, enum rc rc, uint64_t applied, uint64_t size,
                  const char *why)
{
	struct copy *copy = copy_being_made(c);

	must(copy != NULL);
	if (rc != RC_OK)
		clock_io_log(c->config.clock, LEVEL_ERROR, "cannot make a copy of the state: %s",
		             why);
	copy->applied = applied;
	copy->size = size;
	copy->state = rc == RC_OK ? COPY_READY : COPY_BROKEN;
	copy->why = rc;
	copy->idle = mono_add(now_of(c), span_ms(STATE_SENDER_IDLE_MS));
	if (copy->abandoned)
		drop(c, copy);
	begin_next(c);
	arm(c);
}

static void
begin_next(struct state_sender *c)
{
	struct copy *next = NULL;

	for (int i = 0; i < STATE_SENDER_MAX; i++)
		if (c->all[i].state == COPY_WAITING)
			next = &c->all[i];
	if (next == NULL || copy_being_made(c) != NULL)
		return;
	next->state = COPY_MAKING;
	if (next->reader.peer != 0 && c->config.begun != NULL)
		c->config.begun(c->config.user, next->reader.peer);
	c->config.files->make(c->config.files->user, (int)(next - c->all));
}

/* A free place, or else that of a copy which was read to its end. */
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
		drop(c, done);
	return done;
}

/* Begins a copy; NULL: the maximum number of copies exists already. */
static struct copy *
begin(struct state_sender *c, struct state_sender_reader reader)
{
	struct copy *copy = find_place(c);

	if (copy == NULL)
		return NULL;
	*copy = (struct copy){.state = COPY_WAITING, .reader = reader, .ahead = 1};
	while (copy->id == 0)
		c->config.clock->random(c->config.clock->user, &copy->id, sizeof copy->id);
	begin_next(c);
	return copy;
}

/* ---- reading ---- */

static void
serve(struct state_sender *c, struct copy *copy)
{
	const struct copy_io *io = c->config.files;
	const uint64_t left = copy->size - copy->next, offset = copy->next;
	struct bytes data = {c->part,
	                     left < c->config.part_max ? (size_t)left : c->config.part_max};
	const char *why = io->read(io->user, (int)(copy - c->all), offset, c->part, data.len);

	if (why != NULL) {
		clock_io_log(c->config.clock, LEVEL_ERROR, "cannot read a copy of the state: %s",
		             why);
		refuse(c, copy->reader, copy->id, RC_IO);
		drop(c, copy);
		return;
	}
	*time_of(c, copy, offset) = now_of(c);
	copy->next += data.len;
	if (is_read(copy))
		copy->idle = mono_add(now_of(c), span_ms(STATE_SENDER_DONE_MS));

	c->config.send(c->config.user, copy->reader,
	               &MESSAGE(state_part, .copy = copy->id, .applied = copy->applied,
	                        .size = copy->size, .offset = offset, .data = data,
	                        .checksum = checksum(data)));
}

static void
arm(struct state_sender *c)
{
	c->due = MONO_NEVER;
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		const struct copy *copy = &c->all[i];

		if (copy->state == COPY_READY || copy->state == COPY_BROKEN)
			c->due = mono_min(c->due, part_is_due(c, copy) ? c->next : copy->idle);
	}
}

static bool
serve_one(struct state_sender *c)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		struct copy *copy = &c->all[(c->turn + i) % STATE_SENDER_MAX];

		if (!part_is_due(c, copy))
			continue;
		c->turn = (c->turn + i + 1) % STATE_SENDER_MAX;
		serve(c, copy);
		return true;
	}
	return false;
}

mono_t
state_sender_deadline(const struct state_sender *c)
{
	return c->due;
}

void
state_sender_timeout(struct state_sender *c, mono_t now)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		struct copy *copy = &c->all[i];

		if ((copy->state == COPY_READY || copy->state == COPY_BROKEN) &&
		    mono_reached(now, copy->idle))
			drop(c, copy);
	}

	c->next =
	    mono_max(c->next, mono_add(now, span_ms(-STATE_SENDER_BURST * STATE_SENDER_PACE_MS)));
	while (mono_reached(now, c->next) && serve_one(c))
		c->next = mono_add(c->next, span_ms(STATE_SENDER_PACE_MS));

	arm(c);
}

/* If a reader requests a new copy, and nothing was read of its last one, it gets that one. */
static struct copy *
copy_for(struct state_sender *c, struct state_sender_reader reader, uint64_t id)
{
	struct copy *copy = find(c, reader);

	if (id != 0)
		return copy != NULL && copy->id == id ? copy : NULL;
	if (copy != NULL && copy->begun) {
		drop(c, copy);
		copy = NULL;
	}
	return copy != NULL ? copy : begin(c, reader);
}

void
state_sender_ask(struct state_sender *c, struct state_sender_reader reader,
                 const struct msg_state_request *request)
{
	struct copy *copy = copy_for(c, reader, request->copy);

	if (copy == NULL) {
		refuse(c, reader, request->copy, request->copy == 0 ? RC_BUSY : RC_NOENT);
		return;
	}
	copy->idle = mono_add(now_of(c), span_ms(STATE_SENDER_IDLE_MS));
	if (copy->state == COPY_BROKEN) {
		refuse(c, reader, copy->id, copy->why);
		drop(c, copy);
	} else if (copy->state != COPY_READY) {
		refuse(c, reader, copy->id, RC_BUSY);
	} else if (request->offset >= copy->size) {
		refuse(c, reader, copy->id, RC_INVAL);
	} else {
		const mono_t soon = mono_add(now_of(c), (span_t){-c->config.soon.ns});

		/* Takes a request for the next part, or for an earlier one: then the parts on
		 * their way were lost, and are sent again. */
		if (request->offset > copy->has && request->offset <= copy->next) {
			if (mono_before(*time_of(c, copy, request->offset - 1), soon))
				copy->ahead = 1;
			else if (copy->ahead < STATE_SENDER_AHEAD)
				copy->ahead++;
		} else {
			copy->next = request->offset;
			copy->ahead = 1;
		}
		copy->has = request->offset;
		copy->begun = true;
		arm(c);
	}
}

void
state_sender_forget(struct state_sender *c, struct state_sender_reader reader)
{
	struct copy *copy = find(c, reader);

	if (copy != NULL)
		drop(c, copy);
}

/* ---- life ---- */

struct state_sender *
state_sender_new(const struct state_sender_config *config)
{
	struct state_sender *c = memory_zero(1, sizeof *c);

	c->config = *config;
	if (c->config.soon.ns == 0)
		c->config.soon = span_ms(STATE_SENDER_SOON_MS);
	if (c->config.part_max == 0)
		c->config.part_max = LIMIT_PART;
	c->part = memory_zero(1, c->config.part_max);
	c->next = now_of(c);
	c->due = MONO_NEVER;
	return c;
}

void
state_sender_free(struct state_sender *c)
{
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		drop(c, &c->all[i]);
	free(c->part);
	free(c);
}
