/* lsfs: mounts a cell as a filesystem. */
#include <signal.h>
#include <stdio.h>
#include "cell/sys/log.h"
#include "cell/sys/process.h"
#include "config.h"
#include "fs/lsfs.h"

enum { EXIT_USAGE = 2 };

static int
run(struct options *o)
{
	struct daemon daemon = {.ready = -1, .debug = o->debug};
	int status;

	if (o->help) {
		options_help();
		return 0;
	}
	if (o->version) {
		puts("lsfs " PACKAGE_VERSION);
		return 0;
	}
	if (o->fake)
		return 0;
	if (o->foreground)
		log_start("lsfs", o->debug ? LEVEL_DEBUG : LEVEL_INFO);
	else if (!daemon_fork(&daemon, o->mountpoint, &status))
		return status;
	log_never_block();
	return lsfs_run(o, &daemon);
}

int
main(int argc, char **argv)
{
	struct options options;
	int status = EXIT_USAGE;

	process_open_standard();
	signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how children end */
	process_close_inherited();
	log_start("lsfs", LEVEL_WARN);
	if (options_parse(&options, argc, argv))
		status = run(&options);
	options_free(&options);
	return process_end_output(status);
}
