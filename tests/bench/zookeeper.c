/* zookeeper WORKLOAD CLIENTS SECONDS SERVERS: the same for ZooKeeper as `load` for files.
 *
 * Each client has a connection of its own, to one of the servers (host:port,host:port...), as
 * the library chooses. A lock is the recipe of ZooKeeper's documentation: the lowest of the
 * ephemeral, sequential children has it, and each waits for the one before it. A read is one that
 * cannot be stale, as those of a mount are: sync and get, sent together. */
#define THREADED
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zookeeper/zookeeper.h>

#include "tests/bench/times.h"

enum { LARGE = 256 * 1024, SMALL = 64, SESSION_MS = 10000 };

struct worker {
	zhandle_t *handle;
	sem_t connected, gone;
	char own[64];
	const char *locked;
};

static const char shared[] = "/bench/shared";
static const char *servers;
static char contents[LARGE];

static void
check(int rc, const char *what, const char *path)
{
	if (rc == ZOK)
		return;
	fprintf(stderr, "%s %s: %s\n", what, path, zerror(rc));
	exit(1);
}

static void
notice(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	struct worker *w = context;

	(void)handle;
	(void)path;
	if (type == ZOO_SESSION_EVENT && state == ZOO_CONNECTED_STATE)
		sem_post(&w->connected);
}

static void
reach(struct worker *w)
{
	if (w->handle != NULL)
		zookeeper_close(w->handle);
	w->handle = zookeeper_init(servers, notice, SESSION_MS, NULL, w, ZOO_NO_LOG_CLIENTENV);
	times_check(w->handle != NULL, "connect", servers);
	sem_wait(&w->connected);
}

/* Once more if the connection is lost, which is no failure of a load that goes on. */
static void
put(struct worker *w, int size)
{
	int rc;

	while ((rc = zoo_set(w->handle, w->own, contents, size, -1)) != ZOK) {
		if (is_unrecoverable(w->handle))
			reach(w);
		else if (rc != ZCONNECTIONLOSS && rc != ZOPERATIONTIMEOUT)
			check(rc, "set", w->own);
	}
}

static void
small(struct worker *w)
{
	put(w, SMALL);
}

static void
large(struct worker *w)
{
	put(w, LARGE);
}

static void
synced(int rc, const char *value, const void *data)
{
	(void)value;
	(void)data;
	check(rc, "sync", shared);
}

static void
get(struct worker *w)
{
	char buffer[SMALL];
	int size = sizeof buffer;

	check(zoo_async(w->handle, shared, synced, NULL), "sync", shared);
	check(zoo_get(w->handle, shared, 0, buffer, &size, NULL), "get", shared);
}

static void
deleted(zhandle_t *handle, int type, int state, const char *path, void *context)
{
	struct worker *w = context;

	(void)handle;
	(void)state;
	(void)path;
	if (type == ZOO_DELETED_EVENT)
		sem_post(&w->gone);
}

/* The one that stands right before this one in the queue; false: this one is the first. */
static bool
has_before(struct worker *w, const char *name, char *path, size_t size)
{
	struct String_vector all;
	const char *last = NULL;

	check(zoo_get_children(w->handle, w->locked, 0, &all), "children", w->locked);
	for (int i = 0; i < all.count; i++) {
		if (strcmp(all.data[i], name) < 0 &&
		    (last == NULL || strcmp(all.data[i], last) > 0))
			last = all.data[i];
	}
	if (last != NULL)
		snprintf(path, size, "%s/%s", w->locked, last);
	deallocate_String_vector(&all);
	return last != NULL;
}

static void
lock(struct worker *w)
{
	char own[128], before[256];

	snprintf(before, sizeof before, "%s/", w->locked);
	check(zoo_create(w->handle, before, NULL, -1, &ZOO_OPEN_ACL_UNSAFE,
	                 ZOO_EPHEMERAL_SEQUENTIAL, own, sizeof own),
	      "create", before);
	while (has_before(w, own + strlen(w->locked) + 1, before, sizeof before)) {
		struct Stat st;
		int rc = zoo_wexists(w->handle, before, deleted, w, &st);

		if (rc == ZNONODE)
			continue;
		check(rc, "exists", before);
		sem_wait(&w->gone);
	}
	check(zoo_delete(w->handle, own, -1), "delete", own);
}

static const struct workload {
	const char *name;
	void (*run)(struct worker *w);
} workloads[] = {
    {"write", small}, {"large", large}, {"read", get}, {"lock", lock}, {"handoff", lock},
};

static const struct workload *workload;

static void
work(void *argument)
{
	workload->run(argument);
}

static void
make(struct worker *w, const char *path)
{
	int rc = zoo_create(w->handle, path, contents, SMALL, &ZOO_OPEN_ACL_UNSAFE, ZOO_PERSISTENT,
	                    NULL, 0);

	check(rc == ZNODEEXISTS ? ZOK : rc, "create", path);
}

static void
prepare(struct worker *w, int i)
{
	sem_init(&w->connected, 0, 0);
	sem_init(&w->gone, 0, 0);
	reach(w);
	snprintf(w->own, sizeof w->own, "/bench/%d", i);
	make(w, "/bench");
	make(w, shared);
	make(w, w->own);
	w->locked = strcmp(workload->name, "handoff") == 0 ? shared : w->own;
}

int
main(int argc, char **argv)
{
	static struct worker workers[THREADS_MAX];
	int clients = argc == 5 ? atoi(argv[2]) : 0;

	for (size_t i = 0; i < sizeof workloads / sizeof workloads[0] && argc == 5; i++) {
		if (strcmp(workloads[i].name, argv[1]) == 0)
			workload = &workloads[i];
	}
	if (workload == NULL || clients < 1 || clients > THREADS_MAX) {
		fprintf(stderr, "usage: zookeeper WORKLOAD CLIENTS SECONDS SERVERS\n");
		return 2;
	}
	servers = argv[4];
	zoo_set_debug_level(0); /* a lost connection is no news */
	for (int i = 0; i < clients; i++)
		prepare(&workers[i], i);
	times_run(clients, atof(argv[3]), work, workers, sizeof *workers);
	for (int i = 0; i < clients; i++)
		zookeeper_close(workers[i].handle);
	return 0;
}
