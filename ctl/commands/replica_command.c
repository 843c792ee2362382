/* replica: lists the members of a cell, adds one, removes one. */
#include <dirent.h>
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/sys/file.h"
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "ctl/ask.h"
#include "ctl/health.h"
#include "ctl/cell_admin.h"
#include "ctl/cell_refresh.h"

enum { OPT_DIR = 256 };

/* ---- list ---- */

static int
list(const struct ctl *ctl, const struct cell_admin *o)
{
	struct answer answers[LIMIT_REPLICAS];
	json_t *health;

	if (!ask_replicas(&o->cell_file, &o->key, answers))
		return CTL_FAILED;
	health = health_json(&o->cell_file, answers);
	if (ctl->json) {
		json_dumpf(json_object_get(health, "replicas"), stdout, JSON_INDENT(2));
		putchar('\n');
	} else {
		health_print_members(health);
	}
	json_decref(health);
	return answers_master(answers, o->cell_file.replicas_n) >= 0 ? CTL_OK : CTL_FAILED;
}

/* ---- add ---- */

struct adding {
	const struct ctl *ctl;
	struct cell_admin *o;
	const char *address, *directory;
	char key_file[PATH_MAX], conf_file[PATH_MAX];
	struct noise_pair pair;
	uint8_t id;
};

static bool
fail(const char *path, int error)
{
	log_error("%s: %s", path, error == EEXIST ? "exists already" : strerror(error));
	return false;
}

/* True when the directory holds only the key: an earlier attempt was not answered. */
static bool
is_attempt(const char *directory)
{
	DIR *d = opendir(directory);
	struct dirent *e;
	int keys = 0, others = 0;

	if (d == NULL)
		return false;
	while ((e = readdir(d)) != NULL) {
		if (strcmp(e->d_name, "replica.key") == 0)
			keys++;
		else if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			others++;
	}
	closedir(d);
	return keys == 1 && others == 0;
}

static bool
make_key(struct adding *a)
{
	int rc;

	if (mkdir(a->directory, 0700) < 0)
		return fail(a->directory, errno);
	rc = key_file_create_channel(a->key_file, NULL, &a->pair);
	if (rc == 0)
		return true;
	rmdir(a->directory);
	return fail(a->key_file, -rc);
}

/* Makes the key, or uses that of an earlier attempt: the cell may have added a member with it, and
 * then answers with that member's id. */
static bool
begin(struct adding *a)
{
	char why[512];

	if (!is_attempt(a->directory))
		return make_key(a);
	if (key_file_read_replica(a->key_file, &a->pair, why, sizeof why))
		return true;
	log_error("%s", why);
	return false;
}

static void
undo(struct adding *a)
{
	if (unlink(a->key_file) < 0 || rmdir(a->directory) < 0)
		log_warn("%s: cannot remove it again: %s", a->directory, strerror(errno));
}

/* Puts the new replica into the list of members, which an older replica may have sent without it.
 * It begins without a vote. */
static bool
put_itself(struct adding *a, struct cell_file *cell_file)
{
	struct cell_file_replica *r = NULL;

	for (int i = 0; i < cell_file->replicas_n; i++)
		if (cell_file->replicas[i].id == a->id)
			r = &cell_file->replicas[i];
	if (r == NULL && cell_file->replicas_n == LIMIT_REPLICAS)
		return false;
	if (r == NULL)
		r = &cell_file->replicas[cell_file->replicas_n++];
	*r = (struct cell_file_replica){.id = a->id, .role = MEMBER_LEARNER};
	snprintf(r->address, sizeof r->address, "%s", a->address);
	memcpy(r->public_key, a->pair.public, sizeof r->public_key);
	return true;
}

static int
print_result(const struct adding *a)
{
	if (a->ctl->json)
		printf("{\"id\": %u, \"directory\": \"%s\"}\n", a->id, a->directory);
	else
		printf("%s is the data directory of replica %u at %s.\n"
		       "Carry it there, and run: lscell %s\n"
		       "It gets a vote when it has caught up: lsctl replica list\n",
		       a->directory, a->id, a->address, a->directory);
	return CTL_OK;
}

static int
finish(struct adding *a)
{
	struct cell_file *cell_file = &a->o->cell_file;
	int rc;

	if (!ask_members(cell_file, &a->o->key) || !cell_refresh_keys(a->o))
		return CTL_FAILED;
	rc = put_itself(a, cell_file) ? cell_file_write(a->conf_file, cell_file) : -E2BIG;
	if (rc == 0)
		return print_result(a);
	fail(a->conf_file, -rc);
	log_error("replica %u was added to the cell but can't run: remove it with "
	          "lsctl replica remove %u",
	          a->id, a->id);
	return CTL_FAILED;
}

static int
add(struct adding *a)
{
	struct msg_operate what = {
	    .what = OPERATION_ADD_REPLICA,
	    .address = bytes_of(a->address),
	};
	uint64_t id = 0;

	if (!begin(a))
		return CTL_FAILED;
	what.key = (struct bytes){a->pair.public, NOISE_KEY};
	switch (cell_admin_send(a->o, &what, &id)) {
	case CELL_ADMIN_REFUSED:
		undo(a);
		return CTL_FAILED;
	case CELL_ADMIN_UNKNOWN:
		log_error("%s: holds the new replica's key: repeat the same command", a->directory);
		return CTL_FAILED;
	case CELL_ADMIN_DONE:
		break;
	}
	a->id = (uint8_t)id;
	return finish(a);
}

static int
run_add(const struct ctl *ctl, struct cell_admin *o, const char *address, const char *directory)
{
	struct adding a = {.ctl = ctl, .o = o, .address = address, .directory = directory};
	int code;

	if (snprintf(a.key_file, PATH_MAX, "%s/replica.key" FILE_UNFINISHED, directory) >=
	    PATH_MAX) {
		log_error("%.64s...: %s", directory, strerror(ENAMETOOLONG));
		return CTL_FAILED;
	}
	snprintf(a.key_file, PATH_MAX, "%.*s/replica.key", PATH_MAX - 32, directory);
	snprintf(a.conf_file, PATH_MAX, "%.*s/cell.conf", PATH_MAX - 32, directory);
	code = add(&a);
	explicit_bzero(&a.pair, sizeof a.pair);
	return code;
}

/* ---- remove ---- */

static int
remove_replica(const struct ctl *ctl, const struct cell_admin *o, uint8_t id)
{
	const struct msg_operate what = {.what = OPERATION_REMOVE_REPLICA, .id = id};

	if (cell_admin_send(o, &what, NULL) != CELL_ADMIN_DONE)
		return CTL_FAILED;
	if (!ctl->json)
		printf("replica %u is no longer a member of cell %s\n", id, o->cell_file.name);
	return CTL_OK;
}

/* ---- the command ---- */

static int
usage(const char *what, const char *why)
{
	return ctl_usage(&replica_command, what, why);
}

/* Checks the arguments; 0, or an exit code after an error message. */
static int
check(int argc, char **argv, const char *directory)
{
	const bool is_add = argc > 0 && strcmp(argv[0], "add") == 0;
	const bool is_remove = argc > 0 && strcmp(argv[0], "remove") == 0;

	if (argc == 0)
		return usage("list, add or remove", "needed");
	if (!is_add && !is_remove && strcmp(argv[0], "list") != 0)
		return usage(argv[0], "neither list, add nor remove");
	if (argc < 2 && (is_add || is_remove))
		return usage(is_add ? "HOST:PORT" : "ID", "needed");
	if (argc > 1 + (is_add || is_remove))
		return usage(argv[1 + (is_add || is_remove)], "unexpected argument");
	if (is_add && !cell_file_address_valid(argv[1]))
		return usage(argv[1], "not HOST:PORT");
	if (is_add && (directory == NULL || directory[0] == '\0'))
		return usage("--dir", "needed");
	if (!is_add && directory != NULL)
		return usage("--dir", "only for add");
	if (is_remove && cell_admin_number(argv[1], LIMIT_REPLICA_ID) == 0)
		return usage(argv[1], "not a replica's id");
	return 0;
}

static int
run_one(const struct ctl *ctl, struct cell_admin *o, char **argv, const char *directory)
{
	if (!cell_admin_begin(ctl, o))
		return CTL_FAILED;
	if (strcmp(argv[0], "add") == 0)
		return run_add(ctl, o, argv[1], directory);
	if (strcmp(argv[0], "remove") == 0)
		return remove_replica(ctl, o,
		                      (uint8_t)cell_admin_number(argv[1], LIMIT_REPLICA_ID));
	return list(ctl, o);
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"dir", required_argument, NULL, OPT_DIR},
	    CTL_LONG_OPTIONS,
	};
	const char *directory = NULL;
	struct cell_admin o;
	int letter, rc;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (letter == OPT_DIR)
			directory = optarg;
		else if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	if (ctl->help)
		return CTL_OK;
	rc = check(argc - optind, argv + optind, directory);
	if (rc != 0)
		return rc;
	rc = run_one(ctl, &o, argv + optind, directory);
	cell_admin_end(&o);
	return rc;
}

const struct ctl_command replica_command = {
    "replica",
    "list | add HOST:PORT --dir DIR | remove ID",
    "shows the members of a cell; adds one, removes one",
    .run = run,
};
