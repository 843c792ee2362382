#include "ctl/replicas.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <poll.h>
#include <signal.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/store/dir_lock.h"
#include "cell/sys/clock.h"
#include "cell/sys/log.h"
#include "cell/sys/process.h"
#include "cell/view/ask.h"
#include "cell/view/health.h"
#include "cell/view/output.h"
#include "ctl/ctl.h"

enum {
	/* Below the kernel's range for outgoing connections, so that none of these can occupy the
	 * port of a replica that is being restarted. */
	PORT_FIRST = 20000,
	PORTS = 12000,
	PORT_TRIES = 1000,
	START_PATIENCE_S = 30,
	STOP_PATIENCE_S = 30,
	ASK_EVERY_MS = 50,
};

/* ---- addresses ---- */

static bool
port_free(int port)
{
	struct sockaddr_in address = {
	    .sin_family = AF_INET,
	    .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	    .sin_port = htons((uint16_t)port),
	};
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	bool is_free = fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0;

	if (fd >= 0)
		close(fd);
	return is_free;
}

static bool
port_given(const struct cell_file *cell_file, const char *address)
{
	for (int i = 0; i < cell_file->replicas_n; i++)
		if (strcmp(cell_file->replicas[i].address, address) == 0)
			return true;
	return false;
}

bool
replicas_addresses(struct cell_file *cell_file)
{
	char address[32];

	if (sodium_init() < 0)
		return log_error("no source of random numbers");
	for (int i = 0; i < cell_file->replicas_n; i++) {
		int port, tries = 0;

		do {
			if (tries++ == PORT_TRIES)
				return log_error("no free port on the loopback");
			port = PORT_FIRST + (int)randombytes_uniform(PORTS);
			snprintf(address, sizeof address, "127.0.0.1:%d", port);
		} while (port_given(cell_file, address) || !port_free(port));
		strcpy(cell_file->replicas[i].address, address);
	}
	return true;
}

/* ---- starting ---- */

struct starting {
	const char *directory;
	const struct cell_file *cell_file;
	struct started *started;
};

static void
path_of(char path[PATH_MAX], const char *directory, int id, const char *file)
{
	snprintf(path, PATH_MAX, "%.*s/%d%s", PATH_MAX - 64, directory, id, file);
}

static int
is_data_directory(const struct dirent *e)
{
	return cell_file_is_replica_directory(e->d_name);
}

/* Puts the ids of the data directories in DIR into `ids`; returns their number. */
static int
directories(const char *directory, int ids[LIMIT_REPLICA_ID])
{
	struct dirent **found = NULL;
	int all = scandir(directory, &found, is_data_directory, versionsort), n = 0;

	for (int i = 0; i < all; i++) {
		if (n < LIMIT_REPLICA_ID)
			ids[n++] = atoi(found[i]->d_name);
		free(found[i]);
	}
	free(found);
	return n;
}

static bool
start_one(struct starting *s, int i)
{
	char data[PATH_MAX], log[PATH_MAX], name[] = "lscell";
	char *const argv[] = {name, data, NULL};
	pid_t pid;

	path_of(data, s->directory, s->cell_file->replicas[i].id, "");
	path_of(log, s->directory, s->cell_file->replicas[i].id, "/log");
	if (access(data, F_OK) < 0 && errno == ENOENT) {
		log_warn("%s: there is no such directory: replica %d is not started", data,
		         s->cell_file->replicas[i].id);
		return true;
	}
	if (dir_lock_holder(data) > 0)
		return true;
	pid = program_start(argv, log);
	if (pid < 0)
		return false;
	s->started->pids[i] = pid;
	s->started->fds[i] = pidfd_open(pid, 0);
	return true;
}

/* Reports that a replica has ended; the last line of its log is the reason. */
static void
report_end(const struct starting *s, int i)
{
	const int id = s->cell_file->replicas[i].id;
	char path[PATH_MAX], text[1024] = "", *line;
	FILE *f;
	size_t n;

	path_of(path, s->directory, id, "/log");
	f = fopen(path, "re");
	if (f) {
		if (fseek(f, -(long)(sizeof text - 1), SEEK_END) < 0)
			rewind(f);
		n = fread(text, 1, sizeof text - 1, f);
		text[n] = '\0';
		fclose(f);
	}
	text[strlen(text) - (text[0] && text[strlen(text) - 1] == '\n')] = '\0';
	line = strrchr(text, '\n');
	log_error("replica %d has ended: %s (%s)", id, line ? line + 1 : text, path);
}

/* Reaps a replica that has ended, and reports it; false when none has. */
static bool
one_ended(struct starting *s)
{
	for (int i = 0; i < s->cell_file->replicas_n; i++) {
		pid_t *pid = &s->started->pids[i];

		if (!*pid || waitpid(*pid, NULL, WNOHANG) != *pid)
			continue;
		close(s->started->fds[i]);
		*pid = 0;
		report_end(s, i);
		return true;
	}
	return false;
}

/* Waits a little, at most until a replica ends. */
static void
pause_shortly(const struct starting *s)
{
	struct pollfd fds[LIMIT_REPLICAS];
	nfds_t n = 0;

	for (int i = 0; i < s->cell_file->replicas_n; i++)
		if (s->started->pids[i])
			fds[n++] = (struct pollfd){.fd = s->started->fds[i], .events = POLLIN};
	poll(fds, n, ASK_EVERY_MS);
}

static bool
all_there(const struct starting *s, const struct answer *answers)
{
	for (int i = 0; i < s->cell_file->replicas_n; i++)
		if (s->started->pids[i] && !answers[i].heard)
			return false;
	return answers_master(answers, s->cell_file->replicas_n) >= 0;
}

static bool
await_master(struct starting *s, const struct noise_pair *key)
{
	const mono_t deadline = mono_add(clock_now(), span_s(START_PATIENCE_S));
	struct answer answers[LIMIT_REPLICAS];

	for (;;) {
		if (one_ended(s) || !ask_replicas(s->cell_file, key, answers))
			return false;
		if (all_there(s, answers))
			return true;
		if (mono_reached(clock_now(), deadline)) {
			json_t *health = health_json(s->cell_file, answers), *problem;
			size_t i;

			json_array_foreach(json_object_get(health, "problems"), i, problem)
				log_error("%s: %s", json_text_of(problem, "object"),
				          json_text_of(problem, "what"));
			json_decref(health);
			return false;
		}
		pause_shortly(s);
	}
}

bool
replicas_start(const char *directory, const struct cell_file *cell_file,
               const struct noise_pair *key, struct started *started)
{
	struct starting s = {directory, cell_file, started};
	int ids[LIMIT_REPLICA_ID];
	const int n = directories(directory, ids);

	memset(started, 0, sizeof *started);
	for (int i = 0; i < n; i++)
		if (cell_file_find(cell_file, ids[i]) < 0)
			log_warn("%s/%d: replica %d was removed from the cell: not started",
			         directory, ids[i], ids[i]);
	for (int i = 0; i < cell_file->replicas_n; i++)
		if (!start_one(&s, i))
			return false;
	return await_master(&s, key);
}

void
replicas_let_go(struct started *started, bool run)
{
	for (int i = 0; i < LIMIT_REPLICAS; i++)
		if (started->pids[i] && !run)
			kill(started->pids[i], SIGTERM);
	for (int i = 0; i < LIMIT_REPLICAS; i++) {
		if (!started->pids[i])
			continue;
		if (!run)
			process_wait(started->fds[i], STOP_PATIENCE_S);
		close(started->fds[i]);
	}
}

/* ---- stopping ---- */

/* Sends SIGTERM to the process that has this data directory open; returns its pidfd, or -1 when
 * there is none. */
static int
ask_to_end(const char *data)
{
	pid_t pid;
	int fd;

	while ((pid = dir_lock_holder(data)) > 0) {
		fd = pidfd_open(pid, 0);
		/* The process that still holds the lock is the one that pidfd_open has opened: its
		 * pid was not reused in between. */
		if (fd >= 0 && dir_lock_holder(data) == pid) {
			/* It may be stopped. A SIGCONT after the SIGTERM could come so late that
			 * it undoes the stop of a debugger or a leak checker at the exit. */
			pidfd_send_signal(fd, SIGCONT, NULL, 0);
			pidfd_send_signal(fd, SIGTERM, NULL, 0);
			return fd;
		}
		if (fd >= 0)
			close(fd);
	}
	return -1;
}

bool
replicas_stop(const char *directory)
{
	int ids[LIMIT_REPLICA_ID], fds[LIMIT_REPLICA_ID], n = directories(directory, ids);
	char data[PATH_MAX];
	bool ok = true;

	for (int i = 0; i < n; i++) {
		path_of(data, directory, ids[i], "");
		fds[i] = ask_to_end(data);
	}
	for (int i = 0; i < n; i++) {
		if (fds[i] >= 0 && !process_wait(fds[i], STOP_PATIENCE_S)) {
			log_error("%s/%d: replica %d has not ended after %d s", directory, ids[i],
			          ids[i], STOP_PATIENCE_S);
			ok = false;
		}
		if (fds[i] >= 0)
			close(fds[i]);
	}
	return ok;
}
