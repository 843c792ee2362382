/* Words of cell scripts. */
#include "tests/transcripts/cell_words.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/limit.h"
#include "cell/base/must.h"

/* ---- words ---- */

void
words_expect(struct script *w, const char *word)
{
	if (!script_take(w, word))
		script_misuse(w, "\"%s\" is missing", word);
}

/* A time as text: "300ms", "3s". */
static int64_t
time_of(struct script *w, const char *text)
{
	char *end;
	const int64_t n = strtoll(text, &end, 10);

	if (end == text || (strcmp(end, "ms") != 0 && strcmp(end, "s") != 0))
		script_misuse(w, "\"%s\" is no time", text);
	return n * (*end == 'm' ? MS : SECOND);
}

int64_t
words_time(struct script *w)
{
	return time_of(w, script_needed(w));
}

void
words_take_time(struct script *w, int64_t *ns)
{
	const char *text = script_word(w);

	if (text != NULL)
		*ns = time_of(w, text);
}

/* ---- names ---- */

/* The directory of a path, and the name in it; NULL: there is no such directory. */
static const struct item *
parent_of(struct sim *s, const char *path, const char **name)
{
	const struct item *at = model_item(&s->model, NODE_ROOT);
	const char *slash;

	for (; at != NULL && (slash = strchr(path, '/')) != NULL; path = slash + 1)
		at = model_child(&s->model, at->node,
		                 (struct bytes){(const uint8_t *)path, (size_t)(slash - path)});
	*name = path;
	return at;
}

static void
names_note(struct names *names, const char *path, uint64_t node)
{
	for (int i = 0; i < names->n; i++) {
		if (strcmp(names->list[i].path, path) == 0) {
			names->list[i].node = node;
			return;
		}
	}
	must(names->n < NAMES_MAX);
	strcpy(names->list[names->n].path, path);
	names->list[names->n++].node = node;
}

uint64_t
names_find(struct sim *s, struct names *names, const char *path)
{
	const struct item *parent, *it;
	const char *name;

	if (*path == '#')
		return strtoull(path + 1, NULL, 10);
	if (strcmp(path, "/") == 0)
		return NODE_ROOT;
	parent = parent_of(s, path, &name);
	it = parent == NULL ? NULL : model_child(&s->model, parent->node, bytes_of(name));
	if (it != NULL)
		names_note(names, path, it->node);
	for (int i = 0; i < names->n; i++)
		if (strcmp(names->list[i].path, path) == 0)
			return names->list[i].node;
	return 0;
}

/* ---- operations on names ---- */

static void
name_op(struct sim *s, struct script *w, struct op *op)
{
	const char *name;
	const struct item *parent = parent_of(s, script_needed(w), &name);
	const uint64_t in = parent == NULL ? 0 : parent->node;

	switch (op->code) {
	case OP_create:
		op->create.parent = in;
		op->create.name = bytes_of(name);
		op->create.ephemeral = script_take(w, "ephemeral");
		op->create.exclusive = script_take(w, "anew");
		return;
	case OP_delete:
		op->delete.parent = in;
		op->delete.name = bytes_of(name);
		return;
	case OP_rename:
		op->rename.parent = in;
		op->rename.name = bytes_of(name);
		parent = parent_of(s, script_needed(w), &name);
		op->rename.new_parent = parent == NULL ? 0 : parent->node;
		op->rename.new_name = bytes_of(name);
		return;
	default:
		op->lookup = (struct op_lookup){.parent = in, .name = bytes_of(name)};
		return;
	}
}

/* ---- operations on locks ---- */

static void
take_number(struct script *w, const char *word, uint64_t *n)
{
	if (script_take(w, word))
		*n = script_number(w);
}

static uint64_t
last_acquisition(const struct lock_names *locks, uint64_t node, uint64_t owner)
{
	for (int i = locks->n; i-- > 0;)
		if (locks->list[i].node == node && locks->list[i].owner == owner)
			return locks->list[i].acquisition;
	return 0;
}

static void
note_lock(struct lock_names *locks, const struct acquire *a)
{
	must(locks->n < LOCKS_MAX);
	locks->list[locks->n].node = a->node;
	locks->list[locks->n].owner = a->owner;
	locks->list[locks->n].ticket = (struct ticket){0};
	locks->list[locks->n++].acquisition = a->acquisition;
}

void
locks_note_ticket(struct lock_names *locks, const struct acquire *a, struct ticket ticket)
{
	for (int i = 0; i < locks->n; i++)
		if (locks->list[i].node == a->node && locks->list[i].owner == a->owner &&
		    locks->list[i].acquisition == a->acquisition)
			locks->list[i].ticket = ticket;
}

static void
take_ticket(const struct lock_names *locks, struct script *w, struct acquire *a)
{
	uint64_t of = a->acquisition, add;

	if (!script_take(w, "ticket"))
		return;
	take_number(w, "of", &of);
	for (int i = 0; i < locks->n; i++)
		if (locks->list[i].acquisition == of)
			a->ticket = locks->list[i].ticket;
	if (script_take(w, "epoch"))
		a->ticket.epoch += script_number(w);
	if (script_take(w, "place"))
		a->ticket.place -= script_number(w);
	if (script_take(w, "code")) {
		add = script_number(w);
		a->ticket.code = add == 0 ? 0 : a->ticket.code ^ add;
	}
}

static uint64_t
next_owner(struct script *w)
{
	words_expect(w, "by");
	return script_number(w);
}

static void
acquire_op(struct lock_names *locks, struct script *w, struct acquire *a)
{
	static const char *const modes[] =
	    {[LOCK_SHARED] = "shared", [LOCK_EXCLUSIVE] = "exclusive"};

	a->owner = next_owner(w);
	a->mode = (uint8_t)script_choice(w, script_needed(w), modes, sizeof modes / sizeof *modes);
	a->wait = script_take(w, "wait");
	a->delay_s = script_take(w, "delay") ? words_time(w) / SECOND : -1;
	a->default_delay_s = DEFAULT_LOCK_DELAY_S;
	a->acquisition = locks->last + 1;
	take_number(w, "acquisition", &a->acquisition);
	take_ticket(locks, w, a);
	if (a->acquisition > locks->last)
		locks->last = a->acquisition;
	if (a->ticket.place == 0)
		note_lock(locks, a);
}

static void
release_op(const struct lock_names *locks, struct script *w, uint64_t node, uint64_t *owner,
           uint64_t *acquisition)
{
	*owner = next_owner(w);
	*acquisition = last_acquisition(locks, node, *owner);
	take_number(w, "acquisition", acquisition);
}

/* ---- operations ---- */

static const struct verb {
	const char *word;
	enum op_code code;
	enum node_kind kind;
} verbs[] = {
    {"create", OP_create, NODE_FILE}, {"mkdir", OP_create, NODE_DIRECTORY},
    {"delete", OP_delete, NODE_FILE}, {"rmdir", OP_delete, NODE_DIRECTORY},
    {"rename", OP_rename, 0},         {"find", OP_lookup, 0},
    {"write", OP_set_contents, 0},    {"append", OP_append, 0},
    {"read", OP_get_contents, 0},     {"stat", OP_get_attr, 0},
    {"list", OP_get_listing, 0},      {"touch", OP_set_mtime, 0},
    {"mark", OP_make_ephemeral, 0},   {"open", OP_open_ephemeral, 0},
    {"close", OP_close_ephemeral, 0}, {"delay", OP_set_lock_delay, 0},
    {"slots", OP_set_lock_slots, 0},  {"live", OP_set_ttl, 0},
    {"rights", OP_set_acl, 0},        {"lock", OP_acquire, 0},
    {"unlock", OP_release, 0},        {"cancel", OP_cancel, 0},
    {"look", OP_get_lock, 0},         {"sequencer", OP_get_sequencer, 0},
    {"usage", OP_get_usage, 0},       {"txn", OP_transaction, 0},
    {"numbered", OP_number, 0},
};
enum { VERBS = sizeof verbs / sizeof *verbs };

static bool
is_by_name(enum op_code code)
{
	return code == OP_create || code == OP_delete || code == OP_rename || code == OP_lookup;
}

static struct bytes
next_contents(struct script *w)
{
	static uint8_t room[LIMIT_CONTENTS];
	uint64_t n;

	if (!script_take(w, "fill"))
		return bytes_of(script_needed(w));
	n = script_number(w);
	must(n <= sizeof room);
	return (struct bytes){room, n};
}

static void
node_op(struct sim *s, struct names *names, struct lock_names *locks, struct script *w,
        struct op *op)
{
	const uint64_t node = names_find(s, names, script_needed(w));

	switch (op->code) {
	case OP_set_contents:
		op->set_contents =
		    (struct op_set_contents){.node = node, .contents = next_contents(w)};
		op->set_contents.guarded = script_take(w, "if");
		if (op->set_contents.guarded)
			op->set_contents.generation = script_number(w);
		return;
	case OP_append:
		op->append = (struct op_append){.node = node, .data = bytes_of(script_needed(w))};
		return;
	case OP_acquire:
		op->acquire.acquire.node = node;
		acquire_op(locks, w, &op->acquire.acquire);
		return;
	case OP_release:
		op->release.node = node;
		release_op(locks, w, node, &op->release.owner, &op->release.acquisition);
		return;
	case OP_cancel:
		op->cancel.node = node;
		release_op(locks, w, node, &op->cancel.owner, &op->cancel.acquisition);
		return;
	case OP_number:
		op->number =
		    (struct op_number){.parent = node, .prefix = bytes_of(script_needed(w))};
		op->number.ephemeral = script_take(w, "ephemeral");
		return;
	case OP_set_lock_slots:
		op->set_lock_slots = (struct op_set_lock_slots){node, (uint32_t)script_number(w)};
		return;
	case OP_set_ttl:
		op->set_ttl = (struct op_set_ttl){node, (uint32_t)(words_time(w) / SECOND)};
		return;
	case OP_set_lock_delay:
		op->set_lock_delay = (struct op_set_lock_delay){node, words_time(w) / SECOND};
		return;
	case OP_set_acl:
		op->set_acl.node = node;
		if (script_take(w, "write"))
			op->set_acl.which = ACL_WRITE;
		else if (script_take(w, "change"))
			op->set_acl.which = ACL_CHANGE;
		op->set_acl.name = bytes_of(script_needed(w));
		return;
	case OP_set_mtime:
		op->set_mtime = (struct op_set_mtime){.node = node, .now = 1};
		return;
	default: /* all others begin with the node */
		op->get_attr.node = node;
		return;
	}
}

static const struct verb *
verb_of(struct script *w, const char *word)
{
	const struct verb *v = verbs;

	while (v < verbs + VERBS && strcmp(v->word, word) != 0)
		v++;
	if (v == verbs + VERBS)
		script_misuse(w, "no request \"%s\"", word);
	return v;
}

/* ---- transactions ---- */

/* A name in the root. */
static struct bytes
next_path(struct script *w, char room[TEXT_ROOM])
{
	snprintf(room, TEXT_ROOM, "/%s", script_needed(w));
	return bytes_of(room);
}

static void
step_op(struct lock_names *locks, struct script *w, const struct verb *v, struct op *op)
{
	*op = (struct op){.code = v->code};
	switch (v->code) {
	case OP_create:
		op->create.kind = v->kind;
		return;
	case OP_set_contents:
		op->set_contents.contents = next_contents(w);
		return;
	case OP_append:
		op->append.data = bytes_of(script_needed(w));
		return;
	case OP_acquire:
		acquire_op(locks, w, &op->acquire.acquire);
		return;
	default:
		return;
	}
}

static void
put_step(struct lock_names *locks, struct script *w, struct buffer *to)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	char path[TEXT_ROOM], new_path[TEXT_ROOM];
	struct step step = {.kind = STEP_ELSE, .path = bytes_of("/")};
	struct op op;

	if (script_take(w, "if")) {
		step.path = next_path(w, path);
		step.kind = script_take(w, "absent") ? STEP_ABSENT : STEP_GENERATION;
		if (step.kind == STEP_GENERATION) {
			words_expect(w, "generation");
			step.generation = script_number(w);
		}
	} else if (!script_take(w, "else")) {
		const struct verb *v = verb_of(w, script_needed(w));

		step.kind = STEP_DO;
		step.path = next_path(w, path);
		if (v->code == OP_rename)
			step.new_path = next_path(w, new_path);
		step_op(locks, w, v, &op);
		wire_put_op(&encoded, &op);
		step.op = buffer_view(&encoded);
	}
	wire_put_step(to, &step);
	buffer_free(&encoded);
}

static void
transaction_op(struct lock_names *locks, struct script *w, struct op_transaction *o)
{
	static uint8_t room[LIMIT_ENTRY];
	struct buffer steps = BUFFER(LIMIT_ENTRY);

	do {
		put_step(locks, w, &steps);
		o->steps.count++;
	} while (script_take(w, ","));
	must(!steps.failed);
	memcpy(room, steps.data, steps.len);
	o->steps.packed = (struct bytes){room, steps.len};
	buffer_free(&steps);
}

void
words_op(struct sim *s, struct names *names, struct lock_names *locks, struct script *w,
         const char *word, struct op *op)
{
	const struct verb *v = verb_of(w, word);

	*op = (struct op){.code = v->code};
	if (op->code == OP_create)
		op->create.kind = v->kind;
	if (op->code == OP_delete)
		op->delete.kind = v->kind;
	if (op->code == OP_transaction)
		transaction_op(locks, w, &op->transaction);
	else if (is_by_name(op->code))
		name_op(s, w, op);
	else if (op->code != OP_get_usage)
		node_op(s, names, locks, w, op);
}

const char *
words_verb(const struct op *op)
{
	const enum node_kind kind = op->code == OP_create   ? (enum node_kind)op->create.kind
	                            : op->code == OP_delete ? (enum node_kind)op->delete.kind
	                                                    : 0;

	for (size_t i = 0; i < VERBS; i++)
		if (verbs[i].code == op->code && verbs[i].kind == kind)
			return verbs[i].word;
	return wire_op(op->code)->name;
}
