#include "cell/store/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cell/sys/clock.h"
#include "cell/sys/file.h"
#include "cell/sys/run_dir.h"

enum { HEALTH_SIZE = 4096 };

static const char boot_file[] = "/proc/sys/kernel/random/boot_id";

static bool
read_text(const char *path, char *text, size_t size)
{
	struct buffer b = BUFFER(HEALTH_SIZE);
	int fd = file_open(path, O_RDONLY | O_NOFOLLOW);
	bool ok = fd >= 0 && file_read(fd, size - 1, &b) == 0;

	if (ok && b.len > 0)
		memcpy(text, b.data, b.len);
	text[ok ? b.len : 0] = '\0';
	if (fd >= 0)
		close(fd);
	buffer_free(&b);
	return ok;
}

static void
make_id(struct disk_failure *f)
{
	uint64_t id;

	random_fill(&id, sizeof id);
	snprintf(f->id, sizeof f->id, "%016llx", (unsigned long long)id);
}

static void
fill_health(const struct disk_failure *f, const char *state, char text[HEALTH_SIZE])
{
	memset(text, ' ', HEALTH_SIZE);
	text[HEALTH_SIZE - 1] = '\n';
	text[snprintf(text, HEALTH_SIZE, "store %s\n%s\n", f->id, state)] = ' ';
}

/* Every write covers the whole file, so that marking a full disk needs no new block. */
static int
write_health(const struct disk_failure *f, const char *state)
{
	char text[HEALTH_SIZE];

	fill_health(f, state, text);
	if (file_write_at(f->fd, (struct bytes){(uint8_t *)text, HEALTH_SIZE}, 0) < 0)
		return -EIO;
	return fsync(f->fd) < 0 ? -errno : 0;
}

void
disk_failure_mark(const struct disk_failure *f, const char *why)
{
	char state[BOOT_VERDICT_LINE];
	int fd;

	boot_verdict_write(state, f->boot, why);
	if (f->run_path[0] != '\0') {
		fd = file_open(f->run_path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW);
		if (fd >= 0) {
			(void)file_write_at(fd, bytes_of(state), 0);
			close(fd);
		}
	}
	(void)write_health(f, state);
}

static bool
refuse(const char *path, const char *mark, char *why, size_t why_size)
{
	snprintf(why, why_size,
	         "%s: marked failed since this boot: %s; restart the machine, or replace the disk",
	         path, mark);
	return false;
}

/* A damaged mark may have said that the disk failed in this boot, so the disk is marked as failed
 * now, in both places: the next boot then finds two readable marks. When they can't be written
 * either, the damaged mark stays. */
static bool
distrust(const struct disk_failure *f, const char *path, char *why, size_t why_size)
{
	static const char damaged[] = "this mark was damaged";

	disk_failure_mark(f, damaged);
	return refuse(path, damaged, why, why_size);
}

static bool
judge_mark(struct disk_failure *f, const char *path, const char *line, char *why, size_t why_size)
{
	enum boot_verdict mark = boot_verdict_judge(line, f->boot, f->why);

	if (mark == BOOT_VERDICT_NONE)
		return distrust(f, path, why, why_size);
	if (mark == BOOT_VERDICT_NOW)
		return refuse(path, f->why, why, why_size);
	f->earlier = true;
	return true;
}

static bool
judge_health(struct disk_failure *f, const char *path, const char *text, char *why, size_t why_size)
{
	const char *state = strchr(text, '\n');

	if (sscanf(text, "store %16[0-9a-f]", f->id) != 1 || strlen(f->id) != DISK_FAILURE_ID ||
	    state == NULL) {
		make_id(f);
		return distrust(f, path, why, why_size);
	}
	return strncmp(state, "\nok\n", 4) == 0 || judge_mark(f, path, state + 1, why, why_size);
}

/* Judges the mark in the run directory, if there is a run directory. */
static bool
judge_run_path(struct disk_failure *f, char *why, size_t why_size)
{
	char line[BOOT_VERDICT_LINE], directory[PATH_MAX - 64];

	/* Without a run directory the mark is kept in the data directory alone. */
	f->run_path[0] = '\0';
	if (run_dir_make(directory, sizeof directory) == 0)
		snprintf(f->run_path, sizeof f->run_path, "%s/failed-%s", directory, f->id);
	return f->run_path[0] == '\0' || !read_text(f->run_path, line, sizeof line) ||
	       judge_mark(f, f->run_path, line, why, why_size);
}

bool
disk_failure_open(struct disk_failure *f, const char *directory, char *why, size_t why_size)
{
	char path[PATH_MAX], text[HEALTH_SIZE + 1];
	int rc = 0;

	*f = (struct disk_failure){.fd = -1};
	read_text(boot_file, f->boot, sizeof f->boot);
	f->boot[strcspn(f->boot, "\n")] = '\0';
	if (f->boot[0] == '\0') {
		snprintf(why, why_size, "%s: can't be read", boot_file);
		return false;
	}
	snprintf(path, sizeof path, "%s/" DISK_FAILURE_FILE, directory);
	if (access(path, F_OK) < 0 && errno == ENOENT) {
		make_id(f);
		fill_health(f, "ok", text);
		rc = file_create(path, (struct bytes){(uint8_t *)text, HEALTH_SIZE}, 0600);
	} else if (access(path, F_OK) < 0) {
		rc = -errno;
	}
	if (rc == 0 && (f->fd = file_open(path, O_RDWR | O_NOFOLLOW)) < 0)
		rc = f->fd;
	if (rc < 0 || !read_text(path, text, sizeof text)) {
		snprintf(why, why_size, "%s: %s", path, file_why(rc < 0 ? rc : -EIO));
	} else if (judge_health(f, path, text, why, why_size) && judge_run_path(f, why, why_size)) {
		return true;
	}
	disk_failure_close(f);
	return false;
}

int
disk_failure_clear(struct disk_failure *f)
{
	int rc = write_health(f, "ok");

	if (rc == 0 && f->run_path[0] != '\0' && unlink(f->run_path) < 0 && errno != ENOENT)
		rc = -errno;
	if (rc == 0)
		f->earlier = false;
	return rc;
}

void
disk_failure_close(struct disk_failure *f)
{
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}
