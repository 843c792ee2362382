#include "cell/replica/commit_times.h"
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"

void
commit_times_proposed(struct commit_times *c, uint64_t slot, mono_t now)
{
	must(c->n == 0 || slot == c->first + c->n);
	if (c->n == 0)
		c->first = slot;
	ARRAY_ROOM(c->proposed, c->n, c->room);
	c->proposed[c->n++] = now;
}

void
commit_times_applied(struct commit_times *c, uint64_t index, mono_t now)
{
	size_t gone = 0;

	while (gone < c->n && c->first + gone <= index)
		latency_note(&c->seen, mono_since(now, c->proposed[gone++]));
	if (gone == 0)
		return;
	c->n -= gone;
	c->first += gone;
	memmove(c->proposed, c->proposed + gone, c->n * sizeof *c->proposed);
}

void
commit_times_forget(struct commit_times *c)
{
	free(c->proposed);
	*c = (struct commit_times){.seen = c->seen};
}
