/* What the files of the mount share. Each idea has its file:
 *
 *   mount         life, and which file handles which call
 *   call          a parked call: one answer, and what goes on when the cell has spoken
 *   inode         the nodes that the kernel or a handle refers to
 *   namespace     names: lookup, mkdir, unlink, rmdir          rename     the atomic replacement
 *   handle        open files: opening, taking turns, closing   version    contents in memory
 *   contents      snapshots, mappings, reading
 *   buffer        what was written and not yet committed       commit     when and how it is
 *   lock          one owner's lock on one node                 flock, record_lock, attribute_lock
 *   ephemeral     whether this session has a node open         listing    open directories
 *   setattr, xattr, virtual, session, stale                    as their names say
 *
 * A call that needs the cell asks and returns; `then` goes on with the answer. A call that needs a
 * handle for itself enters it and leaves it; `next` goes on when it is its turn. Nothing blocks. */
#ifndef LSFS_FS_MOUNT_INTERNAL_H
#define LSFS_FS_MOUNT_INTERNAL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include <errno.h>
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "fs/mount/mount.h"

struct call;
struct handle;
struct inode;
struct mount_lock;
struct version;

typedef void call_then(struct mount *m, struct call *c, const struct client_answer *a);
typedef void call_next(struct mount *m, struct call *c);

TAILQ_HEAD(call_list, call);
TAILQ_HEAD(handle_list, handle);
TAILQ_HEAD(lock_list, mount_lock);

/* ---- call ---- */

/* One call of the kernel, or (number 0) work that nobody waits for. It is alive until it has been
 * answered and has nothing left to do; an interrupted call is answered early. */
struct call {
	RB_ENTRY(call) by_number, by_token, by_patience;
	TAILQ_ENTRY(call) of_mount, waiting;
	struct call_list *queue;  /* in which it waits for its turn, NULL if it does not */
	struct mount_event event; /* name, new_name and data are its own copies */
	uint64_t session;         /* in which the outstanding request is made; 0: the next one */
	uint64_t token;           /* of the outstanding request, 0: none */
	enum op_code op;
	uint64_t node;            /* which the request is about */
	struct call *parent;      /* on whose behalf this one holds a handle */
	struct call_list held;    /* such helpers, while they hold theirs */
	bool waits;               /* for such a helper */
	call_then *then;
	call_next *next;
	bool answered, ordered;
	bool interrupted;         /* a signal came: EINTR at the end of patience */
	mono_t patient_until;
	struct inode *inode;      /* referred to */
	struct handle *handle;    /* referred to */
	struct mount_lock *lock;  /* referred to */
	struct version *version;  /* counted; of `node`: what is known of it, or was told */
	int error;                /* of a step on the way that does not end the call */
	uint64_t acquisition;
	enum lock_mode mode;
	unsigned tries;
	uint64_t target;          /* whom the name means, 0: not looked for */
	struct attr attr;         /* learned on the way, without its texts */
	struct bytes text;        /* gathered on the way; its own */
};

RB_HEAD(call_numbers, call);
RB_HEAD(call_tokens, call);
RB_HEAD(call_patience, call);

struct call *call_new(struct mount *m, const struct mount_event *event);
/* Work behind the back of everybody: already answered, and kept in order before later requests. */
struct call *call_behind(struct mount *m, struct inode *inode, struct handle *handle);
void call_free(struct mount *m, struct call *c);
/* Sends `op`; `then` runs with the answer, whose kind of result has been checked. */
void call_ask(struct mount *m, struct call *c, const struct op *op, call_then *then);
void call_heard(struct mount *m, const struct client_answer *answer);
/* A signal came. */
void call_interrupt(struct mount *m, uint64_t number, enum mount_fate fate);
/* Would the call go on waiting after a signal that does not end its process? */
bool call_is_patient(struct mount *m, uint64_t number);
/* Answers EINTR; what is under way is tidied up behind it. */
void call_give_up(struct mount *m, struct call *c);
/* The end of patience: of the time, or with the cell. */
void call_timeout(struct mount *m);
/* The errno for what the cell answered, 0 for RC_OK. A node that it does not know is dead. */
int call_errno(struct mount *m, struct call *c, const struct client_answer *a);
/* As call_errno for a call that names its node by a path: an ESTALE the kernel has retried already
 * becomes ENOENT. */
int call_path_errno(struct mount *m, struct call *c, const struct client_answer *a);
/* Takes over what an answer tells of the node that was asked about: 0, or EIO if it tells of
 * another one or makes no sense. */
int call_learn(struct mount *m, struct call *c, const struct attr *attr, uint64_t index);
void call_refer(struct call *c, struct inode *inode);

/* These answer the call (if nobody did before) and end it. */
void call_status(struct mount *m, struct call *c, int error);
void call_entry(struct mount *m, struct call *c, struct inode *inode);
void call_attr(struct mount *m, struct call *c, const struct mount_stat *stat);
void call_opened(struct mount *m, struct call *c, uint64_t fh);
void call_created(struct mount *m, struct call *c, struct inode *inode, uint64_t fh);
void call_data(struct mount *m, struct call *c, struct bytes data);
void call_count(struct mount *m, struct call *c, size_t count);
/* The others fill in the reply, or NULL if it was answered already, and end the call after. */
struct mount_reply *call_reply(struct mount *m, struct call *c, enum mount_reply_kind kind);
void call_end(struct mount *m, struct call *c);

/* ---- inode ---- */

/* What a node was when the cell last told. */
struct inode {
	RB_ENTRY(inode) by_number;
	uint64_t ino;
	uint64_t nlookup;    /* references of the kernel */
	unsigned refs;       /* of calls, handles, locks, and inodes that were renamed to it */
	struct attr attr;    /* its texts are empty */
	uint64_t index;      /* of the log, from which attr is */
	bool dead;           /* the node was deleted */
	bool gone_here;      /* by a call of this mount: no name leads here any more */
	uint64_t moved_to;   /* a renamed file's handles are this node's now; 0: not renamed */
	pid_t maker;         /* the local process that made the node; 0: somebody else */
	bool opener;         /* the cell has this session recorded as having opened it */
	struct version *newest; /* the last one that came into memory, while it is there */
	struct version *last;   /* of a file deleted here, which lives on in memory; counted */
	struct handle_list handles;
	struct lock_list locks;
};

RB_HEAD(inode_numbers, inode);

struct inode *inode_find(struct mount *m, uint64_t ino);
struct inode *inode_get(struct mount *m, uint64_t ino); /* made if need be, without a reference */
void inode_put(struct mount *m, struct inode *i);       /* gives one of `refs` back */
void inode_prune(struct mount *m, struct inode *i);     /* frees it if nobody refers to it */
void inode_forget(struct mount *m, uint64_t ino, uint64_t count);
/* Takes the attributes over, if they are newer; NULL if they make no sense. */
struct inode *inode_learn(struct mount *m, const struct attr *attr, uint64_t index);
void inode_die(struct mount *m, struct inode *i, bool here);
/* Does the deleted file live on in memory, for the handles that are open here? */
bool inode_lives_on(const struct inode *i);
/* Where calls on `ino` go: the target, for a file that was renamed while it was open here. */
uint64_t inode_where(struct mount *m, uint64_t ino);
struct mount_stat inode_stat(struct mount *m, const struct inode *i);
bool attr_sound(const struct attr *attr);
void inode_getattr(struct mount *m, struct call *c);
void inode_access(struct mount *m, struct call *c);

/* ---- handle ---- */

enum handle_kind { HANDLE_FILE, HANDLE_DIRECTORY, HANDLE_VIRTUAL };
enum edit { EDIT_NONE, EDIT_APPEND, EDIT_WHOLE };

/* Who wrote into a buffer: a process by its table of open files; by its pid where only that is
 * known. */
struct writer {
	uint64_t lock_owner; /* 0: unknown */
	pid_t pid;
	pid_t thread;        /* of it, the last one that wrote */
};

struct handle {
	RB_ENTRY(handle) by_number;
	TAILQ_ENTRY(handle) of_mount, of_inode, ready_entry;
	enum handle_kind kind;
	uint64_t fh;
	struct inode *inode; /* NULL: virtual */
	unsigned refs;       /* of calls */
	bool released;
	bool dead;           /* ESTALE for everything, for ever */
	bool ready;
	int flags;
	pid_t opener;        /* 0 unless its open may create or truncate */
	bool opener_gone;
	bool committing;     /* what the buffer holds has been sent */
	struct call *active; /* whose turn it is */
	struct call_list queue;

	/* The snapshot. */
	struct version *base;   /* counted; NULL: none yet */
	uint64_t generation;    /* that a write builds on; 0: none */
	bool renew;             /* at the next call that looks at the contents */
	bool at_end;            /* the last read was at or past the end */
	struct version *mapped; /* counted; what the kernel's pages of `mapped_ino` are of */
	uint64_t mapped_ino;

	/* The buffer: what was written and is not committed. */
	enum edit edit;
	struct buffer edited;   /* EDIT_APPEND: the bytes appended; EDIT_WHOLE: the contents;
	                         * of a virtual file: its text */
	int refused;            /* why the buffer lacks a write: it is not to be committed */
	bool truncation;        /* the edit is nothing but the truncation of an open */
	int descriptors_before; /* of this file in the process that truncated, before it did */
	bool unconditional;  /* the next commit is the first one after O_TRUNC */
	bool tainted;        /* a writer was killed before its close */
	bool dated;          /* its writer has set the mtime that the commit is to have */
	int64_t mtime_ns;
	struct writer *writers;
	size_t writers_n, writers_room;
	int owed;            /* an error that the next fsync, unlock or close tells once more */

	/* An open directory. */
	struct bytes listing;      /* packed; `children` are views into it */
	struct mount_child *children;
	size_t children_n;
	struct buffer pages;       /* of the listing that is being fetched */
	size_t pages_n;            /* names in them */
};

RB_HEAD(handle_numbers, handle);

struct handle *handle_new(struct mount *m, struct inode *inode, const struct call *c);
struct handle *handle_find(struct mount *m, uint64_t fh);
/* Gives the call its handle and inode by event.fh; false: the call was answered. */
bool handle_of_call(struct mount *m, struct call *c);
void handle_refer(struct call *c, struct handle *h);
void handle_put(struct mount *m, struct handle *h);
/* Runs next(m, c) when the handle is the call's alone. call_end leaves. */
void handle_enter(struct mount *m, struct call *c, call_next *next);
void handle_leave(struct mount *m, struct call *c);
/* Leaves it and refers to it no more: the call goes on with another one. */
void handle_give_up(struct mount *m, struct call *c);
/* The first open file of the node with a greater fh than `after`; NULL if there is none. */
struct handle *handle_after(struct inode *i, uint64_t after);
void handle_run_ready(struct mount *m);
/* The kernel's last reference is gone. */
void handle_close(struct mount *m, struct handle *h);
/* All of it is void: the session or, under a lock, the node has gone. */
void handle_die(struct mount *m, struct handle *h);
bool handle_appends(const struct handle *h);
bool handle_writable(const struct handle *h);
bool handle_readable(const struct handle *h);
void handle_open(struct mount *m, struct call *c);
void handle_create(struct mount *m, struct call *c);
void handle_release(struct mount *m, struct call *c);
void handle_discard(struct mount *m, struct handle *h); /* its memory alone */

/* ---- version, contents, buffer, commit ---- */

struct version {
	unsigned refs;
	uint64_t node;
	uint64_t generation;
	struct bytes data; /* its own */
};

/* The version of this node and generation, counted: one in memory, or one with a copy of `data`. */
struct version *version_get(struct mount *m, uint64_t node, uint64_t generation,
                            struct bytes data);
/* The same, but takes the buffer's bytes over. */
struct version *version_take(struct mount *m, uint64_t node, uint64_t generation,
                             struct buffer *data);
struct version *version_ref(struct version *v);         /* NULL stays NULL */
void version_put(struct mount *m, struct version *v);   /* may be NULL */
/* Puts `v`, which is counted for it, in place of what is there. */
void version_set(struct mount *m, struct version **at, struct version *v);
/* Answers a READ from it, without a copy. */
void version_answer(struct mount *m, struct call *c, struct version *v);
void version_views_end(struct mount *m); /* the last step's replies are written */
struct bytes bytes_slice(struct bytes b, int64_t offset, size_t size);

void snapshot_read(struct mount *m, struct call *c);
/* Fetches the snapshot anew; c->error tells, then c->next runs. The handle was entered. */
void snapshot_fetch(struct mount *m, struct call *c, call_next *next);
/* Asks for the contents, unless the version in memory is still that of the cell. */
void snapshot_ask(struct mount *m, struct call *c, const struct inode *i, call_then *then);
/* Takes over what the answer, which is no error, tells of the node: the contents are c->version
 * now. 0, or EIO if it makes no sense. */
int snapshot_learn(struct mount *m, struct call *c, const struct client_answer *a);
void snapshot_drop(struct mount *m, struct handle *h);
/* The node's version with its generation is the handle's snapshot now; `v` is counted for it. */
void snapshot_set(struct mount *m, struct handle *h, struct version *v);
/* It is what there was at the open: to be renewed by whatever looks at the contents first. */
void snapshot_opened(struct mount *m, struct handle *h, struct version *v);
/* As stat shows it to the process that writes through the handle. */
size_t snapshot_size(const struct handle *h);

void buffer_write(struct mount *m, struct call *c);
void buffer_truncate(struct mount *m, struct call *c); /* SETATTR with a handle */
void buffer_drop(struct mount *m, struct handle *h);
bool buffer_written_by(const struct handle *h, uint64_t lock_owner, pid_t pid);
bool buffer_written_by_others(const struct handle *h, uint64_t lock_owner, pid_t pid);
void buffer_add_writer(struct handle *h, const struct mount_event *e);
/* Whose thread the writer of this event is, if it was the last to write for its process. */
pid_t buffer_knows_process(const struct handle *h, const struct mount_event *e);
/* The handle of this process with uncommitted writes on the node, NULL if none. */
struct handle *buffer_of_process(const struct inode *i, uint64_t fh, pid_t pid);

/* The killed writer's part is void: what is left is what the handle began with. */
void buffer_revert(struct mount *m, struct handle *h);

/* Commits what the buffer holds, if anything, and goes on with `next`; c->error tells. Entered. */
void commit(struct mount *m, struct call *c, call_next *next);
/* The same, with nobody waiting: it is sent now unless the handle is busy with a commit. */
void commit_behind(struct mount *m, struct handle *h);
/* What is told once more by fsync, unlock and close. */
int commit_owed(struct handle *h);
void commit_flush(struct mount *m, struct call *c);
unsigned commit_wants(struct handle *h, const struct mount_event *e); /* FLUSH: mount_wants */
void commit_fsync(struct mount *m, struct call *c);

/* ---- locks ---- */

enum lock_kind { LOCK_FLOCK, LOCK_RECORD, LOCK_ATTRIBUTE };
enum lock_ask { ASK_NONE, ASK_SENT, ASK_QUEUED, ASK_GIVING_BACK };

/* One owner's lock on one node: what it holds and what it has asked for. */
struct mount_lock {
	TAILQ_ENTRY(mount_lock) of_inode, kept;
	struct inode *inode;
	enum lock_kind kind;
	uint64_t key;            /* flock: fh; record: lock_owner; attribute: uid */
	uint64_t owner;          /* its name at the cell, never used again */
	unsigned refs;           /* of calls */
	enum lock_mode mode;     /* held */
	uint64_t acquisition;    /* by which it is held */
	enum lock_ask ask;
	enum lock_mode asked;
	uint64_t asked_acquisition, asked_fh;
	bool wait;
	struct call *caller;     /* who waits for the answer; NULL: it was interrupted */
	bool granted;            /* while nobody waits for it any more */
	bool is_kept;
	mono_t kept_until;       /* the place in the queue, for a caller that comes again */
	unsigned releasing;
	struct call_list queue;  /* further calls of the same owner */
	uint64_t *handles;       /* record: the handles through which it was taken */
	size_t handles_n, handles_room;
};

struct mount_lock *lock_find(struct inode *i, enum lock_kind kind, uint64_t key);
struct mount_lock *lock_get(struct mount *m, struct inode *i, enum lock_kind kind, uint64_t key);
void lock_refer(struct call *c, struct mount_lock *l);
void lock_put(struct mount *m, struct mount_lock *l);
bool lock_active(const struct mount_lock *l); /* held or asked for */
/* Asks for c->mode (c->event.wait) on behalf of the call, and answers it. */
void lock_acquire(struct mount *m, struct call *c);
/* Frees what is held, and answers the call with c->error if that went well. */
void lock_unlock(struct mount *m, struct call *c);
/* Takes back what is asked for; who waits for it is told EBADF. */
void lock_withdraw(struct mount *m, struct mount_lock *l);
/* Frees and gives back all of it, with nobody waiting. */
void lock_drop(struct mount *m, struct mount_lock *l);
/* The cell has taken it away, with the node or the session: waiting calls get ESTALE. */
void lock_die(struct mount *m, struct mount_lock *l);
void lock_interrupted(struct mount *m, struct mount_lock *l);
void lock_grant(struct mount *m, const struct client_grant *g);
/* Gives back the place that is kept for a caller who did not come again. */
void lock_stop_waiting(struct mount *m, struct mount_lock *l);
void lock_timeout(struct mount *m);

void flock_call(struct mount *m, struct call *c);
void flock_flushed(struct mount *m, struct handle *h);
void flock_released(struct mount *m, struct handle *h);
void record_lock_call(struct mount *m, struct call *c);
void record_lock_get(struct mount *m, struct call *c);
bool record_lock_through(const struct handle *h);
struct mount_lock *record_lock_of(struct handle *h, uint64_t lock_owner);
/* Commits what its handles hold, then frees it; the call is answered. */
void record_lock_free(struct mount *m, struct call *c, struct mount_lock *l);
void record_lock_released(struct mount *m, struct handle *h);
void record_lock_gained(struct mount_lock *l, struct handle *h);
void attribute_lock_set(struct mount *m, struct call *c, enum lock_mode mode);

/* ---- the rest ---- */

void name_lookup(struct mount *m, struct call *c);
void name_mkdir(struct mount *m, struct call *c);
void name_mknod(struct mount *m, struct call *c);
void name_delete(struct mount *m, struct call *c);
int name_error(uint64_t parent, struct bytes name);
/* The number of the node that the call's name means into c->target, then c->next. It is 0, and the
 * cell is not asked, while no file at all is open here. */
void name_target(struct mount *m, struct call *c, call_next *next);
void rename_call(struct mount *m, struct call *c);
void listing_open(struct mount *m, struct call *c);
void listing_read(struct mount *m, struct call *c);
void setattr_call(struct mount *m, struct call *c);
/* With what is known now, and with what the process itself has written. */
void setattr_answer(struct mount *m, struct call *c);
void xattr_get(struct mount *m, struct call *c);
void xattr_set(struct mount *m, struct call *c);
void xattr_list(struct mount *m, struct call *c);
void xattr_remove(struct mount *m, struct call *c);
void statfs_call(struct mount *m, struct call *c);
bool is_virtual(uint64_t ino);
void virtual_call(struct mount *m, struct call *c);
struct mount_stat virtual_stat(struct mount *m, uint64_t ino);
/* The last handle of a node that the cell has us recorded for is closed. */
void ephemeral_closed(struct mount *m, struct inode *i);
/* Handles of the renamed file `from` are those of `to` now. */
void ephemeral_moved(struct mount *m, struct inode *from, struct inode *to);
/* Makes this session an opener of the call's node if it is ephemeral; c->error, then c->next. */
void ephemeral_open(struct mount *m, struct call *c, call_next *next);

/* Looks whether the session is still the one that our handles belong to. */
void mount_session_check(struct mount *m);
bool mount_session_lost(const struct mount *m, uint64_t session);

/* The call's path led to a dead node: ESTALE, or, in the kernel's second walk, ENOENT. */
int stale_path(struct mount *m, const struct call *c);
/* What a second walk is known by: each call as it comes; the outcome of a lookup, 0: no such name;
 * the success of any other call. */
void stale_called(struct mount *m, const struct mount_event *e);
void stale_found(struct mount *m, const struct call *c, uint64_t ino);
void stale_clear(struct mount *m, const struct call *c);

enum { STALE_WALKS = 64 };

struct stale_walk {
	pid_t thread;  /* 0: none */
	enum mount_event_kind kind;
	uint64_t found; /* the last name that was looked up leads there; 0: none yet */
	mono_t until;
};

struct block {
	SLIST_ENTRY(block) entry;
	uint8_t data[];
};

struct mount {
	struct mount_config config;
	const struct client *client;
	struct mount_update *update;
	mono_t now;
	uint64_t session;   /* that the handles and locks belong to; 0: none yet */
	bool session_over;
	uint64_t next_token, next_fh, next_owner, next_acquisition;
	size_t files;       /* open files: while there are none, no name is looked up for them */
	struct inode_numbers inodes;
	struct handle_numbers handles;
	struct call_numbers calls; /* not answered */
	struct call_tokens asked;
	struct call_patience interrupted;
	struct call_list every_call;
	struct handle_list every_handle, ready;
	struct lock_list kept;
	struct stale_walk walks[STALE_WALKS];
	size_t next_walk;
	SLIST_HEAD(, block) blocks; /* what the update points to, until the next step */
	struct version **viewed;    /* the same */
	size_t viewed_n, viewed_room;
	size_t versions;            /* in memory */
};

/* A copy that lives until the next step. */
struct bytes mount_keep(struct mount *m, struct bytes b);
void mount_stale_inode(struct mount *m, uint64_t ino);

RB_PROTOTYPE(call_numbers, call, by_number, )
RB_PROTOTYPE(call_tokens, call, by_token, )
RB_PROTOTYPE(call_patience, call, by_patience, )
RB_PROTOTYPE(inode_numbers, inode, by_number, )
RB_PROTOTYPE(handle_numbers, handle, by_number, )

#endif
