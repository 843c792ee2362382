/* locks: shows every lock that is held, awaited or delayed. A mount is asked, or the master. */
#include "ctl/lock_list.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/sys/log.h"
#include "cell/wire/codec.h"
#include "ctl/ask.h"
#include "ctl/cell.h"
#include "ctl/cell_admin.h"
#include "ctl/output.h"

/* ---- the objects ---- */

/* JSON is UTF-8, and paths are bytes: in one that is not UTF-8 they are shown as \xNN. */
static json_t *
path_json(struct bytes path)
{
	json_t *json = json_stringn((const char *)path.data, path.len);
	struct buffer text = BUFFER(4 * LIMIT_PATH);

	for (size_t i = 0; json == NULL && i < path.len; i++) {
		if (path.data[i] < 0x80)
			buffer_put_u8(&text, path.data[i]);
		else
			buffer_printf(&text, "\\x%02x", path.data[i]);
	}
	if (json == NULL)
		json = json_stringn((const char *)text.data, text.len);
	buffer_free(&text);
	return json;
}

static json_t *
new_lock(json_t *locks, struct bytes path)
{
	json_t *lock = json_object();

	json_object_set_new(lock, "path", path_json(path));
	json_object_set_new(lock, "lock", json_null());
	json_object_set_new(lock, "holders", json_array());
	json_object_set_new(lock, "waiters", json_array());
	json_array_append_new(locks, lock);
	return lock;
}

static void
set_state(json_t *lock, const char *state, int64_t delay_left_s)
{
	json_object_set_new(lock, "lock", json_string(state));
	if (!strcmp(state, "delayed"))
		json_object_set_new(lock, "delay_left", json_integer(delay_left_s));
}

/* Somebody who holds a lock, or waits for it. */
struct party {
	uint64_t session;
	struct bytes principal, host;
	const char *mode;
	uint32_t pid; /* 0: unknown */
	int64_t seconds;
	int64_t slot; /* of a holder of a counting lock; else -1 */
};

static void
add_party(json_t *lock, const char *list, const struct party *p)
{
	json_t *one = json_object(), *pid = p->pid ? json_integer(p->pid) : json_null();

	json_object_set_new(one, "session", json_number(p->session));
	json_object_set_new(one, "principal",
	                    json_stringn((const char *)p->principal.data, p->principal.len));
	json_object_set_new(one, "host", json_stringn((const char *)p->host.data, p->host.len));
	json_object_set_new(one, "pid", pid);
	json_object_set_new(one, "mode", json_string(p->mode));
	json_object_set_new(one, "seconds", json_integer(p->seconds));
	if (p->slot >= 0)
		json_object_set_new(one, "slot", json_integer(p->slot));
	json_array_append_new(json_object_get(lock, list), one);
}

/* ---- from a mount: the text of .cell/locks ---- */

/* Takes the last word off. */
static char *
last_word(char *text)
{
	char *blank = strrchr(text, ' ');

	if (blank == NULL)
		return text + strlen(text);
	*blank = '\0';
	return blank + 1;
}

/* "SESSION PRINCIPAL HOST PID MODE SECONDS", and "slot N" of a counting lock */
static void
party_line(json_t *lock, const char *list, char *line)
{
	struct party p = {.slot = -1};
	char *rest = line, *slot = strstr(line, " slot ");

	if (slot != NULL) {
		p.slot = atoll(last_word(line));
		last_word(line);
	}
	p.seconds = atoll(last_word(line));
	p.mode = last_word(line);
	p.pid = (uint32_t)strtoul(last_word(line), NULL, 10); /* or "-" */
	p.session = strtoull(strsep(&rest, " "), NULL, 10);
	p.principal = bytes_of(rest ? strsep(&rest, " ") : "");
	p.host = bytes_of(rest ? rest : "");
	add_party(lock, list, &p);
}

/* "exclusive", "shared N", "delayed SECONDS" or "free" */
static void
state_line(json_t *lock, char *line)
{
	char *number = strchr(line, ' ');

	if (number != NULL)
		*number++ = '\0';
	set_state(lock, line, number ? atoll(number) : 0);
}

static void
text_line(json_t *locks, char *line)
{
	json_t *lock = json_array_get(locks, json_array_size(locks) - 1);
	char *value = strstr(line, ": ");

	if (value == NULL)
		return;
	*value = '\0';
	value += 2;
	if (!strcmp(line, "path"))
		new_lock(locks, bytes_of(value));
	else if (!strcmp(line, "lock"))
		state_line(lock, value);
	else if (!strcmp(line, "holder"))
		party_line(lock, "holders", value);
	else if (!strcmp(line, "waiter"))
		party_line(lock, "waiters", value);
}

static json_t *
list_of_mount(const char *mountpoint)
{
	json_t *locks = json_array();
	char path[PATH_MAX + 16], *line = NULL;
	size_t size = 0;
	FILE *f;

	snprintf(path, sizeof path, "%s/.cell:locks", mountpoint);
	f = fopen(path, "re");
	while (f && getline(&line, &size, f) > 0) {
		line[strcspn(line, "\n")] = '\0';
		text_line(locks, line);
	}
	free(line);
	if (f && !ferror(f)) {
		fclose(f);
		return locks;
	}
	log_error("%s: %s", path, strerror(errno));
	if (f)
		fclose(f);
	json_decref(locks);
	return NULL;
}

/* ---- from the master ---- */

static const char *
state_name(uint8_t state)
{
	static const char *const names[] = {
	    [LOCK_STATE_FREE] = "free",
	    [LOCK_STATE_SHARED] = "shared",
	    [LOCK_STATE_EXCLUSIVE] = "exclusive",
	    [LOCK_STATE_DELAYED] = "delayed",
	};

	return state < sizeof names / sizeof names[0] ? names[state] : "free";
}

static void
add_waiter(json_t *lock, const char *list, const struct lock_waiter *w, int64_t slot,
           int64_t now_ns)
{
	const struct party p = {
	    .session = w->session,
	    .principal = w->principal,
	    .host = w->host,
	    .mode = w->mode == LOCK_SHARED ? "shared" : "exclusive",
	    .pid = w->pid,
	    .slot = slot,
	    .seconds = now_ns > w->since_ns ? (now_ns - w->since_ns) / 1000000000 : 0,
	};

	add_party(lock, list, &p);
}

static void
add_queue(json_t *locks, const struct result_queue *q)
{
	struct cursor holders = cursor_of(q->holders.packed);
	struct cursor waiters = cursor_of(q->waiters.packed);
	json_t *lock = new_lock(locks, q->path);
	struct lock_holder h;
	struct lock_waiter w;

	set_state(lock, state_name(q->state), q->delay_left_s);
	while (wire_next_lock_holder(&holders, &h)) {
		w = (struct lock_waiter){
		    .session = h.session,
		    .mode = h.mode,
		    .since_ns = h.since_ns,
		    .pid = h.pid,
		    .host = h.host,
		    .principal = h.principal,
		};
		add_waiter(lock, "holders", &w, h.slot, q->now_ns);
	}
	while (wire_next_lock_waiter(&waiters, &w))
		add_waiter(lock, "waiters", &w, -1, q->now_ns);
}

/* A list that each answer makes longer. */
struct listing {
	json_t *locks;
	uint64_t last; /* node of the last lock in it */
	bool more;
};

static void
on_locks(void *user, const struct message *m)
{
	struct listing *l = user;
	struct cursor rest = cursor_of(m->locks.locks.packed);
	struct result result;
	struct lock_row row;

	l->more = false;
	while (wire_next_lock_row(&rest, &row)) {
		if (wire_get_result(RESULT_queue, row.queue, &result) != RC_OK)
			continue;
		if (result.queue.path.len > 0)
			add_queue(l->locks, &result.queue);
		l->more = m->locks.more != 0;
		l->last = result.queue.node;
	}
}

static json_t *
list_of_cell(const struct cell_admin *o)
{
	struct listing l = {.locks = json_array(), .more = true};
	bool ok = true;

	while (ok && l.more) {
		const struct message question = {
		    .code = MSG_locks_request,
		    .locks_request = {.after = l.last},
		};

		ok = ask_master(&o->cell_file, &o->key, &question, MSG_locks, on_locks, &l);
	}
	if (ok)
		return l.locks;
	json_decref(l.locks);
	return NULL;
}

/* ---- either ---- */

static json_t *
of_cell(const struct ctl *ctl)
{
	static struct run_record mount;
	static struct cell_file cell_file;
	char file[PATH_MAX];
	struct cell_admin o;
	json_t *locks = NULL;

	if (!cell_find(ctl, file, &cell_file))
		return NULL;
	if (cell_file_is_standalone(&cell_file))
		return place_find_mount(NULL, cell_file.name, &mount)
		           ? list_of_mount(mount.mountpoint)
		           : NULL;
	if (cell_admin_begin(ctl, &o))
		locks = list_of_cell(&o);
	cell_admin_end(&o);
	return locks;
}

json_t *
lock_list(const struct ctl *ctl, const char *path)
{
	static struct run_record mount;

	if (!path && (ctl->cell || place_mounted_cells(NULL, &mount) == 0))
		return of_cell(ctl);
	return place_find_mount(path, NULL, &mount) ? list_of_mount(mount.mountpoint) : NULL;
}

/* ---- the table ---- */

static void
print_party(const char *path, const char *does, const json_t *p)
{
	char process[LIMIT_HOST + 32];

	if (json_number_of(p, "pid"))
		snprintf(process, sizeof process, "%s:%" JSON_INTEGER_FORMAT,
		         json_text_of(p, "host"), json_number_of(p, "pid"));
	else
		snprintf(process, sizeof process, "%s", json_text_of(p, "host"));
	line_print("%-32s %-9s %-9s %8" JSON_INTEGER_FORMAT " %-12" JSON_INTEGER_FORMAT " %-16s %s",
	           path, does, json_text_of(p, "mode"), json_number_of(p, "seconds"),
	           json_number_of(p, "session"), json_text_of(p, "principal"), process);
}

static void
print_lock(const json_t *lock)
{
	const char *path = json_text_of(lock, "path");
	char place[32];
	const json_t *p;
	size_t i;

	if (json_object_get(lock, "delay_left"))
		line_print("%-32s %-9s %-9s %8" JSON_INTEGER_FORMAT, path, "delayed", "",
		           json_number_of(lock, "delay_left"));
	json_array_foreach(json_object_get(lock, "holders"), i, p)
	{
		snprintf(place, sizeof place, "slot %" JSON_INTEGER_FORMAT,
		         json_number_of(p, "slot"));
		print_party(path, json_object_get(p, "slot") ? place : "holds", p);
	}
	json_array_foreach(json_object_get(lock, "waiters"), i, p)
	{
		snprintf(place, sizeof place, "waits %zu", i + 1);
		print_party(path, place, p);
	}
}

void
lock_list_print(const json_t *locks)
{
	const json_t *lock;
	size_t i;

	printf("%-32s %-9s %-9s %8s %-12s %-16s %s\n", "path", "", "mode", "seconds", "session",
	       "principal", "process");
	json_array_foreach(locks, i, lock) print_lock(lock);
}

/* ---- the command ---- */

static int
run(const struct ctl *ctl, int argc, char **argv)
{
	json_t *locks = lock_list(ctl, argv[0]);

	(void)argc;
	if (!locks)
		return CTL_FAILED;
	if (ctl->json)
		json_text_print(locks);
	else
		lock_list_print(locks);
	json_decref(locks);
	return CTL_OK;
}

const struct ctl_command locks_command = {
    "locks",
    "shows every lock that is held, awaited or delayed, and by whom",
    {{.words = {"[PATH]"}, .run = run}},
    NULL,
};
