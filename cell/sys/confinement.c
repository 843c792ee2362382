#include "cell/sys/confinement.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/capability.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
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

/* Gives up all capabilities but those of `kept`, a set of the first 32. */
static bool
give_capabilities_up(uint32_t kept, char *why, size_t why_size)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {0};

	if (syscall(SYS_capget, &header, sets) < 0)
		return fail(why, why_size, "capabilities can't be read", errno);
	kept &= sets[0].permitted;
	memset(sets, 0, sizeof sets);
	sets[0].effective = sets[0].permitted = kept;
	if (syscall(SYS_capset, &header, sets) < 0)
		return fail(why, why_size, "capabilities can't be given up", errno);
	return true;
}

static bool
refuse_new_privileges(char *why, size_t why_size)
{
	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 ||
	       fail(why, why_size, "no_new_privs", errno);
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

static bool
limit_files(const char *const *directories, char *why, size_t why_size)
{
	const long version =
	    syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr all = {.handled_access_fs = READING | WRITING | OTHERS};
	char resolver[PATH_MAX];
	int ruleset;
	bool ok;

	if (version < 1) /* not compiled in, or switched off at boot */
		return true;
	/* A ruleset with rights that this version does not know is refused. */
	if (version < 2)
		all.handled_access_fs &= ~LANDLOCK_ACCESS_FS_REFER;
	if (version < 3)
		all.handled_access_fs &= ~LANDLOCK_ACCESS_FS_TRUNCATE;
	ruleset = (int)syscall(SYS_landlock_create_ruleset, &all, sizeof all, 0);

	/* libuv opens the root whenever it has no descriptor left, to have one for each client that
	 * it turns away: that any directory can be listed is the price of that. */
	ok = ruleset >= 0 && allow(ruleset, "/", LANDLOCK_ACCESS_FS_READ_DIR) &&
	     allow(ruleset, "/dev/null",
	           LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE);
	for (; ok && *directories != NULL; directories++)
		ok = allow(ruleset, *directories, all.handled_access_fs & (READING | WRITING));
	for (const char *const *path = readable; ok && *path != NULL; path++)
		ok = allow(ruleset, *path, READING);
	/* Where a link leads: programs replace the file there, by a rename. Without it, the C
	 * library would ask this machine for all names, and not say so. */
	if (ok && realpath("/etc/resolv.conf", resolver) != NULL &&
	    strrchr(resolver, '/') != resolver)
		ok = allow(ruleset, dirname(resolver), READING);
	ok = ok && syscall(SYS_landlock_restrict_self, ruleset, 0) == 0;
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
/* clang-format off */
/* Calls of which neither a replica nor a mount makes any, and from which an intruder would gain
 * most. */
static const uint32_t refused[] = {
    SYS_execve, SYS_execveat, SYS_mount, SYS_pivot_root, SYS_chroot, SYS_setns, SYS_unshare,
    SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load, SYS_bpf,
    SYS_perf_event_open, SYS_userfaultfd, SYS_io_uring_setup, SYS_keyctl, SYS_add_key,
    SYS_request_key, SYS_reboot, SYS_swapon, SYS_swapoff, SYS_acct, SYS_open_by_handle_at,
    SYS_process_vm_writev,
#ifndef __SANITIZE_ADDRESS__
    SYS_ptrace, /* by which the leak checker stops the other threads at the end */
#endif
};

static const uint32_t refused_to_replicas[] = {SYS_umount2};

/* A mount of root still has the rights for these: it looks at its callers, and unmounts. */
static const uint32_t refused_to_mounts[] = {
    SYS_fsopen, SYS_fsmount, SYS_move_mount, SYS_open_tree, SYS_fsconfig, SYS_fspick,
    SYS_process_vm_readv, SYS_pidfd_getfd, SYS_kill, SYS_tkill, SYS_pidfd_send_signal,
    SYS_rt_sigqueueinfo, SYS_rt_tgsigqueueinfo, SYS_sethostname, SYS_setdomainname,
    SYS_settimeofday, SYS_clock_settime, SYS_syslog, SYS_quotactl, SYS_fanotify_init,
};

/* A call with this second argument. */
struct call_for {
	uint32_t call, value;
};

/* These type into a terminal, perhaps of a shell that has more rights. The one of who started the
 * program may be its own; and root opens any. */
static const struct call_for refused_typing[] = {{SYS_ioctl, TIOCSTI}, {SYS_ioctl, TIOCLINUX}};

/* These name the owner of a descriptor, whom the kernel sends a signal when something happens to
 * it. */
static const struct call_for refused_owners[] = {
    {SYS_fcntl, F_SETOWN}, {SYS_fcntl, F_SETOWN_EX}, {SYS_ioctl, FIOSETOWN},
    {SYS_ioctl, SIOCSPGRP},
};

/* The calls that change files by name, or by a descriptor that was opened for reading. A mount over
 * the network needs none of them: its run record is open, and is removed at the end. */
static const uint32_t writing_calls[] = {
    SYS_openat2, SYS_mkdirat, SYS_mknodat, SYS_symlinkat, SYS_linkat, SYS_renameat,
    SYS_renameat2, SYS_fchmodat, SYS_fchownat, SYS_truncate, SYS_setxattr,
    SYS_lsetxattr, SYS_fsetxattr, SYS_removexattr, SYS_lremovexattr, SYS_fremovexattr, SYS_fchmod,
    SYS_fchown,
#ifdef SYS_mkdir
    SYS_creat, SYS_mkdir, SYS_mknod, SYS_symlink, SYS_link, SYS_rename, SYS_chmod, SYS_chown,
    SYS_lchown,
#endif
};
/* clang-format on */

#define CALLS(table) (sizeof(table) / sizeof(table)[0])

enum {
	/* The least number of a call that is newer than those above, as fchmodat2(2) is, and does
	 * what they do. The C library does without these. Calls of the x32 ABI are greater. */
	NEWER = 452,
	FILTER_MAX = 6 + 2 * (CALLS(refused) + CALLS(refused_to_mounts) + CALLS(writing_calls)) +
	             5 * (CALLS(refused_typing) + CALLS(refused_owners)) + 7 + 2 * 5 + 1,
};

struct filter {
	struct sock_filter code[FILTER_MAX];
	unsigned short n;
};

static void
add(struct filter *f, struct sock_filter instruction)
{
	f->code[f->n++] = instruction;
}

static void
load(struct filter *f, size_t offset)
{
	add(f, (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset));
}

static void
end(struct filter *f, uint32_t verdict)
{
	add(f, (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, verdict));
}

/* Skips as many instructions unless what was loaded is `value`. */
static void
skip_unless(struct filter *f, uint32_t value, uint8_t instructions)
{
	add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, instructions));
}

/* A call of another architecture has other numbers, and ends the process. */
static void
begin(struct filter *f)
{
	f->n = 0;
	load(f, offsetof(struct seccomp_data, arch));
	add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ARCHITECTURE, 1, 0));
	end(f, SECCOMP_RET_KILL_PROCESS);
	load(f, offsetof(struct seccomp_data, nr));
	add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, NEWER, 0, 1));
	end(f, SECCOMP_RET_ERRNO | ENOSYS);
}

static void
load_argument(struct filter *f, size_t argument)
{
	load(f, offsetof(struct seccomp_data, args) + argument * sizeof(uint64_t));
}

static void
refuse(struct filter *f, const uint32_t *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		skip_unless(f, calls[i], 1);
		end(f, SECCOMP_RET_ERRNO | EPERM);
	}
}

static void
refuse_for(struct filter *f, const struct call_for *calls, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		skip_unless(f, calls[i].call, 4);
		load_argument(f, 1);
		skip_unless(f, calls[i].value, 1);
		end(f, SECCOMP_RET_ERRNO | EPERM);
		load(f, offsetof(struct seccomp_data, nr));
	}
}

/* abort(3) and threads of the C library use tgkill(2) within the process; with signal 0 it tells
 * whether another has that thread. */
static void
refuse_signals_to_others(struct filter *f)
{
	refuse_for(f, refused_owners, CALLS(refused_owners));
	skip_unless(f, SYS_tgkill, 6);
	load_argument(f, 2);
	add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0, 2, 0));
	load_argument(f, 0);
	skip_unless(f, (uint32_t)getpid(), 1);
	end(f, SECCOMP_RET_ALLOW);
	end(f, SECCOMP_RET_ERRNO | EPERM);
}

/* open(2) with the flags in this argument, for anything but reading. */
static void
refuse_to_open_for_writing(struct filter *f, uint32_t call, size_t argument)
{
	const uint32_t writing = O_ACCMODE | O_CREAT | O_TRUNC;

	skip_unless(f, call, 4);
	load_argument(f, argument);
	add(f, (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, writing, 0, 1));
	end(f, SECCOMP_RET_ERRNO | EPERM);
	end(f, SECCOMP_RET_ALLOW);
}

/* For all threads of the process. */
static bool
enforce(struct filter *f, char *why, size_t why_size)
{
	const struct sock_fprog program = {.len = f->n, .filter = f->code};

	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) !=
	        0 &&
	    errno != EINVAL && errno != ENOSYS)
		return fail(why, why_size, "system calls can't be limited", errno);
	return true;
}

static bool
limit_calls(char *why, size_t why_size)
{
	struct filter f;

	begin(&f);
	refuse(&f, refused, CALLS(refused));
	refuse_for(&f, refused_typing, CALLS(refused_typing));
	refuse(&f, refused_to_replicas, CALLS(refused_to_replicas));
	end(&f, SECCOMP_RET_ALLOW);
	return enforce(&f, why, why_size);
}

static bool
limit_mount_calls(bool has_files, char *why, size_t why_size)
{
	struct filter f;

	begin(&f);
	refuse(&f, refused, CALLS(refused));
	refuse_for(&f, refused_typing, CALLS(refused_typing));
	refuse(&f, refused_to_mounts, CALLS(refused_to_mounts));
	refuse_signals_to_others(&f);
	if (!has_files) {
		refuse(&f, writing_calls, CALLS(writing_calls));
		refuse_to_open_for_writing(&f, SYS_openat, 2);
#ifdef SYS_open
		refuse_to_open_for_writing(&f, SYS_open, 1);
#endif
	}
	end(&f, SECCOMP_RET_ALLOW);
	return enforce(&f, why, why_size);
}
#else
static bool
limit_calls(char *why, size_t why_size)
{
	(void)why;
	(void)why_size;
	return true;
}

static bool
limit_mount_calls(bool has_files, char *why, size_t why_size)
{
	(void)has_files;
	return limit_calls(why, why_size);
}
#endif

bool
confinement_enter(const char *const *directories, char *why, size_t why_size)
{
	return refuse_new_privileges(why, why_size) && give_capabilities_up(0, why, why_size) &&
	       (secret_hide_process() ||
	        fail(why, why_size, "core dumps can't be switched off", errno)) &&
	       limit_files(directories, why, why_size) && limit_calls(why, why_size);
}

/* ---- a mount of root ---- */

/* To mount and unmount, below directories of other users, too; and to read the descriptors of
 * callers. */
static const uint32_t mounting =
    1u << CAP_SYS_ADMIN | 1u << CAP_SYS_PTRACE | 1u << CAP_DAC_OVERRIDE | 1u << CAP_DAC_READ_SEARCH;

bool
confinement_before_mount(char *why, size_t why_size)
{
	return geteuid() != 0 || give_capabilities_up(mounting, why, why_size);
}

bool
confinement_enter_mounted(bool has_files, char *why, size_t why_size)
{
	return geteuid() != 0 || (refuse_new_privileges(why, why_size) &&
	                          limit_mount_calls(has_files, why, why_size));
}
