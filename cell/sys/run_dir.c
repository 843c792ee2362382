#include "cell/sys/run_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/base/checksum.h"
#include "cell/sys/file.h"
#include "cell/sys/process.h"
#include "config.h"

enum { RECORD_SIZE = 4 * PATH_MAX };

/* ---- the directory ---- */

/* A directory of another user would disclose nonces to that user, and one that others may write to
 * could hold forged records: both are refused. Service managers make the directory readable by
 * others; that permission is taken away. */
static int
directory_check(const char *path)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return -errno;
	if (!S_ISDIR(st.st_mode))
		return -ENOTDIR;
	if (st.st_uid != geteuid() || (st.st_mode & 022))
		return -EPERM;
	return (st.st_mode & 077) && chmod(path, 0700) < 0 ? -errno : 0;
}

static int
directory_make(const char *path)
{
	return mkdir(path, 0700) < 0 && errno != EEXIST ? -errno : directory_check(path);
}

/* The first place where the directory is, or can be made. The root of a user namespace cannot write
 * to that of the machine, and has a place as any other user. */
static int
directory_find(char *path, size_t size, int (*is_fit)(const char *path))
{
	const char *runtime = getenv("XDG_RUNTIME_DIR");
	int n;

	if (geteuid() == 0 && snprintf(path, size, "%s/lsfs", RUNSTATEDIR) < (int)size &&
	    is_fit(path) == 0)
		return 0;
	if (runtime && runtime[0] == '/')
		n = snprintf(path, size, "%s/lsfs", runtime);
	else
		n = snprintf(path, size, "/tmp/lsfs-%u", (unsigned)geteuid());
	return n >= 0 && (size_t)n < size ? is_fit(path) : -ENAMETOOLONG;
}

int
run_dir_make(char *path, size_t size)
{
	return directory_find(path, size, directory_make);
}

/* The file name is the checksum of the mount point's path: the path may be too long for a name. */
static int
record_path(const char *directory, const char *mountpoint, char *path, size_t size)
{
	int n = snprintf(path, size, "%s/%016" PRIx64 ".mount", directory,
	                 checksum(bytes_of(mountpoint)));

	return n >= 0 && (size_t)n < size ? 0 : -ENAMETOOLONG;
}

/* ---- the text of a record: "key value" lines ---- */

static void
nonce_from_hex(const char *hex, uint8_t nonce[LIMIT_NONCE])
{
	for (int i = 0; i < LIMIT_NONCE; i++) {
		unsigned byte;

		if (sscanf(hex + 2 * i, "%2x", &byte) != 1)
			return;
		nonce[i] = (uint8_t)byte;
	}
}

static int
record_load(int fd, struct run_record *r)
{
	char *text = calloc(1, RECORD_SIZE + 1);
	ssize_t n;
	int rc;

	if (!text)
		return -ENOMEM;
	n = pread(fd, text, RECORD_SIZE, 0);
	rc = n < 0 ? -errno : 0;
	if (rc == 0) {
		memset(r, 0, sizeof *r);
		for (char *line, *rest = text; (line = strsep(&rest, "\n"));) {
			char *value = strchr(line, ' ');

			if (!value)
				continue;
			*value++ = '\0';

			if (!strcmp(line, "mountpoint"))
				snprintf(r->mountpoint, sizeof r->mountpoint, "%s", value);
			else if (!strcmp(line, "source"))
				snprintf(r->source, sizeof r->source, "%s", value);
			else if (!strcmp(line, "key"))
				snprintf(r->key, sizeof r->key, "%s", value);
			else if (!strcmp(line, "cell"))
				snprintf(r->cell, sizeof r->cell, "%s", value);
			else if (!strcmp(line, "boot"))
				snprintf(r->boot, sizeof r->boot, "%s", value);
			else if (!strcmp(line, "pid"))
				r->pid = (pid_t)strtol(value, NULL, 10);
			else if (!strcmp(line, "session"))
				r->session = strtoull(value, NULL, 10);
			else if (!strcmp(line, "nonce") && strlen(value) == 2 * LIMIT_NONCE)
				nonce_from_hex(value, r->nonce);
		}
	}
	free(text);
	return rc;
}

static void
boot_id(char *to, size_t size)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");

	to[0] = '\0';
	if (!f)
		return;
	if (!fgets(to, (int)size, f))
		to[0] = '\0';
	to[strcspn(to, "\n")] = '\0';
	fclose(f);
}

static bool
one_line(const char *text)
{
	return !strchr(text, '\n');
}

/* ---- ownership ---- */

/* Ownership is a lock of the open file description: it ends with the process, and F_OFD_GETLK tests
 * it without taking it. */
static const struct flock whole_file = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

/* Takes the lock; waits for an owner that is exiting. 0, -EBUSY or another -errno. */
static int
record_lock(int fd)
{
	struct flock lock = whole_file;
	struct run_record owner = {0};

	if (fcntl(fd, F_OFD_SETLK, &lock) == 0)
		return 0;
	if (errno != EAGAIN && errno != EACCES)
		return -errno;
	if (record_load(fd, &owner) < 0 || owner.pid <= 0 || !process_ended(owner.pid))
		return -EBUSY;
	return fcntl(fd, F_OFD_SETLK, &lock) == 0 ? 0 : -EBUSY;
}

/* False when an earlier owner has removed the file between our open and our lock. */
static bool
still_there(int fd, const char *path)
{
	struct stat opened, named;

	return fstat(fd, &opened) == 0 && stat(path, &named) == 0 &&
	       opened.st_ino == named.st_ino && opened.st_dev == named.st_dev;
}

int
run_dir_own(const char *mountpoint, struct run_file *file, struct run_record *earlier)
{
	char directory[PATH_MAX - 32] = "";
	int rc = one_line(mountpoint) ? run_dir_make(directory, sizeof directory) : -EINVAL;

	file->fd = -1;
	if (rc < 0)
		snprintf(file->path, sizeof file->path, "%s", directory);
	else
		rc = record_path(directory, mountpoint, file->path, sizeof file->path);
	if (rc < 0)
		return rc;
	for (;;) {
		rc = file->fd = file_open(file->path, O_RDWR | O_CREAT | O_NOFOLLOW);
		if (rc < 0)
			return rc;
		rc = record_lock(file->fd);
		if (rc < 0)
			break;
		if (still_there(file->fd, file->path)) {
			rc = record_load(file->fd, earlier);
			break;
		}
		close(file->fd);
	}
	if (rc < 0)
		run_dir_leave(file);
	return rc;
}

int
run_dir_write(const struct run_file *file, const struct run_record *r)
{
	char *text = malloc(RECORD_SIZE), hex[2 * LIMIT_NONCE + 1], boot[sizeof r->boot];
	int n, rc = 0;

	if (!text)
		return -ENOMEM;
	for (int i = 0; i < LIMIT_NONCE; i++)
		snprintf(hex + 2 * i, 3, "%02x", r->nonce[i]);
	boot_id(boot, sizeof boot);
	n = snprintf(text, RECORD_SIZE,
	             "mountpoint %s\nsource %s\nkey %s\ncell %s\nboot %s\npid %ld\nsession %" PRIu64
	             "\nnonce %s\n",
	             r->mountpoint, r->source, r->key, r->cell, boot, (long)getpid(), r->session,
	             hex);
	if (n < 0 || n >= RECORD_SIZE)
		rc = -ENAMETOOLONG;
	else if (!one_line(r->source) || !one_line(r->key))
		rc = -EINVAL;
	else
		rc = file_write_at(file->fd, bytes_of(text), 0);
	if (rc == 0 && ftruncate(file->fd, n) < 0)
		rc = -errno;
	free(text);
	return rc;
}

void
run_dir_drop(struct run_file *file)
{
	unlink(file->path);
	run_dir_leave(file);
}

void
run_dir_leave(struct run_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
}

/* ---- reading ---- */

static bool
record_read(const char *path, struct run_record *record, bool *alive)
{
	int fd = file_open(path, O_RDONLY | O_NOFOLLOW);
	struct flock lock = whole_file;
	bool ok;

	if (fd < 0)
		return false;
	ok = record_load(fd, record) == 0 && record->mountpoint[0] == '/';
	*alive = fcntl(fd, F_OFD_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
	close(fd);
	return ok;
}

int
run_dir_path(const char *mountpoint, char path[PATH_MAX])
{
	char directory[PATH_MAX - 32];
	int rc = directory_find(directory, sizeof directory, directory_check);

	return rc < 0 ? rc : record_path(directory, mountpoint, path, PATH_MAX);
}

bool
run_dir_read(const char *mountpoint, struct run_record *record, bool *alive)
{
	char path[PATH_MAX];

	return run_dir_path(mountpoint, path) == 0 && record_read(path, record, alive) &&
	       !strcmp(record->mountpoint, mountpoint);
}

void
run_dir_each(bool (*each)(void *user, const struct run_record *record, bool alive), void *user)
{
	char directory[PATH_MAX - 300], path[PATH_MAX];
	struct dirent *entry;
	struct run_record *record;
	bool alive, more = true;
	DIR *d;

	if (directory_find(directory, sizeof directory, directory_check) < 0)
		return;
	d = opendir(directory);
	record = malloc(sizeof *record);
	while (d && record && more && (entry = readdir(d))) {
		const size_t n = strlen(entry->d_name);

		snprintf(path, sizeof path, "%s/%s", directory, entry->d_name);
		if (n > 6 && !strcmp(entry->d_name + n - 6, ".mount") &&
		    record_read(path, record, &alive))
			more = each(user, record, alive);
	}
	free(record);
	if (d)
		closedir(d);
}
