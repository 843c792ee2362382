/* Outgoing connections. A host name may have several addresses: they are tried in turn, all before
 * the one deadline of the handshake. One that does not answer may take all that time: the next
 * connection to the peer begins with the address behind it. Host names are looked up in libuv's
 * thread pool, since that may block; numeric addresses are parsed at once. When a look-up does not
 * answer, the next connection to the peer is made to the address that its name had, as long as that
 * is good. */
#include <stdlib.h>
#include <string.h>

#include "cell/base/must.h"
#include "cell/net/stream.h"

static const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

static bool
copy_part(char *to, size_t size, const char *from, size_t len)
{
	if (len == 0 || len >= size)
		return false;
	memcpy(to, from, len);
	to[len] = '\0';
	return true;
}

bool
dialer_split(const char *address, char host[NI_MAXHOST], char port[NI_MAXSERV])
{
	const char *colon = strrchr(address, ':');
	const char *begin = address, *end = colon;

	if (colon == NULL)
		return false;
	if (*address == '[' && colon > address && colon[-1] == ']') {
		begin++;
		end--;
	}
	return copy_part(host, NI_MAXHOST, begin, (size_t)(end - begin)) &&
	       copy_part(port, NI_MAXSERV, colon + 1, strlen(colon + 1)) &&
	       strspn(port, "0123456789") == strlen(port);
}

void
dialer_free(struct dialer *d)
{
	if (d == NULL)
		return;
	must(!d->busy);
	uv_freeaddrinfo(d->found);
	free(d);
}

/* ---- several addresses ---- */

/* NULL: nothing is known of the peer. */
static struct dialed *
find_dialed(struct transport *n, const uint8_t key[NOISE_KEY])
{
	for (unsigned i = 0; i < DIALED_KEPT && i < n->dialed_n; i++)
		if (memcmp(n->dialed[i].key, key, NOISE_KEY) == 0)
			return &n->dialed[i];
	return NULL;
}

static void
begin_next_with(struct stream *s, const struct addrinfo *a, bool unanswered)
{
	struct transport *n = s->transport;
	struct dialed *d = find_dialed(n, s->dialer->key);

	if (d == NULL)
		d = &n->dialed[n->dialed_n++ % DIALED_KEPT];
	memcpy(d->key, s->dialer->key, NOISE_KEY);
	strcpy(d->address, s->dialer->address);
	memcpy(&d->next, a->ai_addr, a->ai_addrlen);
	d->unanswered = unanswered;
}

static struct addrinfo *
behind(const struct dialer *d, struct addrinfo *a)
{
	if (a->ai_next != NULL)
		return a->ai_next;
	return d->found != NULL ? d->found : a;
}

void
dialer_opened(struct stream *s)
{
	begin_next_with(s, s->dialer->at, s->dialer->found == NULL);
}

void
dialer_gives_up(struct stream *s)
{
	struct dialed *dialed = find_dialed(s->transport, s->dialer->key);

	if (s->dialer->at != NULL)
		begin_next_with(s, behind(s->dialer, s->dialer->at), false);
	else if (dialed != NULL)
		dialed->unanswered = true;
}

/* ---- to connect ---- */

static void dial(struct stream *s, struct addrinfo *a);

/* A socket that failed to connect can't be used again: the next address gets a new one in the same
 * struct. */
static void
on_abandoned(uv_handle_t *handle)
{
	struct stream *s = handle->data;

	if (s->state == STREAM_CLOSING) {
		transport_stream_closed(s);
		return;
	}
	must(uv_tcp_init(s->transport->loop, &s->tcp) == 0);
	dial(s, behind(s->dialer, s->dialer->at));
}

static void
dialer_failed(struct stream *s, int rc)
{
	if (s->state == STREAM_CLOSING)
		return;
	if (behind(s->dialer, s->dialer->at) != s->dialer->first)
		uv_close((uv_handle_t *)&s->tcp, on_abandoned);
	else
		stream_end(s, uv_strerror(rc));
}

static void
on_connected(uv_connect_t *request, int status)
{
	struct stream *s = request->handle->data;

	if (status < 0)
		dialer_failed(s, status);
	else if (s->state == STREAM_SHAKING)
		stream_start(s);
}

static void
dial(struct stream *s, struct addrinfo *a)
{
	struct dialer *d = s->dialer;
	int rc;

	d->at = a;
	rc = uv_tcp_connect(&d->connecting, &s->tcp, a->ai_addr, on_connected);
	if (rc < 0)
		dialer_failed(s, rc);
}

static void
dial_found(struct stream *s)
{
	const struct dialed *dialed = find_dialed(s->transport, s->dialer->key);
	struct dialer *d = s->dialer;

	d->first = d->found;
	for (struct addrinfo *a = d->found; dialed != NULL && a != NULL; a = a->ai_next)
		if (memcmp(&dialed->next, a->ai_addr, a->ai_addrlen) == 0)
			d->first = a;
	dial(s, d->first);
}

static void
on_resolved(uv_getaddrinfo_t *request, int status, struct addrinfo *found)
{
	struct stream *s = request->data;
	struct dialer *d = s->dialer;

	d->busy = false;
	d->found = found;
	if (s->state == STREAM_CLOSING)
		uv_close((uv_handle_t *)&s->tcp, on_abandoned);
	else if (status < 0 || found == NULL)
		stream_end(s, status < 0 ? uv_strerror(status) : "the name has no address");
	else
		dial_found(s);
}

void
dialer_start(struct stream *s, const char *address)
{
	const struct dialed *dialed = find_dialed(s->transport, s->dialer->key);
	struct dialer *d = s->dialer;
	struct addrinfo numeric = wanted;
	char host[NI_MAXHOST], port[NI_MAXSERV];
	int rc;

	numeric.ai_flags |= AI_NUMERICHOST;
	d->resolving.data = s;
	snprintf(d->address, sizeof d->address, "%s", address);
	if (!dialer_split(address, host, port)) {
		stream_end(s, "not an address HOST:PORT");
	} else if (getaddrinfo(host, port, &numeric, &d->found) == 0) {
		dial_found(s);
	} else if (dialed != NULL && dialed->unanswered &&
	           strcmp(dialed->address, d->address) == 0) {
		d->found = NULL;
		d->known_address = dialed->next;
		d->known.ai_addr = (struct sockaddr *)&d->known_address;
		d->known.ai_addrlen = sizeof d->known_address;
		d->first = &d->known;
		dial(s, d->first);
	} else {
		d->found = NULL;
		rc = uv_getaddrinfo(s->transport->loop, &d->resolving, on_resolved, host, port,
		                    &wanted);
		d->busy = rc == 0;
		if (rc < 0)
			stream_end(s, uv_strerror(rc));
	}
}
