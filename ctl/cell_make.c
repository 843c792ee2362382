/* The files of a new cell, all of them or none, and the addresses that they name. */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cell/config/key_file.h"
#include "cell/sys/clock.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/view/output.h"
#include "ctl/cell.h"

/* The files and directories of a cell: at most five in and with each data directory, two files
 * beside these directories, and the directory that holds all. */
enum { MADE_MAX = LIMIT_REPLICAS * 5 + 2 + 1 };

struct making {
	const char *directory;
	struct cell_file *cell_file;
	const struct cell_state *state; /* NULL: the cell begins empty */
	uint8_t signing[SIGN_SECRET];
	char *made[MADE_MAX]; /* paths, in the order of their creation */
	int made_n;
};

/* Records that `path` was made (rc 0), or reports why not (rc a negative errno). */
static bool
record_made(struct making *m, const char *path, int rc)
{
	if (rc == 0) {
		m->made[m->made_n++] = strdup(path);
		return true;
	}
	return log_error("%s: %s", path, rc == -EEXIST ? "exists already" : strerror(-rc));
}

static const char *
path_in(const struct making *m, const char *name)
{
	static char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/%s", m->directory, name);
	return path;
}

static const char *
path_of_replica(const struct making *m, int id, const char *file)
{
	char name[64];

	if (cell_file_is_standalone(m->cell_file))
		return path_in(m, file);
	snprintf(name, sizeof name, "%d%s%s", id, file[0] != '\0' ? "/" : "", file);
	return path_in(m, name);
}

static const char *
path_of_cell_file(const struct making *m)
{
	char name[LIMIT_CELL_NAME + 8];

	snprintf(name, sizeof name, "%s.conf", m->cell_file->name);
	return path_in(m, name);
}

static bool
is_free(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0 && errno == ENOENT)
		return true;
	return log_error("%s: exists already", path);
}

/* Checked before the first file is made, so that a refusal leaves everything as it was. */
static bool
all_free(const struct making *m)
{
	if (cell_file_is_standalone(m->cell_file))
		return is_free(path_in(m, "signing.key")) && is_free(path_in(m, "cell.conf")) &&
		       is_free(path_in(m, "log.db"));
	for (int i = 0; i < m->cell_file->replicas_n; i++)
		if (!is_free(path_of_replica(m, m->cell_file->replicas[i].id, "")))
			return false;
	return is_free(path_in(m, "admin.key")) && is_free(path_of_cell_file(m));
}

static bool
make_state(struct making *m, const struct cell_file_replica *r)
{
	const char *path = path_of_replica(m, r->id, "state.db");

	return m->state == NULL || record_made(m, path, m->state->place(m->state->user, path));
}

/* Makes a key file; puts the public half into `public`. `principal` NULL: a replica's. */
static bool
make_key(struct making *m, const char *path, const char *principal, uint8_t public[NOISE_KEY])
{
	struct noise_pair pair;
	const bool ok = record_made(m, path, key_file_create_channel(path, principal, &pair));

	memcpy(public, pair.public, NOISE_KEY);
	explicit_bzero(&pair, sizeof pair);
	return ok;
}

static bool
make_data_directory(struct making *m, struct cell_file_replica *r)
{
	const char *path = path_of_replica(m, r->id, "");

	return record_made(m, path, mkdir(path, 0700) < 0 ? -errno : 0) &&
	       make_key(m, path_of_replica(m, r->id, "replica.key"), NULL, r->public_key);
}

/* Makes the signing key in the first data directory, and copies of it in the others. */
static bool
make_signing(struct making *m, int i)
{
	const char *path = path_of_replica(m, m->cell_file->replicas[i].id, "signing.key");

	if (i > 0)
		return record_made(m, path, key_file_copy_signing(path, m->signing));
	return record_made(m, path,
	                   key_file_create_signing(path, m->signing, m->cell_file->signing_public));
}

/* The cell file is written last: only with it a directory is a data directory. */
static bool
make_standalone(struct making *m)
{
	const char *path;

	if (!make_signing(m, 0) || !make_state(m, &m->cell_file->replicas[0]))
		return false;
	path = path_in(m, "cell.conf");
	return record_made(m, path, cell_file_write(path, m->cell_file));
}

static bool
make_all(struct making *m)
{
	const char *path;

	for (int i = 0; i < m->cell_file->replicas_n; i++)
		if (!make_data_directory(m, &m->cell_file->replicas[i]) || !make_signing(m, i) ||
		    !make_state(m, &m->cell_file->replicas[i]))
			return false;
	m->cell_file->has_admin = true;
	if (!make_key(m, path_in(m, "admin.key"), "admin", m->cell_file->admin_public))
		return false;
	for (int i = 0; i < m->cell_file->replicas_n; i++) {
		path = path_of_replica(m, m->cell_file->replicas[i].id, "cell.conf");
		if (!record_made(m, path, cell_file_write(path, m->cell_file)))
			return false;
	}
	path = path_of_cell_file(m);
	/* This write also syncs the directory, and with it the entries made before. */
	return record_made(m, path, cell_file_write(path, m->cell_file));
}

static bool
make_in(struct making *m)
{
	const bool standalone = cell_file_is_standalone(m->cell_file);
	int rc = file_make_directory(m->directory, standalone ? 0700 : 0755);

	return (rc == -EEXIST || record_made(m, m->directory, rc)) && all_free(m) &&
	       (standalone ? make_standalone(m) : make_all(m));
}

bool
cell_make(const char *directory, struct cell_file *cell_file, const struct cell_state *state)
{
	struct making m = {.directory = directory, .cell_file = cell_file, .state = state};
	sigset_t all, before;
	bool ok;

	if (strlen(directory) + LIMIT_CELL_NAME + sizeof "/.conf" FILE_UNFINISHED > PATH_MAX)
		return log_error("%.64s...: %s", directory, strerror(ENAMETOOLONG));
	/* Signals are blocked meanwhile, so that Ctrl-C leaves all files or none, too. */
	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	random_fill(cell_file->id, sizeof cell_file->id);
	ok = make_in(&m);
	for (int i = m.made_n - 1; !ok && i >= 0; i--)
		if (remove(m.made[i]) < 0)
			log_warn("%s: cannot remove it again: %s", m.made[i], strerror(errno));
	sigprocmask(SIG_SETMASK, &before, NULL);
	for (int i = 0; i < m.made_n; i++)
		free(m.made[i]);
	explicit_bzero(&m, sizeof m);
	return ok;
}

void
cell_print_made(const char *directory, const struct cell_file *cell_file)
{
	char path[PATH_MAX];

	if (cell_file_is_standalone(cell_file)) {
		line_print("%-24s data directory of the cell: lsfs --standalone, or lsctl up --dir",
		           directory);
		return;
	}
	snprintf(path, sizeof path, "%s/%s.conf", directory, cell_file->name);
	line_print("%-24s the cell file: the same for every replica and client", path);
	for (int i = 0; i < cell_file->replicas_n; i++) {
		snprintf(path, sizeof path, "%s/%d", directory, cell_file->replicas[i].id);
		line_print("%-24s data directory of the replica at %s", path,
		           cell_file->replicas[i].address);
	}
	snprintf(path, sizeof path, "%s/admin.key", directory);
	line_print("%-24s the key of principal admin: keep it secret", path);
}

/* ---- addresses ---- */

bool
addresses_take(void *to, const char *text)
{
	struct addresses *a = to;
	const char *why = !cell_file_address_valid(text) ? "not HOST:PORT"
	                  : a->n == LIMIT_REPLICAS       ? "more than 7 replicas"
	                                                 : NULL;

	for (int i = 0; i < a->n; i++)
		if (strcmp(a->list[i], text) == 0)
			why = "given twice";
	if (why != NULL)
		ctl_usage(text, why);
	else
		a->list[a->n++] = text;
	return why == NULL;
}

void
addresses_to_cell_file(const struct addresses *a, struct cell_file *cell_file)
{
	cell_file->replicas_n = a->n > 0 ? a->n : 1;
	for (int i = 0; i < cell_file->replicas_n; i++) {
		struct cell_file_replica *r = &cell_file->replicas[i];

		r->id = (uint8_t)(i + 1);
		r->role = MEMBER_VOTER;
		snprintf(r->address, sizeof r->address, "%s", a->n > 0 ? a->list[i] : "");
	}
	if (a->n > 0 && a->n % 2 == 0)
		log_warn("%d replicas outlive no more failures than %d do", a->n, a->n - 1);
}
