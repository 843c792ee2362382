/* A parked call: one answer, and what goes on when the cell has spoken. A call that needs the cell
 * asks and returns; `then` goes on with the answer. A call that needs a handle for itself enters it
 * and leaves it; `next` goes on when it is its turn. */
#ifndef LSFS_FS_MOUNT_CALL_H
#define LSFS_FS_MOUNT_CALL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "fs/mount/mount.h"

struct call;
struct handle;
struct inode;
struct mount;
struct mount_lock;
struct version;

typedef void call_then(struct mount *m, struct call *c, const struct client_answer *a);
typedef void call_next(struct mount *m, struct call *c);

TAILQ_HEAD(call_list, call);

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

/* All that are alive, and the same by what they wait for. */
struct calls {
	uint64_t next_token;
	struct call_list all;
	struct call_numbers unanswered;
	struct call_tokens asked;
	struct call_patience interrupted;
};

RB_PROTOTYPE(call_numbers, call, by_number, )
RB_PROTOTYPE(call_tokens, call, by_token, )
RB_PROTOTYPE(call_patience, call, by_patience, )

/* Of a mount that begins. */
void calls_begin(struct calls *calls);

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

#endif
