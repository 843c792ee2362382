/* The check digits that clients were shown: of what, and to whom. All others are forged. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "tests/sim/sim.h"

struct shown_digits {
	RB_ENTRY(shown_digits) link;
	struct client_rights rights;
	uint64_t session;
	struct bytes user; /* owned */
};

static int
digits_compare(const struct shown_digits *a, const struct shown_digits *b)
{
	return memcmp(a->rights.check, b->rights.check, LIMIT_CHECK);
}

RB_GENERATE_INTERNAL(digits_tree, shown_digits, link, digits_compare,
                     __attribute__((unused)) static)

static bool
are_of(const struct shown_digits *d, uint64_t session, struct bytes user,
       const struct client_rights *rights)
{
	return d->session == session && bytes_equal(d->user, user) &&
	       d->rights.node == rights->node && d->rights.rights == rights->rights;
}

static struct shown_digits *
find(struct sim *s, const struct client_rights *rights)
{
	struct shown_digits like = {.rights = *rights};

	return RB_FIND(digits_tree, &s->history.digits, &like);
}

void
digits_shown(struct sim *s, uint64_t session, struct bytes user, const struct client_rights *rights)
{
	struct shown_digits *d = find(s, rights);

	if (d != NULL && !are_of(d, session, user, rights))
		sim_fail(s, "session %lu is shown the check digits of other rights",
		         (unsigned long)session);
	if (d != NULL)
		return;
	d = memory_zero(1, sizeof *d);
	d->rights = *rights;
	d->session = session;
	d->user = bytes_copy(user);
	must(RB_INSERT(digits_tree, &s->history.digits, d) == NULL);
}

void
digits_note(struct sim *s, struct record *r, struct bytes digits, const struct result *result)
{
	const struct attr *attr = wire_result_attr(result);

	if (attr == NULL || digits.len != LIMIT_CHECK)
		return;
	r->opens = (struct client_rights){.node = attr->node, .rights = wire_result_rights(result)};
	memcpy(r->opens.check, digits.data, LIMIT_CHECK);
	digits_shown(s, r->session, r->user, &r->opens);
}

static bool
is_forged(struct sim *s, const struct record *r)
{
	const struct shown_digits *d = find(s, &r->through);

	return r->through.rights != 0 &&
	       (d == NULL || !are_of(d, r->session, r->user, &r->through) ||
	        wire_op_node(&r->op) != r->through.node);
}

/* A master that has neither of the keys in force signs with one that is not. */
bool
digits_doubtful(const struct sim *s, const struct record *r)
{
	return r->through.rights != 0 && s->model.keys.rotations > 0;
}

bool
digits_prove(struct sim *s, const struct record *r)
{
	return r->through.rights != 0 && !is_forged(s, r);
}

bool
digits_allow(struct sim *s, const struct record *r, uint8_t handle_rights)
{
	if (is_forged(s, r))
		return handle_rights == 0;
	return handle_rights == r->through.rights || (handle_rights == 0 && digits_doubtful(s, r));
}

void
digits_free(struct history *h)
{
	struct shown_digits *d;

	while ((d = RB_MIN(digits_tree, &h->digits)) != NULL) {
		RB_REMOVE(digits_tree, &h->digits, d);
		free((void *)d->user.data);
		free(d);
	}
}
