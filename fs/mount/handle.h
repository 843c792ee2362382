/* Open files and directories: opening, taking turns, closing. */
#ifndef LSFS_FS_MOUNT_HANDLE_H
#define LSFS_FS_MOUNT_HANDLE_H

#include "fs/mount/inode.h"

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
RB_PROTOTYPE(handle_numbers, handle, by_number, )

struct handles {
	uint64_t next_fh;
	struct handle_list all;
	struct handle_numbers by_number; /* those that the kernel has not released */
	struct handle_list ready;        /* it is a waiting call's turn */
	size_t files; /* open ones: while there are none, no name is looked up for them */
};

/* Of a mount that begins. */
void handles_begin(struct handles *handles);

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

#endif
