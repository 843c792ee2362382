#include "ctl/child.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/io/log.h"

enum { EXIT_NOT_RUN = 126, EXIT_NOT_FOUND = 127, EXIT_BY_SIGNAL = 128 };

static const int forwarded[] = {
	SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGCONT, SIGWINCH,
};

static void
watched_signals(sigset_t *set)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
		sigaddset(set, forwarded[i]);
}

/* What a terminal sends goes to the whole foreground group: the command has it already. */
static void
forward(pid_t child, const siginfo_t *info)
{
	if (info->si_code != SI_KERNEL)
		kill(child, info->si_signo);
}

static int
exit_code(int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_BY_SIGNAL + WTERMSIG(status);
}

static int
wait_for(pid_t child, const sigset_t *watched)
{
	siginfo_t info;
	int status;
	pid_t ended;

	for (;;) {
		ended = waitpid(child, &status, WNOHANG);
		if (ended == child)
			return exit_code(status);
		if (ended < 0 && errno != EINTR) {
			log_error("the command: %s", strerror(errno));
			return EXIT_NOT_RUN;
		}
		if (sigwaitinfo(watched, &info) > 0 && info.si_signo != SIGCHLD)
			forward(child, &info);
	}
}

int
child_run(char *const argv[])
{
	sigset_t watched, before;
	pid_t child;
	int code;

	watched_signals(&watched);
	sigprocmask(SIG_BLOCK, &watched, &before);
	fflush(NULL);
	child = fork();
	if (child == 0) {
		sigprocmask(SIG_SETMASK, &before, NULL);
		execvp(argv[0], argv);
		log_error("%s: cannot run it: %s", argv[0], strerror(errno));
		_exit(errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_RUN);
	}
	if (child < 0)
		log_error("%s: cannot run it: %s", argv[0], strerror(errno));
	code = child < 0 ? EXIT_NOT_RUN : wait_for(child, &watched);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return code;
}
