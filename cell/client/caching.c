/* Leave to cache, and what becomes of the cache without it. The cell gives leave with KeepAlive
 * replies, for one generation of the cache; before it changes what may be cached, it sends an
 * invalidation and waits for the acknowledgement, but no longer than the leave lasts. */
#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/client/internal.h"

enum { IDLE_S = 10 }; /* without a read, after which no further leave is requested */

void
client_caching_begin(struct client *c)
{
	struct client_caching *k = &c->caching;

	cache_begin(&k->cache, c->config.cached > 0 ? c->config.cached : LIMIT_CACHED);
	TAILQ_INIT(&k->debts);
	TAILQ_INIT(&k->given);
	k->generation = c->config.caching;
	k->used = c->now;
}

/* ---- the driver is asked to invalidate ---- */

static uint64_t
ask(struct client *c)
{
	if (c->update->invalidation == 0)
		c->update->invalidation = ++c->caching.invalidation;
	return c->update->invalidation;
}

static void
ask_node(struct client *c, uint64_t node)
{
	struct client_update *u = c->update;

	ARRAY_ROOM(u->invalid, u->invalid_n, u->invalid_room);
	u->invalid[u->invalid_n++] = node;
}

static struct caching_debt *
debt_new(struct client *c)
{
	struct caching_debt *d = memory_zero(1, sizeof *d);

	d->invalidation = ask(c);
	TAILQ_INSERT_TAIL(&c->caching.debts, d, entry);
	return d;
}

static void
debt_free(struct debt_list *list, struct caching_debt *d)
{
	TAILQ_REMOVE(list, d, entry);
	buffer_free(&d->nodes);
	free(d);
}

static void
debts_free(struct client *c)
{
	struct client_caching *k = &c->caching;

	while (!TAILQ_EMPTY(&k->debts))
		debt_free(&k->debts, TAILQ_FIRST(&k->debts));
	while (!TAILQ_EMPTY(&k->given))
		debt_free(&k->given, TAILQ_FIRST(&k->given));
}

/* ---- generations ---- */

bool
client_caching_shown(const struct client *c)
{
	return c->caching.unshown == 0;
}

/* The generation of the cache, for requests; 0 if none is shown. */
static uint64_t
shown_generation(const struct client *c)
{
	return client_caching_shown(c) ? c->caching.generation : 0;
}

/* True if the requests show this generation to the master: leave for any other does not count. */
static bool
is_shown(const struct client *c, uint64_t generation)
{
	return generation != 0 && generation == shown_generation(c);
}

/* A session that reads nothing lets its leave lapse: writers need not wait for an idle mount,
 * neither while it is cut off nor at a fail-over. */
bool
client_caching_wanted(const struct client *c)
{
	return c->caching.generation != 0 &&
	       mono_before(c->now, mono_add(c->caching.used, span_s(IDLE_S)));
}

uint64_t
client_caching_asks(const struct client *c)
{
	return client_caching_wanted(c) ? shown_generation(c) : 0;
}

/* The order is that of a single invalidation: the cache here, then the driver's, and only then is
 * the higher generation shown, which ends what the master has registered for the lower one. */
void
client_caching_drop(struct client *c, const char *why)
{
	struct client_caching *k = &c->caching;
	const bool told = !k->kept && TAILQ_EMPTY(&k->debts) && k->unshown == 0;

	if (k->generation == 0)
		return;
	if (k->granted || k->kept)
		CLIENT_TRACE(c, "the cache of generation %llu is dropped: %s",
		             (unsigned long long)k->generation, why);
	k->generation++;
	k->drops += k->kept;
	k->granted = k->kept = false;
	k->leave = 0; /* the next master counts anew */
	debts_free(c);
	cache_drop_all(&k->cache, c->requests.next_number);
	if (told)
		return;
	k->unshown = ask(c);
	c->update->invalid_all = true;
}

void
client_caching_forget(struct client *c)
{
	client_caching_drop(c, "the session is over");
	c->caching.closes = 0;
	cache_end(&c->caching.cache);
}

void
client_caching_end(struct client *c)
{
	debts_free(c);
	cache_end(&c->caching.cache);
}

/* ---- leave ---- */

/* Leave that has ended when it arrives still counts as given: for this generation the cell gives
 * none again. */
void
client_caching_renew(struct client *c, const struct msg_keepalive_reply *m)
{
	struct client_caching *k = &c->caching;
	const mono_t end = client_keepalive_until(c, m->cache_ms);

	if (m->cache_ms == 0 || !is_shown(c, m->generation))
		return;
	if (mono_reached(c->now, mono_min(end, c->keepalive.lease_end))) {
		if (!k->granted)
			client_caching_drop(c, "the leave to cache was over when it arrived");
		return;
	}
	k->leave_end = k->granted ? mono_max(k->leave_end, end) : end;
	k->granted = true;
	CLIENT_TRACE(c, "generation %llu may be cached for %lld ms",
	             (unsigned long long)k->generation, client_ms_until(c, k->leave_end));
}

bool
client_caches(const struct client *c, uint64_t node, mono_t now)
{
	return c->caching.granted && mono_before(now, c->caching.leave_end) &&
	       cache_has(&c->caching.cache, node);
}

/* While there is leave no cached node changes anywhere, so attributes that were read later are the
 * same ones. */
span_t
client_leave(const struct client *c, uint64_t node, uint64_t index, mono_t now)
{
	const struct client_caching *k = &c->caching;

	if (!k->granted || !mono_before(now, k->leave_end) || !cache_knows(&k->cache, node, index))
		return (span_t){0};
	return mono_since(k->leave_end, now);
}

/* ---- requests and replies ---- */

static bool
is_of_directory(const struct cache_answer *a)
{
	const struct attr *attr = wire_result_attr(&a->result);

	return a->result.kind == RESULT_listing || (attr != NULL && attr->kind == NODE_DIRECTORY);
}

/* An answer from the cache is one of this moment, as the cell would give it: while there is leave,
 * nothing of it can be changed anywhere. Of locks, and so of guards, the cache knows nothing. A
 * close may delete the ephemeral file, whose directories the session need not know. */
static bool
is_cached(struct client *c, const struct client_request *r, struct cache_answer *a)
{
	return c->caching.granted && r->guard.node == 0 &&
	       cache_answer(&c->caching.cache, &r->decoded, r->user, r->opened.rights, a) &&
	       (c->caching.closes == 0 || !is_of_directory(a));
}

bool
client_caching_answer(struct client *c, const struct client_request *r)
{
	struct cache_answer a;
	struct client_answer *answer;

	if (r->slot != SLOT_READ)
		return false;
	c->caching.used = c->now;
	if (!is_cached(c, r, &a)) {
		c->caching.misses++;
		return false;
	}
	c->caching.hits++;
	CLIENT_TRACE(c, "%s of node %llu is answered from the cache: %s, index %llu",
	             wire_op(r->code)->name, (unsigned long long)r->node, rc_name(a.rc),
	             (unsigned long long)a.index);
	answer = client_request_answer(c, r->token, a.rc);
	answer->index = a.index;
	answer->cached = true;
	answer->result = a.result;
	client_request_note_rights(answer, a.check);
	return true;
}

void
client_caching_submitted(struct client *c, struct client_request *r)
{
	if (r->slot == SLOT_READ)
		return;
	c->caching.closes += r->code == OP_close_ephemeral;
	r->own_n = cache_own(&c->caching.cache, &r->decoded, r->node, r->own);
	cache_submitted(&c->caching.cache, r->own, r->own_n);
	for (size_t i = 0; i < r->own_n; i++)
		ask_node(c, r->own[i]);
}

void
client_caching_failed(struct client *c, const struct client_request *r)
{
	c->caching.closes -= r->code == OP_close_ephemeral;
	cache_answered(&c->caching.cache, r->own, r->own_n, 0, c->requests.next_number);
}

/* The least recently used entries are given back, so that the master registers new ones. */
static void
shrink(struct client *c)
{
	struct cache_nodes given = {0};
	struct caching_debt *d;

	cache_shrink(&c->caching.cache, &given);
	d = debt_new(c);
	d->nodes = BUFFER(LIMIT_FRAME);
	d->nodes_n = (uint32_t)given.n;
	d->leave = c->caching.leave;
	for (size_t i = 0; i < given.n; i++) {
		ask_node(c, given.node[i]);
		wire_put_node_key(&d->nodes, &(struct node_key){given.node[i]});
	}
	CLIENT_TRACE(c, "%zu nodes are given back", given.n);
	free(given.node);
}

void
client_caching_on_reply(struct client *c, const struct client_request *r, const struct msg_reply *m,
                        const struct result *result)
{
	const struct cache_reply reply = {r->number, r->user, m->check, m->rc,
	                                  m->index,  result,  m->result};
	const struct client_request *oldest = TAILQ_FIRST(&c->requests.in_flight);
	const uint64_t next = c->requests.next_number;
	struct client_caching *k = &c->caching;
	/* A reply that was held back may be older than an invalidation that was handled since. */
	const bool kept =
	    m->leave != 0 && is_shown(c, m->generation) && k->granted && !c->replies.held;

	if (kept) {
		k->kept = true;
		k->leave = k->leave > m->leave ? k->leave : m->leave;
	}
	k->closes -= r->code == OP_close_ephemeral;
	cache_answered(&k->cache, r->own, r->own_n, m->index, next);
	if (kept && cache_keep(&k->cache, &r->decoded, &reply))
		shrink(c);
	cache_settle(&k->cache, oldest == NULL ? next : oldest->number);
}

/* ---- invalidations ---- */

void
client_caching_on_invalidation(struct client *c, const struct msg_invalidation *m)
{
	const uint64_t next = c->requests.next_number;
	struct cursor rest = cursor_of(m->nodes.packed);
	struct node_key key;

	if (m->generation != c->caching.generation) {
		CLIENT_TRACE(c, "notice %llu is ignored: generation %llu was dropped",
		             (unsigned long long)m->notice, (unsigned long long)m->generation);
		return;
	}
	CLIENT_TRACE(c, "notice %llu invalidates %s (%u)", (unsigned long long)m->notice,
	             m->everything ? "everything" : "nodes", m->nodes.count);
	c->caching.invalidations++;
	if (m->everything)
		cache_drop_all(&c->caching.cache, next);
	c->update->invalid_all |= m->everything;
	while (wire_next_node_key(&rest, &key)) {
		cache_drop(&c->caching.cache, key.node, next);
		ask_node(c, key.node);
	}
	debt_new(c)->upto = m->notice;
}

static void
send_dropped(struct client *c, uint64_t upto, const struct caching_debt *given)
{
	struct message m = {
	    .code = MSG_dropped,
	    .dropped =
	        {
	            .session = c->session.id,
	            .epoch = c->session.epoch,
	            .generation = c->caching.generation,
	            .upto = upto,
	        },
	};

	if (c->connection.state != CONNECTION_OPEN)
		return; /* the next connection shows a higher generation */
	if (given != NULL) {
		m.dropped.leave = given->leave;
		m.dropped.nodes.packed = buffer_view(&given->nodes);
		m.dropped.nodes.count = given->nodes_n;
	}
	MESSAGE_TRACE(c->config.trace, "sends dropped: generation %llu, up to notice %llu",
	              (unsigned long long)m.dropped.generation, (unsigned long long)upto);
	client_send(c, &m);
}

void
client_caching_on_invalidated(struct client *c, uint64_t invalidation)
{
	struct client_caching *k = &c->caching;
	struct caching_debt *d;
	uint64_t upto = 0;

	while ((d = TAILQ_FIRST(&k->debts)) != NULL && d->invalidation <= invalidation) {
		upto = d->upto > upto ? d->upto : upto;
		if (d->nodes_n == 0) {
			debt_free(&k->debts, d);
			continue;
		}
		/* The driver can take back attributes, but not the names that it has passed on. */
		d->due = mono_add(c->now, span_ms(CLIENT_PASSED_ON_MS));
		TAILQ_REMOVE(&k->debts, d, entry);
		TAILQ_INSERT_TAIL(&k->given, d, entry);
	}
	if (k->unshown != 0 && k->unshown <= invalidation) {
		k->unshown = 0;
		send_dropped(c, 0, NULL);
		client_session_invalidated(c);
	} else if (upto > 0) {
		send_dropped(c, upto, NULL);
	}
}

/* ---- the image ---- */

/* The master gave leave for what the other process has cached and passed on: all of that has to be
 * invalidated before a generation is shown again. */
void
client_caching_image(struct client *c, struct image *i)
{
	struct client_caching *k = &c->caching;

	IMAGE(i, k->generation);
	IMAGE(i, k->invalidation);
	IMAGE_TIME(i, k->used);
	if (image_reads(i))
		k->kept = k->generation != 0;
}

/* ---- time ---- */

void
client_caching_tick(struct client *c)
{
	struct debt_list *given = &c->caching.given;
	struct caching_debt *d;

	if (c->caching.granted && mono_reached(c->now, c->caching.leave_end))
		client_caching_drop(c, "the leave to cache is over");
	while ((d = TAILQ_FIRST(given)) != NULL && mono_reached(c->now, d->due)) {
		send_dropped(c, 0, d);
		debt_free(given, d);
	}
}

mono_t
client_caching_deadline(const struct client *c)
{
	const struct client_caching *k = &c->caching;
	const struct caching_debt *given = TAILQ_FIRST(&k->given);

	return mono_min(k->granted ? k->leave_end : MONO_NEVER, given ? given->due : MONO_NEVER);
}
