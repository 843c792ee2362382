/* A parked call. A call that needs the cell sends a request and returns; `then` runs when the
 * answer arrives. A call that needs a handle for itself enters the handle and leaves it later;
 * `next` runs when it is the call's turn. Errors are positive errno values, 0 is success. */
#ifndef LSFS_FS_MOUNT_CALL_H
#define LSFS_FS_MOUNT_CALL_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/base/keyed.h"
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

/* One call of the kernel, or background work of the mount (number 0) that no caller waits for. A
 * call is freed when it was answered and has nothing left to do; an interrupted call is answered
 * early. */
struct call {
	RB_ENTRY(call) by_number, by_token, by_patience;
	TAILQ_ENTRY(call) of_mount, waiting;
	struct call_list *queue;  /* in which it waits for its turn; NULL: it does not wait */
	struct mount_event event; /* name, new_name and data are its own copies */
	uint64_t session;         /* of the outstanding request; 0: the session that begins next */
	uint64_t token;           /* of the outstanding request, 0: none */
	enum op_code op;
	uint64_t node;         /* the node of the request */
	struct call *parent;   /* the rename for which this call holds a handle */
	struct call_list held; /* calls that hold handles for this one */
	bool waits;            /* a call that is to hold a handle for this one is in a queue */
	call_then *then;
	call_next *next;
	bool answered, ordered;
	bool unconditional; /* the background commit of a handle that was so */
	bool outlasts;      /* the outstanding request may be made in the next session */
	bool interrupted;   /* answered without the cell when patient_until is reached: EINTR */
	bool spared;        /* its caller was stopped or frozen in jeopardy */
	mono_t patient_until;
	struct inode *inode;     /* referred to */
	struct handle *handle;   /* referred to */
	struct mount_lock *lock; /* referred to */
	struct version *version; /* counted; of `node`: the one known when asking, or answered */
	int error;               /* of an intermediate step, after which the call goes on */
	uint64_t acquisition;
	enum lock_mode mode;
	uint64_t connections; /* that the client had made when the request was sent first */
	unsigned tries;
	uint64_t length;  /* that a handle's buffer is to have */
	uint64_t target;  /* the node that the name leads to; 0: not looked up */
	struct attr attr; /* from an earlier answer to this call, without its texts */
	uint64_t
	    rights_on; /* a node; 0: none. The rights on it of the call's user, as told last: */
	uint8_t rights;
	struct result_refused missing; /* to it, as was found last; node 0: nothing. Owned */
	struct bytes
	    text;      /* the part of the reply collected so far, or a path; owned by the call */
	size_t walked; /* the part of that path that was looked up */
};

RB_HEAD(call_numbers, call);
RB_HEAD(call_tokens, call);
RB_HEAD(call_patience, call);

/* All calls that are alive, and those of them that wait, sorted by what they wait for. */
struct calls {
	uint64_t next_token;
	struct call_list all;
	struct call_numbers unanswered;
	struct call_tokens asked;
	struct call_patience interrupted;
};

KEYED_PROTOTYPE(call_numbers, call, by_number)
KEYED_PROTOTYPE(call_tokens, call, by_token)
RB_PROTOTYPE(call_patience, call, by_patience, )

/* A call of the kernel, which has to be answered; the event is copied. */
struct call *call_new(struct mount *m, const struct mount_event *event);
/* Background work that no caller waits for: a call that counts as answered, and whose requests are
 * sent in order, before later ones. */
struct call *call_behind(struct mount *m, struct inode *inode, struct handle *handle);
/* The user that the call acts as: through an open file, the one that opened it. A view. */
struct bytes call_user(const struct call *c);
/* The background work is done for the user of the call `c`. */
void call_act_for(struct call *behind, const struct call *c);
/* Frees a call that has ended. */
void call_free(struct mount *m, struct call *c);
/* Sends `op`; its views are copied. `then` runs with the answer, whose kind of result has been
 * checked. */
void call_ask(struct mount *m, struct call *c, const struct op *op, call_then *then);
/* Runs `then` of the call that has asked; an answer for a call that is gone is dropped. */
void call_heard(struct mount *m, const struct client_answer *answer);
/* Handles an interrupt of the caller of call `number`; `fate` tells whether by a signal, and
 * whether that kills the process. */
void call_interrupt(struct mount *m, uint64_t number, enum mount_fate fate);
/* True if the fate of its caller decides whether the call goes on after an interrupt. */
bool call_wants_fate(struct mount *m, uint64_t number);
/* Answers EINTR; a request that is under way is finished in the background. */
void call_give_up(struct mount *m, struct call *c);
/* False while the session is not safe, or there is none. */
bool call_cell_answers(const struct mount *m);
/* The call waits for the answer of the cell for a second only. */
void call_be_patient(struct mount *m, struct call *c);
/* Gives up the calls whose time has passed; all of them while the cell does not answer. */
void call_timeout(struct mount *m);
/* The errno of a result code. Codes that are meant for the client library, and invalid ones, become
 * EIO. */
int call_plain_errno(enum rc rc);
/* The errno for the cell's answer, 0 for RC_OK. If the cell does not know the node of the request,
 * the inode is marked as dead. */
int call_errno(struct mount *m, struct call *c, const struct client_answer *a);
/* True if the request may have been sent again, on another connection: what the cell did for it,
 * and answers now, may be long ago. */
bool call_was_repeated(const struct mount *m, const struct call *c);
/* True when the request of the call's handle was for a node that is gone because it was renamed:
 * the handle, which was opened while the rename was under way, is one of another node, and the
 * request has to be made of that. c->error is that of the answer. */
bool call_handle_moved(const struct call *c);
/* As call_errno, for a call that names its node by a path: ESTALE becomes ENOENT if the kernel has
 * repeated the path walk already. */
int call_path_errno(struct mount *m, struct call *c, const struct client_answer *a);
/* Takes over the attributes in an answer, unless its errno `error` is that of a failure. Returns
 * `error`, or EIO if they belong to another node or are invalid. */
int call_learn(struct mount *m, struct call *c, const struct client_answer *a, int error);
/* The call refers to the inode, which lives at least as long. */
void call_refer(struct call *c, struct inode *inode);
/* The node's attributes with the rights of the call's user, who may be another one than the one for
 * whom they were read last. */
struct attr call_sees(const struct call *c, const struct inode *i);

/* These answer the call, unless it was answered before, and end it. */
void call_status(struct mount *m, struct call *c, int error);
/* With the inode, and a reference of the kernel to it. */
void call_entry(struct mount *m, struct call *c, struct inode *inode);
/* `timeout`: how long the kernel may keep the attributes. */
void call_attr(struct mount *m, struct call *c, const struct mount_stat *stat, span_t timeout);
/* With the number of an open file or directory. */
void call_opened(struct mount *m, struct call *c, uint64_t fh);
/* With both. */
void call_created(struct mount *m, struct call *c, struct inode *inode, uint64_t fh);
/* With bytes, a view that lives until the next step. */
void call_data(struct mount *m, struct call *c, struct bytes data);
/* With a number of bytes. */
void call_count(struct mount *m, struct call *c, size_t count);
/* For replies of other kinds: the caller fills in the reply that is returned (NULL if the call was
 * answered before), then calls call_end. */
struct mount_reply *call_reply(struct mount *m, struct call *c, enum mount_reply_kind kind);
/* Ends a call that was answered. */
void call_end(struct mount *m, struct call *c);

#endif
