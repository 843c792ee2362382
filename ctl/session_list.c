/* session: lists the sessions of a cell, or ends one. */
#include "ctl/cell_status.h"

#include <stdio.h>
#include "cell/config/key_file.h"
#include "cell/view/cell_lists.h"
#include "cell/view/output.h"

json_t *
session_list(const struct cell_admin *o)
{
	return cell_sessions(&(struct asker){ask_master, &o->cell_file, &o->key});
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
run_list(const struct ctl *ctl, char **argv)
{
	struct cell_admin o;
	json_t *sessions = cell_admin_begin(ctl, &o) ? session_list(&o) : NULL;

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
run_destroy(const struct ctl *ctl, char **argv)
{
	struct msg_operate what = {.what = OPERATION_DESTROY_SESSION, .keep_delay = keep_delay};
	json_t *sessions = NULL;
	struct cell_admin o;
	bool done;

	if (principal == NULL && argv[0] == NULL)
		return ctl_usage("ID or --principal", "needed");
	if (principal != NULL && argv[0] != NULL)
		return ctl_usage(argv[0], "unexpected argument");
	if (argv[0] != NULL && !ctl_take_count(&what.id, argv[0]))
		return ctl_usage(argv[0], "not a session's id");
	done = cell_admin_begin(ctl, &o);
	if (done && principal != NULL) {
		what.name = bytes_of(principal);
		sessions = session_list(&o);
		/* The ids grow: those after the last one, which are opened later, stay. */
		for (size_t i = 0; i < json_array_size(sessions); i++)
			what.seen =
			    (uint64_t)json_number_of(json_array_get(sessions, i), "session");
		done = sessions != NULL;
	}
	done = done && cell_admin_send(&o, &what, NULL) == CELL_ADMIN_DONE;
	cell_admin_end(&o);
	json_decref(sessions);
	return done ? CTL_OK : CTL_FAILED;
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
