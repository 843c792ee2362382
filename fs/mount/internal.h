/* The state that the files of the mount share, a struct of parts, each of which one file writes,
 * and the functions of files that have no state of their own.
 *
 *   mount.c              begin and end, the step, the kinds of calls; the end of the session
 *   call.c               a parked call: asking the cell, signals, answering
 *   inode.c, handle.c    what the kernel knows; who has it open, and whose turn it is
 *   snapshot.c           the contents that a handle reads
 *   buffer.c, commit.c   its uncommitted writes, and when they are sent
 *   mount_lock.c         the lock of one owner on one node; lost_lock.c: what the cell tells of it
 *   file_lock.c          the three kinds of owners: flock, fcntl, the attribute
 *   namespace.c          lookup, mkdir, unlink, rmdir, and rename, the atomic replacement
 *   listing.c            open directories
 *   setattr.c, xattr.c   attributes
 *   ephemeral_open.c     whether this session has a node open
 *   event_stream.c       watched nodes, poll, .cell/events; event_text.c: its lines
 *   transaction_file.c   .cell/txn; transaction_text.c: its lines
 *   change_file.c        .cell/changes
 *   virtual.c            the directory .cell; metrics.c: one of its files
 *   kernel_cache.c       what the kernel may keep
 *   stale.c              paths to dead nodes
 *   refusal.c            the rights that refused calls were missing
 *   summary.c            what the machine asks of every mount
 *   mount_image.c        the mount as another process goes on with it */
#ifndef LSFS_FS_MOUNT_INTERNAL_H
#define LSFS_FS_MOUNT_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <errno.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "fs/mount/call.h"
#include "fs/mount/handle.h"
#include "fs/mount/inode.h"
#include "fs/mount/kernel_cache.h"
#include "fs/mount/mount.h"
#include "fs/mount/mount_lock.h"

/* Versions of contents in memory: immutable, shared by all their readers, reference-counted. */

struct version {
	unsigned refs;
	uint64_t node;
	uint64_t generation;
	struct bytes data; /* owned by the version */
	size_t imaged;     /* its place in the image that is being written */
};

struct versions {
	size_t n;                /* number in memory */
	struct version **viewed; /* those that replies of this step point to; counted */
	size_t viewed_n, viewed_room;
};

/* The version of this node and generation, with a reference for the caller: one in memory, or a new
 * one with a copy of `data`. */
struct version *version_get(struct mount *m, uint64_t node, uint64_t generation, struct bytes data);
/* The same of the inode's node, but a new version takes over the bytes of the buffer. */
struct version *version_take(struct mount *m, struct inode *i, uint64_t generation,
                             struct buffer *data);
/* A new one, which takes over the bytes. `i`: the inode whose newest version it is; NULL: none. */
struct version *version_new(struct mount *m, struct inode *i, uint64_t node, uint64_t generation,
                            struct bytes own);
/* Adds a reference; accepts NULL. */
struct version *version_ref(struct version *v);
/* Drops a reference; accepts NULL. */
void version_put(struct mount *m, struct version *v);
/* Replaces *at by `v` and drops the old reference; takes over the caller's reference to `v`. */
void version_set(struct mount *m, struct version **at, struct version *v);
/* Called at the next step: drops the references of the views in replies. */
void version_views_end(struct mount *m);
/* The part of `b` at the offset, of at most `size` bytes. */
struct bytes bytes_slice(struct bytes b, int64_t offset, size_t size);

/* The file .cell/events: a stream of lines, one JSON object for each event, that begins when the
 * file is opened. A read waits for the next event. A reader that is slower than the events finds a
 * gap in their place. */

/* The state of one open of .cell/events. */
struct event_stream {
	TAILQ_ENTRY(event_stream) entry;
	struct handle *handle;
	struct buffer lines;      /* that were not read */
	bool lost;                /* there was no room for the next ones, */
	int64_t lost_ns;          /* at this time of day */
	struct call_list readers; /* that wait */
};

TAILQ_HEAD(event_streams, event_stream);

/* Makes the handle a stream, and has nothing watched for it. */
void event_stream_make(struct mount *m, struct handle *h);
/* Makes the handle, which is new, a stream. */
void event_stream_open(struct mount *m, struct handle *h);
/* The handle is closed: its reads are answered. */
void event_stream_close(struct mount *m, struct handle *h);
/* Frees the stream of the handle, if it is one. */
void event_stream_free(struct mount *m, struct handle *h);
/* Answers a read, now or with the next event. */
void event_stream_read(struct mount *m, struct call *c);

/* The file .cell/changes. */

struct change_readers {
	struct call_list readers; /* at the end, which wait */
	mono_t ask_at;            /* whether there is more; 0: nobody has come to the end */
};

/* READ: the call refers to its handle. Answers it, now or with the next change. */
void change_file_read(struct mount *m, struct call *c);
/* There may be more changes for those who have come to the end, and wait or poll. */
void change_file_ask(struct mount *m);

/* The file .cell/txn. The call refers to its handle. */

/* WRITE: adds to the transaction. */
void transaction_write(struct mount *m, struct call *c);
/* FSYNC, FLUSH, or READ before the answer: commits it, and answers the call. */
void transaction_commit(struct mount *m, struct call *c);
/* The part of mount_wants for a FLUSH. */
unsigned transaction_wants(const struct handle *h);

/* Recognizes the kernel's second walk of a path that led to a dead node. */

/* The errno for a call whose path led to a dead node: ESTALE, or ENOENT in the kernel's second
 * walk. */
int stale_path(struct mount *m, const struct call *c);
/* The events by which a second walk is recognized: a call arrives. */
void stale_called(struct mount *m, const struct mount_event *e);
/* A name leads to the inode. */
void stale_found(struct mount *m, const struct call *c, struct inode *i);
/* A lookup has found no such name. */
void stale_absent(struct mount *m, const struct call *c);
/* Any other call is answered. */
void stale_answered(struct mount *m, const struct call *c, int error);

struct stale_walk {
	pid_t thread;   /* 0: it is over */
	uint64_t call;  /* that came to a dead node, */
	uint64_t dead;  /* to this one, */
	uint64_t began; /* the count of names found until then */
	/* The name that was looked up last and was absent, as a checksum; the directory 0: none. */
	uint64_t absent_in, absent;
	bool twice; /* it was looked up twice */
	bool lacks; /* the last call asked for an attribute that the node has not */
	mono_t until;
};

struct stale_walks {
	struct stale_walk *walks;
	size_t n, room;
	uint64_t found; /* names that led to nodes, so far */
	mono_t until;   /* of the latest one: no walk is under way after it */
};

/* The calls and requests of a mount, counted, and the file .cell/metrics, which shows the numbers
 * with the state of the session and of the cache, in the text format of Prometheus. */

enum call_outcome { CALL_DONE, CALL_FAILED, CALL_INTERRUPTED, CALL_OUTCOMES };

enum {
	METRICS_OPS = OP_begin_epoch, /* the operations of sessions have lower codes */
	METRICS_RCS = RC_AGAIN + 1,
};

struct metrics {
	uint64_t calls[MOUNT_INTERRUPT][CALL_OUTCOMES];
	uint64_t answers[METRICS_OPS][METRICS_RCS];
};

/* A call of the kernel is answered, with a positive errno or 0. */
void metrics_replied(struct mount *m, enum mount_event_kind kind, int error);
/* A request to the cell is answered. */
void metrics_heard(struct mount *m, enum op_code op, enum rc rc);
/* Appends the text of .cell/metrics. */
void metrics_text(const struct mount *m, struct buffer *to);

/* The log names what was missing to a call that was refused for want of a right: the node's path,
 * the user, the right, and the ACL that does not give it. */

enum {
	REFUSAL_INTERVAL_S = 60,
	REFUSAL_LINES = 10, /* in each interval; the other refusals are counted */
};

struct refusals {
	mono_t until; /* the end of the interval */
	unsigned lines;
	uint64_t untold;
};

/* This is missing to the call: the next refusal is because of it. */
void refusal_note(struct call *c, const struct result_refused *missing);
/* The mount's own decision: EACCES, which is noted, unless the attributes, which are those of an
 * answer to the call, show all of the needed rights; else 0. */
int refusal_by(struct call *c, const struct attr *attr, unsigned needed);
/* A call of this kind is refused with EACCES: if a right is missing to it, the trace has a notice
 * of it. */
void refusal_log(struct mount *m, const struct call *c, enum mount_event_kind kind);

/* The space that is used, and the attributes of the root: the machine asks every mount for them.
 * `df`, and `ls -l` of the directory in which the cell is mounted, must not hang because a cell
 * does not answer. So these are answered as they were known last where no answer comes in a second,
 * and in jeopardy at once. */

struct summary {
	struct result_usage usage; /* as the cell has told it last; zeros before */
};

/* STATFS. */
void summary_statfs(struct mount *m, struct call *c);
/* Answers the call, if that is one of these and the cell does not answer; false: it is to be
 * asked. */
bool summary_instead(struct mount *m, struct call *c);
/* The call has asked: if it is one of these, the answer is awaited for a second. */
void summary_soon(struct mount *m, struct call *c);
/* Answers the call, if that is one of these, as it was known last; what was asked goes on in the
 * background. */
bool summary_answer(struct mount *m, struct call *c);

enum { FLAG_EXEC = 0x20 }; /* the kernel's __FMODE_EXEC: opened to be executed */

struct mount_session {
	uint64_t id; /* of the handles and locks; 0: none yet */
	bool over;
	uint64_t connections; /* that were opened, so far */
};

struct block {
	SLIST_ENTRY(block) entry;
	uint8_t data[];
};

struct mount {
	struct mount_config config;
	const struct client *client;
	struct mount_update *update; /* of the current step */
	mono_t now;
	SLIST_HEAD(, block) blocks; /* memory that the update points to, until the next step */

	struct mount_session session;
	struct calls calls;
	struct inode_numbers inodes;
	struct handles handles;
	struct versions versions;
	struct mount_locks locks;
	struct stale_walks stale;
	uint64_t stand_ins; /* dead nodes in the place of directories, so far */
	struct event_streams streams;
	mono_t watch_again; /* for event_watch_timeout; 0: for nothing */
	struct change_readers changes;
	struct kernel_cache kernel_cache;
	struct metrics metrics;
	struct refusals refusals;
	struct summary summary;
};

/* A copy of `b` that lives until the next step. */
struct bytes mount_keep(struct mount *m, struct bytes b);
/* The attributes of the inode are to be invalidated in the kernel, before the replies. */
void mount_stale_inode(struct mount *m, uint64_t ino);

/* A line of the trace: a verdict, with its numbers. */
#define MOUNT_TRACE(m, ...) TRACE((m)->config.trace, __VA_ARGS__)
/* The name of a call's kind, for people. */
const char *mount_call_name(enum mount_event_kind kind);

/* True if what was opened in this session is lost: the mount has another session now. */
bool mount_session_lost(const struct mount *m, uint64_t session);
/* The name of a session's state, as .cell shows it. */
const char *mount_session_state(enum client_state state);

/* The calls of the kernel that concern names, listings, attributes and .cell, a function each. */

/* LOOKUP. */
void name_lookup(struct mount *m, struct call *c);
/* MKDIR. */
void name_mkdir(struct mount *m, struct call *c);
/* MKNOD of a regular file. */
void name_mknod(struct mount *m, struct call *c);
/* NUMBER. */
void name_number(struct mount *m, struct call *c);
/* UNLINK and RMDIR. */
void name_delete(struct mount *m, struct call *c);
/* The node was deleted by a call of this mount: it lives on for the handles that are open here. */
void name_deleted(struct mount *m, struct inode *i);
/* Asks for a node of the call's name, ephemeral if its mode has S_ISVTX, and goes on with `then`;
 * a name that nobody may use there is refused. `exclusive`: an existing node is no answer. */
void name_create(struct mount *m, struct call *c, enum node_kind kind, bool exclusive,
                 call_then *then);
/* RENAME. */
void rename_call(struct mount *m, struct call *c);
/* OPENDIR. */
void listing_open(struct mount *m, struct call *c);
/* READDIR, from the listing that is read at the offset 0. */
void listing_read(struct mount *m, struct call *c);
/* SETATTR. */
void setattr_call(struct mount *m, struct call *c);
/* Answers with the attributes that the mount has, changed by the uncommitted writes of the calling
 * process. */
void setattr_answer(struct mount *m, struct call *c);
/* True if the attribute is one of an acquisition: its sequencer, fence or slot. */
bool xattr_is_of_holder(struct bytes name);
/* True for the attribute that is the text of .cell/status. */
bool xattr_is_status(struct bytes name);
/* GETXATTR. */
void xattr_get(struct mount *m, struct call *c);
/* SETXATTR. */
void xattr_set(struct mount *m, struct call *c);
/* LISTXATTR. */
void xattr_list(struct mount *m, struct call *c);
/* REMOVEXATTR. */
void xattr_remove(struct mount *m, struct call *c);
/* A call on a file or directory of .cell. */
void virtual_call(struct mount *m, struct call *c);
/* The virtual file of this name in .cell; 0 if there is none. */
uint64_t virtual_named(struct bytes name);
/* The file of .cell that every directory also has, as .cell:NAME: where only a part of the cell is
 * mounted, as in containers, .cell itself is not visible. 0: it is no such name. */
uint64_t virtual_beside(struct bytes name);
/* Prints the text of .cell/status, which needs no cell. */
void virtual_status_text(const struct mount *m, struct buffer *to);
/* The attributes of a directory or file of .cell. */
struct mount_stat virtual_stat(struct mount *m, uint64_t ino);
/* Records that the session is an opener by this number, of the node or of one that was renamed to
 * it. */
void ephemeral_opened(struct mount *m, struct inode *i, uint64_t number);
/* A handle that keeps the node open; NULL: there is none. */
struct handle *ephemeral_holder(const struct inode *i);
/* Ends this session's open of the node if its last handle here is closed. */
void ephemeral_closed(struct mount *m, struct inode *i);
/* The session has made an ephemeral file, which only the open directory keeps so far. */
void ephemeral_made(struct mount *m, struct handle *directory, struct inode *i);
/* Moves the session's open of the renamed file `from` to `to`, which has its handles now. */
void ephemeral_moved(struct mount *m, struct inode *from, struct inode *to);
/* Makes this session an opener of the call's node if it is ephemeral, then runs c->next, with a
 * positive errno or 0 in c->error. */
void ephemeral_open(struct mount *m, struct call *c, call_next *next);

/* The snapshot of a handle: the contents of its file at one moment. */

/* READ. */
void snapshot_read(struct mount *m, struct call *c);
/* Fetches the snapshot, then runs c->next, with a positive errno or 0 in c->error. The call must
 * have entered the handle. */
void snapshot_fetch(struct mount *m, struct call *c, call_next *next);
/* Requests the contents of the node; they are not sent if c->version, the latest in memory, is
 * current. */
void snapshot_ask(struct mount *m, struct call *c, const struct inode *i, call_then *then);
/* Takes over the answer to snapshot_ask, which must not be an error: attributes, and the contents
 * as c->version. 0, or EIO if the answer is invalid. */
int snapshot_learn(struct mount *m, struct call *c, const struct client_answer *a);
/* The handle has none from now on. */
void snapshot_drop(struct mount *m, struct handle *h);
/* Makes `v` the handle's snapshot; takes over the reference to it. */
void snapshot_set(struct mount *m, struct handle *h, struct version *v);
/* As snapshot_set, for the version at the open: it is renewed by the first read or write that needs
 * the contents. */
void snapshot_opened(struct mount *m, struct handle *h, struct version *v);
/* The handle is closed, and was mapped: one of those that stay open keeps the version, if the
 * kernel may have pages of it. */
void snapshot_pages_stay(const struct handle *h);
/* An open of the inode, by this number, has the kernel drop its pages. Those of mappings are read
 * again when they are needed. */
void snapshot_pages_go(struct mount *m, struct inode *i, uint64_t ino);
/* The size that stat shows to the process that writes through the handle. */
size_t snapshot_size(const struct handle *h);

/* The buffer of a handle: its uncommitted writes. */

/* WRITE: into the buffer, or refused. */
void buffer_write(struct mount *m, struct call *c);
/* SETATTR of the size with a handle. */
void buffer_truncate(struct mount *m, struct call *c);
/* Discards uncommitted writes. */
void buffer_drop(struct mount *m, struct handle *h);
/* Notes the writer of the event. */
void buffer_note_writer(struct handle *h, const struct mount_event *e);
/* True if this owner, or this process, has written into the buffer. */
bool buffer_written_by(const struct handle *h, uint64_t lock_owner, pid_t pid);
/* True if another one has, too. */
bool buffer_written_by_others(const struct handle *h, uint64_t lock_owner, pid_t pid);
/* The process of the event is no writer any more. */
void buffer_forget_writer(struct handle *h, const struct mount_event *e);
/* True if a writer was killed, and no other one has written: the buffer may be half of something,
 * and is committed with what others write, or not at all. */
bool buffer_is_orphaned(const struct handle *h);
/* Discards what a killed writer has left. */
void buffer_abandon(struct mount *m, struct handle *h);
/* True if this owner, or this process, is owed the error, because it has written what was lost, or
 * because any caller is. */
bool buffer_lost_by(const struct handle *h, uint64_t lock_owner, pid_t pid);
/* The process of the event has been told. */
void buffer_forget_creditor(struct handle *h, const struct mount_event *e);
/* The process that the event's thread belongs to, if that thread was the last to write for the
 * process, or has opened the file; 0 if that is unknown. */
pid_t buffer_knows_process(const struct handle *h, const struct mount_event *e);
/* A handle with uncommitted writes on the node: the one numbered `fh`, or one that process `pid`
 * has written or truncated through; NULL if there is none. */
struct handle *buffer_of_process(const struct inode *i, uint64_t fh, pid_t pid);

/* Discards the buffer, which was to be committed: the handle is as it was after the open. A write
 * that would leave a hole in the place of what is lost is refused with this error. */
void buffer_lose(struct mount *m, struct handle *h, int error);

/* When and how a buffer is committed. */

/* Commits the buffer, if it holds anything, and goes on with `next`; c->error is the result, a
 * positive errno or 0. The call must have entered the handle. */
void commit(struct mount *m, struct call *c, call_next *next);
/* The same; but if there is nothing to commit, c->error is the error that the handle owes: one that
 * no call has returned, or, with `again`, also one that a close has returned. */
void commit_or_owed(struct mount *m, struct call *c, bool again, call_next *next);
/* Commits in the background: the request is sent now, unless a commit of the handle is under way.
 * An error is owed. */
void commit_behind(struct mount *m, struct handle *h);
/* The writers of the buffer are owed this error, by which it is lost. `heard`: a close returns the
 * error; it is to be repeated, since shells ignore an error of close. */
void commit_owe(struct handle *h, int error, bool heard);
/* An error that nobody has heard, if the process of the event is owed one; 0 if not. It is returned
 * once. */
int commit_unheard(struct handle *h, const struct mount_event *e);
/* A caller has read the contents from the beginning: what a close has returned is not repeated, and
 * what it writes is based on them. */
void commit_read_again(struct handle *h);
/* FLUSH: a close by one of those that have the handle open. */
void commit_flush(struct mount *m, struct call *c);
/* The part of mount_wants for a call that may commit, or tell what is owed. */
unsigned commit_wants(struct handle *h, const struct mount_event *e);
/* FSYNC: commits, and returns what is owed. */
void commit_fsync(struct mount *m, struct call *c);

/* Events of nodes and of the session. The mount watches each open node while a process
 * reads .cell/events, and each node whose handle was polled. An event is pending on every handle of
 * its node (POLLPRI), until that reads the contents again or is used for a lock. */

/* The set of the node's handles has changed: begins, ends or changes its watch, if that is due. */
void event_watch_follow(struct mount *m, struct inode *i);
/* The session has ended, and all watches with it. */
void event_watch_forget_all(struct mount *m);
/* Handles an event of the session or of a node. */
void event_watch_told(struct mount *m, const struct mount_event *e);
/* Has the pollers of nodes that could not be watched look again. */
void event_watch_timeout(struct mount *m);
/* Every handle of the node has an event pending. */
void event_watch_pend(struct mount *m, struct inode *i);
/* The handle's caller has seen, or is about to see, the present state of the node. */
void event_watch_seen(struct handle *h);
/* The handle may have something for the callers of poll(2): the kernel asks again. */
void event_watch_wake(struct mount *m, struct handle *h);
/* Answers poll(2). */
void event_watch_poll(struct mount *m, struct call *c);
/* Has all watched that is below the directory of the handle. */
void event_watch_tree(struct mount *m, struct call *c);

/* Locks for people: the texts of the attributes user.ls.lock* and of .cell/locks. */

/* "free", "exclusive", "shared N" or "delayed SECONDS". */
void lock_text_state(struct buffer *to, enum lock_state state, uint32_t holders, int64_t delay_s);
/* "SESSION PRINCIPAL HOST PID MODE SECONDS", without an end of the line. The pid is "-" if it is
 * unknown; the seconds are those since `since_ns` at the time `now_ns`. */
void lock_text_holder(struct buffer *to, const struct lock_holder *h, int64_t now_ns);
/* The same of a waiter. */
void lock_text_waiter(struct buffer *to, const struct lock_waiter *w, int64_t now_ns);

#endif
