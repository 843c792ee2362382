#include "cell/sys/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "cell/sys/secret.h"

static bool
fail(char *why, size_t why_size, const char *what, int error)
{
	snprintf(why, why_size, "%s: %s", what, strerror(error));
	return false;
}

/* ---- root ---- */

bool
confinement_drop_root(const char *directory, char *why, size_t why_size)
{
	struct stat st;

	/* One that can't be read is an error of its own, later. */
	if (geteuid() != 0 || stat(directory, &st) < 0 || st.st_uid == 0)
		return true;
	if (setgroups(0, NULL) < 0 || setgid(st.st_gid) < 0 || setuid(st.st_uid) < 0)
		return fail(why, why_size, "can't become the owner of the data directory", errno);
	return true;
}

static bool
give_capabilities_up(char *why, size_t why_size)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	const struct __user_cap_data_struct none[_LINUX_CAPABILITY_U32S_3] = {0};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return fail(why, why_size, "no_new_privs", errno);
	if (syscall(SYS_capset, &header, none) < 0)
		return fail(why, why_size, "capabilities can't be given up", errno);
	return true;
}

static bool
leave_no_core(char *why, size_t why_size)
{
	return secret_hide_process() ||
	       fail(why, why_size, "core dumps can't be switched off", errno);
}

/* ---- files: Landlock ---- */

/* Newer than the headers that this may be compiled with. */
#ifndef LANDLOCK_ACCESS_FS_REFER
#define LANDLOCK_ACCESS_FS_REFER (1ULL << 13)
#endif
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ULL << 14)
#endif

#define READING (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITING                                                         \
	(LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_MAKE_REG |  \
	 LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | \
	 LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REFER | LANDLOCK_ACCESS_FS_TRUNCATE)
#define OTHERS                                                         \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_MAKE_CHAR |   \
	 LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | \
	 LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

/* The C library reads these to look a name up, to tell the time, and to load its own parts for
 * that; and the boot's id is there. */
static const char *const readable[] = {
    "/etc", "/usr", "/lib", "/lib64", "/proc", "/dev", "/run/systemd/resolve", NULL,
};

/* The rights that this version of Landlock knows: it refuses a ruleset with others. */
static uint64_t
known_rights(int version)
{
	uint64_t all = READING | WRITING | OTHERS;

	if (version < 2)
		all &= ~LANDLOCK_ACCESS_FS_REFER;
	if (version < 3)
		all &= ~LANDLOCK_ACCESS_FS_TRUNCATE;
	return all;
}

static bool
allow(int ruleset, const char *path, uint64_t rights)
{
	struct landlock_path_beneath_attr rule = {
	    .allowed_access = rights,
	    .parent_fd = open(path, O_PATH | O_CLOEXEC),
	};
	bool ok = true;

	if (rule.parent_fd < 0)
		return errno == ENOENT || errno == EACCES;
	ok = syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) == 0;
	close(rule.parent_fd);
	return ok;
}

/* libuv opens the root whenever it has no descriptor left, to have one for each client that it
 * turns away: that any directory can be listed is the price of that. */
static bool
allow_all(int ruleset, uint64_t known, const char *const *directories)
{
	bool ok = allow(ruleset, "/", LANDLOCK_ACCESS_FS_READ_DIR) &&
	          allow(ruleset, "/dev/null",
	                known & (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE));

	for (; ok && *directories != NULL; directories++)
		ok = allow(ruleset, *directories, known & (READING | WRITING));
	for (const char *const *path = readable; ok && *path != NULL; path++)
		ok = allow(ruleset, *path, READING);
	return ok;
}

static bool
limit_files(const char *const *directories, char *why, size_t why_size)
{
	const long version =
	    syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	const struct landlock_ruleset_attr all = {.handled_access_fs = known_rights((int)version)};
	int ruleset;
	bool ok;

	if (version < 1) /* not compiled in, or switched off at boot */
		return true;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);
	ok = ruleset >= 0 && allow_all(ruleset, all.handled_access_fs, directories) &&
	     syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
	if (!ok)
		fail(why, why_size, "access to files can't be limited", errno);
	if (ruleset >= 0)
		close(ruleset);
	return ok;
}

/* ---- system calls: seccomp ---- */

#if defined __x86_64__
#define ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined __aarch64__
#define ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#ifdef ARCHITECTURE
/* Calls of which a replica makes none, and from which an intruder would gain most. */
static const uint32_t refused[] = {
    SYS_execve,         SYS_execveat,   SYS_mount,   SYS_umount2,           SYS_pivot_root,
    SYS_chroot,         SYS_setns,      SYS_unshare, SYS_init_module,       SYS_finit_module,
    SYS_delete_module,  SYS_kexec_load, SYS_bpf,     SYS_perf_event_open,   SYS_userfaultfd,
    SYS_io_uring_setup, SYS_keyctl,     SYS_add_key, SYS_request_key,       SYS_reboot,
    SYS_swapon,         SYS_swapoff,    SYS_acct,    SYS_open_by_handle_at,
};

enum { REFUSED = sizeof refused / sizeof refused[0], BEFORE = 4 };

/* A call of another architecture has other numbers, and ends the process. */
static size_t
write_filter(struct sock_filter *f)
{
	size_t n = 0;

	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
	                                      offsetof(struct seccomp_data, arch));
	f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
	                                      offsetof(struct seccomp_data, nr));
	for (size_t i = 0; i < REFUSED; i++)
		f[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, refused[i],
		                                      (uint8_t)(REFUSED - i), 0);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	f[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
	return n;
}

static bool
limit_calls(char *why, size_t why_size)
{
	struct sock_filter filter[BEFORE + REFUSED + 2];
	const struct sock_fprog program = {.len = (unsigned short)write_filter(filter),
	                                   .filter = filter};

	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) < 0 && errno != EINVAL)
		return fail(why, why_size, "system calls can't be limited", errno);
	return true;
}
#else
static bool
limit_calls(char *why, size_t why_size)
{
	(void)why;
	(void)why_size;
	return true;
}
#endif

bool
confinement_enter(const char *const *directories, char *why, size_t why_size)
{
	return give_capabilities_up(why, why_size) && leave_no_core(why, why_size) &&
	       limit_files(directories, why, why_size) && limit_calls(why, why_size);
}
