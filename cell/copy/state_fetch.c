#include "cell/copy/state_fetch.h"

#include "cell/base/checksum.h"
#include "cell/base/must.h"

enum {
	MAKING_MS = 50,     /* until the request is repeated while the source makes a copy */
	OTHERS_MAX_S = 60,  /* wait for a source that makes copies for others, */
	UNNAMED_MAX_S = 20, /* or one while another source, perhaps the master, is named, */
	COPY_MAX_S = 600,   /* or one at all: long enough for the copy of a large state */
	TELL_EVERY_S = 5,
	USELESS_MS = 300, /* until the next copy may be newer: the state lags behind the log */
};

static const char too_old[] = "its state is too far behind";

/* ---- requests ---- */

static void
ask(struct state_fetch *f, mono_t now, struct state_fetch_update *u)
{
	f->waiting = false;
	f->due = mono_add(now, f->policy.patience);
	u->to = f->source;
	u->request = (struct msg_state_request){.copy = f->copy, .offset = f->offset};
}

static void
ask_again_in(struct state_fetch *f, mono_t now, int64_t ms)
{
	f->waiting = true;
	f->due = mono_add(now, span_ms(ms));
}

/* A new copy is requested, and written from its beginning. */
static void
forget_copy(struct state_fetch *f, struct state_fetch_update *u)
{
	f->copy = f->offset = f->size = f->applied = 0;
	f->busy = 0;
	u->begin = true;
}

static void
begin(struct state_fetch *f, mono_t now, struct state_fetch_update *u)
{
	f->phase = STATE_FETCH_ASKING;
	f->source = f->wanted;
	f->unanswered = f->useless = f->refused = 0;
	forget_copy(f, u);
	ask(f, now, u);
	u->news = STATE_FETCH_BEGUN;
	u->source = f->source;
}

/* ---- a source that does not serve ---- */

static void
end(struct state_fetch *f, enum state_fetch_news news, struct state_fetch_update *u)
{
	*u = (struct state_fetch_update){.news = news, .source = f->source, .drop = true};
	f->phase = STATE_FETCH_IDLE;
	f->due = MONO_NEVER;
}

static void
end_unneeded(struct state_fetch *f, struct state_fetch_update *u)
{
	end(f, STATE_FETCH_UNNEEDED, u);
	backoff_reset(&f->pause);
}

static void
give_up_at_once(struct state_fetch *f, mono_t now, const char *why, struct state_fetch_update *u)
{
	end(f, STATE_FETCH_GIVEN_UP, u);
	u->why = why;
	f->due = now;
}

static void
give_up(struct state_fetch *f, mono_t now, const char *why, struct state_fetch_update *u)
{
	give_up_at_once(f, now, why, u);
	f->due = mono_add(now, backoff_take(&f->pause));
}

static void
give_up_for_all(struct state_fetch *f, mono_t now, const char *why, struct state_fetch_update *u)
{
	give_up(f, now, why, u);
	u->hopeless = true;
}

/* The copy does not serve, but the next one of the same source may. */
static void
try_next_copy(struct state_fetch *f, mono_t now, const char *why, struct state_fetch_update *u)
{
	if (++f->useless >= f->policy.copies) {
		give_up(f, now, why, u);
		return;
	}
	forget_copy(f, u);
	ask_again_in(f, now, USELESS_MS);
}

/* ---- answers ---- */

/* True for a part that answers an earlier request: it was late, or sent twice. */
static bool
is_late(const struct state_fetch *f, const struct msg_state_part *part)
{
	return (f->copy != 0 && part->copy != f->copy) || part->offset != f->offset;
}

static bool
is_damaged(const struct state_fetch *f, const struct msg_state_part *part)
{
	if (f->offset != 0 && (part->size != f->size || part->applied != f->applied))
		return true;
	return part->copy == 0 || part->data.len == 0 || part->offset > part->size ||
	       part->data.len > part->size - part->offset || checksum(part->data) != part->checksum;
}

static void
take_part(struct state_fetch *f, mono_t now, const struct msg_state_part *part,
          struct state_fetch_update *u)
{
	if (is_late(f, part))
		return;
	if (is_damaged(f, part)) {
		give_up(f, now, "a part of the copy was damaged on the way", u);
		return;
	}
	if (part->applied < f->least) {
		try_next_copy(f, now, too_old, u);
		return;
	}
	u->data = part->data;
	u->offset = f->offset;
	f->copy = part->copy;
	f->size = part->size;
	f->applied = part->applied;
	f->offset += part->data.len;
	f->unanswered = f->refused = f->busy = 0;
	if (f->offset < f->size) {
		ask(f, now, u);
		return;
	}
	f->phase = STATE_FETCH_CHECKING;
	f->due = MONO_NEVER;
	u->check = true;
}

static void
take_busy(struct state_fetch *f, mono_t now, uint64_t copy, struct state_fetch_update *u)
{
	const bool named = f->wanted == f->source || f->offset > 0;

	f->unanswered = 0;
	f->refused = copy == 0 || !named ? f->refused + 1 : 0;
	f->busy++;
	if (copy != 0 && f->offset == 0)
		f->copy = copy;
	if (f->refused > (named ? OTHERS_MAX_S : UNNAMED_MAX_S) * 1000 / MAKING_MS)
		give_up(f, now, named ? "it is making copies for others" : "its copy takes long",
		        u);
	else if (f->busy > COPY_MAX_S * 1000 / MAKING_MS)
		give_up(f, now, "its copy takes too long: see its log and its disk", u);
	else
		ask_again_in(f, now, MAKING_MS);
	if (u->news == STATE_FETCH_NO_NEWS && f->busy % (TELL_EVERY_S * 1000 / MAKING_MS) == 0) {
		u->news = STATE_FETCH_WAITS;
		u->source = f->source;
	}
}

static void
take_refusal(struct state_fetch *f, mono_t now, const struct msg_state_refused *refused,
             struct state_fetch_update *u)
{
	if (refused->rc == RC_BUSY) {
		take_busy(f, now, refused->copy, u);
		return;
	}
	if (f->copy != 0 && refused->copy != f->copy)
		return; /* it answers an earlier request */
	switch (refused->rc) {
	case RC_NOENT:
		try_next_copy(f, now, "it discards its copies", u);
		return;
	case RC_NODATA: /* a new cell, until its first entry is applied */
		try_next_copy(f, now, "its state is still empty", u);
		return;
	case RC_NOSPC:
		give_up(f, now, "its disk has no room for a copy", u);
		return;
	case RC_IO:
		give_up(f, now, "it cannot make or read a copy: see its log", u);
		return;
	case RC_PERM:
	case RC_ACCES:
		give_up_for_all(f, now, "only an administrator may (a principal in /acl/admin)", u);
		return;
	default:
		give_up(f, now, rc_text((enum rc)refused->rc), u);
		return;
	}
}

/* ---- the other events ---- */

static void
time_out(struct state_fetch *f, mono_t now, struct state_fetch_update *u)
{
	if (!mono_reached(now, f->due))
		return;
	f->due = MONO_NEVER;
	if (f->phase == STATE_FETCH_IDLE) {
		if (f->wanted != 0)
			begin(f, now, u);
	} else if (f->waiting || (++f->unanswered < f->policy.requests && f->wanted == f->source)) {
		ask(f, now, u);
	} else {
		give_up_at_once(f, now, "no answer in time", u);
	}
}

static void
want(struct state_fetch *f, const struct state_fetch_event *e, struct state_fetch_update *u)
{
	const bool another = e->replica != f->wanted && e->replica != f->source;

	f->wanted = e->replica;
	f->least = e->least;
	if (f->wanted == 0 && f->phase == STATE_FETCH_ASKING)
		end_unneeded(f, u);
	if (f->wanted == 0 || f->phase != STATE_FETCH_IDLE)
		return;
	if (mono_is_never(f->due)) {
		begin(f, e->now, u);
	} else if (another) {
		/* The pause has grown because other sources had no useful copy; this one may. */
		f->due = mono_min(f->due, mono_add(e->now, f->policy.pause));
	}
}

/* Meanwhile the log may have brought the state as far as the copy, or farther. */
static void
take_checked(struct state_fetch *f, mono_t now, const char *why, struct state_fetch_update *u)
{
	must(f->phase == STATE_FETCH_CHECKING);
	if (why != NULL) {
		give_up(f, now, why, u);
	} else if (f->wanted == 0) {
		end_unneeded(f, u);
	} else if (f->applied < f->least) {
		f->phase = STATE_FETCH_ASKING;
		try_next_copy(f, now, too_old, u);
	} else {
		f->phase = STATE_FETCH_COMPLETE;
		u->news = STATE_FETCH_FETCHED;
		u->source = f->source;
	}
}

/* Answers count only from the source, while it is asked. */
static bool
is_answered(const struct state_fetch *f, const struct state_fetch_event *e)
{
	return f->phase == STATE_FETCH_ASKING && e->replica == f->source;
}

void
state_fetch_step(struct state_fetch *f, const struct state_fetch_event *e,
                 struct state_fetch_update *u)
{
	*u = (struct state_fetch_update){0};
	switch (e->kind) {
	case STATE_FETCH_TIME:
		time_out(f, e->now, u);
		return;
	case STATE_FETCH_WANT:
		want(f, e, u);
		return;
	case STATE_FETCH_PART:
		if (is_answered(f, e))
			take_part(f, e->now, e->part, u);
		return;
	case STATE_FETCH_REFUSED:
		if (is_answered(f, e))
			take_refusal(f, e->now, e->refused, u);
		return;
	case STATE_FETCH_LOST:
		if (is_answered(f, e))
			give_up(f, e->now, e->why, u);
		return;
	case STATE_FETCH_UNWRITTEN:
		give_up_for_all(f, e->now, e->why, u);
		return;
	case STATE_FETCH_CHECKED:
		take_checked(f, e->now, e->why, u);
		return;
	}
}

void
state_fetch_init(struct state_fetch *f, const struct state_fetch_policy *policy)
{
	*f = (struct state_fetch){.policy = *policy,
	                          .pause = backoff_of(policy->pause, policy->pause_max),
	                          .due = MONO_NEVER};
}
