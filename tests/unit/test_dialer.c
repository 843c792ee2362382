/* A peer whose name has two addresses: one takes no connection and refuses none, as behind a packet
 * filter or a cable that is out; and one whose name is looked up in vain. */
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cell/net/stream.h"
#include "cell/sys/log.h"
#include "tests/unit/transport_pair.h"

enum { QUEUED = 4 }; /* more than a backlog of 0 takes */

static struct {
	int listening, queued[QUEUED];
	char dead[8], live[8]; /* ports */
	bool turning;          /* each look-up has the other one first, as from a server of DNS */
	bool lost;             /* the server of DNS is */
	atomic_int lookups_n;
	uv_sem_t answer; /* posted: a look-up of "slow.example" ends */
} name;

typedef int lookup(const char *host, const char *port, const struct addrinfo *wanted,
                   struct addrinfo **found);

/* In the place of that of the C library, for libuv, too. */
int
getaddrinfo(const char *restrict host, const char *restrict port,
            const struct addrinfo *restrict wanted, struct addrinfo **restrict found)
{
	static lookup *real;
	bool turned;
	int rc;

	if (real == NULL)
		*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	if (strstr(host, ".example") == NULL || (wanted->ai_flags & AI_NUMERICHOST))
		return real(host, port, wanted, found);
	turned = name.turning && name.lookups_n % 2 != 0;
	name.lookups_n++;
	if (strcmp(host, "slow.example") == 0)
		uv_sem_wait(&name.answer);
	if (name.lost)
		return EAI_AGAIN;
	if (strcmp(host, "two.example") != 0)
		return real("127.0.0.1", name.live, wanted, found);
	if ((rc = real("127.0.0.1", turned ? name.live : name.dead, wanted, found)) == 0)
		rc = real("127.0.0.1", turned ? name.dead : name.live, wanted, &(*found)->ai_next);
	return rc;
}

/* The queue of its listening socket is full: further connections get no answer. */
static void
fill(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET};
	socklen_t len = sizeof at;

	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	name.listening = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(bind(name.listening, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(name.listening, 0), 0);
	assert_int_equal(getsockname(name.listening, (struct sockaddr *)&at, &len), 0);
	for (int i = 0; i < QUEUED; i++) {
		name.queued[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		connect(name.queued[i], (struct sockaddr *)&at, len);
	}
	snprintf(name.dead, sizeof name.dead, "%d", ntohs(at.sin_port));
}

static int
setup_two(void **state)
{
	memset(&name, 0, sizeof name);
	setup(state);
	fill();
	snprintf(name.live, sizeof name.live, "%d", transport_port(p.server.transport));
	strcpy(p.address, "two.example:1");
	return 0;
}

static int
teardown_two(void **state)
{
	for (int i = 0; i < QUEUED; i++)
		close(name.queued[i]);
	close(name.listening);
	return teardown(state);
}

#define TWO_TEST(test) TEST_WITH(test, setup_two, teardown_two)

/* The second connection begins with the other address, the third with that which was good. */
static void
connect_thrice(void)
{
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	assert_string_equal(p.client.why, "no answer in time");
	for (int i = 1; i <= 2; i++) {
		connect_as(CHANNEL_CLIENT);
		UNTIL(&p, p.client.opened_n == i || p.client.closed_n == 2);
		assert_int_equal(p.client.opened_n, i);
	}
	assert_int_equal(name.lookups_n, 3);
}

TWO_TEST(test_the_first_does_not_answer)
{
	connect_thrice();
}

TWO_TEST(test_the_first_does_not_answer_in_either_order)
{
	name.turning = true;
	connect_thrice();
}

/* A client gives up an attempt earlier than that. */
TWO_TEST(test_given_up)
{
	const uint64_t conn = connect_as(CHANNEL_CLIENT);

	UNTIL(&p, transport_find(p.client.transport, conn)->dialer->at != NULL);
	transport_close(p.client.transport, conn);
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.opened_n == 1 || p.client.closed_n == 1);
	assert_int_equal(p.client.opened_n, 1);
}

/* ---- look-ups ---- */

static void
expect_opened(int n)
{
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.opened_n == n || p.client.closed_n > 0);
	assert_int_equal(p.client.opened_n, n);
}

/* The address of before is used, as long as it is good. */
TWO_TEST(test_no_answer_of_dns)
{
	uint64_t slow;

	strcpy(p.address, "slow.example:1");
	assert_int_equal(uv_sem_init(&name.answer, 1), 0);
	expect_opened(1);
	slow = connect_as(CHANNEL_CLIENT);
	UNTIL(&p, name.lookups_n == 2);
	transport_close(p.client.transport, slow);
	expect_opened(2);
	expect_opened(3);
	assert_int_equal(name.lookups_n, 2);
	uv_sem_post(&name.answer);
	UNTIL(&p, transport_find(p.client.transport, slow) == NULL);
	uv_sem_destroy(&name.answer);
}

TWO_TEST(test_dns_fails)
{
	strcpy(p.address, "one.example:1");
	expect_opened(1);
	name.lost = true;
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 1);
	p.client.closed_n = 0;
	expect_opened(2);
	expect_opened(3);
	assert_int_equal(name.lookups_n, 2);

	/* It is good no longer: the name is looked up. */
	transport_stop(p.server.transport, on_stopped, &p.server);
	UNTIL(&p, p.server.stopped);
	UNTIL(&p, p.client.closed_n == 3);
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 4);
	assert_string_equal(p.client.why, "connection refused");
	connect_as(CHANNEL_CLIENT);
	UNTIL(&p, p.client.closed_n == 5);
	assert_int_equal(name.lookups_n, 3);
	p.server.stopped = false;
	side_start(&p.server, &p.loop, 7, 1);
}

int
main(void)
{
	log_start("test_dialer", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
