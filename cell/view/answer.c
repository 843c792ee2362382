#include "cell/view/answer.h"

#include <stdio.h>
#include "cell/sys/clock.h"
#include "cell/wire/codec.h"

static void
take_limits(struct answer *answer, const struct wire_list *limits)
{
	struct cursor rest = cursor_of(limits->packed);
	struct limit_row row;

	while (answer->limits_n < LIMIT_LIMITS && wire_next_limit_row(&rest, &row)) {
		struct answer_limit *l = &answer->limits[answer->limits_n++];

		snprintf(l->name, sizeof l->name, "%.*s", (int)row.name.len,
		         (const char *)row.name.data);
		snprintf(l->unit, sizeof l->unit, "%.*s", (int)row.unit.len,
		         (const char *)row.unit.data);
		snprintf(l->principal, sizeof l->principal, "%.*s", (int)row.principal.len,
		         (const char *)row.principal.data);
		l->owner = (enum limit_owner)row.whose;
		l->used = row.used;
		l->most = row.most;
	}
}

void
answer_take(struct answer *answer, const struct msg_status_reply *reply)
{
	struct cursor rest = cursor_of(reply->progress.packed);
	struct cursor links = cursor_of(reply->links.packed);
	struct progress p;
	struct peer_link l;

	answer->status = *reply;
	answer->status.progress = answer->status.limits = (struct wire_list){{NULL, 0}, 0};
	answer->status.links = answer->status.limits;
	snprintf(answer->version, sizeof answer->version, "%.*s", (int)reply->version.len,
	         (const char *)reply->version.data);
	answer->heard = true;
	answer->ahead_ms = reply->wall_ns / 1000000 - clock_wall_ns() / 1000000;
	take_limits(answer, &reply->limits);
	while (answer->progress_n < LIMIT_REPLICAS && wire_next_progress(&rest, &p))
		answer->progress[answer->progress_n++] = (struct answer_progress){
		    .id = p.id,
		    .full = p.full != 0,
		    .match = p.match,
		    .applied = p.applied,
		    .heard_ms = p.heard_ms,
		};
	while (answer->links_n < LIMIT_REPLICAS && wire_next_peer_link(&links, &l))
		answer->links[answer->links_n++] = (struct answer_link){l.id, l.down_ms};
}

int
answers_master(const struct answer *answers, int n)
{
	int master = -1;

	for (int i = 0; i < n; i++)
		if (answers[i].heard && answers[i].status.role == REPLICA_MASTER &&
		    (master < 0 || answers[i].status.epoch > answers[master].status.epoch))
			master = i;
	return master;
}
