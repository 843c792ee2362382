/* lscell: runs one replica of a cell in the foreground, until it is ended by a signal. */
#include <errno.h>
#include <getopt.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cell/base/must.h"
#include "cell/host/heap_trim.h"
#include "cell/host/server_process.h"
#include "cell/page/page.h"
#include "cell/page/web.h"
#include "cell/sys/confinement.h"
#include "cell/sys/log.h"
#include "cell/sys/process.h"
#include "cell/sys/run_dir.h"
#include "config.h"

enum { EXIT_FAILED = 1, EXIT_USAGE = 2 };

struct lscell {
	const char *directory;
	uv_loop_t loop;
	uv_signal_t terminate, interrupt;
	struct heap_trim heap;
	struct server_process *server;
	struct page *page; /* NULL if it has none */
	bool restarting;   /* the server was stopped in order to start it again */
	bool stopping, failed;
};

static void begin(struct lscell *l);

/* ---- stopping ---- */

static void
close_all(struct lscell *l)
{
	if (l->page != NULL)
		page_close(l->page);
	uv_close((uv_handle_t *)&l->terminate, NULL);
	uv_close((uv_handle_t *)&l->interrupt, NULL);
	heap_trim_stop(&l->heap);
}

/* The server has stopped: starts it again, or leaves nothing on the loop, so that uv_run
 * returns. */
static void
on_ended(void *user)
{
	struct lscell *l = user;

	l->server = NULL;
	if (l->stopping)
		close_all(l);
	else
		begin(l);
}

static void
end_what_runs(struct lscell *l)
{
	if (l->page != NULL)
		page_detach(l->page);
	server_process_stop(l->server, on_ended, l);
}

/* Stops the server; one that is being stopped for a restart is then not started again. */
static void
stop(struct lscell *l)
{
	if (l->stopping)
		return;
	l->stopping = true;
	if (!l->restarting)
		end_what_runs(l);
}

static void
on_signal(uv_signal_t *handle, int number)
{
	log_info("stops on signal %d", number);
	stop(handle->data);
}

static void
on_failed(void *user)
{
	struct lscell *l = user;

	l->failed = true;
	stop(l);
}

/* ---- beginning ---- */

static void
on_restart(void *user)
{
	struct lscell *l = user;

	if (l->stopping)
		return;
	log_info("begins again");
	l->restarting = true;
	end_what_runs(l);
}

static void
on_ready(void *user)
{
	(void)user;
	notify_manager("READY=1");
}

static void
begin(struct lscell *l)
{
	struct server_process_config config = {
	    .directory = l->directory,
	    .failed = on_failed,
	    .restart = on_restart,
	    .ready = on_ready,
	    .other_files = l->page != NULL ? PAGE_FILES : 0,
	    .user = l,
	};
	char why[512] = "";

	l->restarting = false;
	l->server = server_process_open(&config, why, sizeof why);
	if (l->server == NULL || !server_process_start(l->server, &l->loop, why, sizeof why)) {
		log_error("%s", why);
		l->failed = l->stopping = true;
		if (l->server != NULL)
			end_what_runs(l);
		else
			close_all(l);
		return;
	}
	if (l->page != NULL)
		page_attach(l->page, server_process_server(l->server));
}

/* A failed disk is noted in the run directory, too. */
static bool
confine(const char *directory)
{
	const char *directories[] = {directory, NULL, NULL};
	char run_dir[PATH_MAX], why[256];
	struct stat st;

	if (stat(directory, &st) == 0 && !S_ISDIR(st.st_mode))
		return log_error("%s: %s", directory, strerror(ENOTDIR));
	if (!confinement_drop_root(directory, why, sizeof why))
		return log_error("%s: %s", directory, why);
	if (run_dir_make(run_dir, sizeof run_dir) == 0)
		directories[1] = run_dir;
	if (!confinement_enter(directories, why, sizeof why))
		return log_error("can't be confined: %s", why);
	return true;
}

/* `listener`: of its page; negative if it has none. */
static int
run(const char *directory, int listener)
{
	struct lscell l = {.directory = directory};
	struct rlimit limit;

	/* Raises the limit of open files: every client has two connections. */
	if (getrlimit(RLIMIT_NOFILE, &limit) >= 0) {
		limit.rlim_cur = limit.rlim_max;
		if (setrlimit(RLIMIT_NOFILE, &limit) < 0)
			log_warn("can't raise the limit of open files");
	}

	must(uv_loop_init(&l.loop) == 0);
	must(heap_trim_start(&l.heap, &l.loop) == 0);
	if (!confine(directory))
		return EXIT_FAILED;
	log_as(LOG_SERVICE);

	signal(SIGPIPE, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	must(uv_signal_init(&l.loop, &l.terminate) == 0);
	must(uv_signal_init(&l.loop, &l.interrupt) == 0);
	l.terminate.data = l.interrupt.data = &l;
	must(uv_signal_start(&l.terminate, on_signal, SIGTERM) == 0);
	must(uv_signal_start(&l.interrupt, on_signal, SIGINT) == 0);

	if (listener >= 0)
		l.page = page_open(&l.loop, listener, directory);
	begin(&l);
	uv_run(&l.loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&l.loop) == 0);
	return l.failed ? EXIT_FAILED : 0;
}

/* ---- the command line ---- */

static void
help(void)
{
	puts("usage: lscell [-d] [--http ADDRESS] DATADIR\n"
	     "\n"
	     "Runs the replica whose data directory this is, as `lsctl cell create' has made it,\n"
	     "until SIGTERM or SIGINT. Logs to stderr.\n"
	     "\n"
	     "  -d, --debug         log the verdicts of the protocol, too\n"
	     "      --log=json      log JSON objects, one a line\n"
	     "      --http ADDRESS  serve a page about the cell, /metrics and /healthz to anyone "
	     "who\n"
	     "                      can connect: PORT of 127.0.0.1, or HOST:PORT\n"
	     "  -h, --help          show this\n"
	     "  -V, --version       show the version");
}

int
main(int argc, char **argv)
{
	static const struct option longs[] = {
	    {"debug", no_argument, NULL, 'd'},      {"help", no_argument, NULL, 'h'},
	    {"http", required_argument, NULL, 'p'}, {"log", required_argument, NULL, 'l'},
	    {"version", no_argument, NULL, 'V'},    {NULL, 0, NULL, 0},
	};
	static char name[] = "lscell";
	const char *http = NULL;
	char why[512];
	bool wrong;
	int letter, listener = -1;

	process_open_standard();
	process_close_inherited();
	if (argc > 0)
		argv[0] = name; /* the prefix of getopt's messages */
	log_start(name, LEVEL_INFO);
	while ((letter = getopt_long(argc, argv, "dhV", longs, NULL)) != -1) {
		switch (letter) {
		case 'd':
			log_start(name, LEVEL_DEBUG);
			break;
		case 'h':
			help();
			return process_end_output(0);
		case 'p':
			http = optarg;
			break;
		case 'l':
			if (strcmp(optarg, "json") != 0) {
				log_error("--log: '%s' is not json", optarg);
				return EXIT_USAGE;
			}
			log_as(LOG_JSON);
			break;
		case 'V':
			puts("lscell " PACKAGE_VERSION);
			return process_end_output(0);
		default: /* getopt has printed the error */
			return EXIT_USAGE;
		}
	}
	log_never_block();
	if (argc - optind != 1) {
		log_error("%s: one DATADIR is needed (see --help)",
		          optind == argc ? "missing argument" : argv[optind + 1]);
		return EXIT_USAGE;
	}
	if (http != NULL && (listener = web_listen(http, &wrong, why, sizeof why)) < 0) {
		log_error("--http: %s", why);
		return wrong ? EXIT_USAGE : EXIT_FAILED;
	}
	return run(argv[optind], listener);
}
