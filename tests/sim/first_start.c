/* The first start of a replica that was added to the cell: it has no signing key, requests it from
 * the members in its cell file (cell/server/joining.h), writes it, and starts again, as a server.
 */
#include <sodium.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/sim/sim.h"

struct signing {
	uint8_t public_key[SIGN_PUBLIC], secret[SIGN_SECRET];
};

/* The cell's, and the same in every run. */
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
first_start_public_key(void)
{
	return signing()->public_key;
}

void
first_start_key(const struct host *n, struct identity *identity)
{
	struct cell_file *cell_file = &identity->cell_file;
	const struct key_files *keys = &n->disk.keys;

	cell_file->has_former = keys->named;
	memcpy(cell_file->signing_public, keys->named ? keys->newest : signing()->public_key,
	       SIGN_PUBLIC);
	memcpy(cell_file->former_public, keys->former, SIGN_PUBLIC);
	identity->signing = keys->keys;
	if (keys->keys.n > 0 || !n->disk.has_key)
		return;
	identity->signing.n = 1;
	memcpy(identity->signing.secret[0], signing()->secret, SIGN_SECRET);
}

/* A key that can't be written ends the process, which its supervisor starts again. */
static void
run_key_written(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];
	const bool fails = n->full || n->disk.broken;

	if (n->joining == NULL || n->life != e->life || disk_puts_off(s, n, e))
		return;
	n->disk.broken = false;
	n->disk.has_key = !fails;
	if (!fails)
		n->disk.keys.keys = n->writing_keys.keys;
	sim_trace(s, "replica %d %s the cell's signing key", n->id,
	          fails ? "can't write" : "has written");
	host_down(s, n, fails ? sim_between(s, 0, SECOND) : 0);
}

/* The secret half, too, belongs to the key in its cell file. */
static bool
is_named(const struct host *n, struct bytes key)
{
	uint8_t public_key[SIGN_PUBLIC], secret[SIGN_SECRET];

	if (key.len != SIGN_SECRET)
		return false;
	crypto_sign_seed_keypair(public_key, secret, key.data);
	return memcmp(secret, key.data, SIGN_SECRET) == 0 &&
	       memcmp(public_key, n->identity.cell_file.signing_public, SIGN_PUBLIC) == 0;
}

/* The process does nothing else meanwhile. */
static void
keep(void *user, struct bytes key)
{
	struct host *n = user;
	struct sim *s = n->sim;

	if (n->key_has_come || !is_named(n, key))
		sim_fail(s, "replica %d takes a signing key that is not to be taken", n->id);
	n->key_has_come = true;
	n->writing_keys.keys = (struct sign_keys){.n = 1};
	memcpy(n->writing_keys.keys.secret[0], key.data, SIGN_SECRET);
	adversary_joining(s, n);
	n->spent += 1000 * sim_between(s, 50, 50 + 10 * s->swarm.disk_us);
	heap_push(&s->heap, (struct event){.at = s->now + n->spent,
	                                   .run = run_key_written,
	                                   .who = n->id - 1,
	                                   .life = n->life});
}

static void
run_expelled(struct sim *s, struct event *e)
{
	struct host *n = &s->hosts[e->who];

	if (n->joining != NULL && n->life == e->life)
		host_expelled(s, n);
}

static void
expelled(void *user)
{
	struct host *n = user;

	heap_push(&n->sim->heap, (struct event){.at = n->sim->now,
	                                        .run = run_expelled,
	                                        .who = n->id - 1,
	                                        .life = n->life});
}

void
first_start_crash(struct sim *s, struct host *n)
{
	if (!n->key_has_come || !rng_chance(&s->rng, 500) || n->disk.has_key)
		return;
	n->disk.has_key = true;
	n->disk.keys.keys = n->writing_keys.keys;
}

void
first_start_begin(struct sim *s, struct host *n)
{
	const struct server_io io = host_io(n);
	const struct seat *self = seats_find(&n->disk.file, (uint8_t)n->id);

	if (self == NULL || self->role != MEMBER_LEARNER)
		sim_fail(s, "replica %d has no signing key, and does not join", n->id);
	sim_trace(s, "replica %d requests the cell's signing key", n->id);
	n->joining = joining_new(&io, &(struct joining_config){.identity = &n->identity,
	                                                       .keep = keep,
	                                                       .expelled = expelled,
	                                                       .user = n});
	adversary_joining(s, n);
	liar_greet(s, n);
}
