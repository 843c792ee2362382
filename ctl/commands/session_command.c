/* session: lists the sessions of a cell, or ends one. */
#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/rc.h"
#include "cell/sys/log.h"
#include "cell/wire/codec.h"
#include "ctl/ask.h"
#include "ctl/cell_admin.h"

enum { OPT_KEEP_DELAY = 256 };

/* ---- list ---- */

/* A list of sessions that is extended by each answer. */
struct listing {
	json_t *all;
	uint64_t last; /* id of the last session in the list */
	bool more;
	enum rc rc;
};

static json_t *
text_json(struct bytes text)
{
	json_t *json = json_stringn((const char *)text.data, text.len);

	return json != NULL ? json : json_null(); /* not UTF-8 */
}

static json_t *
row_json(const struct session_row *row)
{
	json_t *one = json_object();

	json_object_set_new(one, "session", json_integer((json_int_t)row->session));
	json_object_set_new(one, "principal", text_json(row->principal));
	json_object_set_new(one, "host", text_json(row->host));
	json_object_set_new(one, "lease_ms", json_integer(row->lease_ms));
	json_object_set_new(one, "locks", json_integer((json_int_t)row->locks));
	json_object_set_new(one, "heard_ms",
	                    row->heard_ms < 0 ? json_null() : json_integer(row->heard_ms));
	return one;
}

static void
on_sessions(void *user, const struct message *m)
{
	struct listing *l = user;
	struct cursor rest = cursor_of(m->sessions.sessions.packed);
	struct session_row row;

	l->more = false;
	while (wire_next_session_row(&rest, &row)) {
		json_array_append_new(l->all, row_json(&row));
		l->more = m->sessions.more != 0;
		l->last = row.session;
	}
}

static void
print_row(const json_t *row)
{
	const json_t *heard = json_object_get(row, "heard_ms");
	const char *principal = json_string_value(json_object_get(row, "principal"));
	const char *host = json_string_value(json_object_get(row, "host"));
	char ago[32] = "not yet";

	if (!json_is_null(heard))
		snprintf(ago, sizeof ago, "%.1f s ago", (double)json_integer_value(heard) / 1000);
	printf("%-12" JSON_INTEGER_FORMAT " %-16s %-24s %6" JSON_INTEGER_FORMAT " %12s\n",
	       json_integer_value(json_object_get(row, "session")), principal ? principal : "?",
	       host ? host : "?", json_integer_value(json_object_get(row, "locks")), ago);
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
	printf("%-12s %-16s %-24s %6s %12s\n", "session", "principal", "host", "locks", "heard");
	json_array_foreach(all, i, row) print_row(row);
}

static int
list(const struct ctl *ctl, const struct cell_admin *o)
{
	struct listing l = {.all = json_array(), .more = true};
	bool ok = true;

	while (ok && l.more) {
		const struct message question = {
		    .code = MSG_sessions_request,
		    .sessions_request = {.after = l.last},
		};

		ok = ask_master(&o->cell_file, &o->key, &question, MSG_sessions, on_sessions, &l);
	}
	if (ok)
		print(ctl, l.all);
	json_decref(l.all);
	return ok ? CTL_OK : CTL_FAILED;
}

/* ---- destroy ---- */

static int
destroy(const struct cell_admin *o, uint64_t id, bool keep_delay)
{
	const struct msg_operate what = {
	    .what = OPERATION_DESTROY_SESSION,
	    .id = id,
	    .keep_delay = keep_delay,
	};

	return cell_admin_send(o, &what, NULL) == CELL_ADMIN_DONE ? CTL_OK : CTL_FAILED;
}

/* ---- the command ---- */

static int
usage(const char *what, const char *why)
{
	return ctl_usage(&session_command, what, why);
}

static int
check(int argc, char **argv, bool keep_delay, uint64_t *id)
{
	const bool is_destroy = argc > 0 && strcmp(argv[0], "destroy") == 0;

	if (argc == 0)
		return usage("list or destroy", "needed");
	if (!is_destroy && strcmp(argv[0], "list") != 0)
		return usage(argv[0], "neither list nor destroy");
	if (is_destroy && argc < 2)
		return usage("ID", "needed");
	if (argc > 1 + is_destroy)
		return usage(argv[1 + is_destroy], "unexpected argument");
	if (!is_destroy && keep_delay)
		return usage("--keep-delay", "only for destroy");
	if (is_destroy && (*id = cell_admin_number(argv[1], UINT64_MAX)) == 0)
		return usage(argv[1], "not a session's id");
	return 0;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	static const struct option longs[] = {
	    {"keep-delay", no_argument, NULL, OPT_KEEP_DELAY},
	    CTL_LONG_OPTIONS,
	};
	bool keep_delay = false;
	struct cell_admin o;
	uint64_t id = 0;
	int letter, rc;

	while ((letter = getopt_long(argc, argv, "h", longs, NULL)) != -1) {
		if (letter == OPT_KEEP_DELAY)
			keep_delay = true;
		else if (!ctl_option(ctl, letter))
			return CTL_USAGE;
	}
	if (ctl->help)
		return CTL_OK;
	rc = check(argc - optind, argv + optind, keep_delay, &id);
	if (rc != 0)
		return rc;
	rc = CTL_FAILED;
	if (cell_admin_begin(ctl, &o))
		rc = id == 0 ? list(ctl, &o) : destroy(&o, id, keep_delay);
	cell_admin_end(&o);
	return rc;
}

const struct ctl_command session_command = {
    "session",
    "list | destroy ID [--keep-delay]",
    "lists the sessions of a cell; ends one and frees its locks",
    run,
};
