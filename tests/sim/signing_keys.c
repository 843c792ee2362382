/* The signing keys that were put in force: a majority had each on disk, and at the end every member
 * has those that are. */
#include <sodium.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

struct signing {
	uint8_t public_key[SIGN_PUBLIC], secret[SIGN_SECRET];
};

/* The cell's first one, and the same in every run. */
static const struct signing *
signing(void)
{
	static const uint8_t seed[crypto_sign_SEEDBYTES] = "the simulated cell";
	static struct signing key;

	if (key.public_key[0] == 0)
		must(crypto_sign_seed_keypair(key.public_key, key.secret, seed) == 0);
	return &key;
}

const uint8_t *
signing_keys_public(void)
{
	return signing()->public_key;
}

void
signing_keys_first(struct key_files *files)
{
	*files = (struct key_files){.keys.n = 1};
	memcpy(files->keys.secret[0], signing()->secret, SIGN_SECRET);
}

void
signing_keys_identify(const struct host *n, struct identity *identity)
{
	struct cell_file *cell_file = &identity->cell_file;
	const struct key_files *keys = &n->disk.keys;

	cell_file->has_former = keys->named;
	cell_file->key_version = keys->version;
	memcpy(cell_file->signing_public, keys->named ? keys->newest : signing()->public_key,
	       SIGN_PUBLIC);
	memcpy(cell_file->former_public, keys->former, SIGN_PUBLIC);
	identity->signing = keys->keys;
}

/* The two halves of each belong together. */
void
signing_keys_check_written(struct sim *s, const struct host *n, const struct sign_keys *keys)
{
	uint8_t public_key[SIGN_PUBLIC], secret[SIGN_SECRET];

	for (int i = 0; i < keys->n; i++) {
		crypto_sign_seed_keypair(public_key, secret, keys->secret[i]);
		if (memcmp(secret, keys->secret[i], SIGN_SECRET) != 0)
			sim_fail(s, "replica %d keeps a signing key that is none", n->id);
	}
	/* What proposes the key may take long to be chosen; keys are written all the while. */
	if (!s->calm && s->swarm.operators > 1 && keys->n > 1 && n->disk.keys.keys.n > 0 &&
	    memcmp(keys->secret, n->disk.keys.keys.secret, sizeof keys->secret) != 0 &&
	    rng_chance(&s->rights.rng, 50))
		faults_all_stuck(s);
}

static bool
has_on_disk(const struct host *n, const uint8_t *public_key)
{
	return sign_keys_find(&n->disk.keys.keys, public_key) >= 0;
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
	int voters, having = having_on_disk(s, public_key, &voters);

	/* A voter with an old copy in the place of its data may have had the key before. */
	for (int id = 1; id <= s->hosts_n; id++)
		having += members_role(s, id) == MEMBER_VOTER && s->hosts[id - 1].disk.replaced &&
		          !has_on_disk(&s->hosts[id - 1], public_key);
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
}

void
signing_keys_name(const struct sim *s, struct host *n)
{
	const struct signing_keys *k = &s->model.keys;

	n->disk.keys.named = k->rotations > 0;
	n->disk.keys.version = k->rotations > 0 ? s->model.applied : 0;
	memcpy(n->disk.keys.newest, k->newest, SIGN_PUBLIC);
	memcpy(n->disk.keys.former, k->former, SIGN_PUBLIC);
}

void
signing_keys_check_end(struct sim *s)
{
	const struct signing_keys *k = &s->model.keys;

	for (int id = 1; id <= s->hosts_n; id++) {
		const struct host *n = &s->hosts[id - 1];

		if (members_role(s, id) != MEMBER_VOTER || !n->up)
			continue;
		if (k->rotations == 0 && !has_on_disk(n, signing()->public_key))
			sim_fail(s, "at the end replica %d lacks the signing key", id);
		if (k->rotations == 0)
			continue;
		if (!has_on_disk(n, k->newest) || !has_on_disk(n, k->former))
			sim_fail(s, "at the end replica %d lacks a signing key", id);
		if (!n->disk.keys.named || memcmp(n->disk.keys.newest, k->newest, SIGN_PUBLIC) != 0)
			sim_fail(s,
			         "at the end the cell file of replica %d names other signing keys",
			         id);
	}
}
