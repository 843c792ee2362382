/* The kernel's side of a FUSE connection, played by a test: raw requests in, raw replies out, over
 * a socket that keeps message boundaries, without a mount and without privileges. Behind it runs
 * the real driver with the real mount logic, client and replica on a fresh data directory. */
#ifndef LSFS_TESTS_FUSE_KERNEL_H
#define LSFS_TESTS_FUSE_KERNEL_H

#include <linux/fuse.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>
#include "fs/fuse/device.h"

enum { KERNEL_REPLIES = 512, KERNEL_REPLY_MAX = 128 * 1024 + 4096, KERNEL_PATIENCE_MS = 10000 };

struct kernel_reply {
	uint64_t unique;
	int error; /* positive errno */
	size_t len;
	void *body;
};

struct kernel {
	char directory[64];
	uv_loop_t loop;
	uv_timer_t guard; /* a test that waits in vain fails, it does not hang */
	int fd;
	struct server_process *process;
	struct engine *engine;
	struct device device;
	bool ready, ended, broken, closed_in_order;
	uint64_t last_unique;
	struct kernel_reply replies[KERNEL_REPLIES]; /* arrived and not taken yet */
	size_t replies_n;
};

/* Starts all of it and answers INIT's questions; the reply is in *init. */
void kernel_start(struct kernel *k, struct fuse_init_out *init);
/* Closes the session in good order and checks that nothing is left on the loop. */
void kernel_stop(struct kernel *k);

/* Sends a request; its body is `body` followed by the string `name` with its NUL (NULL: none). */
uint64_t kernel_send(struct kernel *k, uint32_t opcode, uint64_t ino, const void *body, size_t size,
                     const char *name);
/* As it is, with any unique. */
void kernel_send_raw(struct kernel *k, uint64_t unique, uint32_t opcode, uint64_t ino,
                     const void *body, size_t size);
/* Runs the loop until the reply to `unique` has come; copies at most `size` bytes of its body.
 * Returns the error as -errno, or the length of the body. */
int kernel_wait(struct kernel *k, uint64_t unique, void *out, size_t size);
/* kernel_send and kernel_wait. */
int kernel_call(struct kernel *k, uint32_t opcode, uint64_t ino, const void *body, size_t size,
                const char *name, void *out, size_t out_size);
/* Has the reply to `unique` come? Handles what is there, but waits for nothing. */
bool kernel_answered(struct kernel *k, uint64_t unique);

#endif
