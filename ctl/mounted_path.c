#include "ctl/mounted_path.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <stdlib.h>
#include <unistd.h>
#include "cell/sys/log.h"

int
mounted_path_open(const char *path, char canonical[PATH_MAX], bool *there)
{
	char at[PATH_MAX], *slash;
	int fd, error;

	*there = true;
	snprintf(at, sizeof at, "%s", path);
	for (;;) {
		fd = open(at, O_RDONLY | O_CLOEXEC);
		if (fd >= 0 && realpath(at, canonical) != NULL)
			return fd;
		error = errno;
		if (fd >= 0)
			close(fd);
		errno = error;
		if (error != ENOENT || strcmp(at, ".") == 0 || strcmp(at, "/") == 0)
			return -1;
		*there = false;
		slash = strrchr(at, '/');
		if (slash == NULL)
			strcpy(at, ".");
		else
			slash[slash == at] = '\0';
	}
}

bool
mounted_path_mount(const char *path, const char *canonical, struct mountinfo *info)
{
	if (mountinfo_above(canonical, info) && strcmp(info->type, MOUNTINFO_TYPE) == 0)
		return true;
	log_error("%s: not in a mounted cell", path);
	return false;
}

int
mounted_path_events(const struct mountinfo *info)
{
	char events[PATH_MAX + 16];
	int fd;

	snprintf(events, sizeof events, "%s/.cell:events", info->path);
	fd = open(events, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		log_error("%s: %s", events, strerror(errno));
	return fd;
}
