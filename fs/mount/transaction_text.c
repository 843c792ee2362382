#include "fs/mount/transaction_text.h"

#include <string.h>

#include "cell/base/must.h"
#include "cell/wire/codec.h"

/* ---- words ---- */

static bool
is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* Takes the next word from the line; empty if there is none. */
static struct bytes
word(struct bytes *line)
{
	size_t from = 0, to;
	bool quoted;
	struct bytes w;

	while (from < line->len && is_blank(line->data[from]))
		from++;
	quoted = from < line->len && line->data[from] == '"';
	from += quoted;
	for (to = from; to < line->len; to++)
		if (quoted ? line->data[to] == '"' : is_blank(line->data[to]))
			break;
	w = (struct bytes){line->data + from, to - from};
	to += quoted && to < line->len;
	*line = (struct bytes){line->data + to, line->len - to};
	return w;
}

static bool
is(struct bytes w, const char *text)
{
	return bytes_equal(w, bytes_of(text));
}

/* A decimal number; false if it is not one. */
static bool
number(struct bytes w, uint64_t *n)
{
	*n = 0;
	for (size_t i = 0; i < w.len; i++) {
		if (w.data[i] < '0' || w.data[i] > '9' || *n > UINT64_MAX / 10 - 1)
			return false;
		*n = *n * 10 + (w.data[i] - '0');
	}
	return w.len > 0;
}

static bool
is_path(struct bytes w)
{
	return w.len > 0 && w.data[0] == '/' && w.len <= LIMIT_PATH &&
	       (w.len == 1 || w.data[w.len - 1] != '/') && memmem(w.data, w.len, "//", 2) == NULL;
}

/* Appends the bytes that base64 stands for (RFC 4648, section 4); false if it is not one. */
static bool
decode(struct bytes w, struct buffer *to)
{
	static const char digits[] =
	    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
	uint32_t bits = 0;
	unsigned n = 0;

	if (w.len % 4 != 0)
		return false;
	for (int pad = 0; pad < 2 && w.len > 0 && w.data[w.len - 1] == '='; pad++)
		w.len--;
	for (size_t i = 0; i < w.len; i++) {
		const char *digit = w.data[i] != '\0' ? strchr(digits, w.data[i]) : NULL;

		if (digit == NULL)
			return false;
		bits = bits << 6 | (uint32_t)(digit - digits);
		n += 6;
		if (n >= 8)
			buffer_put_u8(to, (uint8_t)(bits >> (n -= 8)));
	}
	return (bits & ((1u << n) - 1)) == 0;
}

/* ---- lines ---- */

/* Each takes the words that it needs from the rest of its line: NULL, or why it is wrong. */

static const char *
read_condition(struct transaction_line *l, struct bytes *rest)
{
	const struct bytes what = word(rest), value = word(rest);

	if (is(what, "absent") && value.len == 0) {
		l->step.kind = STEP_ABSENT;
		return NULL;
	}
	if (is(what, "generation")) {
		l->step.kind = STEP_GENERATION;
		return number(value, &l->step.generation) ? NULL : "needs a number";
	}
	if (!is(what, "held") || value.len == 0)
		return "needs `generation N`, `absent` or `held SEQUENCER`";
	l->step.kind = STEP_HELD;
	l->sequencer = value;
	return NULL;
}

static const char *
read_attribute(struct transaction_line *l, struct bytes *rest)
{
	static const char *const acls[ACL_NAMES] = {"user.ls.acl.read", "user.ls.acl.write",
	                                            "user.ls.acl.change"};
	static const char *const quotas[QUOTA_KINDS] = {"user.ls.quota.nodes",
	                                                "user.ls.quota.bytes"};
	const struct bytes name = word(rest), value = word(rest);
	uint64_t n;

	for (uint8_t i = 0; i < ACL_NAMES; i++) {
		if (!is(name, acls[i]))
			continue;
		if (value.len == 0 || value.len > LIMIT_NAME)
			return "needs the name of an ACL file";
		l->op = (struct op){.code = OP_set_acl, .set_acl = {.which = i, .name = value}};
		return NULL;
	}
	if (is(name, "user.ls.lock_delay") && number(value, &n) && n <= LIMIT_LOCK_DELAY_S) {
		l->op = (struct op){.code = OP_set_lock_delay,
		                    .set_lock_delay = {.seconds = (int64_t)n}};
		return NULL;
	}
	if (is(name, "user.ls.ttl") && number(value, &n) && n <= LIMIT_TTL_S) {
		l->op = (struct op){.code = OP_set_ttl, .set_ttl = {.seconds = (uint32_t)n}};
		return NULL;
	}
	if (is(name, "user.ls.lock_slots") && number(value, &n) && n <= LIMIT_SLOTS) {
		l->op = (struct op){.code = OP_set_lock_slots,
		                    .set_lock_slots = {.slots = (uint32_t)n}};
		return NULL;
	}
	for (uint8_t i = 0; i < QUOTA_KINDS; i++) {
		if (!is(name, quotas[i]) || !number(value, &n))
			continue;
		l->op = (struct op){.code = OP_set_quota, .set_quota = {.which = i, .most = n}};
		return NULL;
	}
	return "needs an attribute that can be set here, and its value";
}

static const char *
read_operation(struct transaction_text *t, struct transaction_line *l, struct bytes *rest)
{
	l->step.kind = STEP_DO;
	if (is(l->word, "set") || is(l->word, "append")) {
		l->op.code = is(l->word, "set") ? OP_set_contents : OP_append;
		l->decoded_at = t->contents.len;
		if (!decode(word(rest), &t->contents) || t->contents.failed)
			return "needs base64, of 256 KiB at most in all";
		l->decoded = t->contents.len - l->decoded_at;
		return NULL;
	}
	if (is(l->word, "create") || is(l->word, "mkdir")) {
		l->op.code = OP_create;
		l->op.create.kind = is(l->word, "mkdir") ? NODE_DIRECTORY : NODE_FILE;
		return NULL;
	}
	if (is(l->word, "delete")) {
		l->op.code = OP_delete;
		return NULL;
	}
	if (is(l->word, "rename")) {
		l->op.code = OP_rename;
		l->step.new_path = word(rest);
		return is_path(l->step.new_path) ? NULL : "needs two paths from the cell's root";
	}
	if (is(l->word, "setattr"))
		return read_attribute(l, rest);
	if (!is(l->word, "acquire"))
		return "is no condition and no operation";
	l->op = (struct op){.code = OP_acquire, .acquire.acquire.mode = LOCK_EXCLUSIVE};
	return is(word(rest), "exclusive") ? NULL : "can only be `exclusive`";
}

static const char *
read_line(struct transaction_text *t, struct transaction_line *l, struct bytes *rest)
{
	if (is(l->word, "else")) {
		if (t->has_else)
			return "comes a second time";
		t->has_else = true;
		l->step = (struct step){.kind = STEP_ELSE, .path = bytes_of("/")};
		return NULL;
	}
	l->path = l->step.path = word(rest);
	if (!is_path(l->path))
		return "needs a path from the cell's root, such as /a";
	if (!is(l->word, "if")) {
		t->has_operation = true;
		return read_operation(t, l, rest);
	}
	if (t->has_operation || t->has_else)
		return "is a condition: these come first";
	return read_condition(l, rest);
}

bool
transaction_text_read(struct transaction_text *t, struct bytes text)
{
	unsigned lines = 0; /* so far */

	memset(t, 0, sizeof *t);
	t->contents = BUFFER(LIMIT_CONTENTS);
	while (text.len > 0 && t->why == NULL) {
		const uint8_t *end = memchr(text.data, '\n', text.len);
		const size_t len = end == NULL ? text.len : (size_t)(end - text.data);
		struct bytes line = {text.data, len}, first = line;
		const struct bytes begins = word(&first);
		struct transaction_line *l = &t->lines[t->n < LIMIT_STEPS ? t->n : 0];

		lines++;
		text = (struct bytes){text.data + len, text.len - len};
		if (end != NULL)
			text = (struct bytes){text.data + 1, text.len - 1};
		if (begins.len == 0 || begins.data[0] == '#')
			continue;
		if (t->n == LIMIT_STEPS || memchr(line.data, '\0', line.len) != NULL) {
			t->why = t->n == LIMIT_STEPS ? "is one too many" : "has a NUL byte";
			break;
		}
		t->n++;
		l->number = lines;
		l->word = begins;
		t->why = read_line(t, l, &first);
		if (t->why == NULL && word(&first).len > 0)
			t->why = "has too many words";
	}
	if (t->why != NULL)
		t->wrong = lines;
	return t->why == NULL;
}

struct wire_list
transaction_text_steps(struct transaction_text *t, struct buffer *to)
{
	struct buffer op = BUFFER(LIMIT_CONTENTS + 1024);

	for (uint32_t i = 0; i < t->n; i++) {
		struct transaction_line *l = &t->lines[i];
		struct bytes contents = {0};

		if (l->decoded > 0)
			contents = (struct bytes){t->contents.data + l->decoded_at, l->decoded};
		buffer_reset(&op);
		if (l->op.code == OP_set_contents)
			l->op.set_contents.contents = contents;
		if (l->op.code == OP_append)
			l->op.append.data = contents;
		if (l->step.kind == STEP_DO)
			wire_put_op(&op, &l->op);
		must(!op.failed);
		l->step.op = buffer_view(&op);
		wire_put_step(to, &l->step);
		l->step.op = (struct bytes){0};
	}
	buffer_free(&op);
	return (struct wire_list){buffer_view(to), t->n};
}

void
transaction_text_free(struct transaction_text *t)
{
	buffer_free(&t->contents);
}
