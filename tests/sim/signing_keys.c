/* The signing keys that were put in force: a majority had each on disk, and at the end every member
 * has those that are. */
#include <string.h>
#include "tests/sim/sim.h"

static bool
has_on_disk(const struct host *n, const uint8_t *public_key)
{
	const bool first = memcmp(first_start_public_key(), public_key, SIGN_PUBLIC) == 0;

	return sign_keys_find(&n->disk.keys.keys, public_key) >= 0 ||
	       (first && n->disk.has_key && n->disk.keys.keys.n == 0);
}

/* Of the voters, of whom there are `voters`. */
static int
having_on_disk(const struct sim *s, const uint8_t *public_key, int *voters)
{
	int having = 0;

	*voters = 0;
	for (int id = 1; id <= s->hosts_n; id++) {
		if (members_role(s, id) != MEMBER_VOTER)
			continue;
		++*voters;
		having += has_on_disk(&s->hosts[id - 1], public_key);
	}
	return having;
}

static void
check_majority(struct sim *s, const uint8_t *public_key)
{
	int voters;
	const int having = having_on_disk(s, public_key, &voters);

	if (2 * having < voters) /* a voter more may have come meanwhile */
		sim_fail(s, "a signing key is in force that %d of %d voters have on disk", having,
		         voters);
}

static void
check_lost(struct sim *s, const uint8_t *public_key)
{
	int voters;
	const int having = having_on_disk(s, public_key, &voters);

	if (2 * having > voters + 1) /* one may have got it meanwhile */
		sim_fail(s, "a signing key is taken for lost that %d of %d voters have on disk",
		         having, voters);
}

static void
run_refresh(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (n->body == 0 || n->disk.has_key)
		return;
	signing_keys_name(s, n);
	if (n->joining != NULL)
		host_down(s, n, 0);
}

/* A replica that was added, and does not run yet, waits for a key that its cell file names: its
 * operator brings that up to date. */
static void
refresh_newcomers(struct sim *s)
{
	for (int id = 1; id <= s->hosts_n; id++)
		heap_push(&s->heap,
		          (struct event){.at = s->now + SECOND, .run = run_refresh, .who = id - 1});
}

void
signing_keys_decide(struct sim *s, const struct op_rotate_key *op)
{
	struct signing_keys *k = &s->model.keys;

	const bool lost = op->lost.len > 0;

	if (k->rotations > 0 &&
	    memcmp(lost ? k->former : k->newest, op->former.data, SIGN_PUBLIC) != 0)
		return;
	if (lost)
		check_lost(s, op->lost.data);
	check_majority(s, op->key.data);
	memcpy(k->newest, op->key.data, SIGN_PUBLIC);
	memcpy(k->former, op->former.data, SIGN_PUBLIC);
	k->rotations++;
	k->at = s->now;
	refresh_newcomers(s);
}

void
signing_keys_name(const struct sim *s, struct host *n)
{
	const struct signing_keys *k = &s->model.keys;

	n->disk.keys.named = k->rotations > 0;
	memcpy(n->disk.keys.newest, k->newest, SIGN_PUBLIC);
	memcpy(n->disk.keys.former, k->former, SIGN_PUBLIC);
}

void
signing_keys_check_end(struct sim *s)
{
	const struct signing_keys *k = &s->model.keys;

	for (int id = 1; id <= s->hosts_n && k->rotations > 0; id++) {
		const struct host *n = &s->hosts[id - 1];

		if (members_role(s, id) != MEMBER_VOTER || !n->up)
			continue;
		if (!has_on_disk(n, k->newest) || !has_on_disk(n, k->former))
			sim_fail(s, "at the end replica %d lacks a signing key", id);
		if (!n->disk.keys.named || memcmp(n->disk.keys.newest, k->newest, SIGN_PUBLIC) != 0)
			sim_fail(s,
			         "at the end the cell file of replica %d names other signing keys",
			         id);
	}
}
