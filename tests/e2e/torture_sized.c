#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/torture_record.h"
#include "tests/e2e/torture_sized.h"

enum {
	FILES = 4,
	CONTENTS_MAX = 256 * 1024,
	WRITERS = 64,      /* sizes are their numbers, and multiples of this more */
	FIRST_LOOKER = 20, /* the processes that look are those from here on, of their mount */
	LOOKERS = 70,
	LOOKS = 4, /* of each */
	LOOK_PAUSE_US = 60000,
	PATIENCE_MS = 250,
	VALUE_MAX = 32,
};

/* ---- contents ---- */

/* All bytes of a version are the same, those of the next size are others. */
static char
byte_of(size_t size)
{
	return (char)('a' + size % 26);
}

void
sized_value(char *text)
{
	const size_t size = strlen(text);
	size_t same = 0;

	while (same < size && text[same] == byte_of(size))
		same++;
	if (same == size)
		snprintf(text, VALUE_MAX, "%zu", size);
	else
		memcpy(text, "mixed", sizeof "mixed");
}

static void
put(struct worker *w, struct record *r, size_t size, int flags)
{
	char path[512], *text = malloc(size);
	int fd;

	if (!text)
		give_up("memory");
	memset(text, byte_of(size), size);
	snprintf(path, sizeof path, "%s/" SIZED_DIRECTORY "/%s", w->mount, r->path);
	begin(w, r);
	fd = open(path, O_WRONLY | flags, 0644);
	if (fd < 0) {
		refused(w, r);
	} else if (write(fd, text, size) != (ssize_t)size) {
		uncommitted(w, r);
		close(fd);
	} else if (close(fd) != 0) {
		uncommitted(w, r);
	} else {
		done(w, r);
	}
	free(text);
}

static void
write_file(struct worker *w, int file, int flags)
{
	const size_t size =
	    (size_t)++w->sized * WRITERS + (size_t)(w->process / 100 * 8 + w->number);
	char value[VALUE_MAX];
	struct record r = {.operation = "write", .value = value};

	if (size > CONTENTS_MAX)
		return;
	snprintf(r.path, sizeof r.path, "s%d", file);
	snprintf(value, sizeof value, "%zu", size);
	put(w, &r, size, flags);
}

void
sized_make(struct worker *w)
{
	char path[512];

	snprintf(path, sizeof path, "%s/" SIZED_DIRECTORY, w->mount);
	if (mkdir(path, 0755) != 0)
		give_up("%s", path);
	for (int i = 0; i < FILES; i++)
		write_file(w, i, O_CREAT | O_EXCL);
}

void
sized_write(struct worker *w)
{
	write_file(w, (int)rng_below(&w->rng, FILES), O_TRUNC);
}

/* ---- looks ---- */

static uint64_t
generation(const char *path)
{
	char text[32];
	const ssize_t len = getxattr(path, "user.ls.content_generation", text, sizeof text - 1);

	if (len <= 0)
		return 0;
	text[len] = 0;
	return strtoull(text, NULL, 10);
}

static bool
tell_size(const char *path, struct record *r, char value[static VALUE_MAX])
{
	struct stat st;

	if (stat(path, &st) != 0)
		return false;
	snprintf(value, VALUE_MAX, "%lld", (long long)st.st_size);
	r->mtime = (unsigned long long)st.st_mtim.tv_sec * 1000000000ull +
	           (unsigned long long)st.st_mtim.tv_nsec;
	return true;
}

static bool
tell_contents(const char *path, char value[static VALUE_MAX])
{
	static char text[CONTENTS_MAX + 1];
	const int fd = open(path, O_RDONLY);
	ssize_t len;
	int error;

	if (fd < 0)
		return false;
	len = pread(fd, text, sizeof text - 1, 0);
	error = errno;
	close(fd);
	errno = error;
	if (len < 0)
		return false;
	text[len] = 0;
	sized_value(text);
	snprintf(value, VALUE_MAX, "%.20s", text);
	return true;
}

/* Now and then with the generation: it is that of the value if it is the same before and after. */
static void
look(struct worker *w)
{
	const bool contents = rng_chance(&w->rng, 400), versions = rng_chance(&w->rng, 300);
	struct record r = {.operation = contents ? "read" : "stat"};
	char path[512], value[VALUE_MAX];
	uint64_t before = 0;

	snprintf(r.path, sizeof r.path, "s%d", (int)rng_below(&w->rng, FILES));
	snprintf(path, sizeof path, "%s/" SIZED_DIRECTORY "/%s", w->mount, r.path);
	begin(w, &r);
	if (versions)
		before = generation(path);
	if (contents ? tell_contents(path, value) : tell_size(path, &r, value)) {
		r.value = value;
		r.generation = before != 0 && generation(path) == before ? before : 0;
		done(w, &r);
	} else {
		refused(w, &r);
	}
}

static _Noreturn void
looker(struct worker *w, int number)
{
	w->process = w->process / 100 * 100 + FIRST_LOOKER + number;
	for (int i = 0; i < LOOKS; i++) {
		look(w);
		usleep((useconds_t)rng_below(&w->rng, LOOK_PAUSE_US));
	}
	exit(0);
}

/* A place for one more; -1: all wait for answers. */
static int
free_place(const pid_t lookers[static LOOKERS])
{
	for (int i = 0; i < LOOKERS; i++)
		if (lookers[i] == 0)
			return i;
	return -1;
}

static void
forget(pid_t lookers[static LOOKERS], pid_t pid)
{
	for (int i = 0; i < LOOKERS; i++)
		if (lookers[i] == pid)
			lookers[i] = 0;
}

void
sized_look(struct worker *w)
{
	static pid_t lookers[LOOKERS]; /* of this process */
	const struct timespec patience = {.tv_nsec = PATIENCE_MS * 1000000l};
	int place, status;
	sigset_t ended;
	pid_t pid;

	sigemptyset(&ended);
	sigaddset(&ended, SIGCHLD);
	sigprocmask(SIG_BLOCK, &ended, NULL);
	place = free_place(lookers);
	(void)rng_next(&w->rng); /* the next one looks at something else */
	if (place >= 0) {
		lookers[place] = fork();
		if (lookers[place] < 0)
			give_up("fork");
		if (lookers[place] == 0)
			looker(w, place);
	}
	sigtimedwait(&ended, NULL, &patience);
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		if (status != 0)
			give_up("a looker ended with status %d", status);
		forget(lookers, pid);
	}
}
