#include "cell/config/cell_file.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/sys/file.h"
#include "cell/config/key_file.h"

struct parse {
	FILE *file;
	struct cell_file *cell_file;
	int line;
	bool named, identified, keyed, private_given;
	bool addressed[LIMIT_REPLICAS], replica_keyed[LIMIT_REPLICAS];
	char problem[256]; /* the first problem found; empty: none */
	int problem_line;
};

bool
cell_file_cell_name_valid(const char *name)
{
	size_t len = strlen(name);

	if (len < 1 || len > LIMIT_CELL_NAME || !isalnum((unsigned char)name[0]))
		return false;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)name[i];

		if (c >= 0x80 || (!isalnum(c) && strchr("._-", c) == NULL))
			return false;
	}
	return true;
}

static bool
port_valid(const char *text)
{
	char *end;
	unsigned long port;

	if (!isdigit((unsigned char)text[0]) || strlen(text) > 5)
		return false;
	port = strtoul(text, &end, 10);
	return *end == '\0' && port >= 1 && port <= 65535;
}

static const char in_name[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                              "0123456789.-_";

bool
cell_file_address_valid(const char *address)
{
	static const char in_brackets[] = "0123456789abcdefABCDEF:.";
	size_t host;

	if (address[0] == '[') {
		host = 1 + strspn(address + 1, in_brackets);
		host = host >= 3 && address[host] == ']' ? host + 1 : 0;
	} else {
		host = strspn(address, in_name);
	}
	return host >= 1 && host <= CELL_FILE_HOST_MAX && address[host] == ':' &&
	       port_valid(address + host + 1);
}

bool
cell_file_locate(const char *cell, char *path, size_t path_size)
{
	const int len = snprintf(path, path_size, CELL_FILE_DIRECTORY "/%s.conf", cell);
	bool named = cell_file_cell_name_valid(cell) && len > 0 && (size_t)len < path_size;
	struct stat st;

	/* Where neither a cell file nor a file of this name exists, the text's form decides, so
	 * that messages name the place where the user would expect it. */
	if (named && access(path, F_OK) < 0 && stat(cell, &st) == 0 && S_ISREG(st.st_mode))
		named = false;
	if (!named)
		snprintf(path, path_size, "%s", cell);
	return named;
}

static int __attribute__((format(printf, 2, 3))) problem(struct parse *p, const char *format, ...)
{
	va_list args;

	if (p->problem[0] != '\0')
		return 0;
	va_start(args, format);
	vsnprintf(p->problem, sizeof p->problem, format, args);
	va_end(args);
	p->problem_line = p->line;
	return 0;
}

static int
index_value(struct parse *p, const char *name, const char *value, uint64_t *index)
{
	char *end;

	if (*index != 0)
		return problem(p, "%s: given twice: %s", name, value);
	errno = 0;
	*index = strtoull(value, &end, 10);
	if (value[0] < '1' || value[0] > '9' || *end != '\0' || errno != 0)
		return problem(p, "%s: not a log index: %s", name, value);
	return 1;
}

static int
private_value(struct parse *p, const char *value)
{
	if (p->private_given)
		return problem(p, "private: given twice: %s", value);
	if (strcmp(value, "yes") != 0 && strcmp(value, "no") != 0)
		return problem(p, "private: neither yes nor no: %s", value);
	p->cell_file->is_private = value[0] == 'y';
	p->private_given = true;
	return 1;
}

static int
listen_value(struct parse *p, const char *value)
{
	if (p->cell_file->listen[0] != '\0')
		return problem(p, "listen: given twice: %s", value);
	if (!cell_file_address_valid(value))
		return problem(p, "listen: not HOST:PORT: %s", value);
	snprintf(p->cell_file->listen, sizeof p->cell_file->listen, "%s", value);
	return 1;
}

static int
former_value(struct parse *p, const char *value)
{
	if (p->cell_file->has_former)
		return problem(p, "former_signing_key: given twice: %s", value);
	if (!key_from_text(value, p->cell_file->former_public, SIGN_PUBLIC))
		return problem(p, "former_signing_key: not a key: %s", value);
	p->cell_file->has_former = true;
	return 1;
}

static int
srv_value(struct parse *p, const char *value)
{
	if (p->cell_file->srv[0] != '\0')
		return problem(p, "srv: given twice: %s", value);
	if (value[0] == '\0' || strlen(value) > CELL_FILE_HOST_MAX ||
	    strspn(value, in_name) != strlen(value))
		return problem(p, "srv: not a DNS name: %s", value);
	snprintf(p->cell_file->srv, sizeof p->cell_file->srv, "%s", value);
	return 1;
}

static int
cell_value(struct parse *p, const char *name, const char *value)
{
	if (strcmp(name, "name") == 0) {
		if (p->named)
			return problem(p, "name: given twice: %s", value);
		if (!cell_file_cell_name_valid(value))
			return problem(p, "name: not a cell's name: %s", value);
		snprintf(p->cell_file->name, sizeof p->cell_file->name, "%s", value);
		p->named = true;
		return 1;
	}
	if (strcmp(name, "id") == 0) {
		if (p->identified)
			return problem(p, "id: given twice: %s", value);
		if (!key_from_text(value, p->cell_file->id, CELL_ID))
			return problem(p, "id: not a cell's id: %s", value);
		p->identified = true;
		return 1;
	}
	if (strcmp(name, "signing_key") == 0) {
		if (p->keyed)
			return problem(p, "signing_key: given twice: %s", value);
		if (!key_from_text(value, p->cell_file->signing_public, SIGN_PUBLIC))
			return problem(p, "signing_key: not a key: %s", value);
		p->keyed = true;
		return 1;
	}
	if (strcmp(name, "former_signing_key") == 0)
		return former_value(p, value);
	if (strcmp(name, "admin_key") == 0) {
		if (p->cell_file->has_admin)
			return problem(p, "admin_key: given twice: %s", value);
		if (!key_from_text(value, p->cell_file->admin_public, NOISE_KEY))
			return problem(p, "admin_key: not a key: %s", value);
		p->cell_file->has_admin = true;
		return 1;
	}
	if (strcmp(name, "private") == 0)
		return private_value(p, value);
	if (strcmp(name, "version") == 0)
		return index_value(p, name, value, &p->cell_file->version);
	if (strcmp(name, "key_version") == 0)
		return index_value(p, name, value, &p->cell_file->key_version);
	if (strcmp(name, "listen") == 0)
		return listen_value(p, value);
	if (strcmp(name, "srv") == 0)
		return srv_value(p, value);
	return problem(p, "unknown setting in [cell]: %s = %s", name, value);
}

/* "replica 7" -> 7; 0 when the section is not a replica's. */
static int
replica_id(const char *section)
{
	char *end;
	unsigned long id;

	if (strncmp(section, "replica ", 8) != 0 || !isdigit((unsigned char)section[8]))
		return 0;
	id = strtoul(section + 8, &end, 10);
	return *end == '\0' && id >= 1 && id <= 255 ? (int)id : 0;
}

/* The index of replica `id`, which is appended if it is new; negative: no room. */
static int
replica_index(struct cell_file *cell_file, int id)
{
	for (int i = 0; i < cell_file->replicas_n; i++) {
		if (cell_file->replicas[i].id == id)
			return i;
	}
	if (cell_file->replicas_n == LIMIT_REPLICAS)
		return -1;
	cell_file->replicas[cell_file->replicas_n].id = (uint8_t)id;
	return cell_file->replicas_n++;
}

static int
address_value(struct parse *p, int i, const char *value)
{
	struct cell_file_replica *r = &p->cell_file->replicas[i];

	if (p->addressed[i])
		return problem(p, "address: given twice: %s", value);
	if (value[0] != '\0' && !cell_file_address_valid(value))
		return problem(p, "address: not HOST:PORT: %s", value);
	snprintf(r->address, sizeof r->address, "%s", value);
	p->addressed[i] = true;
	return 1;
}

static int
key_value(struct parse *p, int i, const char *value)
{
	if (p->replica_keyed[i])
		return problem(p, "key: given twice: %s", value);
	if (!key_from_text(value, p->cell_file->replicas[i].public_key, NOISE_KEY))
		return problem(p, "key: not a key: %s", value);
	p->replica_keyed[i] = true;
	return 1;
}

static int
role_value(struct parse *p, int i, const char *value)
{
	struct cell_file_replica *r = &p->cell_file->replicas[i];

	if (r->role != 0)
		return problem(p, "role: given twice: %s", value);
	if (strcmp(value, "learner") == 0)
		r->role = MEMBER_LEARNER;
	else if (strcmp(value, "voter") == 0)
		r->role = MEMBER_VOTER;
	else
		return problem(p, "role: neither voter nor learner: %s", value);
	return 1;
}

static int
replica_value(struct parse *p, int id, const char *name, const char *value)
{
	int i = replica_index(p->cell_file, id);

	if (i < 0)
		return problem(p, "more than %d replicas", LIMIT_REPLICAS);
	if (strcmp(name, "address") == 0)
		return address_value(p, i, value);
	if (strcmp(name, "key") == 0)
		return key_value(p, i, value);
	if (strcmp(name, "role") == 0)
		return role_value(p, i, value);
	return problem(p, "unknown setting in [replica %d]: %s = %s", id, name, value);
}

static int
setting_value(struct parse *p, const char *name, const char *value)
{
	const uint8_t code = setting_named(name, strlen(name));
	uint64_t number;

	if (code == 0)
		return problem(p, "unknown setting: %s", name);
	if (p->cell_file->settings.value[code] != 0)
		return problem(p, "%s: given twice: %s", name, value);
	if (!setting_parse(code, value, &number) || number == 0)
		return problem(p, "%s: not %s: %s", name, setting_form(code), value);
	p->cell_file->settings.value[code] = number;
	return 1;
}

static int
on_value(void *user, const char *section, const char *name, const char *value)
{
	struct parse *p = user;
	int id = replica_id(section);

	if (strcmp(section, "cell") == 0)
		return cell_value(p, name, value);
	if (strcmp(section, "settings") == 0)
		return setting_value(p, name, value);
	if (id > 0)
		return replica_value(p, id, name, value);
	return problem(p, "unknown section [%s]", section);
}

/* Reads a line for inih. Counts lines, and refuses a line that inih would split in two. */
static char *
on_line(char *to, int size, void *user)
{
	struct parse *p = user;
	char *line = fgets(to, size, p->file);

	if (line == NULL && ferror(p->file))
		problem(p, "can't be read: %s", strerror(errno));
	if (line == NULL)
		return NULL;
	p->line++;
	if (strchr(line, '\n') == NULL && !feof(p->file))
		problem(p, "line too long: %.64s...", line);
	return line;
}

static void
check_different(struct parse *p, int i)
{
	const struct cell_file_replica *r = &p->cell_file->replicas[i];

	for (int k = 0; k < i; k++) {
		const struct cell_file_replica *other = &p->cell_file->replicas[k];

		if (strcmp(r->address, other->address) == 0)
			problem(p, "replicas %d and %d have the same address: %s", other->id, r->id,
			        r->address);
		if (memcmp(r->public_key, other->public_key, NOISE_KEY) == 0)
			problem(p, "replicas %d and %d have the same key", other->id, r->id);
	}
}

static void
check_network(struct parse *p)
{
	if (!p->cell_file->has_admin)
		problem(p, "no admin_key in [cell]");
	for (int i = 0; i < p->cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &p->cell_file->replicas[i];

		if (r->address[0] == '\0')
			problem(p, "no address in [replica %d]", r->id);
		if (!p->replica_keyed[i])
			problem(p, "no key in [replica %d]", r->id);
		check_different(p, i);
	}
}

static void
check_whole(struct parse *p)
{
	char why[LIMIT_WHY];

	p->line = 0;
	if (!p->named)
		problem(p, "no name in [cell]");
	if (!p->identified)
		problem(p, "no id in [cell]");
	if (!p->keyed)
		problem(p, "no signing_key in [cell]");
	if (settings_wrong(&p->cell_file->settings, why, sizeof why))
		problem(p, "%s", why);
	for (int i = 0; i < p->cell_file->replicas_n; i++)
		if (p->cell_file->replicas[i].role == 0)
			p->cell_file->replicas[i].role = MEMBER_VOTER;
	if (p->cell_file->replicas_n == 0)
		problem(p, "no [replica ID] section with its address");
	else if (!cell_file_is_standalone(p->cell_file) || !p->addressed[0])
		check_network(p);
}

bool
cell_file_read(const char *path, struct cell_file *cell_file, char *why, size_t why_size)
{
	struct parse p = {.file = fopen(path, "re"), .cell_file = cell_file};
	int bad;

	memset(cell_file, 0, sizeof *cell_file);
	if (p.file == NULL) {
		snprintf(why, why_size, "%s: %s", path, strerror(errno));
		return false;
	}
	bad = ini_parse_stream(on_line, &p, on_value, &p);
	if (bad > 0 && p.problem[0] == '\0') {
		p.line = bad;
		problem(&p, "not \"[section]\" nor \"name = value\"");
	}
	if (bad < 0) /* inih ran out of memory */
		problem(&p, "can't be read: %s", strerror(ENOMEM));
	check_whole(&p);
	fclose(p.file);
	if (p.problem[0] == '\0')
		return true;
	if (p.problem_line > 0)
		snprintf(why, why_size, "%s:%d: %s", path, p.problem_line, p.problem);
	else
		snprintf(why, why_size, "%s: %s", path, p.problem);
	return false;
}

static void
put_key(struct buffer *text, const char *name, const uint8_t *key, size_t len)
{
	char value[KEY_TEXT];

	must(key_to_text(key, len, value, sizeof value));
	buffer_printf(text, "%s = %s\n", name, value);
}

static void
put_settings(struct buffer *text, const struct settings *settings)
{
	const char *heading = "\n[settings]\n";
	char value[SETTING_TEXT];

	for (uint8_t code = 1; code < SETTING_CODES; code++) {
		if (settings->value[code] == 0)
			continue;
		setting_print(code, settings->value[code], value);
		buffer_printf(text, "%s%s = %s\n", heading, setting_info(code)->name, value);
		heading = "";
	}
}

static void
put_text(struct buffer *text, const struct cell_file *cell_file)
{
	buffer_printf(text,
	              "# The cell file: the same for every replica and client. No secrets.\n"
	              "[cell]\nname = %s\n",
	              cell_file->name);
	put_key(text, "id", cell_file->id, CELL_ID);
	put_key(text, "signing_key", cell_file->signing_public, SIGN_PUBLIC);
	if (cell_file->has_former)
		put_key(text, "former_signing_key", cell_file->former_public, SIGN_PUBLIC);
	if (cell_file->key_version > 0)
		buffer_printf(text, "key_version = %" PRIu64 "\n", cell_file->key_version);
	if (cell_file->has_admin)
		put_key(text, "admin_key", cell_file->admin_public, NOISE_KEY);
	if (cell_file->is_private)
		buffer_printf(text, "private = yes\n");
	if (cell_file->version > 0)
		buffer_printf(text, "version = %" PRIu64 "\n", cell_file->version);
	if (cell_file->srv[0] != '\0')
		buffer_printf(text, "srv = %s\n", cell_file->srv);
	if (cell_file->listen[0] != '\0')
		buffer_printf(text, "listen = %s\n", cell_file->listen);
	put_settings(text, &cell_file->settings);
	for (int i = 0; i < cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &cell_file->replicas[i];

		buffer_printf(text, "\n[replica %d]\naddress = %s\n", r->id, r->address);
		if (r->address[0] != '\0')
			put_key(text, "key", r->public_key, NOISE_KEY);
		if (r->role == MEMBER_LEARNER)
			buffer_printf(text, "role = learner\n");
	}
}

static int
put(const char *path, const struct cell_file *cell_file,
    int (*put_file)(const char *path, struct bytes contents, mode_t mode))
{
	struct buffer text = BUFFER(64 * 1024);
	int rc;

	put_text(&text, cell_file);
	rc = put_file(path, buffer_view(&text), 0644);
	buffer_free(&text);
	return rc;
}

int
cell_file_write(const char *path, const struct cell_file *cell_file)
{
	return put(path, cell_file, file_create);
}

int
cell_file_replace(const char *path, const struct cell_file *cell_file)
{
	return put(path, cell_file, file_replace);
}
