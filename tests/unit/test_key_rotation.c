/* The signing keys that a replica keeps while the master introduces others. */
#include <sodium.h>
#include <string.h>

#include "cell/server/internal.h"
#include "cell/tree/internal.h"
#include "cell/tree/signing.h"
#include "cell/wire/codec.h"
#include "tests/unit/still_clock.h"
#include "tests/unit/unit.h"

enum { MASTER = 2 };

static struct sign_keys written;
static struct cell_file written_file;
static struct bytes confirmed; /* the key of the last message to the master */
static uint8_t confirmed_key[SIGN_PUBLIC];

static void
io_write_cell_file(void *user, const struct cell_file *cell_file, const struct sign_keys *keys)
{
	(void)user;
	written = *keys;
	written_file = *cell_file;
}

static void
on_send(void *user, uint8_t replica, uint64_t conn, struct bytes frame)
{
	struct message m;

	(void)user;
	(void)conn;
	assert_int_equal(replica, MASTER);
	assert_int_equal(wire_get_frame(frame, &m), RC_OK);
	assert_int_equal(m.code, MSG_secret_kept);
	memcpy(confirmed_key, m.secret_kept.key.data, SIGN_PUBLIC);
	confirmed = (struct bytes){confirmed_key, SIGN_PUBLIC};
}

static void
take_anything(void *user, uint8_t replica, uint64_t conn, struct bytes frame)
{
	(void)user;
	(void)replica;
	(void)conn;
	(void)frame;
}

static void
on_changed(void *user)
{
	(void)user;
}

static bool refused;
static uint8_t agreed[3 * SIGN_PUBLIC];
static size_t agreed_len;

static void
on_agreed(void *user, struct bytes keys)
{
	(void)user;
	refused = keys.len == 0;
	agreed_len = keys.len;
	assert_true(keys.len <= sizeof agreed);
	if (keys.len > 0)
		memcpy(agreed, keys.data, keys.len);
}

static void
io_random(void *user, void *to, size_t n)
{
	(void)user;
	memset(to, 'r', n);
}

static const struct server_io io = {
    .directory.write_cell_file = io_write_cell_file,
    .clock = {.now = io_now, .random = io_random},
};

/* The key of this number. */
static const uint8_t *
secret(uint8_t number)
{
	static uint8_t secrets[8][SIGN_SECRET];
	const uint8_t seed[crypto_sign_SEEDBYTES] = {number};
	uint8_t public_key[SIGN_PUBLIC];

	crypto_sign_seed_keypair(public_key, secrets[number], seed);
	return secrets[number];
}

struct fixture {
	struct identity identity;
	struct tree *tree;
	struct cell_file_writer *writer;
	struct key_rotation *rotation;
};

static void
begin_rotation(struct fixture *f, const struct server_io *its_io,
               void (*send)(void *user, uint8_t replica, uint64_t conn, struct bytes frame))
{
	f->writer = cell_file_writer_new(its_io, &f->identity);
	f->rotation = key_rotation_new(&(struct key_rotation_config){.clock = &its_io->clock,
	                                                             .identity = &f->identity,
	                                                             .tree = f->tree,
	                                                             .writer = f->writer,
	                                                             .send = send,
	                                                             .agreed = on_agreed,
	                                                             .changed = on_changed});
}

static void
begin_with(struct fixture *f, const struct server_io *its_io,
           void (*send)(void *user, uint8_t replica, uint64_t conn, struct bytes frame))
{
	const struct member self = {.id = 1,
	                            .role = MEMBER_VOTER,
	                            .address = bytes_of("a:1"),
	                            .key = bytes_of("one")};

	memset(f, 0, sizeof *f);
	f->identity.replica = 1;
	f->identity.signing.n = 1;
	memcpy(f->identity.signing.secret[0], secret(0), SIGN_SECRET);
	memcpy(f->identity.cell_file.signing_public, sign_public(secret(0)), SIGN_PUBLIC);
	f->tree = tree_new("a");
	member_row_add(f->tree, &self, 1);
	begin_rotation(f, its_io, send);
}

static void
begin(struct fixture *f)
{
	begin_with(f, &io, on_send);
}

static void
end(struct fixture *f)
{
	key_rotation_free(f->rotation);
	cell_file_writer_free(f->writer);
	tree_free(f->tree);
}

static void
give_key(struct fixture *f, uint8_t number, bool master)
{
	const struct message m = {.code = MSG_secret, .secret.key = {secret(number), SIGN_SECRET}};
	struct buffer frame = BUFFER(256);

	wire_put_frame(&frame, &m);
	assert_true(key_rotation_peer(f->rotation, MASTER, true, master, buffer_view(&frame)));
	buffer_free(&frame);
}

static void
send_key(struct fixture *f, uint8_t number)
{
	give_key(f, number, true);
}

static void
report_written(struct fixture *f, enum rc rc, bool keys_kept)
{
	cell_file_writer_written(f->writer, rc, keys_kept, "No space left on device");
	key_rotation_written(f->rotation);
}

/* The master introduces the key, which is on disk at once. */
static void
introduce(struct fixture *f, uint8_t number)
{
	send_key(f, number);
	report_written(f, RC_OK, true);
	assert_true(
	    bytes_equal(confirmed, (struct bytes){sign_public(secret(number)), SIGN_PUBLIC}));
}

static bool
has(uint8_t number)
{
	return sign_keys_find(&written, sign_public(secret(number))) >= 0;
}

/* Beside the key in force the newest ones. */
TEST(test_keeps_the_newest)
{
	struct fixture f;

	begin(&f);
	for (uint8_t number = 1; number <= SIGN_KEYS; number++)
		introduce(&f, number);
	assert_int_equal(written.n, SIGN_KEYS);
	assert_true(has(0) && !has(1));
	for (uint8_t number = 2; number <= SIGN_KEYS; number++)
		assert_true(has(number));
	end(&f);
}

/* The last one but one may be in force, and this replica not have applied it. */
TEST(test_keeps_what_may_be_in_force)
{
	const struct bytes newest = {sign_public(secret(1)), SIGN_PUBLIC};
	const struct bytes former = {sign_public(secret(0)), SIGN_PUBLIC};
	struct fixture f;

	begin(&f);
	introduce(&f, 1);
	assert_true(signing_load(f.tree, 7, newest, former));
	key_rotation_follow(f.rotation);
	report_written(&f, RC_OK, true);
	introduce(&f, 2);
	introduce(&f, 3);
	for (uint8_t number = 0; number <= 3; number++)
		assert_true(has(number));
	end(&f);
}

/* A replica that was away finds other keys in force: the one that was in force before is older than
 * the one that was introduced. */
TEST(test_keeps_what_was_introduced)
{
	const struct bytes newest = {sign_public(secret(2)), SIGN_PUBLIC};
	const struct bytes former = {sign_public(secret(3)), SIGN_PUBLIC};
	struct fixture f;

	begin(&f);
	introduce(&f, 1);
	assert_true(signing_load(f.tree, 7, newest, former));
	key_rotation_follow(f.rotation);
	report_written(&f, RC_OK, true);
	for (uint8_t number = 2; number <= 4; number++)
		introduce(&f, number);
	assert_false(has(0));
	for (uint8_t number = 1; number <= 4; number++)
		assert_true(has(number));
	end(&f);
}

/* The state of a replica that crashed may be older than its cell file: then keys that the state
 * names are out of force, and none of them takes the place of those of the cell file. */
TEST(test_the_cell_file_may_be_newer)
{
	const struct bytes newest = {sign_public(secret(1)), SIGN_PUBLIC};
	const struct bytes former = {sign_public(secret(0)), SIGN_PUBLIC};
	struct identity *identity;
	struct fixture f;

	begin(&f);
	end(&f);
	identity = &f.identity;
	memcpy(identity->cell_file.signing_public, sign_public(secret(3)), SIGN_PUBLIC);
	memcpy(identity->cell_file.former_public, sign_public(secret(2)), SIGN_PUBLIC);
	identity->cell_file.has_former = true;
	identity->cell_file.key_version = 9;
	identity->signing.n = SIGN_KEYS;
	for (int i = 0; i < SIGN_KEYS; i++)
		memcpy(identity->signing.secret[i], secret((uint8_t[]){3, 2, 4, 1}[i]),
		       SIGN_SECRET);
	f.tree = tree_new("a");
	assert_true(signing_load(f.tree, 7, newest, former));
	begin_rotation(&f, &io, take_anything);
	written = identity->signing;
	written_file = identity->cell_file;
	key_rotation_follow(f.rotation);
	give_key(&f, 0, false);
	while (cell_file_writer_busy(f.writer))
		report_written(&f, RC_OK, true);
	assert_true(has(3) && has(2));
	assert_memory_equal(written_file.signing_public, sign_public(secret(3)), SIGN_PUBLIC);
	end(&f);
}

/* A former key that nobody has any more goes out of force. */
TEST(test_rotates_without_the_former_key)
{
	const struct bytes first = {sign_public(secret(0)), SIGN_PUBLIC};
	const struct bytes other = {sign_public(secret(1)), SIGN_PUBLIC};
	struct fixture f;

	begin(&f);
	assert_true(signing_load(f.tree, 7, first, other));
	written.n = 0;
	refused = false;
	key_rotation_begin(f.rotation);
	assert_int_equal(written.n, 2);
	assert_false(refused);
	end(&f);
}

/* The master sends its key until it hears that it is kept; while the disk is full each of them is
 * an attempt to write it. */
TEST(test_a_full_disk)
{
	struct fixture f;

	begin(&f);
	confirmed.len = 0;
	send_key(&f, 1);
	report_written(&f, RC_NOSPC, false);
	written.n = 0;
	send_key(&f, 1);
	assert_true(has(1));
	written.n = 0;
	send_key(&f, 1); /* it is being written */
	assert_int_equal(written.n, 0);
	assert_int_equal(confirmed.len, 0);
	report_written(&f, RC_OK, true);
	assert_memory_equal(confirmed.data, sign_public(secret(1)), SIGN_PUBLIC);
	end(&f);
}

/* The key is on disk, though the cell file is not. */
TEST(test_no_room_for_the_cell_file)
{
	struct fixture f;

	begin(&f);
	confirmed.len = 0;
	send_key(&f, 1);
	report_written(&f, RC_NOSPC, true);
	assert_int_equal(confirmed.len, SIGN_PUBLIC);
	introduce(&f, 2);
	assert_true(has(0) && has(1) && has(2));
	end(&f);
}

/* A master that can't store its own key tells the operator so, and can introduce another one. */
TEST(test_the_master_has_no_room)
{
	struct fixture f;

	begin(&f);
	refused = false;
	key_rotation_begin(f.rotation);
	report_written(&f, RC_NOSPC, false);
	assert_true(refused);
	refused = false;
	written.n = 0;
	key_rotation_begin(f.rotation);
	assert_int_equal(written.n, 2);
	report_written(&f, RC_OK, true);
	assert_false(refused);
	end(&f);
}

static int told;

static void
io_log(void *user, enum log_level level, const char *line)
{
	(void)user;
	told += level == LEVEL_INFO && strstr(line, "gets it") != NULL;
}

/* A replica that never has enough is answered each time, and the log has one line a minute. */
TEST(test_asked_again_and_again)
{
	const struct message m = {.code = MSG_secret_request};
	struct server_io logging = io;
	struct buffer frame = BUFFER(256);
	struct fixture f;

	logging.clock.log = io_log;
	begin_with(&f, &logging, take_anything);
	wire_put_frame(&frame, &m);
	told = 0;
	for (int s = 0; s < 600; s++) {
		now.ns = span_s(s).ns;
		for (uint8_t replica = 2; replica <= 3; replica++)
			assert_true(key_rotation_peer(f.rotation, replica, true, false,
			                              buffer_view(&frame)));
	}
	assert_int_equal(told, 20);
	buffer_free(&frame);
	end(&f);
	now.ns = 0;
}

/* ---- the newest key may be lost: when it is, tests/transcripts/cell/operators.txt shows ---- */

enum { SEARCH_MS = 2000 };

/* The first key is held, the second one is in force. */
static void
begin_without_newest(struct fixture *f)
{
	const struct bytes newest = {sign_public(secret(1)), SIGN_PUBLIC};
	const struct bytes former = {sign_public(secret(0)), SIGN_PUBLIC};

	begin_with(f, &io, take_anything);
	assert_true(signing_load(f->tree, 7, newest, former));
	key_rotation_follow(f->rotation);
	report_written(f, RC_OK, true);
	agreed_len = 0;
	key_rotation_begin(f->rotation);
	report_written(f, RC_OK, true);
}

static void
pass_ms(struct fixture *f, int64_t ms)
{
	for (int64_t i = 0; i < ms; i += 100) {
		now = mono_add(now, span_ms(100));
		if (mono_reached(now, key_rotation_deadline(f->rotation)))
			key_rotation_timeout(f->rotation, now);
	}
}

/* A member has it: then it stays in force, beside the new one. */
TEST(test_a_key_that_comes_is_not_lost)
{
	struct fixture f;

	begin_without_newest(&f);
	pass_ms(&f, SEARCH_MS / 2);
	send_key(&f, 1);
	pass_ms(&f, SEARCH_MS); /* while it is being written */
	assert_int_equal(agreed_len, 0);
	report_written(&f, RC_OK, true);
	assert_int_equal(agreed_len, 2 * SIGN_PUBLIC);
	assert_memory_equal(agreed + SIGN_PUBLIC, sign_public(secret(1)), SIGN_PUBLIC);
	end(&f);
	now.ns = 0;
}

/* ---- a new replica, which has no key and no state ---- */

enum { LONG_S = 600, LONGEST_MS = 6250 };

static struct pauses {
	int n;
	mono_t last;
	span_t longest;
} pauses;

static void
count_request(void *user, uint8_t replica, uint64_t conn, struct bytes frame)
{
	(void)user;
	(void)conn;
	if (replica != MASTER || wire_frame_code(frame) != MSG_secret_request)
		return;
	if (pauses.n++ > 0 && mono_since(now, pauses.last).ns > pauses.longest.ns)
		pauses.longest = mono_since(now, pauses.last);
	pauses.last = now;
}

static void
begin_new(struct fixture *f)
{
	begin_with(f, &io, count_request);
	end(f);
	f->identity.signing.n = 0;
	f->identity.cell_file.replicas_n = 2;
	f->identity.cell_file.replicas[0].id = MASTER;
	f->identity.cell_file.replicas[1].id = 1;
	f->tree = tree_new("a");
	begin_rotation(f, &io, count_request);
	written.n = 0;
}

/* It goes on for as long as it runs, and every few seconds only. */
TEST(test_asks_for_its_first_key)
{
	struct master_keys keys;
	struct fixture f;

	begin_new(&f);
	while (mono_before(now, (mono_t){span_s(LONG_S).ns})) {
		key_rotation_timeout(f.rotation, now);
		assert_true(mono_before(now, key_rotation_deadline(f.rotation)));
		now = key_rotation_deadline(f.rotation);
	}
	assert_in_range(pauses.n, LONG_S * 1000 / LONGEST_MS, LONG_S * 1000 / 5000 + 6);
	assert_in_range(span_to_ms(pauses.longest), 5001, LONGEST_MS);
	key_rotation_keys(f.rotation, &keys);
	assert_int_equal(keys.n, 0);
	assert_true(keys.incomplete);
	end(&f);
	now.ns = 0;
}

/* A key that is cut off is none, even where its last byte stands after the frame; and one that the
 * cell file does not name is not taken but from the master. */
TEST(test_takes_its_first_key)
{
	uint8_t cut[2 * SIGN_SECRET];
	struct buffer frame = BUFFER(sizeof cut - 1);
	struct message m = {MSG_secret, .secret = {{secret(0), SIGN_SECRET - 1}}};
	struct fixture f;

	begin_new(&f);
	wire_put_frame(&frame, &m);
	memcpy(cut, frame.data, frame.len);
	cut[frame.len] = secret(0)[SIGN_SECRET - 1];
	key_rotation_peer(f.rotation, MASTER, true, true, (struct bytes){cut, frame.len});
	buffer_reset(&frame);
	m.secret.key = (struct bytes){secret(1), SIGN_SECRET};
	wire_put_frame(&frame, &m);
	key_rotation_peer(f.rotation, MASTER, true, false, buffer_view(&frame));
	assert_int_equal(written.n, 0);
	send_key(&f, 0);
	assert_true(written.n == 1 && has(0));
	buffer_free(&frame);
	end(&f);
}
