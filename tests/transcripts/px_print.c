/* Ballots, marks, entries, messages and records as text. */
#include "tests/transcripts/px_text.h"

#include <inttypes.h>
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/paxos/ballot.h"
#include "cell/wire/codec.h"

enum { LONG_VALUE = 24, LIST_MAX = 4 << 20 };

void
px_text_key(uint8_t key[PX_KEY], uint8_t replica)
{
	memset(key, 0, PX_KEY);
	key[0] = replica;
}

uint64_t
px_text_proof(const struct mark *m)
{
	uint8_t key[PX_KEY];

	px_text_key(key, m->replica);
	return px_proof(key, m);
}

void
px_print_ballot(struct buffer *to, struct ballot b)
{
	buffer_printf(to, "%" PRIu64 ".%u", b.round, b.replica);
}

static void
print_mark(struct buffer *to, const struct mark *m)
{
	buffer_printf(to, "%u:%" PRIu64 ":%" PRIu64 ":", m->replica, m->incarnation, m->start);
	px_print_ballot(to, m->ballot);
	buffer_printf(to, ":%" PRIu64, m->slot);
	if (m->proof != 0)
		buffer_printf(to, m->proof == px_text_proof(m) ? ":genuine" : ":false");
}

static void
print_members(struct buffer *to, struct wire_list list)
{
	struct cursor c = cursor_of(list.packed);
	const char *between = "";
	struct member m;

	for (; wire_next_member(&c, &m); between = "/")
		buffer_printf(to, "%s%u%c", between, m.id, "?vlr"[m.role < 4 ? m.role : 0]);
}

static void
print_value(struct buffer *to, struct bytes v)
{
	struct op_set_members change;
	size_t same = 0;

	if (wire_entry_members(v, &change)) {
		buffer_printf(to, "members:%" PRIu64 ":", change.version);
		print_members(to, change.members);
		return;
	}
	while (same < v.len && v.data[same] == v.data[0])
		same++;
	if (v.len > LONG_VALUE)
		buffer_printf(to, "%c*%zu", v.data[0], same);
	else
		buffer_put_bytes(to, v);
}

static void
print_name(struct buffer *to, const struct log_entry *e)
{
	buffer_printf(to, "@");
	px_print_ballot(to, e->ballot);
	if (!ballot_equal(e->ballot, e->origin)) {
		buffer_printf(to, "/");
		px_print_ballot(to, e->origin);
	}
	if (e->before.round > 0) {
		buffer_printf(to, "<");
		px_print_ballot(to, e->before);
	}
}

void
px_print_entry(struct buffer *to, const struct log_entry *e, bool value)
{
	buffer_printf(to, "%" PRIu64, e->slot);
	print_name(to, e);
	if (!value)
		return;
	buffer_printf(to, ":");
	print_value(to, e->payload);
	if (checksum(e->payload) != e->checksum)
		buffer_printf(to, "~");
}

/* Entries that differ in nothing but their slots are printed as one. */
struct run {
	struct log_entry first;
	uint64_t last;
};

static void
print_run(struct buffer *to, const struct run *r, bool value)
{
	struct buffer rest = BUFFER(LIST_MAX);

	if (to->data[to->len - 1] != '"')
		buffer_printf(to, " ");
	px_print_entry(&rest, &r->first, value);
	if (r->last == r->first.slot)
		buffer_put_bytes(to, buffer_view(&rest));
	else
		buffer_printf(to, "%" PRIu64 "-%" PRIu64 "%.*s", r->first.slot, r->last,
		              (int)(rest.len - strcspn((char *)rest.data, "@")),
		              (char *)rest.data + strcspn((char *)rest.data, "@"));
	buffer_free(&rest);
}

static bool
continues(const struct run *r, const struct log_entry *e)
{
	return r->last != 0 && e->slot == r->last + 1 && e->checksum == r->first.checksum &&
	       ballot_equal(e->ballot, r->first.ballot) &&
	       ballot_equal(e->origin, r->first.origin) && ballot_equal(e->before, r->first.before);
}

static void
print_entries(struct buffer *to, const char *name, struct wire_list list, bool value)
{
	struct cursor c = cursor_of(list.packed);
	struct run run = {.last = 0};
	struct slot_header h;
	struct log_entry e = {0};

	if (list.count == 0)
		return;
	buffer_printf(to, " %s=\"", name);
	while (value ? wire_next_log_entry(&c, &e) : wire_next_slot_header(&c, &h)) {
		if (!value)
			e = (struct log_entry){.slot = h.slot,
			                       .ballot = h.ballot,
			                       .origin = h.origin,
			                       .before = h.before,
			                       .checksum = h.checksum};
		if (!continues(&run, &e)) {
			if (run.last != 0)
				print_run(to, &run, value);
			run.first = e;
		}
		run.last = e.slot;
	}
	print_run(to, &run, value);
	buffer_printf(to, "\"");
}

static void
print_number(struct buffer *to, const char *name, uint64_t v)
{
	if (v != 0)
		buffer_printf(to, " %s=%" PRIu64, name, v);
}

static void
print_marks(struct buffer *to, const char *name, struct wire_list list)
{
	struct cursor c = cursor_of(list.packed);
	const char *between = "";
	struct mark m;

	if (list.count == 0)
		return;
	buffer_printf(to, " %s=\"", name);
	for (; wire_next_mark(&c, &m); between = " ") {
		buffer_printf(to, "%s", between);
		print_mark(to, &m);
	}
	buffer_printf(to, "\"");
}

#define PRINT_u8(name, shape) print_number(to, #name, m->name);
#define PRINT_u32(name, shape) print_number(to, #name, m->name);
#define PRINT_u64(name, shape)                    \
	if (marks || strcmp(#name, "proof") != 0) \
		print_number(to, #name, m->name);
#define PRINT_text(name, shape)                                            \
	if (m->name.len > 0)                                               \
		buffer_printf(to, " " #name "=\"%.*s\"", (int)m->name.len, \
		              (const char *)m->name.data);
#define PRINT_ballot(name, shape)         \
	buffer_printf(to, " " #name "="); \
	px_print_ballot(to, m->name);
#define PRINT_mark(name, shape)                   \
	if (marks && m->name.replica != 0) {      \
		buffer_printf(to, " " #name "="); \
		print_mark(to, &m->name);         \
	}
#define PRINT_list(name, shape) PRINT_LIST_##shape(name)
#define PRINT_LIST_slot_header(name) print_entries(to, #name, m->name, false);
#define PRINT_LIST_log_entry(name) print_entries(to, #name, m->name, true);
#define PRINT_LIST_mark(name) \
	if (marks)            \
		print_marks(to, #name, m->name);
#define PRINT_LIST_member(name)           \
	buffer_printf(to, " " #name "="); \
	print_members(to, m->name);
#define PRINT(kind, name, shape) PRINT_##kind(name, shape)
#define PRINT_MESSAGE(message)                                                            \
	static void print_msg_##message(struct buffer *to, const struct msg_##message *m, \
	                                bool marks)                                       \
	{                                                                                 \
		(void)marks;                                                              \
		WIRE_msg_##message(PRINT)                                                 \
	}
PX_MESSAGES(PRINT_MESSAGE)

void
px_print_message(struct buffer *to, const struct message *m, bool marks)
{
	switch (m->code) {
#define CASE(message)                                                                  \
	case MSG_##message:                                                            \
		buffer_printf(to, #message);                                           \
		print_msg_##message(to, &m->message, marks || m->code == MSG_welcome); \
		break;
		PX_MESSAGES(CASE)
#undef CASE
	default:
		buffer_printf(to, "message %d", m->code);
	}
}

void
px_print_record(struct buffer *to, const struct px_record *r)
{
	const struct log_entry e = {r->slot,     r->ballot,  r->origin,
	                            r->checksum, r->payload, r->before};

	switch (r->kind) {
	case PX_RECORD_PROMISE:
		buffer_printf(to, "promise ");
		px_print_ballot(to, r->ballot);
		break;
	case PX_RECORD_ENTRY:
		buffer_printf(to, "entry ");
		px_print_entry(to, &e, true);
		break;
	case PX_RECORD_CHOSEN:
		buffer_printf(to, "chosen %" PRIu64, r->slot);
		break;
	case PX_RECORD_TRIM:
		buffer_printf(to, "trim %" PRIu64, r->slot);
		break;
	case PX_RECORD_LEASE:
		buffer_printf(to, "lease %" PRId64 "ms", span_to_ms(r->length));
		break;
	case PX_RECORD_MARK:
		buffer_printf(to, "mark ");
		print_mark(to, &r->mark);
		break;
	}
}
