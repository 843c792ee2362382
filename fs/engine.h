/* The engine: the mount, its client and the way to the cell tied together on one libuv loop.
 *
 *   kernel call -> mount_step -> requests -> client_step -> frames -> link
 *   link -> frame -> client_step -> answers, grants, session -> mount_step -> replies -> kernel
 *
 * It turns until all are quiet, then sets its timer for the next deadline. It decides
 * nothing; it is also what the request tests drive without a mount. */
#ifndef LSFS_FS_ENGINE_H
#define LSFS_FS_ENGINE_H

#include <uv.h>
#include "fs/link.h"
#include "fs/mount/mount.h"

struct engine;

/* What leaves the engine for the kernel; never called from anywhere but engine_call, the loop's
 * callbacks of the engine's own, and engine_close. */
struct engine_output {
	void (*reply)(void *user, const struct mount_reply *reply);
	void (*stale_inode)(void *user, uint64_t ino);
	void (*forget_names)(void *user);
	void (*session)(void *user, const struct client_status *status); /* its state has changed */
	void *user;
};

/* Begins to open a session through `link`, which is the engine's from here on. The configs are read
 * before it returns; their strings must outlive the engine. 0 or -errno. */
int engine_new(struct engine **engine, uv_loop_t *loop, struct link *link,
               const struct mount_config *mount, const struct client_config *client,
               const struct engine_output *output);

/* Hands in one call of the kernel (event->now is set here). */
void engine_call(struct engine *e, struct mount_event *event);

/* What the kernel driver has to find out of the caller before it hands in a call: mount_wants. */
unsigned engine_wants(const struct engine *e, const struct mount_event *event);

/* The state of the session behind the mount. */
struct client_status engine_status(const struct engine *e);

/* Ends the session in good order, or gives up after a few seconds (it then expires by itself).
 * While processes hold locks through open files it ends as expired: they may believe for a moment
 * that the locks are theirs, and the lock-delay keeps others out. Stops the link, closes its
 * handles, then calls `closed` with true in the first case. Calls go on being answered until
 * then. */
void engine_close(struct engine *e, void (*closed)(void *user, bool in_order), void *user);
/* After `closed` was called. */
void engine_free(struct engine *e);

#endif
