/* Open files and directories: opening, entering and leaving, closing. Functions that take a call
 * answer it with a positive errno if they fail. */
#ifndef LSFS_FS_MOUNT_HANDLE_H
#define LSFS_FS_MOUNT_HANDLE_H

#include "fs/mount/inode.h"

enum handle_kind { HANDLE_FILE, HANDLE_DIRECTORY, HANDLE_VIRTUAL };
enum edit { EDIT_NONE, EDIT_APPEND, EDIT_WHOLE };

/* A writer of a buffer: a process, identified by its table of open files; by its pid where only
 * that is known. */
struct writer {
	uint64_t lock_owner; /* 0: unknown */
	pid_t pid;
	pid_t thread; /* the last of its threads that wrote */
};

/* True if these are one process. Those outside the daemon's pid namespace have no number here,
 * which is 0: none of them is taken for another. */
bool process_is(pid_t a, pid_t b);

struct event_stream;

struct handle {
	RB_ENTRY(handle) by_number;
	TAILQ_ENTRY(handle) of_mount, of_inode, ready_entry;
	enum handle_kind kind;
	uint64_t fh;
	struct inode *inode; /* NULL: of the virtual directory */
	unsigned refs;       /* of calls */
	bool released;       /* by the kernel */
	bool dead;           /* every call is answered ESTALE from now on */
	bool poisoned;       /* dead for that reason, of which a call for a guard is told */
	bool outlived;       /* its session has ended before it */
	bool ready;          /* in handles.ready */
	int flags;
	struct bytes user; /* that opened it, for whom all its requests act; owned */
	pid_t opener;      /* the process; 0 unless its open may create or truncate */
	pid_t opener_thread;
	bool opener_gone;
	bool committing;     /* the buffer was sent and is not yet answered */
	struct call *active; /* the call that has entered */
	struct call_list queue;

	/* The snapshot. */
	struct version *base;   /* counted; NULL: none yet */
	uint64_t generation;    /* the version that a write is based on; 0: none */
	uint64_t seen;          /* the version that it has opened, read or committed last */
	bool renew;             /* the next call that needs the contents fetches them */
	bool at_end;            /* the last read was at or past the end */
	struct version *mapped; /* counted; the version in the kernel's pages of `mapped_ino` */
	uint64_t mapped_ino;
	bool mapped_before; /* through another handle, which is closed: until the next open */
	bool pages_in;      /* the kernel may have pages of it: until the next open */

	/* The buffer: the uncommitted writes. */
	enum edit edit;
	struct buffer edited;    /* EDIT_APPEND: the bytes appended; EDIT_WHOLE: the contents;
	                          * of a virtual file: its text */
	struct buffer sequencer; /* written into .cell/check; the lines written into .cell/txn */
	int64_t answer_at;       /* the offset at which the answer to it begins; of .cell/changes:
	                          * at which a read goes on, */
	uint64_t since;          /* with the changes above this index, after those in `edited` */
	int refused;             /* the error of a write that it lacks: it must not be committed */
	bool truncation;         /* the edit is only the truncation of an open */
	int lost;                /* why the former buffer was not committed; 0 from an edit on */
	bool unconditional;      /* the next commit is the first after O_TRUNC, unguarded */
	bool tainted;            /* one of its writers was killed, and is none any more */
	bool dated;              /* its writer has set mtime_ns for the coming commit */
	int64_t mtime_ns;
	struct writer *writers;
	size_t writers_n, writers_room;
	struct guard guard;          /* of its sequencer; node 0: none */
	struct client_rights opened; /* the rights at the open, and their check digits */

	/* The error of a commit that a writer is still owed; 0: none. */
	int owed;
	bool heard;               /* a close has returned it already */
	bool others_told;         /* so has a call of others */
	struct writer *creditors; /* the writers of what was lost; none: it is anybody's */
	size_t creditors_n, creditors_room;

	/* Events. */
	bool polled;                 /* its node is watched */
	bool tree;                   /* and all that is below it */
	bool watch_refused;          /* to its user; others of the node are tried first */
	bool pending;                /* an event, since it has shown the node's state */
	bool wakes;                  /* the kernel waits to be told to poll it again */
	struct event_stream *stream; /* of .cell/events; else NULL */

	/* An open directory. */
	struct bytes listing; /* packed; `children` are views into it */
	struct mount_child *children;
	size_t children_n;
	struct buffer pages; /* of the listing that is being fetched */
	size_t pages_n;      /* names in them */
	struct inode *made;  /* the last ephemeral file that was numbered through it; NULL: none */
};

RB_HEAD(handle_numbers, handle);
KEYED_PROTOTYPE(handle_numbers, handle, by_number)

struct handles {
	uint64_t next_fh;
	struct handle_list all;
	struct handle_numbers by_number; /* the handles that the kernel has not released */
	struct handle_list ready;        /* idle ones, whose next waiting call can run */
	size_t files; /* open files; if there are none, a rename or unlink needs no lookup */
};

/* An open file or directory of the inode, for the user of the call, who has these rights on it. */
struct handle *handle_new(struct mount *m, struct inode *inode, const struct call *c,
                          struct client_rights opened);
/* One of this number, which no other has, with nothing else set: for the image. */
struct handle *handle_make(struct mount *m, struct inode *inode, uint64_t fh);
/* The handle of this number; NULL: the kernel has none. */
struct handle *handle_find(struct mount *m, uint64_t fh);
/* Makes the call refer to the handle of event.fh and to its inode; false: the call was answered
 * EBADF. */
bool handle_of_call(struct mount *m, struct call *c);
/* The call refers to the handle, which lives at least as long. */
void handle_refer(struct call *c, struct handle *h);
/* Drops a reference; frees a released handle without any. */
void handle_put(struct mount *m, struct handle *h);
/* Runs next(m, c) when the call has the handle for itself, which may be at once. handle_leave and
 * call_end leave the handle. */
void handle_enter(struct mount *m, struct call *c, call_next *next);
/* The handle is free for the next call. */
void handle_leave(struct mount *m, struct call *c);
/* The first open file of the node with a greater fh than `after`; NULL if there is none. */
struct handle *handle_after(struct inode *i, uint64_t after);
/* Runs the calls whose turn has come. */
void handle_run_ready(struct mount *m);
/* Makes the handle invalid for good and discards its buffer: the session has ended, the handle was
 * poisoned, or the file was renamed while the handle held or awaited a lock on it. */
void handle_die(struct mount *m, struct handle *h);
/* Opened for writing. */
bool handle_writable(const struct handle *h);
/* OPEN of a file. */
void handle_open(struct mount *m, struct call *c);
/* The rights on a file that was deleted here: no name leads to it any more, only the folder of a
 * process's descriptors, and to its user those that it has open. 0: it does not live on for him. */
unsigned handle_rights_deleted(const struct inode *i, struct bytes user);
/* CREATE of a file. */
void handle_create(struct mount *m, struct call *c);
/* Attaches a sequencer (Chubby's SetSequencer): the handle's calls work only while it is valid. */
void handle_guard(struct mount *m, struct call *c);
/* The handle is dead, and no call waits for a lock through it any more. */
void handle_poisoned(struct mount *m, struct handle *h);
/* POISON (Chubby's). */
void handle_poison(struct mount *m, struct call *c);
/* The open directory keeps an ephemeral file that was made through it, until it is closed itself or
 * keeps another one: so the caller has time to open the file. NULL: none. */
void handle_keep(struct mount *m, struct handle *h, struct inode *made);
/* RELEASE: the kernel no longer knows the handle; answered at once. */
void handle_release(struct mount *m, struct call *c);
/* Frees the memory of the handle, and nothing else of it. */
void handle_discard(struct mount *m, struct handle *h);

#endif
