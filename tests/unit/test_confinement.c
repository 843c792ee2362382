/* A process that is confined, in a child: its exit status tells what it could still do. */
#include "tests/unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "cell/sys/confinement.h"

enum { NOBODY = 65534 };

static char own[] = "/tmp/test_confinement.XXXXXX";
static char elsewhere[] = "/tmp/test_confinement.XXXXXX";

static int
set_up(void **state)
{
	(void)state;
	return mkdtemp(own) == NULL || close(mkstemp(elsewhere)) < 0;
}

static int
tear_down(void **state)
{
	(void)state;
	return unlink(elsewhere) < 0 || rmdir(own) < 0;
}

/* What `deed` returns in a process that is confined to its own directory. */
static int
confined(int (*deed)(void))
{
	const char *const directories[] = {own, "/no such directory", NULL};
	const pid_t child = fork();
	char why[256];
	int status;

	must(child >= 0);
	if (child == 0)
		_exit(confinement_enter(directories, why, sizeof why) ? deed() : 255);
	must(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static bool
has_landlock(void)
{
	return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION) > 0;
}

static int
makes_own_file(void)
{
	const int at = open(own, O_PATH | O_DIRECTORY);
	const int fd = openat(at, "file", O_RDWR | O_CREAT | O_TRUNC, 0600);

	if (at < 0 || fd < 0)
		return errno;
	if (write(fd, "x", 1) != 1 || ftruncate(fd, 0) < 0)
		return errno;
	if (renameat(at, "file", at, "other") < 0 || unlinkat(at, "other", 0) < 0)
		return errno;
	return 0;
}

static int
makes_a_file_elsewhere(void)
{
	return open("/tmp/test_confinement.elsewhere", O_RDWR | O_CREAT, 0600) < 0 ? errno : 0;
}

static int
reads_elsewhere(void)
{
	return open(elsewhere, O_RDONLY) < 0 ? errno : 0;
}

static int
reads_names(void)
{
	return open("/etc/passwd", O_RDONLY) < 0 ? errno : 0;
}

static int
executes(void)
{
	execl("/bin/true", "true", NULL);
	return errno;
}

static int
unshares(void)
{
	return unshare(CLONE_NEWUSER) < 0 ? errno : 0;
}

static int
counts_capabilities(void)
{
	char line[256];
	FILE *f = fopen("/proc/self/status", "re");
	int found = 0;

	while (f != NULL && fgets(line, sizeof line, f) != NULL)
		found += strcmp(line, "CapEff:\t0000000000000000\n") == 0 ||
		         strcmp(line, "CapPrm:\t0000000000000000\n") == 0 ||
		         strcmp(line, "NoNewPrivs:\t1\n") == 0 ||
		         strcmp(line, "Seccomp:\t2\n") == 0;
	return found;
}

/* The terminal may be one on which its caller's shell will read. */
static int
types_into_a_terminal(void)
{
	return ioctl(-1, TIOCSTI, "x") < 0 ? errno : 0;
}

static int
pastes_into_a_terminal(void)
{
	return ioctl(-1, TIOCLINUX, "") < 0 ? errno : 0;
}

static int
asks_for_the_size_of_a_terminal(void)
{
	struct winsize size;

	return ioctl(-1, TIOCGWINSZ, &size) < 0 ? errno : 0;
}

/* As libuv does, to turn clients away when no descriptor is left. */
static int
opens_the_root(void)
{
	return open("/", O_RDONLY) < 0 ? errno : 0;
}

TEST(test_its_own_files)
{
	assert_int_equal(confined(opens_the_root), 0);
	assert_int_equal(confined(makes_own_file), 0);
	assert_int_equal(confined(reads_names), 0);
}

TEST(test_other_files)
{
	if (!has_landlock())
		skip();
	assert_int_equal(confined(makes_a_file_elsewhere), EACCES);
	assert_int_equal(confined(reads_elsewhere), EACCES);
}

/* In a mount namespace where the file is a link to a directory that is none of the readable ones.
 */
static int
reads_the_resolver(void)
{
	FILE *f = fopen("/etc/resolv.conf", "re");

	return f == NULL || fgetc(f) != '#' ? errno : 0;
}

static int
finds_the_resolver(void)
{
	FILE *f;

	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
	    mount("none", "/run", "tmpfs", 0, NULL) < 0 || mkdir("/run/names", 0755) < 0 ||
	    mount("none", "/etc", "tmpfs", 0, NULL) < 0 ||
	    symlink("../run/names/resolv.conf", "/etc/resolv.conf") < 0)
		return 254;
	f = fopen("/run/names/resolv.conf", "we");
	if (f == NULL || fputs("#\n", f) < 0 || fclose(f) != 0)
		return 254;
	return confined(reads_the_resolver);
}

TEST(test_where_names_are_looked_up)
{
	pid_t child;
	int status;

	if (geteuid() != 0)
		skip(); /* only root mounts */
	child = fork();
	must(child >= 0);
	if (child == 0)
		_exit(finds_the_resolver());
	must(waitpid(child, &status, 0) == child && WIFEXITED(status));
	if (WEXITSTATUS(status) == 254)
		skip(); /* the machine allows no mounts of one's own */
	assert_int_equal(WEXITSTATUS(status), 0);
}

TEST(test_no_program_is_executed)
{
	assert_int_equal(confined(executes), EPERM);
	assert_int_equal(confined(unshares), EPERM);
}

TEST(test_nothing_is_typed)
{
	assert_int_equal(confined(types_into_a_terminal), EPERM);
	assert_int_equal(confined(pastes_into_a_terminal), EPERM);
	assert_int_equal(confined(asks_for_the_size_of_a_terminal), EBADF); /* not refused */
}

TEST(test_no_capability_is_left)
{
	assert_int_equal(confined(counts_capabilities), 4);
}

/* ---- a mount of root ---- */

static int
is_mounted(bool has_files, int (*deed)(void))
{
	const pid_t child = fork();
	char why[256];
	int status;

	must(child >= 0);
	if (child == 0)
		_exit(confinement_before_mount(why, sizeof why) &&
		              confinement_enter_mounted(has_files, why, sizeof why)
		          ? deed()
		          : 255);
	must(waitpid(child, &status, 0) == child && WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int
reads_its_parent(void)
{
	char name[64];

	snprintf(name, sizeof name, "/proc/%d/fdinfo/0", (int)getppid());
	return open(name, O_RDONLY) < 0 ? errno : 0;
}

static int
writes_into_its_parent(void)
{
	char name[64];

	snprintf(name, sizeof name, "/proc/%d/mem", (int)getppid());
	return open(name, O_RDWR) < 0 ? errno : 0;
}

static int
kills_its_parent(void)
{
	return kill(getppid(), 0) < 0 ? errno : 0;
}

static int
looks_for_a_thread_of_its_parent(void)
{
	return syscall(SYS_tgkill, getppid(), getppid(), 0) < 0 ? errno : 0;
}

/* A signal that is ignored. */
static int
signals_its_parent(void)
{
	return syscall(SYS_tgkill, getppid(), getppid(), SIGURG) < 0 ? errno : 0;
}

static int
queues_a_signal(void)
{
	siginfo_t info = {.si_signo = SIGURG, .si_code = SI_QUEUE};

	return syscall(SYS_rt_tgsigqueueinfo, getppid(), getppid(), SIGURG, &info) < 0 ? errno : 0;
}

/* That of a socket is sent SIGIO, which ends most processes, or another signal. */
static int
makes_its_parent_an_owner(void)
{
	return fcntl(socket(AF_INET, SOCK_DGRAM, 0), F_SETOWN, getppid()) < 0 ? errno : 0;
}

static int
makes_its_parent_an_owner_otherwise(void)
{
	const int owner = getppid();

	return ioctl(socket(AF_INET, SOCK_DGRAM, 0), FIOSETOWN, &owner) < 0 ? errno : 0;
}

static int
signals_itself(void)
{
	signal(SIGUSR1, SIG_IGN);
	return raise(SIGUSR1) != 0 ? errno : 0;
}

static int
makes_set_user_id(void)
{
	return fchmod(open(elsewhere, O_RDONLY), 04755) < 0 ? errno : 0;
}

/* Newer than the headers that this may be compiled with. */
static int
makes_set_user_id_by_name(void)
{
	enum { FCHMODAT2 = 452 };

	return syscall(FCHMODAT2, AT_FDCWD, elsewhere, 04755, 0) < 0 ? errno : 0;
}

static int
gives_away(void)
{
	return fchown(open(elsewhere, O_RDONLY), NOBODY, NOBODY) < 0 ? errno : 0;
}

static int
sets_an_attribute(void)
{
	return fsetxattr(open(elsewhere, O_RDONLY), "user.x", "", 0, 0) < 0 ? errno : 0;
}

static int
removes_an_attribute(void)
{
	return fremovexattr(open(elsewhere, O_RDONLY), "user.x") < 0 ? errno : 0;
}

static int
renames(void)
{
	return rename(elsewhere, elsewhere) < 0 ? errno : 0;
}

static int
unmounts_nothing(void)
{
	return umount2(own, MNT_DETACH) < 0 ? errno : 0;
}

TEST(test_a_mount_of_root)
{
	if (geteuid() != 0)
		skip();
	assert_int_equal(is_mounted(false, executes), EPERM);
	assert_int_equal(is_mounted(false, unshares), EPERM);
	assert_int_equal(is_mounted(false, makes_a_file_elsewhere), EPERM);
	assert_int_equal(is_mounted(false, writes_into_its_parent), EPERM);
	assert_int_equal(is_mounted(false, kills_its_parent), EPERM);
	assert_int_equal(is_mounted(false, renames), EPERM);
	assert_int_equal(is_mounted(false, signals_its_parent), EPERM);
	assert_int_equal(is_mounted(false, queues_a_signal), EPERM);
	assert_int_equal(is_mounted(false, makes_its_parent_an_owner), EPERM);
	assert_int_equal(is_mounted(false, makes_its_parent_an_owner_otherwise), EPERM);
	assert_int_equal(is_mounted(false, types_into_a_terminal), EPERM);
	assert_int_equal(is_mounted(false, pastes_into_a_terminal), EPERM);
	assert_int_equal(is_mounted(false, makes_set_user_id), EPERM);
	assert_int_equal(is_mounted(false, makes_set_user_id_by_name), ENOSYS);
	assert_int_equal(is_mounted(false, gives_away), EPERM);
	assert_int_equal(is_mounted(false, sets_an_attribute), EPERM);
	assert_int_equal(is_mounted(false, removes_an_attribute), EPERM);
	assert_int_equal(is_mounted(false, looks_for_a_thread_of_its_parent), 0);
	assert_int_equal(is_mounted(false, signals_itself), 0);
	assert_int_equal(is_mounted(true, executes), EPERM);
	assert_int_equal(is_mounted(true, makes_own_file), 0);
	assert_int_equal(is_mounted(false, reads_elsewhere), 0);
	assert_int_equal(is_mounted(false, reads_its_parent), 0);
	assert_int_equal(is_mounted(false, unmounts_nothing), EINVAL); /* not refused */
}

static int
becomes_the_owner(void)
{
	char why[256];

	return confinement_drop_root(own, why, sizeof why) ? (int)(geteuid() != NOBODY) : 254;
}

/* Only root can become another user. */
TEST(test_root_is_given_up)
{
	pid_t child;
	int status;

	if (geteuid() != 0)
		skip();
	assert_int_equal(chown(own, NOBODY, NOBODY), 0);
	child = fork();
	must(child >= 0);
	if (child == 0)
		_exit(becomes_the_owner());
	must(waitpid(child, &status, 0) == child && WIFEXITED(status));
	assert_int_equal(chown(own, 0, 0), 0);
	assert_int_equal(WEXITSTATUS(status), 0);
}

int
main(void)
{
	return unit_run(set_up, tear_down);
}
