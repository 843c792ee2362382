/* The three ACL names of a node (Chubby, section 2.2) are names of files in /acl, inherited from
 * the parent at creation. An ACL file lists subjects, one a line:
 *
 *   PRINCIPAL        the principal itself, but none of its users
 *   PRINCIPAL/USER   one user of it; with an asterisk as USER, any user of it
 *   *                everyone who is authenticated
 *   @NAME            all whom the ACL file NAME names: a group
 *
 * A name without a file gives the right to nobody, and so does a file that is too long. */
#include <stdlib.h>
#include <string.h>

#include "cell/base/principal.h"
#include "cell/tree/internal.h"

/* The lines of an ACL file, sorted, each once; views into its contents. Groups begin at `groups`.
 */
struct acl_lines {
	size_t n, room, groups;
	struct bytes *list;
};

enum { LOOKED_FOR_MAX = 16 * LIMIT_GROUPS }; /* groups, in one look-up: there may be no such file */

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

/* The next line of an ACL file, from *at on, with its end; its subject is empty in a line that
 * names none. False at the end of the text. */
static bool
next_line(struct bytes text, size_t *at, struct bytes *whole, struct bytes *subject)
{
	const size_t from = *at;
	size_t end = from;

	while (end < text.len && text.data[end] != '\n')
		end++;
	*at = end + (end < text.len);
	*whole = (struct bytes){text.data + from, *at - from};
	*subject = trimmed((struct bytes){text.data + from, end - from});
	return *at > from;
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
	struct bytes whole, subject;
	size_t at = 0;

	while (text.len <= LIMIT_ACL && next_line(text, &at, &whole, &subject)) {
		if (subject.len == 0)
			continue;
		ARRAY_ROOM(lines->list, lines->n, lines->room);
		lines->list[lines->n++] = subject;
	}
	if (lines->n > 1)
		qsort(lines->list, lines->n, sizeof *lines->list, compare);
	for (size_t i = 0, all = lines->n; i < all; i++) {
		const struct bytes line = lines->list[i];

		lines->n = i == 0 ? 0 : lines->n;
		if (lines->n == 0 || !bytes_equal(line, lines->list[lines->n - 1]))
			lines->list[lines->n++] = line;
	}
	while (lines->groups < lines->n && lines->list[lines->groups].data[0] < '@')
		lines->groups++;
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

static const struct acl_lines *
lines_of(struct node *file)
{
	if (file->acl_lines == NULL)
		file->acl_lines = parse(file->contents);
	return file->acl_lines;
}

/* ---- groups ----
 *
 * A file and its groups are looked into in the order of their depth, each once, so that circles are
 * harmless; and only so many are looked for, so that nobody makes a look-up long. A change of any
 * of these files is one of all rights. */

struct group_walk {
	struct node *files[LIMIT_GROUPS];
	size_t n;
};

static void
add_group(struct group_walk *w, struct node *file)
{
	if (file == NULL || w->n == LIMIT_GROUPS)
		return;
	for (size_t i = 0; i < w->n; i++)
		if (w->files[i] == file)
			return;
	w->files[w->n++] = file;
}

static bool
grants(const struct tree *t, struct node *file, const struct subject *who)
{
	struct group_walk w = {0};
	size_t level = 0, looked_for = 0;
	int depth = -1;

	if (file != NULL && file->kind == NODE_FILE)
		add_group(&w, file);
	for (size_t at = 0; at < w.n; at++) {
		const struct acl_lines *lines = lines_of(w.files[at]);

		if (names_subject(lines, who))
			return true;
		if (at == level) {
			level = w.n;
			depth++;
		}
		for (size_t i = lines->groups; i < lines->n && depth < LIMIT_GROUP_DEPTH; i++) {
			const struct bytes line = lines->list[i];

			if (line.data[0] != '@' || looked_for++ >= LOOKED_FOR_MAX)
				break;
			add_group(&w, acl_file(t, (struct bytes){line.data + 1, line.len - 1}));
		}
	}
	return false;
}

bool
acl_gives(const struct tree *t, struct bytes name, const struct subject *who)
{
	return grants(t, acl_file(t, name), who);
}

/* True if the subject of a line is the principal, one of its users, or all of them. */
static bool
line_names(struct bytes subject, struct bytes principal)
{
	return subject.len >= principal.len &&
	       memcmp(subject.data, principal.data, principal.len) == 0 &&
	       (subject.len == principal.len || subject.data[principal.len] == '/');
}

/* True if a line of the ACL file names the principal so. */
static bool
names_principal(struct node *file, struct bytes principal)
{
	const struct acl_lines *lines = file->kind == NODE_FILE ? lines_of(file) : NULL;

	for (size_t i = 0; lines != NULL && i < lines->n; i++)
		if (line_names(lines->list[i], principal))
			return true;
	return false;
}

uint8_t
acl_rights(const struct tree *t, const struct node *n, const struct subject *who)
{
	const struct node *acl = node_find(t, NODE_ACL);
	unsigned rights = 0;

	for (unsigned i = 0; i < ACL_NAMES; i++)
		if (acl != NULL && grants(t, node_child(acl, n->acl[i]), who))
			rights |= 1u << i;
	return (uint8_t)rights;
}

enum rc
apply_set_acl(struct execution *x, struct node *n, const struct op_set_acl *o)
{
	const struct node *file;

	if (o->which >= ACL_NAMES || !name_valid(o->name))
		return RC_INVAL;
	/* Without the file no session would have the right, and never again if it is the right to
	 * change the ACL. */
	if ((file = acl_file(x->tree, o->name)) == NULL)
		return RC_NOENT;
	if (file->ephemeral && (n->number == NODE_ROOT || n->number == NODE_ACL))
		return RC_BUSY;
	node_set_acl(n, o->which, o->name);
	n->acl_generation++;
	return apply_attr_changed(x, n);
}

/* ---- administrators ---- */

bool
tree_is_admin(const struct tree *t, struct bytes principal)
{
	return principal_named(t, principal) != NULL &&
	       acl_is_operator(t, &(struct subject){.principal = principal});
}

bool
acl_is_operator(const struct tree *t, const struct subject *who)
{
	return acl_gives(t, bytes_of("admin"), who);
}

bool
tree_may_last(const struct tree *t, struct bytes principal)
{
	const struct subject who = {.principal = principal};

	return principal_named(t, principal) != NULL &&
	       (acl_is_operator(t, &who) || acl_gives(t, bytes_of("lasting"), &who));
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

static bool
names_file(const struct node *n, const struct node *file)
{
	for (unsigned i = 0; i < ACL_NAMES; i++)
		if (bytes_equal(n->acl[i], file->name))
			return true;
	return false;
}

/* Without /acl or administrators no principal could be given any right again; without an ACL
 * file that the root or /acl names, almost no command would be permitted. */
bool
acl_is_needed(const struct tree *t, const struct node *n)
{
	/* All new nodes inherit the name from the root, or all new ACL files. */
	return n->number == NODE_ACL || acl_is_admin_file(n) ||
	       (acl_is_file(n) &&
	        (names_file(node_find(t, NODE_ROOT), n) || names_file(node_find(t, NODE_ACL), n)));
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
	struct node *file = acl_file(t, bytes_of("admin"));

	return file != NULL && has_principal(t, lines_of(file), without);
}

/* ---- acl purge ----
 *
 * A name is removed from the ACL files, so that another principal that gets it later has no right
 * by them. A command changes only a few files, so that it stays small. */

enum { PURGED_MOST = 64 };

/* The next ACL file after `n` (NULL: the first one) that names the principal. */
static struct node *
next_naming(const struct tree *t, struct node *n, struct bytes principal)
{
	const struct node *acl = node_find(t, NODE_ACL);

	if (n != NULL)
		n = RB_NEXT(children, , n);
	else if (acl != NULL)
		n = RB_MIN(children, (struct children *)&acl->children);
	while (n != NULL && !names_principal(n, principal))
		n = RB_NEXT(children, , n);
	return n;
}

void
acl_purge_changes(const struct tree *t, struct bytes principal, struct footprint *f)
{
	struct node *n = NULL;

	if (principal_named(t, principal) != NULL)
		return;
	while (f->n < PURGED_MOST && (n = next_naming(t, n, principal)) != NULL)
		footprint_add(f, n->number);
	footprint_add_rights(f, t);
}

/* Comments stay, except those in removed lines. */
static struct bytes
without(struct bytes text, struct bytes principal)
{
	struct buffer rest = BUFFER(LIMIT_ACL);
	struct bytes whole, subject;
	size_t at = 0;

	while (next_line(text, &at, &whole, &subject))
		if (!line_names(subject, principal))
			buffer_put_bytes(&rest, whole);
	must(!rest.failed);
	return buffer_take(&rest);
}

enum rc
apply_purge_name(struct execution *x, const struct op_purge_name *o)
{
	struct node *n = NULL;

	if (!principal_name_valid(o->name))
		return RC_INVAL;
	if (principal_named(x->tree, o->name) != NULL)
		return RC_EXIST;
	for (size_t i = 0; i < PURGED_MOST; i++) {
		n = next_naming(x->tree, n, o->name);
		if (n == NULL)
			return RC_OK;
		contents_replace(x, n, without(n->contents, o->name));
	}
	return RC_OK;
}

struct bytes
tree_acl_naming(const struct tree *t, struct bytes principal, struct bytes after)
{
	const struct node *acl = node_find(t, NODE_ACL);
	struct node *n = after.len == 0 || acl == NULL ? NULL : node_child(acl, after);

	n = next_naming(t, n, principal);
	return n == NULL ? (struct bytes){0} : n->name;
}
