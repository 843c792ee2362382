/* Words of cell scripts. */
#include "tests/transcripts/cell_words.h"
#include <stdlib.h>
#include <string.h>
#include "cell/base/limit.h"
#include "cell/base/must.h"
#include "cell/master/sequencer.h"

/* ---- words ---- */

bool
words_split(struct words *w, const char *line)
{
	w->n = w->at = 0;
	while (*line != '\0') {
		const bool quoted = *line == '"';
		const char *end;
		size_t len;

		if (*line == ' ') {
			line++;
			continue;
		}
		line += quoted;
		end = line + strcspn(line, quoted ? "\"" : " ");
		len = (size_t)(end - line);
		if (w->n == WORDS_MAX || len >= TEXT_ROOM || (quoted && *end == '\0'))
			return false;
		memcpy(w->text[w->n], line, len);
		w->text[w->n++][len] = '\0';
		line = end + quoted;
	}
	return true;
}

const char *
words_next(struct words *w)
{
	return w->at < w->n ? w->text[w->at++] : "";
}

bool
words_take(struct words *w, const char *word)
{
	if (w->at == w->n || strcmp(w->text[w->at], word) != 0)
		return false;
	w->at++;
	return true;
}

bool
words_done(const struct words *w)
{
	return w->at == w->n;
}

bool
words_number(struct words *w, uint64_t *n)
{
	char *end;

	if (words_done(w))
		return false;
	*n = strtoull(w->text[w->at], &end, 10);
	if (end == w->text[w->at] || *end != '\0')
		return false;
	w->at++;
	return true;
}

bool
words_time(struct words *w, int64_t *ns)
{
	char *end;

	if (words_done(w))
		return false;
	*ns = strtoll(w->text[w->at], &end, 10);
	if (end == w->text[w->at] || (strcmp(end, "ms") != 0 && strcmp(end, "s") != 0))
		return false;
	*ns *= *end == 'm' ? MS : SECOND;
	w->at++;
	return true;
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

static void
put_path(struct buffer *to, struct sim *s, uint64_t node)
{
	const char *path = trace_path(s, node);

	buffer_printf(to, "%s", *path == '/' && path[1] != '\0' ? path + 1 : path);
}

static void
put_child(struct buffer *to, struct sim *s, uint64_t parent, struct bytes name)
{
	if (parent != NODE_ROOT) {
		put_path(to, s, parent);
		buffer_printf(to, "/");
	}
	buffer_put_bytes(to, name);
}

/* ---- operations on names ---- */

static bool
name_op(struct sim *s, struct words *w, struct op *op)
{
	const char *name;
	const struct item *parent = parent_of(s, words_next(w), &name);
	const uint64_t in = parent == NULL ? 0 : parent->node;

	switch (op->code) {
	case OP_create:
		op->create.parent = in;
		op->create.name = bytes_of(name);
		op->create.ephemeral = words_take(w, "ephemeral");
		op->create.exclusive = words_take(w, "anew");
		return true;
	case OP_delete:
		op->delete.parent = in;
		op->delete.name = bytes_of(name);
		return true;
	case OP_rename:
		op->rename.parent = in;
		op->rename.name = bytes_of(name);
		parent = parent_of(s, words_next(w), &name);
		op->rename.new_parent = parent == NULL ? 0 : parent->node;
		op->rename.new_name = bytes_of(name);
		return true;
	default:
		op->lookup = (struct op_lookup){.parent = in, .name = bytes_of(name)};
		return true;
	}
}

/* ---- operations on locks ---- */

static bool
take_number(struct words *w, const char *word, uint64_t *n)
{
	return !words_take(w, word) || words_number(w, n);
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

static bool
take_ticket(const struct lock_names *locks, struct words *w, struct acquire *a)
{
	uint64_t of = a->acquisition, add;

	if (!words_take(w, "ticket"))
		return true;
	if (!take_number(w, "of", &of))
		return false;
	for (int i = 0; i < locks->n; i++)
		if (locks->list[i].acquisition == of)
			a->ticket = locks->list[i].ticket;
	if (words_take(w, "epoch") && words_number(w, &add))
		a->ticket.epoch += add;
	if (words_take(w, "place") && words_number(w, &add))
		a->ticket.place -= add;
	if (words_take(w, "code") && words_number(w, &add))
		a->ticket.code = add == 0 ? 0 : a->ticket.code ^ add;
	return true;
}

static bool
acquire_op(struct lock_names *locks, struct words *w, struct acquire *a)
{
	int64_t delay = -SECOND;

	if (!words_take(w, "by") || !words_number(w, &a->owner))
		return false;
	if (words_take(w, "exclusive"))
		a->mode = LOCK_EXCLUSIVE;
	else if (words_take(w, "shared"))
		a->mode = LOCK_SHARED;
	else
		return false;
	a->wait = words_take(w, "wait");
	if (words_take(w, "delay") && !words_time(w, &delay))
		return false;
	a->delay_s = delay / SECOND;
	a->default_delay_s = DEFAULT_LOCK_DELAY_S;
	a->acquisition = locks->last + 1;
	if (!take_number(w, "acquisition", &a->acquisition) || !take_ticket(locks, w, a))
		return false;
	if (a->acquisition > locks->last)
		locks->last = a->acquisition;
	if (a->ticket.place == 0)
		note_lock(locks, a);
	return true;
}

static bool
release_op(const struct lock_names *locks, struct words *w, uint64_t node, uint64_t *owner,
           uint64_t *acquisition)
{
	if (!words_take(w, "by") || !words_number(w, owner))
		return false;
	*acquisition = last_acquisition(locks, node, *owner);
	return take_number(w, "acquisition", acquisition);
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
    {"rights", OP_set_acl, 0},        {"lock", OP_acquire, 0},
    {"unlock", OP_release, 0},        {"cancel", OP_cancel, 0},
    {"look", OP_get_lock, 0},         {"sequencer", OP_get_sequencer, 0},
    {"usage", OP_get_usage, 0},
};

static bool
is_by_name(enum op_code code)
{
	return code == OP_create || code == OP_delete || code == OP_rename || code == OP_lookup;
}

static bool
fill_op(struct words *w, uint64_t node, struct op *op)
{
	static uint8_t room[LIMIT_CONTENTS];
	uint64_t n;

	if (!words_number(w, &n) || n > sizeof room)
		return false;
	op->set_contents = (struct op_set_contents){.node = node, .contents = {room, n}};
	return true;
}

static bool
contents_op(struct words *w, uint64_t node, struct op *op)
{
	uint64_t generation;

	if (op->code == OP_set_contents && words_take(w, "fill"))
		return fill_op(w, node, op);

	if (op->code == OP_append) {
		op->append = (struct op_append){.node = node, .data = bytes_of(words_next(w))};
		return true;
	}
	op->set_contents =
	    (struct op_set_contents){.node = node, .contents = bytes_of(words_next(w))};
	if (!words_take(w, "if"))
		return true;
	op->set_contents.guarded = 1;
	if (!words_number(w, &generation))
		return false;
	op->set_contents.generation = generation;
	return true;
}

static bool
node_op(struct sim *s, struct names *names, struct lock_names *locks, struct words *w,
        struct op *op)
{
	const uint64_t node = names_find(s, names, words_next(w));
	int64_t delay;

	switch (op->code) {
	case OP_set_contents:
	case OP_append:
		return contents_op(w, node, op);
	case OP_acquire:
		op->acquire.acquire.node = node;
		return acquire_op(locks, w, &op->acquire.acquire);
	case OP_release:
		op->release.node = node;
		return release_op(locks, w, node, &op->release.owner, &op->release.acquisition);
	case OP_cancel:
		op->cancel.node = node;
		return release_op(locks, w, node, &op->cancel.owner, &op->cancel.acquisition);
	case OP_set_lock_delay:
		op->set_lock_delay.node = node;
		if (!words_time(w, &delay))
			return false;
		op->set_lock_delay.seconds = delay / SECOND;
		return true;
	case OP_set_acl:
		op->set_acl = (struct op_set_acl){.node = node, .name = bytes_of(words_next(w))};
		return true;
	case OP_set_mtime:
		op->set_mtime = (struct op_set_mtime){.node = node, .now = 1};
		return true;
	default: /* all others begin with the node */
		op->get_attr.node = node;
		return true;
	}
}

bool
words_op(struct sim *s, struct names *names, struct lock_names *locks, struct words *w,
         struct op *op)
{
	const char *word = words_next(w);

	*op = (struct op){0};
	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++) {
		if (strcmp(verbs[i].word, word) != 0)
			continue;
		op->code = verbs[i].code;
		if (op->code == OP_create)
			op->create.kind = verbs[i].kind;
		if (op->code == OP_delete)
			op->delete.kind = verbs[i].kind;
		if (op->code == OP_get_usage)
			return words_done(w);
		if (is_by_name(op->code))
			return name_op(s, w, op) && words_done(w);
		return node_op(s, names, locks, w, op) && words_done(w);
	}
	return false;
}

/* ---- output ---- */

static void
put_text(struct buffer *to, struct bytes text)
{
	if (text.len > 40)
		buffer_printf(to, "<%zu bytes>", text.len);
	else
		buffer_printf(to, "\"%.*s\"", (int)text.len,
		              text.len > 0 ? (const char *)text.data : "");
}

static const char *
verb_of(const struct op *op)
{
	const enum node_kind kind = op->code == OP_create   ? (enum node_kind)op->create.kind
	                            : op->code == OP_delete ? (enum node_kind)op->delete.kind
	                                                    : 0;

	for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
		if (verbs[i].code == op->code && verbs[i].kind == kind)
			return verbs[i].word;
	return wire_op_name(op->code);
}

static void
put_acquire(struct buffer *to, const struct acquire *a)
{
	buffer_printf(to, " by %lu %s%s acquisition %lu", (unsigned long)a->owner,
	              a->mode == LOCK_EXCLUSIVE ? "exclusive" : "shared", a->wait ? " wait" : "",
	              (unsigned long)a->acquisition);
}

static void
put_members(struct buffer *to, const struct wire_list *list)
{
	static const char *const roles[] =
	    {[MEMBER_VOTER] = "", [MEMBER_LEARNER] = " (learner)", [MEMBER_REMOVED] = " (removed)"};
	struct cursor at = cursor_of(list->packed);
	struct member m;

	for (int i = 0; wire_next_member(&at, &m); i++)
		buffer_printf(to, "%s%u%s", i == 0 ? "" : " ", m.id, roles[m.role]);
}

static void
put_object(struct buffer *to, struct sim *s, const struct op *op)
{
	switch (op->code) {
	case OP_create:
		put_child(to, s, op->create.parent, op->create.name);
		return;
	case OP_delete:
		put_child(to, s, op->delete.parent, op->delete.name);
		return;
	case OP_rename:
		put_child(to, s, op->rename.parent, op->rename.name);
		buffer_printf(to, " ");
		put_child(to, s, op->rename.new_parent, op->rename.new_name);
		return;
	case OP_lookup:
		put_child(to, s, op->lookup.parent, op->lookup.name);
		return;
	case OP_grant:
		put_path(to, s, op->grant.acquire.node);
		return;
	case OP_delay_over:
		put_path(to, s, op->delay_over.node);
		return;
	case OP_end_session:
		buffer_printf(to, "%lu%s", (unsigned long)op->end_session.session,
		              op->end_session.cause == SESSION_EXPIRED ? " as expired" : "");
		return;
	case OP_finish_session:
		buffer_printf(to, "%lu", (unsigned long)op->finish_session.session);
		return;
	case OP_await_session:
		buffer_printf(to, "%lu%s", (unsigned long)op->await_session.session,
		              op->await_session.awaited ? "" : " no more");
		return;
	case OP_set_members:
		put_members(to, &op->set_members.members);
		return;
	case OP_set_setting:
		buffer_printf(to, "%s %lu", setting_info(op->set_setting.setting)->name,
		              (unsigned long)op->set_setting.value);
		return;
	default:
		if (wire_op_node(op) != 0)
			put_path(to, s, wire_op_node(op));
		return;
	}
}

void
print_op(struct buffer *to, struct sim *s, const struct op *op)
{
	const size_t before = to->len;

	buffer_printf(to, "%s ", verb_of(op));
	put_object(to, s, op);
	if (to->data[to->len - 1] == ' ' && to->len > before)
		to->len--;
	if (op->code == OP_acquire)
		put_acquire(to, &op->acquire.acquire);
	if (op->code == OP_grant) {
		put_acquire(to, &op->grant.acquire);
		buffer_printf(to, " to session %lu", (unsigned long)op->grant.session);
	}
	if (op->code == OP_release)
		buffer_printf(to, " by %lu", (unsigned long)op->release.owner);
	if (op->code == OP_cancel)
		buffer_printf(to, " by %lu", (unsigned long)op->cancel.owner);
	if (op->code == OP_set_contents || op->code == OP_append) {
		buffer_printf(to, " ");
		put_text(to, op->code == OP_append ? op->append.data : op->set_contents.contents);
	}
}

static void
put_lock(struct buffer *to, const struct result_lock *lock)
{
	static const char *const states[] = {[LOCK_STATE_FREE] = "free",
	                                     [LOCK_STATE_SHARED] = "shared",
	                                     [LOCK_STATE_EXCLUSIVE] = "exclusive",
	                                     [LOCK_STATE_DELAYED] = "delayed"};
	struct cursor at = cursor_of(lock->holders.packed);
	struct lock_holder h;

	buffer_printf(to, "%s", states[lock->state]);
	if (lock->state == LOCK_STATE_DELAYED)
		buffer_printf(to, ", %ld s left", (long)lock->delay_left_s);
	while (wire_next_lock_holder(&at, &h))
		buffer_printf(to, ", %lu of session %lu has token %lu", (unsigned long)h.owner,
		              (unsigned long)h.session, (unsigned long)h.fence);
	if (lock->waiters > 0)
		buffer_printf(to, ", %lu waiting", (unsigned long)lock->waiters);
}

static void
put_names(struct buffer *to, const struct result_listing *l)
{
	struct cursor at = cursor_of(l->entries.packed);
	struct child c;

	buffer_printf(to, "ok:");
	while (wire_next_child(&at, &c))
		buffer_printf(to, " %.*s", (int)c.name.len, (const char *)c.name.data);
}

static void
put_acquired(struct buffer *to, enum rc rc, const struct result_acquired *a)
{
	if (rc == RC_QUEUED)
		buffer_printf(to, "queued%s", a->kept == LOCK_SHARED ? ", keeps shared" : "");
	else
		buffer_printf(to, "ok, lock generation %lu, token %lu",
		              (unsigned long)a->lock_generation, (unsigned long)a->fence);
}

static void
put_sequencer(struct buffer *to, struct bytes text)
{
	struct sequencer q;

	if (!sequencer_parse(text, &q)) {
		buffer_printf(to, "no sequencer");
		return;
	}
	buffer_printf(to, "%.*s, instance %lu, %s, token %lu, signed %s", (int)q.path.len,
	              (const char *)q.path.data, (unsigned long)q.instance,
	              q.mode == LOCK_EXCLUSIVE ? "exclusive" : "shared", (unsigned long)q.fence,
	              sequencer_verify(&q, first_start_public_key()) ? "by the cell" : "wrongly");
}

void
print_result(struct buffer *to, const struct op *op, enum rc rc, struct bytes raw)
{
	struct result r;

	if ((rc != RC_OK && rc != RC_QUEUED) ||
	    wire_get_result(wire_op_result(op->code), raw, &r) != RC_OK) {
		buffer_printf(to, "%s", rc_name(rc));
		return;
	}
	switch (r.kind) {
	case RESULT_attr:
		buffer_printf(to, "ok, generation %lu%s",
		              (unsigned long)r.attr.attr.content_generation,
		              r.attr.attr.ephemeral ? ", ephemeral" : "");
		return;
	case RESULT_created:
		buffer_printf(to, "ok, node %lu%s", (unsigned long)r.created.attr.node,
		              r.created.fresh ? "" : ", which was there");
		return;
	case RESULT_contents:
		buffer_printf(to, "ok, ");
		put_text(to, r.contents.contents);
		return;
	case RESULT_listing:
		put_names(to, &r.listing);
		return;
	case RESULT_lock:
		put_lock(to, &r.lock);
		return;
	case RESULT_acquired:
		put_acquired(to, rc, &r.acquired);
		return;
	case RESULT_sequencer:
		put_sequencer(to, r.sequencer.sequencer);
		return;
	default:
		buffer_printf(to, "ok");
		return;
	}
}
