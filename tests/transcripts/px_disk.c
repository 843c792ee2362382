#include "tests/transcripts/px_disk.h"

#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"

void
px_disk_put(struct px_disk *d, const struct log_entry *e)
{
	const size_t at = e->slot - d->had.trimmed - 1;

	must(e->slot > d->had.trimmed && at <= d->n);
	if (at == d->n) {
		ARRAY_ROOM(d->entries, d->n, d->room);
		d->n++;
	} else {
		free((void *)d->entries[at].payload.data);
	}
	d->entries[at] = *e;
	d->entries[at].payload = bytes_copy(e->payload);
}

void
px_disk_trim(struct px_disk *d, uint64_t slot)
{
	size_t n = slot - d->had.trimmed < d->n ? slot - d->had.trimmed : d->n;

	for (size_t i = 0; i < n; i++)
		free((void *)d->entries[i].payload.data);
	d->n -= n;
	if (d->n > 0)
		memmove(d->entries, d->entries + n, d->n * sizeof *d->entries);
	d->had.trimmed = slot;
}

void
px_disk_write(struct px_disk *d, const struct px_record *r)
{
	switch (r->kind) {
	case PX_RECORD_PROMISE:
		d->had.promised = r->ballot;
		break;
	case PX_RECORD_ENTRY:
		px_disk_put(d, &(struct log_entry){r->slot, r->ballot, r->origin, r->checksum,
		                                   r->payload, r->before});
		break;
	case PX_RECORD_CHOSEN:
		d->had.chosen = r->slot;
		break;
	case PX_RECORD_TRIM:
		px_disk_trim(d, r->slot);
		break;
	case PX_RECORD_LEASE:
		d->had.wait = r->length;
		break;
	case PX_RECORD_MARK:
		d->marks[r->mark.replica] = r->mark;
		break;
	}
}

struct px_recovered
px_disk_read(struct px_disk *d, struct mark marks[LIMIT_REPLICA_ID + 1])
{
	struct px_recovered had = d->had;

	for (int i = 1; i <= LIMIT_REPLICA_ID; i++)
		if (d->marks[i].replica != 0)
			marks[had.marks_n++] = d->marks[i];
	had.incarnation = ++d->had.incarnation;
	had.marks = marks;
	had.entries = d->entries;
	had.entries_n = d->n;
	return had;
}

void
px_disk_free(struct px_disk *d)
{
	px_disk_trim(d, d->had.trimmed + d->n);
	free(d->entries);
}
