#include "cell/io/conf.h"

#include <ctype.h>
#include <errno.h>
#include <ini.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/io/file.h"
#include "cell/io/keyfile.h"

struct parse {
	FILE *file;
	struct conf *conf;
	int line;
	bool named, keyed;
	char problem[256]; /* the first one; empty: none */
	int problem_line;
};

bool
conf_cell_name_valid(const char *name)
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

static int __attribute__((format(printf, 2, 3)))
problem(struct parse *p, const char *format, ...)
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
cell_value(struct parse *p, const char *name, const char *value)
{
	if (strcmp(name, "name") == 0) {
		if (p->named)
			return problem(p, "name: given twice: %s", value);
		if (!conf_cell_name_valid(value))
			return problem(p, "name: not a cell's name: %s", value);
		snprintf(p->conf->name, sizeof p->conf->name, "%s", value);
		p->named = true;
		return 1;
	}
	if (strcmp(name, "signing_key") == 0) {
		if (p->keyed)
			return problem(p, "signing_key: given twice: %s", value);
		if (!key_from_text(value, p->conf->signing_public, SIGN_PUBLIC))
			return problem(p, "signing_key: not a key: %s", value);
		p->keyed = true;
		return 1;
	}
	return problem(p, "unknown setting in [cell]: %s = %s", name, value);
}

/* "replica 7" -> 7; 0 when it is no replica's section. */
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

static struct conf_replica *
find_replica(struct conf *conf, int id)
{
	for (int i = 0; i < conf->replicas_n; i++) {
		if (conf->replicas[i].id == id)
			return &conf->replicas[i];
	}
	return NULL;
}

static int
replica_value(struct parse *p, int id, const char *name, const char *value)
{
	struct conf *conf = p->conf;
	struct conf_replica *r = &conf->replicas[conf->replicas_n];

	if (strcmp(name, "address") != 0)
		return problem(p, "unknown setting in [replica %d]: %s = %s", id, name, value);
	if (find_replica(conf, id) != NULL)
		return problem(p, "replica %d: given twice", id);
	if (conf->replicas_n == LIMIT_REPLICAS)
		return problem(p, "more than %d replicas", LIMIT_REPLICAS);
	if (strlen(value) >= sizeof r->address)
		return problem(p, "address: too long: %.64s...", value);
	r->id = (uint8_t)id;
	snprintf(r->address, sizeof r->address, "%s", value);
	conf->replicas_n++;
	return 1;
}

static int
on_value(void *user, const char *section, const char *name, const char *value)
{
	struct parse *p = user;
	int id = replica_id(section);

	if (strcmp(section, "cell") == 0)
		return cell_value(p, name, value);
	if (id > 0)
		return replica_value(p, id, name, value);
	return problem(p, "unknown section [%s]", section);
}

/* Counts lines, and notices those that the parser would cut in two. */
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
check_whole(struct parse *p)
{
	p->line = 0;
	if (!p->named)
		problem(p, "no name in [cell]");
	if (!p->keyed)
		problem(p, "no signing_key in [cell]");
	if (p->conf->replicas_n == 0)
		problem(p, "no [replica ID] section with its address");
}

bool
conf_read(const char *path, struct conf *conf, char *why, size_t why_size)
{
	struct parse p = {.file = fopen(path, "re"), .conf = conf};
	int bad;

	memset(conf, 0, sizeof *conf);
	if (p.file == NULL) {
		snprintf(why, why_size, "%s: %s", path, strerror(errno));
		return false;
	}
	bad = ini_parse_stream(on_line, &p, on_value, &p);
	if (bad > 0 && p.problem[0] == '\0') {
		p.line = bad;
		problem(&p, "not \"[section]\" nor \"name = value\"");
	}
	if (bad < 0) /* what the parser itself ran out of */
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

int
conf_write(const char *path, const struct conf *conf)
{
	struct buffer text = BUFFER(64 * 1024);
	char key[64];
	int rc;

	if (!key_to_text(conf->signing_public, SIGN_PUBLIC, key, sizeof key))
		return -EINVAL;
	buffer_printf(&text,
	              "# The cell file: the same for every replica and client. No secrets.\n");
	buffer_printf(&text, "[cell]\nname = %s\nsigning_key = %s\n", conf->name, key);
	for (int i = 0; i < conf->replicas_n; i++)
		buffer_printf(&text, "\n[replica %d]\naddress = %s\n", conf->replicas[i].id,
		              conf->replicas[i].address);
	rc = file_create(path, buffer_view(&text), 0644);
	buffer_free(&text);
	return rc;
}
