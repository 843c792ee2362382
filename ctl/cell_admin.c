#include "ctl/cell_admin.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cell/base/mono.h"
#include "cell/base/rc.h"
#include "cell/config/identity.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "ctl/ask.h"
#include "ctl/cell.h"

enum { BUSY_S = 10, BUSY_AGAIN_MS = 100 };

static bool
has_replicas(const struct cell_admin *o)
{
	if (cell_file_is_standalone(&o->cell_file))
		log_error("%s: a cell in one process has no replicas to operate on", o->file);
	return !cell_file_is_standalone(&o->cell_file);
}

bool
cell_admin_begin(const struct ctl *ctl, struct cell_admin *o)
{
	memset(o, 0, sizeof *o);
	return cell_find(ctl, o->file, &o->cell_file) && has_replicas(o) &&
	       cell_key(ctl, o->file, &o->key) && ask_members(&o->cell_file, &o->key);
}

bool
cell_admin_begin_on_host(const char *directory, struct cell_admin *o)
{
	struct identity identity;
	char why[512] = "";
	bool ok;

	memset(o, 0, sizeof *o);
	snprintf(o->file, sizeof o->file, "%.*s/cell.conf", PATH_MAX - 16, directory);
	ok = identity_read(directory, &identity, why, sizeof why);
	if (!ok)
		log_error("%s", why);
	o->cell_file = identity.cell_file;
	o->key = identity.pair;
	identity_forget(&identity);
	o->on_host = true;
	return ok && has_replicas(o);
}

void
cell_admin_end(struct cell_admin *o)
{
	explicit_bzero(&o->key, sizeof o->key);
}

struct reply {
	enum rc rc;
	uint64_t id;
	char why[LIMIT_WHY + 1];
};

static void
on_reply(void *user, const struct message *m)
{
	struct reply *r = user;
	const struct bytes why = m->operated.why;

	r->rc = m->operated.rc;
	r->id = m->operated.id;
	snprintf(r->why, sizeof r->why, "%.*s", (int)why.len, (const char *)why.data);
}

/* Repeats the question while another change of the membership is under way. */
static bool
ask_until_free(const struct cell_admin *o, const struct message *question, struct reply *reply)
{
	const mono_t deadline = mono_add(clock_now(), span_s(BUSY_S));
	const struct timespec pause = {.tv_nsec = BUSY_AGAIN_MS * 1000000L};

	while ((o->on_host ? ask_master_on_host : ask_master)(&o->cell_file, &o->key, question,
	                                                      MSG_operated, on_reply, reply)) {
		if (reply->rc != RC_BUSY || mono_reached(clock_now(), deadline))
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

enum cell_admin_result
cell_admin_send(const struct cell_admin *o, const struct msg_operate *what, uint64_t *id)
{
	const struct message question = {.code = MSG_operate, .operate = *what};
	struct reply reply = {.rc = RC_IO};

	if (!ask_until_free(o, &question, &reply))
		return CELL_ADMIN_UNKNOWN;
	if (reply.rc != RC_OK) {
		log_error("refused: %s", reply.why[0] != '\0' ? reply.why : rc_text(reply.rc));
		return CELL_ADMIN_REFUSED;
	}
	if (id != NULL)
		*id = reply.id;
	return CELL_ADMIN_DONE;
}

uint64_t
cell_admin_number(const char *text, uint64_t max)
{
	unsigned long long number;
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return 0;
	errno = 0;
	number = strtoull(text, &end, 10);
	return *end != '\0' || errno != 0 || number > max ? 0 : number;
}
