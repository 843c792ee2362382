#include "ctl/wait_note.h"

#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <time.h>
#include "cell/base/limit.h"
#include "cell/sys/log.h"
#include "cell/sys/process.h"

/* A line of user.ls.lock_holders or user.ls.lock_waiters. */
struct party {
	char principal[LIMIT_PRINCIPAL + 1], host[LIMIT_HOST + 1];
	char pid[16]; /* or "-" */
	long long seconds;
};

static bool
party_parse(const char *text, struct party *p)
{
	return sscanf(text, "%*u %64s %255s %15s %*s %lld", p->principal, p->host, p->pid,
	              &p->seconds) == 4;
}

/* The text of an attribute; empty if it has none. */
static void
attribute(const char *path, const char *name, char text[XATTR_SIZE_MAX + 1])
{
	const ssize_t n = getxattr(path, name, text, XATTR_SIZE_MAX);

	text[n < 0 ? 0 : n] = '\0';
}

/* The number of waiters in front of process `waiter` of this host; all others if it is not among
 * those that are shown. */
static int
count_ahead(char *waiters, pid_t waiter)
{
	char host[LIMIT_HOST + 1];
	struct party p;
	int n = 0;

	process_host(host);
	for (char *text; (text = strsep(&waiters, "\n"));) {
		if (!party_parse(text, &p))
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
	struct party first;
	struct tm at;
	time_t then;
	int n = 1;

	if (!party_parse(holders, &first))
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
wait_note_print(const char *path, pid_t waiter)
{
	static char state[XATTR_SIZE_MAX + 1], holders[XATTR_SIZE_MAX + 1];
	static char waiters[XATTR_SIZE_MAX + 1];
	long seconds;
	int ahead;

	attribute(path, "user.ls.lock", state);
	attribute(path, "user.ls.lock_holders", holders);
	attribute(path, "user.ls.lock_waiters", waiters);
	ahead = count_ahead(waiters, waiter);
	if (sscanf(state, "delayed %ld", &seconds) == 1)
		log_warn("%s: waiting: the session of the last holder has expired, and the "
		         "lock-delay ends in %ld s; waiters ahead: %d",
		         path, seconds, ahead);
	else
		print_holders(path, holders, ahead);
}
