/* master: hands the mastership over. */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "ctl/ask.h"
#include "ctl/cell_admin.h"

enum { PATIENCE_S = 10, ASK_EVERY_MS = 50 };

/* The master's id; 0: there is no master. False after an error message. */
static bool
master_id(const struct cell_admin *o, uint8_t *id)
{
	struct answer answers[LIMIT_REPLICAS];
	int master;

	if (!ask_replicas(&o->cell_file, &o->key, answers))
		return false;
	master = answers_master(answers, o->cell_file.replicas_n);
	*id = master < 0 ? 0 : o->cell_file.replicas[master].id;
	return true;
}

static int
print_result(const struct ctl *ctl, uint8_t master)
{
	if (ctl->json)
		printf("{\"master\": %u}\n", master);
	else
		printf("replica %u is master\n", master);
	return CTL_OK;
}

/* Waits until the wanted replica, or any other than before, is master. */
static int
await(const struct ctl *ctl, const struct cell_admin *o, uint8_t before, uint8_t wanted)
{
	const mono_t deadline = mono_add(clock_now(), span_s(PATIENCE_S));
	uint8_t now;

	do {
		if (!master_id(o, &now))
			return CTL_FAILED;
		if (now != 0 && (wanted != 0 ? now == wanted : now != before))
			return print_result(ctl, now);
		nanosleep(&(struct timespec){.tv_nsec = ASK_EVERY_MS * 1000000L}, NULL);
	} while (!mono_reached(clock_now(), deadline));
	if (now == 0)
		log_error("the cell has no master after %d s", PATIENCE_S);
	else
		log_error("the mastership was not handed over: replica %u is master; its log says "
		          "why",
		          now);
	return CTL_FAILED;
}

/* The answer of the old master may be lost with it; the success is judged by the new master. */
static int
transfer(const struct ctl *ctl, const struct cell_admin *o, uint8_t id)
{
	const struct msg_operate what = {.what = OPERATION_TRANSFER, .id = id};
	uint8_t before;

	if (!master_id(o, &before))
		return CTL_FAILED;
	if (before != 0 && before == id)
		return print_result(ctl, before);
	if (cell_admin_send(o, &what, NULL) != CELL_ADMIN_DONE)
		return CTL_FAILED;
	return await(ctl, o, before, id);
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	struct cell_admin o;
	uint64_t id = 0;
	int rc;

	if (argc < 1 || strcmp(argv[0], "transfer") != 0)
		return ctl_usage(&master_command, argc < 1 ? "transfer" : argv[0],
		                 argc < 1 ? "needed" : "not transfer");
	if (argc > 2)
		return ctl_usage(&master_command, argv[2], "unexpected argument");
	if (argc == 2 && (id = cell_admin_number(argv[1], LIMIT_REPLICA_ID)) == 0)
		return ctl_usage(&master_command, argv[1], "not a replica's id");
	rc = cell_admin_begin(ctl, &o) ? transfer(ctl, &o, (uint8_t)id) : CTL_FAILED;
	cell_admin_end(&o);
	return rc;
}

const struct ctl_command master_command = {
    "master",
    "transfer [ID]",
    "hands the mastership over, to that replica or to any",
    .run_plain = run,
};
