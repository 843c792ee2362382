/* A binary heap of events. The sequence makes the order of simultaneous events that of their
 * making, and so the whole run a function of its seed. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
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

static void
put(struct heap *h, struct event e)
{
	size_t i = h->n;

	ARRAY_ROOM(h->events, h->n, h->room);
	h->events[h->n++] = e;
	while (i > 0 && earlier(&h->events[i], &h->events[(i - 1) / 2])) {
		swap(&h->events[i], &h->events[(i - 1) / 2]);
		i = (i - 1) / 2;
	}
}

void
heap_push(struct heap *h, struct event e)
{
	e.sequence = ++h->sequence;
	put(h, e);
}

void
heap_again(struct heap *h, const struct event *e, int64_t at)
{
	struct event again = *e;

	again.at = at;
	heap_push(h, again);
}

void
heap_put_off(struct heap *h, struct event e)
{
	must(e.sequence != 0);
	put(h, e);
}

static void
sink(struct heap *h, size_t i)
{
	for (;;) {
		size_t least = i;

		for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < h->n; child++) {
			if (earlier(&h->events[child], &h->events[least]))
				least = child;
		}
		if (least == i)
			return;
		swap(&h->events[i], &h->events[least]);
		i = least;
	}
}

void
heap_sort(struct heap *h)
{
	for (size_t i = h->n / 2; i-- > 0;)
		sink(h, i);
}

bool
heap_pop(struct heap *h, struct event *e)
{
	if (h->n == 0)
		return false;
	*e = h->events[0];
	h->events[0] = h->events[--h->n];
	sink(h, 0);
	return true;
}
