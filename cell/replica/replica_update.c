/* The update of a step: those of paxos and the master go into it, and what the replica sends
 * itself. Proposals of the master wait in the backlog until the log has room for them. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/replica/internal.h"
#include "cell/wire/codec.h"

enum { SEND_WORK = 1024 }; /* of cell/master for a message, in addition to its bytes */

void
r_update_clear(struct replica_update *u)
{
	for (size_t i = 0; i < u->sends_n; i++)
		free((void *)u->sends[i].frame.data);
	u->records_n = u->sends_n = u->closes_n = 0;
	u->write = u->applied = 0;
	u->members_changed = u->rotates_key = u->diverged = false;
	u->behind = 0;
	if (u->rows.rows != NULL)
		row_list_free(&u->rows);
}

void
replica_update_free(struct replica_update *u)
{
	r_update_clear(u);
	free(u->records);
	free(u->sends);
	free(u->closes);
	*u = (struct replica_update){0};
}

static void
add_send(struct replica *r, struct replica_send send)
{
	struct replica_update *u = r->update;

	ARRAY_ROOM(u->sends, u->sends_n, u->sends_room);
	u->sends[u->sends_n++] = send;
}

static struct bytes
frame_of(const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	must(!frame.failed);
	return buffer_take(&frame);
}

void
r_answer(struct replica *r, uint64_t conn, const struct message *m)
{
	add_send(r, (struct replica_send){.conn = conn, .frame = frame_of(m)});
}

void
r_send_peer(struct replica *r, uint8_t peer, const struct message *m)
{
	add_send(r, (struct replica_send){.to_peer = true, .peer = peer, .frame = frame_of(m)});
}

void
r_step_px(struct replica *r, struct px_event event)
{
	struct replica_update *u = r->update;
	struct px_update *px = &r->px_update;

	event.now = r->now;
	r->px_steps++;
	px_step(r->px, &event, px);
	for (size_t i = 0; i < px->records_n; i++) {
		ARRAY_ROOM(u->records, u->records_n, u->records_room);
		u->records[u->records_n++] = px->records[i];
	}
	if (px->write != 0) {
		u->write = r->disk.written = px->write;
		r->disk.synced = mono_min(r->disk.synced, r->now);
	}
	for (size_t i = 0; i < px->sends_n; i++) {
		struct px_send *s = &px->sends[i];

		add_send(r, (struct replica_send){.to_peer = true,
		                                  .peer = s->to,
		                                  .after = s->after,
		                                  .frame = s->frame});
		s->frame = (struct bytes){NULL, 0};
	}
}

void
r_look_up_payloads(struct replica *r)
{
	struct replica_update *u = r->update;

	for (size_t i = 0; i < u->records_n; i++)
		if (u->records[i].kind == PX_RECORD_ENTRY)
			u->records[i].payload = px_payload(r->px, u->records[i].slot);
}

/* ---- the backlog ---- */

uint64_t
r_backlog_put(struct replica *r, struct bytes owned)
{
	struct proposal_backlog *b = &r->backlog;

	ARRAY_ROOM(b->proposals, b->n, b->room);
	b->proposals[b->n++] = owned;
	b->bytes += owned.len;
	return px_last(r->px) + b->n;
}

static void
backlog_drop(struct replica *r, size_t n)
{
	struct proposal_backlog *b = &r->backlog;

	for (size_t i = 0; i < n; i++) {
		b->bytes -= b->proposals[i].len;
		free((void *)b->proposals[i].data);
	}
	b->n -= n;
	if (b->n > 0)
		memmove(b->proposals, b->proposals + n, b->n * sizeof *b->proposals);
}

void
r_backlog_clear(struct replica *r)
{
	backlog_drop(r, r->backlog.n);
	free(r->backlog.proposals);
	r->backlog = (struct proposal_backlog){0};
	commit_times_forget(&r->commits);
}

bool
r_backlog_propose(struct replica *r)
{
	size_t n = 0;

	while (n < r->backlog.n && px_room(r->px)) {
		r_step_px(r, (struct px_event){.kind = PX_PROPOSE,
		                               .payload = r->backlog.proposals[n++]});
		commit_times_proposed(&r->commits, px_last(r->px), r->now);
	}
	backlog_drop(r, n);
	return n > 0;
}

void
r_absorb_master(struct replica *r)
{
	struct master_update *m = &r->master_update;
	struct replica_update *u = r->update;

	for (size_t i = 0; i < m->proposals_n; i++)
		r_backlog_put(r, m->proposals[i]);
	for (size_t i = 0; i < m->sends_n; i++) {
		r->work += SEND_WORK + m->sends[i].frame.len;
		add_send(r, (struct replica_send){.conn = m->sends[i].conn,
		                                  .datagram = m->sends[i].datagram,
		                                  .frame = m->sends[i].frame});
	}
	for (size_t i = 0; i < m->closes_n; i++) {
		ARRAY_ROOM(u->closes, u->closes_n, u->closes_room);
		u->closes[u->closes_n++] = m->closes[i];
		r_admin_disconnected(r, m->closes[i]);
	}
	m->proposals_n = m->sends_n = m->closes_n = 0;
}
