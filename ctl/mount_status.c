#include "ctl/mount_status.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/sys/clock.h"
#include "cell/sys/mountinfo.h"

int
mount_status_open(dev_t device)
{
	static struct mountinfo info;
	char path[PATH_MAX + 16];
	struct stat st;
	int fd, error;

	if (!mountinfo_of_device(device, &info))
		return -ENOENT;
	snprintf(path, sizeof path, "%s/.cell/status", info.path);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) == 0 && st.st_dev == device)
		return fd;
	error = errno ? errno : ENOENT; /* another mount covers it */
	close(fd);
	return -error;
}

static void
status_line(struct mount_status *s, const char *line)
{
	unsigned long long seconds;
	unsigned ms;

	if (sscanf(line, "session: %" SCNu64, &s->session) == 1)
		return;
	if (!strcmp(line, "lasting: yes"))
		s->lasting = true;
	else if (!strcmp(line, "state: expired") || !strcmp(line, "state: closed"))
		s->over = true;
	else if (sscanf(line, "lease_left: %llu.%3u", &seconds, &ms) == 2)
		s->lease_end = mono_add(s->asked, span_ms((int64_t)seconds * 1000 + (int64_t)ms));
}

int
mount_status_read(int fd, struct mount_status *s)
{
	char text[4096];
	ssize_t n;

	*s = (struct mount_status){.asked = clock_now()};
	s->lease_end = s->asked;
	n = pread(fd, text, sizeof text - 1, 0);
	if (n < 0)
		return -errno;
	text[n] = '\0';
	for (char *line, *rest = text; (line = strsep(&rest, "\n"));)
		status_line(s, line);
	s->leased = mono_before(s->asked, s->lease_end);
	return 0;
}
