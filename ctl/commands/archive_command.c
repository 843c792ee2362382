/* export, import: a directory of a mounted cell as a tar archive, and back. An export is the state
 * at one index: what was read is given out only if nothing has changed below the directory between
 * the beginning and the end. An import is made of transactions, one if it is small enough, and
 * begins when the whole archive has been read. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "cell/sys/mountinfo.h"
#include "cell/view/output.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"
#include "ctl/tar.h"

enum { TRIES = 20, NUMBER = 24 };

/* ---- export ---- */

struct export
{
	const char *root;
	FILE *to;
	struct buffer refused; /* lines: what could not be read */
	int error;             /* for which the attempt ends; 0: none */
};

/* The attributes of the node that differ from what a new one in its directory has. 0 or an error.
 */
static int
take_values(const char *path, const char *directory, struct tar_entry *e)
{
	char usual[LIMIT_NAME + 1];
	int error = 0;

	for (size_t i = 0; i < TAR_ATTRIBUTES && error == 0; i++) {
		const char *name = tar_attributes[i];

		error = mounted_path_attribute(path, name, e->values[i], sizeof e->values[i]);
		usual[0] = '\0';
		if (error == 0 && strncmp(name, "user.ls.acl.", 12) == 0)
			error = mounted_path_attribute(directory, name, usual, sizeof usual);
		else if (strcmp(name, "user.ls.lock_delay") == 0)
			snprintf(usual, sizeof usual, "%d", DEFAULT_LOCK_DELAY_S);
		else if (strcmp(name, "user.ls.lock_slots") == 0)
			snprintf(usual, sizeof usual, "0");
		if (strcmp(e->values[i], usual) == 0)
			e->values[i][0] = '\0';
	}
	return error;
}

/* Without the right to read it, the node is left out; all else ends the attempt. */
static void
failed(struct export *x, const char *path, int error)
{
	if (error == EACCES)
		buffer_printf(&x->refused, "%s\n", path);
	else
		x->error = error;
}

/* Ephemeral nodes belong to those who have them open: they are left out. */
static void
put_directory(struct export *x, const char *directory)
{
	struct buffer contents = BUFFER(LIMIT_CONTENTS);
	DIR *d = opendir(directory);
	char path[PATH_MAX];
	const struct dirent *of;
	struct stat st;
	int fd, error;

	if (d == NULL) {
		failed(x, directory, errno);
		return;
	}
	while (x->error == 0 && (errno = 0, of = readdir(d)) != NULL) {
		struct tar_entry e = {.mtime = 0};

		if (strcmp(of->d_name, ".") == 0 || strcmp(of->d_name, "..") == 0)
			continue;
		snprintf(path, sizeof path, "%s/%s", directory, of->d_name);
		if (lstat(path, &st) < 0) {
			x->error = errno;
			break;
		}
		if (st.st_mode & S_ISVTX)
			continue;
		x->error = take_values(path, directory, &e);
		if (x->error != 0)
			break;
		snprintf(e.name, sizeof e.name, "%s", path + strlen(x->root) + 1);
		e.directory = S_ISDIR(st.st_mode);
		e.mode = st.st_mode;
		e.mtime = st.st_mtime;
		if (e.directory) {
			tar_write(x->to, &e, (struct bytes){NULL, 0});
			put_directory(x, path);
			continue;
		}

		buffer_reset(&contents);
		fd = open(path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
		error = fd < 0 ? errno : -file_read(fd, LIMIT_CONTENTS, &contents);
		if (fd >= 0)
			close(fd);
		if (error == 0)
			tar_write(x->to, &e, buffer_view(&contents));
		else
			failed(x, path, error);
	}
	if (x->error == 0 && of == NULL)
		x->error = errno;
	closedir(d);
	buffer_free(&contents);
}

/* One attempt. 0, EAGAIN if something has changed meanwhile, or an errno. */
static int
read_all(struct export *x)
{
	char before[LIMIT_NAME + 1], after[LIMIT_NAME + 1];
	int error = mounted_path_attribute(x->root, "user.ls.usage.index", before, sizeof before);

	if (error == 0 && before[0] == '\0')
		error = ENODATA;
	if (error != 0)
		return error;
	rewind(x->to);
	buffer_reset(&x->refused);
	x->error = 0;
	put_directory(x, x->root);
	tar_write_end(x->to);
	errno = 0; /* of an attribute that is not there */
	if (fflush(x->to) != 0 || ferror(x->to) || ftruncate(fileno(x->to), ftello(x->to)) < 0)
		return errno != 0 ? errno : EIO;
	error = mounted_path_attribute(x->root, "user.ls.usage.index", after, sizeof after);
	if (error != 0)
		return error;
	if (strcmp(before, after) != 0)
		return EAGAIN;
	return x->error;
}

static int
run_export(const struct ctl *ctl, char **argv)
{
	static char part[64 * 1024];
	char root[PATH_MAX];
	struct export x = {.root = root, .to = tmpfile(), .refused = BUFFER(1024 * 1024)};
	int error = x.to == NULL ? errno : -mountinfo_canonical(argv[0], root), rc;
	size_t n;

	(void)ctl;
	for (int tries = 0; error == 0 || error == EAGAIN; tries++) {
		error = tries < TRIES ? read_all(&x) : ETIMEDOUT;
		if (error == 0)
			break;
	}
	if (error == 0) {
		rewind(x.to);
		while ((n = fread(part, 1, sizeof part, x.to)) > 0)
			if (fwrite(part, 1, n, stdout) != n)
				break;
		rc = CTL_OK;
		if (ferror(x.to)) {
			log_error("%s: %s", argv[0], strerror(errno));
			rc = CTL_FAILED;
		}
		if (x.refused.len > 0) {
			fprintf(stderr, "%.*s", (int)x.refused.len, (const char *)x.refused.data);
			log_error("%s: these may not be read, and are left out", argv[0]);
			rc = CTL_FAILED;
		}
	} else {
		log_error("%s: %s", argv[0],
		          error == ENODATA || error == EOPNOTSUPP ? "no directory of a mounted cell"
		          : error == ETIMEDOUT ? "changes too often to be read at one index"
		                               : strerror(error));
		rc = CTL_FAILED;
	}
	if (x.to != NULL)
		fclose(x.to);
	buffer_free(&x.refused);
	return rc;
}

/* ---- import ---- */

enum {
	OPERATIONS = LIMIT_TRANSACTION,
	TEXT = 1024 * 1024,
	ALL = 256 * 1024 * 1024,
	FIRST_RIGHT = TAR_ATTRIBUTES - TAR_RIGHTS,
};

struct import {
	const char *root, *within; /* the directory; its path in the cell */
	struct buffer *texts;      /* the transactions */
	size_t n, room;
	size_t operations, contents; /* of the last one */
	size_t nodes, all;           /* and of all, in bytes */
	/* The rights that directories are given at the end, by their names; what is new in them has
	 * them, too. The lines that give them come last: each may take those of the importer away.
	 */
	json_t *given[TAR_RIGHTS];
	struct buffer rights;
};

/* The right that the directory above the node is given; empty: none. */
static const char *
given_above(const struct import *i, size_t right, const char *name)
{
	const char *end = strrchr(name, '/');
	char above[LIMIT_PATH + 1];
	const json_t *value;

	snprintf(above, sizeof above, "%.*s", end != NULL ? (int)(end - name) : 0, name);
	value = json_object_get(i->given[right], above);
	return value != NULL ? json_string_value(value) : "";
}

/* Adds the lines that make the node, or make it so; false if its name cannot stand in them. */
static bool
add_lines(struct import *i, const struct tar_entry *e, struct bytes contents, struct buffer *lines,
          size_t *operations)
{
	char path[PATH_MAX + LIMIT_PATH + 2], name[LIMIT_PATH + 2], *encoded;
	struct stat st;
	bool exists;

	snprintf(path, sizeof path, "%s/%s", i->root, e->name);
	snprintf(name, sizeof name, "/%s", e->name);
	exists = lstat(path, &st) == 0 && S_ISDIR(st.st_mode) == e->directory;
	if (!exists) {
		buffer_printf(lines, e->directory ? "mkdir" : "create");
		if (!mounted_path_word(lines, i->within, name))
			return false;
		buffer_put_u8(lines, '\n');
		++*operations;
	}
	if (!e->directory && (exists || contents.len > 0)) {
		buffer_printf(lines, "set");
		if (!mounted_path_word(lines, i->within, name))
			return false;
		encoded = mounted_path_base64(contents);
		buffer_printf(lines, " %s", encoded);
		free(encoded);
		buffer_put_u8(lines, '\n');
		++*operations;
	}
	for (size_t a = 0; a < TAR_ATTRIBUTES; a++) {
		const bool later = e->directory && a >= FIRST_RIGHT;
		struct buffer *to = later ? &i->rights : lines;
		const char *value = e->values[a];

		if (value[0] == '\0' && !exists && a >= FIRST_RIGHT)
			value = given_above(i, a - FIRST_RIGHT, e->name);
		if (value[0] == '\0')
			continue;
		buffer_printf(to, "setattr");
		if (!mounted_path_word(to, i->within, name) ||
		    !mounted_path_word(to, "", tar_attributes[a]) ||
		    !mounted_path_word(to, "", value))
			return false;
		buffer_put_u8(to, '\n');
		if (later)
			json_object_set_new_nocheck(i->given[a - FIRST_RIGHT], e->name,
			                            json_string_nocheck(value));
		else
			++*operations;
	}
	return true;
}

/* Into the last transaction, if they fit. */
static void
add_operations(struct import *i, struct bytes lines, size_t operations, size_t contents)
{
	if (i->n == 0 || i->operations + operations > OPERATIONS ||
	    i->contents + contents > LIMIT_CONTENTS) {
		ARRAY_ROOM(i->texts, i->n, i->room);
		i->texts[i->n++] = BUFFER(TEXT);
		i->operations = i->contents = 0;
	}
	buffer_put_bytes(&i->texts[i->n - 1], lines);
	i->operations += operations;
	i->contents += contents;
}

/* NULL, or why it cannot be. */
static const char *
add_entry(struct import *i, const struct tar_entry *e, struct bytes contents)
{
	struct buffer lines = BUFFER(TEXT);
	const size_t rights = i->rights.len;
	size_t operations = 0;
	const char *why = NULL;

	if (!add_lines(i, e, contents, &lines, &operations))
		why = "its name, or an attribute of it, has characters that cannot be given here";
	else if (lines.failed || i->rights.failed || (i->all += lines.len) > ALL)
		why = "the archive is too long";
	if (why == NULL && operations > 0)
		add_operations(i, buffer_view(&lines), operations, contents.len);
	i->nodes += why == NULL && (operations > 0 || i->rights.len > rights);
	buffer_free(&lines);
	return why;
}

/* False after an error message. */
static bool
read_archive(struct import *i)
{
	struct buffer contents = BUFFER(LIMIT_CONTENTS);
	static struct tar_entry e;
	char why[TAR_WHY];
	struct bytes rest;
	enum tar_read rc;

	while ((rc = tar_read(stdin, &e, &contents, why)) == TAR_READ) {
		const char *wrong =
		    e.name[0] == '\0' ? NULL : add_entry(i, &e, buffer_view(&contents));

		if (wrong == NULL)
			continue;
		log_error("standard input: %s: %s; nothing is imported", e.name, wrong);
		break;
	}
	if (rc == TAR_REFUSED)
		log_error("standard input: %s; nothing is imported", why);
	buffer_free(&contents);
	if (rc != TAR_END)
		return false;

	/* Rights that the importer needs in a directory are its own until all is made. */
	for (rest = buffer_view(&i->rights); rest.len > 0;) {
		const uint8_t *end = memchr(rest.data, '\n', rest.len);
		const size_t n = (size_t)(end - rest.data) + 1;

		add_operations(i, (struct bytes){rest.data, n}, 1, 0);
		rest = (struct bytes){rest.data + n, rest.len - n};
	}
	return true;
}

static int
commit_all(struct import *i, const char *mountpoint)
{
	size_t done = 0;
	int rc = CTL_OK;

	for (; done < i->n && rc == CTL_OK; done++) {
		char *answer = NULL;

		rc = mounted_path_transaction(mountpoint, buffer_view(&i->texts[done]), &answer);
		if (rc != CTL_OK) {
			const char *line = strchr(answer, '\n');

			line = line != NULL && line[1] != '\0' ? line + 1 : answer;
			log_error("%s: transaction %zu of %zu %s: %.*s", i->root, done + 1, i->n,
			          rc == CTL_UNKNOWN ? "may have been done, none after it"
			                            : "was not done, nor any after it",
			          (int)strcspn(line, "\n"), line);
		}
		free(answer);
	}
	return rc == CTL_USAGE ? CTL_FAILED : rc; /* the lines are not the user's */
}

static int
run_import(const struct ctl *ctl, char **argv)
{
	char root[PATH_MAX], inside[2 * PATH_MAX];
	struct mountinfo mount;
	struct import i = {.root = root, .rights = BUFFER(ALL)};
	const int error = -mountinfo_canonical(argv[0], root);
	int rc = CTL_FAILED;

	if (error != 0)
		return CTL_FAIL("%s: %s", argv[0], strerror(error));
	if (!mounted_path_mount(argv[0], root, &mount))
		return CTL_FAILED;
	mounted_path_inside(&mount, root, inside);
	i.within = inside;
	for (size_t right = 0; right < TAR_RIGHTS; right++)
		i.given[right] = json_object();
	if (strchr(i.within, '"') != NULL)
		log_error("%s: has a quotation mark in its name", root);
	else if (read_archive(&i))
		rc = commit_all(&i, mount.path);
	if (rc == CTL_OK && ctl->json) {
		json_t *all = json_object();

		json_object_set_new(all, "nodes", json_number(i.nodes));
		json_object_set_new(all, "transactions", json_number(i.n));
		json_text_print(all);
		json_decref(all);
	} else if (rc == CTL_OK) {
		line_print("%zu nodes in %zu transaction%s", i.nodes, i.n, i.n == 1 ? "" : "s");
	}
	while (i.n > 0)
		buffer_free(&i.texts[--i.n]);
	free(i.texts);
	for (size_t right = 0; right < TAR_RIGHTS; right++)
		json_decref(i.given[right]);
	buffer_free(&i.rights);
	return rc;
}

const struct ctl_command export_command = {
    "export",
    "prints a directory of a mounted cell as a tar archive, as it is at one index",
    {{.words = {"PATH"}, .run = run_export}},
    NULL,
};

const struct ctl_command import_command = {
    "import",
    "makes what is in the tar archive that it reads in a directory of a mounted cell",
    {{.words = {"PATH"}, .run = run_import}},
    NULL,
};
