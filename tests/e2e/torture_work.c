/* The operations. Each ends in one of three ways: it has taken effect, it has not and never will,
 * or nobody can say: the commit was under way when the cell was lost or the session ended. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tests/e2e/torture_record.h"
#include "tests/e2e/torture_sized.h"

enum {
	REGISTERS = 6,
	COUNTERS = 2,
	LOCKS = 3,            /* and one that is held for seconds */
	LINE_FILES = 2,       /* at a time; then new ones, so that they stay short */
	LINES_PER_FILE = 100, /* of each process */
	VALUE_MAX = 64,
	VALUE_LEN = 13, /* of a register's value: a swap overwrites it whole */
	CONTENTS_MAX = 256 * 1024,
	HOLD_US = 30000, /* at the most something is held, or kept open, at a time */
	PROOFS = 3,      /* that a lock is still held */
	LONG_PROOFS = 600,
};

/* On a mount point whose mount has gone this directory does not exist: nothing is ever done beside
 * the mount by mistake. */
#define DIRECTORY "t"

/* ---- files ---- */

/* Closes; keeps errno. */
static void
drop(int fd)
{
	int error = errno;

	close(fd);
	errno = error;
}

static uint64_t
generation(int fd)
{
	char text[32];
	ssize_t len = fgetxattr(fd, "user.ls.content_generation", text, sizeof text - 1);

	if (len <= 0)
		return 0;
	text[len] = 0;
	return strtoull(text, NULL, 10);
}

/* Reads all, as a string; false: errno. */
static bool
read_all(int fd, char *text, size_t size)
{
	ssize_t len = pread(fd, text, size - 1, 0);

	text[len > 0 ? len : 0] = 0;
	return len >= 0;
}

/* Writes, commits, sometimes by fsync, else by close, and closes. False with errno: it was perhaps
 * not committed. Also when write failed: an emptied file may be committed by the close. */
static bool
commit(struct worker *w, int fd, const char *text)
{
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text) ||
	    (rng_chance(&w->rng, 250) && fsync(fd) != 0)) {
		drop(fd);
		return false;
	}
	return close(fd) == 0;
}

static void
new_value(struct worker *w, char value[static VALUE_MAX])
{
	snprintf(value, VALUE_MAX, "%04d.%08ld", w->process, ++w->written);
}

static void
some_path(struct worker *w, struct record *r, char letter, int n)
{
	snprintf(r->path, sizeof r->path, "%c%d", letter, (int)rng_below(&w->rng, (uint64_t)n));
}

/* ---- registers ---- */

/* A mount's read of what it is writing waits for that. So each mount leaves some registers to the
 * others: these it can go on reading when it has lost the cell, if it is wrong. */
static bool
left_to_others(const struct worker *w, int reg)
{
	return reg % 3 == w->process / 100 % 3;
}

static void
some_register(struct worker *w, struct record *r, bool others)
{
	int reg;

	do
		reg = (int)rng_below(&w->rng, REGISTERS);
	while (left_to_others(w, reg) != others);
	snprintf(r->path, sizeof r->path, "r%d", reg);
}

static void
put(struct worker *w, struct record *r, int flags)
{
	int fd;

	begin(w, r);
	fd = openat(w->dir, r->path, flags, 0644);
	if (fd < 0)
		refused(w, r);
	else if (commit(w, fd, r->value))
		done(w, r);
	else
		uncommitted(w, r);
}

static void
do_write(struct worker *w)
{
	char value[VALUE_MAX];
	struct record r = {.operation = "write", .value = value};

	some_register(w, &r, false);
	new_value(w, value);
	put(w, &r, O_WRONLY | O_TRUNC);
}

static void
do_rename(struct worker *w)
{
	char value[VALUE_MAX], source[VALUE_MAX + 8];
	struct record r = {.operation = "rename", .value = value};
	int fd;

	some_register(w, &r, false);
	new_value(w, value);
	snprintf(source, sizeof source, "n.%s", value);
	fd = openat(w->dir, source, O_WRONLY | O_CREAT | O_EXCL, 0644);
	if (fd < 0 || !commit(w, fd, value))
		return;
	begin(w, &r);
	if (renameat(w->dir, source, w->dir, r.path) == 0)
		done(w, &r);
	else if (errno == ENOENT)
		refused(w, &r);
	else
		uncommitted(w, &r);
}

static void
do_cas(struct worker *w)
{
	char value[VALUE_MAX], expected[VALUE_MAX];
	struct record r = {.operation = "cas", .value = value, .expected = expected};
	int fd;

	some_register(w, &r, false);
	new_value(w, value);
	expected[0] = 0;
	begin(w, &r);
	fd = openat(w->dir, r.path, O_RDWR);
	if (fd < 0 || !read_all(fd, expected, sizeof expected) || strlen(expected) != VALUE_LEN) {
		refused(w, &r);
		if (fd >= 0)
			drop(fd);
		return;
	}
	if (commit(w, fd, value))
		done(w, &r);
	else
		uncommitted(w, &r);
}

static void
read_register(struct worker *w, bool others)
{
	char value[VALUE_MAX];
	struct record r = {.operation = "read"};
	uint64_t before;
	int fd;

	some_register(w, &r, others);
	begin(w, &r);
	fd = openat(w->dir, r.path, O_RDONLY);
	if (fd < 0) {
		refused(w, &r);
		return;
	}
	before = generation(fd);
	if (read_all(fd, value, sizeof value)) {
		r.value = value;
		/* if nothing was committed meanwhile, this is the version that was read */
		r.generation = generation(fd) == before ? before : 0;
		done(w, &r);
	} else {
		refused(w, &r);
	}
	drop(fd);
}

static void
do_read(struct worker *w)
{
	read_register(w, rng_chance(&w->rng, 300));
}

/* ---- lines ---- */

static void
do_append(struct worker *w)
{
	char line[VALUE_MAX + 1], value[VALUE_MAX];
	struct record r = {.operation = "append", .value = value};
	int fd;

	snprintf(r.path, sizeof r.path, "a%ld.%d", w->appended / LINES_PER_FILE,
	         (int)rng_below(&w->rng, LINE_FILES));
	snprintf(value, sizeof value, "%d-%ld", w->process, ++w->appended);
	snprintf(line, sizeof line, "%s\n", value);
	begin(w, &r);
	fd = openat(w->dir, r.path, O_WRONLY | O_APPEND | O_CREAT, 0644);
	if (fd < 0)
		refused(w, &r);
	else if (commit(w, fd, line))
		done(w, &r);
	else
		uncommitted(w, &r);
}

/* How long the file is, and its last line. */
static bool
read_tail(int fd, char value[static VALUE_MAX])
{
	char *text = malloc(CONTENTS_MAX + 1);
	bool ok;

	if (!text)
		give_up("memory");
	ok = read_all(fd, text, CONTENTS_MAX + 1);
	if (ok) {
		size_t len = strlen(text), start = len > 0 ? len - 1 : 0;

		while (start > 0 && text[start - 1] != '\n')
			start--;
		snprintf(value, VALUE_MAX, "%zu %.*s", len, len ? (int)(len - 1 - start) : 0,
		         text + start);
	}
	free(text);
	return ok;
}

static void
do_tail(struct worker *w)
{
	char value[VALUE_MAX];
	struct record r = {.operation = "tail"};
	int fd;

	snprintf(r.path, sizeof r.path, "a%ld.%d", w->appended / LINES_PER_FILE,
	         (int)rng_below(&w->rng, LINE_FILES));
	begin(w, &r);
	fd = openat(w->dir, r.path, O_RDONLY);
	if (fd >= 0 && read_tail(fd, value)) {
		r.value = value;
		done(w, &r);
	} else {
		refused(w, &r);
	}
	if (fd >= 0)
		drop(fd);
}

/* ---- locks ---- */

/* The handle's session lives, so what was locked through it is locked. */
static bool
handle_works(int fd)
{
	char text[VALUE_MAX];

	return read_all(fd, text, sizeof text);
}

/* Increments; the unlock commits. */
static void
count(struct worker *w, int fd, struct record *r)
{
	char text[VALUE_MAX];

	if (!read_all(fd, text, sizeof text)) {
		refused(w, r);
		return;
	}
	snprintf(text, sizeof text, "%ld", atol(text) + 1);
	r->value = text;
	if (pwrite(fd, text, strlen(text), 0) == (ssize_t)strlen(text) && flock(fd, LOCK_UN) == 0)
		done(w, r);
	else
		uncommitted(w, r);
}

static void
do_count(struct worker *w)
{
	struct record r = {.operation = "count"};
	int fd;

	some_path(w, &r, 'c', COUNTERS);
	begin(w, &r);
	fd = openat(w->dir, r.path, O_RDWR);
	if (fd < 0) {
		refused(w, &r);
		return;
	}
	if (flock(fd, LOCK_EX) == 0)
		count(w, fd, &r);
	else
		refused(w, &r);
	drop(fd);
}

static bool
fence(int fd, char value[static VALUE_MAX])
{
	ssize_t len = fgetxattr(fd, "user.ls.fence", value, VALUE_MAX - 1);

	value[len > 0 ? len : 0] = 0;
	return len > 0;
}

/* Holds it a while and proves now and then that it is still held. */
static void
hold(struct worker *w, int fd, const struct record *locked, int proofs)
{
	for (int i = 0; i < proofs; i++) {
		struct record r = {.operation = "hold"};

		usleep((useconds_t)rng_below(&w->rng, HOLD_US));
		memcpy(r.path, locked->path, sizeof r.path);
		begin(w, &r);
		if (!handle_works(fd)) {
			refused(w, &r);
			return;
		}
		done(w, &r);
	}
}

static void
lock(struct worker *w, struct record *r, int how, int proofs)
{
	char value[VALUE_MAX];
	int fd;

	begin(w, r);
	fd = openat(w->dir, r->path, O_RDWR);
	if (fd < 0) {
		refused(w, r);
		return;
	}
	/* The token is the session's: it is this lock's if the handle works after it. */
	if (flock(fd, how) == 0 && fence(fd, value) && handle_works(fd)) {
		r->value = value;
		done(w, r);
		hold(w, fd, r, proofs);
	} else {
		refused(w, r);
	}
	if (rng_chance(&w->rng, 500))
		flock(fd, LOCK_UN);
	drop(fd);
}

static void
do_lock(struct worker *w)
{
	bool shared = rng_chance(&w->rng, 300);
	struct record r = {.operation = shared ? "share" : "lock"};
	int how = shared ? LOCK_SH : LOCK_EX;

	some_path(w, &r, 'l', LOCKS);
	if (rng_chance(&w->rng, 300))
		how |= LOCK_NB;
	lock(w, &r, how, PROOFS);
}

static void
do_long_lock(struct worker *w)
{
	struct record r = {.operation = "lock", .path = "long"};

	lock(w, &r, LOCK_EX, (int)rng_below(&w->rng, LONG_PROOFS));
}

/* ---- ephemeral files ---- */

static int
open_ephemeral(struct worker *w, struct record *r)
{
	snprintf(r->path, sizeof r->path, "e/%d.%ld", w->process, ++w->made);
	begin(w, r);
	return openat(w->dir, r->path, O_RDWR | O_CREAT | O_EXCL, 0644 | S_ISVTX);
}

/* Made as a permanent file, which only moves to the others when it is marked. What a fault leaves
 * of it stays apart. */
static int
mark_ephemeral(struct worker *w, struct record *r)
{
	char made[40];
	int fd;

	snprintf(made, sizeof made, "p%d.%ld", w->process, ++w->made);
	snprintf(r->path, sizeof r->path, "e/%s", made);
	begin(w, r);
	fd = openat(w->dir, made, O_RDWR | O_CREAT | O_EXCL, 0644);
	if (fd >= 0 && (fsetxattr(fd, "user.ls.ephemeral", "1", 1, 0) != 0 ||
	                renameat(w->dir, made, w->dir, r->path) != 0)) {
		const int failed = errno;

		close(fd);
		errno = failed;
		return -1;
	}
	return fd;
}

static void
do_ephemeral(struct worker *w)
{
	struct record r = {.operation = "ephemeral"};
	const int fd = rng_chance(&w->rng, 500) ? open_ephemeral(w, &r) : mark_ephemeral(w, &r);

	if (fd < 0) {
		if (errno == EEXIST)
			refused(w, &r);
		else
			uncommitted(w, &r);
		return;
	}
	done(w, &r);
	usleep((useconds_t)rng_below(&w->rng, HOLD_US));
	drop(fd);
}

/* ---- all together ---- */

static bool
enter(struct worker *w, const char *directory)
{
	char path[512];

	snprintf(path, sizeof path, "%s/%s", w->mount, directory);
	w->dir = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	return w->dir >= 0;
}

static void
do_anything(struct worker *w)
{
	static const struct {
		void (*work)(struct worker *w);
		unsigned weight;
	} kinds[] = {
	    {do_write, 20}, {do_rename, 8}, {do_cas, 15},  {do_read, 35},     {do_append, 15},
	    {do_tail, 6},   {do_count, 8},  {do_lock, 12}, {do_ephemeral, 5}, {sized_write, 1},
	};
	unsigned sum = 0, at = 0;
	uint64_t chosen;

	for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		sum += kinds[i].weight;
	for (chosen = rng_below(&w->rng, sum); chosen >= kinds[at].weight; at++)
		chosen -= kinds[at].weight;
	kinds[at].work(w);
}

/* A worker that writes soon waits when the cell can't be reached. The first worker of a mount only
 * reads, the second one only holds a lock, the third one only looks: they are those that could see
 * what is not true any more. */
bool
work_once(struct worker *w)
{
	if (w->number == 2) {
		sized_look(w);
		return true;
	}
	if (!enter(w, DIRECTORY))
		return false;
	if (w->number == 0)
		read_register(w, true);
	else if (w->number == 1)
		do_long_lock(w);
	else
		do_anything(w);
	close(w->dir);
	return true;
}

static void
make_files(struct worker *w, char letter, int n, const char *contents)
{
	char path[64];

	for (int i = 0; i < n; i++) {
		int fd;

		snprintf(path, sizeof path, "%c%d", letter, i);
		fd = openat(w->dir, path, O_WRONLY | O_CREAT | O_EXCL, 0644);
		if (fd < 0 || !commit(w, fd, contents))
			give_up("%s", path);
	}
}

void
work_begin(struct worker *w)
{
	char path[512], value[VALUE_MAX];
	int fd;

	snprintf(path, sizeof path, "%s/" DIRECTORY, w->mount);
	if (mkdir(path, 0755) != 0 || !enter(w, DIRECTORY) || mkdirat(w->dir, "e", 0755) != 0)
		give_up("%s", path);
	for (int i = 0; i < REGISTERS; i++) {
		struct record r = {.operation = "write", .value = value};

		snprintf(r.path, sizeof r.path, "r%d", i);
		new_value(w, value);
		put(w, &r, O_WRONLY | O_CREAT | O_EXCL);
	}
	sized_make(w);
	make_files(w, 'c', COUNTERS, "0");
	make_files(w, 'l', LOCKS, "");
	fd = openat(w->dir, "long", O_WRONLY | O_CREAT | O_EXCL, 0644);
	if (fd < 0 || close(fd) != 0)
		give_up("long");
	close(w->dir);
}

static void
final_file(struct worker *w, const char *name, char *text)
{
	struct record r = {.operation = "final"};
	int fd;

	snprintf(r.path, sizeof r.path, "%.60s", name);
	begin(w, &r);
	fd = openat(w->dir, name, O_RDONLY);
	if (fd < 0 || !read_all(fd, text, CONTENTS_MAX + 1))
		give_up("final %s", name);
	if (name[0] == 's')
		sized_value(text);
	r.value = text;
	r.generation = generation(fd);
	done(w, &r);
	close(fd);
}

/* The names in a directory, but "." and "..". */
static void
final_left(struct worker *w)
{
	int fd = openat(w->dir, "e", O_RDONLY | O_DIRECTORY);
	struct record r = {.operation = "left", .path = "e"};
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	char names[1024] = "";

	begin(w, &r);
	if (!d)
		give_up("final e");
	while ((entry = readdir(d)))
		if (entry->d_name[0] != '.' && strlen(names) < sizeof names - 300)
			sprintf(names + strlen(names), "%s ", entry->d_name);
	closedir(d);
	r.value = names;
	done(w, &r);
}

/* All of one directory whose names begin with one of these letters. */
static void
final_files(struct worker *w, const char *letters)
{
	char *text = malloc(CONTENTS_MAX + 1);
	struct dirent *entry;
	DIR *d;

	if (!text)
		give_up("memory");
	d = fdopendir(openat(w->dir, ".", O_RDONLY | O_DIRECTORY));
	if (!d)
		give_up("%s", w->mount);
	while ((entry = readdir(d)))
		if (strchr(letters, entry->d_name[0]))
			final_file(w, entry->d_name, text);
	closedir(d);
	free(text);
}

void
work_final(struct worker *w)
{
	if (!enter(w, DIRECTORY))
		give_up("%s", w->mount);
	final_files(w, "rca");
	final_left(w);
	close(w->dir);
	if (!enter(w, SIZED_DIRECTORY))
		give_up("%s", w->mount);
	final_files(w, "s");
	close(w->dir);
}
