#include "tests/fuse/kernel.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/sys/clock.h"
#include "cell/host/server_process.h"
#include "cell/host/standalone.h"

/* ---- replies ---- */

static void
take_reply(struct kernel *k, const void *data, size_t len)
{
	struct fuse_out_header header;
	struct kernel_reply *r = &k->replies[k->replies_n];

	must(len >= sizeof header);
	memcpy(&header, data, sizeof header);
	must(header.len == len);
	if (header.unique == 0) /* a notification */
		return;
	for (size_t i = 0; i < k->replies_n; i++)
		must(k->replies[i].unique != header.unique); /* each request once */
	must(k->replies_n < KERNEL_REPLIES);
	r->unique = header.unique;
	r->error = -header.error;
	r->len = len - sizeof header;
	r->body = memory_zero(1, r->len + 1);
	memcpy(r->body, (const char *)data + sizeof header, r->len);
	k->replies_n++;
}

static void
read_replies(struct kernel *k)
{
	static char buffer[KERNEL_REPLY_MAX];
	ssize_t n;

	while ((n = read(k->fd, buffer, sizeof buffer)) > 0)
		take_reply(k, buffer, (size_t)n);
}

static struct kernel_reply *
find_reply(struct kernel *k, uint64_t unique)
{
	read_replies(k);
	for (size_t i = 0; i < k->replies_n; i++)
		if (k->replies[i].unique == unique)
			return &k->replies[i];
	return NULL;
}

static int
finish_reply(struct kernel *k, struct kernel_reply *r, void *out, size_t size)
{
	int rc = r->error ? -r->error : (int)r->len;

	if (out)
		memcpy(out, r->body, r->len < size ? r->len : size);
	free(r->body);
	*r = k->replies[--k->replies_n];
	return rc;
}

static void
on_guard(uv_timer_t *guard)
{
	(void)guard;
	must(!"the answer came within its time");
}

int
kernel_wait(struct kernel *k, uint64_t unique, void *out, size_t size)
{
	struct kernel_reply *r;

	uv_update_time(&k->loop);
	uv_timer_start(&k->guard, on_guard, KERNEL_PATIENCE_MS, 0);
	while (!(r = find_reply(k, unique)))
		uv_run(&k->loop, UV_RUN_ONCE);
	uv_timer_stop(&k->guard);
	return finish_reply(k, r, out, size);
}

bool
kernel_answered(struct kernel *k, uint64_t unique)
{
	uv_run(&k->loop, UV_RUN_NOWAIT);
	return find_reply(k, unique) != NULL;
}

/* ---- requests ---- */

void
kernel_send_raw(struct kernel *k, uint64_t unique, uint32_t opcode, uint64_t ino, const void *body,
                size_t size)
{
	struct fuse_in_header header = {
	    .len = (uint32_t)(sizeof header + size),
	    .opcode = opcode,
	    .unique = unique,
	    .nodeid = ino,
	    .uid = getuid(),
	    .gid = getgid(),
	    .pid = (uint32_t)getpid(),
	};
	char *message = memory_zero(1, sizeof header + size);

	memcpy(message, &header, sizeof header);
	if (size)
		memcpy(message + sizeof header, body, size);
	must(write(k->fd, message, sizeof header + size) == (ssize_t)(sizeof header + size));
	free(message);
}

uint64_t
kernel_send(struct kernel *k, uint32_t opcode, uint64_t ino, const void *body, size_t size,
            const char *name)
{
	size_t name_len = name ? strlen(name) + 1 : 0;
	char *whole = memory_zero(1, size + name_len + 1);

	if (size)
		memcpy(whole, body, size);
	if (name)
		memcpy(whole + size, name, name_len);
	k->last_unique += 2; /* odd ones mark interrupts in the kernel */
	kernel_send_raw(k, k->last_unique, opcode, ino, whole, size + name_len);
	free(whole);
	return k->last_unique;
}

int
kernel_call(struct kernel *k, uint32_t opcode, uint64_t ino, const void *body, size_t size,
            const char *name, void *out, size_t out_size)
{
	return kernel_wait(k, kernel_send(k, opcode, ino, body, size, name), out, out_size);
}

/* ---- life ---- */

static void
on_ready(void *user)
{
	((struct kernel *)user)->ready = true;
}

static void
on_ended(void *user, bool broken)
{
	struct kernel *k = user;

	k->ended = true;
	k->broken = broken;
}

static void
on_host_failed(void *user)
{
	(void)user;
	must(!"the replica works");
}

static void
on_session_state(void *user, const struct client_status *status)
{
	(void)user;
	(void)status;
}

static void
start_host(struct kernel *k)
{
	struct server_process_config config = {.directory = k->directory,
	                                       .failed = on_host_failed,
	                                       .user = k};
	struct cell_file cell_file;
	char why[512] = "";

	if (!standalone_prepare(k->directory, "test", &cell_file, why, sizeof why) ||
	    !(k->process = server_process_open(&config, why, sizeof why)) ||
	    !server_process_start(k->process, &k->loop, why, sizeof why)) {
		fprintf(stderr, "%s\n", why);
		must(!"the data directory can be opened");
	}
}

static void
start_engine(struct kernel *k)
{
	struct mount_config mount = {
	    .cell = "test",
	    .uid = getuid(),
	    .gid = getgid(),
	    .lock_delay_s = 1,
	};
	struct client_config client = {.host = "here",
	                               .grace = span_s(5),
	                               .drift_permille = 10,
	                               .caching = true};
	struct engine_output output = {
	    .reply = device_reply,
	    .stale_inode = device_stale_inode,
	    .wake = device_wake,
	    .session = on_session_state,
	    .user = &k->device,
	};

	random_fill(&client.seed, sizeof client.seed);
	random_fill(client.nonce, sizeof client.nonce);
	must(engine_new(&k->engine, &k->loop,
	                link_to_server(&k->loop, server_process_server(k->process), "admin"),
	                &mount, &client, &output, NULL) == 0);
}

static void
start_device(struct kernel *k)
{
	struct device_config config = {
	    .uid = getuid(),
	    .gid = getgid(),
	    .ready = on_ready,
	    .ended = on_ended,
	    .user = k,
	};
	int ends[2];

	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
	k->fd = ends[0];
	must(device_init(&k->device, &config) == 0);
	must(device_attach(&k->device, ends[1]) == 0);
	must(device_start(&k->device, &k->loop, k->engine) == 0);
}

void
kernel_start(struct kernel *k, struct fuse_init_out *init)
{
	struct fuse_init_in in = {.major = 7, .minor = 38, .max_readahead = 131072, .flags = ~0u};

	memset(k, 0, sizeof *k);
	strcpy(k->directory, "/tmp/lsfs-fuse.XXXXXX");
	must(mkdtemp(k->directory));
	must(uv_loop_init(&k->loop) == 0);
	uv_timer_init(&k->loop, &k->guard);
	start_host(k);
	start_engine(k);
	start_device(k);
	in.flags &= ~(uint32_t)FUSE_INIT_EXT;
	must(kernel_call(k, FUSE_INIT, 0, &in, sizeof in, NULL, init, sizeof *init) > 0);
	must(k->ready);
}

static void
on_stopped(void *user)
{
	uv_close((uv_handle_t *)&((struct kernel *)user)->guard, NULL);
}

static void
on_closed(void *user, bool in_order)
{
	struct kernel *k = user;

	k->closed_in_order = in_order;
	server_process_stop(k->process, on_stopped, k);
}

static int
remove_entry(const char *path, const struct stat *st, int kind, struct FTW *where)
{
	(void)st;
	(void)kind;
	(void)where;
	return remove(path);
}

void
kernel_stop(struct kernel *k)
{
	device_stop(&k->device);
	engine_close(k->engine, on_closed, k);
	uv_run(&k->loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&k->loop) == 0);
	must(k->closed_in_order);
	device_fini(&k->device);
	engine_free(k->engine);
	read_replies(k);
	while (k->replies_n)
		free(k->replies[--k->replies_n].body);
	close(k->fd);
	nftw(k->directory, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
