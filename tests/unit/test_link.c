/* A client's way to its cell: to a server in the process, and over the network to replicas that
 * here are nets which the test listens with. */
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "fs/link.h"
#include "cell/sys/log.h"
#include "cell/net/transport.h"
#include "cell/host/server_process.h"
#include "cell/host/standalone.h"
#include "cell/wire/codec.h"
#include "tests/unit/failing_checkpoint.h"
#include "tests/unit/net_fixture.h"

enum { REPLICAS = 2, CELL = 5 };

/* What stands for a replica. */
struct stand_in {
	struct transport *transport;
	struct noise_pair pair;
	bool welcome;
	int opened_n, closed_n, frames_n;
	uint64_t conn;
	bool stopped;
};

struct play {
	uv_loop_t loop;
	struct link *link;
	bool in_call; /* of a link_ function */
	int connected_n, datagrams_n, frames_n[2], disconnected_n[2], refused_n, denied_n;
	uint8_t code; /* of the frame that came last */
	bool stopped;

	struct stand_in servers[REPLICAS];
	struct cell_file cell_file;
	struct srv_addresses srv;
	struct noise_pair key;

	struct server_process *server;
	bool server_stopped, server_failed;
	char directory[64];
};

#define CALL(p, call)                 \
	do {                          \
		(p)->in_call = true;  \
		call;                 \
		(p)->in_call = false; \
	} while (0)

/* ---- the link's user ---- */

static void
on_connected(void *user)
{
	struct play *p = user;

	must(!p->in_call);
	p->connected_n++;
}

static void
on_frame(void *user, bool aside, struct bytes frame)
{
	struct play *p = user;

	must(!p->in_call && frame.len > 4);
	if (frame.data[4] == MSG_members)
		return; /* told to everybody who comes, when there are any */
	p->code = frame.data[4];
	p->frames_n[aside]++;
}

static void
on_disconnected(void *user, bool aside, bool denied)
{
	struct play *p = user;

	must(!p->in_call);
	p->denied_n += denied;
	p->disconnected_n[aside]++;
}

static void
on_datagram(void *user, struct bytes frame)
{
	struct play *p = user;

	must(!p->in_call && frame.len > 4);
	p->code = frame.data[4];
	p->datagrams_n++;
}

static void
on_stopped(void *user)
{
	*(bool *)user = true;
}

static void
link_begin(struct play *p)
{
	link_start(p->link, &(struct link_callbacks){.connected = on_connected,
	                                             .frame = on_frame,
	                                             .disconnected = on_disconnected,
	                                             .datagram = on_datagram,
	                                             .user = p});
}

/* A frame that every replica answers at any time. */
static struct bytes
question(struct buffer *to)
{
	struct message m = {.code = MSG_status_request};

	*to = BUFFER(4096);
	wire_put_frame(to, &m);
	return buffer_view(to);
}

/* ---- to a server ---- */

static void
on_server_failed(void *user)
{
	((struct play *)user)->server_failed = true;
}

static void
start_host(struct play *p)
{
	struct server_process_config config = {.directory = p->directory,
	                                       .failed = on_server_failed,
	                                       .user = p};
	struct cell_file cell_file;
	char why[512];

	memset(p, 0, sizeof *p);
	strcpy(p->directory, "/tmp/test_link.XXXXXX");
	assert_non_null(mkdtemp(p->directory));
	assert_int_equal(uv_loop_init(&p->loop), 0);
	if (!standalone_prepare(p->directory, "local", &cell_file, why, sizeof why) ||
	    !(p->server = server_process_open(&config, why, sizeof why)) ||
	    !server_process_start(p->server, &p->loop, why, sizeof why))
		fail_msg("%s", why);
	p->link = link_to_server(&p->loop, server_process_server(p->server), "tester");
	link_begin(p);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)st;
	(void)type;
	(void)at;
	return remove(path);
}

static void
end_host(struct play *p)
{
	CALL(p, link_stop(p->link, on_stopped, &p->stopped));
	UNTIL(p, p->stopped);
	server_process_stop(p->server, on_stopped, &p->server_stopped);
	uv_run(&p->loop, UV_RUN_DEFAULT);
	assert_true(p->server_stopped);
	assert_int_equal(uv_loop_close(&p->loop), 0);
	nftw(p->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

TEST(test_host)
{
	struct buffer frame;
	struct play p;

	start_host(&p);
	CALL(&p, link_send(p.link, question(&frame))); /* to nobody */
	CALL(&p, link_connect(p.link, 1));
	UNTIL(&p, p.connected_n == 1);
	CALL(&p, link_send(p.link, buffer_view(&frame)));
	UNTIL(&p, p.frames_n[false] == 1);
	assert_int_equal(p.code, MSG_status_reply);
	CALL(&p, link_send(p.link, buffer_view(&frame)));
	CALL(&p, link_connect(p.link, 1)); /* what was asked on the old one is not answered */
	CALL(&p, link_listen(p.link, 1));
	UNTIL(&p, p.connected_n == 2);
	CALL(&p, link_send(p.link, buffer_view(&frame)));
	UNTIL(&p, p.frames_n[false] == 2);
	assert_int_equal(p.disconnected_n[false] + p.disconnected_n[true], 0);
	assert_string_equal(link_trouble(p.link), "the cell has no master");
	buffer_free(&frame);
	end_host(&p);
}

/* The server closes connections on which it does not understand a word. */
TEST(test_host_closes)
{
	struct play p;

	start_host(&p);
	CALL(&p, link_connect(p.link, 1));
	UNTIL(&p, p.connected_n == 1);
	CALL(&p, link_send(p.link, (struct bytes){(const uint8_t *)"\1\0\0\0\xff", 5}));
	UNTIL(&p, p.disconnected_n[false] == 1);
	CALL(&p, link_connect(p.link, 1));
	UNTIL(&p, p.connected_n == 2);
	end_host(&p);
}

/* The owner is told, so that the exit status of its process says so. */
TEST(test_host_whose_disk_fails_at_the_end)
{
	struct play p;

	start_host(&p);
	CALL(&p, link_connect(p.link, 1));
	UNTIL(&p, p.connected_n == 1);
	checkpoints_fail = true;
	end_host(&p);
	checkpoints_fail = false;
	assert_true(p.server_failed);
	start_host(&p);
	end_host(&p);
	assert_false(p.server_failed);
}

TEST(test_host_stopped_at_once)
{
	struct play p;

	start_host(&p);
	CALL(&p, link_connect(p.link, 1));
	end_host(&p);
	assert_int_equal(p.connected_n, 0);
}

/* ---- over the network ---- */

static bool
on_net_opened(void *user, uint64_t conn, enum channel_role role, const uint8_t key[NOISE_KEY])
{
	const struct message denied = {.code = MSG_denied, .denied.rc = RC_PERM};
	struct buffer frame = BUFFER(64);
	struct stand_in *s = user;

	(void)key;
	s->opened_n++;
	s->conn = conn;
	if (s->welcome)
		return role == CHANNEL_CLIENT;
	wire_put_frame(&frame, &denied);
	transport_send(s->transport, conn, buffer_view(&frame));
	buffer_free(&frame);
	return false;
}

static void
on_net_frame(void *user, uint64_t conn, struct bytes frame)
{
	struct stand_in *s = user;

	s->frames_n++;
	transport_send(s->transport, conn, frame);
}

static void
on_net_datagram(void *user, uint64_t conn, struct bytes frame)
{
	transport_send_datagram(((struct stand_in *)user)->transport, conn, frame);
}

static void
on_net_closed(void *user, uint64_t conn, const char *why)
{
	(void)conn;
	(void)why;
	((struct stand_in *)user)->closed_n++;
}

static void
start_server(struct play *p, int i)
{
	struct stand_in *s = &p->servers[i];
	struct cell_file_replica *replica = &p->cell_file.replicas[i];
	struct transport_config config = {.own = &s->pair};
	char why[256];

	s->pair = pair_of((uint8_t)(10 + i));
	s->welcome = true;
	memcpy(config.cell_id, p->cell_file.id, sizeof config.cell_id);
	config.callbacks = (struct transport_callbacks){.opened = on_net_opened,
	                                                .frame = on_net_frame,
	                                                .closed = on_net_closed,
	                                                .datagram = on_net_datagram,
	                                                .user = s};
	assert_int_equal(transport_new(&s->transport, &p->loop, &config), 0);
	if (!transport_listen(s->transport, "127.0.0.1:0", why, sizeof why))
		fail_msg("%s", why);
	replica->id = (uint8_t)(i + 1);
	memcpy(replica->public_key, s->pair.public, NOISE_KEY);
	snprintf(replica->address, sizeof replica->address, "127.0.0.1:%d",
	         transport_port(s->transport));
}

static void
begin_link(struct play *p)
{
	int error;

	p->link = link_to_cell(&p->loop, &p->cell_file, &p->srv, &p->key, &error);
	assert_non_null(p->link);
	link_begin(p);
}

/* The cell's id is all of that byte in our file. */
static void
start_cell_of(struct play *p, int id)
{
	memset(p, 0, sizeof *p);
	assert_int_equal(uv_loop_init(&p->loop), 0);
	memset(p->cell_file.signing_public, 5, sizeof p->cell_file.signing_public);
	memset(p->cell_file.id, CELL, sizeof p->cell_file.id);
	p->cell_file.replicas_n = REPLICAS;
	for (int i = 0; i < REPLICAS; i++)
		start_server(p, i);
	p->key = pair_of(1);
	memset(p->cell_file.id, id, sizeof p->cell_file.id);
	begin_link(p);
}

static void
start_cell(struct play *p)
{
	start_cell_of(p, CELL);
}

static void
stop_server(struct play *p, int i)
{
	struct stand_in *s = &p->servers[i];

	transport_stop(s->transport, on_stopped, &s->stopped);
	UNTIL(p, s->stopped);
}

static void
end_cell(struct play *p)
{
	if (!p->stopped)
		CALL(p, link_stop(p->link, on_stopped, &p->stopped));
	for (int i = 0; i < REPLICAS; i++)
		if (!p->servers[i].stopped)
			stop_server(p, i);
	uv_run(&p->loop, UV_RUN_DEFAULT);
	assert_true(p->stopped);
	assert_int_equal(uv_loop_close(&p->loop), 0);
}

/* Addresses of which nobody knows whose they are: each replica is tried at each of them, until one
 * proves its key; the members' own addresses count from then on. */
TEST(test_addresses_of_others)
{
	struct buffer frame;
	struct play p;

	start_cell(&p);
	CALL(&p, link_stop(p.link, on_stopped, &p.stopped));
	UNTIL(&p, p.stopped);
	p.stopped = false;
	for (int i = 0; i < REPLICAS; i++)
		strcpy(p.srv.list[p.srv.n++], p.cell_file.replicas[!i].address);
	for (int i = 0; i < REPLICAS; i++)
		snprintf(p.cell_file.replicas[i].address, sizeof p.cell_file.replicas[i].address,
		         "127.0.0.1:%d", 1 + i);
	begin_link(&p);
	for (int attempt = 0; p.connected_n == 0; attempt++) {
		assert_in_range(attempt, 0, REPLICAS);
		CALL(&p, link_connect(p.link, 1));
		UNTIL(&p, p.connected_n == 1 || p.disconnected_n[false] > attempt);
	}
	CALL(&p, link_send(p.link, question(&frame)));
	UNTIL(&p, p.frames_n[false] == 1);
	assert_int_equal(p.servers[0].frames_n, 1);
	assert_int_equal(p.servers[1].frames_n, 0);
	buffer_free(&frame);
	CALL(&p, link_set_members(p.link, &(struct client_members){.n = 1, .list[0].id = 1}));
	CALL(&p, link_connect(p.link, 1)); /* which has no address */
	UNTIL(&p, p.disconnected_n[false] >= 2);
	end_cell(&p);
}

TEST(test_datagrams)
{
	struct buffer frame;
	struct play p;

	start_cell(&p);
	CALL(&p, link_send_datagram(p.link, question(&frame))); /* to nobody */
	CALL(&p, link_connect(p.link, 1));
	CALL(&p, link_listen(p.link, 2));
	UNTIL(&p, p.connected_n == 1);
	CALL(&p, link_send_datagram(p.link, buffer_view(&frame)));
	UNTIL(&p, p.datagrams_n == 1);
	assert_int_equal(p.code, MSG_status_request);
	assert_int_equal(p.frames_n[false], 0);
	buffer_free(&frame);
	end_cell(&p);
}

TEST(test_cell)
{
	struct buffer frame;
	struct play p;

	start_cell(&p);
	CALL(&p, link_send(p.link, question(&frame))); /* to nobody */
	CALL(&p, link_connect(p.link, 2));
	UNTIL(&p, p.connected_n == 1);
	UNTIL(&p, p.servers[1].opened_n == 1);
	assert_int_equal(p.servers[0].opened_n, 0);
	CALL(&p, link_send(p.link, buffer_view(&frame)));
	UNTIL(&p, p.frames_n[false] == 1);
	assert_int_equal(p.servers[1].frames_n, 1);

	/* The second connection says nothing of itself. */
	CALL(&p, link_listen(p.link, 1));
	UNTIL(&p, p.servers[0].opened_n == 1);
	transport_send(p.servers[0].transport, p.servers[0].conn, buffer_view(&frame));
	UNTIL(&p, p.frames_n[true] == 1);
	assert_int_equal(p.connected_n, 1);
	assert_int_equal(p.frames_n[false], 1);

	/* One for another: the old ones go without a word. */
	CALL(&p, link_connect(p.link, 1));
	CALL(&p, link_listen(p.link, 2));
	UNTIL(&p, p.servers[0].closed_n == 1 && p.servers[1].closed_n == 1);
	UNTIL(&p, p.connected_n == 2 && p.servers[0].opened_n == 2 && p.servers[1].opened_n == 2);
	assert_int_equal(p.disconnected_n[false] + p.disconnected_n[true], 0);
	CALL(&p, link_listen(p.link, 0));
	UNTIL(&p, p.servers[1].closed_n == 2);
	buffer_free(&frame);
	end_cell(&p);
}

TEST(test_cell_breaks)
{
	struct play p;

	start_cell(&p);
	CALL(&p, link_connect(p.link, 1));
	CALL(&p, link_listen(p.link, 2));
	UNTIL(&p, p.connected_n == 1 && p.servers[1].opened_n == 1);
	stop_server(&p, 1);
	UNTIL(&p, p.disconnected_n[true] == 1);
	assert_string_equal(link_trouble(p.link), "no replica answers");
	stop_server(&p, 0);
	UNTIL(&p, p.disconnected_n[false] == 1);
	CALL(&p, link_connect(p.link, 1)); /* nobody listens there any more */
	UNTIL(&p, p.disconnected_n[false] == 2);
	assert_non_null(strstr(link_trouble(p.link), "replica 1 at 127.0.0.1:"));
	assert_non_null(strstr(link_trouble(p.link), "connection refused"));
	assert_int_equal(p.connected_n, 1);
	end_cell(&p);
}

/* Who is where is learned from the cell; what is connected stays so. */
TEST(test_members_change)
{
	struct client_members members = {.n = 1, .list = {{.id = 77}}};
	struct play p;

	start_cell(&p);
	CALL(&p, link_connect(p.link, 1));
	UNTIL(&p, p.connected_n == 1);
	strcpy(members.list[0].address, p.cell_file.replicas[1].address);
	memcpy(members.list[0].key, p.cell_file.replicas[1].public_key, NOISE_KEY);
	CALL(&p, link_set_members(p.link, &members));
	members.list[0].address[0] = '\0';
	CALL(&p, link_listen(p.link, 77));
	UNTIL(&p, p.servers[1].opened_n == 1);
	CALL(&p, link_connect(p.link, 77));
	UNTIL(&p, p.connected_n == 2 && p.servers[1].opened_n == 2);
	assert_int_equal(p.disconnected_n[false] + p.disconnected_n[true], 0);
	end_cell(&p);
}

static void
on_refused(void *user)
{
	((struct play *)user)->refused_n++;
}

/* A key that the cell does not know: it is proved, and the connection is closed. */
TEST(test_cell_refuses)
{
	struct play p;

	start_cell(&p);
	p.servers[0].welcome = false;
	link_on_refused(p.link, on_refused, &p);
	CALL(&p, link_connect(p.link, 1));
	UNTIL(&p, p.disconnected_n[false] == 1);
	assert_non_null(strstr(link_trouble(p.link), "the cell does not know this key"));
	assert_int_equal(p.refused_n, 1);
	assert_int_equal(p.denied_n, 1);
	end_cell(&p);
}

/* On the standby that is one replica's word. */
TEST(test_standby_refuses)
{
	struct play p;

	start_cell(&p);
	p.servers[1].welcome = false;
	link_on_refused(p.link, on_refused, &p);
	CALL(&p, link_connect(p.link, 1));
	CALL(&p, link_listen(p.link, 2));
	UNTIL(&p, p.connected_n == 1 && p.disconnected_n[true] == 1);
	assert_int_equal(p.refused_n, 0);
	assert_int_equal(p.disconnected_n[false], 0);
	end_cell(&p);
}

/* One address of another cell may be a mistake; when no other is left, the file is. */
TEST(test_another_cell)
{
	struct play p;

	start_cell_of(&p, CELL + 1);
	link_on_refused(p.link, on_refused, &p);
	CALL(&p, link_connect(p.link, 1));
	UNTIL(&p, p.disconnected_n[false] == 1);
	assert_int_equal(p.refused_n, 0);
	stop_server(&p, 1);
	CALL(&p, link_connect(p.link, 2));
	UNTIL(&p, p.disconnected_n[false] == 2);
	assert_int_equal(p.refused_n, 1);
	assert_non_null(strstr(link_trouble(p.link), "replica 1 at "));
	assert_non_null(strstr(link_trouble(p.link), "it is of another cell"));
	assert_int_equal(p.denied_n, 0);
	end_cell(&p);
}

TEST(test_cell_stopped_at_once)
{
	struct play p;

	start_cell(&p);
	CALL(&p, link_connect(p.link, 1));
	CALL(&p, link_listen(p.link, 2));
	CALL(&p, link_stop(p.link, on_stopped, &p.stopped));
	UNTIL(&p, p.stopped);
	assert_int_equal(p.connected_n + p.disconnected_n[false] + p.disconnected_n[true], 0);
	end_cell(&p);
}

int
main(void)
{
	log_start("test_link", LEVEL_ERROR);
	signal(SIGPIPE, SIG_IGN);
	return unit_run(NULL, NULL);
}
