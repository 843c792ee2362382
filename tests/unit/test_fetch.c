/* Fetching a copy over real connections, from replicas that are scripts: in parts, from the next
 * replica, into a full disk, until a signal. Each replica is a thread with a loop of its own. What
 * the fetch does with each answer stands in tests/transcripts/state_fetch. */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/base/must.h"
#include "cell/sys/file.h"
#include "cell/net/transport.h"
#include "cell/wire/codec.h"
#include "ctl/fetch.h"
#include "tests/unit/net_fixture.h"

/* What the replica answers, one after the other; the last one again and again. */
enum stage {
	PART,    /* what was asked for, as it is */
	BUSY,    /* being made */
	OLD,     /* a part of an older copy */
	DAMAGED, /* a part that is not what it says */
	REFUSED,
	BROKEN,  /* cannot make one */
	RUBBISH, /* no frame at all */
	CLOSE,
	KILL, /* a signal to who asks, and no answer */
	STEPS_MAX = 16,
};

enum { SIZE = 700000, APPLIED = 77, COPY = 5 };

struct replica {
	uv_loop_t loop;
	uv_async_t stop;
	struct transport *transport;
	pthread_t thread, asker;
	struct noise_pair pair;
	struct cell_file_replica known; /* as the asker knows it */
	enum stage script[STEPS_MAX];
	int steps, at;
	int asked, anew; /* questions; for a new copy */
	uint8_t data[SIZE];
};

static struct replica replicas[2];

/* ---- the replica ---- */

static void
send_message(struct replica *r, uint64_t conn, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	must(!frame.failed);
	transport_send(r->transport, conn, buffer_view(&frame));
	buffer_free(&frame);
}

static void
refuse(struct replica *r, uint64_t conn, enum rc rc)
{
	send_message(r, conn,
	             &(struct message){.code = MSG_state_refused,
	                               .state_refused = {.rc = (uint8_t)rc, .copy = COPY}});
}

static void
send_part(struct replica *r, uint64_t conn, enum stage step, uint64_t offset)
{
	const uint64_t left = SIZE - offset;
	const struct bytes data = {r->data + offset, left < LIMIT_PART ? left : LIMIT_PART};

	send_message(r, conn,
	             &(struct message){.code = MSG_state_part,
	                               .state_part = {.copy = COPY,
	                                              .applied = APPLIED - (step == OLD),
	                                              .size = SIZE,
	                                              .offset = offset,
	                                              .data = data,
	                                              .checksum =
	                                                  checksum(data) + (step == DAMAGED)}});
}

static void
answer(struct replica *r, uint64_t conn, enum stage step, uint64_t offset)
{
	static const uint8_t rubbish[] = {2, 0, 0, 0, 255, 255};

	switch (step) {
	case PART:
	case OLD:
	case DAMAGED:
		send_part(r, conn, step, offset);
		return;
	case BUSY:
		refuse(r, conn, RC_BUSY);
		return;
	case REFUSED:
		refuse(r, conn, RC_PERM);
		return;
	case BROKEN:
		refuse(r, conn, RC_IO);
		return;
	case RUBBISH:
		transport_send(r->transport, conn, (struct bytes){rubbish, sizeof rubbish});
		return;
	case CLOSE:
		transport_close(r->transport, conn);
		return;
	case KILL:
		must(pthread_kill(r->asker, SIGTERM) == 0);
		return;
	case STEPS_MAX:
		return;
	}
}

static bool
on_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	(void)user;
	(void)conn;
	(void)key;
	return role == CHANNEL_CLIENT;
}

static void
on_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct replica *r = user;
	struct message m;

	must(wire_get_frame(frame, &m) == RC_OK && m.code == MSG_state_request);
	r->asked++;
	r->anew += m.state_request.copy == 0;
	must(m.state_request.offset <= SIZE);
	answer(r, conn, r->script[r->at], m.state_request.offset);
	r->at += r->at < r->steps - 1;
}

static void
on_closed(void *user, uint64_t conn, const char *why)
{
	(void)user;
	(void)conn;
	(void)why;
}

static void
on_stopped(void *user)
{
	(void)user;
}

static void
on_stop(uv_async_t *stop)
{
	struct replica *r = stop->data;

	uv_close((uv_handle_t *)stop, NULL);
	transport_stop(r->transport, on_stopped, r);
}

static void *
run_replica(void *user)
{
	struct replica *r = user;

	uv_run(&r->loop, UV_RUN_DEFAULT);
	return NULL;
}

static void
start_replica(struct replica *r, const enum stage *script, int steps)
{
	struct transport_config config =
	    {.own = &r->pair,
	     .callbacks = {.opened = on_opened, .frame = on_frame, .closed = on_closed, .user = r}};
	char why[200];

	memset(r, 0, sizeof *r);
	r->pair = pair_of(1);
	memcpy(r->script, script, (size_t)steps * sizeof *script);
	r->steps = steps;
	for (int i = 0; i < SIZE; i++)
		r->data[i] = (uint8_t)(i * 7 + i / 300);
	must(uv_loop_init(&r->loop) == 0 && uv_async_init(&r->loop, &r->stop, on_stop) == 0);
	r->stop.data = r;
	must(transport_new(&r->transport, &r->loop, &config) == 0);
	must(transport_listen(r->transport, "127.0.0.1:0", why, sizeof why));
	r->known.id = (uint8_t)(1 + (r - replicas));
	snprintf(r->known.address, sizeof r->known.address, "127.0.0.1:%d",
	         transport_port(r->transport));
	memcpy(r->known.public_key, r->pair.public, NOISE_KEY);
	r->asker = pthread_self();
	must(pthread_create(&r->thread, NULL, run_replica, r) == 0);
}

static void
stop_replica(struct replica *r)
{
	must(uv_async_send(&r->stop) == 0);
	must(pthread_join(r->thread, NULL) == 0);
	must(uv_loop_close(&r->loop) == 0);
}

/* ---- fetching ---- */

static struct cell_file cell_file;
static struct fetch fetch;
static struct noise_pair asker;

static enum fetch_end
fetch_into(int fd)
{
	asker = pair_of(2);
	fetch = (struct fetch){.cell_file = &cell_file, .key = &asker, .sources_n = 2, .fd = fd};
	for (int i = 0; i < 2; i++)
		fetch.sources[i] = (struct fetch_source){&replicas[i].known, APPLIED};
	assert_true(fd >= 0);
	return fetch_copy(&fetch);
}

static enum fetch_end
fetch_by(const enum stage *script, int steps)
{
	enum fetch_end end;

	start_replica(&replicas[0], script, steps);
	start_replica(&replicas[1], (const enum stage[]){PART}, 1);
	end = fetch_into(memfd_create("copy", MFD_CLOEXEC));
	stop_replica(&replicas[0]);
	stop_replica(&replicas[1]);
	return end;
}

/* The first replica answers by this script, the second one has the whole. */
#define FETCH(...)                                  \
	fetch_by((const enum stage[]){__VA_ARGS__}, \
	         sizeof((const enum stage[]){__VA_ARGS__}) / sizeof(enum stage))

static void
assert_whole(void)
{
	struct buffer got = BUFFER(SIZE);

	assert_int_equal(file_read(fetch.fd, SIZE, &got), 0);
	assert_int_equal(got.len, SIZE);
	assert_memory_equal(got.data, replicas[0].data, SIZE);
	assert_int_equal(fetch.applied, APPLIED);
	assert_int_equal(fetch.size, SIZE);
	buffer_free(&got);
	close(fetch.fd);
}

TEST(test_part_by_part)
{
	assert_int_equal(FETCH(PART), FETCH_DONE);
	assert_int_equal(replicas[0].asked, SIZE / LIMIT_PART + 1);
	assert_int_equal(replicas[0].anew, 1);
	assert_int_equal(replicas[1].asked, 0);
	assert_whole();
}

TEST(test_waits_and_begins_anew)
{
	assert_int_equal(FETCH(OLD, BUSY, PART), FETCH_DONE);
	assert_int_equal(replicas[0].anew, 2);
	assert_int_equal(replicas[1].asked, 0);
	assert_whole();
}

/* Of what the first replica has sent nothing is left. */
TEST(test_from_the_next_replica)
{
	static const struct {
		enum stage step;
		const char *why;
	} bad[] = {
	    {DAMAGED, "a part of the copy was damaged on the way"},
	    {BROKEN, "it cannot make or read a copy: see its log"},
	    {RUBBISH, "it speaks another version of the protocol"},
	    {CLOSE, "closed by the peer"},
	};

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(FETCH(PART, bad[i].step), FETCH_DONE);
		assert_string_equal(fetch.why, bad[i].why);
		assert_int_equal(replicas[0].asked, 2);
		assert_int_equal(replicas[1].anew, 1);
		assert_whole();
	}
}

TEST(test_no_other_would_help)
{
	assert_int_equal(FETCH(REFUSED), FETCH_FAILED);
	assert_string_equal(fetch.why, "only an administrator may (a principal in /acl/admin)");
	assert_int_equal(replicas[1].asked, 0);
	close(fetch.fd);
}

TEST(test_nobody_there)
{
	for (int i = 0; i < 2; i++) {
		start_replica(&replicas[i], (const enum stage[]){PART}, 1);
		stop_replica(&replicas[i]);
	}
	assert_int_equal(fetch_into(memfd_create("copy", MFD_CLOEXEC)), FETCH_FAILED);
	assert_true(fetch.why[0] != '\0');
	close(fetch.fd);
}

/* The own disk is full: no other replica could help. */
TEST(test_no_room_here)
{
	start_replica(&replicas[0], (const enum stage[]){PART}, 1);
	start_replica(&replicas[1], (const enum stage[]){PART}, 1);
	assert_int_equal(fetch_into(open("/dev/full", O_WRONLY | O_CLOEXEC)), FETCH_FAILED);
	stop_replica(&replicas[0]);
	stop_replica(&replicas[1]);
	assert_string_equal(fetch.why, "the copy cannot be written here: No space left on device");
	assert_int_equal(replicas[1].asked, 0);
	close(fetch.fd);
}

/* Signals are blocked but for the conversation, and are so again after it. */
TEST(test_a_signal_interrupts)
{
	sigset_t set, before, waiting;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	pthread_sigmask(SIG_BLOCK, &set, &before);
	assert_int_equal(FETCH(PART, KILL), FETCH_INTERRUPTED);
	close(fetch.fd);
	sigpending(&waiting);
	assert_true(sigismember(&waiting, SIGTERM));
	assert_int_equal(sigwait(&set, &number), 0);
	assert_int_equal(number, SIGTERM);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
}

int
main(void)
{
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
