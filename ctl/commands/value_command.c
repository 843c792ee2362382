/* get, put: the contents of a mounted file as one value. `get` shows one version, with the numbers
 * that belong to it; `put` writes a whole one, on a condition if it is given one. There is nothing
 * here that a program could not do with plain calls: a handle commits what it has read only over
 * the version that it has read, and a rename that replaces nothing is one step. */
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/view/output.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"

enum {
	NUMBER = 24,
	TRIES = 100,
	UNKNOWN = -1,   /* instead of an errno: it may have been done */
	PATIENCE_S = 2, /* with a silent cell, after a signal to end */
};

static struct {
	uint64_t generation; /* 0: not given */
	bool absent;
} expected;

static int
failed(const char *path, int error)
{
	if (error == UNKNOWN) {
		log_error("%s: it is not known whether it was written", path);
		return CTL_UNKNOWN;
	}
	return CTL_FAIL("%s: %s", path,
	                error == ENODATA || error == EOPNOTSUPP ? "not in a mounted cell"
	                : error == ECANCELED                    ? "it has another generation"
	                                                        : strerror(error));
}

/* An attribute user.ls.*, as text. 0 or an errno. */
static int
attribute(int fd, const char *name, char value[NUMBER])
{
	char full[64];
	ssize_t n;

	snprintf(full, sizeof full, "user.ls.%s", name);
	n = fgetxattr(fd, full, value, NUMBER - 1);
	if (n < 0)
		return errno;
	value[n] = '\0';
	return 0;
}

/* Reads one version, into an empty buffer, with its generation: both are the same before and after.
 * The handle has read that version then. 0 or an errno; EAGAIN: another version came meanwhile. */
static int
read_version(int fd, struct buffer *contents, char generation[NUMBER])
{
	char after[NUMBER];
	struct stat st;
	int error = fstat(fd, &st) < 0 ? errno : S_ISDIR(st.st_mode) ? EISDIR : 0;

	if (error == 0)
		error = attribute(fd, "content_generation", generation);
	if (error == 0)
		error = -file_read(fd, LIMIT_CONTENTS, contents);
	if (error == 0)
		error = attribute(fd, "content_generation", after);
	return error != 0 ? error : strcmp(generation, after) == 0 ? 0 : EAGAIN;
}

/* ---- get ---- */

static json_t *
number(int fd, const char *name, int *error)
{
	char value[NUMBER] = "";

	if (*error == 0)
		*error = attribute(fd, name, value);
	return json_integer(strtoll(value, NULL, 10));
}

static int
print_version(int fd, const char *path, struct bytes contents, const char *generation)
{
	json_t *text = json_stringn((const char *)contents.data, contents.len);
	json_t *all = json_object();
	char *encoded = text == NULL ? mounted_path_base64(contents) : NULL;
	int error = 0;

	json_object_set_new(all, "path", json_path(bytes_of(path)));
	if (text != NULL)
		json_object_set_new(all, "contents", text);
	else
		json_object_set_new(all, "contents_base64", json_string(encoded));
	free(encoded);
	json_object_set_new(all, "content_generation", json_integer(strtoll(generation, NULL, 10)));
	json_object_set_new(all, "instance", number(fd, "instance", &error));
	json_object_set_new(all, "acl_generation", number(fd, "acl_generation", &error));
	json_object_set_new(all, "lock_generation", number(fd, "lock_generation", &error));
	if (error == 0)
		json_text_print(all);
	json_decref(all);
	return error == 0 ? CTL_OK : failed(path, error);
}

static int
run_get(const struct ctl *ctl, char **argv)
{
	struct buffer contents = BUFFER(LIMIT_CONTENTS);
	const int fd = open(argv[0], O_RDONLY | O_CLOEXEC);
	char generation[NUMBER];
	int error = fd < 0 ? errno : EAGAIN, rc = CTL_OK;

	for (int tries = 0; error == EAGAIN && tries < TRIES; tries++) {
		buffer_reset(&contents);
		error = read_version(fd, &contents, generation);
	}
	if (error != 0)
		rc = failed(argv[0], error);
	else if (ctl->json)
		rc = print_version(fd, argv[0], buffer_view(&contents), generation);
	else
		fwrite(contents.data, 1, contents.len, stdout);
	if (fd >= 0)
		close(fd);
	buffer_free(&contents);
	return rc;
}

/* ---- put ---- */

/* Commits the contents through a handle, instead of those that it has read, and closes it (-1: it
 * could not be opened). 0 or an errno. */
static int
commit(int fd, struct bytes contents)
{
	int error = fd < 0 || ftruncate(fd, 0) < 0 ? errno : -file_write_at(fd, contents, 0);

	if (error == 0 && fsync(fd) < 0)
		error = errno;
	if (fd >= 0)
		close(fd);
	return error;
}

/* The error of a change that has begun; UNKNOWN when the answer is lost, since the session or the
 * mount is over. The file does not show it: another client may have written the same. */
static int
outcome(int error)
{
	switch (error) {
	case EINTR:
	case EIO:
	case ESTALE:
	case ENOTCONN:
	case ECONNABORTED:
		return UNKNOWN;
	default:
		return error;
	}
}

/* Replaces the given version, and no other. 0, an errno or UNKNOWN; ECANCELED: it is another one,
 * or was by the time of the commit. */
static int
replace(const char *path, struct bytes contents)
{
	struct buffer old = BUFFER(LIMIT_CONTENTS);
	const int fd = open(path, O_RDWR | O_CLOEXEC);
	char generation[NUMBER];
	int error = fd < 0 ? errno : read_version(fd, &old, generation);

	if (error == 0 && strtoull(generation, NULL, 10) != expected.generation)
		error = ECANCELED;
	buffer_free(&old);
	if (error == 0)
		return outcome(commit(fd, contents));
	if (fd >= 0)
		close(fd);
	return error == EAGAIN || error == ESTALE ? ECANCELED : error;
}

static volatile sig_atomic_t told; /* the signal to end; 0: none */

/* A second one ends the process at once. */
static void
on_signal(int number)
{
	if (told != 0)
		raise(told);
	told = number;
	alarm(PATIENCE_S);
}

/* From here on a signal to end interrupts the calls, so that nothing is left behind. */
static void
catch_signals(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGALRM};
	const struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESETHAND};
	struct sigaction before;

	for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
		sigaction(signals[i], NULL, &before);
		if (before.sa_handler != SIG_IGN || signals[i] == SIGALRM)
			sigaction(signals[i], &action, NULL);
	}
}

/* The file appears with its contents: it is made under another name. 0, an errno or UNKNOWN. */
static int
create(const char *path, struct bytes contents)
{
	const char *slash = strrchr(path, '/'), *name = slash == NULL ? path : slash + 1;
	char unfinished[PATH_MAX];
	uint64_t unique;
	int error;

	if (getrandom(&unique, sizeof unique, 0) != sizeof unique)
		return EIO;
	snprintf(unfinished, sizeof unfinished, "%.*s.put.%016llx", (int)(name - path), path,
	         (unsigned long long)unique);
	catch_signals();
	error = commit(open(unfinished, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666), contents);
	if (error == 0 && told != 0)
		error = EINTR;
	if (error == 0 && renameat2(AT_FDCWD, unfinished, AT_FDCWD, path, RENAME_NOREPLACE) < 0)
		error = outcome(errno);
	if (error != 0)
		unlink(unfinished);
	if (error != 0 && told != 0)
		raise(told);
	return error;
}

static int
run_put(const struct ctl *ctl, char **argv)
{
	struct buffer contents = BUFFER(LIMIT_CONTENTS);
	const char *path = argv[0];
	char *copy, part[4096];
	int error;
	size_t n;

	(void)ctl;
	if (expected.absent && expected.generation != 0)
		return ctl_usage("--if-generation and --if-absent", "one of them");
	copy = strdup(path);
	error = copy == NULL ? ENOMEM : 0;
	while ((n = fread(part, 1, sizeof part, stdin)) > 0 && !contents.failed)
		buffer_put(&contents, part, n);
	if (ferror(stdin)) {
		error = errno;
		path = "standard input";
	} else if (contents.failed) {
		error = EFBIG;
	}
	/* Nothing is written beside the cell when it is not mounted. */
	if (error == 0 && getxattr(dirname(copy), "user.ls.instance", part, sizeof part) < 0)
		error = errno;
	if (error == 0 && expected.absent)
		error = create(path, buffer_view(&contents));
	else if (error == 0 && expected.generation != 0)
		error = replace(path, buffer_view(&contents));
	else if (error == 0)
		error = outcome(commit(open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666),
		                       buffer_view(&contents)));
	free(copy);
	buffer_free(&contents);
	return error == 0 ? CTL_OK : failed(path, error);
}

static const struct ctl_option put_options[] = {
    {"if-generation", .value = "NUMBER", .to = &expected.generation, .take = ctl_take_count,
     .wrong = "not a generation"},
    {"if-absent", .to = &expected.absent},
    {0},
};

const struct ctl_command get_command = {
    "get",
    "prints one version of a mounted file; with --json, the numbers that belong to it",
    {{.words = {"PATH"}, .run = run_get}},
    NULL,
};

const struct ctl_command put_command = {
    "put",
    "makes its input the contents of a mounted file, if that has the given generation, or is "
    "absent",
    {{.words = {"PATH"}, .run = run_put}},
    put_options,
};
