/* The same read from text. */
#include "tests/transcripts/px_text.h"

#include <stdlib.h>
#include <string.h>
#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/wire/codec.h"

enum { LIST_MAX = 4 << 20 };

static void *
keep(struct px_text *t, void *block)
{
	ARRAY_ROOM(t->blocks, t->n, t->room);
	return t->blocks[t->n++] = block;
}

void
px_text_free(struct px_text *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->blocks[i]);
	free(t->blocks);
	*t = (struct px_text){0};
}

static uint64_t
read_number(struct script *s, const char **at)
{
	char *end;
	uint64_t v = strtoull(*at, &end, 10);

	if (end == *at || **at == '-')
		script_misuse(s, "a number is missing before \"%s\"", *at);
	*at = end;
	return v;
}

/* Goes over a character that must be next. */
static void
skip(struct script *s, const char **at, char c)
{
	if (**at != c)
		script_misuse(s, "'%c' is missing before \"%s\"", c, *at);
	++*at;
}

static bool
skip_if(const char **at, char c)
{
	*at += **at == c;
	return (*at)[-1] == c;
}

static struct ballot
read_ballot(struct script *s, const char **at)
{
	struct ballot b = {.round = read_number(s, at)};

	skip(s, at, '.');
	b.replica = (uint8_t)read_number(s, at);
	return b;
}

struct ballot
px_read_ballot(struct script *s, const char *text)
{
	struct ballot b = {0};

	if (text == NULL)
		return b;
	b = read_ballot(s, &text);
	if (*text != '\0')
		script_misuse(s, "\"%s\" is left behind a ballot", text);
	return b;
}

static struct mark
read_mark(struct script *s, const char **at)
{
	struct mark m = {.replica = (uint8_t)read_number(s, at)};

	skip(s, at, ':');
	m.incarnation = read_number(s, at);
	skip(s, at, ':');
	m.start = read_number(s, at);
	skip(s, at, ':');
	m.ballot = read_ballot(s, at);
	skip(s, at, ':');
	m.slot = read_number(s, at);
	if (!skip_if(at, ':'))
		return m;
	m.proof = px_text_proof(&m) + (strncmp(*at, "false", 5) == 0);
	*at += strspn(*at, "abcdefghijklmnopqrstuvwxyz");
	return m;
}

struct mark
px_read_mark(struct script *s, const char *text)
{
	return text ? read_mark(s, &text) : (struct mark){0};
}

static struct wire_list
read_members(struct script *s, struct px_text *t, const char *at)
{
	struct buffer list = BUFFER(LIMIT_ENTRY);
	uint32_t n = 0;

	for (; *at != '\0'; n++) {
		struct member m = {.id = (uint8_t)read_number(s, &at)};
		const char *role = *at ? strchr("vlr", *at) : NULL;

		if (role == NULL)
			script_misuse(s, "a role (v, l, r) is missing before \"%s\"", at);
		m.role = (uint8_t)(role - "vlr" + 1);
		at++;
		if (*at != '\0')
			skip(s, &at, '/');
		wire_put_member(&list, &m);
	}
	if (list.data != NULL)
		keep(t, list.data);
	return (struct wire_list){buffer_view(&list), n};
}

/* The payload of an entry that changes the members. */
static struct bytes
read_change(struct script *s, struct px_text *t, const char *at)
{
	struct buffer op = BUFFER(LIMIT_ENTRY), command = BUFFER(LIMIT_ENTRY);
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	struct op set = {.code = OP_set_members};

	set.set_members.version = read_number(s, &at);
	skip(s, &at, ':');
	set.set_members.members = read_members(s, t, at);
	wire_put_op(&op, &set);
	wire_put_command(&command, &(struct command){.op = buffer_view(&op)});
	wire_put_entry(&payload, &(struct entry){.commands = {buffer_view(&command), 1}});
	buffer_free(&op);
	buffer_free(&command);
	keep(t, payload.data);
	return buffer_view(&payload);
}

struct bytes
px_read_value(struct script *s, struct px_text *t, const char *text)
{
	const char *at = text;
	size_t n;

	if (strncmp(text, "members:", 8) == 0)
		return read_change(s, t, text + 8);
	if (text[0] != '\0' && text[1] == '*') {
		at += 2;
		n = read_number(s, &at);
		return (struct bytes){memset(keep(t, memory_zero(n + 1, 1)), text[0], n), n};
	}
	return (struct bytes){(uint8_t *)keep(t, strdup(text)), strlen(text)};
}

/* Reads "FIRST[-LAST]@BALLOT[/ORIGIN][<BEFORE][:VALUE][~]". Returns the last slot. */
static uint64_t
read_entry(struct script *s, struct px_text *t, const char *at, struct log_entry *e)
{
	uint64_t last;
	bool wrong = false;
	char *value;

	*e = (struct log_entry){.slot = read_number(s, &at)};
	last = skip_if(&at, '-') ? read_number(s, &at) : e->slot;
	skip(s, &at, '@');
	e->origin = e->ballot = read_ballot(s, &at);
	if (skip_if(&at, '/'))
		e->origin = read_ballot(s, &at);
	if (skip_if(&at, '<'))
		e->before = read_ballot(s, &at);
	value = keep(t, strdup(skip_if(&at, ':') ? at : ""));
	if (*value != '\0' && value[strlen(value) - 1] == '~') {
		value[strlen(value) - 1] = '\0';
		wrong = true;
	}
	e->payload = px_read_value(s, t, value);
	e->checksum = checksum(e->payload) + wrong;
	return last;
}

struct log_entry *
px_read_entries(struct script *s, struct px_text *t, const char *text, size_t *n)
{
	struct log_entry *all = NULL, e;
	char *rest, *word;
	size_t room = 0;

	*n = 0;
	if (text == NULL)
		return NULL;
	rest = keep(t, strdup(text));
	while ((word = strsep(&rest, " ")) != NULL) {
		const uint64_t last = *word ? read_entry(s, t, word, &e) : 0;

		for (; *word && e.slot <= last; e.slot++) {
			ARRAY_ROOM(all, *n, room);
			all[(*n)++] = e;
		}
	}
	return all ? keep(t, all) : NULL;
}

static struct wire_list
read_list(struct script *s, struct px_text *t, const char *text, bool values)
{
	struct buffer packed = BUFFER(LIST_MAX);
	size_t n;
	const struct log_entry *e = px_read_entries(s, t, text, &n);

	for (size_t i = 0; i < n; i++) {
		if (values)
			wire_put_log_entry(&packed, &e[i]);
		else
			wire_put_slot_header(&packed,
			                     &(struct slot_header){.slot = e[i].slot,
			                                           .ballot = e[i].ballot,
			                                           .origin = e[i].origin,
			                                           .checksum = e[i].checksum,
			                                           .before = e[i].before});
	}
	if (packed.data != NULL)
		keep(t, packed.data);
	return (struct wire_list){buffer_view(&packed), (uint32_t)n};
}

static struct wire_list
read_marks(struct script *s, struct px_text *t, const char *text)
{
	struct buffer packed = BUFFER(LIST_MAX);
	uint32_t n = 0;

	for (; text != NULL && *text != '\0'; n++) {
		const struct mark m = read_mark(s, &text);

		wire_put_mark(&packed, &m);
		if (*text != '\0')
			skip(s, &text, ' ');
	}
	if (packed.data != NULL)
		keep(t, packed.data);
	return (struct wire_list){buffer_view(&packed), n};
}

#define READ_u8(name, shape) m->name = (uint8_t)script_value_number(s, #name, 0);
#define READ_u32(name, shape) m->name = (uint32_t)script_value_number(s, #name, 0);
#define READ_u64(name, shape) m->name = script_value_number(s, #name, 0);
#define READ_text(name, shape)              \
	if (script_value(s, #name) != NULL) \
		m->name = bytes_of(script_value(s, #name));
#define READ_ballot(name, shape) m->name = px_read_ballot(s, script_value(s, #name));
#define READ_mark(name, shape) m->name = px_read_mark(s, script_value(s, #name));
#define READ_list(name, shape) READ_LIST_##shape(name)
#define READ_LIST_slot_header(name) m->name = read_list(s, t, script_value(s, #name), false);
#define READ_LIST_log_entry(name) m->name = read_list(s, t, script_value(s, #name), true);
#define READ_LIST_mark(name) m->name = read_marks(s, t, script_value(s, #name));
#define READ_LIST_member(name)            \
	members = script_value(s, #name); \
	if (members != NULL)              \
		m->name = read_members(s, t, members);
#define READ(kind, name, shape) READ_##kind(name, shape)
#define READ_MESSAGE(message)                                               \
	static void read_msg_##message(struct script *s, struct px_text *t, \
	                               struct msg_##message *m)             \
	{                                                                   \
		const char *members;                                        \
                                                                            \
		(void)t, (void)members;                                     \
		WIRE_msg_##message(READ)                                    \
	}
PX_MESSAGES(READ_MESSAGE)

struct message
px_read_message(struct script *s, struct px_text *t)
{
	const char *name = script_word(s);
	struct message m = {0};

#define CASE(message)                                      \
	if (name != NULL && strcmp(name, #message) == 0) { \
		m.code = MSG_##message;                    \
		read_msg_##message(s, t, &m.message);      \
	}
	PX_MESSAGES(CASE)
#undef CASE
	if (m.code == 0)
		script_misuse(s, "no message between replicas: \"%s\"", name ? name : "");
	return m;
}
