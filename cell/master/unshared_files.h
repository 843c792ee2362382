/* Unshared files: those of which only the session that has created them has been told, so that it
 * may make them ephemeral. */
#ifndef LSFS_MASTER_UNSHARED_FILES_H
#define LSFS_MASTER_UNSHARED_FILES_H

#include <bsd/sys/queue.h>
#include <bsd/sys/tree.h>
#include "cell/master/order.h"
#include "cell/tree/tree.h"

struct master;
struct m_request;
struct m_session;
struct unshared_file;

struct unshared_files {
	RB_HEAD(unshared_tree, unshared_file) by_node;
	TAILQ_HEAD(unshared_list, unshared_file) order; /* the same, the oldest first */
	size_t n;
	bool in_flight;                 /* a make_ephemeral is proposed, and not applied: */
	uint64_t session, number, node; /* which one, and of which file */
	struct request_list reads;      /* of that file, which wait for it */
	struct request_list changes;    /* other requests make_ephemeral */
};

/* Initializes the unshared files of a new master. */
void m_unshared_init(struct master *m);
/* Forgets all files: the mastership is lost. */
void m_unshared_clear(struct master *m);
/* The session has created the file. */
void m_unshared_add(struct master *m, uint64_t node, uint64_t session);
/* The node is deleted. */
void m_unshared_deleted(struct master *m, uint64_t node);
/* The read is answered: its session is told of the nodes of its footprint. */
void m_unshared_read(struct master *m, const struct m_request *r);
/* The list in which the request has to wait for a make_ephemeral in flight; NULL: it need not. */
struct request_list *m_unshared_wait_list(struct master *m, const struct m_request *r);
/* A request that waited here and need not any more; NULL: there is none. */
struct m_request *m_unshared_next(struct master *m);
/* Begins a make_ephemeral: it is proposed, or refused. */
void m_unshared_begin(struct master *m, struct m_session *s, struct m_request *r);
/* A make_ephemeral was applied. */
void m_unshared_applied(struct master *m, const struct tree_answer *answer);

#endif
