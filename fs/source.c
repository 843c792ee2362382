#include "fs/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/io/keyfile.h"
#include "cell/io/log.h"
#include "cell/io/mountinfo.h"
#include "cell/io/standalone.h"
#include "fs/mountpoint.h"

#define STANDALONE_PRINCIPAL "admin"
#define KEY_FILE CONF_DIRECTORY "/key"
#define OWN_KEY_FILE ".config/lsfs/key"

static bool
resolve(const char *path, char canonical[PATH_MAX])
{
	int rc = path_canonical(path, canonical);

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

	if (path == NULL || keyfile_read_public(path, &key, why, sizeof why))
		return true;
	log_error("%s", why);
	return false;
}

static bool
open_standalone(struct source *s, const struct options *o, struct host_config *config)
{
	const char *cell = o->cell ? o->cell : "local";
	char why[512];

	config->directory = s->path;
	if (standalone_prepare(s->path, cell, &s->conf, why, sizeof why))
		s->host = host_open(config, why, sizeof why);
	if (!s->host)
		log_error("%s", why);
	else if (o->cell && strcmp(o->cell, s->conf.name))
		log_warn("%s holds cell %s, not %s", s->path, s->conf.name, o->cell);
	return s->host != NULL;
}

/* ---- over the network ---- */

/* The one that is given, else the machine's, else the user's. */
static bool
find_key(const char *given, char path[PATH_MAX])
{
	const char *home = getenv("HOME");

	snprintf(path, PATH_MAX, "%s", given ? given : KEY_FILE);
	if (given || access(path, R_OK) == 0)
		return true;
	if (home) {
		snprintf(path, PATH_MAX, "%s/" OWN_KEY_FILE, home);
		if (access(path, R_OK) == 0)
			return true;
	}
	log_error("no key: give the option key=FILE, or put one into %s or ~/%s", KEY_FILE,
	          OWN_KEY_FILE);
	return false;
}

static bool
open_cell(struct source *s, const struct options *o)
{
	char key[PATH_MAX], name[LIMIT_PRINCIPAL + 1], why[512];

	if (!conf_read(s->path, &s->conf, why, sizeof why)) {
		log_error("%s", why);
		return false;
	}
	if (conf_is_standalone(&s->conf)) {
		log_error("%s: the cell runs in one process: mount its data directory with "
		          "--standalone", s->path);
		return false;
	}
	if (!find_key(o->key, key))
		return false;
	if (keyfile_read_principal(key, name, &s->key, why, sizeof why))
		return true;
	log_error("%s", why);
	return false;
}

/* ---- both ---- */

/* A mount over its own data directory would wait for itself. */
bool
source_open(struct source *s, const struct options *o, const char *mountpoint,
            void (*host_failed)(void *user), void *user)
{
	struct host_config config = {.failed = host_failed, .user = user};
	char file[PATH_MAX];

	if (!o->standalone) {
		conf_locate(o->source, file, sizeof file);
		return resolve(file, s->path) && open_cell(s, o);
	}
	if (!resolve(o->source, s->path))
		return false;
	if (path_lies_in(s->path, mountpoint)) {
		log_error("%s: the data directory lies below the mount point", s->path);
		return false;
	}
	return check_key(o->key) && open_standalone(s, o, &config);
}

struct link *
source_link(struct source *s, uv_loop_t *loop)
{
	struct link *link;
	char why[512];
	int rc = 0;

	if (s->host && !host_start(s->host, loop, why, sizeof why)) {
		log_error("%s", why);
		return NULL;
	}
	if (s->host)
		return link_to_host(loop, s->host, STANDALONE_PRINCIPAL);
	link = link_to_cell(loop, &s->conf, &s->key, &rc);
	explicit_bzero(&s->key, sizeof s->key);
	if (!link)
		log_error("%s: %s", s->path, strerror(-rc));
	return link;
}
