/* The log window: a ring of entries. */
#include "cell/paxos/log_window.h"

#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/ballot.h"

static struct log_window_entry *
item(const struct log_window *w, size_t i)
{
	return &w->items[(w->head + i) & (w->room - 1)];
}

static size_t
entries(const struct log_window *w)
{
	return (size_t)(w->last - w->base);
}

static void
drop_payload(struct log_window_entry *e)
{
	free((void *)e->payload.data);
	e->payload = (struct bytes){0};
}

void
log_window_start(struct log_window *w, uint64_t base)
{
	log_window_cut(w, w->base);
	w->head = 0;
	w->base = w->last = base;
	w->origin = BALLOT_NONE;
}

void
log_window_free(struct log_window *w)
{
	log_window_cut(w, w->base);
	free(w->items);
	*w = (struct log_window){0};
}

struct log_window_entry *
log_window_at(const struct log_window *w, uint64_t slot)
{
	must(slot > w->base && slot <= w->last);
	return item(w, slot - w->base - 1);
}

struct ballot
log_window_origin(const struct log_window *w, uint64_t slot)
{
	if (slot < w->base || slot > w->last)
		return BALLOT_NONE;
	return slot == w->base ? w->origin : log_window_at(w, slot)->origin;
}

bool
log_window_goes_on(const struct log_window *w, uint64_t slot)
{
	const struct log_window_entry *e = log_window_at(w, slot);
	struct ballot origin = log_window_origin(w, slot - 1);

	return ballot_goes_on(e->before, origin) && !ballot_less(e->origin, origin);
}

/* Makes room for one more entry after the last one. */
static void
append(struct log_window *w)
{
	struct log_window_entry *to;

	if (entries(w) == w->room) {
		size_t room = w->room ? w->room * 2 : 16;
		struct log_window_entry *items = memory_zero(room, sizeof *items);

		for (size_t i = 0; i < entries(w); i++)
			items[i] = *item(w, i);
		free(w->items);
		w->items = items;
		w->head = 0;
		w->room = room;
	}
	to = item(w, entries(w));
	*to = (struct log_window_entry){0};
	if (w->last > w->base) {
		const struct log_window_entry *before = log_window_at(w, w->last);

		to->offset = before->offset + before->payload.len;
	}
	w->last++;
}

const struct log_window_entry *
log_window_put(struct log_window *w, const struct log_entry *e)
{
	struct log_window_entry *to;

	must(e->slot > w->base && e->slot <= w->last + 1);
	if (e->slot == w->last + 1)
		append(w);
	to = log_window_at(w, e->slot);
	drop_payload(to);
	to->ballot = e->ballot;
	to->origin = e->origin;
	to->before = e->before;
	to->checksum = e->checksum;
	to->payload = bytes_copy(e->payload);
	to->holder = 0;
	to->chosen = false;
	return to;
}

void
log_window_cut(struct log_window *w, uint64_t last)
{
	must(last >= w->base);
	for (; w->last > last; w->last--)
		drop_payload(log_window_at(w, w->last));
}

void
log_window_trim(struct log_window *w, uint64_t slot)
{
	must(slot <= w->last);
	while (w->base < slot) {
		w->origin = item(w, 0)->origin;
		drop_payload(item(w, 0));
		w->head = (w->head + 1) & (w->room - 1);
		w->base++;
	}
}

struct log_entry
log_window_entry(const struct log_window *w, uint64_t slot)
{
	const struct log_window_entry *e = log_window_at(w, slot);

	return (struct log_entry){
	    .slot = slot,
	    .ballot = e->ballot,
	    .origin = e->origin,
	    .checksum = e->checksum,
	    .payload = e->payload,
	    .before = e->before,
	};
}

void
log_window_recount(struct log_window *w)
{
	uint64_t offset = 0;

	for (size_t i = 0; i < entries(w); i++) {
		item(w, i)->offset = offset;
		offset += item(w, i)->payload.len;
	}
}

uint64_t
log_window_bytes(const struct log_window *w, uint64_t after, uint64_t slot)
{
	if (slot <= after)
		return 0;
	const struct log_window_entry *end = log_window_at(w, slot);

	return end->offset + end->payload.len - log_window_at(w, after + 1)->offset;
}
