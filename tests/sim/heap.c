/* A binary heap of events. The sequence makes the order of simultaneous events that of their
 * making, and so the whole run a function of its seed. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "tests/sim/sim.h"

static bool
earlier(const struct event *a, const struct event *b)
{
	return a->at != b->at ? a->at < b->at : a->sequence < b->sequence;
}

static void
swap(struct event *a, struct event *b)
{
	struct event c = *a;

	*a = *b;
	*b = c;
}

void
heap_push(struct heap *h, struct event e)
{
	size_t i = h->n;

	ARRAY_ROOM(h->events, h->n, h->room);
	e.sequence = ++h->sequence;
	h->events[h->n++] = e;
	while (i > 0 && earlier(&h->events[i], &h->events[(i - 1) / 2])) {
		swap(&h->events[i], &h->events[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
}

bool
heap_pop(struct heap *h, struct event *e)
{
	size_t i = 0;

	if (h->n == 0)
		return false;
	*e = h->events[0];
	h->events[0] = h->events[--h->n];
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < h->n; child++) {
			if (earlier(&h->events[child], &h->events[least]))
				least = child;
		}
		if (least == i)
			return true;
		swap(&h->events[i], &h->events[least]);
		i = least;
	}
}

mono_t
clock_local(const struct local_clock *c, int64_t at)
{
	return (mono_t){c->offset + at + at * c->ppm / 1000000};
}

int64_t
clock_global(const struct local_clock *c, mono_t local)
{
	__int128 away = (__int128)(local.ns - c->offset) * 1000000 / (1000000 + c->ppm);
	int64_t at = (int64_t)away;

	if (mono_is_never(local))
		return INT64_MAX;
	while (mono_before(clock_local(c, at), local))
		at += mono_since(local, clock_local(c, at)).ns;
	return at;
}
