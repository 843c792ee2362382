#include "ctl/cell_admin.h"

#include <stdio.h>
#include <string.h>
#include <time.h>
#include "cell/base/mono.h"
#include "cell/base/rc.h"
#include "cell/config/identity.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/view/ask.h"
#include "cell/wire/codec.h"
#include "ctl/cell.h"

enum { BUSY_S = 10, BUSY_AGAIN_MS = 100 };

static bool
has_replicas(const struct cell_admin *o)
{
	if (cell_file_is_standalone(&o->cell_file))
		log_error("%s: this needs a cell of lscell processes", o->file);
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
	void (*naming)(void *user,
	               const char *file); /* NULL: the caller needs no names of ACL files */
	void *user;
};

static void
on_reply(void *user, const struct message *m)
{
	struct reply *r = user;
	const struct bytes why = m->operated.why;
	struct cursor rest = cursor_of(m->operated.naming.packed);
	char name[LIMIT_NAME + 1];
	struct acl_file file;

	r->rc = m->operated.rc;
	r->id = m->operated.id;
	snprintf(r->why, sizeof r->why, "%.*s", (int)why.len, (const char *)why.data);
	while (r->naming != NULL && wire_next_acl_file(&rest, &file)) {
		snprintf(name, sizeof name, "%.*s", (int)file.name.len,
		         (const char *)file.name.data);
		r->naming(r->user, name);
	}
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

static enum cell_admin_result
send_command(const struct cell_admin *o, const struct msg_operate *what, struct reply *reply)
{
	const struct message question = {.code = MSG_operate, .operate = *what};

	reply->rc = RC_IO;
	if (!ask_until_free(o, &question, reply))
		return CELL_ADMIN_UNKNOWN;
	if (reply->rc != RC_OK) {
		log_error("refused: %s", reply->why[0] != '\0' ? reply->why : rc_text(reply->rc));
		return CELL_ADMIN_REFUSED;
	}
	return CELL_ADMIN_DONE;
}

enum cell_admin_result
cell_admin_send(const struct cell_admin *o, const struct msg_operate *what, uint64_t *id)
{
	struct reply reply = {0};
	const enum cell_admin_result result = send_command(o, what, &reply);

	if (id != NULL && result == CELL_ADMIN_DONE)
		*id = reply.id;
	return result;
}

enum cell_admin_result
cell_admin_send_principal(const struct cell_admin *o, const struct msg_operate *what,
                          void (*naming)(void *user, const char *file), void *user)
{
	return send_command(o, what, &(struct reply){.naming = naming, .user = user});
}

int
cell_admin_run(const struct ctl *ctl, const struct msg_operate *what)
{
	struct cell_admin o;
	const bool done =
	    cell_admin_begin(ctl, &o) && cell_admin_send(&o, what, NULL) == CELL_ADMIN_DONE;

	cell_admin_end(&o);
	return done ? CTL_OK : CTL_FAILED;
}
