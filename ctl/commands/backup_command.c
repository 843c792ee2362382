/* backup: a consistent copy of a running cell's state, in one file; show: what is in such a file.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/store/salvage.h"
#include "ctl/ask.h"
#include "ctl/backup_show.h"
#include "ctl/cell.h"
#include "ctl/fetch.h"

#define SUFFIX ".tmp-XXXXXX"

struct backup {
	const struct ctl *ctl;
	const char *file;
	char conf_path[PATH_MAX];
	struct cell_file cell_file;
	char work[PATH_MAX];  /* a directory beside FILE */
	char state[PATH_MAX]; /* the copy in it */
	uint64_t applied, nodes, size;
};

static bool
fail(const char *path, const char *why)
{
	log_error("%s: %s", path, why);
	return false;
}

/* ---- from replicas ---- */

static int
compare_answers(const struct answer *a, const struct answer *b)
{
	if (a->status.applied != b->status.applied)
		return a->status.applied > b->status.applied ? -1 : 1;
	return 0;
}

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
		       (i == master || compare_answers(&answers[i], &answers[order[at - 1]]) < 0))
			at--;
		memmove(&order[at + 1], &order[at], (size_t)(found - at) * sizeof *order);
		order[at] = i;
		found++;
	}
	return found;
}

static bool
nobody_answers(const struct backup *b, const struct answer *answers)
{
	for (int i = 0; i < b->cell_file.replicas_n; i++)
		log_error("replica %d at %s: %s", b->cell_file.replicas[i].id,
		          b->cell_file.replicas[i].address, answers[i].why);
	return false;
}

static bool
fetch_from(const struct backup *b, struct fetch *f)
{
	enum fetch_end end;

	f->fd = open(b->state, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (f->fd < 0)
		return fail(b->state, strerror(errno));
	end = fetch_copy(f);
	if (close(f->fd) < 0 && end == FETCH_DONE)
		return fail(b->state, strerror(errno));
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
	f.sources_n = candidates(answers, b->cell_file.replicas_n, order);
	for (int i = 0; i < f.sources_n; i++)
		f.sources[i] = (struct fetch_source){
		    .replica = &b->cell_file.replicas[order[i]],
		    .least = answers[master >= 0 ? master : order[i]].status.applied,
		};
	return f.sources_n > 0 ? fetch_from(b, &f) : nobody_answers(b, answers);
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
	char path[PATH_MAX];
	int rc = file_sync(b->state);

	if (rc == 0 && rename(b->state, b->file) < 0)
		rc = -errno;
	snprintf(path, sizeof path, "%s", b->file);
	if (rc == 0)
		rc = file_sync_directory(dirname(path));
	return rc == 0 || fail(b->file, strerror(-rc));
}

static bool
make_in_work(struct backup *b)
{
	const bool copied = cell_file_is_standalone(&b->cell_file) ? copy_here(b) : fetch(b);

	return copied && verify(b) && put_in_place(b);
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

static bool
make(struct backup *b)
{
	sigset_t all, before;
	bool ok;
	int rc;

	if (snprintf(b->work, sizeof b->work, "%s" SUFFIX, b->file) >= PATH_MAX - 32)
		return fail(b->file, strerror(ENAMETOOLONG));
	/* Signals are blocked, so that the unfinished copy is removed in every case. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	ok = check_target(b) && (mkdtemp(b->work) || fail(b->file, strerror(errno)));
	if (ok) {
		snprintf(b->state, sizeof b->state, "%.*s/" STATE_DB_FILE, PATH_MAX - 16, b->work);
		ok = make_in_work(b);
		if ((rc = salvage_clean(b->work)) < 0)
			log_warn("%s: cannot remove it: %s", b->work, strerror(-rc));
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return ok;
}

/* ---- the command ---- */

static void
print_result(const struct backup *b)
{
	json_t *all;

	if (!b->ctl->json) {
		printf("%s: cell %s at log index %" PRIu64 ", %" PRIu64 " nodes, %" PRIu64
		       " bytes\n",
		       b->file, b->cell_file.name, b->applied, b->nodes, b->size);
		return;
	}
	all = json_object();
	json_object_set_new(all, "file", json_string(b->file));
	json_object_set_new(all, "cell", json_string(b->cell_file.name));
	json_object_set_new(all, "log_index", json_integer((json_int_t)b->applied));
	json_object_set_new(all, "nodes", json_integer((json_int_t)b->nodes));
	json_object_set_new(all, "size", json_integer((json_int_t)b->size));
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static struct backup b;

	if (argc == 2 && strcmp(argv[0], "show") == 0)
		return backup_show(ctl, argv[1]);
	if (argc != 1 || argv[0][0] == '\0')
		return ctl_usage(&backup_command, "FILE", "exactly one is needed");
	b.ctl = ctl;
	b.file = argv[0];
	if (!cell_find(ctl, b.conf_path, &b.cell_file) || !make(&b))
		return CTL_FAILED;
	print_result(&b);
	return CTL_OK;
}

const struct ctl_command backup_command = {
    "backup",
    "FILE | show FILE",
    "makes a consistent copy of a running cell's state, verified; shows what is in one",
    .run_plain = run,
};
