/* backup: a consistent copy of a running cell's state, in a file; show: what such a file holds. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/config/member_addresses.h"
#include "cell/store/salvage.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/view/ask.h"
#include "cell/view/output.h"
#include "ctl/cell.h"
#include "ctl/cell_admin.h"
#include "ctl/fetch.h"

#define SUFFIX ".unfinished"

struct backup {
	const struct ctl *ctl;
	const char *file;
	char conf_path[PATH_MAX];
	struct cell_file cell_file;
	char work[PATH_MAX];  /* a directory beside FILE */
	char state[PATH_MAX]; /* the copy in it */
	uint64_t applied, nodes, size;
	bool has_master; /* it records the backup */
	int replica;     /* that the copy is of */
};

static bool
fail(const char *path, const char *why)
{
	return log_error("%s: %s", path, why);
}

/* ---- from replicas ---- */

/* The order in which replicas are asked for a copy: the master first, then those with the most
 * applied entries. Returns their number. */
static int
candidates(const struct answer *answers, int n, int order[LIMIT_REPLICAS])
{
	const int master = answers_master(answers, n);
	int found = 0;

	for (int i = 0; i < n; i++) {
		int at = found;

		if (!answers[i].heard)
			continue;
		while (at > 0 && order[at - 1] != master &&
		       (i == master ||
		        answers[i].status.applied > answers[order[at - 1]].status.applied))
			at--;
		memmove(&order[at + 1], &order[at], (size_t)(found - at) * sizeof *order);
		order[at] = i;
		found++;
	}
	return found;
}

static bool
fetch_from(struct backup *b, struct fetch *f)
{
	enum fetch_end end;

	f->fd = open(b->state, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return fail(b->state, strerror(errno));
	end = fetch_copy(f);
	if (close(f->fd) < 0 && end == FETCH_DONE)
		return fail(b->state, strerror(errno));
	b->replica = f->replica;
	return end == FETCH_DONE;
}

/* The copy must contain every write acknowledged before: it must reach the master's applied index
 * or, without a master, that of the replica which is asked. */
static bool
fetch_from_any(struct backup *b, const struct noise_pair *key)
{
	struct fetch f = {.cell_file = &b->cell_file, .key = key};
	struct answer answers[LIMIT_REPLICAS];
	int order[LIMIT_REPLICAS + 1], master;

	if (!ask_replicas(&b->cell_file, key, answers))
		return false;
	master = answers_master(answers, b->cell_file.replicas_n);
	b->has_master = master >= 0;
	f.sources_n = candidates(answers, b->cell_file.replicas_n, order);
	for (int i = 0; i < f.sources_n; i++)
		f.sources[i] = (struct fetch_source){
		    .replica = &b->cell_file.replicas[order[i]],
		    .least = answers[master >= 0 ? master : order[i]].status.applied,
		};
	if (f.sources_n > 0)
		return fetch_from(b, &f);
	for (int i = 0; i < b->cell_file.replicas_n; i++)
		log_error("replica %d at %s: %s", b->cell_file.replicas[i].id,
		          b->cell_file.replicas[i].address, answers[i].why);
	return false;
}

static bool
fetch(struct backup *b)
{
	struct noise_pair key;
	bool ok = cell_key(b->ctl, b->conf_path, &key) && ask_members(&b->cell_file, &key) &&
	          fetch_from_any(b, &key);

	explicit_bzero(&key, sizeof key);
	return ok;
}

/* ---- from the data directory of a cell in one process ---- */

static bool
copy_here(const struct backup *b)
{
	char path[PATH_MAX];
	struct salvage s;
	bool ok;

	snprintf(path, sizeof path, "%s", b->conf_path);
	ok = salvage_running(&s, dirname(path), b->work) && salvage_write(&s);
	if (!ok)
		log_error("%s", s.why);
	salvage_end(&s);
	return ok;
}

/* ---- the file ---- */

/* Loads the whole copy, as a restore does. */
static bool
verify(struct backup *b)
{
	struct salvage s;
	struct stat st;
	bool ok = salvage_backup(&s, NULL, b->work);

	if (ok && strcmp(s.cell, b->cell_file.name) != 0) {
		snprintf(s.why, sizeof s.why, "it belongs to cell %s, not to %s", s.cell,
		         b->cell_file.name);
		ok = false;
	}
	if (ok) {
		b->applied = tree_applied(s.tree);
		b->nodes = tree_usage(s.tree).nodes;
		b->size = stat(b->state, &st) == 0 ? (uint64_t)st.st_size : 0;
	} else {
		log_error("%s: the copy can't be used: %s", b->file, s.why);
	}
	salvage_end(&s);
	return ok;
}

static bool
put_in_place(const struct backup *b)
{
	int rc = file_sync(b->state);

	if (rc == 0 && rename(b->state, b->file) < 0)
		rc = -errno;
	if (rc == 0)
		rc = file_sync_above(b->file);
	return rc == 0 || fail(b->file, strerror(-rc));
}

/* An existing regular file is replaced atomically; anything else is refused. */
static bool
check_target(const struct backup *b)
{
	struct stat st;

	if (stat(b->file, &st) < 0)
		return errno == ENOENT || fail(b->file, strerror(errno));
	if (S_ISREG(st.st_mode))
		return true;
	return fail(b->file, S_ISDIR(st.st_mode) ? strerror(EISDIR) : "not a file");
}

/* Makes the working directory, or takes over what a killed process has left: for one process at a
 * time, which has the lock of the descriptor. -1 after an error message. */
static int
take_work(const struct backup *b)
{
	static const char another[] = "another lsctl backup makes it: let that one end";
	const char *why = NULL;
	struct stat is, named;
	int fd;

	if (mkdir(b->work, 0700) < 0 && errno != EEXIST) {
		fail(b->file, strerror(errno));
		return -1;
	}
	fd = open(b->work, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &is) < 0)
		why = strerror(errno);
	else if (is.st_uid != geteuid())
		why = "belongs to another user";
	else if (flock(fd, LOCK_EX | LOCK_NB) < 0)
		why = errno == EWOULDBLOCK ? another : strerror(errno);
	else if (stat(b->work, &named) < 0 || named.st_ino != is.st_ino)
		why = another; /* it has removed this one meanwhile */
	if (why == NULL) {
		salvage_empty(b->work);
		return fd;
	}
	fail(b->work, why);
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool
make(struct backup *b)
{
	sigset_t all, before;
	int lock, rc;
	bool ok;

	if (snprintf(b->work, sizeof b->work, "%s" SUFFIX, b->file) >= PATH_MAX - 32)
		return fail(b->file, strerror(ENAMETOOLONG));
	/* Signals are blocked, so that the unfinished copy is removed in every case. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	lock = check_target(b) ? take_work(b) : -1;
	ok = lock >= 0;
	if (ok) {
		snprintf(b->state, sizeof b->state, "%.*s/" STATE_DB_FILE, PATH_MAX - 16, b->work);
		ok = (cell_file_is_standalone(&b->cell_file) ? copy_here(b) : fetch(b)) &&
		     verify(b) && put_in_place(b);
		if ((rc = salvage_clean(b->work)) < 0)
			log_warn("%s: cannot remove it: %s", b->work, strerror(-rc));
		close(lock);
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ok;
}

static void
print_result(const struct backup *b)
{
	json_t *all;

	if (!b->ctl->json) {
		line_print("%s: cell %s at log index %" PRIu64 ", %" PRIu64 " nodes, %" PRIu64
		           " bytes",
		           b->file, b->cell_file.name, b->applied, b->nodes, b->size);
		return;
	}
	all = json_object();
	json_object_set_new(all, "file", json_string(b->file));
	json_object_set_new(all, "cell", json_string(b->cell_file.name));
	json_object_set_new(all, "log_index", json_number(b->applied));
	json_object_set_new(all, "nodes", json_number(b->nodes));
	json_object_set_new(all, "size", json_number(b->size));
	json_text_print(all);
	json_decref(all);
}

static int
run(const struct ctl *ctl, char **argv)
{
	const struct msg_operate made = {.what = OPERATION_BACKED_UP};
	static struct backup b;

	if (argv[0][0] == '\0')
		return ctl_usage("FILE", "needed");
	b.ctl = ctl;
	b.file = argv[0];
	if (!cell_find(ctl, b.conf_path, &b.cell_file) || !make(&b))
		return CTL_FAILED;
	/* The cell records it, so that lsctl doctor finds a cell without a backup for a day. */
	if (b.has_master && cell_admin_run(ctl, &made) != CTL_OK)
		log_warn("%s: the cell could not be told of this backup", b.file);
	if (!b.has_master && !cell_file_is_standalone(&b.cell_file))
		log_warn("%s: it is the state of replica %d at log index %" PRIu64
		         ": no master answers; other replicas may have later writes",
		         b.file, b.replica, b.applied);
	print_result(&b);
	return CTL_OK;
}

/* ---- show: what is in a backup ---- */

static json_t *
replicas_json(const struct salvage *s)
{
	struct cell_file_replica list[LIMIT_MEMBERS];
	struct buffer packed = BUFFER(LIMIT_FRAME);
	const struct wire_list members = tree_members(s->tree, &packed);
	const int n = member_addresses_of(&members, list);
	json_t *all = json_array();

	for (int i = 0; i < n; i++) {
		json_t *one;

		if (list[i].role == MEMBER_REMOVED)
			continue;
		one = json_object();
		json_object_set_new(one, "id", json_integer(list[i].id));
		json_object_set_new(one, "address", json_string(list[i].address));
		json_array_append_new(all, one);
	}
	buffer_free(&packed);
	return all;
}

static json_t *
contents_json(const struct salvage *s, const char *file)
{
	const struct result_usage usage = tree_usage(s->tree);
	char written[UTC_TEXT];
	json_t *all = json_object();
	struct stat st;

	utc_text(s->written_s, written);
	json_object_set_new(all, "file", json_string(file));
	json_object_set_new(all, "cell", json_string(s->cell));
	json_object_set_new(all, "written", json_string(written));
	json_object_set_new(all, "size", json_integer(stat(file, &st) == 0 ? st.st_size : 0));
	json_object_set_new(all, "log_index", json_number(tree_applied(s->tree)));
	json_object_set_new(all, "epoch", json_number(tree_epoch(s->tree)));
	json_object_set_new(all, "nodes", json_number(usage.nodes));
	json_object_set_new(all, "bytes", json_number(usage.bytes));
	json_object_set_new(all, "sessions", json_number(usage.sessions));
	json_object_set_new(all, "locks_held", json_number(usage.locks_held));
	json_object_set_new(all, "replicas", replicas_json(s));
	return all;
}

static void
print_contents(json_t *all, int64_t written_s)
{
	char age[AGE_TEXT];
	const char *key;
	json_t *value;
	size_t i;

	utc_age(written_s, age);
	json_object_foreach(all, key, value) {
		if (json_is_integer(value))
			printf("%-12s %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(value));
		else if (json_is_string(value))
			line_print("%-12s %s%s%s", key, json_string_value(value),
			           strcmp(key, "written") == 0 ? ", " : "",
			           strcmp(key, "written") == 0 ? age : "");
	}
	json_array_foreach(json_object_get(all, "replicas"), i, value)
		line_print("%-7s %-4" JSON_INTEGER_FORMAT " %s", "replica",
		           json_integer_value(json_object_get(value, "id")),
		           json_string_value(json_object_get(value, "address")));
}

static int
run_show(const struct ctl *ctl, char **argv)
{
	struct salvage s;
	const bool ok = salvage_look(&s, argv[0]);
	json_t *all = ok ? contents_json(&s, argv[0]) : NULL;

	if (!ok)
		log_error("%s", s.why);
	else if (ctl->json)
		json_text_print(all);
	else
		print_contents(all, s.written_s);
	json_decref(all);
	salvage_end(&s);
	return ok ? CTL_OK : CTL_FAILED;
}

const struct ctl_command backup_command = {
    "backup",
    "makes a consistent copy of a running cell's state, verified; shows what is in one",
    {{.name = "show", .words = {"FILE"}, .run = run_show}, {.words = {"FILE"}, .run = run}},
    NULL,
};
