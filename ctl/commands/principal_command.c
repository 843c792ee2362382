/* principal: adds a principal to a cell, removes one, lists all; or gives an administrator that has
 * lost its key another one. */
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "cell/base/rc.h"
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "cell/wire/codec.h"
#include "ctl/ask.h"
#include "ctl/cell_admin.h"

enum { OPT_DIR = 256 };

/* A list of principals that is extended by each answer. */
struct listing {
	json_t *all;
	enum rc rc;
	char last[LIMIT_PRINCIPAL + 1]; /* name in the list */
	bool more;
};

static json_t *
row_json(const struct principal_row *row)
{
	char text[KEY_TEXT] = "";
	json_t *one = json_object();

	if (row->key.len > 0 && !key_to_text(row->key.data, row->key.len, text, sizeof text))
		text[0] = '\0';
	json_object_set_new(one, "name", json_stringn((const char *)row->name.data, row->name.len));
	json_object_set_new(one, "public_key", json_string(text));
	return one;
}

static void
on_principals(void *user, const struct message *m)
{
	struct listing *l = user;
	struct cursor rest = cursor_of(m->principals.principals.packed);
	struct principal_row row;

	l->rc = m->principals.rc;
	l->more = false;
	while (wire_next_principal_row(&rest, &row)) {
		json_array_append_new(l->all, row_json(&row));
		l->more = m->principals.more != 0;
		snprintf(l->last, sizeof l->last, "%.*s", (int)row.name.len,
		         (const char *)row.name.data);
	}
}

static bool
fetch(const struct cell_admin *o, struct listing *l)
{
	bool ok = true;

	while (ok && l->more) {
		const struct message question = {
		    .code = MSG_principals_request,
		    .principals_request = {.after = bytes_of(l->last)},
		};

		ok =
		    ask_master(&o->cell_file, &o->key, &question, MSG_principals, on_principals, l);
	}
	if (ok && l->rc != RC_OK)
		log_error("refused: not an administrator");
	return ok && l->rc == RC_OK;
}

static void
print(const struct ctl *ctl, const json_t *all)
{
	const json_t *row;
	size_t i;

	if (ctl->json) {
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
		return;
	}
	json_array_foreach(all, i, row)
	    printf("%s %s\n", json_string_value(json_object_get(row, "name")),
	           json_string_value(json_object_get(row, "public_key")));
}

static int
list(const struct ctl *ctl, const struct cell_admin *o)
{
	struct listing l = {.all = json_array(), .more = true};
	const bool ok = fetch(o, &l);

	if (ok)
		print(ctl, l.all);
	json_decref(l.all);
	return ok ? CTL_OK : CTL_FAILED;
}

static int
operate(const struct cell_admin *o, const struct msg_operate *what)
{
	return cell_admin_send(o, what, NULL) == CELL_ADMIN_DONE ? CTL_OK : CTL_FAILED;
}

static int
usage(const char *what, const char *why)
{
	return ctl_usage(&principal_command, what, why);
}

/* Reads the arguments; `what` stays 0 for a list. */
static int
check(int argc, char **argv, struct msg_operate *what, uint8_t key[NOISE_KEY])
{
	static const struct {
		const char *word;
		int arguments;
		enum operation what;
	} kinds[] = {
	    {"list", 0, 0},
	    {"add", 2, OPERATION_ADD_PRINCIPAL},
	    {"remove", 1, OPERATION_REMOVE_PRINCIPAL},
	    {"recover", 2, OPERATION_RECOVER_PRINCIPAL},
	};
	enum { KINDS = sizeof kinds / sizeof *kinds };
	size_t i = 0;

	if (argc == 0)
		return usage("list, add, remove or recover", "needed");
	while (i < KINDS && strcmp(argv[0], kinds[i].word) != 0)
		i++;
	if (i == KINDS)
		return usage(argv[0], "neither list, add, remove nor recover");
	if (argc - 1 != kinds[i].arguments)
		return usage(argv[0], "wrong number of arguments");
	what->what = (uint8_t)kinds[i].what;
	if (argc > 1 && !key_principal_valid(argv[1]))
		return usage(argv[1], "not a principal's name");
	if (argc > 2 && !key_from_text(argv[2], key, NOISE_KEY))
		return usage(argv[2], "not a public key (see lsctl key show)");
	if (argc > 1)
		what->name = bytes_of(argv[1]);
	if (argc > 2)
		what->key = (struct bytes){key, NOISE_KEY};
	return 0;
}

/* With a data directory the command is an operator's on the host of a replica. */
static int
check_directory(const struct msg_operate *what, const char *directory)
{
	const bool recovers = what->what == OPERATION_RECOVER_PRINCIPAL;

	if (recovers && (directory == NULL || directory[0] == '\0'))
		return usage("--dir", "needed");
	if (!recovers && directory != NULL)
		return usage("--dir", "only for recover");
	return 0;
}

static int
run_one(const struct ctl *ctl, const struct msg_operate *what, const char *directory)
{
	struct cell_admin o;
	int rc = CTL_FAILED;
	const bool ok =
	    directory != NULL ? cell_admin_begin_on_host(directory, &o) : cell_admin_begin(ctl, &o);

	if (ok)
		rc = what->what == 0 ? list(ctl, &o) : operate(&o, what);
	cell_admin_end(&o);
	return rc;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"dir", required_argument, NULL, OPT_DIR},
	    CTL_LONG_OPTIONS,
	};
	struct msg_operate what = {0};
	const char *directory = NULL;
	uint8_t key[NOISE_KEY];
	int letter, rc;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (letter == OPT_DIR)
			directory = optarg;
		else if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	if (ctl->help)
		return CTL_OK;
	rc = check(argc - optind, argv + optind, &what, key);
	if (rc == 0)
		rc = check_directory(&what, directory);
	return rc != 0 ? rc : run_one(ctl, &what, directory);
}

const struct ctl_command principal_command = {
    "principal",
    "list | add NAME PUBLICKEY | remove NAME | recover NAME PUBLICKEY --dir DATADIR",
    "lists the principals of a cell; adds one, removes one; gives an administrator a new key",
    .run = run,
};
