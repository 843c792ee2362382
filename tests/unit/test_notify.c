/* Reports to a service manager, on a socket of the test's own. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "cell/sys/process.h"

/* A manager's socket with this name ('@': an abstract one), which is in the environment then. */
static int
manager(const char *name)
{
	struct sockaddr_un at = {.sun_family = AF_UNIX};
	const socklen_t len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + strlen(name));
	int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	memcpy(at.sun_path, name, strlen(name));
	if (name[0] == '@')
		at.sun_path[0] = '\0';
	must(fd >= 0 && bind(fd, (struct sockaddr *)&at, len) == 0);
	must(setenv("NOTIFY_SOCKET", name, 1) == 0);
	return fd;
}

static void
assert_reported(int fd, const char *state)
{
	char text[64] = "";

	assert_int_equal(recv(fd, text, sizeof text - 1, 0), strlen(state));
	assert_string_equal(text, state);
}

TEST(test_socket_with_a_path)
{
	char directory[] = "/tmp/test_notify.XXXXXX", path[64];
	int fd;

	must(mkdtemp(directory) != NULL);
	snprintf(path, sizeof path, "%s/socket", directory);
	fd = manager(path);
	notify_manager("READY=1");
	assert_reported(fd, "READY=1");
	must(close(fd) == 0 && unlink(path) == 0 && rmdir(directory) == 0);
}

TEST(test_abstract_socket)
{
	char name[64];
	int fd;

	snprintf(name, sizeof name, "@test_notify.%ld", (long)getpid());
	fd = manager(name);
	notify_manager("READY=1");
	notify_manager("WATCHDOG=1");
	assert_reported(fd, "READY=1");
	assert_reported(fd, "WATCHDOG=1");
	unsetenv("NOTIFY_SOCKET");
	notify_manager("READY=1");
	assert_int_equal(recv(fd, name, sizeof name, 0), -1);
	assert_int_equal(errno, EAGAIN);
	must(close(fd) == 0);
}

TEST(test_watchdog)
{
	char pid[32];

	unsetenv("WATCHDOG_PID");
	unsetenv("WATCHDOG_USEC");
	assert_int_equal(notify_watchdog_ms(), 0);
	setenv("WATCHDOG_USEC", "90000000", 1);
	assert_int_equal(notify_watchdog_ms(), 30000);
	snprintf(pid, sizeof pid, "%ld", (long)getpid());
	setenv("WATCHDOG_PID", pid, 1);
	assert_int_equal(notify_watchdog_ms(), 30000);
	setenv("WATCHDOG_PID", "1", 1);
	assert_int_equal(notify_watchdog_ms(), 0);
}
