/* The engine: runs the mount, its client and the link to the cell on one libuv loop.
 *
 *   kernel call -> mount_step -> requests -> client_step -> frames -> link
 *   link -> frame -> client_step -> answers, grants, session -> mount_step -> replies -> kernel
 *
 * Each event is processed until none of them has further output; then the timer is set for the next
 * deadline. The engine decides nothing. Tests drive it without a mount. */
#ifndef LSFS_FS_ENGINE_H
#define LSFS_FS_ENGINE_H

#include <uv.h>
#include "fs/link.h"
#include "fs/mount/mount.h"

struct engine;

/* The engine's output. These functions are called only from within engine_call, engine_close and
 * the engine's own callbacks on the loop. */
struct engine_output {
	void (*reply)(void *user, const struct mount_reply *reply);
	void (*stale_inode)(void *user, uint64_t ino);
	/* The handle may have something for the callers of poll(2). */
	void (*wake)(void *user, uint64_t fh);
	/* The state of the session has changed. */
	void (*session)(void *user, const struct client_status *status);
	void *user;
	bool debug; /* every verdict of mount and client is logged */
};

/* Makes an engine and begins to open a session through `link`, which it takes over. The configs are
 * copied, but not their strings, which must outlive the engine. 0 or -errno. `image`: the mount
 * and the session of another process, which this one continues (-EBADMSG: the image is not valid);
 * NULL: both are new. */
int engine_new(struct engine **engine, uv_loop_t *loop, struct link *link,
               const struct mount_config *mount, const struct client_config *client,
               const struct engine_output *output, struct image *image);

/* True if an image can be made: calls wait only for locks or events, and the session is safe. */
bool engine_is_still(const struct engine *e);
/* Makes the image. The engine may be used again only if no other process continues from it. */
void engine_save(const struct engine *e, struct image *to);

/* Processes one call of the kernel; sets event->now. */
void engine_call(struct engine *e, struct mount_event *event);

/* The facts about the caller that the mount needs for this call (mount_wants): the FUSE driver
 * looks them up first. */
unsigned engine_wants(const struct engine *e, const struct mount_event *event);
/* The number that stat(2) shows for what the kernel calls `ino` (mount_shown). */
uint64_t engine_shown(const struct engine *e, uint64_t ino);

/* The state of the mount's session. */
struct client_status engine_status(const struct engine *e);

/* Closes the session, or gives up after a few seconds (the session then expires by itself). While
 * processes hold locks through open files the session is ended as expired: the processes may still
 * act on the locks for a moment, and the lock-delay keeps other clients out. Then stops the link,
 * closes the engine's handles and calls `closed`; in_order: the session was closed. Calls are
 * answered until then. */
void engine_close(struct engine *e, void (*closed)(void *user, bool in_order), void *user);
/* Frees the engine, after `closed` was called. */
void engine_free(struct engine *e);

#endif
