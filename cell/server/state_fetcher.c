#include "cell/server/state_fetcher.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"

enum {
	PATIENCE_MS = 3000,
	MISSES_MAX = 3,      /* then another replica is asked */
	MAKING_MS = 50,      /* a copy is being made there: ask again after this */
	PAUSE_MS = 500,      /* behind a failure; grows with each */
	PAUSE_MAX_MS = 30000,
	TELL_EVERY_S = 5,
};

struct state_fetcher {
	struct state_fetcher_config config;
	char *path;
	uint8_t wanted;      /* who has one, as we were told last; 0: none is needed */
	uint8_t from;        /* who is asked; 0: nobody */
	uint64_t copy;       /* its number there; 0: not known yet */
	uint64_t offset, size;
	int misses;
	int64_t pause_ms;
	int fd;              /* -1: none */
	bool begun;          /* a part has come */
	bool checking, done; /* done: nothing more is to be fetched */
	mono_t since, told;  /* the beginning; the last line in the log */
	uv_timer_t timer;
	uv_work_t check;
	bool whole;          /* what the check found */
	char why[256];
	bool stopping;
	void (*stopped)(void *user);
	void *stopped_user;
};

static void on_timer(uv_timer_t *timer);

static void
call_again(struct state_fetcher *s, int64_t ms)
{
	uv_update_time(s->timer.loop);
	must(uv_timer_start(&s->timer, on_timer, (uint64_t)ms, 0) == 0);
}

static void
ask(struct state_fetcher *s)
{
	const struct msg_snapshot_request request = {.copy = s->copy, .offset = s->offset};

	call_again(s, span_to_ms(s->config.patience));
	s->config.ask(s->config.user, s->from, &request);
}

/* ---- the file ---- */

static void
close_file(struct state_fetcher *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
}

static void
give_up(struct state_fetcher *s)
{
	close_file(s);
	unlink(s->path);
	must(uv_timer_stop(&s->timer) == 0);
	s->from = 0;
}

/* Tried again after a pause, with whoever has a copy by then. */
static void
fail(struct state_fetcher *s, const char *why)
{
	log_warn("the state of replica %u was not copied: %s", s->from, why);
	give_up(s);
	s->pause_ms = s->pause_ms == 0 ? PAUSE_MS : s->pause_ms * 2;
	if (s->pause_ms > PAUSE_MAX_MS)
		s->pause_ms = PAUSE_MAX_MS;
	call_again(s, s->pause_ms);
}

static void
begin(struct state_fetcher *s)
{
	give_up(s);
	s->from = s->wanted;
	s->copy = s->offset = s->size = 0;
	s->misses = 0;
	s->begun = false;
	s->since = s->told = clock_now();
	s->fd = open(s->path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (s->fd < 0) {
		fail(s, strerror(errno));
		return;
	}
	log_info("this replica is far behind: copies the state of replica %u", s->from);
	ask(s);
}

/* ---- the check of the whole ---- */

static void
check(uv_work_t *work)
{
	struct state_fetcher *s = work->data;

	s->whole = store_fetched_ready(s->config.directory, s->config.cell, s->why,
	                               sizeof s->why);
}

static void gone(struct state_fetcher *s);

static void
on_checked(uv_work_t *work, int status)
{
	struct state_fetcher *s = work->data;

	must(status == 0);
	s->checking = false;
	if (s->stopping) {
		gone(s);
		return;
	}
	if (!s->whole) {
		fail(s, s->why);
		return;
	}
	s->done = true;
	log_info("the state of replica %u is here, %llu MiB in %lld s", s->from,
	         (unsigned long long)(s->size >> 20),
	         (long long)(span_to_ms(mono_since(clock_now(), s->since)) / 1000));
	s->config.ready(s->config.user);
}

static void
begin_check(struct state_fetcher *s)
{
	close_file(s);
	must(uv_timer_stop(&s->timer) == 0);
	s->checking = true;
	s->check.data = s;
	must(uv_queue_work(s->timer.loop, &s->check, check, on_checked) == 0);
}

/* ---- parts ---- */

static void
tell_progress(struct state_fetcher *s)
{
	mono_t now = clock_now();

	if (mono_before(now, mono_add(s->told, span_s(TELL_EVERY_S))))
		return;
	s->told = now;
	log_info("%llu of %llu MiB of the state of replica %u are here",
	         (unsigned long long)(s->offset >> 20), (unsigned long long)(s->size >> 20),
	         s->from);
}

static void
take(struct state_fetcher *s, const struct msg_snapshot_part *part)
{
	int rc;

	if (part->copy != s->copy && s->copy != 0)
		return; /* of an earlier question */
	if (part->offset != s->offset || (s->begun && part->size != s->size))
		return;
	if (part->data.len == 0 || part->data.len > part->size - s->offset ||
	    checksum(part->data) != part->checksum) {
		fail(s, "a damaged part");
		return;
	}
	rc = file_write_at(s->fd, part->data, (off_t)s->offset);
	if (rc < 0) {
		fail(s, strerror(-rc));
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
	if (s->from == 0 || from != s->from || s->checking || s->done || s->stopping)
		return;
	switch (part->rc) {
	case RC_OK:
		take(s, part);
		return;
	case RC_BUSY:
		s->misses = 0;
		if (part->copy != 0 && !s->begun)
			s->copy = part->copy;
		call_again(s, MAKING_MS);
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

/* BUSY is waited for by the same timer; a question too much does no harm. */
static void
on_timer(uv_timer_t *timer)
{
	struct state_fetcher *s = timer->data;

	if (s->wanted == 0)
		return;
	if (s->from == 0) {
		begin(s);
	} else if (s->misses++ < MISSES_MAX) {
		ask(s);
	} else {
		log_warn("replica %u does not answer: its state was not copied", s->from);
		begin(s);
	}
}

void
state_fetcher_need(struct state_fetcher *s, uint8_t replica)
{
	s->wanted = replica;
	if (s->checking || s->done || s->stopping)
		return;
	if (replica == 0 && s->from != 0) {
		log_info("the state of replica %u is not needed any more", s->from);
		give_up(s);
		s->pause_ms = 0;
	}
	if (replica != 0 && s->from == 0 && !uv_is_active((uv_handle_t *)&s->timer))
		begin(s);
}

/* ---- life ---- */

struct state_fetcher *
state_fetcher_new(const struct state_fetcher_config *config)
{
	struct state_fetcher *s = memory_zero(1, sizeof *s);
	char path[PATH_MAX];

	s->config = *config;
	if (s->config.patience.ns == 0)
		s->config.patience = span_ms(PATIENCE_MS);
	snprintf(path, sizeof path, "%s/" STORE_FETCHED, config->directory);
	s->path = bytes_to_text(bytes_of(path));
	s->fd = -1;
	unlink(path);
	must(uv_timer_init(config->loop, &s->timer) == 0);
	s->timer.data = s;
	return s;
}

static void
on_timer_closed(uv_handle_t *timer)
{
	struct state_fetcher *s = timer->data;
	void (*stopped)(void *user) = s->stopped;
	void *user = s->stopped_user;

	free(s->path);
	free(s);
	stopped(user);
}

static void
gone(struct state_fetcher *s)
{
	if (!s->done)
		give_up(s);
	uv_close((uv_handle_t *)&s->timer, on_timer_closed);
}

void
state_fetcher_stop(struct state_fetcher *s, void (*stopped)(void *user), void *user)
{
	s->stopping = true;
	s->stopped = stopped;
	s->stopped_user = user;
	must(uv_timer_stop(&s->timer) == 0);
	if (!s->checking)
		gone(s);
}

