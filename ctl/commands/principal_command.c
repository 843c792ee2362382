/* principal: adds a principal to a cell, removes one, lists all; or gives an administrator that has
 * lost its key another one. key: makes the key of a principal, and shows the public half of any. */
#include <errno.h>
#include <jansson.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/rc.h"
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "cell/view/ask.h"
#include "cell/view/output.h"
#include "cell/wire/codec.h"
#include "ctl/cell_admin.h"

/* A list of principals that is extended by each answer. */
struct listing {
	json_t *all;
	enum rc rc;
	char last[LIMIT_PRINCIPAL + 1]; /* name in the list */
	bool more;                      /* the cell has principals behind it */
	struct bytes name;              /* of the principal that is looked for, */
	uint64_t generation;            /* and what it has; 0: it was not found */
};

static void
on_principals(void *user, const struct message *m)
{
	struct listing *l = user;
	struct cursor rest = cursor_of(m->principals.principals.packed);
	struct principal_row row;
	char key[KEY_TEXT];
	json_t *one;

	l->rc = m->principals.rc;
	l->more = false;
	while (wire_next_principal_row(&rest, &row)) {
		if (row.key.len == 0 || !key_to_text(row.key.data, row.key.len, key, sizeof key))
			key[0] = '\0';
		one = json_object();
		json_object_set_new(one, "name", json_path(row.name));
		json_object_set_new(one, "public_key", json_string(key));
		json_array_append_new(l->all, one);
		l->more = m->principals.more != 0;
		if (bytes_equal(row.name, l->name))
			l->generation = row.generation;
		snprintf(l->last, sizeof l->last, "%.*s", (int)row.name.len,
		         (const char *)row.name.data);
	}
}

/* False after an error message. */
static bool
list(const struct cell_admin *o, struct listing *l)
{
	bool ok = true;

	l->all = json_array();
	for (l->more = true; ok && l->more;) {
		const struct message question =
		    MESSAGE(principals_request, .after = bytes_of(l->last));

		ok =
		    ask_master(&o->cell_file, &o->key, &question, MSG_principals, on_principals, l);
	}
	if (ok && l->rc != RC_OK)
		log_error("refused: not an administrator");
	return ok && l->rc == RC_OK;
}

static int
run_list(const struct ctl *ctl, char **argv)
{
	static const struct column columns[] = {{NULL, 0, "name", NULL},
	                                        {NULL, 0, "public_key", NULL},
	                                        {0}};
	struct listing l = {0};
	struct cell_admin o;
	const bool ok = cell_admin_begin(ctl, &o) && list(&o, &l);

	(void)argv;
	cell_admin_end(&o);
	if (ok && ctl->json)
		json_text_print(l.all);
	else if (ok)
		table_print(l.all, columns);
	json_decref(l.all);
	return ok ? CTL_OK : CTL_FAILED;
}

/* An ACL file gives its rights to every principal that has the name, also to a later one. */
static void
tell_naming(void *user, const char *file)
{
	const struct msg_operate *what = user;
	const bool removed = what->what == OPERATION_REMOVE_PRINCIPAL;

	log_warn("acl/%s: names %.*s %s", file, (int)what->name.len, (const char *)what->name.data,
	         removed ? "still: who gets that name has the rights of this file; "
	                   "remove --purge takes it out"
	                 : "already: this principal has the rights of that file");
}

static const char *directory;
static bool purge;

/* With a data directory the command is an operator's on the host of a replica. */
static int
operate(const struct ctl *ctl, enum operation operation, char **argv)
{
	uint8_t key[NOISE_KEY];
	struct msg_operate what = {.what = (uint8_t)operation, .purge = purge};
	struct listing l = {0};
	struct cell_admin o;
	bool ok;

	if (!key_principal_valid(argv[0]))
		return ctl_usage(argv[0], "not a principal's name");
	what.name = bytes_of(argv[0]);
	if (argv[1] != NULL && !key_from_text(argv[1], key, sizeof key))
		return ctl_usage(argv[1], "not a public key (see lsctl key show)");
	if (argv[1] != NULL)
		what.key = (struct bytes){key, sizeof key};
	ok =
	    directory != NULL ? cell_admin_begin_on_host(directory, &o) : cell_admin_begin(ctl, &o);
	if (ok && operation == OPERATION_REMOVE_PRINCIPAL) {
		l.name = what.name;
		ok = list(&o, &l);
		what.seen = l.generation; /* however late this arrives, a later one stays */
		json_decref(l.all);
	}
	ok = ok && cell_admin_send_principal(&o, &what, tell_naming, &what) == CELL_ADMIN_DONE;
	cell_admin_end(&o);
	return ok ? CTL_OK : CTL_FAILED;
}

static int
run_add(const struct ctl *ctl, char **argv)
{
	return operate(ctl, OPERATION_ADD_PRINCIPAL, argv);
}

static int
run_remove(const struct ctl *ctl, char **argv)
{
	return operate(ctl, OPERATION_REMOVE_PRINCIPAL, argv);
}

static int
run_recover(const struct ctl *ctl, char **argv)
{
	return operate(ctl, OPERATION_RECOVER_PRINCIPAL, argv);
}

static const struct ctl_option options[] = {
    {"dir", 0, "DATADIR", &directory, .only = "recover", .needed = true},
    {"purge", .to = &purge, .only = "remove"},
    {0},
};

const struct ctl_command principal_command = {
    "principal",
    "lists the principals of a cell; adds one, removes one; gives an administrator a new key",
    {{.name = "list", .run = run_list},
     {.name = "add", .words = {"NAME", "PUBLICKEY"}, .run = run_add},
     {.name = "remove", .words = {"NAME"}, .run = run_remove},
     {.name = "recover", .words = {"NAME", "PUBLICKEY"}, .run = run_recover}},
    options,
};

/* ---- key ---- */

static const char *const kinds[] = {
    [KEY_SIGNING] = "signing",
    [KEY_REPLICA] = "replica",
    [KEY_PRINCIPAL] = "principal",
};

static int
print_key(const struct ctl *ctl, const struct key_public *key)
{
	char text[KEY_TEXT];
	json_t *all;

	if (!key_to_text(key->public_key, sizeof key->public_key, text, sizeof text))
		return CTL_FAILED;
	if (!ctl->json) {
		puts(text);
		return CTL_OK;
	}
	all = json_object();
	json_object_set_new(all, "kind", json_string(kinds[key->kind]));
	if (key->kind == KEY_PRINCIPAL)
		json_object_set_new(all, "name", json_path(bytes_of(key->name)));
	json_object_set_new(all, "public_key", json_string(text));
	json_text_print(all);
	json_decref(all);
	return CTL_OK;
}

static int
run_show(const struct ctl *ctl, char **argv)
{
	struct key_public key;
	char why[512];

	if (key_file_read_public(argv[0], &key, why, sizeof why))
		return print_key(ctl, &key);
	return CTL_FAIL("%s", why);
}

static int
run_generate(const struct ctl *ctl, char **argv)
{
	const struct passwd *user = argv[1] != NULL ? NULL : getpwuid(geteuid());
	const char *name = argv[1] != NULL ? argv[1] : user ? user->pw_name : "";
	struct key_public key = {.kind = KEY_PRINCIPAL};
	struct noise_pair pair;
	int rc;

	if (!key_principal_valid(name))
		return ctl_usage(name[0] ? name : "NAME", "not a principal's name");
	rc = key_file_create_channel(argv[0], name, &pair);
	if (rc < 0)
		return CTL_FAIL("%s: %s", argv[0],
		                rc == -EEXIST ? "exists already" : strerror(-rc));
	strcpy(key.name, name);
	memcpy(key.public_key, pair.public, sizeof key.public_key);
	explicit_bzero(&pair, sizeof pair);
	return print_key(ctl, &key);
}

const struct ctl_command key_command = {
    "key",
    "makes the key of a principal; prints the public half of a key",
    {{.name = "generate", .words = {"FILE", "[NAME]"}, .run = run_generate},
     {.name = "show", .words = {"FILE"}, .run = run_show}},
    NULL,
};
