/* A whole replica hears what clients and other replicas may send that have proved their keys and
 * mean harm: the first byte chooses a cell of one, whose master serves two clients, or a replica of
 * three that hears the other two. The rest is a sequence of steps: a byte for the kind of step, two
 * with the length of its body, the body. Nothing ends the replica, and its tree stays sound. */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include "cell/base/must.h"
#include "cell/replica/replica.h"
#include "cell/wire/codec.h"

enum { FRAME, PEER, CONNECT, PASS, KINDS };

enum { CLIENTS = 2, STEPS_MAX = 64, SETTLE_MAX = 100 };

struct play {
	struct replica *replica;
	struct replica_update update;
	mono_t now;
	uint64_t conns, conn[CLIENTS];
	bool connected[CLIENTS];
};

static void step(struct play *p, struct replica_event event);

/* ---- the driver ---- */

static void
hang_up(struct play *p, uint64_t conn)
{
	for (int i = 0; i < CLIENTS; i++)
		if (p->connected[i] && p->conn[i] == conn) {
			p->connected[i] = false;
			step(p, (struct replica_event){.kind = REPLICA_DISCONNECTED, .conn = conn});
		}
}

/* Records and rows are durable at once; messages are sent to nobody. */
static void
carry_out(struct play *p, struct replica_update *u)
{
	if (u->write != 0)
		step(p, (struct replica_event){.kind = REPLICA_PERSISTED, .write = u->write});
	if (u->rows.n > 0)
		step(p, (struct replica_event){.kind = REPLICA_SAVED, .index = u->applied});
	for (size_t i = 0; i < u->closes_n; i++)
		hang_up(p, u->closes[i]);
}

static void
step(struct play *p, struct replica_event event)
{
	struct replica_update update = {0};

	event.now = p->now;
	event.wall_ns = p->now.ns;
	replica_step(p->replica, &event, &update);
	carry_out(p, &update);
	replica_update_free(&update);
}

static void
pass(struct play *p, int64_t ms)
{
	const mono_t end = mono_add(p->now, span_ms(ms));

	for (int i = 0; i < SETTLE_MAX && mono_reached(end, replica_deadline(p->replica)); i++) {
		p->now = mono_max(p->now, replica_deadline(p->replica));
		step(p, (struct replica_event){.kind = REPLICA_TIMEOUT});
	}
	p->now = mono_max(p->now, end);
}

/* ---- what is heard ---- */

static void
hear(struct play *p, enum replica_event_kind kind, uint8_t from, struct bytes body)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	buffer_put_u32(&frame, (uint32_t)body.len);
	buffer_put_bytes(&frame, body);
	must(!frame.failed);
	step(p, (struct replica_event){.kind = kind,
	                               .conn = p->conn[from % CLIENTS],
	                               .peer = (uint8_t)(2 + from % 2),
	                               .code = wire_frame_code(buffer_view(&frame)),
	                               .frame = buffer_view(&frame)});
	buffer_free(&frame);
}

static void
connect_client(struct play *p, int i)
{
	if (p->connected[i])
		hang_up(p, p->conn[i]);
	p->conn[i] = ++p->conns;
	p->connected[i] = true;
	step(p, (struct replica_event){.kind = REPLICA_CONNECTED,
	                               .conn = p->conn[i],
	                               .principal = bytes_of("admin")});
}

static void
take(struct play *p, uint8_t kind, struct bytes body)
{
	const uint8_t from = kind / KINDS;

	switch (kind % KINDS) {
	case FRAME:
		if (body.len > 0 && p->connected[from % CLIENTS])
			hear(p, REPLICA_FRAME, from, body);
		break;
	case PEER:
		if (body.len > 0)
			hear(p, REPLICA_PEER, from, body);
		break;
	case CONNECT:
		connect_client(p, from % CLIENTS);
		break;
	default:
		pass(p, 10 * (1 + from));
	}
}

/* ---- life ---- */

static void
begin(struct play *p, int replicas)
{
	static const uint8_t keys[3][32] = {{1}, {2}, {3}};
	static const struct px_recovered nothing = {.incarnation = 1};
	struct member members[3];
	struct replica_config config = {.members = members, .members_n = replicas};

	for (int i = 0; i < replicas; i++)
		members[i] = (struct member){.id = (uint8_t)(i + 1),
		                             .role = MEMBER_VOTER,
		                             .address = bytes_of(&"a:1\0b:1\0c:1"[4 * i]),
		                             .key = {keys[i], sizeof keys[i]}};
	config.paxos.self = 1;
	config.paxos.seed = config.paxos.start = 1;
	config.paxos.drift_permille = 10;
	config.master.cell = "fuzz";
	config.master.drift_permille = 10;
	config.master.keys.n = 1;
	p->now = (mono_t){1};
	p->replica = replica_new(&config, tree_new("fuzz"), &nothing, p->now);
	for (int i = 0; i < CLIENTS; i++)
		connect_client(p, i);
	pass(p, 2000);
	must(replicas > 1 || replica_serving(p->replica, p->now));
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct play p = {0};

	if (len == 0)
		return 0;
	begin(&p, data[0] % 2 == 0 ? 1 : 3);
	data++, len--;
	for (int i = 0; i < STEPS_MAX && len >= 3; i++) {
		const size_t said = (size_t)(data[1] << 8 | data[2]), most = len - 3;
		const size_t n = said < most ? said : most;

		take(&p, data[0], (struct bytes){data + 3, n});
		data += 3 + n;
		len -= 3 + n;
	}
	pass(&p, 1000);
	must(tree_check(replica_tree(p.replica)) == NULL);
	replica_free(p.replica);
	return 0;
}
