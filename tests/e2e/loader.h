/* What programs that load a cell share: sessions of the client library that run by themselves, and
 * lines about what was done, one a second, until SIGTERM. */
#ifndef LSFS_TESTS_E2E_LOADER_H
#define LSFS_TESTS_E2E_LOADER_H

#include <uv.h>
#include "cell/client/client.h"
#include "cell/config/cell_file.h"
#include "fs/link.h"

/* One session. Its owner sets `answered`, called for each answer, `watched` (or NULL), called for
 * each event of a watched node, `go_on`, called after each event to submit more, and `user`, which
 * all get, and whether it caches; the rest is begun with loader_begin. */
struct loader {
	bool caching;
	void (*answered)(void *user, const struct client_answer *a);
	void (*watched)(void *user, const struct client_watched *w);
	void (*go_on)(void *user);
	void *user;
	uv_timer_t timer;
	struct link *link;
	struct client *client;
	struct client_update update;
};

/* Ends the program, which could not do this. */
_Noreturn void load_die(const char *what, const char *why);
/* Reads the files that a program names; ends it if it can't. */
void load_files(const char *cell_path, const char *key_path, struct cell_file *cell,
                struct noise_pair *key);
/* From now on `tell` is called each second, and `end` at SIGTERM. Once in a program. */
void load_tell(uv_loop_t *loop, void (*tell)(void *user), void (*end)(void *user), void *user);

/* The session is opened, on its own connections. */
void loader_begin(struct loader *l, uv_loop_t *loop, const char *host, const struct cell_file *cell,
                  const struct noise_pair *key);
/* Asks for an operation; `token` comes back with its answer. */
void loader_submit(struct loader *l, uint64_t token, const struct op *op, bool ordered);
/* Watches a node, as CLIENT_WATCH says. */
void loader_watch(struct loader *l, uint64_t node, uint32_t mask, uint64_t generation);

#endif
