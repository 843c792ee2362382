/* Shared by all commands of lsctl: global options, exit codes, the table of commands. An error
 * message is one line on stderr; a function that fails "after an error message" has printed it. */
#ifndef LSFS_CTL_CTL_H
#define LSFS_CTL_CTL_H

#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include "cell/sys/run_dir.h"

enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2 };

struct ctl {
	const char *cell; /* --cell, else $LSFS_CELL, else NULL: path of a cell file, or a name */
	const char *key;  /* --key, else $LSFS_KEY, else NULL */
	bool json;
	bool help; /* --help after the command */
};

/* Its function returns an exit code. One without options of its own has `run_plain`, which gets its
 * arguments alone; any other has `run`, whose argv[0] is a name, and which scans its options. */
struct ctl_command {
	const char *name;
	const char *arguments; /* for the help */
	const char *does;      /* one line */
	int (*run_plain)(struct ctl *ctl, int argc, char **argv);
	int (*run)(struct ctl *ctl, int argc, char **argv);
};

extern const struct ctl_command up_command, down_command, status_command, cell_command,
    lock_command, elect_command, watch_command, check_command, fence_command, verify_command,
    key_command, backup_command, restore_command, master_command, replica_command, session_command,
    principal_command, locks_command, top_command, doctor_command, acl_command;

/* Global options may come before or after the command. A command's own option table ends with them,
 * and the command passes every letter that it does not know to ctl_option: false is a usage error,
 * after an error message. */
enum { CTL_OPT_CELL = 512, CTL_OPT_KEY, CTL_OPT_JSON };

#define CTL_LONG_OPTIONS                                                                 \
	{"cell", required_argument, NULL, CTL_OPT_CELL},                                 \
	    {"key", required_argument, NULL, CTL_OPT_KEY},                               \
	    {"json", no_argument, NULL, CTL_OPT_JSON}, {"help", no_argument, NULL, 'h'}, \
	{                                                                                \
		NULL, 0, NULL, 0                                                         \
	}

/* Handles a global option that getopt_long returned; false, after an error message, for another. */
bool ctl_option(struct ctl *ctl, int letter);
/* Prints that the argument `what` of `command` is wrong and `why`; returns CTL_USAGE. */
int ctl_usage(const struct ctl_command *command, const char *what, const char *why);

/* ---- places.c: the cells of this machine, and where they are mounted ---- */

struct place {
	char directory[PATH_MAX];  /* canonical */
	char mountpoint[PATH_MAX]; /* canonical */
};

/* The default data directory and mount point of a cell. False after an error message. */
bool place_default(const char *cell, struct place *place);
/* The record of the daemon that has (or had, if not *alive) this source mounted: a cell file, or
 * the data directory of a cell in one process. False when there is none. */
bool place_find_by_source(const char *source, struct run_record *record, bool *alive);
/* The number of mounts of the cell of that name, including dead ones; the record of one of them. */
int place_find_by_cell(const char *cell, struct run_record *record, bool *alive);
/* The record of the mount that contains `path`, or of the cell's mount if `path` is NULL, or of the
 * only mount if both are NULL. False after an error message. */
bool place_find_mount(const char *path, const char *cell, struct run_record *record);
/* The number of mounted cells of that name or, when it is NULL, of any (0, 1, or more); the record
 * of one mount. */
int place_mounted_cells(const char *cell, struct run_record *record);
/* Serializes `up` and `down` on a directory: waits for others. A descriptor that holds the lock
 * until it is closed, or -1 after an error message. */
int place_lock(const char *directory);

#endif
