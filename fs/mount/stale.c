/* A path that leads to a dead node is answered ESTALE, and the kernel looks its name up again. It
 * does so once: who comes to a dead node a second time in a row is told that there is none. */
#include "fs/mount/internal.h"

enum { RETRY_MS = 1000 }; /* the kernel's second walk follows at once */

int
stale_path(struct mount *m, const struct call *c)
{
	for (size_t n = 0; n < STALE_CALLERS; n++) {
		if (m->stale[n].thread != c->event.thread || m->stale[n].kind != c->event.kind ||
		    m->stale[n].thread == 0)
			continue;
		m->stale[n].thread = 0;
		if (!mono_reached(m->now, m->stale[n].until))
			return ENOENT;
	}
	m->stale[m->stale_next].thread = c->event.thread;
	m->stale[m->stale_next].kind = c->event.kind;
	m->stale[m->stale_next].until = mono_add(m->now, span_ms(RETRY_MS));
	m->stale_next = (m->stale_next + 1) % STALE_CALLERS;
	return ESTALE;
}

void
stale_clear(struct mount *m, const struct call *c)
{
	for (size_t n = 0; n < STALE_CALLERS; n++)
		if (m->stale[n].thread == c->event.thread && m->stale[n].kind == c->event.kind)
			m->stale[n].thread = 0;
}
