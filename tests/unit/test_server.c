/* A replica on a loop, with a client in the same process: its start in an empty directory, or in
 * one whose first start was broken off anywhere, and its end at any time. Data that is there again
 * after an end is the subject of tests/e2e/crash.sh. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/must.h"
#include "cell/client/client.h"
#include "cell/sys/clock.h"
#include "cell/config/identity.h"
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "cell/host/internal.h"
#include "cell/host/server_process.h"
#include "cell/host/standalone.h"
#include "cell/tree/tree.h"
#include "tests/unit/net_fixture.h"
#include "tests/unit/unit.h"

static char directory[64];
static char why[512];

/* One client, driven by the loop. */
struct driver {
	uv_loop_t loop;
	uv_timer_t timer;
	struct server_process *process;
	struct server *server; /* its */
	struct client *client;
	struct client_update update;
	uint64_t conn;
	bool in_call, stopped;
};

static void tell(struct driver *d, struct client_event event);

static void
on_frame(void *user, struct bytes frame)
{
	struct driver *d = user;

	must(!d->in_call); /* never from within server_connect or server_send */
	tell(d, (struct client_event){.kind = CLIENT_FRAME, .frame = frame});
}

static void
on_closed(void *user)
{
	struct driver *d = user;

	d->conn = 0;
	tell(d, (struct client_event){.kind = CLIENT_DISCONNECTED});
}

static void
on_timer(uv_timer_t *timer)
{
	tell(timer->data, (struct client_event){.kind = CLIENT_TIMEOUT});
}

static void
tell(struct driver *d, struct client_event event)
{
	const struct server_client callbacks = {on_frame, on_closed, d};
	bool connect;
	mono_t deadline;

	event.now = clock_now();
	client_step(d->client, &event, &d->update);
	connect = d->update.connect;
	d->in_call = true;
	if (connect) {
		if (d->conn != 0)
			server_disconnect(d->server, d->conn);
		d->conn = server_connect(d->server, &callbacks, "admin");
	}
	if (d->update.frames.len > 0)
		server_send(d->server, d->conn, buffer_view(&d->update.frames));
	d->in_call = false;
	if (connect)
		tell(d, (struct client_event){.kind = CLIENT_CONNECTED});
	deadline = client_deadline(d->client);
	if (mono_is_never(deadline))
		uv_timer_stop(&d->timer);
	else {
		int64_t ms = span_to_ms(mono_since(deadline, clock_now()));

		uv_timer_start(&d->timer, on_timer, ms < 0 ? 0 : (uint64_t)ms + 1, 0);
	}
}

static void
start(struct driver *d)
{
	struct client_config config = {.host = "here", .grace = span_s(45), .drift_permille = 10};
	struct server_process_config server = {.directory = directory};
	struct cell_file cell_file;

	memset(d, 0, sizeof *d);
	assert_int_equal(uv_loop_init(&d->loop), 0);
	if (!standalone_prepare(directory, "local", &cell_file, why, sizeof why))
		fail_msg("%s", why);
	d->process = server_process_open(&server, why, sizeof why);
	if (d->process == NULL)
		fail_msg("%s", why);
	if (!server_process_start(d->process, &d->loop, why, sizeof why))
		fail_msg("%s", why);
	d->server = server_process_server(d->process);
	assert_int_equal(uv_timer_init(&d->loop, &d->timer), 0);
	d->timer.data = d;
	random_fill(config.nonce, sizeof config.nonce);
	d->client = client_new(&config, clock_now());
	tell(d, (struct client_event){.kind = CLIENT_TIMEOUT});
	while (client_status(d->client).state != CLIENT_SAFE)
		uv_run(&d->loop, UV_RUN_ONCE);
}

static void
on_stopped(void *user)
{
	((struct driver *)user)->stopped = true;
}

static void
stop(struct driver *d)
{
	server_process_stop(d->process, on_stopped, d);
	uv_close((uv_handle_t *)&d->timer, NULL);
	assert_int_equal(uv_run(&d->loop, UV_RUN_DEFAULT), 0);
	assert_true(d->stopped);
	assert_int_equal(uv_loop_close(&d->loop), 0);
	client_update_free(&d->update);
	client_free(d->client);
}

static void
remove_directory(void)
{
	DIR *d = opendir(directory);
	struct dirent *e;
	char path[512];

	if (d == NULL)
		return;
	while ((e = readdir(d)) != NULL) {
		snprintf(path, sizeof path, "%s/%s", directory, e->d_name);
		unlink(path);
	}
	closedir(d);
	rmdir(directory);
}

static int
setup(void **state)
{
	(void)state;
	strcpy(directory, "/tmp/test_server.XXXXXX");
	return mkdtemp(directory) == NULL;
}

static int
teardown(void **state)
{
	(void)state;
	remove_directory();
	return 0;
}

#define SERVER_TEST(test) TEST_WITH(test, setup, teardown)

/* What a server writes to the log, at this level, from its start to its end. */
static void
logged_at(enum log_level level, char text[16384])
{
	FILE *log = tmpfile();
	const int before = dup(STDERR_FILENO);
	struct driver d;

	assert_true(log != NULL && before >= 0);
	fflush(stderr);
	dup2(fileno(log), STDERR_FILENO);
	log_start("test_server", level);
	start(&d);
	stop(&d);
	dup2(before, STDERR_FILENO);
	close(before);
	log_start("test_server", LEVEL_ERROR);
	rewind(log);
	text[fread(text, 1, 16383, log)] = '\0';
	fclose(log);
}

/* Operators see the masters in any case, and verdicts on demand. */
SERVER_TEST(test_verdicts_are_logged_on_demand)
{
	static char text[16384];

	logged_at(LEVEL_INFO, text);
	assert_non_null(strstr(text, "master of epoch"));
	assert_null(strstr(text, "is a candidate with"));
	logged_at(LEVEL_DEBUG, text);
	assert_non_null(strstr(text, "master of epoch"));
	assert_non_null(strstr(text, "is a candidate with"));
}

SERVER_TEST(test_stopped_unused)
{
	struct driver d = {0};
	struct server_process_config config = {.directory = directory};
	struct cell_file cell_file;

	assert_true(standalone_prepare(directory, "local", &cell_file, why, sizeof why));
	d.process = server_process_open(&config, why, sizeof why);
	assert_non_null(d.process);
	server_process_stop(d.process, on_stopped, &d); /* never started */
	assert_true(d.stopped);
	assert_int_equal(uv_loop_init(&d.loop), 0);
	d.process = server_process_open(&config, why, sizeof why);
	assert_non_null(d.process);
	if (!server_process_start(d.process, &d.loop, why, sizeof why))
		fail_msg("%s", why);
	d.stopped = false;
	server_process_stop(d.process, on_stopped, &d);
	assert_int_equal(uv_run(&d.loop, UV_RUN_DEFAULT), 0);
	assert_true(d.stopped);
	assert_int_equal(uv_loop_close(&d.loop), 0);
}

/* ---- the cell file is being written while the network closes ---- */

static struct {
	bool held; /* writing the cell file waits for `go` */
	uv_sem_t go, written;
	uv_work_t after; /* follows the write, as it does in the queue of threads */
	struct transport *transport;
	void (*closed)(void *user);
	struct driver *driver;
} closing;

int __real_cell_file_replace(const char *path, const struct cell_file *cell_file);
int __wrap_cell_file_replace(const char *path, const struct cell_file *cell_file);
void __real_transport_stop(struct transport *t, void (*stopped)(void *user), void *user);
void __wrap_transport_stop(struct transport *t, void (*stopped)(void *user), void *user);

int
__wrap_cell_file_replace(const char *path, const struct cell_file *cell_file)
{
	int rc;

	if (closing.held)
		uv_sem_wait(&closing.go);
	rc = __real_cell_file_replace(path, cell_file);
	if (closing.held)
		uv_sem_post(&closing.written);
	return rc;
}

static void
wait_for_the_write(uv_work_t *work)
{
	(void)work;
	uv_sem_wait(&closing.written);
}

/* The loop has been told that the write has ended. */
static void
close_the_network(uv_work_t *work, int status)
{
	must(status == 0);
	assert_false(closing.driver->stopped);
	__real_transport_stop(closing.transport, closing.closed, work->data);
}

void
__wrap_transport_stop(struct transport *t, void (*stopped)(void *user), void *user)
{
	closing.transport = t;
	closing.closed = stopped;
	closing.after.data = user;
	uv_sem_post(&closing.go);
	must(uv_queue_work(&closing.driver->loop, &closing.after, wait_for_the_write,
	                   close_the_network) == 0);
}

static void
make_networked(struct cell_file *cell_file)
{
	struct noise_pair own;
	char path[128];

	assert_true(standalone_prepare(directory, "local", cell_file, why, sizeof why));
	snprintf(cell_file->replicas[0].address, sizeof cell_file->replicas[0].address,
	         "127.0.0.1:%d", free_port());
	cell_file->has_admin = true;
	memcpy(cell_file->admin_public, pair_of(1).public, NOISE_KEY);
	snprintf(path, sizeof path, "%s/replica.key", directory);
	assert_int_equal(key_file_create_channel(path, NULL, &own), 0);
	memcpy(cell_file->replicas[0].public_key, own.public, NOISE_KEY);
	snprintf(path, sizeof path, "%s/cell.conf", directory);
	assert_int_equal(cell_file_replace(path, cell_file), 0);
}

SERVER_TEST(test_stopped_while_the_cell_file_is_written)
{
	struct driver d = {0};
	struct server_process_config config = {.directory = directory};
	struct cell_file cell_file;

	make_networked(&cell_file);
	closing.driver = &d;
	assert_int_equal(uv_sem_init(&closing.go, 0), 0);
	assert_int_equal(uv_sem_init(&closing.written, 0), 0);
	assert_int_equal(uv_loop_init(&d.loop), 0);
	d.process = server_process_open(&config, why, sizeof why);
	if (d.process == NULL || !server_process_start(d.process, &d.loop, why, sizeof why))
		fail_msg("%s", why);
	closing.held = true;
	process_io(d.process).directory.write_cell_file(d.process, &cell_file,
	                                                &d.process->identity->signing);
	server_process_stop(d.process, on_stopped, &d);
	assert_int_equal(uv_run(&d.loop, UV_RUN_DEFAULT), 0);
	assert_true(d.stopped);
	assert_int_equal(uv_loop_close(&d.loop), 0);
	closing.held = false;
	uv_sem_destroy(&closing.go);
	uv_sem_destroy(&closing.written);
}

/* ---- the data directory ---- */

static void
path_of(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s", directory, name);
}

static void
put_file(const char *name, const char *text)
{
	char path[128];
	FILE *file;

	path_of(path, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static bool
prepare(const char *cell)
{
	struct cell_file cell_file;

	why[0] = '\0';
	return standalone_prepare(directory, cell, &cell_file, why, sizeof why);
}

static void
assert_refused(const char *reason)
{
	struct server_process_config config = {.directory = directory};

	if (prepare("local") && server_process_open(&config, why, sizeof why) != NULL)
		fail_msg("accepted, although: %s", reason);
	if (strstr(why, reason) == NULL || strchr(why, '\n') != NULL)
		fail_msg("\"%s\" does not say \"%s\"", why, reason);
}

SERVER_TEST(test_made)
{
	struct cell_file cell_file;
	struct stat st;
	char path[128];

	remove_directory();
	assert_false(prepare("no/name"));
	assert_int_not_equal(access(directory, F_OK), 0);
	assert_true(prepare("first"));
	assert_int_equal(stat(directory, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0700);
	path_of(path, "signing.key");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	put_file("note", "files may be added later");
	assert_true(standalone_prepare(directory, "second", &cell_file, why, sizeof why));
	assert_string_equal(cell_file.name, "first"); /* it is one already: nothing happens to it */
}

SERVER_TEST(test_foreign)
{
	char path[128];

	remove_directory();
	assert_int_equal(mkdir(directory, 0755), 0);
	put_file("thesis.tex", "years of work");
	assert_refused("not an lsfs data directory: ");
	assert_non_null(strstr(why, "holds thesis.tex"));
	path_of(path, "lock");
	assert_int_not_equal(access(path, F_OK), 0); /* nothing was changed */
	path_of(path, "thesis.tex");
	unlink(path);
	rmdir(directory);
}

SERVER_TEST(test_a_file_in_place)
{
	FILE *file;

	remove_directory();
	file = fopen(directory, "w");
	assert_non_null(file);
	fclose(file);
	assert_refused("Not a directory");
	unlink(directory);
}

SERVER_TEST(test_first_start_broken_off)
{
	static const char *const left[] = {NULL, "lock", "signing.key.new", "cell.conf.new"};
	struct driver d;

	for (size_t i = 0; i < sizeof left / sizeof left[0]; i++) {
		remove_directory();
		assert_int_equal(mkdir(directory, 0700), 0);
		if (left[i] != NULL)
			put_file(left[i], "ha");
		start(&d);
		stop(&d);
	}
}

SERVER_TEST(test_key_before_the_cell_file)
{
	struct cell_file before, after;
	char path[128];
	struct driver d;

	remove_directory();
	assert_true(standalone_prepare(directory, "local", &before, why, sizeof why));
	path_of(path, "cell.conf");
	unlink(path);
	assert_true(standalone_prepare(directory, "local", &after, why, sizeof why));
	assert_memory_equal(before.signing_public, after.signing_public, 32);
	start(&d);
	stop(&d);
}

SERVER_TEST(test_damaged)
{
	char path[128];

	remove_directory();
	assert_true(prepare("local"));
	path_of(path, "signing.key");
	assert_int_equal(chmod(path, 0644), 0);
	assert_refused("signing.key: others may read or write it");
	unlink(path);
	assert_refused("signing.key: No such file");
	put_file("signing.key", "signing AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n");
	chmod(path, 0600);
	assert_refused("not the key that is named in");
	put_file("cell.conf", "[cell]\nname = lo cal\n");
	assert_refused("cell.conf:2: name: not a cell's name: lo cal");
}

/* Of a replica that joins, which its cell file calls a learner, the signing key may be missing; of
 * no other one. */
SERVER_TEST(test_joins)
{
	struct cell_file cell_file = {.name = "dc1", .has_admin = true, .replicas_n = 2};
	struct identity identity;
	struct noise_pair pair;
	char path[128];

	remove_directory();
	assert_int_equal(mkdir(directory, 0700), 0);
	path_of(path, "replica.key");
	assert_int_equal(key_file_create_channel(path, NULL, &pair), 0);
	cell_file.replicas[0] = (struct cell_file_replica){
	    .id = 3,
	    .role = MEMBER_VOTER,
	    .address = "127.0.0.1:7003",
	};
	cell_file.replicas[1] = (struct cell_file_replica){
	    .id = 9,
	    .role = MEMBER_LEARNER,
	    .address = "127.0.0.1:7009",
	};
	memcpy(cell_file.replicas[1].public_key, pair.public, NOISE_KEY);
	path_of(path, "cell.conf");
	assert_int_equal(cell_file_write(path, &cell_file), 0);
	assert_true(identity_read(directory, &identity, why, sizeof why));
	assert_int_equal(identity.signing.n, 0);
	assert_refused(": a replica of cell dc1: run it with lscell");

	unlink(path);
	cell_file.replicas[1].role = MEMBER_VOTER;
	assert_int_equal(cell_file_write(path, &cell_file), 0);
	assert_false(identity_read(directory, &identity, why, sizeof why));
	assert_non_null(strstr(why, "signing.key: No such file"));
}

int
main(void)
{
	log_start("test_server", LEVEL_ERROR);
	return unit_run(NULL, NULL);
}
