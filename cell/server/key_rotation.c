#include "cell/server/internal.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/wire/codec.h"

enum {
	SEND_EVERY_MS = 200, /* a key that is being introduced, to members that have not kept it */
	ASK_FIRST_MS = 200,  /* the pauses between requests for a missing key */
	ASK_LONGEST_MS = 5000,
	TELL_EVERY_S = 60, /* log lines about the keys sent to one replica */
	SEARCH_MS = 2000,  /* then an introduction goes on without the newest key in force */
};

/* The keys in force. */
enum { NEWEST, FORMER, IN_FORCE };

struct key_rotation {
	struct key_rotation_config config;
	struct sign_keys held, wanted;           /* on disk; and when no write fails */
	uint64_t since;                          /* of the keys in force, as they were followed */
	uint8_t followed[IN_FORCE][SIGN_PUBLIC]; /* those, of which one may be missing (0) */
	bool introducing;
	uint8_t next[SIGN_PUBLIC];          /* the key that is being introduced */
	bool kept_by[LIMIT_REPLICA_ID + 1]; /* members that have it on disk */
	uint8_t confirm_to;                 /* a member waits for a confirmation; 0 if none does */
	uint8_t to_confirm[SIGN_PUBLIC];    /* of this key, once it is on disk */
	mono_t lost_at; /* from then on the newest key in force is lost, if this replica lacks it */
	mono_t send, ask;
	struct backoff backoff; /* of `ask` */
	struct rng rng;    /* so that replicas which were started together do not ask together */
	bool missing_told; /* it was logged that no replica sends the keys */
	/* Before this time no line is logged about keys sent to the replica. */
	mono_t tell[LIMIT_REPLICA_ID + 1];
};

/* ---- keys in force ---- */

/* Before the first rotation the cell file alone names the key. A state that a crash set back is
 * older than the cell file, too: its keys would take the place of newer ones on the disk. */
static bool
tree_names_them(const struct key_rotation *k)
{
	const uint64_t since = tree_signing_since(k->config.tree);

	return since > 0 && since >= k->config.identity->cell_file.key_version;
}

/* The public key in force, NEWEST or FORMER; NULL: there is no former one. */
static const uint8_t *
in_force(const struct key_rotation *k, int i)
{
	const struct cell_file *cell_file = &k->config.identity->cell_file;
	const struct bytes keys = tree_signing_keys(k->config.tree);

	if (tree_names_them(k))
		return keys.data + (size_t)i * SIGN_PUBLIC;
	if (i == NEWEST)
		return cell_file->signing_public;
	return cell_file->has_former ? cell_file->former_public : NULL;
}

static int
keys_in_force(const struct key_rotation *k)
{
	return in_force(k, FORMER) != NULL ? IN_FORCE : 1;
}

static bool
has(const struct sign_keys *keys, const uint8_t public_key[SIGN_PUBLIC])
{
	return sign_keys_find(keys, public_key) >= 0;
}

static bool
is_missing(const struct key_rotation *k, int i)
{
	return i < keys_in_force(k) && !has(&k->held, in_force(k, i));
}

void
key_rotation_keys(const struct key_rotation *k, struct master_keys *keys)
{
	*keys = (struct master_keys){0};
	for (int i = 0; i < keys_in_force(k); i++) {
		if (is_missing(k, i))
			keys->incomplete = true;
		else
			memcpy(keys->secret[keys->n++],
			       k->held.secret[sign_keys_find(&k->held, in_force(k, i))],
			       SIGN_SECRET);
	}
	keys->since = tree_signing_since(k->config.tree);
	if (keys->n == 0 && k->held.n > 0)
		memcpy(keys->secret[keys->n++], k->held.secret[0], SIGN_SECRET);
}

/* ---- the files ---- */

static void
add(struct sign_keys *keys, const uint8_t secret[SIGN_SECRET])
{
	if (keys->n < SIGN_KEYS && !has(keys, sign_public(secret)))
		memcpy(keys->secret[keys->n++], secret, SIGN_SECRET);
}

/* Has the keys in force written, then `secret` (NULL: none), then as many of the others as there is
 * room for, those that were in force last behind those that were introduced since. */
static void
keep(struct key_rotation *k, const uint8_t *secret)
{
	struct sign_keys wanted = {0};
	bool named = tree_names_them(k);

	for (int i = 0; i < keys_in_force(k); i++) {
		const int at = sign_keys_find(&k->wanted, in_force(k, i));

		if (at >= 0)
			add(&wanted, k->wanted.secret[at]);
		else if (secret != NULL &&
		         memcmp(sign_public(secret), in_force(k, i), SIGN_PUBLIC) == 0)
			add(&wanted, secret);
	}
	named = named && has(&wanted, in_force(k, NEWEST));
	if (secret != NULL)
		add(&wanted, secret);
	for (int older = 0; older <= 1; older++)
		for (int i = 0; i < k->wanted.n; i++) {
			const uint8_t *key = sign_public(k->wanted.secret[i]);
			const bool followed = memcmp(k->followed[NEWEST], key, SIGN_PUBLIC) == 0 ||
			                      memcmp(k->followed[FORMER], key, SIGN_PUBLIC) == 0;

			if (followed == older)
				add(&wanted, k->wanted.secret[i]);
		}
	k->wanted = wanted;
	cell_file_writer_set_keys(k->config.writer, &wanted, named ? in_force(k, NEWEST) : NULL,
	                          named ? in_force(k, FORMER) : NULL,
	                          tree_signing_since(k->config.tree));
	sodium_memzero(&wanted, sizeof wanted);
}

/* ---- messages ---- */

static void
send_to(struct key_rotation *k, uint8_t to, const struct message *m)
{
	struct buffer frame = BUFFER(256);

	wire_put_frame(&frame, m);
	must(!frame.failed);
	k->config.send(k->config.user, to, 0, buffer_view(&frame));
	sodium_memzero(frame.data, frame.room);
	buffer_free(&frame);
}

static void
send_to_members(struct key_rotation *k, const struct message *m, const bool *but)
{
	struct member member = {0};

	while (tree_member_after(k->config.tree, member.id, &member))
		if (member.role != MEMBER_REMOVED && member.id != k->config.identity->replica &&
		    !(but != NULL && but[member.id]))
			send_to(k, member.id, m);
}

static void
give(struct key_rotation *k, uint8_t to)
{
	const mono_t now = clock_io_now(k->config.clock);
	const uint8_t *secret;
	int n = 0;

	for (int i = 0; i < keys_in_force(k); i++) {
		if (is_missing(k, i))
			continue;
		secret = k->held.secret[sign_keys_find(&k->held, in_force(k, i))];
		send_to(k, to, &(struct message){MSG_secret, .secret = {{secret, SIGN_SECRET}}});
		n++;
	}
	if (n == 0 || !mono_reached(now, k->tell[to]))
		return;
	clock_io_log(k->config.clock, LEVEL_INFO,
	             "replica %u asks for the cell's signing key, and gets it", to);
	k->tell[to] = mono_add(now, span_s(TELL_EVERY_S));
}

static void
confirm(struct key_rotation *k, uint8_t to, const uint8_t public_key[SIGN_PUBLIC])
{
	send_to(k, to,
	        &(struct message){MSG_secret_kept, .secret_kept = {{public_key, SIGN_PUBLIC}}});
}

/* True if the two halves of the key belong together. */
static bool
is_sound(struct bytes key)
{
	uint8_t public_key[SIGN_PUBLIC], secret[SIGN_SECRET];
	bool good = false;

	if (key.len == SIGN_SECRET) {
		crypto_sign_seed_keypair(public_key, secret, key.data);
		good = memcmp(secret, key.data, SIGN_SECRET) == 0;
	}
	sodium_memzero(secret, sizeof secret);
	return good;
}

static bool
is_in_force(const struct key_rotation *k, const uint8_t public_key[SIGN_PUBLIC])
{
	for (int i = 0; i < keys_in_force(k); i++)
		if (memcmp(in_force(k, i), public_key, SIGN_PUBLIC) == 0)
			return true;
	return false;
}

/* ---- a majority ---- */

void
key_rotation_cease(struct key_rotation *k)
{
	k->introducing = false;
	k->send = MONO_NEVER;
}

static void
end_introduction(struct key_rotation *k, struct bytes keys)
{
	key_rotation_cease(k);
	k->config.agreed(k->config.user, keys);
}

/* True if this replica lacks the newest key in force, and a member may still send it, or it is
 * being written. */
static bool
newest_is_awaited(const struct key_rotation *k)
{
	return is_missing(k, NEWEST) && (has(&k->wanted, in_force(k, NEWEST)) ||
	                                 mono_before(clock_io_now(k->config.clock), k->lost_at));
}

static void
count(struct key_rotation *k)
{
	const uint8_t self = k->config.identity->replica;
	struct member m = {0};
	int voters = 0, kept = 0;

	if (!k->introducing || !has(&k->held, k->next) || newest_is_awaited(k))
		return;
	while (tree_member_after(k->config.tree, m.id, &m)) {
		if (m.role != MEMBER_VOTER)
			continue;
		voters++;
		kept += m.id == self || k->kept_by[m.id];
	}
	if (kept > voters / 2) {
		const bool lost = is_missing(k, NEWEST);
		uint8_t keys[(1 + IN_FORCE) * SIGN_PUBLIC];

		/* Without the newest key, which the majority was asked for again and again, the
		 * former one stays: this replica has signed with that. */
		memcpy(keys, k->next, SIGN_PUBLIC);
		memcpy(keys + SIGN_PUBLIC, in_force(k, lost ? FORMER : NEWEST), SIGN_PUBLIC);
		memcpy(keys + 2 * SIGN_PUBLIC, in_force(k, NEWEST), SIGN_PUBLIC);
		if (lost)
			clock_io_log(k->config.clock, LEVEL_WARN,
			             "no member has the newest signing key: it goes out of force");
		end_introduction(k, (struct bytes){keys, (lost ? 3 : 2) * SIGN_PUBLIC});
	}
}

bool
key_rotation_peer(struct key_rotation *k, uint8_t from, bool member, bool master,
                  struct bytes frame)
{
	const unsigned code = wire_frame_code(frame);
	struct message m;

	if (code != MSG_secret_request && code != MSG_secret && code != MSG_secret_kept)
		return false;
	if (wire_get_frame(frame, &m) != RC_OK)
		return true;
	if (code == MSG_secret_request && member) {
		give(k, from);
	} else if (code == MSG_secret && member) {
		const uint8_t *public_key = m.secret.key.data + SIGN_SECRET - SIGN_PUBLIC;

		/* A key that this replica has asked for, or that the master introduces: one of a
		 * former master could take the place of that on this disk. */
		if (!is_sound(m.secret.key)) {
			clock_io_log(k->config.clock, LEVEL_WARN,
			             "replica %u sends a key that is none", from);
		} else if (has(&k->held, public_key)) {
			confirm(k, from, public_key);
		} else if (master || is_in_force(k, public_key)) {
			if (k->wanted.n == 0)
				clock_io_log(k->config.clock, LEVEL_INFO,
				             "replica %u has given the cell's signing key", from);
			k->confirm_to = from;
			memcpy(k->to_confirm, public_key, SIGN_PUBLIC);
			if (!has(&k->wanted, public_key))
				keep(k, m.secret.key.data);
			else
				cell_file_writer_retry(k->config.writer);
		}
	} else if (code == MSG_secret_kept) {
		if (k->introducing &&
		    bytes_equal(m.secret_kept.key, (struct bytes){k->next, SIGN_PUBLIC})) {
			k->kept_by[from] = true;
			count(k);
		}
	}
	return true;
}

/* ---- events ---- */

void
key_rotation_begin(struct key_rotation *k)
{
	uint8_t seed[crypto_sign_SEEDBYTES], secret[SIGN_SECRET];

	if (k->introducing)
		return;
	k->config.clock->random(k->config.clock->user, seed, sizeof seed);
	crypto_sign_seed_keypair(k->next, secret, seed);
	k->introducing = true;
	memset(k->kept_by, 0, sizeof k->kept_by);
	k->send = clock_io_now(k->config.clock);
	k->lost_at = mono_add(k->send, span_ms(SEARCH_MS));
	clock_io_log(k->config.clock, LEVEL_INFO, "a new signing key is sent to all members");
	keep(k, secret);
	sodium_memzero(seed, sizeof seed);
	sodium_memzero(secret, sizeof secret);
}

void
key_rotation_follow(struct key_rotation *k)
{
	if (tree_signing_since(k->config.tree) == k->since)
		return;
	k->since = tree_signing_since(k->config.tree);
	clock_io_log(k->config.clock, LEVEL_INFO, "the cell has a new signing key");
	keep(k, NULL);
	for (int i = 0; i < IN_FORCE; i++)
		memcpy(k->followed[i], in_force(k, i), SIGN_PUBLIC);
	k->ask = clock_io_now(k->config.clock);
	backoff_reset(&k->backoff);
	k->missing_told = false;
	k->config.changed(k->config.user);
}

void
key_rotation_written(struct key_rotation *k)
{
	k->held = *cell_file_writer_keys(k->config.writer);
	if (k->introducing && !has(&k->held, k->next) && !cell_file_writer_busy(k->config.writer))
		end_introduction(k, (struct bytes){NULL, 0});
	if (k->confirm_to != 0 && has(&k->held, k->to_confirm)) {
		confirm(k, k->confirm_to, k->to_confirm);
		k->confirm_to = 0;
	}
	k->config.changed(k->config.user);
	count(k);
}

mono_t
key_rotation_deadline(const struct key_rotation *k)
{
	return mono_min(k->send, k->ask);
}

/* A replica without a state knows the members of its cell file. */
static void
ask_members(struct key_rotation *k)
{
	const struct message m = {.code = MSG_secret_request};
	const struct cell_file *cell_file = &k->config.identity->cell_file;

	send_to_members(k, &m, NULL);
	for (int i = 0; tree_epoch(k->config.tree) == 0 && i < cell_file->replicas_n; i++)
		send_to(k, cell_file->replicas[i].id, &m);
}

void
key_rotation_timeout(struct key_rotation *k, mono_t now)
{
	const int at = k->introducing ? sign_keys_find(&k->held, k->next) : -1;
	span_t pause;

	if (mono_reached(now, k->send)) {
		if (at >= 0 && is_missing(k, NEWEST))
			ask_members(k);
		if (at >= 0)
			send_to_members(k,
			                &(struct message){MSG_secret,
			                                  .secret = {{k->held.secret[at],
			                                              SIGN_SECRET}}},
			                k->kept_by);
		k->send = mono_add(now, span_ms(SEND_EVERY_MS));
		count(k);
	}

	if (!mono_reached(now, k->ask))
		return;
	k->ask = MONO_NEVER;
	if (!is_missing(k, NEWEST) && !is_missing(k, FORMER))
		return;
	ask_members(k);
	/* Once, when members have been asked in vain for some seconds. The keys that a cell file
	 * names may be out of force since the file was made. */
	if (k->backoff.next.ns >= k->backoff.longest.ns && !k->missing_told &&
	    tree_epoch(k->config.tree) > 0) {
		k->missing_told = true;
		clock_io_log(k->config.clock, LEVEL_WARN,
		             "no member sends the %s signing key; if none has it any more, replace "
		             "it: lsctl cell rotate-key",
		             is_missing(k, NEWEST) ? "newest" : "former");
	}
	pause = backoff_take(&k->backoff);
	pause.ns += span_ms((int64_t)rng_below(&k->rng, (uint64_t)span_to_ms(pause) / 4 + 1)).ns;
	k->ask = mono_add(now, pause);
}

/* ---- life ---- */

struct key_rotation *
key_rotation_new(const struct key_rotation_config *config)
{
	struct key_rotation *k = memory_zero(1, sizeof *k);
	uint64_t seed;

	k->config = *config;
	k->held = k->wanted = config->identity->signing;
	memcpy(k->followed[NEWEST], config->identity->cell_file.signing_public, SIGN_PUBLIC);
	if (config->identity->cell_file.has_former)
		memcpy(k->followed[FORMER], config->identity->cell_file.former_public, SIGN_PUBLIC);
	if (memcmp(in_force(k, NEWEST), config->identity->cell_file.signing_public, SIGN_PUBLIC) ==
	    0)
		k->since = tree_signing_since(config->tree);
	k->send = MONO_NEVER;
	k->ask = clock_io_now(config->clock);
	k->backoff = backoff_of(span_ms(ASK_FIRST_MS), span_ms(ASK_LONGEST_MS));
	memcpy(&seed, config->identity->pair.public, sizeof seed);
	k->rng = rng_seeded(seed);
	if (k->held.n == 0)
		clock_io_log(config->clock, LEVEL_INFO,
		             "asks the other replicas for the cell's signing key");
	return k;
}

void
key_rotation_free(struct key_rotation *k)
{
	if (k != NULL)
		sodium_memzero(k, sizeof *k);
	free(k);
}
