/* Fetching a copy, from a replica that is a script: in parts, kept waiting, given an old one, a
 * damaged one, nothing at all. The replica is a thread with a loop of its own. */
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
enum step {
	PART,     /* what was asked for, as it is */
	BUSY,     /* being made */
	CROWDED,  /* others are served */
	GONE,     /* no such copy */
	OLD,      /* a part of an older copy */
	DAMAGED,  /* a part that is not what it says */
	BEYOND,   /* a part that ends behind the end */
	EMPTY,    /* a part without data */
	REFUSED,
	BROKEN,   /* cannot make one */
	NOTHING,  /* its state is empty yet */
	RUBBISH,  /* no frame at all */
	CLOSE,
	KILL,     /* a signal to who asks, and no answer */
	STEPS_MAX = 16,
};

enum { SIZE = 700000, APPLIED = 77, COPY = 5 };

struct replica {
	uv_loop_t loop;
	uv_async_t stop;
	struct transport *transport;
	pthread_t thread, asker;
	struct noise_pair pair;
	struct cell_file cell_file;
	enum step script[STEPS_MAX];
	int steps, at;
	int asked, anew; /* questions; for a new copy */
	uint8_t data[SIZE];
};

/* ---- the replica ---- */

static void
send_part(struct replica *r, uint64_t conn, struct msg_copy_part part)
{
	struct message m = {.code = MSG_copy_part, .copy_part = part};
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, &m);
	must(!frame.failed);
	transport_send(r->transport, conn, buffer_view(&frame));
	buffer_free(&frame);
}

static struct msg_copy_part
part_at(struct replica *r, uint64_t offset)
{
	uint64_t left = SIZE - offset;
	struct bytes data = {r->data + offset, left < LIMIT_PART ? left : LIMIT_PART};

	return (struct msg_copy_part){.copy = COPY,
	                              .applied = APPLIED,
	                              .size = SIZE,
	                              .offset = offset,
	                              .data = data,
	                              .checksum = checksum(data)};
}

static void
answer(struct replica *r, uint64_t conn, enum step step, uint64_t offset)
{
	struct msg_copy_part part = part_at(r, offset);
	static const uint8_t rubbish[] = {2, 0, 0, 0, 255, 255};

	switch (step) {
	case PART:
		break;
	case BUSY:
		part = (struct msg_copy_part){.rc = RC_BUSY, .copy = COPY};
		break;
	case CROWDED:
		part = (struct msg_copy_part){.rc = RC_BUSY};
		break;
	case GONE:
		part = (struct msg_copy_part){.rc = RC_NOENT};
		break;
	case OLD:
		part.applied = APPLIED - 1;
		break;
	case DAMAGED:
		part.checksum++;
		break;
	case BEYOND:
		part.size = offset + 1;
		break;
	case EMPTY:
		part.data.len = 0;
		part.checksum = checksum(part.data);
		break;
	case REFUSED:
		part = (struct msg_copy_part){.rc = RC_PERM};
		break;
	case NOTHING:
		part = (struct msg_copy_part){.rc = RC_NODATA};
		break;
	case BROKEN:
		part = (struct msg_copy_part){.rc = RC_IO};
		break;
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
	send_part(r, conn, part);
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

	must(wire_get_frame(frame, &m) == RC_OK && m.code == MSG_copy_request);
	r->asked++;
	r->anew += m.copy_request.copy == 0;
	must(m.copy_request.offset <= SIZE);
	answer(r, conn, r->script[r->at], m.copy_request.offset);
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
start_replica(struct replica *r, const enum step *script, int steps)
{
	struct transport_config config = {.own = &r->pair,
	                                  .callbacks = {on_opened, on_frame, on_closed, r}};
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
	r->cell_file.replicas_n = 1;
	snprintf(r->cell_file.replicas[0].address, sizeof r->cell_file.replicas[0].address,
	         "127.0.0.1:%d", transport_port(r->transport));
	memcpy(r->cell_file.replicas[0].public_key, r->pair.public, NOISE_KEY);
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

static struct replica replica;
static struct fetch fetch;
static struct noise_pair asker;

static enum fetch_end
fetch_by(const enum step *script, int steps)
{
	enum fetch_end end;

	start_replica(&replica, script, steps);
	asker = pair_of(2);
	fetch = (struct fetch){.cell_file = &replica.cell_file,
	                       .key = &asker,
	                       .replica = &replica.cell_file.replicas[0],
	                       .wanted = APPLIED,
	                       .fd = memfd_create("copy", MFD_CLOEXEC)};
	assert_true(fetch.fd >= 0);
	end = fetch_copy(&fetch);
	stop_replica(&replica);
	return end;
}

#define FETCH(...)                                                                             \
	fetch_by((const enum step[]){__VA_ARGS__},                                             \
	         sizeof((const enum step[]){__VA_ARGS__}) / sizeof(enum step))

static void
assert_whole(void)
{
	struct buffer got = BUFFER(SIZE);

	assert_int_equal(file_read(fetch.fd, SIZE, &got), 0);
	assert_int_equal(got.len, SIZE);
	assert_memory_equal(got.data, replica.data, SIZE);
	assert_int_equal(fetch.applied, APPLIED);
	assert_int_equal(fetch.size, SIZE);
	buffer_free(&got);
	close(fetch.fd);
}

static void
assert_why(const char *why)
{
	assert_string_equal(fetch.why, why);
	close(fetch.fd);
}

static void
test_part_by_part(void **state)
{
	(void)state;
	assert_int_equal(FETCH(PART), FETCH_DONE);
	assert_int_equal(replica.asked, SIZE / LIMIT_PART + 1);
	assert_int_equal(replica.anew, 1);
	assert_whole();
}

static void
test_waits_until_it_is_made(void **state)
{
	(void)state;
	assert_int_equal(FETCH(CROWDED, BUSY, BUSY, PART), FETCH_DONE);
	assert_int_equal(replica.anew, 2);
	assert_whole();
}

static void
test_begins_anew(void **state)
{
	(void)state;
	assert_int_equal(FETCH(NOTHING, OLD, PART, GONE, OLD, PART), FETCH_DONE);
	assert_int_equal(replica.anew, 5);
	assert_whole();
}

static void
test_not_for_ever(void **state)
{
	(void)state;
	assert_int_equal(FETCH(OLD), FETCH_FAILED);
	assert_why("its state is too far behind");
	assert_int_equal(FETCH(NOTHING), FETCH_FAILED);
	assert_why("its state is still empty");
}

static void
test_parts_are_checked(void **state)
{
	static const enum step bad[] = {DAMAGED, BEYOND, EMPTY};

	(void)state;
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		assert_int_equal(FETCH(PART, bad[i]), FETCH_FAILED);
		assert_why("a part of the copy was damaged on the way");
	}
}

static void
test_refusals(void **state)
{
	(void)state;
	assert_int_equal(FETCH(REFUSED), FETCH_HOPELESS);
	assert_why("only an administrator may (a principal in /acl/admin)");
	assert_int_equal(FETCH(PART, BROKEN), FETCH_FAILED);
	assert_why("it cannot make or read a copy: see its log");
	assert_int_equal(FETCH(RUBBISH), FETCH_FAILED);
	assert_why("it speaks another version of the protocol");
	assert_int_equal(FETCH(PART, CLOSE), FETCH_FAILED);
	close(fetch.fd);
}

static void
test_nobody_there(void **state)
{
	(void)state;
	start_replica(&replica, (const enum step[]){PART}, 1);
	stop_replica(&replica);
	fetch = (struct fetch){.cell_file = &replica.cell_file,
	                       .key = &asker,
	                       .replica = &replica.cell_file.replicas[0],
	                       .fd = -1};
	assert_int_equal(fetch_copy(&fetch), FETCH_FAILED);
	assert_true(fetch.why[0] != '\0');
}

/* Our own disk: no other replica could help. */
static void
test_no_room_here(void **state)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC);

	(void)state;
	start_replica(&replica, (const enum step[]){PART}, 1);
	fetch = (struct fetch){.cell_file = &replica.cell_file,
	                       .key = &asker,
	                       .replica = &replica.cell_file.replicas[0],
	                       .fd = full};
	assert_int_equal(fetch_copy(&fetch), FETCH_HOPELESS);
	stop_replica(&replica);
	assert_string_equal(fetch.why, "No space left on device");
	close(full);
}

/* Signals are blocked but for the conversation, and are so again behind it. */
static void
test_a_signal_interrupts(void **state)
{
	sigset_t set, before, waiting;
	int number;

	(void)state;
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
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_part_by_part),
	    cmocka_unit_test(test_waits_until_it_is_made),
	    cmocka_unit_test(test_begins_anew),
	    cmocka_unit_test(test_not_for_ever),
	    cmocka_unit_test(test_parts_are_checked),
	    cmocka_unit_test(test_refusals),
	    cmocka_unit_test(test_nobody_there),
	    cmocka_unit_test(test_no_room_here),
	    cmocka_unit_test(test_a_signal_interrupts),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("fetch", tests, NULL, NULL);
}
