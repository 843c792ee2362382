#include "fs/source.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/host/server_process.h"
#include "cell/host/standalone.h"
#include "fs/mountpoint.h"

#define STANDALONE_PRINCIPAL "admin"
#define KEY_FILE CELL_FILE_DIRECTORY "/key"
#define OWN_KEY_FILE ".config/lsfs/key"

static bool
resolve(const char *path, char canonical[PATH_MAX])
{
	int rc = mountinfo_canonical(path, canonical);

	if (rc < 0)
		log_error("%s: %s", path, strerror(-rc));
	return rc == 0;
}

/* ---- in this process ---- */

static bool
check_key(const char *path)
{
	struct key_public key;
	char why[512];

	if (path == NULL || key_file_read_public(path, &key, why, sizeof why))
		return true;
	return log_error("%s", why);
}

static bool
open_standalone(struct source *s, const struct options *o, struct server_process_config *config)
{
	const char *cell = o->cell ? o->cell : "local";
	char why[512];

	config->directory = s->path;
	if (standalone_prepare(s->path, cell, &s->cell_file, why, sizeof why))
		s->process = server_process_open(config, why, sizeof why);
	if (!s->process)
		log_error("%s", why);
	else if (o->cell && strcmp(o->cell, s->cell_file.name) != 0)
		log_warn("%s holds cell %s, not %s", s->path, s->cell_file.name, o->cell);
	return s->process != NULL;
}

/* ---- over the network ---- */

/* The key is that of the given file, else the machine's, else the user's. */
static bool
open_cell(struct source *s, const struct options *o)
{
	const char *home = getenv("HOME");
	char key[PATH_MAX], name[LIMIT_PRINCIPAL + 1], why[512];

	if (!cell_file_read(s->path, &s->cell_file, why, sizeof why))
		return log_error("%s", why);
	if (cell_file_is_standalone(&s->cell_file))
		return log_error("%s: the cell runs in one process: mount its data directory with "
		                 "--standalone",
		                 s->path);
	cell_file_renew(s->path, &s->cell_file);
	if (s->cell_file.srv[0] != '\0' && !srv_lookup(s->cell_file.srv, &s->srv, why, sizeof why))
		return log_error("%s: %s", s->path, why);

	snprintf(key, sizeof key, "%s", o->key != NULL ? o->key : KEY_FILE);
	if (o->key == NULL && access(key, R_OK) < 0) {
		if (home != NULL)
			snprintf(key, sizeof key, "%s/" OWN_KEY_FILE, home);
		if (home == NULL || access(key, R_OK) < 0)
			return log_error(
			    "no key: give the option key=FILE, or put one into %s or ~/%s",
			    KEY_FILE, OWN_KEY_FILE);
	}
	if (!resolve(key, s->key_path))
		return false;
	if (key_file_read_principal(s->key_path, name, &s->key, why, sizeof why))
		return true;
	return log_error("%s", why);
}

/* ---- common to both ---- */

/* A directory is no cell file, nor is a file with other contents where there is a cell of its
 * name. */
static bool
is_no_cell_file(const char *path, const char *name)
{
	static struct cell_file cell_file;
	char configured[PATH_MAX], why[512];
	struct stat st;

	if (stat(path, &st) < 0)
		return false;
	if (S_ISDIR(st.st_mode))
		return true;
	return snprintf(configured, PATH_MAX, CELL_FILE_DIRECTORY "/%s.conf", name) < PATH_MAX &&
	       access(configured, F_OK) == 0 &&
	       !(S_ISREG(st.st_mode) && cell_file_read(path, &cell_file, why, sizeof why));
}

/* mount(8) turns a source into an absolute path when an entry of that name exists in the working
 * directory. If it is no cell file, the user meant the name of a cell. */
static const char *
name_meant(const struct options *o)
{
	const char *name = strrchr(o->source, '/');
	char here[PATH_MAX];

	if (!o->helper || !name || !getcwd(here, sizeof here) ||
	    !is_no_cell_file(o->source, name + 1) || strncmp(o->source, here, strlen(here)) != 0 ||
	    (size_t)(name - o->source) != strlen(here) - !strcmp(here, "/"))
		return o->source;
	return name + 1;
}

/* Refuses a data directory at or below the mount point: the replica's own file accesses would wait
 * for the mount that it serves. */
bool
source_find(struct source *s, const struct options *o, const char *mountpoint)
{
	const char *named = o->standalone ? o->source : name_meant(o);
	char file[PATH_MAX];
	const bool by_name = !o->standalone && cell_file_locate(named, file, sizeof file);

	if (!resolve(o->standalone ? named : file, s->path))
		return false;
	if (o->standalone && mountinfo_lies_in(s->path, mountpoint))
		return log_error("%s: the data directory lies below the mount point", s->path);
	snprintf(s->shown, sizeof s->shown, "%s", by_name ? named : s->path);
	return true;
}

bool
source_is_shown(const struct source *s, const char *shown)
{
	char file[PATH_MAX];

	cell_file_locate(shown, file, sizeof file);
	return !strcmp(shown, s->shown) || !strcmp(file, s->path);
}

bool
source_open(struct source *s, const struct options *o, void (*server_failed)(void *user),
            void *user)
{
	struct server_process_config config = {.failed = server_failed, .user = user};

	if (!o->standalone)
		return open_cell(s, o);
	return check_key(o->key) && open_standalone(s, o, &config);
}

struct link *
source_link(struct source *s, uv_loop_t *loop)
{
	struct link *link;
	char why[512];
	int rc = 0;

	if (s->process && !server_process_start(s->process, loop, why, sizeof why)) {
		log_error("%s", why);
		return NULL;
	}
	if (s->process)
		return link_to_server(loop, server_process_server(s->process),
		                      STANDALONE_PRINCIPAL);
	link = link_to_cell(loop, &s->cell_file, &s->srv, &s->key, &rc);
	explicit_bzero(&s->key, sizeof s->key);
	if (!link)
		log_error("%s: %s", s->path, strerror(-rc));
	return link;
}
