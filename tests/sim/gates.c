/* Whom a replica knows by address and key. Both are needed for a connection, at both ends, as in
 * cell/server/gateway.h: who connects must know where the other one is and which key it has, and is
 * let in only where its own key is known. Who was removed is let in, too, and answered. */
#include <stdio.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

enum { KEY_BYTES = NOISE_KEY, ADDRESS_ROOM = 16 };

const uint8_t *
seat_key(uint8_t body)
{
	static uint8_t keys[UINT8_MAX + 1][KEY_BYTES];

	memset(keys[body], body, KEY_BYTES);
	return keys[body];
}

struct member
seat_member(struct seat seat)
{
	static char addresses[UINT8_MAX + 1][ADDRESS_ROOM];

	snprintf(addresses[seat.body], ADDRESS_ROOM, "host%u:1", seat.body);
	return (struct member){
	    .id = seat.id,
	    .role = seat.role,
	    .address = bytes_of(addresses[seat.body]),
	    .key = {seat_key(seat.body), KEY_BYTES},
	};
}

/* Whose address and key do not belong together is nobody. */
struct seat
seat_of(const struct member *m)
{
	struct seat seat = {m->id, m->role, m->key.len == KEY_BYTES ? m->key.data[0] : 0};
	struct member as = seat_member(seat);

	if (!bytes_equal(m->key, as.key) || !bytes_equal(m->address, as.address))
		seat.body = 0;
	return seat;
}

const struct seat *
seats_find(const struct seats *seats, uint8_t id)
{
	for (int i = 0; i < seats->n; i++)
		if (seats->list[i].id == id)
			return &seats->list[i];
	return NULL;
}

void
cell_file_of_seats(struct cell_file *to, const struct seats *seats)
{
	strcpy(to->name, "sim");
	to->version = seats->version;
	to->has_admin = true;
	memcpy(to->admin_public, seat_key(SEAT_ADMIN), KEY_BYTES);
	for (int i = 0; i < seats->n; i++) {
		const struct member m = seat_member(seats->list[i]);
		struct cell_file_replica *r = &to->replicas[to->replicas_n++];

		r->id = m.id;
		r->role = (enum member_role)m.role;
		memcpy(r->address, m.address.data, m.address.len);
		memcpy(r->public_key, m.key.data, m.key.len);
	}
}

void
seats_of_cell_file(struct seats *to, const struct cell_file *cell_file)
{
	to->version = cell_file->version;
	to->n = 0;
	for (int i = 0; i < cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &cell_file->replicas[i];

		to->list[to->n++] = seat_of(&(struct member){.id = r->id,
		                                             .role = (uint8_t)r->role,
		                                             .address = bytes_of(r->address),
		                                             .key = {r->public_key, KEY_BYTES}});
	}
}

void
seats_of_list(struct seats *to, uint64_t version, struct wire_list list)
{
	struct cursor rest = cursor_of(list.packed);
	struct member m = {0};

	to->version = version;
	to->n = 0;
	while (to->n < LIMIT_MEMBERS && wire_next_member(&rest, &m))
		to->list[to->n++] = seat_of(&m);
}

void
gate_set(struct host *n, const struct seats *seats)
{
	if (seats->version >= n->gate.version)
		n->gate = *seats;
}

/* ---- connections ---- */

static const struct seat *
known(const struct host *by, const struct host *n)
{
	const struct seat *seat = seats_find(&by->gate, (uint8_t)n->id);

	return seat != NULL && seat->body == n->body && n->body != 0 ? seat : NULL;
}

/* To a member that it knows a replica makes a connection; to one that was removed it speaks on that
 * which the other one has made. */
bool
gate_passes(const struct sim *s, int from, int to)
{
	const struct host *a = &s->hosts[from - 1], *b = &s->hosts[to - 1];
	const struct seat *there = known(a, b), *here = known(b, a);

	if (there == NULL || here == NULL)
		return false;
	return there->role != MEMBER_REMOVED || here->role != MEMBER_REMOVED;
}
