#include "ctl/health_check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/sys/log.h"

void
health_check_begin(struct health_check *c, mono_t now)
{
	c->due = c->command != NULL ? mono_add(now, c->every) : MONO_NEVER;
}

/* In a process group of its own, so that a check that hangs is killed with what it has started. */
void
health_check_run(struct health_check *c, mono_t now, const sigset_t *mask)
{
	if (c->pid > 0)
		c->failures++;
	health_check_end(c);
	c->due = mono_add(now, c->every);
	fflush(NULL);
	c->pid = fork();
	if (c->pid == 0) {
		setpgid(0, 0);
		sigprocmask(SIG_SETMASK, mask, NULL);
		dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), STDIN_FILENO);
		execl("/bin/sh", "sh", "-c", c->command, NULL);
		_exit(127);
	}
	if (c->pid > 0) {
		setpgid(c->pid, c->pid);
		return;
	}
	log_warn("the check can't be started: %s", strerror(errno));
	c->failures++;
	c->pid = 0;
}

void
health_check_ended(struct health_check *c, pid_t child, int status)
{
	if (child != c->pid)
		return;
	c->pid = 0;
	c->failures = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : c->failures + 1;
}

void
health_check_end(struct health_check *c)
{
	if (c->pid > 0)
		kill(-c->pid, SIGKILL);
	c->pid = 0;
}

bool
health_check_failed(const struct health_check *c)
{
	return c->command != NULL && c->failures >= c->patience;
}
