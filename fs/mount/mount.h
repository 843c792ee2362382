/* The mount: what the filesystem means, pure. docs/semantics.md tells it for users.
 *
 * mount_step(event) -> update. Events are the calls of the kernel, the cell's answers, and time;
 * the update holds replies for the kernel, requests for the cell (handed to cell/client), and
 * notifications. It knows nothing of libfuse: the driver (fs/fuse/ops.c) translates, the simulator
 * drives it directly. It is shown the session through a `const struct client *` and never changes
 * it.
 *
 * Every call is answered exactly once, with its `call` number. MOUNT_INTERRUPT says that its caller
 * has a signal: a lock that waits is answered EINTR at once, and so is every call of a process that
 * dies or while the cell does not answer; else the call takes its answer if that comes within a
 * second. What the cell says after EINTR is tidied up. */
#ifndef LSFS_FS_MOUNT_MOUNT_H
#define LSFS_FS_MOUNT_MOUNT_H

#include <sys/types.h>
#include "cell/client/client.h"

struct mount;

struct mount_config {
	const char *cell;
	uid_t uid;            /* of the mounting user: owner of all nodes */
	gid_t gid;
	int lock_delay_s;     /* default 15 */
	bool commit_at_write; /* commit=write */
	bool quiet;           /* ignore chmod and chown */
	uint32_t listing_page; /* bytes of a listing asked for at a time; 0: as many as may be */
};

/* The mount of a session; `client` stays the driver's and outlives it. */
struct mount *mount_new(const struct mount_config *config, const struct client *client);
void mount_free(struct mount *m);

/* Kernel inode numbers are node numbers, except for the virtual directory /.cell. */
#define MOUNT_INO_VIRTUAL (1ull << 63)
#define MOUNT_INO_CELL (MOUNT_INO_VIRTUAL | 1)
#define MOUNT_INO_STATUS (MOUNT_INO_VIRTUAL | 2)

enum mount_event_kind {
	/* from the kernel; the fields used are named. All but FORGET are answered. */
	MOUNT_LOOKUP,      /* ino (parent), name -> ENTRY */
	MOUNT_FORGET,      /* ino, count; no answer */
	MOUNT_GETATTR,     /* ino, fh or 0 -> ATTR */
	MOUNT_SETATTR,     /* ino, fh or 0, set -> ATTR */
	MOUNT_ACCESS,      /* ino, flags -> STATUS */
	MOUNT_MKDIR,       /* ino, name, mode -> ENTRY */
	MOUNT_MKNOD,       /* ino, name, mode: of a regular file -> ENTRY */
	MOUNT_UNLINK,      /* ino, name -> STATUS */
	MOUNT_RMDIR,       /* ino, name -> STATUS */
	MOUNT_RENAME,      /* ino, name, new_ino, new_name, flags (RENAME_*) -> STATUS */
	MOUNT_REFUSED,     /* link, symlink, other kinds of mknod -> STATUS EPERM */
	MOUNT_OPEN,        /* ino, flags (O_*), descriptors -> OPEN */
	MOUNT_CREATE,      /* ino, name, mode, flags -> CREATE */
	MOUNT_READ,        /* ino, fh, offset, size, for_page -> DATA */
	MOUNT_WRITE,       /* ino, fh, lock_owner, flags (O_*), offset, data -> COUNT */
	MOUNT_FLUSH,       /* ino, fh, lock_owner, fate, descriptors -> STATUS */
	MOUNT_FSYNC,       /* ino, fh -> STATUS */
	MOUNT_RELEASE,     /* ino, fh, lock_owner -> STATUS, at once */
	MOUNT_OPENDIR,     /* ino -> OPEN */
	MOUNT_READDIR,     /* ino, fh, offset -> LISTING from there on, "." and ".." first */
	MOUNT_RELEASEDIR,  /* ino, fh -> STATUS */
	MOUNT_STATFS,      /* -> STATFS */
	MOUNT_GETXATTR,    /* ino, name -> DATA (whole value; the driver answers size questions) */
	MOUNT_SETXATTR,    /* ino, name, data, flags (XATTR_*) -> STATUS */
	MOUNT_LISTXATTR,   /* ino -> DATA (names, each with its NUL) */
	MOUNT_REMOVEXATTR, /* ino, name -> STATUS */
	MOUNT_FLOCK,       /* ino, fh, lock_mode (LOCK_NONE: unlock), wait -> STATUS */
	MOUNT_SETLK,       /* ino, fh, lock_owner, lock_mode, wait, whole -> STATUS */
	MOUNT_GETLK,       /* ino, fh, lock_owner, lock_mode, whole -> LOCK */
	MOUNT_INTERRUPT,   /* call: the waiting call's number, fate; not answered itself */
	/* from the cell and the driver; not answered */
	MOUNT_ANSWER,      /* answer */
	MOUNT_GRANT,       /* grant */
	MOUNT_SESSION,     /* client_status() has another state or session than before */
	MOUNT_TIMEOUT,
};

/* How a process at FLUSH or at a signal ends, as far as the driver can see: a killed writer commits
 * nothing, a killed caller waits for nothing. */
enum mount_fate { FATE_UNKNOWN, FATE_ALIVE, FATE_EXITING, FATE_KILLED };

enum mount_set { SET_MODE = 1, SET_UID = 2, SET_GID = 4, SET_SIZE = 8, SET_MTIME = 16,
	             SET_MTIME_NOW = 32, SET_ATIME = 64 };

struct mount_event {
	enum mount_event_kind kind;
	mono_t now;
	uint64_t call;       /* made up by the driver, never used again */
	uid_t uid;
	gid_t gid;
	pid_t thread;        /* the caller, as the kernel tells it */
	pid_t pid;           /* of its process, where mount_wants() asks for it */
	uint64_t ino, fh, new_ino, lock_owner, count;
	struct bytes name, new_name, data;
	int flags;
	mode_t mode;
	int64_t offset;
	size_t size;
	unsigned set;        /* enum mount_set, or-ed */
	int64_t mtime_ns;
	uint64_t set_size;
	uid_t set_uid;
	gid_t set_gid;
	enum lock_mode lock_mode;
	bool wait, whole;    /* whole: l_start 0, l_len 0 */
	bool for_page;       /* READ: for the page cache, that is for a mapping or sendfile(2) */
	enum mount_fate fate;
	int descriptors;     /* of this file in the caller, besides the closing one; -1 unknown */
	const struct client_answer *answer;
	const struct client_grant *grant;
};

/* What a call needs to know of its caller besides the thread, so that the driver reads /proc only
 * where something hangs on it. Who is told to find out the process asks again with it: the other
 * two may depend on it. To be asked right before the step. */
enum { WANTS_PROCESS = 1, WANTS_FATE = 2, WANTS_DESCRIPTORS = 4 };
unsigned mount_wants(const struct mount *m, const struct mount_event *event);

enum mount_reply_kind { MOUNT_STATUS, MOUNT_ENTRY, MOUNT_ATTR, MOUNT_OPENED, MOUNT_CREATED,
	                    MOUNT_DATA, MOUNT_COUNT, MOUNT_LISTING, MOUNT_STATS, MOUNT_LOCK };

struct mount_stat {
	uint64_t ino, size, nlink;
	mode_t mode;
	int64_t mtime_ns;
};

struct mount_child { uint64_t ino; mode_t mode; struct bytes name; };

struct mount_reply {
	uint64_t call;
	enum mount_reply_kind kind;
	int error;              /* 0, or a positive errno: then not even `kind` counts */
	struct mount_stat stat; /* ENTRY, ATTR, CREATED */
	span_t attr_timeout, entry_timeout;
	uint64_t fh;            /* OPENED, CREATED */
	struct bytes data;      /* DATA; a view until the next step */
	size_t count;           /* COUNT */
	/* LISTING: from the asked offset on; offsets count from 1 */
	const struct mount_child *children;
	size_t children_n;
	uint64_t nodes, nodes_quota, bytes, bytes_quota; /* STATS */
	enum lock_mode lock_mode; /* LOCK: LOCK_NONE if it would be granted */
	pid_t lock_pid;
};

struct mount_request {
	uint64_t token;
	struct op op;  /* views until the next step */
	bool ordered;
};

struct mount_update {
	struct mount_reply *replies;
	size_t replies_n, replies_room;
	struct mount_request *requests;
	size_t requests_n, requests_room;
	uint64_t *stale_inodes; /* notify inval_inode(ino, -1, 0), before the replies */
	size_t stale_inodes_n, stale_inodes_room;
	bool forget_names;      /* the session was lost: every dentry of the mount may be wrong */
};

/* Clears `update`, handles the event and fills it. */
void mount_step(struct mount *m, const struct mount_event *event, struct mount_update *update);
void mount_update_free(struct mount_update *u);
/* How many versions of contents are in memory. */
size_t mount_versions(const struct mount *m);
mono_t mount_deadline(const struct mount *m);
/* Holds a process a lock through an open file, or asks for one? */
bool mount_has_file_locks(const struct mount *m);

#endif
