#include "cell/config/cell_file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ini.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/sys/file.h"
#include "cell/config/key_file.h"

struct parse {
	FILE *file;
	struct cell_file *cell_file;
	int line;
	unsigned given; /* a bit for each value of [cell] */
	unsigned replica_given[LIMIT_REPLICAS];
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

/* ---- the values ---- */

static bool
read_name(const char *text, void *to)
{
	return cell_file_cell_name_valid(text) && strcpy(to, text) != NULL;
}

static bool
read_id(const char *text, void *to)
{
	return key_from_text(text, to, CELL_ID);
}

static bool
read_key(const char *text, void *to)
{
	return key_from_text(text, to, NOISE_KEY);
}

static bool
read_yes_no(const char *text, void *to)
{
	*(bool *)to = text[0] == 'y';
	return strcmp(text, "yes") == 0 || strcmp(text, "no") == 0;
}

static bool
read_index(const char *text, void *to)
{
	char *end;

	errno = 0;
	*(uint64_t *)to = strtoull(text, &end, 10);
	return text[0] >= '1' && text[0] <= '9' && *end == '\0' && errno == 0;
}

static bool
read_address(const char *text, void *to)
{
	return cell_file_address_valid(text) && strcpy(to, text) != NULL;
}

/* The address is empty in a cell in one process. */
static bool
read_replica_address(const char *text, void *to)
{
	return text[0] == '\0' || read_address(text, to);
}

static bool
read_srv(const char *text, void *to)
{
	return text[0] != '\0' && strlen(text) <= CELL_FILE_HOST_MAX &&
	       strspn(text, in_name) == strlen(text) && strcpy(to, text) != NULL;
}

static bool
read_role(const char *text, void *to)
{
	*(enum member_role *)to = strcmp(text, "learner") == 0 ? MEMBER_LEARNER : MEMBER_VOTER;
	return strcmp(text, "learner") == 0 || strcmp(text, "voter") == 0;
}

struct value {
	const char *name;
	bool (*read)(const char *text, void *to); /* false: it is `wrong` */
	size_t offset;
	const char *wrong;
};

enum { NAME, ID, SIGNING_KEY, FORMER_KEY, ADMIN_KEY, CELL_VALUES = 10 };
static const struct value cell_values[CELL_VALUES] = {
    [NAME] = {"name", read_name, offsetof(struct cell_file, name), "not a cell's name"},
    [ID] = {"id", read_id, offsetof(struct cell_file, id), "not a cell's id"},
    [SIGNING_KEY] = {"signing_key", read_key, offsetof(struct cell_file, signing_public),
                     "not a key"},
    [FORMER_KEY] = {"former_signing_key", read_key, offsetof(struct cell_file, former_public),
                    "not a key"},
    [ADMIN_KEY] = {"admin_key", read_key, offsetof(struct cell_file, admin_public), "not a key"},
    {"private", read_yes_no, offsetof(struct cell_file, is_private), "neither yes nor no"},
    {"version", read_index, offsetof(struct cell_file, version), "not a log index"},
    {"key_version", read_index, offsetof(struct cell_file, key_version), "not a log index"},
    {"listen", read_address, offsetof(struct cell_file, listen), "not HOST:PORT"},
    {"srv", read_srv, offsetof(struct cell_file, srv), "not a DNS name"},
};

enum { ADDRESS, KEY, ROLE, REPLICA_VALUES };
static const struct value replica_values[REPLICA_VALUES] = {
    [ADDRESS] = {"address", read_replica_address, offsetof(struct cell_file_replica, address),
                 "not HOST:PORT"},
    [KEY] = {"key", read_key, offsetof(struct cell_file_replica, public_key), "not a key"},
    [ROLE] = {"role", read_role, offsetof(struct cell_file_replica, role),
              "neither voter nor learner"},
};

/* Reads a value that the table has; negative if it has none of this name. */
static int
read_value(struct parse *p, const struct value *table, int n, unsigned *given, void *to,
           const char *name, const char *text)
{
	for (int i = 0; i < n; i++) {
		if (strcmp(name, table[i].name) != 0)
			continue;
		if ((*given & 1u << i) != 0)
			return problem(p, "%s: given twice: %s", name, text);
		*given |= 1u << i;
		if (!table[i].read(text, (char *)to + table[i].offset))
			return problem(p, "%s: %s: %s", name, table[i].wrong, text);
		return 1;
	}
	return -1;
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
	return *end == '\0' && id >= 1 && id <= LIMIT_REPLICA_ID ? (int)id : 0;
}

/* The index of replica `id`, which is appended if it is new; negative: no room. */
static int
replica_index(struct cell_file *cell_file, int id)
{
	const int found = cell_file_find(cell_file, id);

	if (found >= 0 || cell_file->replicas_n == LIMIT_REPLICAS)
		return found;
	cell_file->replicas[cell_file->replicas_n].id = (uint8_t)id;
	return cell_file->replicas_n++;
}

static int
on_value(void *user, const char *section, const char *name, const char *value)
{
	struct parse *p = user;
	struct cell_file *cell_file = p->cell_file;
	const int id = replica_id(section);
	int i, rc;

	if (strcmp(section, "cell") == 0) {
		rc = read_value(p, cell_values, CELL_VALUES, &p->given, cell_file, name, value);
		return rc >= 0 ? rc : problem(p, "unknown setting in [cell]: %s = %s", name, value);
	}
	if (strcmp(section, "settings") == 0) {
		const uint8_t code = setting_named(name, strlen(name));
		uint64_t number;

		if (code == 0)
			return problem(p, "unknown setting: %s", name);
		if (cell_file->settings.value[code] != 0)
			return problem(p, "%s: given twice: %s", name, value);
		if (!setting_parse(code, value, &number) || number == 0)
			return problem(p, "%s: not %s: %s", name, setting_form(code), value);
		cell_file->settings.value[code] = number;
		return 1;
	}
	if (id == 0)
		return problem(p, "unknown section [%s]", section);
	i = replica_index(cell_file, id);
	if (i < 0)
		return problem(p, "more than %d replicas", LIMIT_REPLICAS);
	rc = read_value(p, replica_values, REPLICA_VALUES, &p->replica_given[i],
	                &cell_file->replicas[i], name, value);
	return rc >= 0 ? rc
	               : problem(p, "unknown setting in [replica %d]: %s = %s", id, name, value);
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
check_whole(struct parse *p)
{
	char why[LIMIT_WHY];

	p->line = 0;
	p->cell_file->has_former = (p->given & 1u << FORMER_KEY) != 0;
	p->cell_file->has_admin = (p->given & 1u << ADMIN_KEY) != 0;
	if ((p->given & 1u << NAME) == 0)
		problem(p, "no name in [cell]");
	if ((p->given & 1u << ID) == 0)
		problem(p, "no id in [cell]");
	if ((p->given & 1u << SIGNING_KEY) == 0)
		problem(p, "no signing_key in [cell]");
	if (settings_wrong(&p->cell_file->settings, why, sizeof why))
		problem(p, "%s", why);
	for (int i = 0; i < p->cell_file->replicas_n; i++)
		if (p->cell_file->replicas[i].role == 0)
			p->cell_file->replicas[i].role = MEMBER_VOTER;
	if (p->cell_file->replicas_n == 0) {
		problem(p, "no [replica ID] section with its address");
	} else if (!cell_file_is_standalone(p->cell_file) ||
	           (p->replica_given[0] & 1u << ADDRESS) == 0) {
		if (!p->cell_file->has_admin)
			problem(p, "no admin_key in [cell]");
		for (int i = 0; i < p->cell_file->replicas_n; i++) {
			const struct cell_file_replica *r = &p->cell_file->replicas[i];

			if (r->address[0] == '\0')
				problem(p, "no address in [replica %d]", r->id);
			if ((p->replica_given[i] & 1u << KEY) == 0)
				problem(p, "no key in [replica %d]", r->id);
			check_different(p, i);
		}
	}
}

bool
cell_file_read(const char *path, struct cell_file *cell_file, char *why, size_t why_size)
{
	struct parse p = {.cell_file = cell_file};
	int bad, fd = file_open(path, O_RDONLY);

	memset(cell_file, 0, sizeof *cell_file);
	if (fd < 0) {
		snprintf(why, why_size, "%s: %s", path, file_why(fd));
		return false;
	}
	must((p.file = fdopen(fd, "r")) != NULL);
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
put_text(struct buffer *text, const struct cell_file *cell_file)
{
	const char *heading;
	char value[SETTING_TEXT];

	buffer_printf(text,
	              "# The cell file: the same for every replica and client. No secrets.\n"
	              "[cell]\nname = %s\n",
	              cell_file->name);
	key_put_setting(text, "id", cell_file->id, CELL_ID);
	key_put_setting(text, "signing_key", cell_file->signing_public, SIGN_PUBLIC);
	if (cell_file->has_former)
		key_put_setting(text, "former_signing_key", cell_file->former_public, SIGN_PUBLIC);
	if (cell_file->key_version > 0)
		buffer_printf(text, "key_version = %" PRIu64 "\n", cell_file->key_version);
	if (cell_file->has_admin)
		key_put_setting(text, "admin_key", cell_file->admin_public, NOISE_KEY);
	if (cell_file->is_private)
		buffer_printf(text, "private = yes\n");
	if (cell_file->version > 0)
		buffer_printf(text, "version = %" PRIu64 "\n", cell_file->version);
	if (cell_file->srv[0] != '\0')
		buffer_printf(text, "srv = %s\n", cell_file->srv);
	if (cell_file->listen[0] != '\0')
		buffer_printf(text, "listen = %s\n", cell_file->listen);

	heading = "\n[settings]\n";
	for (uint8_t code = 1; code < SETTING_CODES; code++) {
		if (cell_file->settings.value[code] == 0)
			continue;
		setting_print(code, cell_file->settings.value[code], value);
		buffer_printf(text, "%s%s = %s\n", heading, setting_info(code)->name, value);
		heading = "";
	}

	for (int i = 0; i < cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &cell_file->replicas[i];

		buffer_printf(text, "\n[replica %d]\naddress = %s\n", r->id, r->address);
		if (r->address[0] != '\0')
			key_put_setting(text, "key", r->public_key, NOISE_KEY);
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

/* ---- a newer list of replicas ---- */

/* A file of another user could name that user's machines as replicas. */
static bool
is_trusted(const char *path)
{
	struct stat st;

	return lstat(path, &st) == 0 && S_ISREG(st.st_mode) &&
	       (st.st_uid == 0 || st.st_uid == geteuid());
}

static bool
take(const char *directory, const char *name, struct cell_file *cell_file)
{
	char path[PATH_MAX], why[512];
	struct cell_file its;

	if (snprintf(path, sizeof path, "%s/%s/cell.conf", directory, name) >= PATH_MAX ||
	    !is_trusted(path) || !cell_file_read(path, &its, why, sizeof why) ||
	    its.version <= cell_file->version || memcmp(its.id, cell_file->id, sizeof its.id) != 0)
		return false;
	cell_file->version = its.version;
	cell_file->replicas_n = its.replicas_n;
	memcpy(cell_file->replicas, its.replicas, sizeof its.replicas);
	return true;
}

bool
cell_file_renew_in(const char *directory, struct cell_file *cell_file)
{
	bool newer = take(directory, ".", cell_file);
	DIR *dir = opendir(directory);
	const struct dirent *e;

	while (dir != NULL && (e = readdir(dir)) != NULL)
		if (cell_file_is_replica_directory(e->d_name))
			newer |= take(directory, e->d_name, cell_file);
	if (dir != NULL)
		closedir(dir);
	return newer;
}

bool
cell_file_renew(const char *path, struct cell_file *cell_file)
{
	char directory[PATH_MAX];
	bool newer;

	snprintf(directory, sizeof directory, "%s", path);
	newer = cell_file_renew_in(dirname(directory), cell_file);
	snprintf(directory, sizeof directory, LOCALSTATEDIR "/lib/lsfs/%s", cell_file->name);
	return cell_file_renew_in(directory, cell_file) || newer;
}
