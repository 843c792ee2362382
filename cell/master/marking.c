/* A permanent file becomes ephemeral: from then on it is deleted when no session has it open, and
 * the cell does not know which sessions have a permanent file open. So a session may mark only a
 * file of which no other session has been told: the master remembers the files that sessions have
 * made in this epoch until another session reads of them. Opens by commands (a create that finds
 * the file, a rename onto it) are in the log; for these the tree decides in apply.
 *
 * While a mark is in flight, reads of the file by other sessions wait for it: their answers would
 * show the file as permanent. One mark is in flight at a time. */
#include <stdlib.h>
#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* A file of which only the session that made it has been told. */
struct unshared_file {
	RB_ENTRY(unshared_file) link; /* by node */
	TAILQ_ENTRY(unshared_file) entry;
	uint64_t node, session;
};

static int
unshared_compare(const struct unshared_file *a, const struct unshared_file *b)
{
	return a->node < b->node ? -1 : a->node > b->node;
}

RB_GENERATE_INTERNAL(unshared_tree, unshared_file, link, unshared_compare,
                     __attribute__((unused)) static)

static struct unshared_file *
unshared_find(struct marking *k, uint64_t node)
{
	struct unshared_file like = {.node = node};

	return RB_FIND(unshared_tree, &k->files, &like);
}

static void
unshared_remove(struct marking *k, struct unshared_file *f)
{
	RB_REMOVE(unshared_tree, &k->files, f);
	TAILQ_REMOVE(&k->order, f, entry);
	k->files_n--;
	free(f);
}

void
m_marking_made(struct master *m, uint64_t node, uint64_t session)
{
	struct marking *k = &m->marking;
	struct unshared_file *f = memory_zero(1, sizeof *f);

	f->node = node;
	f->session = session;
	must(RB_INSERT(unshared_tree, &k->files, f) == NULL);
	TAILQ_INSERT_TAIL(&k->order, f, entry);
	if (++k->files_n > LIMIT_UNSHARED)
		unshared_remove(k, TAILQ_FIRST(&k->order));
}

void
m_marking_gone(struct master *m, uint64_t node)
{
	struct unshared_file *f = unshared_find(&m->marking, node);

	if (f != NULL)
		unshared_remove(&m->marking, f);
}

void
m_marking_told(struct master *m, const struct m_request *r)
{
	struct unshared_file *f;

	for (size_t i = 0; i < r->footprint.n; i++) {
		f = unshared_find(&m->marking, r->footprint.keys[i]);
		if (f != NULL && f->session != r->session->id)
			unshared_remove(&m->marking, f);
	}
}

/* ---- the mark in flight ---- */

static bool
touches(const struct m_request *r, uint64_t node)
{
	for (size_t i = 0; i < r->footprint.n; i++)
		if (r->footprint.keys[i] == node)
			return true;
	return false;
}

/* A mark also waits until the reads behind the last mark have begun. */
struct request_list *
m_marking_place(struct master *m, const struct m_request *r)
{
	struct marking *k = &m->marking;

	if (r->code == OP_make_ephemeral)
		return k->in_flight || !TAILQ_EMPTY(&k->reads) ? &k->marks : NULL;
	if (!k->in_flight || !r->read || r->session->id == k->session || !touches(r, k->node))
		return NULL;
	return &k->reads;
}

struct m_request *
m_marking_next(struct master *m)
{
	struct marking *k = &m->marking;

	if (k->in_flight)
		return NULL;
	return TAILQ_EMPTY(&k->reads) ? TAILQ_FIRST(&k->marks) : TAILQ_FIRST(&k->reads);
}

void
m_marking_begin(struct master *m, struct m_session *s, struct m_request *r)
{
	struct marking *k = &m->marking;
	const struct unshared_file *f = unshared_find(k, r->node);

	if ((f == NULL || f->session != s->id) && tree_sharing_matters(m->tree, s->id, r->node)) {
		m_request_reply(m, s, r, RC_BUSY, (struct bytes){NULL, 0});
		return;
	}
	must(!k->in_flight);
	k->in_flight = true;
	k->node = r->node;
	k->session = s->id;
	k->number = r->number;
	m_propose_request(m, s, r);
	m_propose_flush(m);
}

void
m_marking_applied(struct master *m, const struct tree_answer *answer)
{
	struct marking *k = &m->marking;

	if (answer->session == k->session && answer->number == k->number)
		k->in_flight = false;
}

/* ---- life ---- */

void
m_marking_init(struct master *m)
{
	TAILQ_INIT(&m->marking.order);
	TAILQ_INIT(&m->marking.reads);
	TAILQ_INIT(&m->marking.marks);
}

void
m_marking_clear(struct master *m)
{
	struct marking *k = &m->marking;

	must(TAILQ_EMPTY(&k->reads) && TAILQ_EMPTY(&k->marks));
	while (!TAILQ_EMPTY(&k->order))
		unshared_remove(k, TAILQ_FIRST(&k->order));
	k->in_flight = false;
}
