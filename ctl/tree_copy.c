#include "ctl/tree_copy.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/bytes.h"
#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/sys/log.h"
#include "ctl/mounted_path.h"
#include "ctl/tree_replace.h"

enum { WORKERS = 256, ATTRIBUTE = LIMIT_NAME + 1 };

#define BESIDE ".mirror.new"

/* ---- failures ---- */

/* Notes it: everything ends when a cell can't be reached, or has no such root any more, else only
 * this node is left. */
static void
failed(struct tree_copy *t, const char *root, const char *path, int error)
{
	/* Something came between: the event of that makes the node equal. */
	const bool overtaken = error == ENOENT || error == ESTALE || error == ENOTDIR ||
	                       error == EEXIST || error == EISDIR;
	int none = 0;

	if (error == EIO || error == ENOTCONN || error == ENODEV || error == ECONNABORTED ||
	    error == EMFILE || error == ENFILE || error == ENOMEM || strcmp(path, ".") == 0) {
		atomic_compare_exchange_strong(&t->broken, &none, error);
		return;
	}
	t->refused++;
	if (!t->quiet && !overtaken)
		log_warn("%s/%s: %s", root, path, strerror(error));
}

/* ---- names ---- */

struct names {
	char **list;
	size_t n, room;
};

static void
names_free(struct names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->list[i]);
	free(names->list);
	*names = (struct names){0};
}

static int
compare(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool
is_left_alone(const struct tree_copy *t, const char *path, const char *name)
{
	return strcmp(path, ".") == 0 &&
	       (strncmp(name, ".mirror", strlen(".mirror")) == 0 ||
	        (strcmp(name, "acl") == 0 && (t->roots[0] || t->roots[1])));
}

/* 0 or an error. A listing is one version of the directory. */
static int
list(const struct tree_copy *t, int root, const char *path, struct names *names)
{
	const int fd = openat(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *e;
	int error;

	if (d == NULL)
		return errno;
	for (errno = 0; (e = readdir(d)) != NULL; errno = 0) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0 ||
		    is_left_alone(t, path, e->d_name))
			continue;
		ARRAY_ROOM(names->list, names->n, names->room);
		names->list[names->n++] = bytes_to_text(bytes_of(e->d_name));
	}
	error = errno;
	closedir(d);
	if (names->n > 0)
		qsort(names->list, names->n, sizeof *names->list, compare);
	return error;
}

static void
join(char to[PATH_MAX], const char *path, const char *name)
{
	if (strcmp(path, ".") == 0)
		snprintf(to, PATH_MAX, "%s", name);
	else
		snprintf(to, PATH_MAX, "%s/%s", path, name);
}

/* ---- attributes ---- */

/* Empty: there is none. False: it could not be learned, which is noted. */
static bool
attribute(struct tree_copy *t, int root, const char *path, const char *name, char value[ATTRIBUTE])
{
	char at[PATH_MAX + 32];
	int error;

	snprintf(at, sizeof at, "/proc/self/fd/%d/%s", root, path);
	error = mounted_path_attribute(at, name, value, ATTRIBUTE);
	if (error != 0)
		failed(t, root == t->from ? t->from_name : t->to_name, path, error);
	return error == 0;
}

enum { VERSION = 2 * ATTRIBUTE };

/* Which node the source has there, and the version of its ACL names. False: that could not be
 * learned, which is noted. */
static bool
version_of_acls(struct tree_copy *t, const char *path, char version[VERSION])
{
	char instance[ATTRIBUTE], generation[ATTRIBUTE];

	if (!attribute(t, t->from, path, "user.ls.instance", instance) ||
	    !attribute(t, t->from, path, "user.ls.acl_generation", generation))
		return false;
	snprintf(version, VERSION, "%s %s", instance, generation);
	return true;
}

/* True if the source has the same node and ACL names as in `version`. */
static bool
has_version(struct tree_copy *t, const char *path, const char *version)
{
	char now[VERSION];

	return version_of_acls(t, path, now) && strcmp(now, version) == 0;
}

/* The ACL names that a target node has otherwise than the source's, those that its cell has. False:
 * one of them could not be learned, which is noted. */
static bool
compare_acls(struct tree_copy *t, const char *path, const char *made, struct tree_acls *acls)
{
	char has[ATTRIBUTE], at[PATH_MAX + ATTRIBUTE];

	acls->any = false;
	for (size_t i = 0; i < TREE_ACLS; i++) {
		char *wanted = acls->names[i];

		if (!attribute(t, t->from, path, tree_acl_attributes[i], wanted) ||
		    !attribute(t, t->to, made, tree_acl_attributes[i], has))
			return false;
		snprintf(at, sizeof at, "%s/%s", t->acl, wanted);
		if (strcmp(wanted, has) == 0 ||
		    (t->acl[0] != '\0' && access(at, F_OK) < 0 && errno == ENOENT))
			wanted[0] = '\0';
		acls->any |= wanted[0] != '\0';
	}
	return true;
}

/* Gives a target node the ACL names of the source's, those that its cell has. False: one of them
 * was refused or could not be learned, which is noted. */
static bool
copy_acls(struct tree_copy *t, const char *path, const char *made)
{
	struct tree_acls acls;
	char at[PATH_MAX + 32];
	int error = 0;

	if (!compare_acls(t, path, made, &acls))
		return false;
	snprintf(at, sizeof at, "/proc/self/fd/%d/%s", t->to, made);
	for (size_t i = 0; i < TREE_ACLS; i++) {
		const char *wanted = acls.names[i];

		if (wanted[0] != '\0' &&
		    setxattr(at, tree_acl_attributes[i], wanted, strlen(wanted), 0) < 0 &&
		    errno != ENOENT)
			error = errno; /* else its cell has no such file */
	}
	if (error != 0)
		failed(t, t->to_name, path, error);
	return error == 0;
}

/* ---- nodes ---- */

enum kind { NONE, FILE_NODE, DIRECTORY_NODE, EPHEMERAL_NODE };

/* False: it could not be learned. */
static bool
look(struct tree_copy *t, int root, const char *path, enum kind *kind, off_t *size)
{
	struct stat st;

	*kind = NONE;
	*size = 0;
	if (fstatat(root, path, &st, AT_SYMLINK_NOFOLLOW) == 0) {
		*size = st.st_size;
		*kind = st.st_mode & S_ISVTX  ? EPHEMERAL_NODE
		        : S_ISDIR(st.st_mode) ? DIRECTORY_NODE
		                              : FILE_NODE;
		return true;
	}
	if (errno == ENOENT || errno == ENOTDIR)
		return true;
	failed(t, root == t->from ? t->from_name : t->to_name, path, errno);
	return false;
}

/* Deletes the target's node. */
static void delete (struct tree_copy *t, const char *path)
{
	struct names names = {0};
	char child[PATH_MAX];
	enum kind kind;
	off_t size;
	int error = 0;

	if (!look(t, t->to, path, &kind, &size) || kind == NONE || kind == EPHEMERAL_NODE)
		return;
	if (kind == DIRECTORY_NODE)
		error = list(t, t->to, path, &names);
	for (size_t i = 0; i < names.n && t->broken == 0; i++) {
		join(child, path, names.list[i]);
		delete (t, child);
	}
	names_free(&names);
	if (t->broken != 0)
		return;
	if (error == 0 && unlinkat(t->to, path, kind == DIRECTORY_NODE ? AT_REMOVEDIR : 0) < 0)
		error = errno;
	if (error == 0)
		t->deleted++;
	else if (error != ENOENT)
		failed(t, t->to_name, path, error);
}

/* 0 or an error. They are committed whole, by close. */
static int
write_all(int fd, struct bytes data)
{
	int error = ftruncate(fd, 0) < 0 ? errno : 0;
	ssize_t n;

	for (size_t at = 0; at < data.len && error == 0; at += (size_t)n)
		if ((n = write(fd, data.data + at, data.len - at)) < 0)
			error = errno;
	return error;
}

/* Changes the contents of an existing file. 0 or an error. */
static int
write_file(const struct tree_copy *t, const char *path, struct bytes data)
{
	const int fd = openat(t->to, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	int error = fd < 0 ? errno : write_all(fd, data);

	if (fd >= 0 && close(fd) < 0 && error == 0)
		error = errno;
	return error;
}

/* A new file is made beside the tree, and has its ACLs before its contents: so they are never read
 * there by others than here. It is opened first, since the ACLs may keep us out, too. 0 or an
 * error; *allowed: the source's ACLs are those of `acls`, and it has them. */
static int
make_file(struct tree_copy *t, const char *path, struct bytes data, const char *acls, int worker,
          bool *allowed)
{
	char beside[32];
	int to, error = 0;

	snprintf(beside, sizeof beside, BESIDE ".%d", worker);
	to = openat(t->to, beside, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | O_CREAT, 0666);
	if (to < 0)
		return errno;
	*allowed = copy_acls(t, path, beside) && has_version(t, path, acls);
	if (*allowed)
		error = write_all(to, data);
	if (close(to) < 0 && error == 0)
		error = errno;
	if (error == 0 && *allowed && renameat(t->to, beside, t->to, path) < 0)
		error = errno;
	if (error != 0 || !*allowed)
		unlinkat(t->to, beside, 0);
	return error;
}

/* If the source's ACLs are no longer those of `acls`, from before the contents were read, these may
 * be from when fewer might read them: the event of that change has all of it copied. */
static void
copy_contents(struct tree_copy *t, const char *path, const char *acls, bool exists, int worker)
{
	char *const contents = memory_zero(1, LIMIT_CONTENTS + 1);
	const int from = openat(t->from, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct bytes data = {(const uint8_t *)contents, 0};
	struct tree_acls differing;
	char in_cell[2 * PATH_MAX];
	ssize_t n = -1;
	int error = 0;
	bool allowed;

	/* A file that is read to its end is of one version. */
	while (from >= 0 &&
	       (n = read(from, contents + data.len, LIMIT_CONTENTS + 1 - data.len)) > 0)
		data.len += (size_t)n;
	if (n < 0) {
		failed(t, t->from_name, path, errno);
		goto end;
	}
	allowed =
	    !exists || (compare_acls(t, path, path, &differing) && has_version(t, path, acls));
	snprintf(in_cell, sizeof in_cell, "%s/%s", t->to_inside, path);
	if (exists && allowed)
		error = differing.any ? tree_replace(t->to, in_cell, data, &differing)
		                      : write_file(t, path, data);
	if (error == EILSEQ) { /* another file, which no transaction has to name */
		error = unlinkat(t->to, path, 0) < 0 ? errno : 0;
		exists = false;
	}
	if (!exists && error == 0)
		error = make_file(t, path, data, acls, worker, &allowed);
	if (error != 0)
		failed(t, t->to_name, path, error);
	else
		t->copied += allowed;
end:
	if (from >= 0)
		close(from);
	free(contents);
}

/* Makes a node equal, but not what is in a directory. True for a directory. */
static bool
copy_node(struct tree_copy *t, const char *path, int worker)
{
	char ours[ATTRIBUTE], theirs[ATTRIBUTE], acls[VERSION];
	enum kind from, to;
	off_t from_size, to_size;

	if (!look(t, t->from, path, &from, &from_size) || !look(t, t->to, path, &to, &to_size))
		return false;
	if (from == EPHEMERAL_NODE)
		from = NONE;
	if (to == EPHEMERAL_NODE) {
		if (from != NONE)
			failed(t, t->to_name, path, EBUSY);
		return false;
	}
	if (to != NONE && from != to) {
		delete (t, path);
		to = NONE;
	}
	if (from == NONE || t->broken != 0)
		return false;

	if (from == DIRECTORY_NODE && to == NONE) {
		if (mkdirat(t->to, path, 0777) < 0) {
			failed(t, t->to_name, path, errno);
			return false;
		}
		if (!copy_acls(t, path, path)) {
			unlinkat(t->to, path, AT_REMOVEDIR);
			return false;
		}
		t->copied++;
		return t->broken == 0;
	}
	if (from == FILE_NODE) {
		if (!attribute(t, t->from, path, "user.ls.checksum", theirs) ||
		    (to != NONE && !attribute(t, t->to, path, "user.ls.checksum", ours)))
			return false;
		if (to == NONE || from_size != to_size || theirs[0] == '\0' ||
		    strcmp(ours, theirs) != 0) {
			if (version_of_acls(t, path, acls))
				copy_contents(t, path, acls, to == FILE_NODE, worker);
			return false;
		}
	}
	copy_acls(t, path, path);
	return from == DIRECTORY_NODE && t->broken == 0;
}

/* ---- directories ---- */

/* Paths that are taken one after the other by workers: the way to the cells is long, and is not
 * waited for by each alone. */
struct pool {
	struct tree_copy *t;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct names paths; /* a directory's contents follow it */
	int busy;           /* workers that may add paths */
	int workers;
	pthread_t threads[WORKERS];
};

static void *work(void *user);

/* Puts the names below the directory into the pool, in which workers for them begin. */
static void
spread(struct pool *p, const char *path, const struct names *names)
{
	char child[PATH_MAX];

	for (size_t i = 0; i < names->n; i++) {
		join(child, path, names->list[i]);
		ARRAY_ROOM(p->paths.list, p->paths.n, p->paths.room);
		p->paths.list[p->paths.n++] = bytes_to_text(bytes_of(child));
	}
	while (p->workers < WORKERS && (size_t)p->workers < p->paths.n &&
	       pthread_create(&p->threads[p->workers], NULL, work, p) == 0)
		p->workers++;
	pthread_cond_broadcast(&p->changed);
}

/* Deletes what the source does not have, and adds what it has to the pool. */
static void
enter(struct pool *p, const char *path)
{
	struct tree_copy *t = p->t;
	const int fd = openat(t->from, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct names from = {0}, to = {0};
	char child[PATH_MAX];
	int error;

	if (fd < 0) {
		failed(t, t->from_name, path, errno);
		return;
	}
	pthread_mutex_lock(&p->lock);
	t->entered(t->user, path, fd);
	pthread_mutex_unlock(&p->lock);
	if ((error = list(t, t->from, path, &from)) != 0)
		failed(t, t->from_name, path, error);
	else if ((error = list(t, t->to, path, &to)) != 0)
		failed(t, t->to_name, path, error);
	for (size_t i = 0; i < to.n && error == 0 && t->broken == 0; i++) {
		if (from.n > 0 &&
		    bsearch(&to.list[i], from.list, from.n, sizeof *from.list, compare))
			continue;
		join(child, path, to.list[i]);
		delete (t, child);
	}
	pthread_mutex_lock(&p->lock);
	if (error == 0)
		spread(p, path, &from);
	pthread_mutex_unlock(&p->lock);
	names_free(&from);
	names_free(&to);
}

static void *
work(void *user)
{
	struct pool *p = user;
	int worker = 0;

	pthread_mutex_lock(&p->lock);
	while (!pthread_equal(p->threads[worker], pthread_self()))
		worker++;
	while (p->paths.n > 0 || p->busy > 0) {
		char *path;

		if (p->paths.n == 0) {
			pthread_cond_wait(&p->changed, &p->lock);
			continue;
		}
		path = p->paths.list[--p->paths.n];
		p->busy++;
		pthread_mutex_unlock(&p->lock);
		if (p->t->broken == 0 && copy_node(p->t, path, worker))
			enter(p, path);
		free(path);
		pthread_mutex_lock(&p->lock);
		if (--p->busy == 0)
			pthread_cond_broadcast(&p->changed);
	}
	pthread_mutex_unlock(&p->lock);
	return NULL;
}

bool
tree_copy_directory(struct tree_copy *t, const char *path)
{
	struct pool *p = memory_zero(1, sizeof *p);

	p->t = t;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	enter(p, path);
	pthread_mutex_lock(&p->lock);
	for (int i = 0; i < p->workers; i++) { /* more may begin meanwhile */
		pthread_mutex_unlock(&p->lock);
		pthread_join(p->threads[i], NULL);
		pthread_mutex_lock(&p->lock);
	}
	pthread_mutex_unlock(&p->lock);
	if (p->paths.n > 0) /* no thread could be made */
		failed(t, t->to_name, ".", EAGAIN);
	names_free(&p->paths);
	pthread_mutex_destroy(&p->lock);
	pthread_cond_destroy(&p->changed);
	free(p);
	return t->broken == 0;
}

bool
tree_copy_node(struct tree_copy *t, const char *path)
{
	if (strchr(path, '/') == NULL && is_left_alone(t, ".", path))
		return true;
	if (copy_node(t, path, 0))
		tree_copy_directory(t, path);
	return t->broken == 0;
}

void
tree_copy_clean(struct tree_copy *t)
{
	char beside[32];

	for (int i = 0; i < WORKERS; i++) {
		snprintf(beside, sizeof beside, BESIDE ".%d", i);
		unlinkat(t->to, beside, 0);
	}
}
