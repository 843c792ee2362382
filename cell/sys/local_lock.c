#include "cell/sys/local_lock.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/sys/process.h"

enum { DESCRIPTORS_MAX = 64 }; /* descriptors searched for the name of a directory */

/* "1: FLOCK  ADVISORY  WRITE 1234 00:27:5 0 EOF"; a waiter has "->" after the number. A lease is
 * "2: LEASE  ACTIVE    READ  1234 00:27:6 0 EOF". */
bool
local_lock_parse(const char *line, const struct mountinfo *mounted, struct local_lock *lock)
{
	unsigned major, minor;
	char kind[16];
	int pid;

	if (sscanf(line, "%*d: %15[A-Z] %*s %*s %d %x:%x:%" SCNu64, kind, &pid, &major, &minor,
	           &lock->ino) != 5)
		return false;
	lock->pid = pid;
	lock->lease = !strcmp(kind, "LEASE");
	return major == mounted->major && minor == mounted->minor;
}

void
local_lock_each(const struct mountinfo *mounted, int lines,
                void (*each)(void *user, const struct local_lock *lock), void *user)
{
	FILE *f = fopen("/proc/locks", "re");
	struct local_lock lock;
	char line[256];

	for (int n = 0; f && n < lines && fgets(line, sizeof line, f); n++)
		if (local_lock_parse(line, mounted, &lock))
			each(user, &lock);
	if (f)
		fclose(f);
}

/* ---- the name ---- */

static bool
is_of_lock(const struct mountinfo *mounted, const struct local_lock *lock, int fd)
{
	struct proc_descriptor seen;
	char number[16];

	snprintf(number, sizeof number, "%d", fd);
	return proc_file_descriptor(lock->pid, number, &seen) && seen.mount == mounted->id &&
	       seen.ino == lock->ino;
}

/* readlink of a descriptor in /proc sends no request to the mount. */
void
local_lock_name(const struct mountinfo *mounted, const struct local_lock *lock, char name[PATH_MAX])
{
	char path[64];
	ssize_t n;

	for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
		if (!is_of_lock(mounted, lock, fd))
			continue;
		snprintf(path, sizeof path, "/proc/%ld/fd/%d", (long)lock->pid, fd);
		n = readlink(path, name, PATH_MAX - 1);
		name[n > 0 ? n : 0] = '\0';
		if (n > 0)
			return;
	}
	snprintf(name, PATH_MAX, "inode %" PRIu64 " of %.*s", lock->ino, PATH_MAX - 64,
	         mounted->path);
}
