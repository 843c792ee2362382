#include "cell/server/joining.h"

#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/store/dir_lock.h"
#include "cell/server/gateway.h"
#include "cell/sys/log.h"
#include "cell/wire/codec.h"

enum { ASK_EVERY_MS = 200 };

struct joining {
	char *directory;
	struct dir_lock lock;
	struct identity identity;
	struct gateway *gateway;
	uv_timer_t timer; /* asks everybody, who is connected by then */
	bool over;        /* it came, or never will: */
	char error[256];  /* empty: none */
	void (*done)(void *user, const char *error);
	void *done_user;
	void (*stopped)(void *user);
	void *stopped_user;
};

bool
joining_needed(const char *directory)
{
	struct identity identity;
	char why[512];
	bool needed = identity_read(directory, &identity, why, sizeof why) && !identity.has_signing;

	identity_forget(&identity);
	return needed;
}

/* ---- asking ---- */

static void
finish(struct joining *j, const char *error)
{
	j->over = true;
	must(uv_timer_stop(&j->timer) == 0);
	j->done(j->done_user, error);
}

static void
on_timer(uv_timer_t *timer)
{
	static const struct message request = {.code = MSG_secret_request};
	struct joining *j = timer->data;
	const struct cell_file *cell_file = &j->identity.cell_file;
	struct buffer frame = BUFFER(64);

	if (j->error[0] != '\0') {
		finish(j, j->error);
		return;
	}
	wire_put_frame(&frame, &request);
	for (int i = 0; i < cell_file->replicas_n; i++)
		gateway_send_peer(j->gateway, cell_file->replicas[i].id, buffer_view(&frame));
	buffer_free(&frame);
}

/* An Ed25519 secret key is its seed and the public half: that they belong together, too. */
static bool
is_the_key(const struct joining *j, struct bytes key)
{
	uint8_t public_key[SIGN_PUBLIC], secret[SIGN_SECRET];
	bool good;

	if (key.len != SIGN_SECRET)
		return false;
	crypto_sign_seed_keypair(public_key, secret, key.data);
	good = memcmp(secret, key.data, SIGN_SECRET) == 0 &&
	       memcmp(public_key, j->identity.cell_file.signing_public, SIGN_PUBLIC) == 0;
	sodium_memzero(secret, sizeof secret);
	return good;
}

static void
take_key(struct joining *j, uint8_t from, struct bytes key)
{
	char path[PATH_MAX], error[PATH_MAX + 128];
	int rc;

	if (!is_the_key(j, key)) {
		log_warn("replica %u sends a key that is not the cell's", from);
		return;
	}
	snprintf(path, sizeof path, "%s/signing.key", j->directory);
	rc = key_file_copy_signing(path, key.data);
	if (rc < 0) {
		snprintf(error, sizeof error, "%s: %s", path, strerror(-rc));
		finish(j, error);
		return;
	}
	log_info("replica %u has given the cell's signing key", from);
	finish(j, NULL);
}

static void
on_peer(void *user, uint8_t replica, struct bytes frame)
{
	struct joining *j = user;
	struct message m;

	if (!j->over && wire_frame_code(frame) == MSG_secret &&
	    wire_get_frame(frame, &m) == RC_OK)
		take_key(j, replica, m.secret.key);
}

/* Clients come too early. */
static void
on_connected(void *user, uint64_t conn, const char *principal)
{
	(void)principal;
	gateway_close(((struct joining *)user)->gateway, conn);
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	(void)user;
	(void)conn;
	(void)frame;
}

static void
on_disconnected(void *user, uint64_t conn)
{
	(void)user;
	(void)conn;
}

/* ---- life ---- */

static void
joining_free(struct joining *j)
{
	identity_forget(&j->identity);
	dir_lock_release(&j->lock);
	free(j->directory);
	free(j);
}

static void
on_timer_closed(uv_handle_t *timer)
{
	struct joining *j = timer->data;
	void (*stopped)(void *user) = j->stopped;
	void *user = j->stopped_user;

	joining_free(j);
	stopped(user);
}

static void
on_gateway_stopped(void *user)
{
	struct joining *j = user;

	uv_close((uv_handle_t *)&j->timer, on_timer_closed);
}

/* That it can't listen is told later: what stands on the loop by then ends there. */
static bool
listen_and_ask(struct joining *j, uv_loop_t *loop, char *why, size_t why_size)
{
	const struct gateway_callbacks callbacks = {
	    on_peer, on_connected, on_frame, on_disconnected, j,
	};

	j->gateway = gateway_new(loop, &j->identity, &callbacks, why, why_size);
	if (j->gateway == NULL)
		return false;
	if (gateway_start(j->gateway, j->error, sizeof j->error))
		log_info("asks the other replicas for the cell's signing key");
	must(uv_timer_init(loop, &j->timer) == 0);
	j->timer.data = j;
	must(uv_timer_start(&j->timer, on_timer, 0, ASK_EVERY_MS) == 0);
	return true;
}

struct joining *
joining_start(uv_loop_t *loop, const char *directory, void (*done)(void *user, const char *error),
              void *user, char *why, size_t why_size)
{
	struct joining *j = memory_zero(1, sizeof *j);

	j->directory = bytes_to_text(bytes_of(directory));
	j->done = done;
	j->done_user = user;
	if (!dir_lock_take(&j->lock, directory, why, why_size)) {
		free(j->directory);
		free(j);
		return NULL;
	}
	if (identity_read(directory, &j->identity, why, why_size) &&
	    listen_and_ask(j, loop, why, why_size))
		return j;
	joining_free(j);
	return NULL;
}

void
joining_stop(struct joining *j, void (*stopped)(void *user), void *user)
{
	j->stopped = stopped;
	j->stopped_user = user;
	must(uv_timer_stop(&j->timer) == 0);
	gateway_stop(j->gateway, on_gateway_stopped, j);
}
