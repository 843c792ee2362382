#include "fs/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/limit.h"
#include "cell/base/bytes.h"
#include "cell/base/memory.h"
#include "cell/config/cell_file.h"
#include "cell/sys/log.h"

/* Options that are passed to the kernel's mount. */
static const char *const kernel_options[] = {
    "ro",    "rw",      "dev",  "nodev", "suid",    "nosuid",     "exec", "noexec",
    "atime", "noatime", "sync", "async", "dirsync", "nodiratime", NULL,
};

/* Options for mount(8), systemd and similar programs, or without an effect here. */
static const char *const ignored_options[] = {
    "defaults",   "auto",     "noauto", "nofail",   "_netdev",    "user",        "nouser",
    "users",      "group",    "owner",  "relatime", "norelatime", "strictatime", "lazytime",
    "nolazytime", "diratime", "silent", "loud",     NULL,
};

static bool
listed(const char *const *list, const char *word)
{
	for (; *list; list++)
		if (!strcmp(*list, word))
			return true;
	return false;
}

static bool
number(const char *name, const char *text, int min, int max, int *to)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (errno || end == text || *end || v < min || v > max)
		return log_error("option %s: '%s' is not a number from %d to %d", name, text, min,
		                 max);
	*to = (int)v;
	return true;
}

static void
add_kernel_option(struct options *o, const char *word)
{
	size_t old = o->kernel ? strlen(o->kernel) : 0;

	o->kernel = memory_grow(o->kernel, old + strlen(word) + 2, 1);
	sprintf(o->kernel + old, "%s%s", old ? "," : "", word);
}

/* Octal, as everywhere. */
static bool
umask_option(struct options *o, const char *value)
{
	char *end;
	unsigned long v = strtoul(value, &end, 8);

	o->umask = (mode_t)v;
	if (*value >= '0' && *value <= '7' && *end == '\0' && v <= 0777)
		return true;
	return log_error("option umask: '%s' is not an octal number from 0 to 777", value);
}

static bool
commit_option(struct options *o, const char *value)
{
	o->commit_at_write = !strcmp(value, "write");
	if (o->commit_at_write || !strcmp(value, "close"))
		return true;
	return log_error("option commit: '%s' is neither close nor write", value);
}

static bool
valued_option(struct options *o, const char *name, const char *value)
{
	if (!strcmp(name, "key") && *value) {
		free(o->key);
		o->key = bytes_to_text(bytes_of(value));
		return true;
	}
	if (!strcmp(name, "lock_delay"))
		return number(name, value, 0, LIMIT_LOCK_DELAY_S, &o->lock_delay_s);
	if (!strcmp(name, "grace"))
		return number(name, value, 1, 24 * 3600, &o->grace_s);
	if (!strcmp(name, "commit"))
		return commit_option(o, value);
	if (!strcmp(name, "umask"))
		return umask_option(o, value);
	if (!strcmp(name, "user") || !strcmp(name, "comment")) /* left by mount(8) */
		return true;
	return log_error("unknown option: %s=%s", name, value);
}

/* mount(8) passes the options of the mount along, which would be refused first. */
static bool
changes_a_mount(const char *list)
{
	const char *at = strstr(list, "remount");

	if (at == NULL || (at > list && at[-1] != ',') || (at[7] != ',' && at[7] != '\0'))
		return false;
	log_error("option remount: a mount of lsfs keeps its options: unmount it and mount it "
	          "again (or give a read-only view: mount --bind -o ro)");
	return true;
}

static bool
plain_option(struct options *o, const char *word)
{
	if (!strcmp(word, "quiet"))
		o->quiet = true;
	else if (!strcmp(word, "lasting"))
		o->lasting = true;
	else if (!strcmp(word, "bg"))
		o->background = true;
	else if (!strcmp(word, "debug"))
		o->debug = true;
	else if (!strcmp(word, "allow_other"))
		o->allow_other = true;
	else if (!strcmp(word, "standalone"))
		o->standalone = true;
	else if (listed(kernel_options, word))
		add_kernel_option(o, word);
	else if (!listed(ignored_options, word))
		return log_error("unknown option: %s", word);
	return true;
}

static bool
mount_words(struct options *o, char *list)
{
	for (char *word; (word = strsep(&list, ","));) {
		char *value = strchr(word, '=');

		if (!*word || !strncmp(word, "x-", 2) || !strncmp(word, "X-", 2))
			continue;
		if (value) {
			*value++ = '\0';
			if (!valued_option(o, word, value))
				return false;
		} else if (!plain_option(o, word)) {
			return false;
		}
	}
	return true;
}

static bool
mount_options(struct options *o, const char *list)
{
	char *copy = bytes_to_text(bytes_of(list));
	bool good = !changes_a_mount(list) && mount_words(o, copy);

	free(copy);
	return good;
}

static bool
cell_option(struct options *o, const char *name)
{
	if (!cell_file_cell_name_valid(name))
		return log_error(
		    "--cell: '%s' is not a cell's name: letters, digits, '.', '_', '-'", name);
	o->cell = name;
	return true;
}

/* mount(8) calls us as `mount.TYPE SOURCE MOUNTPOINT [-sfnv] [-N namespace] [-o options] [-t
 * type]`, where some letters have other meanings than on our own command line. */
static bool
helper_option(struct options *o, int letter)
{
	switch (letter) {
	case 'f':
		o->fake = true;
		return true;
	case 's':
	case 'n':
	case 'v':
	case 't':
	case 'N':
		return true;
	case 'r':
		add_kernel_option(o, "ro");
		return true;
	case 'w':
		add_kernel_option(o, "rw");
		return true;
	default:
		return false;
	}
}

enum { OPT_STANDALONE = 256, OPT_CELL, OPT_LOG, OPT_REPLACE };

static bool
one_option(struct options *o, int letter)
{
	if (o->helper && helper_option(o, letter))
		return true;
	switch (letter) {
	case 'f':
		o->foreground = true;
		return true;
	case 'd':
		o->debug = true;
		return true;
	case 'o':
		o->configured = true;
		return mount_options(o, optarg);
	case 'h':
		o->help = true;
		return true;
	case 'V':
		o->version = true;
		return true;
	case OPT_STANDALONE:
		o->standalone = true;
		return true;
	case OPT_CELL:
		return cell_option(o, optarg);
	case OPT_LOG:
		if (strcmp(optarg, "json") == 0)
			log_as(LOG_JSON);
		else
			log_error("--log: '%s' is not json", optarg);
		return strcmp(optarg, "json") == 0;
	case OPT_REPLACE:
		o->replace = true;
		return true;
	default: /* getopt has printed the error */
		return false;
	}
}

static bool
fit_together(const struct options *o)
{
	if (o->replace && (o->configured || o->standalone || o->cell != NULL))
		log_error("--replace: the mount keeps its options: give none");
	else if (o->cell != NULL && !o->standalone)
		log_error("--cell: only with --standalone: SOURCE names the cell (see --help)");
	else if (o->lasting && o->grace_s > 0)
		log_error("options lasting and grace: a lasting session has no grace limit");
	else
		return true;
	return false;
}

static bool
called_as_helper(const char *argv0)
{
	const char *name = strrchr(argv0, '/');

	return !strncmp(name ? name + 1 : argv0, "mount.", 6);
}

bool
options_parse(struct options *o, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"foreground", no_argument, NULL, 'f'},
	    {"debug", no_argument, NULL, 'd'},
	    {"options", required_argument, NULL, 'o'},
	    {"standalone", no_argument, NULL, OPT_STANDALONE},
	    {"cell", required_argument, NULL, OPT_CELL},
	    {"log", required_argument, NULL, OPT_LOG},
	    {"replace", no_argument, NULL, OPT_REPLACE},
	    {"help", no_argument, NULL, 'h'},
	    {"version", no_argument, NULL, 'V'},
	    {NULL, 0, NULL, 0},
	};
	static char name[] = "lsfs";
	const char *letters;
	int letter, needed;

	*o = (struct options){
	    .helper = argc > 0 && called_as_helper(argv[0]),
	    .lock_delay_s = DEFAULT_LOCK_DELAY_S,
	};
	letters = o->helper ? "fo:hVsnvrwN:t:" : "dfo:hV";
	if (argc > 0)
		argv[0] = name; /* the prefix of getopt's messages */
	while ((letter = getopt_long(argc, argv, letters, longs, NULL)) != -1)
		if (!one_option(o, letter))
			return false;
	if (!fit_together(o))
		return false;
	if (o->help || o->version)
		return true;
	needed = o->replace ? 1 : 2;
	argc -= optind;
	argv += optind;
	if (argc != needed)
		return log_error("%s: %s", argc < needed ? "missing argument" : argv[needed],
		                 argc > needed ? "unexpected argument (see --help)"
		                 : o->replace  ? "MOUNTPOINT is needed (see --help)"
		                               : "SOURCE and MOUNTPOINT are needed (see --help)");
	o->source = argv[0];
	o->mountpoint = argv[needed - 1];
	return true;
}

void
options_free(struct options *o)
{
	free(o->kernel);
	free(o->key);
	o->kernel = o->key = NULL;
}

void
options_help(void)
{
	puts("usage: lsfs --standalone [-df] [--cell NAME] [-o OPTIONS] DATADIR MOUNTPOINT\n"
	     "       lsfs [-df] [-o OPTIONS] SOURCE MOUNTPOINT\n"
	     "       lsfs [-df] --replace MOUNTPOINT\n"
	     "\n"
	     "Mounts a cell: its files can be read, written and locked by all who mount it.\n"
	     "\n"
	     "  --standalone      run a cell of one replica in this process, data in DATADIR\n"
	     "  --cell NAME       the standalone cell's name at its first start (default: local)\n"
	     "  --replace         take over the mount of a running lsfs, with its options, "
	     "session,\n"
	     "                    open files and locks: for an upgrade\n"
	     "  -f, --foreground  stay in the foreground and log to stderr\n"
	     "  -d, --debug       log every call and every decision about it\n"
	     "      --log=json    log JSON objects, one a line\n"
	     "  -o, --options OPTIONS\n"
	     "                    comma separated:\n"
	     "      key=FILE            the key of the principal to act as\n"
	     "      lock_delay=SECONDS  how long nobody gets a lock after the session of its\n"
	     "                          holder has expired, 0 to 60 (default: 15)\n"
	     "      grace=SECONDS       how long calls wait for an unreachable cell (default: as\n"
	     "                          the cell's setting says: 45)\n"
	     "      lasting             the session never expires: its locks are held until it is\n"
	     "                          unmounted or an operator ends the session\n"
	     "      bg                  where no replica answers, go on trying in the background\n"
	     "      commit=close|write  when written data is committed (default: close)\n"
	     "      debug               as --debug, for /etc/fstab\n"
	     "      quiet               ignore chmod and chown instead of refusing them\n"
	     "      umask=OCTAL         the permission bits that are not shown (default: 0)\n"
	     "      allow_other         let other local users in, each as PRINCIPAL/USER\n"
	     "      standalone          as --standalone, for /etc/fstab\n"
	     "                    and the usual ones: ro, nodev, nosuid, noexec, nofail, ...\n"
	     "  -h, --help        show this\n"
	     "  -V, --version     show the version");
}
