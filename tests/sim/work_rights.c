/* The rounds of a process that acts for several users, and of the administrator that gives and
 * takes their rights on one file. */
#include <stdio.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

static struct rng *
dice(struct sim *s)
{
	return &s->rights.rng;
}

static const char *
one_of(struct sim *s, const char *const list[], size_t n)
{
	return list[rng_below(dice(s), n)];
}

/* ---- the administrator ---- */

static const char *
acl_file(struct sim *s)
{
	static const char *const names[] = {"t0", "t1"};

	return one_of(s, names, 2);
}

/* Of groups no node has the name: others have them as their lines. */
static const char *
acl_or_group(struct sim *s)
{
	static const char *const groups[] = {"g0", "g1"};

	return rng_chance(dice(s), 500) ? one_of(s, groups, 2) : acl_file(s);
}

/* Who is in an ACL file, and which of these the file has. */
static struct op
set_rights(struct sim *s, uint64_t acl, uint64_t file)
{
	static const char *const texts[] = {"",           "*",
	                                    "admin/u1",   "admin/u1\nadmin/u2",
	                                    "admin/*",    "admin\n",
	                                    "admin/u2",   "@g0",
	                                    "@g1\nadmin", "@t0",
	                                    "@g1",        "admin/u2\n@g0"};
	struct op op = {.code = OP_set_contents};

	if (rng_chance(dice(s), 100))
		return (struct op){.code = OP_set_acl,
		                   .set_acl = {.node = NODE_ACL,
		                               .which = ACL_READ,
		                               .name = bytes_of(acl_file(s))}};
	if (rng_chance(dice(s), 400))
		return (struct op){.code = OP_set_acl,
		                   .set_acl = {.node = file,
		                               .which = (uint8_t)rng_below(dice(s), ACL_CHANGE),
		                               .name = bytes_of(rng_chance(dice(s), 300)
		                                                    ? "everyone"
		                                                    : acl_file(s))}};
	op.set_contents.node = acl;
	op.set_contents.contents = bytes_of(one_of(s, texts, sizeof texts / sizeof *texts));
	return op;
}

static void
administer(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	struct op op = work_create(acl_or_group(s), false, false);

	if (proc->step == 1) {
		op.create.parent = NODE_ACL;
		work_ask(s, m, p, op);
	} else if (proc->step == 2 && rng_chance(dice(s), 150)) {
		op.code = OP_delete;
		op.delete =
		    (struct op_delete){.parent = NODE_ACL,
		                       .name = bytes_of(rng_chance(dice(s), 200) ? "everyone"
		                                                                 : acl_or_group(s)),
		                       .kind = NODE_FILE};
		work_ask(s, m, p, op);
	} else if (proc->step == 2 && work_answer(s, proc, 0)->rc == RC_OK) {
		work_ask(s, m, p, set_rights(s, work_answer(s, proc, 0)->got.node, proc->node));
	} else {
		work_next_round(s, m, p);
	}
}

/* ---- users ---- */

static const char *const users[] = {"", "u1", "u2"};

static struct bytes
some_user(struct sim *s)
{
	return bytes_of(one_of(s, users, 3));
}

/* An access to contents, for which a handle is opened. */
static struct op
access_contents(struct sim *s, uint64_t node)
{
	switch (rng_below(dice(s), 4)) {
	case 0:
		return (struct op){.code = OP_append,
		                   .append = {.node = node, .data = bytes_of("x")}};
	case 1:
		return (struct op){.code = OP_set_contents,
		                   .set_contents = {.node = node, .contents = bytes_of("short")}};
	default:
		return (struct op){.code = OP_get_contents, .get_contents = {.node = node}};
	}
}

static struct op
use(struct sim *s, const struct process *proc)
{
	switch (rng_below(dice(s), 6)) {
	case 0:
		return (struct op){.code = OP_get_attr, .get_attr = {.node = proc->node}};
	case 1:
		return (struct op){.code = OP_lookup,
		                   .lookup = {.parent = NODE_ROOT, .name = bytes_of("guarded")}};
	default:
		return access_contents(s, proc->node);
	}
}

static void
act_as_user(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];

	if (proc->step > 1) {
		work_next_round(s, m, p);
		return;
	}
	for (uint64_t n = 1 + rng_below(dice(s), 3); n > 0; n--) {
		struct op op = use(s, proc);

		work_ask_for(s, m, p, &op, some_user(s));
	}
}

/* Over the guarded file goes one that others may read, or the same. */
static void
replace(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	struct op op = {.code = OP_set_acl};

	if (proc->step == 1) {
		work_ask(s, m, p, work_create("secret", false, false));
	} else if (proc->step == 2 && work_answer(s, proc, 0)->rc == RC_OK) {
		op.set_acl.node = work_answer(s, proc, 0)->got.node;
		op.set_acl.which = ACL_READ;
		op.set_acl.name = bytes_of(acl_file(s));
		work_ask(s, m, p, op);
	} else if (proc->step == 3) {
		op.code = OP_rename;
		op.rename = (struct op_rename){.parent = NODE_ROOT,
		                               .name = bytes_of("secret"),
		                               .new_parent = NODE_ROOT,
		                               .new_name = bytes_of("guarded")};
		work_ask_for(s, m, p, &op, some_user(s));
	} else {
		work_next_round(s, m, p);
	}
}

/* ---- open files ---- */

static void
open_file(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	const struct op op = {.code = OP_get_attr, .get_attr = {.node = proc->node}};

	work_ask_for(s, m, p, &op, some_user(s));
}

/* True if the file could be opened. */
static bool
opened(struct sim *s, struct process *proc)
{
	const struct record *r = work_answer(s, proc, 0);

	if (r->rc != RC_OK || r->opens.rights == 0)
		return false;
	proc->opened = r->token;
	s->rights.opened[s->rights.opened_n++ % 4] = r->token;
	return true;
}

/* What somebody was shown: this user in this session, or not. Then with another right, or with
 * other digits, as a liar would try it. */
static struct client_rights
guess(struct sim *s)
{
	const size_t n = s->rights.opened_n < 4 ? s->rights.opened_n : 4;
	const uint64_t token = s->rights.opened[rng_below(dice(s), n)];
	struct client_rights rights = s->history.records[token - 1]->opens;

	if (rng_chance(dice(s), 300))
		rights.rights |= 1u << rng_below(dice(s), 3);
	if (rng_chance(dice(s), 200))
		rights.check[rng_below(dice(s), LIMIT_CHECK)] ^= 1;
	return rights;
}

static void
use_open_file(struct sim *s, struct machine *m, int p)
{
	const struct record *by = s->history.records[m->processes[p].opened - 1];
	struct client_rights rights = by->opens;
	struct bytes user = by->user;
	struct op op;

	if (rng_chance(dice(s), 300))
		rights = guess(s);
	if (rng_chance(dice(s), 200))
		user = some_user(s);
	op = access_contents(s, rights.node);
	work_ask_through(s, m, p, &op, user, &rights);
}

/* The file stays open while its rights come and go. */
static void
keep_open(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];

	if (proc->step == 1)
		open_file(s, m, p);
	else if (proc->step > 9 || (proc->step == 2 && !opened(s, proc)))
		work_next_round(s, m, p);
	else if (proc->step % 2 == 0)
		work_wake(s, m, p, sim_between(s, 0, s->swarm.think_ms * MS));
	else
		use_open_file(s, m, p);
}

/* A lock for a user, who may lose the right while waiting for it. */
static void
lock_as_user(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];
	struct op op;

	switch (proc->step) {
	case 1:
		op = work_acquire(s, m, proc, LOCK_EXCLUSIVE, true);
		work_ask_for(s, m, p, &op, bytes_of(rng_chance(dice(s), 500) ? "u1" : "u2"));
		return;
	case 2:
		work_wake(s, m, p, sim_between(s, 0, 8 * s->swarm.think_ms * MS));
		return;
	case 3:
		work_ask(s, m, p, work_release(m, proc));
		return;
	default:
		work_next_round(s, m, p);
	}
}

/* The file goes, for some user: it must not while another machine has its lock, or a lock-delay
 * runs. */
static void
take_away(struct sim *s, struct machine *m, int p)
{
	const struct bytes name = bytes_of("guarded");
	struct op op = {.code = OP_delete,
	                .delete = {.parent = NODE_ROOT, .name = name, .kind = NODE_FILE}};

	if (m->processes[p].step > 1) {
		work_next_round(s, m, p);
		return;
	}
	if (rng_chance(dice(s), 400))
		op = (struct op){.code = OP_rename,
		                 .rename = {.parent = NODE_ROOT,
		                            .name = name,
		                            .new_parent = NODE_ROOT,
		                            .new_name = bytes_of("taken")}};
	work_ask_for(s, m, p, &op, some_user(s));
}

/* Somebody may have taken the file away: a new one is made. */
static bool
lacks_file(struct sim *s, const struct process *proc)
{
	return model_child(&s->model, NODE_ROOT, bytes_of("guarded")) !=
	       model_item(&s->model, proc->node);
}

void
work_rights(struct sim *s, struct machine *m, int p)
{
	struct process *proc = &m->processes[p];

	if (proc->step == 0 && lacks_file(s, proc)) {
		proc->node = 0;
		work_act(s, m, p);
		return;
	}
	if (proc->step++ == 0)
		proc->generation = rng_below(dice(s), 13);
	if (proc->generation < 3)
		administer(s, m, p);
	else if (proc->generation < 5)
		lock_as_user(s, m, p);
	else if (proc->generation < 8)
		keep_open(s, m, p);
	else if (proc->generation == 8)
		take_away(s, m, p);
	else if (proc->generation == 9)
		replace(s, m, p);
	else
		act_as_user(s, m, p);
}
