#include "cell/server/internal.h"

#include <stdlib.h>
#include <string.h>

#include "cell/base/limit.h"
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"

TAILQ_HEAD(inbox_queues, inbox_queue);

struct inbox_queue {
	RB_ENTRY(inbox_queue) link;
	TAILQ_ENTRY(inbox_queue) turn; /* while it holds frames */
	struct inbox_principal *principal;
	uint64_t conn;
	struct frame_queue frames;
	size_t waiting, bytes;             /* frames, and their bytes */
	TAILQ_ENTRY(inbox_queue) stalling; /* while it has: */
	size_t unfinished;                 /* bytes of a frame that has come in part */
	bool session;                      /* they are counted as those of a session */
	mono_t since;                      /* when the wait for it began */
	struct keepalive_count {
		mono_t began;
		unsigned n; /* since then */
	} keepalives, datagrams;
};

struct inbox_principal {
	RB_ENTRY(inbox_principal) link;
	TAILQ_ENTRY(inbox_principal) turn; /* while one of its queues holds frames */
	uint8_t key[INBOX_KEY];
	size_t connections, waiting, bytes;
	size_t unfinished[2];      /* bytes of connections without a session, and with one */
	struct inbox_queues turns; /* its queues that hold frames */
	mono_t paid_until;         /* by its budget: what was handled */
};

static int
by_key(const struct inbox_principal *a, const struct inbox_principal *b)
{
	return memcmp(a->key, b->key, sizeof a->key);
}

KEYED_TREE(inbox_tree, inbox_queue, link, conn)
RB_GENERATE_INTERNAL(inbox_principals, inbox_principal, link, by_key,
                     __attribute__((unused)) static)

static struct inbox_queue *
find(const struct inbox *in, uint64_t conn)
{
	return inbox_tree_find(&in->queues, conn);
}

static struct inbox_principal *
find_principal(const struct inbox *in, const uint8_t key[INBOX_KEY])
{
	struct inbox_principal like;

	memcpy(like.key, key, sizeof like.key);
	return RB_FIND(inbox_principals, (struct inbox_principals *)&in->principals, &like);
}

/* ---- connections ---- */

void
inbox_connect(struct inbox *in, uint64_t conn, const uint8_t key[INBOX_KEY])
{
	struct inbox_queue *q = memory_zero(1, sizeof *q);

	q->conn = conn;
	q->principal = find_principal(in, key);
	if (q->principal == NULL) {
		struct inbox_principal *p = memory_zero(1, sizeof *p);

		memcpy(p->key, key, sizeof p->key);
		TAILQ_INIT(&p->turns);
		must(RB_INSERT(inbox_principals, &in->principals, p) == NULL);
		in->principals_n++;
		q->principal = p;
	}
	q->principal->connections++;
	TAILQ_INIT(&q->frames);
	must(RB_INSERT(inbox_tree, &in->queues, q) == NULL);
}

static void
leave_turns(struct inbox *in, struct inbox_queue *q)
{
	struct inbox_principal *p = q->principal;

	TAILQ_REMOVE(&p->turns, q, turn);
	if (TAILQ_EMPTY(&p->turns))
		TAILQ_REMOVE(&in->turns, p, turn);
}

static void
count_unfinished(struct inbox *in, struct inbox_queue *q, bool session, size_t bytes)
{
	q->principal->unfinished[q->session] -= q->unfinished;
	in->unfinished_bytes -= q->unfinished;
	q->session = session;
	q->unfinished = bytes;
	q->principal->unfinished[session] += bytes;
	in->unfinished_bytes += bytes;
}

static void
queue_free(struct inbox *in, struct inbox_queue *q)
{
	struct inbox_principal *p = q->principal;

	if (!TAILQ_EMPTY(&q->frames))
		leave_turns(in, q);
	if (q->unfinished > 0)
		TAILQ_REMOVE(&in->unfinished, q, stalling);
	count_unfinished(in, q, false, 0);
	RB_REMOVE(inbox_tree, &in->queues, q);
	in->bytes -= q->bytes;
	p->waiting -= q->waiting;
	p->bytes -= q->bytes;
	frame_queue_free(&q->frames);
	free(q);
	if (--p->connections > 0)
		return;
	if (in->latest_principal == p)
		in->latest_principal = NULL;
	RB_REMOVE(inbox_principals, &in->principals, p);
	in->principals_n--;
	free(p);
}

void
inbox_disconnect(struct inbox *in, uint64_t conn)
{
	struct inbox_queue *q = find(in, conn);

	if (q != NULL)
		queue_free(in, q);
}

size_t
inbox_connections(const struct inbox *in, const uint8_t key[INBOX_KEY])
{
	const struct inbox_principal *p = find_principal(in, key);

	return p != NULL ? p->connections : 0;
}

size_t
inbox_connections_beside(const struct inbox *in, uint64_t conn)
{
	const struct inbox_queue *q = find(in, conn);

	return q != NULL ? q->principal->connections : 0;
}

void
inbox_init(struct inbox *in, unsigned budget)
{
	memset(in, 0, sizeof *in);
	in->budget = budget;
	RB_INIT(&in->queues);
	RB_INIT(&in->principals);
	TAILQ_INIT(&in->turns);
	TAILQ_INIT(&in->unfinished);
	in->latest_at = in->latest_of_others_at = (mono_t){INT64_MIN}; /* long ago */
}

void
inbox_free(struct inbox *in)
{
	while (!RB_EMPTY(&in->queues))
		queue_free(in, RB_ROOT(&in->queues));
}

/* ---- frames ---- */

size_t
inbox_put(struct inbox *in, uint64_t conn, struct bytes frame)
{
	struct inbox_queue *q = find(in, conn);
	struct inbox_principal *p;

	if (q == NULL) {
		free((void *)frame.data);
		return 0;
	}
	p = q->principal;
	if (TAILQ_EMPTY(&p->turns))
		TAILQ_INSERT_TAIL(&in->turns, p, turn);
	if (TAILQ_EMPTY(&q->frames))
		TAILQ_INSERT_TAIL(&p->turns, q, turn);
	frame_queue_put(&q->frames, (struct queued_frame){.conn = conn, .frame = frame});
	q->bytes += frame.len;
	q->waiting++;
	p->waiting++;
	p->bytes += frame.len;
	in->bytes += frame.len;
	return q->bytes;
}

size_t
inbox_bytes(const struct inbox *in, uint64_t conn)
{
	const struct inbox_queue *q = find(in, conn);

	return q != NULL ? q->bytes : 0;
}

size_t
inbox_bytes_of_principal(const struct inbox *in, uint64_t conn)
{
	const struct inbox_queue *q = find(in, conn);

	return q != NULL ? q->principal->bytes + q->principal->unfinished[false] +
	                       q->principal->unfinished[true]
	                 : 0;
}

/* ---- unfinished frames ---- */

/* Restarts the time that an unfinished frame may take, if there is one. */
static void
restart_wait(struct inbox *in, struct inbox_queue *q, mono_t now)
{
	if (q->unfinished == 0)
		return;
	TAILQ_REMOVE(&in->unfinished, q, stalling);
	TAILQ_INSERT_TAIL(&in->unfinished, q, stalling);
	q->since = now;
}

size_t
inbox_set_unfinished(struct inbox *in, uint64_t conn, bool session, size_t bytes, bool fresh,
                     mono_t now)
{
	struct inbox_queue *q = find(in, conn);
	size_t before;

	if (q == NULL)
		return 0;
	before = q->unfinished;
	count_unfinished(in, q, session, bytes);
	if (before > 0 && bytes == 0)
		TAILQ_REMOVE(&in->unfinished, q, stalling);
	else if (before == 0 && bytes > 0)
		TAILQ_INSERT_TAIL(&in->unfinished, q, stalling);
	if (before == 0 || fresh)
		restart_wait(in, q, now);
	return q->principal->unfinished[session];
}

size_t
inbox_most_unfinished(const struct inbox *in)
{
	struct inbox_principal *p;
	size_t most = 0;

	RB_FOREACH(p, inbox_principals, (struct inbox_principals *)&in->principals)
		if (p->unfinished[false] + p->unfinished[true] > most)
			most = p->unfinished[false] + p->unfinished[true];
	return most;
}

static mono_t
stalled_at(const struct inbox_queue *q)
{
	return q != NULL ? mono_add(q->since, span_s(LIMIT_UNFINISHED_S)) : MONO_NEVER;
}

/* While frames of a connection wait here, nothing may be read from it, so the rest of an unfinished
 * frame is not late. */
bool
inbox_stalled(struct inbox *in, mono_t now, uint64_t *conn)
{
	struct inbox_queue *q;

	while (mono_reached(now, stalled_at(q = TAILQ_FIRST(&in->unfinished)))) {
		if (q->waiting == 0) {
			*conn = q->conn;
			return true;
		}
		restart_wait(in, q, now);
	}
	return false;
}

/* ---- KeepAlives ---- */

static bool
count_keepalive(struct keepalive_count *c, mono_t now, unsigned most)
{
	if (c->n == 0 || mono_reached(now, mono_add(c->began, span_ms(INBOX_KEEPALIVES_MS))))
		*c = (struct keepalive_count){.began = now};
	if (c->n >= most)
		return false;
	c->n++;
	return true;
}

bool
inbox_keepalive(struct inbox *in, uint64_t conn, mono_t now, bool datagram)
{
	struct inbox_queue *q = find(in, conn);

	if (q == NULL)
		return true;
	return datagram ? count_keepalive(&q->datagrams, now, INBOX_DATAGRAMS)
	                : count_keepalive(&q->keepalives, now, INBOX_KEEPALIVES);
}

/* ---- budgets ---- */

/* When the principal has some of its budget, or need not have any. */
static mono_t
budget_free_at(const struct inbox *in, const struct inbox_principal *p)
{
	const mono_t other = in->latest_principal == p ? in->latest_of_others_at : in->latest_at;

	return mono_min((mono_t){p->paid_until.ns - span_ms(INBOX_BUDGET_MS / INBOX_AT_ONCE).ns},
	                mono_add(other, span_ms(INBOX_SHARED_MS)));
}

static bool
in_budget(const struct inbox *in, const struct inbox_principal *p, mono_t now)
{
	return mono_reached(now, budget_free_at(in, p));
}

bool
inbox_in_budget(const struct inbox *in, uint64_t conn, mono_t now)
{
	const struct inbox_queue *q = find(in, conn);

	return q != NULL && in_budget(in, q->principal, now);
}

void
inbox_charge(struct inbox *in, uint64_t conn, mono_t now, size_t len, size_t under_way)
{
	const uint64_t all = (uint64_t)span_ms(INBOX_BUDGET_MS).ns, n = 1 + len / INBOX_COUNTED;
	/* The part of the budget that the frame uses up, in time. */
	const span_t price = {(int64_t)(n < in->budget ? all * n / in->budget : all)};
	const struct inbox_queue *q = find(in, conn);
	struct inbox_principal *p;

	must(q != NULL);
	p = q->principal;
	/* Frames that were handled while no other principal sent use up one budget at most. */
	if (p->waiting + under_way >= INBOX_FREE)
		p->paid_until = mono_add(mono_min(mono_max(p->paid_until, now),
		                                  mono_add(now, span_ms(INBOX_BUDGET_MS))),
		                         price);
	if (in->latest_principal != p)
		in->latest_of_others_at = in->latest_at;
	in->latest_principal = p;
	in->latest_at = now;
}

mono_t
inbox_deadline(const struct inbox *in, mono_t now)
{
	const struct inbox_principal *p;
	mono_t first = stalled_at(TAILQ_FIRST(&in->unfinished));

	TAILQ_FOREACH(p, &in->turns, turn)
		if (!in_budget(in, p, now))
			first = mono_min(first, budget_free_at(in, p));
	return first;
}

/* ---- turns ---- */

/* The next connection in its budget whose first frame is ready; NULL if there is none. */
static struct inbox_queue *
next(const struct inbox *in, mono_t now,
     bool (*ready)(void *user, uint64_t conn, struct bytes frame), void *user)
{
	struct inbox_principal *p;
	struct inbox_queue *q;

	TAILQ_FOREACH(p, &in->turns, turn) {
		if (!in_budget(in, p, now))
			continue;
		TAILQ_FOREACH(q, &p->turns, turn)
			if (ready(user, q->conn, TAILQ_FIRST(&q->frames)->frame))
				return q;
	}
	return NULL;
}

bool
inbox_has(const struct inbox *in, mono_t now,
          bool (*ready)(void *user, uint64_t conn, struct bytes frame), void *user)
{
	return next(in, now, ready, user) != NULL;
}

bool
inbox_take(struct inbox *in, mono_t now,
           bool (*ready)(void *user, uint64_t conn, struct bytes frame), void *user,
           struct queued_frame *queued)
{
	struct inbox_queue *q = next(in, now, ready, user);
	struct inbox_principal *p;

	if (q == NULL)
		return false;
	p = q->principal;
	leave_turns(in, q);
	must(frame_queue_take(&q->frames, queued));
	q->bytes -= queued->frame.len;
	q->waiting--;
	p->waiting--;
	p->bytes -= queued->frame.len;
	in->bytes -= queued->frame.len;
	restart_wait(in, q, now);
	if (!TAILQ_EMPTY(&p->turns))
		TAILQ_REMOVE(&in->turns, p, turn);
	if (!TAILQ_EMPTY(&q->frames))
		TAILQ_INSERT_TAIL(&p->turns, q, turn);
	if (!TAILQ_EMPTY(&p->turns))
		TAILQ_INSERT_TAIL(&in->turns, p, turn);
	return true;
}
