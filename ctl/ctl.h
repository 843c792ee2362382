/* What the commands of lsctl share: global options, exit codes, the table of commands. */
#ifndef LSFS_CTL_CTL_H
#define LSFS_CTL_CTL_H

#include <getopt.h>
#include <limits.h>
#include <stdbool.h>
#include "cell/sys/run_dir.h"

enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2 };

struct ctl {
	const char
	    *cell; /* --cell, else $LSFS_CELL, else NULL: a cell file's path or a cell's name */
	const char *key;  /* --key, else $LSFS_KEY, else NULL */
	bool json;
	bool help; /* --help behind the command */
};

struct ctl_command {
	const char *name;
	const char *arguments; /* for the help */
	const char *does;      /* one line */
	int (*run)(struct ctl *ctl, int argc, char **argv); /* argv[0] is its name; an exit code */
};

extern const struct ctl_command up_command, down_command, status_command, cell_command,
    lock_command, verify_command, key_command, backup_command, restore_command,
    master_command, replica_command, session_command;

/* Global options stand before or after the command. A command's own table ends with them, and gives
 * every letter that it does not know to ctl_option: false is a usage error that was told. */
enum { CTL_OPT_CELL = 512, CTL_OPT_KEY, CTL_OPT_JSON };

#define CTL_LONG_OPTIONS                                                                 \
	{"cell", required_argument, NULL, CTL_OPT_CELL},                                 \
	    {"key", required_argument, NULL, CTL_OPT_KEY},                               \
	    {"json", no_argument, NULL, CTL_OPT_JSON}, {"help", no_argument, NULL, 'h'}, \
	{                                                                                \
		NULL, 0, NULL, 0                                                         \
	}

bool ctl_option(struct ctl *ctl, int letter);
/* All options of a command that has none of its own; false likewise. optind is behind them. */
bool ctl_scan(struct ctl *ctl, int argc, char **argv);
/* Tells what is wrong with the arguments of `command`; returns CTL_USAGE. */
int ctl_usage(const struct ctl_command *command, const char *what, const char *why);

/* ---- where cells run on this machine (places.c) ---- */

struct place {
	char directory[PATH_MAX];  /* canonical */
	char mountpoint[PATH_MAX]; /* canonical */
};

/* The default data directory and mount point of a cell; false after a line that says why not. */
bool place_default(const char *cell, struct place *place);
/* The record of the daemon that has (or had, if not *alive) this source mounted: a cell file, or
 * the data directory of a cell in one process. */
bool place_find_by_source(const char *source, struct run_record *record, bool *alive);
/* How many mounts there are of the cell of that name, dead ones, too; the record of one. */
int place_find_by_cell(const char *cell, struct run_record *record, bool *alive);
/* The record of the mount that `path` lies in, or of the cell's mount if `path` is NULL, or of the
 * only mount if both are NULL. False after a line that says why not. */
bool place_find_mount(const char *path, const char *cell, struct run_record *record);
/* How many cells are mounted, of that name or at all (0, 1, or more); the record of one mount. */
int place_mounted_cells(const char *cell, struct run_record *record);
/* One `up` or `down` at a time: waits for others. A descriptor that holds the directory until it is
 * closed, or -1 after a line. */
int place_lock(const char *directory);

#endif
