#include "cell/master/lease_load.h"

void
lease_load_begin(struct lease_load *l, unsigned bearable)
{
	*l = (struct lease_load){.bearable = bearable, .factor = 1};
}

/* In a window that is a third of the lease each session that does not cache is answered about once,
 * however its KeepAlives lie. With leases as they are set there would be `factor` times as many. A
 * lower factor has to be enough for a load a third higher than this one, so that it is not raised
 * again at once. */
static void
window_ends(struct lease_load *l)
{
	const uint64_t bearable = l->bearable * (uint64_t)span_to_ms(l->window) / 1000 + 1;
	const uint64_t all = l->answered * l->factor;
	const uint64_t needed = (all + bearable - 1) / bearable;

	if (needed > l->factor)
		l->factor = needed < LEASE_LOAD_MOST ? (unsigned)needed : LEASE_LOAD_MOST;
	else if (l->factor > 1 && all * 4 <= bearable * (l->factor - 1) * 3)
		l->factor--;
}

static void
window_begins(struct lease_load *l, mono_t at, span_t lease)
{
	l->answered = 0;
	l->window = (span_t){lease.ns / 3 * l->factor};
	l->end = mono_add(at, l->window);
}

void
lease_load_pass(struct lease_load *l, mono_t now, span_t lease)
{
	while (mono_reached(now, l->end) && (l->answered > 0 || l->factor > 1)) {
		window_ends(l);
		window_begins(l, l->end, lease);
	}
	if (mono_reached(now, l->end))
		window_begins(l, now, lease);
}

void
lease_load_answered(struct lease_load *l, mono_t now, span_t lease)
{
	lease_load_pass(l, now, lease);
	l->answered++;
}
