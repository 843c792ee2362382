/* An ephemeral file is deleted when no session has it open, and the cell does not know which
 * sessions have a permanent file open. So a session may make a file ephemeral only while no other
 * session has been told of it: the master remembers the files that sessions have created in this
 * epoch until an answer to another session shows them. Opens by commands (a create that finds the
 * file, a rename onto it) are in the log; for these the tree decides in apply.
 *
 * While a make_ephemeral is in flight, reads of the file by other sessions wait for it: their
 * answers would show the file as permanent. One is in flight at a time. */
#include <stdlib.h>
#include "cell/base/limit.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/internal.h"

/* A file of which only the session that created it has been told. */
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
unshared_find(struct unshared_files *u, uint64_t node)
{
	struct unshared_file like = {.node = node};

	return RB_FIND(unshared_tree, &u->by_node, &like);
}

static void
unshared_remove(struct unshared_files *u, struct unshared_file *f)
{
	RB_REMOVE(unshared_tree, &u->by_node, f);
	TAILQ_REMOVE(&u->order, f, entry);
	u->n--;
	free(f);
}

void
m_unshared_add(struct master *m, uint64_t node, uint64_t session)
{
	struct unshared_files *u = &m->unshared;
	struct unshared_file *f = memory_zero(1, sizeof *f);

	f->node = node;
	f->session = session;
	must(RB_INSERT(unshared_tree, &u->by_node, f) == NULL);
	TAILQ_INSERT_TAIL(&u->order, f, entry);
	if (++u->n > LIMIT_UNSHARED)
		unshared_remove(u, TAILQ_FIRST(&u->order));
}

void
m_unshared_deleted(struct master *m, uint64_t node)
{
	struct unshared_file *f = unshared_find(&m->unshared, node);

	if (f != NULL)
		unshared_remove(&m->unshared, f);
}

void
m_unshared_read(struct master *m, const struct m_request *r)
{
	struct unshared_file *f;

	for (size_t i = 0; i < r->footprint.n; i++) {
		f = unshared_find(&m->unshared, r->footprint.keys[i]);
		if (f != NULL && f->session != r->session->id)
			unshared_remove(&m->unshared, f);
	}
}

/* ---- the make_ephemeral in flight ---- */

static bool
touches(const struct m_request *r, uint64_t node)
{
	for (size_t i = 0; i < r->footprint.n; i++)
		if (r->footprint.keys[i] == node)
			return true;
	return false;
}

/* A make_ephemeral also waits until the reads behind the last one have begun. */
struct request_list *
m_unshared_wait_list(struct master *m, const struct m_request *r)
{
	struct unshared_files *u = &m->unshared;

	if (r->code == OP_make_ephemeral)
		return u->in_flight || !TAILQ_EMPTY(&u->reads) ? &u->changes : NULL;
	if (!u->in_flight || !r->read || r->session->id == u->session || !touches(r, u->node))
		return NULL;
	return &u->reads;
}

struct m_request *
m_unshared_next(struct master *m)
{
	struct unshared_files *u = &m->unshared;

	if (u->in_flight)
		return NULL;
	return TAILQ_EMPTY(&u->reads) ? TAILQ_FIRST(&u->changes) : TAILQ_FIRST(&u->reads);
}

void
m_unshared_begin(struct master *m, struct m_session *s, struct m_request *r)
{
	struct unshared_files *u = &m->unshared;
	const struct unshared_file *f = unshared_find(u, r->node);

	if ((f == NULL || f->session != s->id) && tree_sharing_matters(m->tree, s->id, r->node)) {
		M_TRACE(m,
		        "request %" PRIu64 ".%" PRIu64 ": node %" PRIu64 " stays permanent: "
		        "another session may have it open",
		        s->id, r->number, r->node);
		m_request_reply(m, s, r, RC_BUSY, (struct bytes){NULL, 0});
		return;
	}
	must(!u->in_flight);
	u->in_flight = true;
	u->node = r->node;
	u->session = s->id;
	u->number = r->number;
	m_propose_request(m, s, r);
	m_propose_flush(m);
}

void
m_unshared_applied(struct master *m, const struct tree_answer *answer)
{
	struct unshared_files *u = &m->unshared;

	if (answer->session == u->session && answer->number == u->number)
		u->in_flight = false;
}

/* ---- begin and end ---- */

void
m_unshared_init(struct master *m)
{
	TAILQ_INIT(&m->unshared.order);
	TAILQ_INIT(&m->unshared.reads);
	TAILQ_INIT(&m->unshared.changes);
}

void
m_unshared_clear(struct master *m)
{
	struct unshared_files *u = &m->unshared;

	must(TAILQ_EMPTY(&u->reads) && TAILQ_EMPTY(&u->changes));
	while (!TAILQ_EMPTY(&u->order))
		unshared_remove(u, TAILQ_FIRST(&u->order));
	u->in_flight = false;
}
