/* Shared by all commands of lsctl: how a command is written, exit codes, and the cells of this
 * machine. An error message is one line on stderr; a function that fails "after an error message"
 * has printed it. */
#ifndef LSFS_CTL_CTL_H
#define LSFS_CTL_CTL_H

#include <limits.h>
#include <stdbool.h>
#include "cell/sys/log.h"
#include "cell/sys/run_dir.h"

enum { CTL_OK = 0, CTL_FAILED = 1, CTL_USAGE = 2, CTL_UNKNOWN = 3 };
enum { CTL_NOTHING_LOOKED_AT = 2 }; /* of `doctor` */
/* Prints an error message; the exit code after it. */
#define CTL_FAIL(...) (log_error(__VA_ARGS__), CTL_FAILED)
/* Of a command that could not be run: as a shell has them. */
enum { CTL_NOT_RUN = 126, CTL_NOT_FOUND = 127, CTL_BY_SIGNAL = 128 };

/* ---- command.c: what the user has given, by tables ---- */

/* The options that every command has. */
struct ctl {
	const char *cell; /* --cell, else $LSFS_CELL, else NULL: path of a cell file, or a name */
	bool cell_chosen; /* by --cell: another one is not meant */
	const char *key;  /* --key, else $LSFS_KEY, else NULL */
	bool json;
	char **command; /* the program to run and its arguments, of a form that has them */
};

/* An option of a command. */
struct ctl_option {
	const char *name;
	char letter;       /* its short form; 0: none */
	const char *value; /* the word for the text that follows it; NULL: it is a flag */
	/* Where it is put: a bool, the text as a const char *, with `most` the number as a double,
	 * or what `take` makes of the text (false: it is `wrong`, or after an error message). */
	void *to;
	bool (*take)(void *to, const char *text);
	double least, most;
	bool whole; /* a number without a fraction */
	const char *wrong;
	const char *only; /* the one form of the command that has it; NULL: all */
	bool needed;      /* by that form, or by all */
};

enum { CTL_WORDS = 3, CTL_FORMS = 6 };

/* A form of a command: the words that follow its name. */
struct ctl_form {
	const char *name;             /* the first word; NULL: none */
	const char *words[CTL_WORDS]; /* the others; in brackets where they may be missing */
	bool many;                    /* the last word may be repeated */
	bool runs;                    /* then a program, and its arguments, follow, */
	const bool *alone;            /* unless this flag is given; NULL: always */
	/* Returns an exit code. argv, the words, ends with NULL. */
	int (*run)(const struct ctl *ctl, char **argv);
	int unsaid; /* the exit code when the output can't be written, where 1 is an answer */
};

struct ctl_command {
	const char *name;
	const char *does; /* for the help: one line */
	struct ctl_form forms[CTL_FORMS];
	const struct ctl_option *options; /* the last one has no name; NULL: none */
};

extern const struct ctl_command up_command, down_command, status_command, cell_command,
    lock_command, elect_command, once_command, watch_command, mirror_command, check_command,
    fence_command, verify_command, key_command, backup_command, restore_command, master_command,
    replica_command, session_command, principal_command, locks_command, top_command, doctor_command,
    acl_command, get_command, put_command, wait_command, txn_command, export_command,
    import_command, new_command, unlock_command;

/* Does as the arguments of the program say, by one of the commands (the last one is NULL); returns
 * its exit code. */
int ctl_run(const struct ctl_command *const *all, int argc, char **argv);
/* The exit code of the command when all went well but its output can't be written. */
int ctl_unsaid(void);
/* Prints that `what` is a wrong use of the command, and `why`. Returns the exit code of that. */
int ctl_usage(const char *what, const char *why);
/* True for digits alone: no sign, no blank, no fraction. */
bool ctl_is_whole(const char *text);
/* Takes a whole number from 1 on, as an option's uint64_t. */
bool ctl_take_count(void *to, const char *text);
/* Takes a span of time, as 2, 2s or 1d, as an option's double of seconds. */
bool ctl_take_span(void *to, const char *text);

/* ---- program.c ---- */

/* Goes on as this command. If that can't be run, returns its exit code, after an error message. */
int program_become(char *const command[]);
/* Does with a signal that is blocked as if it were not: ends the process, unless that is not what
 * it is for. For the first process of a container the kernel knows no default action that does. */
void program_take_signal(int number);

/* ---- commands/acl_command.c ---- */

/* True if the ACL file of that name has a line `*`, or one of its groups has. `root`: of a mount.
 */
bool acl_names_everybody(const char *root, const char *name);

/* ---- completion.c ---- */

/* Prints the words that may stand in the place of argv[argc - 1], for a shell, when the others are
 * given before it. Returns an exit code. */
int completion_print(const struct ctl_command *const *commands, const struct ctl_option *global,
                     const struct ctl *ctl, int argc, char **argv);

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
/* The record of the mount that contains `path`, or of the cell's mount if `path` is NULL, or of the
 * only mount if both are NULL. False after an error message. */
bool place_find_mount(const char *path, const char *cell, struct run_record *record);
/* The number of mounted cells of that name or, when it is NULL, of any (0, 1, or more); the record
 * of one mount. */
int place_mounted_cells(const char *cell, struct run_record *record);
/* Where `up` has mounted the cell of several replicas that lies in this directory, until `down`: it
 * may be mounted at other places, too. False: it is not known. */
bool place_recall_mountpoint(const char *directory, char mountpoint[PATH_MAX]);
/* Notes it. */
void place_note_mountpoint(const char *directory, const char *mountpoint);
/* Forgets it. */
void place_forget_mountpoint(const char *directory);
/* Serializes `up` and `down` on a directory: waits for others. A descriptor that holds the lock
 * until it is closed, or -1 after an error message. */
int place_lock(const char *directory);

#endif
