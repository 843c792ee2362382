#include "cell/server/state_fetcher.h"

#include <stdlib.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"

enum {
	PATIENCE_MS = 3000,
	MISSES_MAX = 3,      /* unanswered requests to a replica; then another one is asked */
	MAKING_MS = 50,      /* pause while the other replica makes the copy */
	PAUSE_MS = 500,      /* pause after a failure; grows with each */
	PAUSE_MAX_MS = 30000,
	TELL_EVERY_S = 5,
};

struct state_fetcher {
	struct state_fetcher_config config;
	uint8_t wanted;      /* the replica to fetch from, as set last; 0: none is needed */
	uint64_t applied;    /* index of this replica's own state */
	uint8_t from;        /* the replica that is asked; 0: none */
	uint64_t copy;       /* number of the copy at that replica; 0: not known yet */
	uint64_t offset, size;
	int misses;
	int64_t pause_ms;
	bool begun;          /* a part was received */
	bool checking, done; /* done: a state was fetched, and nothing more is to be */
	mono_t since, told;  /* when the fetch was begun; when its progress was logged last */
	mono_t due;          /* when to act without an answer; MONO_NEVER: never */
};

static mono_t
now_of(const struct state_fetcher *s)
{
	return server_io_now(s->config.io);
}

static void
call_again(struct state_fetcher *s, span_t pause)
{
	s->due = mono_add(now_of(s), pause);
}

static void
ask(struct state_fetcher *s)
{
	const struct msg_snapshot_request request = {.copy = s->copy, .offset = s->offset};

	call_again(s, s->config.patience);
	s->config.ask(s->config.user, s->from, &request);
}

/* ---- the beginning ---- */

static void
give_up(struct state_fetcher *s)
{
	s->config.io->drop_fetch(s->config.io->user);
	s->due = MONO_NEVER;
	s->from = 0;
}

/* Gives the fetch up. It is begun again after a pause, from the replica that is wanted by then. */
static void
fail(struct state_fetcher *s, const char *why)
{
	server_io_log(s->config.io, SERVER_WARN, "the state of replica %u was not copied: %s",
	              s->from, why);
	give_up(s);
	s->pause_ms = s->pause_ms == 0 ? PAUSE_MS : s->pause_ms * 2;
	if (s->pause_ms > PAUSE_MAX_MS)
		s->pause_ms = PAUSE_MAX_MS;
	call_again(s, span_ms(s->pause_ms));
}

static void
begin(struct state_fetcher *s)
{
	const char *why;

	give_up(s);
	s->from = s->wanted;
	s->copy = s->offset = s->size = 0;
	s->misses = 0;
	s->begun = false;
	s->since = s->told = now_of(s);
	why = s->config.io->begin_fetch(s->config.io->user);
	if (why != NULL) {
		fail(s, why);
		return;
	}
	server_io_log(s->config.io, SERVER_INFO,
	              "this replica is far behind: copies the state of replica %u", s->from);
	ask(s);
}

/* ---- the check of the whole ---- */

static void
begin_check(struct state_fetcher *s)
{
	s->due = MONO_NEVER;
	s->checking = true;
	s->config.io->check_fetch(s->config.io->user);
}

void
state_fetcher_checked(struct state_fetcher *s, const char *why)
{
	must(s->checking);
	s->checking = false;
	if (why != NULL) {
		fail(s, why);
		return;
	}
	s->done = true;
	server_io_log(s->config.io, SERVER_INFO,
	              "the state of replica %u is here, %llu MiB in %lld s", s->from,
	              (unsigned long long)(s->size >> 20),
	              (long long)(span_to_ms(mono_since(now_of(s), s->since)) / 1000));
	s->config.ready(s->config.user);
}

/* ---- parts ---- */

static void
tell_progress(struct state_fetcher *s)
{
	mono_t now = now_of(s);

	if (mono_before(now, mono_add(s->told, span_s(TELL_EVERY_S))))
		return;
	s->told = now;
	server_io_log(s->config.io, SERVER_INFO,
	              "%llu of %llu MiB of the state of replica %u are here",
	              (unsigned long long)(s->offset >> 20), (unsigned long long)(s->size >> 20),
	              s->from);
}

static void
take(struct state_fetcher *s, const struct msg_snapshot_part *part)
{
	const char *why;

	if (part->copy != s->copy && s->copy != 0)
		return; /* it answers an earlier request */
	if (part->offset != s->offset || (s->begun && part->size != s->size))
		return;
	if (part->applied <= s->applied) {
		fail(s, "it is no newer than the one here");
		return;
	}
	if (part->data.len == 0 || part->data.len > part->size - s->offset ||
	    checksum(part->data) != part->checksum) {
		fail(s, "a damaged part");
		return;
	}
	why = s->config.io->write_fetch(s->config.io->user, s->offset, part->data);
	if (why != NULL) {
		fail(s, why);
		return;
	}
	s->begun = true;
	s->misses = 0;
	s->copy = part->copy;
	s->size = part->size;
	s->offset += part->data.len;
	tell_progress(s);
	if (s->offset == s->size)
		begin_check(s);
	else
		ask(s);
}

void
state_fetcher_part(struct state_fetcher *s, uint8_t from, const struct msg_snapshot_part *part)
{
	if (s->from == 0 || from != s->from || s->checking || s->done)
		return;
	switch (part->rc) {
	case RC_OK:
		take(s, part);
		return;
	case RC_BUSY:
		s->misses = 0;
		if (part->copy != 0 && !s->begun)
			s->copy = part->copy;
		call_again(s, span_ms(MAKING_MS));
		return;
	case RC_NOENT:
		fail(s, "it has dropped the copy");
		return;
	case RC_NODATA:
		fail(s, "there is nothing in it yet");
		return;
	case RC_NOSPC:
		fail(s, "its disk has no room for a copy");
		return;
	default:
		fail(s, "it cannot make or read a copy");
		return;
	}
}

/* ---- time ---- */

mono_t
state_fetcher_deadline(const struct state_fetcher *s)
{
	return s->due;
}

/* The pause after an answer BUSY uses the same deadline. An unneeded request does no harm. */
void
state_fetcher_timeout(struct state_fetcher *s, mono_t now)
{
	if (!mono_reached(now, s->due))
		return;
	s->due = MONO_NEVER;
	if (s->wanted == 0)
		return;
	if (s->from == 0) {
		begin(s);
	} else if (s->misses++ < MISSES_MAX) {
		ask(s);
	} else {
		server_io_log(s->config.io, SERVER_WARN,
		              "replica %u does not answer: its state was not copied", s->from);
		begin(s);
	}
}

void
state_fetcher_need(struct state_fetcher *s, uint8_t replica, uint64_t applied)
{
	s->wanted = replica;
	s->applied = applied;
	if (s->checking || s->done)
		return;
	if (replica == 0 && s->from != 0) {
		server_io_log(s->config.io, SERVER_INFO,
		              "the state of replica %u is not needed any more", s->from);
		give_up(s);
		s->pause_ms = 0;
	}
	if (replica != 0 && s->from == 0 && mono_is_never(s->due))
		begin(s);
}

/* ---- life ---- */

struct state_fetcher *
state_fetcher_new(const struct state_fetcher_config *config)
{
	struct state_fetcher *s = memory_zero(1, sizeof *s);

	s->config = *config;
	if (s->config.patience.ns == 0)
		s->config.patience = span_ms(PATIENCE_MS);
	give_up(s); /* removes a file that an earlier process has left */
	return s;
}

void
state_fetcher_free(struct state_fetcher *s)
{
	if (s != NULL && !s->checking && !s->done)
		give_up(s);
	free(s);
}
