#include "ctl/replicas.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/sys/log.h"
#include "ctl/ctl.h"

/* Finds lsfs or lscell beside lsctl, as installed or as built; else `path` becomes the bare name,
 * to be looked up in $PATH. */
static void
find(const char *name, char path[PATH_MAX])
{
	static const char *const folders[] = {"", "../sbin/", "../fs/", "../cell/"};
	char self[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);

	if (n > 0) {
		self[n] = '\0';
		*strrchr(self, '/') = '\0';
		for (size_t i = 0; i < sizeof folders / sizeof folders[0]; i++)
			if (snprintf(path, PATH_MAX, "%s/%s%s", self, folders[i], name) <
			        PATH_MAX &&
			    access(path, X_OK) == 0)
				return;
	}
	snprintf(path, PATH_MAX, "%s", name);
}

int
program_become(char *const command[])
{
	int error;

	execvp(command[0], command);
	error = errno;
	log_error("%s: cannot run it: %s", command[0], strerror(error));
	return error == ENOENT ? CTL_NOT_FOUND : CTL_NOT_RUN;
}

void
program_take_signal(int number)
{
	struct sigaction action;
	sigset_t one;

	sigemptyset(&one);
	sigaddset(&one, number);
	raise(number);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);
	sigaction(number, NULL, &action);
	if (action.sa_handler != SIG_IGN && number != SIGCONT && number != SIGWINCH)
		_exit(CTL_BY_SIGNAL + number);
}

/* Called in the child. */
static void __attribute__((noreturn)) execute(char *const argv[])
{
	char program[PATH_MAX];

	find(argv[0], program);
	execvp(program, argv);
	log_error("%s: cannot run it: %s", program, strerror(errno));
	_exit(CTL_FAILED);
}

int
program_run(char *const argv[], const char *directory)
{
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (!directory || chdir(directory) == 0)
			execute(argv);
		log_error("%s: %s", directory, strerror(errno));
		_exit(CTL_FAILED);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		return CTL_FAIL("%s: cannot run it: %s", argv[0], strerror(errno));
	if (WIFSIGNALED(status))
		log_error("%s: %s", argv[0], strsignal(WTERMSIG(status)));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? CTL_OK : CTL_FAILED;
}

static bool
become_daemon(int log)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	return null >= 0 && setsid() >= 0 && dup2(null, STDIN_FILENO) >= 0 &&
	       dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0;
}

pid_t
program_start(char *const argv[], const char *log)
{
	int fd = open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600);
	pid_t child;

	if (fd < 0) {
		log_error("%s: %s", log, strerror(errno));
		return -1;
	}
	fflush(NULL);
	child = fork();
	if (child == 0) {
		if (become_daemon(fd))
			execute(argv);
		log_error("%s: cannot start it: %s", argv[0], strerror(errno));
		_exit(CTL_FAILED);
	}
	if (child < 0)
		log_error("%s: cannot start it: %s", argv[0], strerror(errno));
	close(fd);
	return child;
}
