/* The parts that the files of the mount share: the mount's state, made of parts that one file each
 * writes, and the functions of files that have no state of their own.
 *
 *   mount         begin and end; the handler of each kind of call
 *   call inode handle version snapshot buffer commit mount_lock stale kernel_cache metrics
 *   refusal                                                    see their headers
 *   namespace     names: lookup, mkdir, unlink, rmdir          rename_call  the atomic replacement
 *   flock, record_lock, attribute_lock                         the three owners of a mount_lock
 *   ephemeral_open  whether this session has a node open       listing      open directories
 *   event_watch     watched nodes, poll       event_stream, event_text   .cell/events
 *   virtual         the directory .cell; virtual_check, virtual_locks: two of its files
 *   setattr, xattr, mount_session, mount_trace                 as their names say */
#ifndef LSFS_FS_MOUNT_INTERNAL_H
#define LSFS_FS_MOUNT_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <errno.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "fs/mount/buffer.h"
#include "fs/mount/call.h"
#include "fs/mount/commit.h"
#include "fs/mount/event_stream.h"
#include "fs/mount/event_watch.h"
#include "fs/mount/handle.h"
#include "fs/mount/inode.h"
#include "fs/mount/kernel_cache.h"
#include "fs/mount/metrics.h"
#include "fs/mount/mount.h"
#include "fs/mount/mount_lock.h"
#include "fs/mount/refusal.h"
#include "fs/mount/snapshot.h"
#include "fs/mount/stale.h"
#include "fs/mount/version.h"

enum { FLAG_EXEC = 0x20 }; /* the kernel's __FMODE_EXEC: opened to be executed */

struct mount_session {
	uint64_t id; /* of the handles and locks; 0: none yet */
	bool over;
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
	struct event_streams streams;
	struct kernel_cache kernel_cache;
	struct metrics metrics;
	struct refusals refusals;
};

/* A copy of `b` that lives until the next step. */
struct bytes mount_keep(struct mount *m, struct bytes b);
/* The attributes of the inode are to be invalidated in the kernel, before the replies. */
void mount_stale_inode(struct mount *m, uint64_t ino);

/* A line of the trace: a verdict, with its numbers. */
#define MOUNT_TRACE(m, ...) TRACE((m)->config.trace, __VA_ARGS__)
#define MOUNT_TRACES(m) ((m)->config.trace && (m)->config.trace->on)
/* A line about a message, while MOUNT_TRACES: a call of the kernel. */
void mount_trace_call(struct mount *m, const struct mount_event *e);
/* A request to the cell, for a call. */
void mount_trace_ask(struct mount *m, const struct call *c, const struct op *op);
/* Its answer. */
void mount_trace_heard(struct mount *m, const struct call *c, const struct client_answer *a);
/* The answer to the call. */
void mount_trace_reply(struct mount *m, const struct mount_reply *r);
/* The name of a call's kind, for people. */
const char *mount_call_name(enum mount_event_kind kind);

/* Detects that the session to which the handles and locks belong has ended, and begins with the
 * next one. */
void mount_session_follow(struct mount *m);
/* True if what was opened in this session is lost: it is not that of the mount any more. */
bool mount_session_lost(const struct mount *m, uint64_t session);
/* The name of a session's state, as .cell shows it. */
const char *mount_session_state(enum client_state state);

/* LOOKUP. */
void name_lookup(struct mount *m, struct call *c);
/* MKDIR. */
void name_mkdir(struct mount *m, struct call *c);
/* MKNOD of a regular file. */
void name_mknod(struct mount *m, struct call *c);
/* UNLINK and RMDIR. */
void name_delete(struct mount *m, struct call *c);
/* The errno for a name that nobody may use in that directory; 0: it can be used. */
int name_error(uint64_t parent, struct bytes name);
/* Looks up the node that the call's name leads to: its number goes into c->target, then c->next
 * runs. While no file is open here the cell is not asked, and the number is 0. */
void name_target(struct mount *m, struct call *c, call_next *next);
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
/* GETXATTR. */
void xattr_get(struct mount *m, struct call *c);
/* SETXATTR. */
void xattr_set(struct mount *m, struct call *c);
/* LISTXATTR. */
void xattr_list(struct mount *m, struct call *c);
/* REMOVEXATTR. */
void xattr_remove(struct mount *m, struct call *c);
/* STATFS: the quotas of the cell. */
void statfs_call(struct mount *m, struct call *c);
/* A call on a file or directory of .cell. */
void virtual_call(struct mount *m, struct call *c);
/* The virtual file of this name in .cell; 0: there is none. */
uint64_t virtual_named(struct bytes name);
/* The attributes of one of these. */
struct mount_stat virtual_stat(struct mount *m, uint64_t ino);
/* Answers a read with its part of the handle's text, which begins at the offset `from`. */
void virtual_text(struct mount *m, struct call *c, int64_t from);
/* READ of .cell/locks. */
void virtual_locks_read(struct mount *m, struct call *c);
/* READ of .cell/check-sequencer: the verdict. */
void virtual_check_read(struct mount *m, struct call *c);
/* WRITE of it: a sequencer to be checked. */
void virtual_check_write(struct mount *m, struct call *c);
/* Records that the session is an opener by this number, of the node or of one that was renamed to
 * it. */
void ephemeral_opened(struct mount *m, struct inode *i, uint64_t number);
/* Ends this session's open of the node if its last handle here is closed. */
void ephemeral_closed(struct mount *m, struct inode *i);
/* Moves the session's open of the renamed file `from` to `to`, which has its handles now. */
void ephemeral_moved(struct mount *m, struct inode *from, struct inode *to);
/* True if a process has the file open, whatever became of its number. */
bool ephemeral_is_open(struct mount *m, uint64_t node);
/* The cell counts this session as an opener by this number. */
void ephemeral_registered(struct mount *m, uint64_t number);
/* Makes this session an opener of the call's node if it is ephemeral, then runs c->next, with a
 * positive errno or 0 in c->error. */
void ephemeral_open(struct mount *m, struct call *c, call_next *next);

#endif
