/* The driver's side of what a client is asked and told of open files: the machine's mount knows. */
#include "cell/base/memory.h"
#include "tests/sim/sim.h"

void
opens_registered(struct sim *s, struct machine *m)
{
	mounts_event(s, m,
	             (struct mount_event){.kind = MOUNT_REGISTERED,
	                                  .nodes = m->update.registered,
	                                  .nodes_n = m->update.registered_n});
}

/* Without a mount an ephemeral file may be closed twice. */
void
opens_close(struct sim *s, struct machine *m)
{
	struct op op = {.code = OP_close_ephemeral};

	for (size_t i = 0; i < m->update.registered_n && !m->closing; i++) {
		op.close_ephemeral.node = m->update.registered[i];
		ARRAY_ROOM(m->asking, m->asking_n, m->asking_room);
		m->asking[m->asking_n++] = history_begin(s, m->id, PROCESS_OPERATOR, &op, false);
	}
}

/* Without a mount no permanent file is open. */
void
opens_answer(struct sim *s, struct machine *m, uint64_t question, uint64_t node)
{
	bool open = false;

	if (m->mount != NULL) {
		mounts_event(s, m, (struct mount_event){.kind = MOUNT_OPENS, .node = node});
		open = m->mount_update.open;
	}
	machine_event(s, m,
	              (struct client_event){.kind = CLIENT_OPENS,
	                                    .question = question,
	                                    .open = open});
}
