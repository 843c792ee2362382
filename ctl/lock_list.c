/* locks: shows every lock that is held, awaited or delayed. A mount is asked, or the master. */
#include "ctl/cell_status.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>
#include "cell/sys/log.h"
#include "cell/sys/process.h"
#include "cell/view/cell_lists.h"
#include "cell/view/output.h"
#include "cell/wire/codec.h"
#include "ctl/cell.h"
#include "ctl/mounted_path.h"

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
put_party(json_t *lock, const char *list, char *line)
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
	lock_json_party(lock, list, &p);
}

static void
text_line(json_t *locks, char *line)
{
	json_t *lock = json_array_get(locks, json_array_size(locks) - 1);
	char *value = strstr(line, ": "), *number;

	if (value == NULL)
		return;
	*value = '\0';
	value += 2;
	if (!strcmp(line, "path")) {
		lock_json(locks, bytes_of(value));
	} else if (!strcmp(line, "lock")) {
		/* "exclusive", "shared N", "delayed SECONDS" or "free" */
		if ((number = strchr(value, ' ')) != NULL)
			*number++ = '\0';
		lock_json_state(lock, value,
		                !strcmp(value, "delayed") && number ? atoll(number) : 0);
	} else if (!strcmp(line, "delay")) {
		lock_json_state(lock, "shared", atoll(value));
	} else if (!strcmp(line, "holder")) {
		put_party(lock, "holders", value);
	} else if (!strcmp(line, "waiter")) {
		put_party(lock, "waiters", value);
	}
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
		locks = cell_locks(&(struct asker){ask_master, &o.cell_file, &o.key});
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
	json_array_foreach(json_object_get(lock, "holders"), i, p) {
		snprintf(place, sizeof place, "slot %" JSON_INTEGER_FORMAT,
		         json_number_of(p, "slot"));
		print_party(path, json_object_get(p, "slot") ? place : "holds", p);
	}
	json_array_foreach(json_object_get(lock, "waiters"), i, p) {
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
	json_array_foreach(locks, i, lock)
		print_lock(lock);
}

/* ---- a line for a person who waits ---- */

/* A line of user.ls.lock_holders or user.ls.lock_waiters. */
struct party_line {
	char principal[LIMIT_PRINCIPAL + 1], host[LIMIT_HOST + 1];
	char pid[16]; /* or "-" */
	long long seconds;
};

static bool
party_line_read(const char *text, struct party_line *p)
{
	return sscanf(text, "%*u %64s %255s %15s %*s %lld", p->principal, p->host, p->pid,
	              &p->seconds) == 4;
}

/* The number of waiters in front of process `waiter` of this host; all others if it is not among
 * those that are shown. */
static int
count_ahead(char *waiters, pid_t waiter)
{
	char host[LIMIT_HOST + 1];
	struct party_line p;
	int n = 0;

	process_host(host);
	for (char *text; (text = strsep(&waiters, "\n"));) {
		if (!party_line_read(text, &p))
			continue;
		if (!strcmp(p.host, host) && atol(p.pid) == (long)waiter)
			break;
		n++;
	}
	return n;
}

static void
print_holders(const char *path, const char *holders, int ahead)
{
	char since[32] = "", others[64] = "";
	struct party_line first;
	struct tm at;
	time_t then;
	int n = 1;

	if (!party_line_read(holders, &first))
		return;
	then = time(NULL) - (time_t)first.seconds;
	if (localtime_r(&then, &at))
		strftime(since, sizeof since, "%F %T", &at);
	while ((holders = strchr(holders, '\n'))) {
		holders++;
		n++;
	}
	if (n > 1)
		snprintf(others, sizeof others, " and by %d others", n - 1);
	log_warn("%s: waiting: the lock is held by %s on %s (process %s) since %s (%lld s)%s; "
	         "waiters ahead: %d",
	         path, first.principal, first.host, first.pid, since, first.seconds, others, ahead);
}

void
lock_wait_print(const char *path, pid_t waiter)
{
	static char state[XATTR_SIZE_MAX + 1], holders[XATTR_SIZE_MAX + 1];
	static char waiters[XATTR_SIZE_MAX + 1];
	const pid_t parent = getpid();
	long seconds;
	int ahead;

	fflush(NULL);
	if (fork() != 0)
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(0);
	mounted_path_attribute(path, "user.ls.lock", state, sizeof state);
	mounted_path_attribute(path, "user.ls.lock_holders", holders, sizeof holders);
	mounted_path_attribute(path, "user.ls.lock_waiters", waiters, sizeof waiters);
	ahead = count_ahead(waiters, waiter);
	if (sscanf(state, "delayed %ld", &seconds) == 1)
		log_warn("%s: waiting: the session of the last holder has expired, and the "
		         "lock-delay ends in %ld s; waiters ahead: %d",
		         path, seconds, ahead);
	else
		print_holders(path, holders, ahead);
	_exit(0);
}

/* ---- the command ---- */

static int
run(const struct ctl *ctl, char **argv)
{
	json_t *locks = lock_list(ctl, argv[0]);

	if (!locks)
		return CTL_FAILED;
	if (ctl->json)
		json_text_print(locks);
	else
		lock_list_print(locks);
	json_decref(locks);
	return CTL_OK;
}

/* ---- unlock ---- */

static bool keep_delay;

/* The cell in which the path lies becomes that of --cell: another one may have a node of that
 * number, too. False after an error message, also if another one is given. */
static bool
take_cell(struct ctl *ctl, const char *path)
{
	static struct run_record mount;
	static struct cell_file given;
	static char file[PATH_MAX];

	if (!place_find_mount(path, NULL, &mount))
		return false;
	if (ctl->cell == NULL) {
		cell_file_of_mount(&mount, file);
		ctl->cell = file;
		return true;
	}
	if (!cell_find(ctl, file, &given))
		return false;
	if (strcmp(given.name, mount.cell) != 0)
		log_error("%s: is in the cell %s, not in %s", path, mount.cell, given.name);
	return strcmp(given.name, mount.cell) == 0;
}

/* Notes the newest acquisition of the node's lock, which is the first in the list if it is held. */
static void
on_locks(void *user, const struct message *m)
{
	struct msg_operate *what = user;
	struct cursor locks = cursor_of(m->locks.locks.packed), holders;
	struct lock_holder h;
	struct lock_row row;
	struct result result;

	if (!wire_next_lock_row(&locks, &row) ||
	    wire_get_result(RESULT_queue, row.queue, &result) != RC_OK ||
	    result.queue.node != what->value)
		return;
	holders = cursor_of(result.queue.holders.packed);
	while (wire_next_lock_holder(&holders, &h))
		what->seen = h.fence > what->seen ? h.fence : what->seen;
}

static int
run_unlock(const struct ctl *ctl, char **argv)
{
	struct msg_operate what = {.what = OPERATION_UNLOCK, .keep_delay = keep_delay};
	struct message question = {.code = MSG_locks_request};
	struct ctl named = *ctl;
	struct cell_admin o;
	struct stat st;
	bool done;

	if (argv[1] != NULL && !ctl_take_count(&what.id, argv[1]))
		return ctl_usage(argv[1], "not a session's id");
	if (stat(argv[0], &st) < 0)
		return CTL_FAIL("%s: %s", argv[0], strerror(errno));
	if (!take_cell(&named, argv[0]))
		return CTL_FAILED;
	what.value = st.st_ino;
	what.address = bytes_of(argv[0]); /* for the log */
	if (what.address.len > LIMIT_ADDRESS)
		what.address.len = LIMIT_ADDRESS;
	question.locks_request.after = what.value - 1;
	done = cell_admin_begin(&named, &o) &&
	       ask_master(&o.cell_file, &o.key, &question, MSG_locks, on_locks, &what) &&
	       cell_admin_send(&o, &what, NULL) == CELL_ADMIN_DONE;
	cell_admin_end(&o);
	return done ? CTL_OK : CTL_FAILED;
}

static const struct ctl_option unlock_options[] = {{"keep-delay", .to = &keep_delay}, {0}};

const struct ctl_command unlock_command = {
    "unlock",
    "releases the lock of PATH, of all its holders or those of SESSION, who are told that they"
    " lost it",
    {{.words = {"PATH", "[SESSION]"}, .run = run_unlock}},
    unlock_options,
};

const struct ctl_command locks_command = {
    "locks",
    "shows every lock that is held, awaited or delayed, and by whom",
    {{.words = {"[PATH]"}, .run = run}},
    NULL,
};
