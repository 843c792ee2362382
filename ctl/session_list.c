/* session: lists the sessions of a cell, or ends one. */
#include "ctl/session_list.h"

#include <stdio.h>
#include "cell/base/rc.h"
#include "cell/config/key_file.h"
#include "cell/wire/codec.h"
#include "ctl/ask.h"
#include "ctl/output.h"

/* A list of sessions that is extended by each answer. */
struct listing {
	json_t *all;
	uint64_t last; /* id of the last session in the list */
	bool more;
};

static void
on_sessions(void *user, const struct message *m)
{
	struct listing *l = user;
	struct cursor rest = cursor_of(m->sessions.sessions.packed);
	struct session_row row;
	json_t *one;

	l->more = false;
	while (wire_next_session_row(&rest, &row)) {
		one = json_object();
		json_object_set_new(one, "session", json_number(row.session));
		json_object_set_new(one, "principal",
		                    json_text(row.principal.data, row.principal.len));
		json_object_set_new(one, "host", json_text(row.host.data, row.host.len));
		json_object_set_new(one, "lease_ms",
		                    row.lasting ? json_null() : json_integer(row.lease_ms));
		json_object_set_new(one, "lasting", json_boolean(row.lasting));
		json_object_set_new(one, "locks", json_number(row.locks));
		json_object_set_new(one, "heard_ms",
		                    row.heard_ms < 0 ? json_null() : json_integer(row.heard_ms));
		json_array_append_new(l->all, one);
		l->more = m->sessions.more != 0;
		l->last = row.session;
	}
}

json_t *
session_list(const struct cell_admin *o)
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
		return l.all;
	json_decref(l.all);
	return NULL;
}

static void
heard_text(const json_t *row, char text[COLUMN_TEXT])
{
	if (json_is_null(json_object_get(row, "heard_ms")))
		snprintf(text, COLUMN_TEXT, "not yet");
	else
		snprintf(text, COLUMN_TEXT, "%.1f s ago",
		         (double)json_number_of(row, "heard_ms") / 1000);
}

static void
lasting_text(const json_t *row, char text[COLUMN_TEXT])
{
	snprintf(text, COLUMN_TEXT, "%s",
	         json_is_true(json_object_get(row, "lasting")) ? " lasting" : "");
}

void
session_list_print(const json_t *sessions)
{
	static const struct column columns[] = {
	    {"session", -12, "session", NULL},
	    {"principal", -16, "principal", NULL},
	    {"host", -24, "host", NULL},
	    {"locks", 6, "locks", NULL},
	    {"heard", 12, NULL, heard_text},
	    {"", -1, NULL, lasting_text},
	    {0},
	};

	table_print(sessions, columns);
}

/* ---- the command ---- */

static const char *principal;
static bool keep_delay;

static bool
take_principal(void *to, const char *text)
{
	*(const char **)to = text;
	return key_principal_valid(text);
}

static int
run_list(const struct ctl *ctl, int argc, char **argv)
{
	struct cell_admin o;
	json_t *sessions = cell_admin_begin(ctl, &o) ? session_list(&o) : NULL;

	(void)argc;
	(void)argv;
	cell_admin_end(&o);
	if (sessions == NULL)
		return CTL_FAILED;
	if (ctl->json)
		json_text_print(sessions);
	else
		session_list_print(sessions);
	json_decref(sessions);
	return CTL_OK;
}

static int
run_destroy(const struct ctl *ctl, int argc, char **argv)
{
	struct msg_operate what = {.what = OPERATION_DESTROY_SESSION, .keep_delay = keep_delay};

	if (principal != NULL)
		what.name = bytes_of(principal);
	if (principal == NULL && argc == 0)
		return ctl_usage("ID or --principal", "needed");
	if (principal != NULL && argc > 0)
		return ctl_usage(argv[0], "unexpected argument");
	if (argc > 0 && !ctl_take_count(&what.id, argv[0]))
		return ctl_usage(argv[0], "not a session's id");
	return cell_admin_run(ctl, &what);
}

static const struct ctl_option options[] = {
    {"keep-delay", .to = &keep_delay, .only = "destroy"},
    {"principal", 0, "NAME", &principal, take_principal, .wrong = "not a principal's name",
     .only = "destroy"},
    {0},
};

const struct ctl_command session_command = {
    "session",
    "lists the sessions of a cell; ends one, or all of a principal, and frees their locks",
    {{.name = "list", .run = run_list}, {.name = "destroy", .words = {"[ID]"}, .run = run_destroy}},
    options,
};
