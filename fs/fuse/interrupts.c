#include "fs/fuse/interrupts.h"

#include "cell/sys/clock.h"
#include "fs/fuse/proc.h"

enum {
	/* At most this many looks into /proc, of about 20 us each, in a window of time. */
	LOOKS = 10,
	LOOKS_WINDOW_MS = 10,
	AGAIN_MS = 200,
};

static bool
may_look(struct interrupts *i)
{
	mono_t now = clock_now();

	if (mono_reached(now, i->looks_until)) {
		i->looks_until = mono_add(now, span_ms(LOOKS_WINDOW_MS));
		i->looks = 0;
	}
	return i->looks++ < LOOKS;
}

static void on_timer(uv_timer_t *timer);

void
interrupts_hand_in(struct interrupts *i)
{
	struct mount_event event = {.kind = MOUNT_INTERRUPT};

	if (!reply_has_interrupted(i->replies))
		return;
	while (reply_interrupted(i->replies, &event)) {
		event.fate = FATE_UNKNOWN;
		if (engine_wants(i->engine, &event) & WANTS_FATE) {
			if (!may_look(i))
				break;
			event.fate = proc_fate_at_signal(event.thread);
		}
		reply_seen(i->replies);
		engine_call(i->engine, &event);
	}
	/* Calls for which there was no time are looked at soon, the others after a while. */
	if (reply_has_interrupted(i->replies))
		uv_timer_start(&i->timer, on_timer, LOOKS_WINDOW_MS, 0);
	else if (reply_has_seen(i->replies) && !uv_is_active((uv_handle_t *)&i->timer))
		uv_timer_start(&i->timer, on_timer, AGAIN_MS, 0);
}

static void
on_timer(uv_timer_t *timer)
{
	struct interrupts *i = timer->data;

	reply_look_again(i->replies);
	interrupts_hand_in(i);
}

int
interrupts_start(struct interrupts *i, uv_loop_t *loop, struct replies *replies,
                 struct engine *engine)
{
	int rc = uv_timer_init(loop, &i->timer);

	i->replies = replies;
	i->engine = engine;
	i->timer.data = i;
	return rc;
}

void
interrupts_stop(struct interrupts *i)
{
	uv_close((uv_handle_t *)&i->timer, NULL);
}
