/* The model's access rights: those of a session's principal, or of a user of it, at any index of
 * the log. */
#include <stdio.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

/* ---- ACL names ---- */

static void
set_name(struct item *it, uint64_t index, unsigned which, struct bytes name)
{
	struct acl_change *c;

	ARRAY_ROOM(it->acls, it->acls_n, it->acls_room);
	c = &it->acls[it->acls_n++];
	*c = (struct acl_change){.index = index, .which = which};
	must(name.len < sizeof c->name);
	memcpy(c->name, name.data, name.len);
}

static const char *
name_at(const struct item *it, uint64_t index, unsigned which)
{
	for (size_t i = it->acls_n; i-- > 0;)
		if (it->acls[i].index <= index && it->acls[i].which == which)
			return it->acls[i].name;
	return "";
}

void
model_inherit_acls(struct model *m, struct item *it, uint64_t index, const struct item *from)
{
	static const char *const first[] = {"everyone", "everyone", "admin"};

	for (unsigned i = 0; i < ACL_NAMES; i++)
		set_name(it, index, i, bytes_of(from ? name_at(from, index, i) : first[i]));
	if (it->parent == NODE_ACL) {
		ARRAY_ROOM(m->acl_files, m->acl_files_n, m->acl_files_room);
		m->acl_files[m->acl_files_n++] = it;
	}
}

void
model_first_acls(struct model *m)
{
	static const char *const text[] = {"admin\n", "*\n"}, *const name[] = {"admin", "everyone"};
	struct item *it = model_item(m, NODE_ACL);

	set_name(it, 0, ACL_WRITE, bytes_of("admin"));
	for (int i = 0; i < 2; i++) {
		it = model_add_item(m, 0, NODE_ACL, bytes_of(name[i]), NODE_FILE);
		model_add_version(m, it, 0, bytes_copy(bytes_of(text[i])));
	}
}

/* ---- ACL files ---- */

static const struct item *
file_at(const struct model *m, uint64_t index, const char *name)
{
	for (size_t i = 0; i < m->acl_files_n; i++) {
		const struct item *it = m->acl_files[i];

		if (it->kind == NODE_FILE && strcmp(it->name, name) == 0 && it->born <= index &&
		    (it->died == 0 || it->died > index))
			return it;
	}
	return NULL;
}

static struct bytes
contents_at(const struct item *it, uint64_t index)
{
	size_t i = it->versions_n;

	while (i > 0 && it->versions[i - 1].index > index)
		i--;
	return i > 0 ? it->versions[i - 1].contents : (struct bytes){0};
}

static bool
lists(struct bytes text, const char *line)
{
	char all[LIMIT_ACL + 3], wanted[2 * LIMIT_PRINCIPAL + 4];

	if (text.len > LIMIT_ACL)
		return false;
	snprintf(all, sizeof all, "\n%.*s\n", (int)text.len,
	         text.len > 0 ? (const char *)text.data : "");
	snprintf(wanted, sizeof wanted, "\n%s\n", line);
	return strstr(all, wanted) != NULL;
}

/* Did the ACL file of this name list the subject, or a group of it, which is nested so deep? */
static bool
is_in_group(struct sim *s, const char *name, uint64_t index, uint64_t session, struct bytes user,
            int depth)
{
	const struct item *file = file_at(&s->model, index, name);
	const char *principal = model_principal(&s->model, session, index);
	char line[2 * LIMIT_PRINCIPAL + 2], any[LIMIT_PRINCIPAL + 3], group[NAME_ROOM], *rest,
	    *next;
	char all[LIMIT_ACL + 1] = "";
	struct bytes text;
	bool is = false;

	if (principal[0] == '\0' || file == NULL || depth > LIMIT_GROUP_DEPTH)
		return false;
	snprintf(line, sizeof line, "%s%s%.*s", principal, user.len > 0 ? "/" : "", (int)user.len,
	         user.len > 0 ? (const char *)user.data : "");
	snprintf(any, sizeof any, "%s/*", principal);
	text = contents_at(file, index);
	if (lists(text, "*") || lists(text, line) || (user.len > 0 && lists(text, any)))
		return true;
	snprintf(all, sizeof all, "%.*s", (int)text.len,
	         text.len > 0 ? (const char *)text.data : "");
	for (rest = all; !is && (next = strsep(&rest, "\n")) != NULL;)
		is = sscanf(next, "@%15s", group) == 1 &&
		     is_in_group(s, group, index, session, user, depth + 1);
	return is;
}

static bool
is_in(struct sim *s, const char *name, uint64_t index, uint64_t session, struct bytes user)
{
	return is_in_group(s, name, index, session, user, 0);
}

bool
model_has_right(struct sim *s, const struct item *it, uint64_t index, uint64_t session,
                struct bytes user, unsigned rights)
{
	for (unsigned i = 0; i < ACL_NAMES; i++)
		if ((rights & 1u << i) != 0 &&
		    is_in(s, name_at(it, index, i), index, session, user))
			return true;
	return false;
}

bool
model_is_operator(struct sim *s, uint64_t session, struct bytes user)
{
	return is_in(s, "admin", s->model.applied, session, user);
}

/* ---- commands ---- */

static bool
may(struct sim *s, const struct command *c, const struct item *it, unsigned rights)
{
	return !model_item_alive(it) ||
	       model_has_right(s, it, s->model.applied, c->session, c->user, rights);
}

/* Through a handle, contents are written with the rights of its open. */
static bool
may_write(struct sim *s, const struct command *c, const struct item *it)
{
	return may(s, c, it, RIGHT_WRITE) ||
	       ((c->handle_rights & RIGHT_WRITE) &&
	        model_principal(&s->model, c->session, s->model.applied)[0] != '\0');
}

static bool
same_readers(const struct sim *s, const struct item *a, const struct item *b)
{
	return strcmp(name_at(a, s->model.applied, ACL_READ),
	              name_at(b, s->model.applied, ACL_READ)) == 0;
}

static bool
may_rename(struct sim *s, const struct command *c, const struct op_rename *op)
{
	const struct item *parent = model_item(&s->model, op->new_parent);
	const struct item *source = model_child(&s->model, op->parent, op->name);
	const struct item *target = model_child(&s->model, op->new_parent, op->new_name);

	if (source == NULL || !model_item_alive(parent) || (target != NULL && op->no_replace))
		return true;
	if (target != NULL && !same_readers(s, source, target) && !may(s, c, source, RIGHT_READ))
		return false;
	return may(s, c, source, RIGHT_WRITE) &&
	       may(s, c, target != NULL ? target : parent, RIGHT_WRITE);
}

static bool
may_create(struct sim *s, const struct command *c, const struct op_create *op)
{
	const struct item *it = model_child(&s->model, op->parent, op->name);

	if (it == NULL)
		return may(s, c, model_item(&s->model, op->parent), RIGHT_WRITE);
	return op->exclusive || may(s, c, it, RIGHT_READ | RIGHT_WRITE);
}

bool
model_permits(struct sim *s, const struct command *c, const struct op *op)
{
	const struct item *it = model_item(&s->model, wire_op_node(op));

	switch (op->code) {
	case OP_create:
		return may_create(s, c, &op->create);
	case OP_delete:
		return may(s, c, model_child(&s->model, op->delete.parent, op->delete.name),
		           RIGHT_WRITE);
	case OP_rename:
		return may_rename(s, c, &op->rename);
	case OP_set_contents:
	case OP_append:
		return may_write(s, c, it);
	case OP_number:
	case OP_set_mtime:
	case OP_set_lock_delay:
	case OP_set_lock_slots:
	case OP_set_ttl:
	case OP_make_ephemeral:
		return may(s, c, it, RIGHT_WRITE);
	case OP_acquire:
		return may(s, c, it, RIGHT_WRITE) ||
		       locks_has(it, c->session, &op->acquire.acquire);
	case OP_open_ephemeral:
		return may(s, c, it, RIGHT_READ | RIGHT_WRITE);
	case OP_set_acl:
		return may(s, c, it, RIGHT_CHANGE);
	case OP_set_quota:
		return !model_item_alive(it) || model_is_operator(s, c->session, c->user) ||
		       may(s, c, model_item(&s->model, it->parent), RIGHT_CHANGE);
	default:
		return true;
	}
}

bool
model_permits_grant(struct sim *s, const struct command *c, const struct op_grant *op)
{
	const struct item *it = model_item(&s->model, op->acquire.node);

	return !model_item_alive(it) || locks_has(it, op->session, &op->acquire) ||
	       model_has_right(s, it, s->model.applied, op->session, c->user, RIGHT_WRITE);
}

static bool
may_lock(struct sim *s, const struct record *r)
{
	const struct item *it = model_item(&s->model, r->op.acquire.acquire.node);

	return !model_item_alive(it) ||
	       model_has_right(s, it, s->model.applied, r->session, r->user, RIGHT_WRITE);
}

/* A waiter may never have had the right by itself, and wait by that of its handle. */
void
model_rights_changed(struct sim *s, const struct op *op)
{
	const struct footprint *changed = &s->model.changed;
	bool rights = op->code == OP_remove_principal || op->code == OP_rekey_principal;

	for (size_t i = 0; i < changed->n; i++) {
		const struct item *it = model_item(&s->model, changed->keys[i]);

		rights |= it != NULL && it->parent == NODE_ACL;
	}
	for (size_t i = 0; i < s->history.acquires_n; i++) {
		struct record *r = s->history.acquires[i];
		const bool own =
		    op->code == OP_set_acl && r->op.acquire.acquire.node == op->set_acl.node;

		if (r->waiting && (rights || own) && !may_lock(s, r)) {
			r->waiting = false;
			r->unentitled = s->model.applied;
		}
	}
}

enum rc
model_set_acl(struct sim *s, struct item *it, const struct op_set_acl *op)
{
	char name[NAME_ROOM] = "";
	const struct item *file;

	must(op->name.len < sizeof name);
	memcpy(name, op->name.data, op->name.len);
	if ((file = file_at(&s->model, s->model.applied, name)) == NULL)
		return RC_NOENT;
	if (file->ephemeral && (it->node == NODE_ROOT || it->node == NODE_ACL))
		return RC_BUSY;
	set_name(it, s->model.applied, op->which, op->name);
	return RC_OK;
}

static bool
names(struct model *m, uint64_t node, const struct item *file)
{
	for (unsigned i = 0; i < ACL_NAMES; i++)
		if (strcmp(name_at(model_item(m, node), m->applied, i), file->name) == 0)
			return true;
	return false;
}

bool
model_needs(struct model *m, const struct item *it)
{
	if (it->node == NODE_ACL || it->node == NODE_ACL_ADMIN)
		return true;
	return it->parent == NODE_ACL && it->kind == NODE_FILE &&
	       (names(m, NODE_ROOT, it) || names(m, NODE_ACL, it));
}

/* ---- administrators ---- */

static size_t
principal_at(const struct model *m, struct bytes name)
{
	size_t i = 0;

	while (i < m->principals_n && !bytes_equal(bytes_of(m->principals[i].text), name))
		i++;
	return i;
}

bool
model_owns(const struct model *m, struct bytes name, uint64_t generation)
{
	const size_t at = principal_at(m, name);

	return at < m->principals_n ? m->principals[at].generation == generation
	                            : bytes_equal(name, bytes_of("admin"));
}

void
model_add_principal(struct model *m, uint64_t index, struct bytes name)
{
	if (principal_at(m, name) < m->principals_n || bytes_equal(name, bytes_of("admin")))
		return;
	ARRAY_ROOM(m->principals, m->principals_n, m->principals_room);
	m->principals[m->principals_n].generation = index;
	snprintf(m->principals[m->principals_n++].text, LIMIT_PRINCIPAL + 1, "%.*s", (int)name.len,
	         (const char *)name.data);
}

void
model_end_rights(struct model *m, struct bytes name)
{
	for (size_t i = 0; i < m->sessions_n; i++)
		if (m->sessions[i].unowned == 0 &&
		    bytes_equal(bytes_of(m->sessions[i].principal), name))
			m->sessions[i].unowned = m->applied;
}

void
model_remove_principal(struct model *m, struct bytes name)
{
	const size_t at = principal_at(m, name);

	if (at == m->principals_n)
		return;
	m->principals[at] = m->principals[--m->principals_n];
	model_end_rights(m, name);
}

bool
model_keeps_admin(const struct model *m, const struct item *it, struct bytes contents)
{
	if (it->node != NODE_ACL_ADMIN || lists(contents, "admin") || lists(contents, "*"))
		return true;
	for (size_t i = 0; i < m->principals_n; i++)
		if (lists(contents, m->principals[i].text))
			return true;
	return false;
}

/* ---- reads ---- */

/* A request that its client has answered itself was not sent. */
static uint64_t
session_of(const struct sim *s, const struct record *r)
{
	return r->session != 0 ? r->session : s->machines[r->machine].session;
}

static void
check_shown(struct sim *s, const struct record *r, const struct item *it, const struct attr *attr)
{
	const unsigned shown = attr->rights;

	if (attr->kind == NODE_FILE && (attr->checksum != 0) != ((shown & RIGHT_READ) != 0))
		sim_fail(s, "with rights %u the checksum of %s is shown as %lx", shown,
		         trace_path(s, it->node), (unsigned long)attr->checksum);
	for (unsigned right = RIGHT_READ; right <= RIGHT_CHANGE; right *= 2)
		if (((shown & right) != 0) !=
		    model_has_right(s, it, r->index, session_of(s, r), r->user, right))
			sim_fail(s, "the attributes of %s show rights %u", trace_path(s, it->node),
			         shown);
}

/* From the cache it was answered with the right that there is now. */
void
model_check_rights(struct sim *s, const struct record *r, const struct item *it,
                   const struct result *result)
{
	static const struct {
		enum op_code code;
		unsigned right;
	} needed[] = {{OP_get_contents, RIGHT_READ},
	              {OP_get_listing, RIGHT_READ},
	              {OP_get_sequencer, RIGHT_WRITE}};
	const struct result_refused *refused = &result->refused;
	unsigned right = 0;
	bool permitted = true;

	if (r->op.code == OP_get_attr && r->rc == RC_OK)
		check_shown(s, r, it, &result->attr.attr);
	for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
		if (needed[i].code != r->op.code)
			continue;
		right = needed[i].right;
		permitted =
		    model_has_right(s, it, r->index, session_of(s, r), r->user, needed[i].right);
		if (r->cached && sim_leases_hold(s))
			permitted &= model_has_right(s, it, s->model.applied, session_of(s, r),
			                             r->user, needed[i].right);
	}
	/* Its own client verifies no digits. */
	if (r->op.code == OP_get_contents && (r->through.rights & RIGHT_READ) &&
	    (r->cached || digits_prove(s, r)))
		permitted |= model_principal(&s->model, session_of(s, r), r->index)[0] != '\0';
	if (r->rc == RC_ACCES && digits_doubtful(s, r))
		return;
	if (r->rc == RC_ACCES && (refused->node != it->node || refused->right != right))
		sim_fail(s, "read %lu.%lu of %s is refused for right %u on node %lu",
		         (unsigned long)r->session, (unsigned long)r->number,
		         trace_path(s, it->node), refused->right, (unsigned long)refused->node);
	if (permitted == (r->rc == RC_ACCES))
		sim_fail(s, "read %lu.%lu of %s for \"%.*s\" is answered %s, %s the right",
		         (unsigned long)r->session, (unsigned long)r->number,
		         trace_path(s, it->node), (int)r->user.len,
		         r->user.len > 0 ? (const char *)r->user.data : "", rc_name(r->rc),
		         permitted ? "with" : "without");
}

void
model_check_gone(struct sim *s, const struct record *r)
{
	const struct item *it = model_item(&s->model, wire_op_node(&r->op));

	if (it != NULL && (it->died == 0 || it->died > r->index))
		sim_fail(s, "acquire %lu.%lu of %s is answered that it is gone",
		         (unsigned long)r->session, (unsigned long)r->number,
		         trace_path(s, it->node));
}

void
model_check_refused(struct sim *s, const struct record *r)
{
	const struct item *it = model_item(&s->model, wire_op_node(&r->op));

	if (it != NULL && model_has_right(s, it, r->index, session_of(s, r), r->user, RIGHT_WRITE))
		sim_fail(s, "acquire %lu.%lu of %s is refused, with the right",
		         (unsigned long)r->session, (unsigned long)r->number,
		         trace_path(s, it->node));
}
