#include "cell/page/web.h"

#include <bsd/sys/queue.h>
#include <errno.h>
#include <microhttpd.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/net/stream.h"
#include "cell/sys/clock.h"

enum { REQUEST_BYTES = 8 * 1024, SWEEP_MS = 1000 };

/* A connection. */
struct guest {
	TAILQ_ENTRY(guest) link; /* unless it is being ended */
	bool ended;
	int fd;
	mono_t since;
};

struct web {
	struct web_config config;
	struct MHD_Daemon *daemon;
	struct web_answer *only_get;      /* to other methods */
	TAILQ_HEAD(guests, guest) guests; /* the oldest one first */
	size_t guests_n;
	uv_poll_t ready;
	uv_timer_t timer;
	int handles; /* that are still open */
	void (*closed)(void *user);
	void *closed_user;
};

struct web_answer {
	struct MHD_Response *response;
	unsigned status;
	int holds; /* of its maker, and of requests that are about to be answered with it */
};

struct request {
	struct web_request shown;
	struct web *web;
	struct MHD_Connection *connection;
	struct web_answer *answer; /* NULL if there is none yet */
	bool suspended;
};

/* ---- answers ---- */

struct web_answer *
web_answer_new(unsigned status, const char *type, struct bytes body)
{
	struct web_answer *a = memory_zero(1, sizeof *a);
	static const char *const headers[][2] = {
	    {MHD_HTTP_HEADER_CACHE_CONTROL, "no-store"},
	    {MHD_HTTP_HEADER_CONNECTION, "close"},
	    {"Content-Security-Policy",
	     "default-src 'none'; style-src 'unsafe-inline'; form-action 'none'; "
	     "frame-ancestors 'none'; base-uri 'none'"},
	    {"X-Content-Type-Options", "nosniff"},
	    {"Referrer-Policy", "no-referrer"},
	};

	a->status = status;
	a->holds = 1;
	a->response =
	    MHD_create_response_from_buffer(body.len, (void *)body.data, MHD_RESPMEM_MUST_FREE);
	must(a->response != NULL);
	must(MHD_add_response_header(a->response, MHD_HTTP_HEADER_CONTENT_TYPE, type) == MHD_YES);
	for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++)
		must(MHD_add_response_header(a->response, headers[i][0], headers[i][1]) == MHD_YES);
	return a;
}

void
web_answer_release(struct web_answer *a)
{
	if (a == NULL || --a->holds > 0)
		return;
	MHD_destroy_response(a->response);
	free(a);
}

/* ---- requests ---- */

/* Called when the head of a request is there, again when all of it is, and again when a suspended
 * connection goes on. */
static enum MHD_Result
on_request(void *user, struct MHD_Connection *connection, const char *path, const char *method,
           const char *version, const char *upload, size_t *upload_size, void **context)
{
	struct web *w = user;
	struct request *r = *context;

	(void)version;
	(void)upload;
	if (r == NULL) {
		if (strcmp(method, MHD_HTTP_METHOD_GET) != 0 &&
		    strcmp(method, MHD_HTTP_METHOD_HEAD) != 0)
			return MHD_queue_response(connection, w->only_get->status,
			                          w->only_get->response);
		*context = r = memory_zero(1, sizeof *r);
		r->web = w;
		r->connection = connection;
		return MHD_YES;
	}
	if (*upload_size > 0)
		return MHD_NO;
	if (r->answer == NULL) {
		w->config.request(w->config.user, &r->shown, path);
		if (r->answer == NULL) {
			r->suspended = true;
			MHD_suspend_connection(connection);
			return MHD_YES;
		}
	}
	return MHD_queue_response(connection, r->answer->status, r->answer->response);
}

static void
on_completed(void *user, struct MHD_Connection *connection, void **context,
             enum MHD_RequestTerminationCode how)
{
	struct request *r = *context;

	(void)user;
	(void)connection;
	(void)how;
	if (r == NULL)
		return;
	must(!r->suspended);
	web_answer_release(r->answer);
	free(r);
	*context = NULL;
}

/* ---- connections ---- */

static void
forget_guest(struct web *w, struct guest *g)
{
	if (g->ended)
		return;
	g->ended = true;
	TAILQ_REMOVE(&w->guests, g, link);
	w->guests_n--;
}

/* Ends the oldest one. libmicrohttpd notices it, as if the client had closed the connection: at
 * once, unless its request waits. */
static void
end_oldest(struct web *w)
{
	struct guest *g = TAILQ_FIRST(&w->guests);

	forget_guest(w, g);
	shutdown(g->fd, SHUT_RDWR);
}

static void
on_connection(void *user, struct MHD_Connection *connection, void **context,
              enum MHD_ConnectionNotificationCode what)
{
	struct web *w = user;
	struct guest *g = *context;

	if (what == MHD_CONNECTION_NOTIFY_STARTED) {
		*context = g = memory_zero(1, sizeof *g);
		g->fd = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD)
		            ->connect_fd;
		g->since = clock_now();
		TAILQ_INSERT_TAIL(&w->guests, g, link);
		if (++w->guests_n > WEB_GUESTS)
			end_oldest(w);
		return;
	}
	forget_guest(w, g);
	free(g);
	*context = NULL;
}

/* ---- the loop ---- */

static void turn(struct web *w);

static void
on_timer(uv_timer_t *timer)
{
	struct web *w = timer->data;
	const mono_t now = clock_now();

	while (
	    !TAILQ_EMPTY(&w->guests) &&
	    mono_reached(now, mono_add(TAILQ_FIRST(&w->guests)->since, span_ms(WEB_PATIENCE_MS))))
		end_oldest(w);
	turn(w);
}

static void
on_ready(uv_poll_t *poll, int status, int events)
{
	(void)status;
	(void)events;
	turn(poll->data);
}

static void
turn(struct web *w)
{
	MHD_UNSIGNED_LONG_LONG ms = SWEEP_MS;
	bool waits;

	MHD_run(w->daemon);
	waits = MHD_get_timeout(w->daemon, &ms) == MHD_YES;
	if (!waits || ms > SWEEP_MS)
		ms = SWEEP_MS;
	if (waits || w->guests_n > 0)
		must(uv_timer_start(&w->timer, on_timer, ms, 0) == 0);
	else
		must(uv_timer_stop(&w->timer) == 0);
}

void
web_reply(struct web_request *shown, struct web_answer *answer)
{
	struct request *r = (struct request *)shown;

	must(r->answer == NULL);
	answer->holds++;
	r->answer = answer;
	if (!r->suspended)
		return;
	r->suspended = false;
	MHD_resume_connection(r->connection);
	must(uv_timer_start(&r->web->timer, on_timer, 0, 0) == 0);
}

/* ---- beginning and end ---- */

int
web_listen(const char *address, bool *wrong, char *why, size_t why_size)
{
	const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	const bool port_only = strchr(address, ':') == NULL;
	char host[NI_MAXHOST], port[NI_MAXSERV], text[NI_MAXHOST];
	struct addrinfo *found = NULL;
	int fd = -1, rc, error = 0;

	snprintf(text, sizeof text, "%s%s", port_only ? "127.0.0.1:" : "", address);
	*wrong = !dialer_split(text, host, port) || atoi(port) > UINT16_MAX;
	if (*wrong) {
		snprintf(why, why_size, "%s: not an address HOST:PORT", address);
		return -1;
	}
	rc = getaddrinfo(host, port, &wanted, &found);
	if (rc != 0) {
		snprintf(why, why_size, "%s: %s", address, gai_strerror(rc));
		return -1;
	}
	fd = socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){1}, sizeof(int)) < 0 ||
	    bind(fd, found->ai_addr, found->ai_addrlen) < 0 || listen(fd, SOMAXCONN) < 0)
		error = errno;
	freeaddrinfo(found);
	if (error == 0)
		return fd;
	snprintf(why, why_size, "%s: can't listen there: %s", address, strerror(error));
	if (fd >= 0)
		close(fd);
	return -1;
}

static void
say_nothing(void *user, const char *format, va_list args)
{
	(void)user;
	(void)format;
	(void)args;
}

struct web *
web_open(const struct web_config *config)
{
	struct web *w = memory_zero(1, sizeof *w);
	int fd;

	w->config = *config;
	w->only_get = web_answer_new(MHD_HTTP_METHOD_NOT_ALLOWED, "text/plain; charset=utf-8",
	                             bytes_copy(bytes_of("only GET is answered here\n")));
	TAILQ_INIT(&w->guests);
	w->daemon =
	    MHD_start_daemon(MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ERROR_LOG, 0, NULL,
	                     NULL, on_request, w, MHD_OPTION_EXTERNAL_LOGGER, say_nothing, NULL,
	                     MHD_OPTION_LISTEN_SOCKET, config->listener,
	                     MHD_OPTION_CONNECTION_LIMIT, (unsigned)WEB_CONNECTIONS,
	                     MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)(WEB_PATIENCE_MS / 1000),
	                     MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)REQUEST_BYTES,
	                     MHD_OPTION_NOTIFY_CONNECTION, on_connection, w,
	                     MHD_OPTION_NOTIFY_COMPLETED, on_completed, w, MHD_OPTION_END);
	if (w->daemon == NULL) {
		web_answer_release(w->only_get);
		free(w);
		return NULL;
	}
	fd = MHD_get_daemon_info(w->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	must(uv_poll_init(config->loop, &w->ready, fd) == 0);
	must(uv_timer_init(config->loop, &w->timer) == 0);
	w->ready.data = w->timer.data = w;
	must(uv_poll_start(&w->ready, UV_READABLE, on_ready) == 0);
	w->handles = 2;
	return w;
}

static void
on_handle_closed(uv_handle_t *handle)
{
	struct web *w = handle->data;
	void (*closed)(void *user) = w->closed;
	void *user = w->closed_user;

	if (--w->handles > 0)
		return;
	MHD_stop_daemon(w->daemon);
	must(TAILQ_EMPTY(&w->guests));
	web_answer_release(w->only_get);
	free(w);
	closed(user);
}

/* What was answered just now still has a turn to be sent. */
void
web_close(struct web *w, void (*closed)(void *user), void *user)
{
	w->closed = closed;
	w->closed_user = user;
	MHD_run(w->daemon);
	uv_close((uv_handle_t *)&w->ready, on_handle_closed);
	uv_close((uv_handle_t *)&w->timer, on_handle_closed);
}
