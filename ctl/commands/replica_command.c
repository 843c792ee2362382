/* replica: lists the members of a cell, adds or removes one. master: hands the mastership over. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "cell/config/key_file.h"
#include "cell/sys/clock.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/view/ask.h"
#include "cell/view/health.h"
#include "cell/view/output.h"
#include "ctl/cell.h"
#include "ctl/cell_admin.h"
#include "ctl/cell_status.h"

enum { PATIENCE_S = 10, ASK_EVERY_MS = 50 };

/* ---- list ---- */

static int
run_list(const struct ctl *ctl, char **argv)
{
	struct answer answers[LIMIT_REPLICAS];
	struct cell_admin o;
	const bool asked = cell_admin_begin(ctl, &o) && ask_replicas(&o.cell_file, &o.key, answers);
	json_t *health;

	(void)argv;
	cell_admin_end(&o);
	if (!asked)
		return CTL_FAILED;
	health = health_json(&o.cell_file, answers);
	if (ctl->json)
		json_text_print(json_object_get(health, "replicas"));
	else
		replica_table_print_members(health);
	json_decref(health);
	return answers_master(answers, o.cell_file.replicas_n) >= 0 ? CTL_OK : CTL_FAILED;
}

/* ---- add ---- */

struct adding {
	const struct ctl *ctl;
	struct cell_admin *o;
	const char *address, *directory;
	char key_file[PATH_MAX], conf_file[PATH_MAX];
	struct noise_pair pair;
	bool made;    /* the directory */
	bool earlier; /* the key is that of an earlier attempt */
	uint8_t id;
};

static bool
fail(const char *path, int error)
{
	return log_error("%s: %s", path, error == EEXIST ? "exists already" : strerror(error));
}

/* True when the directory holds at most the key and unfinished files: an earlier attempt was not
 * answered, or was ended at any moment before the cell file was there. */
static bool
is_attempt(const char *directory)
{
	static const char *const left[] = {".", "..", "replica.key", "replica.key" FILE_UNFINISHED,
	                                   "cell.conf" FILE_UNFINISHED};
	DIR *d = opendir(directory);
	struct dirent *e;
	int others = 0;

	if (d == NULL)
		return false;
	while ((e = readdir(d)) != NULL) {
		others++;
		for (size_t i = 0; i < sizeof left / sizeof left[0]; i++)
			others -= strcmp(e->d_name, left[i]) == 0;
	}
	closedir(d);
	return others == 0;
}

/* When several processes begin with one directory at once, only one goes on, and no other one
 * removes its key. The lock lasts until the process ends. */
static bool
lock_directory(const char *directory)
{
	const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	if (fd < 0 || errno != EWOULDBLOCK)
		return fail(directory, errno);
	return log_error("%s: another lsctl replica add makes it: let that one end", directory);
}

/* Makes the key, or uses that of an earlier attempt: the cell may have added a member with it, and
 * then answers with that member's id. */
static bool
begin(struct adding *a)
{
	char why[512];
	int rc;

	rc = file_make_directory(a->directory, 0700);
	a->made = rc == 0;
	if (rc < 0 && (rc != -EEXIST || !is_attempt(a->directory)))
		return fail(a->directory, -rc);
	if (!lock_directory(a->directory))
		return false;
	if (!is_attempt(a->directory))
		return fail(a->directory, EEXIST); /* another one has ended meanwhile */
	rc = key_file_create_channel(a->key_file, NULL, &a->pair);
	if (rc == 0)
		return true;
	if (rc != -EEXIST) {
		if (a->made)
			rmdir(a->directory);
		return fail(a->key_file, -rc);
	}
	a->earlier = true;
	if (key_file_read_replica(a->key_file, &a->pair, why, sizeof why))
		return true;
	return log_error("%s", why);
}

/* Puts the new replica into the list of members: a replica that is behind has sent the list without
 * it. A new member has no vote. False: the list is full. */
static bool
put_new_member(struct adding *a, struct cell_file *cell_file)
{
	int i = cell_file_find(cell_file, a->id);
	struct cell_file_replica *r;

	if (i < 0 && cell_file->replicas_n == LIMIT_REPLICAS)
		return false;
	if (i < 0)
		i = cell_file->replicas_n++;
	r = &cell_file->replicas[i];
	*r = (struct cell_file_replica){.id = a->id, .role = MEMBER_LEARNER};
	snprintf(r->address, sizeof r->address, "%s", a->address);
	memcpy(r->public_key, a->pair.public, sizeof r->public_key);
	return true;
}

static int
finish(struct adding *a)
{
	struct cell_file *cell_file = &a->o->cell_file;
	int rc;

	if (!ask_members(cell_file, &a->o->key) || !cell_ask_keys(cell_file, &a->o->key))
		return CTL_FAIL(
		    "%s: replica %u was added, but no replica answers for its cell file: "
		    "repeat the same command",
		    a->directory, a->id);
	rc = put_new_member(a, cell_file) ? cell_file_write(a->conf_file, cell_file) : -E2BIG;
	if (rc < 0) {
		fail(a->conf_file, -rc);
		return CTL_FAIL("replica %u was added to the cell but can't run: remove it with "
		                "lsctl replica remove %u",
		                a->id, a->id);
	}
	if (a->ctl->json) {
		json_t *added = json_object();

		json_object_set_new(added, "id", json_integer(a->id));
		json_object_set_new(added, "directory", json_path(bytes_of(a->directory)));
		json_text_print_line(added);
		json_decref(added);
	} else {
		printf("%s is the data directory of replica %u at %s.\n"
		       "Carry it there, and run: lscell %s\n"
		       "It gets a vote when it has caught up: lsctl replica list\n",
		       a->directory, a->id, a->address, a->directory);
	}
	return CTL_OK;
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
		if (a->earlier)
			log_error("%s: kept, since an earlier attempt may have added a replica "
			          "with it: repeat that command, or remove %s",
			          a->key_file, a->directory);
		else if (unlink(a->key_file) < 0 || (a->made && rmdir(a->directory) < 0))
			log_warn("%s: cannot remove it again: %s", a->directory, strerror(errno));
		return CTL_FAILED;
	case CELL_ADMIN_UNKNOWN:
		return CTL_FAIL("%s: holds the new replica's key: repeat the same command",
		                a->directory);
	case CELL_ADMIN_DONE:
		break;
	}
	a->id = (uint8_t)id;
	return finish(a);
}

static const char *given_directory;

static int
run_add(const struct ctl *ctl, char **argv)
{
	const char *directory = given_directory;
	struct cell_admin o;
	struct adding a = {.ctl = ctl, .o = &o, .address = argv[0], .directory = directory};
	int code = CTL_FAILED;

	if (!cell_file_address_valid(argv[0]))
		return ctl_usage(argv[0], "not HOST:PORT");
	if (snprintf(a.key_file, PATH_MAX, "%s/replica.key" FILE_UNFINISHED, directory) >= PATH_MAX)
		return CTL_FAIL("%.64s...: %s", directory, strerror(ENAMETOOLONG));
	snprintf(a.key_file, PATH_MAX, "%.*s/replica.key", PATH_MAX - 32, directory);
	snprintf(a.conf_file, PATH_MAX, "%.*s/cell.conf", PATH_MAX - 32, directory);
	if (cell_admin_begin(ctl, &o))
		code = add(&a);
	explicit_bzero(&a.pair, sizeof a.pair);
	cell_admin_end(&o);
	return code;
}

/* ---- remove ---- */

/* 0: there is no such id. */
static uint8_t
id_of(const char *text)
{
	uint64_t id;

	return ctl_take_count(&id, text) && id <= LIMIT_REPLICA_ID ? (uint8_t)id : 0;
}

static int
run_remove(const struct ctl *ctl, char **argv)
{
	const struct msg_operate what = {.what = OPERATION_REMOVE_REPLICA, .id = id_of(argv[0])};
	struct cell_admin o;
	bool done;

	if (what.id == 0)
		return ctl_usage(argv[0], "not a replica's id");
	done = cell_admin_begin(ctl, &o) && cell_admin_send(&o, &what, NULL) == CELL_ADMIN_DONE;
	cell_admin_end(&o);
	if (done && !ctl->json)
		line_print("replica %u is no longer a member of cell %s", (unsigned)what.id,
		           o.cell_file.name);
	return done ? CTL_OK : CTL_FAILED;
}

static const struct ctl_option options[] = {
    {"dir", 0, "DIR", &given_directory, .only = "add", .needed = true},
    {0},
};

const struct ctl_command replica_command = {
    "replica",
    "shows the members of a cell; adds one, removes one",
    {{.name = "list", .run = run_list},
     {.name = "add", .words = {"HOST:PORT"}, .run = run_add},
     {.name = "remove", .words = {"ID"}, .run = run_remove}},
    options,
};

/* ---- master ---- */

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
print_master(const struct ctl *ctl, uint8_t master)
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
	uint8_t master;

	do {
		if (!master_id(o, &master))
			return CTL_FAILED;
		if (master != 0 && (wanted != 0 ? master == wanted : master != before))
			return print_master(ctl, master);
		nanosleep(&(struct timespec){.tv_nsec = ASK_EVERY_MS * 1000000L}, NULL);
	} while (!mono_reached(clock_now(), deadline));
	if (master == 0)
		log_error("the cell has no master after %d s", PATIENCE_S);
	else
		log_error("the mastership was not handed over: replica %u is master; its log says "
		          "why",
		          master);
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
		return print_master(ctl, before);
	if (cell_admin_send(o, &what, NULL) != CELL_ADMIN_DONE)
		return CTL_FAILED;
	return await(ctl, o, before, id);
}

static int
run_transfer(const struct ctl *ctl, char **argv)
{
	const uint8_t id = argv[0] != NULL ? id_of(argv[0]) : 0;
	struct cell_admin o;
	int rc;

	if (argv[0] != NULL && id == 0)
		return ctl_usage(argv[0], "not a replica's id");
	rc = cell_admin_begin(ctl, &o) ? transfer(ctl, &o, id) : CTL_FAILED;
	cell_admin_end(&o);
	return rc;
}

const struct ctl_command master_command = {
    "master",
    "hands the mastership over, to that replica or to any",
    {{.name = "transfer", .words = {"[ID]"}, .run = run_transfer}},
    NULL,
};
