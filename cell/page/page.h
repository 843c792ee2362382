/* The pages of a replica over HTTP, for all that can connect: `/metrics` for Prometheus, `/healthz`
 * for load balancers, and `/`, a page about the whole cell for people.
 *
 * Everything runs on the loop of the replica, except that a thread, which has no access to the
 * replica, asks the others and makes the page from their answers: at most once a second, for all
 * requests that wait. */
#ifndef LSFS_PAGE_PAGE_H
#define LSFS_PAGE_PAGE_H

#include <uv.h>
#include "cell/page/web.h"
#include "cell/server/server.h"

/* The files that it may have open at a time: its connections, two to each replica that it asks, and
 * those of its loops. */
enum { PAGE_FILES = WEB_CONNECTIONS + 2 * LIMIT_REPLICAS + 32 };

struct page;

/* Begins to answer on the listening socket, which is taken over: 503 while no replica is attached.
 * `directory`, the replica's, is copied. NULL: the HTTP server can't be started. */
struct page *page_open(uv_loop_t *loop, int listener, const char *directory);
/* The replica has been started. */
void page_attach(struct page *p, struct server *server);
/* The replica is about to be stopped, or none is attached. */
void page_detach(struct page *p);
/* Ends all connections and frees `p`, to which no replica is attached, once the loop has had some
 * turns. */
void page_close(struct page *p);

#endif
