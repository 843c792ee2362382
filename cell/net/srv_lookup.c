#include "cell/net/srv_lookup.h"

#include <arpa/nameser.h>
#include <netdb.h>
#include <netinet/in.h>
#include <resolv.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/must.h"

enum {
	ANSWER_MAX = 16 * 1024, /* bytes */
	TARGETS_MAX = 64,       /* records of an answer; the others are ignored */
	FIXED = 6,              /* bytes of a record before the host: priority, weight, port */
};

/* A record of the answer: a host that offers the service. */
struct target {
	unsigned priority, weight, port;
	char host[NS_MAXDNAME];
};

/* ---- the answer ---- */

/* "." says that the service is not offered. */
static bool
take_target(ns_msg *answer, ns_rr *record, struct target *t)
{
	struct cursor c = cursor_of((struct bytes){ns_rr_rdata(*record), ns_rr_rdlen(*record)});
	struct bytes fixed = cursor_bytes(&c, FIXED);

	if (ns_rr_type(*record) != ns_t_srv || c.failed)
		return false;
	t->priority = ns_get16(fixed.data);
	t->weight = ns_get16(fixed.data + 2);
	t->port = ns_get16(fixed.data + 4);
	return ns_name_uncompress(ns_msg_base(*answer), ns_msg_end(*answer), fixed.data + FIXED,
	                          t->host, sizeof t->host) >= 0 &&
	       t->host[0] != '\0' && strcmp(t->host, ".") != 0;
}

/* Clients are few and replicas are asked in turn, so weights only decide about the order. */
static int
by_preference(const void *a, const void *b)
{
	const struct target *x = a, *y = b;

	if (x->priority != y->priority)
		return x->priority < y->priority ? -1 : 1;
	if (x->weight != y->weight)
		return x->weight > y->weight ? -1 : 1;
	return strcmp(x->host, y->host);
}

bool
srv_parse(struct bytes answer, struct srv_addresses *found)
{
	static struct target targets[TARGETS_MAX];
	ns_msg message;
	ns_rr record;
	size_t n = 0;

	found->n = 0;
	if (answer.len > INT32_MAX || ns_initparse(answer.data, (int)answer.len, &message) < 0)
		return false;
	for (int i = 0; i < ns_msg_count(message, ns_s_an) && n < TARGETS_MAX; i++) {
		if (ns_parserr(&message, ns_s_an, i, &record) < 0)
			return false;
		n += take_target(&message, &record, &targets[n]);
	}
	qsort(targets, n, sizeof *targets, by_preference);
	for (size_t i = 0; i < n && found->n < LIMIT_REPLICAS; i++) {
		char *to = found->list[found->n];
		const size_t room = sizeof found->list[0];
		const int len = snprintf(to, room, "%s:%u", targets[i].host, targets[i].port);

		found->n += len > 0 && (size_t)len < room;
	}
	return true;
}

/* ---- the question ---- */

bool
srv_lookup(const char *name, struct srv_addresses *found, char *why, size_t why_size)
{
	static uint8_t answer[ANSWER_MAX];
	struct __res_state resolver = {0};
	const char *reason = "the resolver can't be used";
	int len, error;

	found->n = 0;
	if (res_ninit(&resolver) == 0) {
		len = res_nsearch(&resolver, name, ns_c_in, ns_t_srv, answer, sizeof answer);
		error = resolver.res_h_errno;
		res_nclose(&resolver);
		if (len >= 0 && len <= ANSWER_MAX &&
		    srv_parse((struct bytes){answer, (size_t)len}, found) && found->n > 0)
			return true;
		reason = len >= 0                  ? "DNS gives no address that can be used"
		         : error == HOST_NOT_FOUND ? "there is no such name in DNS"
		         : error == NO_DATA        ? "the name has no SRV record"
		                                   : "DNS does not answer";
	}
	snprintf(why, why_size, "srv = %s: %s", name, reason);
	return false;
}

/* ---- its use ---- */

const char *
srv_address(const struct srv_addresses *a, const char *own, int index, unsigned time)
{
	unsigned first = (unsigned)index;

	must(a->n > 0);
	for (int i = 0; i < a->n; i++)
		if (strcmp(a->list[i], own) == 0)
			first = (unsigned)i;
	return a->list[(first + time) % (unsigned)a->n];
}
