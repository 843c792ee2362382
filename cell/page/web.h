/* HTTP, as far as a page needs it: GET on one listening socket, on a libuv loop, by libmicrohttpd.
 * Each connection is for one request and ends within WEB_PATIENCE_MS; of more than WEB_GUESTS the
 * oldest one is ended, but one whose request waits for its answer ends with that: the user leaves
 * at most WEB_WAITING of them unanswered. All memory is bounded by that: an answer is one block,
 * however many connections read it. */
#ifndef LSFS_PAGE_WEB_H
#define LSFS_PAGE_WEB_H

#include <uv.h>
#include "cell/base/bytes.h"

enum {
	WEB_GUESTS = 64,
	WEB_WAITING = 32,
	WEB_SPARE = 16, /* connections that are being ended */
	WEB_CONNECTIONS = WEB_GUESTS + WEB_WAITING + WEB_SPARE,
	WEB_PATIENCE_MS = 10000,
};

struct web;

/* What is answered; one of them may answer many requests. */
struct web_answer;

/* A request that is to be answered with web_reply, once; then it must not be touched again. */
struct web_request {
	struct web_request *next; /* for those that it waits among */
};

struct web_config {
	uv_loop_t *loop;
	int listener; /* taken over */
	/* A GET or HEAD of that path; may reply before it returns. */
	void (*request)(void *user, struct web_request *r, const char *path);
	void *user;
};

/* Opens an address, PORT (of 127.0.0.1) or HOST:PORT, for web_open: a socket, or -1 with one line
 * in `why`. *wrong: the address is none. */
int web_listen(const char *address, bool *wrong, char *why, size_t why_size);

/* Begins to answer; NULL when libmicrohttpd cannot. */
struct web *web_open(const struct web_config *config);
/* Ends all connections, closes the handles on the loop, frees `w`, then calls `closed`. All
 * requests must have been answered. */
void web_close(struct web *w, void (*closed)(void *user), void *user);

/* An answer with that status; `body` is a heap block that is taken over, `type` its media type. */
struct web_answer *web_answer_new(unsigned status, const char *type, struct bytes body);
/* Frees it, once no connection reads it any more. NULL: nothing. */
void web_answer_release(struct web_answer *a);
/* Answers the request. */
void web_reply(struct web_request *r, struct web_answer *answer);

#endif
