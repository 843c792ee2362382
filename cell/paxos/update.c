/* The update of a step, to which all parts add: records, messages, and the entries in them. */
#include <stdlib.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/paxos/internal.h"
#include "cell/wire/codec.h"

void
px_update_clear(struct px_update *u)
{
	for (size_t i = 0; i < u->sends_n; i++)
		free((void *)u->sends[i].frame.data);
	u->sends_n = 0;
	u->records_n = 0;
	u->write = 0;
}

void
px_update_free(struct px_update *update)
{
	px_update_clear(update);
	free(update->records);
	free(update->sends);
	*update = (struct px_update){0};
}

void
px_record(struct px *px, struct px_record record)
{
	struct px_update *u = px->out;

	if (u->write == 0)
		u->write = ++px->write;
	ARRAY_ROOM(u->records, u->records_n, u->records_room);
	u->records[u->records_n++] = record;
}

void
px_send(struct px *px, uint8_t to, uint64_t after, const struct message *m)
{
	struct px_update *u = px->out;
	struct buffer frame = BUFFER(LIMIT_FRAME);

	must(to != px->config.self);
	wire_put_frame(&frame, m);
	must(!frame.failed);
	ARRAY_ROOM(u->sends, u->sends_n, u->sends_room);
	u->sends[u->sends_n++] = (struct px_send){
	    .to = to,
	    .after = after > px->learner.durable_write ? after : 0,
	    .frame = buffer_take(&frame),
	};
}

struct wire_list
px_pack(const struct px *px, uint64_t first, uint64_t last, size_t bytes, struct buffer *to)
{
	uint64_t slot = first > px->log.base ? first : px->log.base + 1;
	uint64_t end = last < px->log.last ? last : px->log.last;
	uint32_t count = 0;
	size_t packed = 0;

	for (; slot <= end; slot++, count++) {
		struct log_entry e = log_window_entry(&px->log, slot);

		packed += e.payload.len;
		if (count > 0 && (packed > bytes || count == px->config.batch_entries))
			break;
		wire_put_log_entry(to, &e);
	}
	return (struct wire_list){.packed = buffer_view(to), .count = count};
}

struct wire_list
px_pack_headers(const struct px *px, uint64_t first, uint64_t last, struct buffer *to)
{
	uint64_t slot = first > px->log.base ? first : px->log.base + 1;
	uint64_t end = last < px->log.last ? last : px->log.last;
	uint32_t count = 0;

	for (; slot <= end && count < px->config.batch_entries; slot++, count++) {
		const struct log_window_entry *e = log_window_at(&px->log, slot);

		wire_put_slot_header(to, &(struct slot_header){.slot = slot,
		                                               .ballot = e->ballot,
		                                               .origin = e->origin,
		                                               .checksum = e->checksum,
		                                               .before = e->before});
	}
	return (struct wire_list){.packed = buffer_view(to), .count = count};
}
