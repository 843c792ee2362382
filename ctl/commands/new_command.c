/* new: makes a file with the next number of its directory in its name. An ephemeral one is there as
 * long as the command that has inherited its descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/sys/log.h"
#include "cell/sys/lsfs_ioctl.h"
#include "ctl/ctl.h"

static bool ephemeral;
static const bool alone = true; /* a command is needed only where it is to keep the file */

static const struct ctl_option options[] = {{"ephemeral", .to = &ephemeral}, {0}};

/* Makes the file, whose path becomes that of `prefix` with the number; -1 with errno. Returns a
 * descriptor of an ephemeral one, which the command inherits. */
static int
make(char path[PATH_MAX], const char *prefix)
{
	const char *slash = strrchr(prefix, '/'), *name = slash == NULL ? prefix : slash + 1;
	struct lsfs_number number = {.ephemeral = ephemeral};
	const size_t directory_len = (size_t)(name - prefix);
	int directory, fd = 0;

	if (directory_len + sizeof number.name > PATH_MAX || strlen(name) >= sizeof number.name) {
		errno = ENAMETOOLONG;
		return -1;
	}
	snprintf(path, PATH_MAX, "%.*s", (int)directory_len, prefix);
	strcpy(number.name, name);
	directory = open(slash == NULL ? "." : path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (directory < 0)
		return -1;
	if (lsfs_number(directory, &number) < 0)
		fd = -1;
	strcpy(path + directory_len, number.name);
	if (fd == 0 && ephemeral)
		fd = open(path, O_RDONLY);
	close(directory);
	return fd;
}

static int
run(const struct ctl *ctl, char **argv)
{
	char path[PATH_MAX];

	if (ephemeral != (ctl->command[0] != NULL))
		return ephemeral ? ctl_usage("COMMAND", "needed")
		                 : ctl_usage("COMMAND", "only with --ephemeral");
	if (make(path, argv[0]) < 0)
		return CTL_FAIL("%s: %s", argv[0],
		                errno == ENOTTY ? "not in a directory of a mounted cell"
		                                : strerror(errno));
	puts(path);
	if (!ephemeral)
		return CTL_OK;
	fflush(stdout);
	setenv("LS_NEW", path, 1);
	return program_become(ctl->command);
}

const struct ctl_command new_command = {
    "new",
    "makes a file whose name is PREFIX and the next number of the directory, and prints its path;"
    " with --ephemeral the file is there while COMMAND runs",
    {{.words = {"DIRECTORY/PREFIX"}, .runs = true, .alone = &alone, .run = run}},
    options,
};
