#include "ctl/backup_show.h"

#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include "cell/config/member_addresses.h"
#include "cell/store/salvage.h"
#include "cell/sys/log.h"
#include "ctl/utc.h"

#define SUFFIX ".show-XXXXXX"

/* ---- what is in it ---- */

static json_t *
replicas_json(const struct salvage *s)
{
	struct cell_file_replica list[LIMIT_MEMBERS];
	struct buffer packed = BUFFER(LIMIT_FRAME);
	const struct wire_list members = tree_members(s->tree, &packed);
	const int n = member_addresses_of(&members, list);
	json_t *all = json_array();

	for (int i = 0; i < n; i++) {
		json_t *one;

		if (list[i].role == MEMBER_REMOVED)
			continue;
		one = json_object();
		json_object_set_new(one, "id", json_integer(list[i].id));
		json_object_set_new(one, "address", json_string(list[i].address));
		json_array_append_new(all, one);
	}
	buffer_free(&packed);
	return all;
}

static json_t *
contents_json(const struct salvage *s, const char *file)
{
	const struct result_usage usage = tree_usage(s->tree);
	char written[UTC_TEXT];
	json_t *all = json_object();
	struct stat st;

	utc_text(s->written_s, written);
	json_object_set_new(all, "file", json_string(file));
	json_object_set_new(all, "cell", json_string(s->cell));
	json_object_set_new(all, "written", json_string(written));
	json_object_set_new(all, "size", json_integer(stat(file, &st) == 0 ? st.st_size : 0));
	json_object_set_new(all, "log_index", json_integer((json_int_t)tree_applied(s->tree)));
	json_object_set_new(all, "epoch", json_integer((json_int_t)tree_epoch(s->tree)));
	json_object_set_new(all, "nodes", json_integer((json_int_t)usage.nodes));
	json_object_set_new(all, "bytes", json_integer((json_int_t)usage.bytes));
	json_object_set_new(all, "sessions", json_integer((json_int_t)usage.sessions));
	json_object_set_new(all, "locks_held", json_integer((json_int_t)usage.locks_held));
	json_object_set_new(all, "replicas", replicas_json(s));
	return all;
}

static void
print(json_t *all, int64_t written_s)
{
	char age[AGE_TEXT];
	const char *key;
	json_t *value;
	size_t i;

	utc_age(written_s, age);
	json_object_foreach(all, key, value)
	{
		if (json_is_integer(value))
			printf("%-12s %" JSON_INTEGER_FORMAT "\n", key, json_integer_value(value));
		else if (json_is_string(value))
			printf("%-12s %s%s%s\n", key, json_string_value(value),
			       strcmp(key, "written") == 0 ? ", " : "",
			       strcmp(key, "written") == 0 ? age : "");
	}
	json_array_foreach(json_object_get(all, "replicas"), i, value)
	    printf("%-7s %-4" JSON_INTEGER_FORMAT " %s\n", "replica",
	           json_integer_value(json_object_get(value, "id")),
	           json_string_value(json_object_get(value, "address")));
}

/* ---- loading it ---- */

static int
show_in(const struct ctl *ctl, const char *file, const char *work)
{
	struct salvage s;
	const bool ok = salvage_backup(&s, file, work);
	json_t *all = ok ? contents_json(&s, file) : NULL;

	if (!ok)
		log_error("%s", s.why);
	else if (ctl->json)
		json_dumpf(all, stdout, JSON_INDENT(2));
	else
		print(all, s.written_s);
	if (ok && ctl->json)
		putchar('\n');
	json_decref(all);
	salvage_end(&s);
	return ok ? CTL_OK : CTL_FAILED;
}

/* Beside the file, or where the user wants temporary files: backups may lie where nobody writes. */
static bool
make_work(const char *file, char work[PATH_MAX])
{
	const char *elsewhere = getenv("TMPDIR");

	if (snprintf(work, PATH_MAX, "%s" SUFFIX, file) < PATH_MAX - 32 && mkdtemp(work))
		return true;
	snprintf(work, PATH_MAX, "%.*s/lsctl" SUFFIX, PATH_MAX - 64,
	         elsewhere ? elsewhere : "/tmp");
	if (mkdtemp(work))
		return true;
	log_error("%s: %s", work, strerror(errno));
	return false;
}

/* Signals are blocked, so that the copy is removed in every case. */
int
backup_show(const struct ctl *ctl, const char *file)
{
	char work[PATH_MAX];
	sigset_t all, before;
	int code = CTL_FAILED, rc;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, &before);
	if (make_work(file, work)) {
		code = show_in(ctl, file, work);
		if ((rc = salvage_clean(work)) < 0)
			log_warn("%s: cannot remove it: %s", work, strerror(-rc));
	}
	sigprocmask(SIG_SETMASK, &before, NULL);
	return code;
}
