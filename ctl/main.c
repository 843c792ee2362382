/* lsctl: the control tool. Each command has a file of its own. */
#include "ctl/ctl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/sys/log.h"
#include "cell/sys/process.h"
#include "config.h"

static const struct ctl_command *const commands[] = {
    &up_command,      &down_command,   &status_command,  &cell_command,      &lock_command,
    &elect_command,   &watch_command,  &check_command,   &verify_command,    &fence_command,
    &key_command,     &backup_command, &restore_command, &replica_command,   &master_command,
    &session_command, &locks_command,  &top_command,     &principal_command, &doctor_command,
    &acl_command,
};

enum { COMMANDS = sizeof commands / sizeof commands[0] };

static const struct ctl_command *
find_command(const char *name)
{
	for (size_t i = 0; i < COMMANDS; i++)
		if (!strcmp(commands[i]->name, name))
			return commands[i];
	return NULL;
}

static void
print_help(void)
{
	puts("usage: lsctl [OPTIONS] COMMAND ...\n"
	     "\n"
	     "Commands:");
	for (size_t i = 0; i < COMMANDS; i++)
		printf("  %-7s %s\n          %s\n", commands[i]->name, commands[i]->arguments,
		       commands[i]->does);
	puts("  help    [COMMAND]\n"
	     "          shows this, or a command's arguments\n"
	     "\n"
	     "Options, before or after the command:\n"
	     "  --cell FILE|NAME  the cell, by its cell file or name (or $LSFS_CELL)\n"
	     "  --key FILE        the key of the principal to act as (or $LSFS_KEY)\n"
	     "  --json            print JSON\n"
	     "  --help, --version");
}

static void
print_command_help(const struct ctl_command *c)
{
	printf("usage: lsctl %s %s\n\n%s\n", c->name, c->arguments, c->does);
}

bool
ctl_option(struct ctl *ctl, int letter)
{
	switch (letter) {
	case CTL_OPT_CELL:
		ctl->cell = optarg;
		return true;
	case CTL_OPT_KEY:
		ctl->key = optarg;
		return true;
	case CTL_OPT_JSON:
		ctl->json = true;
		return true;
	case 'h':
		ctl->help = true;
		return true;
	default: /* getopt has printed the error */
		return false;
	}
}

int
ctl_usage(const struct ctl_command *command, const char *what, const char *why)
{
	log_error("%s: %s (usage: lsctl %s %s)", what, why, command->name, command->arguments);
	return CTL_USAGE;
}

static int
help_command(int argc, char **argv)
{
	const struct ctl_command *c = argc > 1 ? find_command(argv[1]) : NULL;

	if (argc > 1 && !c) {
		log_error("%s: no such command (see lsctl --help)", argv[1]);
		return CTL_USAGE;
	}
	if (c)
		print_command_help(c);
	else
		print_help();
	return CTL_OK;
}

/* Parses the options of a command that has none of its own. */
static int
run_plain(const struct ctl_command *c, struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {CTL_LONG_OPTIONS};
	int letter;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1)
		if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	return ctl->help ? CTL_OK : c->run_plain(ctl, argc - optind, argv + optind);
}

static int
run_command(struct ctl *ctl, int argc, char **argv)
{
	const struct ctl_command *c = find_command(argv[0]);
	static char program[] = "lsctl";
	int rc;

	if (!c) {
		log_error("%s: no such command (see lsctl --help)", argv[0]);
		return CTL_USAGE;
	}
	argv[0] = program; /* the prefix of getopt's messages */
	optind = 0;        /* a new scan */
	rc = c->run ? c->run(ctl, argc, argv) : run_plain(c, ctl, argc, argv);
	if (!ctl->help)
		return rc;
	print_command_help(c);
	return CTL_OK;
}

enum { OPT_VERSION = 256 };

static int
run(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"version", no_argument, NULL, OPT_VERSION},
	    CTL_LONG_OPTIONS,
	};
	struct ctl ctl = {.cell = getenv("LSFS_CELL"), .key = getenv("LSFS_KEY")};
	static char name[] = "lsctl";
	int letter;

	if (argc > 0)
		argv[0] = name;
	while ((letter = getopt_long(argc, argv, "+hV", longs, NULL)) != -1) {
		if (letter == OPT_VERSION || letter == 'V') {
			puts("lsctl " PACKAGE_VERSION);
			return CTL_OK;
		}
		if (!ctl_option(&ctl, letter))
			return CTL_USAGE;
	}
	argc -= optind;
	argv += optind;
	if (ctl.help) {
		print_help();
		return CTL_OK;
	}
	if (argc == 0) {
		log_error("no command given (see lsctl --help)");
		return CTL_USAGE;
	}
	return strcmp(argv[0], "help") ? run_command(&ctl, argc, argv) : help_command(argc, argv);
}

int
main(int argc, char **argv)
{
	process_open_standard();
	log_start("lsctl", LEVEL_INFO);
	return process_end_output(run(argc, argv));
}
