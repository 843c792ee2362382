#include "tests/crash/powercut.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/crash/power.h"

struct power power = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* ---- what is on the disk ---- */

static void
put_bytes(struct disk *d, const uint8_t *data, size_t len, size_t at)
{
	if (at + len > d->synced_len) {
		d->synced = memory_grow(d->synced, at + len, 1);
		memset(d->synced + d->synced_len, 0, at + len - d->synced_len);
		d->synced_len = at + len;
	}
	memcpy(d->synced + at, data, len);
}

static void
set_length(struct disk *d, size_t len)
{
	if (len > d->synced_len)
		put_bytes(d, (const uint8_t *)"", 1, len - 1);
	d->synced_len = len;
}

static void
forget_pending(struct disk *d)
{
	struct write *w;

	while ((w = TAILQ_FIRST(&d->pending)) != NULL) {
		TAILQ_REMOVE(&d->pending, w, link);
		free(w->data);
		free(w);
	}
}

void
power_settle(struct disk *d)
{
	struct write *w;

	TAILQ_FOREACH(w, &d->pending, link) {
		if (w->data == NULL)
			set_length(d, (size_t)w->at);
		else
			put_bytes(d, w->data, w->len, (size_t)w->at);
	}
	forget_pending(d);
}

/* Of what was not synced any sectors may have got there, */
static void
tear_anywhere(struct disk *d, unsigned kept)
{
	struct write *w;

	TAILQ_FOREACH(w, &d->pending, link) {
		if (w->data == NULL && rng_chance(&power.rng, kept))
			set_length(d, (size_t)w->at);
		for (size_t at = 0, n; w->data != NULL && at < w->len; at += n) {
			n = SECTOR - ((size_t)w->at + at) % SECTOR;
			if (n > w->len - at)
				n = w->len - at;
			if (rng_chance(&power.rng, kept))
				put_bytes(d, w->data + at, n, (size_t)w->at + at);
		}
	}
}

/* or all up to some point. */
static void
tear_at(struct disk *d, size_t left)
{
	struct write *w;

	TAILQ_FOREACH(w, &d->pending, link) {
		const size_t n = w->len < left ? w->len : left;

		if (left == 0)
			return;
		if (w->data == NULL)
			set_length(d, (size_t)w->at);
		else if (n > 0)
			put_bytes(d, w->data, n, (size_t)w->at);
		left -= n;
	}
}

void
power_tear(struct disk *d)
{
	struct write *w;
	size_t all = 0;

	TAILQ_FOREACH(w, &d->pending, link)
		all += w->len;
	if (rng_chance(&power.rng, 300))
		tear_at(d, rng_below(&power.rng, all + 1));
	else
		tear_anywhere(d, (unsigned)rng_below(&power.rng, 5) * 250);
	forget_pending(d);
}

static void
make_lasting(const struct change *c)
{
	if (c->what == CREATED)
		c->from->lasting = c->disk;
	else if (c->what != REMOVED)
		c->to->lasting = c->disk;
	if (c->what == RENAMED || c->what == REMOVED)
		c->from->lasting = NULL;
}

void
power_sync_directory(void)
{
	for (int i = 0; i < power.changes_n; i++)
		make_lasting(&power.changes[i]);
	power.changes_n = 0;
}

/* Of what was changed in the directory any part may have got there; for one seed of each
 * POWERCUT_TIMES it is the last change alone, which shows whether it had to come after a sync. */
void
power_tear_directory(void)
{
	unsigned kept = (unsigned)rng_below(&power.rng, 5) * 250; /* in permille */

	if (power.seed % POWERCUT_TIMES == 1 && power.changes_n > 0) {
		make_lasting(&power.changes[power.changes_n - 1]);
		return;
	}
	for (int i = 0; i < power.changes_n; i++)
		if (rng_chance(&power.rng, kept))
			make_lasting(&power.changes[i]);
}

static void
write_back(const struct name *n)
{
	int fd;

	__real_unlink(n->path);
	if (n->lasting == NULL)
		return;
	fd = __real_open(n->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	must(fd >= 0);
	must(write(fd, n->lasting->synced, n->lasting->synced_len) ==
	     (ssize_t)n->lasting->synced_len);
	must(__real_close(fd) == 0);
}

static void
leave(void)
{
	char path[PATH_SIZE + 8];

	power_tear_directory();
	for (int i = 0; i < NAMES && power.names[i].path[0] != '\0'; i++) {
		if (power.names[i].lasting != NULL)
			power_tear(power.names[i].lasting);
		write_back(&power.names[i]);
		snprintf(path, sizeof path, "%s-shm", power.names[i].path);
		__real_unlink(path);
	}
}

void
power_lock(void)
{
	must(pthread_mutex_lock(&power.mutex) == 0);
}

void
power_unlock(void)
{
	must(pthread_mutex_unlock(&power.mutex) == 0);
}

/* Has a file just got a name that nobody may count on? */
static bool
is_renamed(void)
{
	return power.changes_n > 0 && power.changes[power.changes_n - 1].what == RENAMED;
}

/* Counts; the power goes before the chosen operation did anything. */
void
power_count(void)
{
	if (++power.operations < WATCHED && power.watched != NULL)
		power.watched[power.operations] = is_renamed() ? POWERCUT_TORN : POWERCUT_STATUS;
	if (power.operations != power.cut_at)
		return;
	leave();
	_exit(power.changes_n > 0 ? POWERCUT_TORN : POWERCUT_STATUS);
}

static struct name *
find_name(const char *path)
{
	for (int i = 0; i < NAMES; i++) {
		struct name *n = &power.names[i];

		if (strcmp(n->path, path) == 0)
			return n;
		if (n->path[0] == '\0') {
			must(strlen(path) < sizeof n->path);
			strcpy(n->path, path);
			return n;
		}
	}
	must(!"more names than expected");
	return NULL;
}

static struct disk *
new_disk(void)
{
	struct disk *d = memory_zero(1, sizeof *d);

	d->earlier = power.disks;
	power.disks = d;
	TAILQ_INIT(&d->pending);
	return d;
}

/* What is there already when it is first seen is on the disk. */
static struct disk *
read_disk(const char *path)
{
	struct disk *d = new_disk();
	FILE *file = fopen(path, "r");
	uint8_t part[4096];
	size_t n;

	must(file != NULL);
	while ((n = fread(part, 1, sizeof part, file)) > 0)
		put_bytes(d, part, n, d->synced_len);
	fclose(file);
	return d;
}

/* NULL: there is no such file. */
struct disk *
power_find_disk(const char *path)
{
	struct name *n;

	if (access(path, F_OK) < 0)
		return NULL;
	n = find_name(path);
	if (n->now == NULL)
		n->now = n->lasting = read_disk(path);
	return n->now;
}

void
power_remember(struct disk *d, const void *data, size_t len, int64_t at)
{
	struct write *w = memory_zero(1, sizeof *w);

	w->at = at;
	w->len = len;
	if (data != NULL) {
		w->data = memory_zero(len, 1);
		memcpy(w->data, data, len);
	}
	TAILQ_INSERT_TAIL(&d->pending, w, link);
}

/* ---- the directory ---- */

void
power_change(int what, const char *from, const char *to)
{
	struct change *c = &power.changes[power.changes_n++];

	must(power.changes_n < OPS);
	*c = (struct change){.what = what, .from = find_name(from)};
	if (what == CREATED)
		c->from->now = new_disk();
	c->disk = c->from->now;
	if (to != NULL) {
		c->to = find_name(to);
		c->to->now = c->disk;
	}
	if (what == RENAMED || what == REMOVED)
		c->from->now = NULL;
}

/* ---- for tests ---- */

void
powercut_install(uint64_t seed)
{
	power.seed = seed;
	power.rng = rng_seeded(seed);
	power.real = sqlite3_vfs_find(NULL);
	must(power.real != NULL);
	power_make_vfs();
	must(sqlite3_vfs_register(&power.vfs, 1) == SQLITE_OK);
}

void
powercut_at(long n)
{
	power.cut_at = n;
}

void
powercut_fail_sync(long n)
{
	power.fail_sync_at = n;
}

void
powercut_no_room(long n, long times)
{
	power_lock();
	power.no_room_from = power.writes + n;
	power.no_room_to = power.no_room_from + times;
	power_unlock();
}

const uint8_t *
powercut_watch(void)
{
	power.watched =
	    mmap(NULL, WATCHED, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	must(power.watched != MAP_FAILED);
	return power.watched;
}

long
powercut_operations(void)
{
	return power.operations;
}

long
powercut_syncs(void)
{
	return power.syncs;
}

bool
powercut_failed(void)
{
	bool failed;

	power_lock();
	failed = power.failed;
	power_unlock();
	return failed;
}

void
powercut_leave(void)
{
	power_lock();
	leave();
	power_unlock();
}
