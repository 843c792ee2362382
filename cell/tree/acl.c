/* The three ACL names of a node (Chubby, section 2.2) are names of files in /acl, inherited from
 * the parent at creation. An ACL file lists subjects, one a line:
 *
 *   PRINCIPAL        the principal itself, but none of its users
 *   PRINCIPAL/USER   one user of it; with an asterisk as USER, any user of it
 *   *                everyone who is authenticated
 *
 * A name without a file gives the right to nobody, and so does a file that is too long. */
#include <stdlib.h>
#include <string.h>
#include "cell/tree/internal.h"

/* The lines of an ACL file, sorted; views into its contents. */
struct acl_lines {
	size_t n, room;
	struct bytes *list;
};

/* ---- lines ---- */

static bool
is_blank(uint8_t c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* A line without its comment and the blanks around it. */
static struct bytes
trimmed(struct bytes line)
{
	size_t from = 0, to = 0;

	while (to < line.len && line.data[to] != '#')
		to++;
	while (from < to && is_blank(line.data[from]))
		from++;
	while (to > from && is_blank(line.data[to - 1]))
		to--;
	return (struct bytes){line.data + from, to - from};
}

static int
compare(const void *a, const void *b)
{
	return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static struct acl_lines *
parse(struct bytes text)
{
	struct acl_lines *lines = memory_zero(1, sizeof *lines);

	for (size_t at = 0; at < text.len && text.len <= LIMIT_ACL; at++) {
		const size_t start = at;
		struct bytes line;

		while (at < text.len && text.data[at] != '\n')
			at++;
		line = trimmed((struct bytes){text.data + start, at - start});
		if (line.len == 0)
			continue;
		ARRAY_ROOM(lines->list, lines->n, lines->room);
		lines->list[lines->n++] = line;
	}
	if (lines->n > 1)
		qsort(lines->list, lines->n, sizeof *lines->list, compare);
	return lines;
}

static void
lines_free(struct acl_lines *lines)
{
	if (lines != NULL)
		free(lines->list);
	free(lines);
}

void
acl_forget_lines(struct node *n)
{
	lines_free(n->acl_lines);
	n->acl_lines = NULL;
}

static bool
has_line(const struct acl_lines *lines, struct bytes line)
{
	return lines->n > 0 && bsearch(&line, lines->list, lines->n, sizeof line, compare) != NULL;
}

/* PRINCIPAL/USER, in `room`. */
static struct bytes
user_line(struct bytes principal, struct bytes user, uint8_t room[2 * LIMIT_PRINCIPAL + 1])
{
	must(principal.len <= LIMIT_PRINCIPAL && user.len <= LIMIT_PRINCIPAL);
	memcpy(room, principal.data, principal.len);
	room[principal.len] = '/';
	memcpy(room + principal.len + 1, user.data, user.len);
	return (struct bytes){room, principal.len + 1 + user.len};
}

static bool
names_subject(const struct acl_lines *lines, const struct subject *who)
{
	uint8_t room[2 * LIMIT_PRINCIPAL + 1];

	if (who->principal.len == 0)
		return false;
	if (has_line(lines, bytes_of("*")))
		return true;
	if (who->user.len == 0)
		return has_line(lines, who->principal);
	return has_line(lines, user_line(who->principal, who->user, room)) ||
	       has_line(lines, user_line(who->principal, bytes_of("*"), room));
}

/* ---- rights ---- */

/* The file of this name in /acl; NULL when there is none. */
static struct node *
acl_file(const struct tree *t, struct bytes name)
{
	const struct node *acl = node_find(t, NODE_ACL);
	struct node *file = acl == NULL ? NULL : node_child(acl, name);

	return file != NULL && file->kind == NODE_FILE ? file : NULL;
}

static bool
grants(struct node *file, const struct subject *who)
{
	if (file == NULL || file->kind != NODE_FILE)
		return false;
	if (file->acl_lines == NULL)
		file->acl_lines = parse(file->contents);
	return names_subject(file->acl_lines, who);
}

uint8_t
acl_rights(const struct tree *t, const struct node *n, const struct subject *who)
{
	const struct node *acl = node_find(t, NODE_ACL);
	struct node *files[ACL_NAMES];
	unsigned rights = 0;

	for (unsigned i = 0; i < ACL_NAMES; i++)
		files[i] = acl == NULL ? NULL : node_child(acl, n->acl[i]);
	for (unsigned i = 0; i < ACL_NAMES; i++)
		if (grants(files[i], who))
			rights |= 1u << i;
	return (uint8_t)rights;
}

uint8_t
tree_rights(const struct tree *t, uint64_t node, const struct subject *who)
{
	const struct node *n = node_find(t, node);

	return n == NULL ? 0 : acl_rights(t, n, who);
}

enum rc
apply_set_acl(struct execution *x, const struct op_set_acl *o, struct result_attr *r)
{
	struct node *n = node_find(x->tree, o->node);

	if (n == NULL)
		return RC_STALE;
	if (o->which >= ACL_NAMES || !name_valid(o->name))
		return RC_INVAL;
	/* No session would have the right, for ever if it is the one to change. */
	if (acl_file(x->tree, o->name) == NULL)
		return RC_NOENT;
	node_set_acl(n, o->which, o->name);
	n->acl_generation++;
	dirty_node(x->tree, n);
	apply_note_node(x, TREE_NODE_CHANGED, n);
	node_attr(x->tree, n, &x->who, &r->attr);
	return RC_OK;
}

/* ---- administrators ---- */

bool
tree_is_admin(const struct tree *t, struct bytes principal)
{
	return principal_named(t, principal) != NULL &&
	       grants(acl_file(t, bytes_of("admin")), &(struct subject){.principal = principal});
}

bool
acl_is_admin_file(const struct node *n)
{
	return n->number == NODE_ACL_ADMIN;
}

bool
acl_is_file(const struct node *n)
{
	return n->kind == NODE_FILE && n->parent_number == NODE_ACL;
}

/* True if the lines name a principal that there is, other than `without`. */
static bool
has_principal(const struct tree *t, const struct acl_lines *lines, const struct principal *without)
{
	if (has_line(lines, bytes_of("*")))
		return t->principals.n > (without != NULL);
	for (size_t i = 0; i < lines->n; i++) {
		const struct principal *p = principal_named(t, lines->list[i]);

		if (p != NULL && p != without)
			return true;
	}
	return false;
}

bool
acl_allows_contents(const struct tree *t, const struct node *n, struct bytes contents)
{
	struct acl_lines *lines;
	bool found;

	if (!acl_is_admin_file(n))
		return true;
	lines = parse(contents);
	found = has_principal(t, lines, NULL);
	lines_free(lines);
	return found;
}

bool
acl_has_administrator(const struct tree *t, const struct principal *without)
{
	const struct node *file = acl_file(t, bytes_of("admin"));
	struct acl_lines *lines;
	bool found;

	if (file == NULL)
		return false;
	lines = parse(file->contents);
	found = has_principal(t, lines, without);
	lines_free(lines);
	return found;
}
