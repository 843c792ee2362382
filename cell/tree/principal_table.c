#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/principal.h"
#include "cell/tree/internal.h"

#define ADMIN "admin"

KEYED_TREE(principal_generations, principal, by_generation, generation)
BYTES_TREE(principal_names, principal, by_name, name)
BYTES_TREE(principal_keys, principal, by_key, key)

/* ---- the table ---- */

struct principal *
principal_find(const struct tree *t, uint64_t generation)
{
	return principal_generations_find(&t->principals.by_generation, generation);
}

struct principal *
principal_named(const struct tree *t, struct bytes name)
{
	return principal_names_find(&t->principals.by_name, name);
}

struct principal *
principal_of_key(const struct tree *t, struct bytes key)
{
	return principal_keys_find(&t->principals.by_key, key);
}

bool
principal_sound(struct bytes name, struct bytes key)
{
	return principal_name_valid(name) && (key.len == 0 || key.len == PUBLIC_KEY_BYTES);
}

void
principal_add(struct tree *t, uint64_t generation, struct bytes name, struct bytes key)
{
	struct principal *p = memory_zero(1, sizeof *p);

	p->generation = generation;
	p->name = bytes_copy(name);
	p->key = bytes_copy(key);
	must(RB_INSERT(principal_generations, &t->principals.by_generation, p) == NULL);
	must(RB_INSERT(principal_names, &t->principals.by_name, p) == NULL);
	if (key.len > 0)
		must(RB_INSERT(principal_keys, &t->principals.by_key, p) == NULL);
	t->principals.n++;
	DIRTY_ROW(t, principals, .key = {generation});
}

static void
principal_free(struct principal *p)
{
	free((void *)p->name.data);
	free((void *)p->key.data);
	free(p);
}

static void
principal_remove(struct tree *t, struct principal *p)
{
	RB_REMOVE(principal_generations, &t->principals.by_generation, p);
	RB_REMOVE(principal_names, &t->principals.by_name, p);
	if (p->key.len > 0)
		RB_REMOVE(principal_keys, &t->principals.by_key, p);
	t->principals.n--;
	DIRTY_ROW(t, principals, .key = {p->generation});
	principal_free(p);
}

void
principal_table_free(struct tree *t)
{
	struct principal *p;

	while ((p = RB_MIN(principal_generations, &t->principals.by_generation)) != NULL) {
		RB_REMOVE(principal_generations, &t->principals.by_generation, p);
		principal_free(p);
	}
}

/* ---- commands ---- */

/* The principal's sessions have no rights any more, and the master ends them. */
static void
note_removed(struct execution *x, const struct principal *p)
{
	struct tree_note *n = apply_note(x, TREE_PRINCIPAL_REMOVED, 0);

	n->principal = p->generation;
	n->name = bytes_copy(p->name);
}

bool
principal_table_may_begin(const struct tree *t, struct bytes admin_key)
{
	const struct principal *p = principal_of_key(t, admin_key);

	return principal_sound(bytes_of(ADMIN), admin_key) &&
	       (p == NULL || bytes_equal(p->name, bytes_of(ADMIN)));
}

void
principal_table_begin(struct execution *x, struct bytes admin_key)
{
	struct principal *former = principal_named(x->tree, bytes_of(ADMIN));

	if (former != NULL && bytes_equal(former->key, admin_key))
		return;
	if (former != NULL) {
		note_removed(x, former);
		principal_remove(x->tree, former);
	}
	principal_add(x->tree, x->index, bytes_of(ADMIN), admin_key);
}

static enum rc
check_adding(const struct tree *t, const struct op_add_principal *o)
{
	const struct principal *p = principal_named(t, o->name);

	if (!principal_sound(o->name, o->key) || o->key.len == 0)
		return RC_INVAL;
	if (p != NULL && bytes_equal(p->key, o->key))
		return RC_OK;
	if (p != NULL || principal_of_key(t, o->key) != NULL)
		return RC_EXIST;
	return t->principals.n < LIMIT_PRINCIPALS ? RC_OK : RC_FULL;
}

enum rc
apply_add_principal(struct execution *x, const struct op_add_principal *o)
{
	const enum rc rc = check_adding(x->tree, o);

	if (rc != RC_OK || principal_named(x->tree, o->name) != NULL)
		return rc;
	if (principal_find(x->tree, x->index) != NULL)
		return RC_INVAL;
	principal_add(x->tree, x->index, o->name, o->key);
	return RC_OK;
}

static enum rc
check_removing(const struct tree *t, const struct op_remove_principal *o)
{
	const struct principal *p = principal_named(t, o->name);

	if (p == NULL)
		return RC_NOENT;
	return acl_has_administrator(t, p) ? RC_OK : RC_PERM;
}

enum rc
apply_remove_principal(struct execution *x, const struct op_remove_principal *o)
{
	const enum rc rc = check_removing(x->tree, o);
	struct principal *p = principal_named(x->tree, o->name);

	if (rc != RC_OK)
		return rc;
	note_removed(x, p);
	principal_remove(x->tree, p);
	return RC_OK;
}

static enum rc
check_rekeying(const struct tree *t, const struct op_rekey_principal *o)
{
	const struct principal *p = principal_named(t, o->name), *other;

	if (!principal_sound(o->name, o->key) || o->key.len == 0)
		return RC_INVAL;
	if (p == NULL)
		return RC_NOENT;
	if (!tree_is_admin(t, o->name))
		return RC_PERM;
	other = principal_of_key(t, o->key);
	return other == NULL || other == p ? RC_OK : RC_EXIST;
}

/* The generation changes with the key, so the sessions of the former key's owner end. */
enum rc
apply_rekey_principal(struct execution *x, const struct op_rekey_principal *o)
{
	const enum rc rc = check_rekeying(x->tree, o);
	struct principal *p = principal_named(x->tree, o->name);

	if (rc != RC_OK || bytes_equal(p->key, o->key))
		return rc;
	if (principal_find(x->tree, x->index) != NULL)
		return RC_INVAL;
	note_removed(x, p);
	principal_remove(x->tree, p);
	principal_add(x->tree, x->index, o->name, o->key);
	return RC_OK;
}

/* ---- reads ---- */

enum rc
tree_check_principal(const struct tree *t, const struct op *op)
{
	switch (op->code) {
	case OP_add_principal:
		return check_adding(t, &op->add_principal);
	case OP_remove_principal:
		return check_removing(t, &op->remove_principal);
	default:
		must(op->code == OP_rekey_principal);
		return check_rekeying(t, &op->rekey_principal);
	}
}

static bool
show(const struct principal *p, struct tree_principal *to)
{
	if (p != NULL)
		*to = (struct tree_principal){p->generation, p->name, p->key};
	return p != NULL;
}

bool
tree_principal(const struct tree *t, struct bytes name, struct tree_principal *p)
{
	return show(principal_named(t, name), p);
}

bool
tree_principal_of_key(const struct tree *t, struct bytes key, struct tree_principal *p)
{
	return show(principal_of_key(t, key), p);
}

bool
tree_principal_after(const struct tree *t, struct bytes name, struct tree_principal *p)
{
	return show(principal_names_after(&t->principals.by_name, name), p);
}
