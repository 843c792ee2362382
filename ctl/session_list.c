#include "ctl/session_list.h"

#include <stdio.h>
#include "cell/base/rc.h"
#include "cell/wire/codec.h"
#include "ctl/ask.h"

/* A list of sessions that is extended by each answer. */
struct listing {
	json_t *all;
	uint64_t last; /* id of the last session in the list */
	bool more;
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
	json_object_set_new(one, "lease_ms",
	                    row->lasting ? json_null() : json_integer(row->lease_ms));
	json_object_set_new(one, "lasting", json_boolean(row->lasting));
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
	printf("%-12" JSON_INTEGER_FORMAT " %-16s %-24s %6" JSON_INTEGER_FORMAT " %12s%s\n",
	       json_integer_value(json_object_get(row, "session")), principal ? principal : "?",
	       host ? host : "?", json_integer_value(json_object_get(row, "locks")), ago,
	       json_is_true(json_object_get(row, "lasting")) ? "  lasting" : "");
}

void
session_list_print(const json_t *sessions)
{
	const json_t *row;
	size_t i;

	printf("%-12s %-16s %-24s %6s %12s\n", "session", "principal", "host", "locks", "heard");
	json_array_foreach(sessions, i, row) print_row(row);
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
