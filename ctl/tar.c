#include "ctl/tar.h"

#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { BLOCK = 512, PAX_MOST = 64 * 1024 };

#define XATTR "SCHILY.xattr."

const char *const tar_attributes[TAR_ATTRIBUTES] = {
    "user.ls.acl.read",    "user.ls.lock_delay",  "user.ls.lock_slots", "user.ls.ttl",
    "user.ls.quota.nodes", "user.ls.quota.bytes", "user.ls.acl.write",  "user.ls.acl.change",
};

/* POSIX.1-2017, pax, "ustar Interchange Format". Numbers are octal texts. */
struct header {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100];
	char magic[8], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};

static_assert(sizeof(struct header) == BLOCK, "a header is a block");

static unsigned
sum(struct header h)
{
	const unsigned char *at = (const unsigned char *)&h;
	unsigned all = 0;

	memset(h.checksum, ' ', sizeof h.checksum);
	for (size_t i = 0; i < sizeof h; i++)
		all += at[i];
	return all;
}

/* ---- writing ---- */

static void
put_blocks(FILE *to, struct bytes data)
{
	static const char zeros[BLOCK];

	if (data.len > 0)
		fwrite(data.data, 1, data.len, to);
	fwrite(zeros, 1, (BLOCK - data.len % BLOCK) % BLOCK, to);
}

static void
put_header(FILE *to, const char *name, char type, mode_t mode, int64_t mtime, size_t size)
{
	const size_t len = strlen(name);
	struct header h = {.type = type, .magic = "ustar\00000"};

	memcpy(h.name, name, len < sizeof h.name ? len : sizeof h.name);
	snprintf(h.mode, sizeof h.mode, "%07o", (unsigned)mode & 07777);
	snprintf(h.uid, sizeof h.uid, "%07o", 0);
	snprintf(h.gid, sizeof h.gid, "%07o", 0);
	snprintf(h.size, sizeof h.size, "%011zo", size);
	snprintf(h.mtime, sizeof h.mtime, "%011" PRIo64,
	         mtime >= 0 && mtime < INT64_C(1) << 33 ? mtime : 0);
	snprintf(h.checksum, sizeof h.checksum, "%06o", sum(h));
	h.checksum[7] = ' ';
	fwrite(&h, 1, sizeof h, to);
}

/* "LENGTH KEY=VALUE\n", of which the length counts its own digits. */
static void
put_record(struct buffer *to, const char *prefix, const char *key, const char *value)
{
	const size_t rest = strlen(prefix) + strlen(key) + strlen(value) + 3;
	size_t len = rest;

	while (len != rest + (size_t)snprintf(NULL, 0, "%zu", len))
		len = rest + (size_t)snprintf(NULL, 0, "%zu", len);
	buffer_printf(to, "%zu %s%s=%s\n", len, prefix, key, value);
}

void
tar_write(FILE *to, const struct tar_entry *e, struct bytes contents)
{
	struct buffer pax = BUFFER(PAX_MOST);
	char name[LIMIT_PATH + 2];

	snprintf(name, sizeof name, "%s%s", e->name, e->directory ? "/" : "");
	if (strlen(name) > sizeof((struct header *)0)->name)
		put_record(&pax, "", "path", name);
	for (size_t i = 0; i < TAR_ATTRIBUTES; i++)
		if (e->values[i][0] != '\0')
			put_record(&pax, XATTR, tar_attributes[i], e->values[i]);
	if (pax.len > 0) {
		put_header(to, "pax", 'x', 0644, 0, pax.len);
		put_blocks(to, buffer_view(&pax));
	}
	buffer_free(&pax);
	put_header(to, name, e->directory ? '5' : '0', e->mode, e->mtime, contents.len);
	put_blocks(to, contents);
}

void
tar_write_end(FILE *to)
{
	static const char zeros[2 * BLOCK];

	fwrite(zeros, 1, sizeof zeros, to);
}

/* ---- reading ---- */

static enum tar_read __attribute__((format(printf, 2, 3)))
refuse(char why[TAR_WHY], const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why, TAR_WHY, format, arguments);
	va_end(arguments);
	return TAR_REFUSED;
}

/* A number as a header has it; false for any other text. */
static bool
octal(const char *text, size_t room, uint64_t *number)
{
	size_t at = 0;

	*number = 0;
	while (at < room && text[at] == ' ')
		at++;
	for (; at < room && text[at] >= '0' && text[at] <= '7'; at++)
		*number = *number * 8 + (uint64_t)(text[at] - '0');
	return at == room || text[at] == '\0' || text[at] == ' ';
}

/* Reads the data of an entry, with the rest of its last block, in place of what is in the buffer;
 * false if the archive ends before, or the data are longer than the buffer may be. */
static bool
read_data(FILE *from, uint64_t size, struct buffer *to)
{
	char block[BLOCK];

	buffer_reset(to);
	for (uint64_t left = size; left > 0 && !to->failed;) {
		const size_t n = left < BLOCK ? (size_t)left : BLOCK;

		if (fread(block, 1, BLOCK, from) != BLOCK)
			return false;
		buffer_put(to, block, n);
		left -= n;
	}
	return !to->failed;
}

static void
take_text(char *to, size_t room, struct bytes text)
{
	snprintf(to, room, "%.*s", (int)text.len, (const char *)text.data);
}

/* An extended header, which is about the entry that follows. */
struct extended {
	char name[LIMIT_PATH + 2]; /* empty: the header's */
	bool has_size;
	uint64_t size;
};

/* False for a record that cannot be. */
static bool
take_record(struct extended *x, struct tar_entry *e, struct bytes key, struct bytes value)
{
	if (memchr(value.data, '\0', value.len) != NULL)
		return false;
	if (bytes_equal(key, bytes_of("path"))) {
		take_text(x->name, sizeof x->name, value);
		return value.len > 0 && value.len < sizeof x->name;
	}
	if (bytes_equal(key, bytes_of("size"))) {
		int64_t size;

		x->has_size = bytes_number(value, &size) && size >= 0;
		x->size = x->has_size ? (uint64_t)size : 0;
		return x->has_size;
	}
	for (size_t i = 0; i < TAR_ATTRIBUTES; i++) {
		char full[64];

		snprintf(full, sizeof full, XATTR "%s", tar_attributes[i]);
		if (!bytes_equal(key, bytes_of(full)))
			continue;
		take_text(e->values[i], sizeof e->values[i], value);
		return value.len < sizeof e->values[i];
	}
	return true;
}

static bool
take_records(struct extended *x, struct tar_entry *e, struct bytes all)
{
	while (all.len > 0) {
		const uint8_t *blank = memchr(all.data, ' ', all.len), *equals;
		struct bytes key;
		int64_t len;

		if (blank == NULL ||
		    !bytes_number((struct bytes){all.data, (size_t)(blank - all.data)}, &len) ||
		    len < blank - all.data + 3 || (uint64_t)len > all.len ||
		    all.data[len - 1] != '\n')
			return false;
		key.data = blank + 1;
		key.len = (size_t)(all.data + len - 1 - key.data);
		equals = memchr(key.data, '=', key.len);
		if (equals == NULL)
			return false;
		if (!take_record(x, e, (struct bytes){key.data, (size_t)(equals - key.data)},
		                 (struct bytes){equals + 1, (size_t)(all.data + len - 2 - equals)}))
			return false;
		all = (struct bytes){all.data + len, all.len - (size_t)len};
	}
	return true;
}

/* The name as a path in the directory; false if it leads elsewhere, or no node can have it. */
static bool
take_name(struct tar_entry *e, const char *name)
{
	size_t len, from = 0;

	while (strncmp(name, "./", 2) == 0)
		name += 2;
	len = strlen(name);
	while (len > 0 && name[len - 1] == '/')
		len--;
	if (len > LIMIT_PATH || (len == 0 && name[0] == '/'))
		return false;
	if (len == 1 && name[0] == '.')
		len = 0;
	snprintf(e->name, sizeof e->name, "%.*s", (int)len, name);
	for (size_t i = 0; i <= len && len > 0; i++) {
		const size_t part = i - from;

		if (i < len && ((unsigned char)name[i] < 0x20 || name[i] == 0x7f))
			return false;
		if (i < len && name[i] != '/')
			continue;
		if (part == 0 || part > LIMIT_NAME || (part == 1 && name[from] == '.') ||
		    (part == 2 && strncmp(name + from, "..", 2) == 0))
			return false;
		from = i + 1;
	}
	return true;
}

static enum tar_read
take_entry(FILE *from, const struct header *h, uint64_t size, const struct extended *x,
           struct tar_entry *e, struct buffer *contents, char why[TAR_WHY])
{
	char name[sizeof h->prefix + sizeof h->name + 2];
	const bool ustar = strncmp(h->magic, "ustar", 5) == 0;

	snprintf(name, sizeof name, "%.*s%s%.*s", ustar ? (int)sizeof h->prefix : 0, h->prefix,
	         ustar && h->prefix[0] != '\0' ? "/" : "", (int)sizeof h->name, h->name);
	if (!take_name(e, x->name[0] != '\0' ? x->name : name))
		return refuse(why, "the archive has a name that leads elsewhere, or is none");
	if (h->type != '0' && h->type != '\0' && h->type != '5')
		return refuse(why, "%.200s is no file and no directory", e->name);
	e->directory = h->type == '5';
	if (size > (e->directory ? 0 : LIMIT_CONTENTS))
		return refuse(why, "%.200s is longer than %d bytes", e->name, LIMIT_CONTENTS);
	if (e->name[0] == '\0' && !e->directory)
		return refuse(why, "the archive has a file without a name");
	return read_data(from, size, contents) ? TAR_READ
	                                       : refuse(why, "the archive ends too early");
}

enum tar_read
tar_read(FILE *from, struct tar_entry *e, struct buffer *contents, char why[TAR_WHY])
{
	static const struct header end;
	struct extended x = {.size = 0};
	bool sound = true;

	*e = (struct tar_entry){.mtime = 0};
	while (sound) {
		struct buffer data = BUFFER(PAX_MOST);
		struct header h;
		uint64_t size, number;

		if (fread(&h, 1, sizeof h, from) != sizeof h)
			return refuse(why, "the archive ends too early");
		if (memcmp(&h, &end, sizeof h) == 0)
			return TAR_END;
		if (!octal(h.checksum, sizeof h.checksum, &number) || number != sum(h) ||
		    !octal(h.size, sizeof h.size, &size))
			return refuse(why, "this is no tar archive, or it is damaged");
		if (h.type != 'x' && h.type != 'g' && h.type != 'L')
			return take_entry(from, &h, x.has_size ? x.size : size, &x, e, contents,
			                  why);
		/* The header says something of the next entry. */
		sound = read_data(from, size, &data);
		if (sound && h.type == 'x')
			sound = take_records(&x, e, buffer_view(&data));
		if (sound && h.type == 'L') {
			take_text(x.name, sizeof x.name, buffer_view(&data));
			sound = data.len > 0 && data.len <= sizeof x.name;
		}
		buffer_free(&data);
	}
	return refuse(why, "the archive has a damaged extended header");
}
