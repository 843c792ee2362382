/* The mount: the semantics of the filesystem, pure. docs/semantics.md describes them for users.
 *
 * mount_step(event) -> update. Events are calls of the kernel, answers of the cell, and timeouts;
 * the update holds replies for the kernel, requests for the cell (which the driver passes to
 * cell/client), and notifications. The mount does not depend on libfuse: the driver (fs/fuse/ops.c)
 * translates, and the simulator drives the mount directly. The mount reads the state of the session
 * through a `const struct client *` and never changes it.
 *
 * Every call is answered exactly once, with its `call` number. MOUNT_INTERRUPT reports a signal to
 * the caller of a call: a call that waits for a lock is answered EINTR at once, and so is every
 * call whose process is being killed or that is waiting while the cell does not answer; any other
 * call is answered with its result, or with EINTR if there is no result within a second. A call
 * whose caller was stopped or frozen goes on, except that a healthy cell's lock is not waited for:
 * a stopped process shall not be granted it. The driver reports a call again, whose caller may have
 * received a signal since, until it is answered. The effects of a request whose call was answered
 * EINTR are undone or recorded when the cell answers. */
#ifndef LSFS_FS_MOUNT_MOUNT_H
#define LSFS_FS_MOUNT_MOUNT_H

#include <sys/types.h>
#include "cell/base/trace.h"
#include "cell/client/client.h"

struct mount;

struct mount_config {
	const char *cell;
	uid_t uid; /* of the mounting user: owner of all nodes */
	gid_t gid;
	int lock_delay_s;      /* default 15 */
	bool commit_at_write;  /* commit=write */
	bool quiet;            /* ignore chmod and chown */
	mode_t umask;          /* permission bits that are not shown */
	bool others;           /* other local users may use the mount */
	uint32_t listing_page; /* bytes of a listing requested at a time; 0: the maximum */
	struct trace *trace;   /* the caller's sink of verdicts; NULL: none */
};

/* Makes a mount over the sessions of `client`, which the driver owns and must keep until the mount
 * is freed. */
struct mount *mount_new(const struct mount_config *config, const struct client *client);
/* Frees the mount with all of its calls, which are not answered. */
void mount_free(struct mount *m);

/* True if another process could go on with the mount: nothing is asked of the cell, and every call
 * that is not answered waits for a lock or for an event. */
bool mount_is_still(const struct mount *m);
/* The image of such a mount: inodes, handles with their buffers and snapshots, and locks. The calls
 * that wait are no part of it. The driver makes them again at the next mount, before all others, in
 * their order and marked so: one that waits for a lock then takes over the acquire of the one
 * before it, and does nothing but wait. */
void mount_save(struct mount *m, mono_t now, struct image *to);
/* A mount of this configuration, made from an image; NULL if the image is not valid. `client`
 * continues the session of the other mount. */
struct mount *mount_load(const struct mount_config *config, const struct client *client,
                         struct image *from);

/* Kernel inode numbers are node numbers, except for the virtual directory /.cell. */
#define MOUNT_INO_VIRTUAL (1ull << 63)
#define MOUNT_INO_CELL (MOUNT_INO_VIRTUAL | 1)
#define MOUNT_INO_STATUS (MOUNT_INO_VIRTUAL | 2)
#define MOUNT_INO_CHECK (MOUNT_INO_VIRTUAL | 3)
#define MOUNT_INO_LOCKS (MOUNT_INO_VIRTUAL | 4)
#define MOUNT_INO_EVENTS (MOUNT_INO_VIRTUAL | 5)
#define MOUNT_INO_METRICS (MOUNT_INO_VIRTUAL | 6)
#define MOUNT_INO_TXN (MOUNT_INO_VIRTUAL | 7)
#define MOUNT_INO_CHANGES (MOUNT_INO_VIRTUAL | 8)
/* And except for dead nodes that stand in for directories: the cell gives no such numbers. */
#define MOUNT_INO_STAND_IN (1ull << 62)

enum mount_event_kind {
	/* from the kernel, with the fields used; all but FORGET and INTERRUPT are answered */
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
	MOUNT_OPEN,        /* ino, flags (O_*) -> OPENED */
	MOUNT_CREATE,      /* ino, name, mode, flags -> CREATED */
	MOUNT_READ,        /* ino, fh, offset, size, for_page -> DATA */
	MOUNT_WRITE,       /* ino, fh, lock_owner, flags (O_*), offset, data -> COUNT */
	MOUNT_FLUSH,       /* ino, fh, lock_owner, fate, has_other -> STATUS */
	MOUNT_FSYNC,       /* ino, fh -> STATUS */
	MOUNT_RELEASE,     /* ino, fh, lock_owner -> STATUS, at once */
	MOUNT_OPENDIR,     /* ino -> OPENED */
	MOUNT_READDIR,     /* ino, fh, offset -> LISTING from offset on, "." and ".." first */
	MOUNT_RELEASEDIR,  /* ino, fh -> STATUS */
	MOUNT_STATFS,      /* -> STATS */
	MOUNT_GETXATTR,    /* ino, name -> DATA (whole value; the driver handles size queries) */
	MOUNT_SETXATTR,    /* ino, name, data, flags (XATTR_*) -> STATUS */
	MOUNT_LISTXATTR,   /* ino -> DATA (names, each with its NUL) */
	MOUNT_REMOVEXATTR, /* ino, name -> STATUS */
	MOUNT_FLOCK,       /* ino, fh, lock_mode (LOCK_NONE: unlock), wait -> STATUS */
	MOUNT_SETLK,       /* ino, fh, lock_owner, lock_mode, wait, whole -> STATUS */
	MOUNT_GUARD,       /* ino, fh, data: a sequencer for the handle; empty: none -> STATUS */
	MOUNT_POISON,      /* ino, fh: the handle is dead from now on -> STATUS */
	MOUNT_NUMBER, /* ino, fh of a directory, data: prefix, mode (S_ISVTX) -> DATA: the name */
	MOUNT_WATCH_TREE, /* ino, fh: events of all that is below the directory -> STATUS */
	MOUNT_GETLK,      /* ino, fh, lock_owner, lock_mode, whole -> LOCK */
	MOUNT_POLL,       /* ino, fh, wait: wake the kernel when there is more -> POLLED */
	MOUNT_INTERRUPT,  /* call: the waiting call's number, fate; not answered itself */
	/* from the cell and the driver; not answered */
	MOUNT_ANSWER,  /* answer */
	MOUNT_GRANT,   /* grant */
	MOUNT_WATCHED, /* watched, wall_ns; after the answers and grants of that step */
	MOUNT_DROPPED, /* nodes, everything: the client has dropped these from its cache; before
	                * everything else of that step of the client */
	MOUNT_WRITTEN, /* the kernel has all replies, at the latest since now */
	MOUNT_SESSION, /* client_status() has another state or session than before, or another
	                * connection; before the answers and grants of that step of the client */
	MOUNT_TIMEOUT,
};

/* How the calling process ends, at FLUSH or after an interrupt, as far as the driver can see. A
 * killed writer commits nothing, a killed caller waits for nothing. An undisturbed caller was
 * interrupted without a signal that its program would notice: it was stopped or frozen, and a
 * failure of the call when it goes on would surprise it. */
enum mount_fate { FATE_UNKNOWN, FATE_ALIVE, FATE_UNDISTURBED, FATE_EXITING, FATE_KILLED };

enum mount_set {
	SET_MODE = 1,
	SET_UID = 2,
	SET_GID = 4,
	SET_SIZE = 8,
	SET_MTIME = 16,
	SET_MTIME_NOW = 32,
	SET_ATIME = 64
};

struct mount_event {
	enum mount_event_kind kind;
	mono_t now;
	uint64_t call; /* chosen by the driver, never used again */
	uid_t uid;
	gid_t gid;
	/* The name of the calling user, as that of a user of the mount's principal; empty: the
	 * mounting user, for which the principal itself stands. Copied. */
	struct bytes user;
	pid_t thread; /* of the caller, from the kernel */
	pid_t pid;    /* of the caller's process, if mount_wants() asks for it */
	uint64_t ino, fh, new_ino, lock_owner, count;
	struct bytes name, new_name, data;
	int flags;
	mode_t mode;
	int64_t offset;
	size_t size;
	unsigned set; /* enum mount_set, or-ed */
	int64_t mtime_ns;
	uint64_t set_size;
	uid_t set_uid;
	gid_t set_gid;
	enum lock_mode lock_mode;
	bool wait, whole; /* whole: l_start 0, l_len 0 */
	bool by_ioctl;    /* for the driver: the kernel expects an answer of that form */
	bool for_page;    /* READ: to fill the page cache, for a mapping or sendfile(2) */
	bool again;       /* the mount before this one had the call, and its caller waits */
	enum mount_fate fate;
	bool has_other; /* the caller has another descriptor for writing into this file */
	const struct client_answer *answer;
	const struct client_grant *grant;
	const struct client_watched *watched;
	int64_t wall_ns; /* the time of day, for people */
	uint64_t node;
	const uint64_t *nodes;
	size_t nodes_n;
	bool everything;
};

/* Facts about the caller of a call, besides its thread: pid; fate; has_other. */
enum { WANTS_PROCESS = 1, WANTS_FATE = 2, WANTS_DESCRIPTORS = 4 };
/* The facts that the call needs (WANTS_*, or-ed); the driver asks the kernel only for these. Call
 * it right before the step. */
unsigned mount_wants(const struct mount *m, const struct mount_event *event);
/* The number that stat(2) shows for what the kernel calls `ino`: that of the node that has taken
 * the place of a renamed file. */
uint64_t mount_shown(const struct mount *m, uint64_t ino);

enum mount_reply_kind {
	MOUNT_STATUS,
	MOUNT_ENTRY,
	MOUNT_ATTR,
	MOUNT_OPENED,
	MOUNT_CREATED,
	MOUNT_DATA,
	MOUNT_COUNT,
	MOUNT_LISTING,
	MOUNT_STATS,
	MOUNT_LOCK,
	MOUNT_POLLED
};

struct mount_stat {
	uint64_t ino, size, nlink;
	mode_t mode;
	int64_t mtime_ns, ctime_ns;
};

struct mount_child {
	uint64_t ino;
	mode_t mode;
	struct bytes name;
};

struct mount_reply {
	uint64_t call;
	enum mount_reply_kind kind;
	int error;                          /* 0, or a positive errno: then even `kind` is void */
	struct mount_stat stat;             /* ENTRY, ATTR, CREATED */
	span_t attr_timeout, entry_timeout; /* for which the kernel may keep these and the name */
	uint64_t fh;                        /* OPENED, CREATED */
	struct bytes data;                  /* DATA; a view until the next step */
	size_t count;                       /* COUNT */
	/* LISTING: the children from the requested offset on; offsets count from 1 */
	const struct mount_child *children;
	size_t children_n;
	uint64_t nodes, nodes_quota, bytes, bytes_quota; /* STATS */
	enum lock_mode lock_mode; /* LOCK: LOCK_NONE if the lock would be granted */
	pid_t lock_pid;
	unsigned revents; /* POLLED */
};

/* For the client: CLIENT_WATCH. */
struct mount_watch {
	uint64_t node;
	uint32_t mask;
	uint64_t generation;
	struct bytes user; /* as that of a request */
};

struct mount_update {
	struct mount_reply *replies;
	size_t replies_n, replies_room;
	struct client_call
	    *requests; /* for the client; their views are valid until the next step */
	size_t requests_n, requests_room;
	uint64_t *stale_inodes; /* to be notified (inval_inode(ino, -1, 0)) before the replies */
	size_t stale_inodes_n, stale_inodes_room;
	struct mount_watch *watches;
	size_t watches_n, watches_room;
	uint64_t *woken; /* handles (fh) that the kernel polls again */
	size_t woken_n, woken_room;
	bool kept;       /* the kernel keeps some of the replies: MOUNT_WRITTEN is due */
	mono_t deadline; /* mount_deadline, as it is now */
};

/* Clears `update`, handles the event and fills it. */
void mount_step(struct mount *m, const struct mount_event *event, struct mount_update *update);
/* Frees what it points to; it can be used again. */
void mount_update_free(struct mount_update *u);
/* The number of versions of contents in memory. */
size_t mount_versions(const struct mount *m);
/* When MOUNT_TIMEOUT is due; MONO_NEVER: it is not. */
mono_t mount_deadline(const struct mount *m);
/* True if a process holds a lock through an open file, or has asked for one. */
bool mount_has_file_locks(const struct mount *m);

#endif
