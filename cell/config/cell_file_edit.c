#include "cell/config/cell_file_edit.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/config/key_file.h"
#include "cell/sys/file.h"

enum { TEXT_MAX = 64 * 1024 };

struct edit {
	const struct cell_file *was, *is;
	struct buffer *to;
	struct buffer held;         /* comments and blank lines: they belong to what follows */
	bool in_cell, cell_written; /* the file may have more than one section of the cell */
	int id;                     /* of the replica in whose section the line is; 0: in none */
	bool written[LIMIT_REPLICA_ID + 1];
};

static const struct cell_file_replica *
find(const struct cell_file *cell_file, int id)
{
	const int found = cell_file_find(cell_file, id);

	return found >= 0 ? &cell_file->replicas[found] : NULL;
}

static bool
has_changed(const struct edit *e, int id)
{
	const struct cell_file_replica *was = find(e->was, id), *is = find(e->is, id);

	return was == NULL || is == NULL || strcmp(was->address, is->address) != 0 ||
	       memcmp(was->public_key, is->public_key, sizeof is->public_key) != 0 ||
	       was->role != is->role;
}

static void
put_replica(struct edit *e, const struct cell_file_replica *r)
{
	buffer_printf(e->to, "address = %s\n", r->address);
	key_put_setting(e->to, "key", r->public_key, sizeof r->public_key);
	if (r->role == MEMBER_LEARNER)
		buffer_printf(e->to, "role = learner\n");
}

static bool
keys_have_changed(const struct edit *e)
{
	return e->is->has_former &&
	       memcmp(e->was->signing_public, e->is->signing_public, SIGN_PUBLIC) != 0;
}

/* The end of the cell's first section gets the lines that have changed. */
static void
end_section(struct edit *e)
{
	const bool first = e->in_cell && !e->cell_written;

	if (first && keys_have_changed(e)) {
		key_put_setting(e->to, "signing_key", e->is->signing_public, SIGN_PUBLIC);
		key_put_setting(e->to, "former_signing_key", e->is->former_public, SIGN_PUBLIC);
		if (e->is->key_version > 0)
			buffer_printf(e->to, "key_version = %" PRIu64 "\n", e->is->key_version);
	}
	if (first && e->is->version > 0)
		buffer_printf(e->to, "version = %" PRIu64 "\n", e->is->version);
	e->cell_written |= e->in_cell;
	e->in_cell = false;
}

static void
put_held(struct edit *e)
{
	buffer_put_bytes(e->to, buffer_view(&e->held));
	buffer_reset(&e->held);
}

/* ---- lines ---- */

static bool
begins_with(struct bytes line, const char *text)
{
	return line.len >= strlen(text) && memcmp(line.data, text, strlen(text)) == 0;
}

static struct bytes
trimmed(struct bytes line)
{
	while (line.len > 0 && strchr(" \t\r", line.data[0]) != NULL) {
		line.data++;
		line.len--;
	}
	return line;
}

static void
put_line(struct edit *e, struct bytes line)
{
	put_held(e);
	buffer_put_bytes(e->to, line);
	buffer_put_u8(e->to, '\n');
}

static void
section(struct edit *e, struct bytes line)
{
	end_section(e);
	e->in_cell = begins_with(line, "[cell]");
	e->id = begins_with(line, "[replica ") ? atoi((const char *)line.data + strlen("[replica "))
	                                       : 0;
	if (e->id != 0 && find(e->is, e->id) == NULL) {
		buffer_reset(&e->held);
		return;
	}
	put_line(e, line);
	if (e->id != 0 && has_changed(e, e->id) && !e->written[e->id])
		put_replica(e, find(e->is, e->id));
	if (e->id != 0)
		e->written[e->id] = true;
}

static bool
is_of(struct bytes line, const char *name)
{
	line = trimmed(line);
	if (!begins_with(line, name))
		return false;
	line = trimmed((struct bytes){line.data + strlen(name), line.len - strlen(name)});
	return begins_with(line, "=") || begins_with(line, ":");
}

/* The lines of a replica that has changed are written with its heading. */
static bool
is_obsolete(const struct edit *e, struct bytes line)
{
	if (e->id != 0)
		return has_changed(e, e->id);
	return e->in_cell && (is_of(line, "version") ||
	                      (keys_have_changed(e) &&
	                       (is_of(line, "signing_key") || is_of(line, "former_signing_key") ||
	                        is_of(line, "key_version"))));
}

void
cell_file_edit(struct bytes text, const struct cell_file *was, const struct cell_file *is,
               struct buffer *to)
{
	struct edit e = {.was = was, .is = is, .to = to, .held = BUFFER(TEXT_MAX)};

	while (text.len > 0) {
		const uint8_t *end = memchr(text.data, '\n', text.len);
		const size_t n = end != NULL ? (size_t)(end - text.data) : text.len;
		const struct bytes line = {text.data, n}, words = trimmed(line);

		if (words.len == 0 || words.data[0] == '#' || words.data[0] == ';') {
			buffer_put_bytes(&e.held, line);
			buffer_put_u8(&e.held, '\n');
		} else if (words.data[0] == '[') {
			section(&e, words);
		} else if (!is_obsolete(&e, line)) {
			put_line(&e, line);
		}
		text.data += n + (end != NULL);
		text.len -= n + (end != NULL);
	}
	end_section(&e);
	put_held(&e);
	for (int i = 0; i < is->replicas_n; i++) {
		if (e.written[is->replicas[i].id])
			continue;
		buffer_printf(to, "\n[replica %d]\n", is->replicas[i].id);
		put_replica(&e, &is->replicas[i]);
	}
	buffer_free(&e.held);
}

/* ---- the file ---- */

static int
refresh(const char *path, const struct cell_file *was, const struct cell_file *is)
{
	struct buffer text = BUFFER(TEXT_MAX), edited = BUFFER(2 * TEXT_MAX);
	int fd = file_open(path, O_RDONLY);
	struct stat st = {0};
	int rc = fd;

	if (fd >= 0)
		rc = fstat(fd, &st) < 0 ? -errno : file_read(fd, TEXT_MAX, &text);
	if (rc == 0) {
		cell_file_edit(buffer_view(&text), was, is, &edited);
		rc = edited.failed ? -EFBIG
		                   : file_replace(path, buffer_view(&edited), st.st_mode & 0777);
	}
	if (fd >= 0)
		close(fd);
	buffer_free(&text);
	buffer_free(&edited);
	return rc;
}

bool
cell_file_refresh(const char *path, const struct cell_file *is, char *why, size_t why_size)
{
	char canonical[PATH_MAX];
	struct cell_file was;
	int rc;

	if (!cell_file_read(path, &was, why, why_size))
		return false;
	rc = realpath(path, canonical) != NULL ? refresh(canonical, &was, is) : -errno;
	if (rc < 0)
		snprintf(why, why_size, "%s: %s", path, strerror(-rc));
	return rc == 0;
}
