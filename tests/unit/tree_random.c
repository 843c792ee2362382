#include <string.h>
#include "cell/wire/codec.h"
#include "tests/unit/tree_random.h"

static const char *const names[] = {"a", "b", "c", "dir", "acl", ".cell", "..", "a/b", "admin"};
static const char *const nonces[] = {"one", "two", "three", "four", "five", "six"};
enum { NAMES = sizeof names / sizeof *names, NONCES = sizeof nonces / sizeof *nonces };

static struct bytes
random_name(struct rng *r)
{
	/* Good names mostly: the first four. */
	return bytes_of(names[rng_chance(r, 900) ? rng_below(r, 4) : rng_below(r, NAMES)]);
}

uint64_t
random_session(struct rng *r, const struct tree *t)
{
	struct tree_session s;

	if (rng_chance(r, 970)) {
		uint64_t id = tree_session_by_nonce(t, bytes_of(nonces[rng_below(r, NONCES)]));

		if (id != 0)
			return id;
	}
	return tree_session_after(t, 0, &s) && rng_chance(r, 900) ? s.id : rng_below(r, 20);
}

static uint64_t
child_of(struct rng *r, const struct tree *t, uint64_t session, uint64_t parent)
{
	struct op op = {.code = OP_lookup, .lookup = {.parent = parent, .name = random_name(r)}};
	struct buffer scratch = BUFFER(LIMIT_FRAME); /* attributes need none */
	const struct requester who = {.session = session};
	struct result found;

	if (tree_read(t, &who, 0, &op, &found, &scratch) != RC_OK)
		return parent;
	return found.attr.attr.node;
}

/* A walk from the root down, so that mostly nodes are met that exist. */
static uint64_t
random_node(struct rng *r, const struct tree *t, uint64_t depth)
{
	struct tree_session s;
	uint64_t node = NODE_ROOT;

	if (!tree_session_after(t, 0, &s) || rng_chance(r, 30))
		return rng_below(r, 100);
	for (uint64_t i = rng_below(r, depth + 1); i > 0; i--)
		node = child_of(r, t, s.id, node);
	return node;
}

static struct bytes
random_contents(struct rng *r)
{
	static uint8_t data[64];

	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (uint8_t)rng_next(r);
	return (struct bytes){data, rng_below(r, sizeof data + 1)};
}

static struct acquire
random_acquire(struct rng *r, const struct tree *t)
{
	return (struct acquire){
	    .node = random_node(r, t, 2),
	    .owner = rng_below(r, 2),
	    .acquisition = rng_below(r, 6),
	    .mode = (uint8_t)(rng_chance(r, 20) ? rng_below(r, 5) : 1 + rng_below(r, 2)),
	    .wait = (uint8_t)rng_below(r, 2),
	    .delay_s = (int64_t)rng_below(r, 12) - 1,
	    .default_delay_s = (int64_t)rng_below(r, 3),
	    .pid = (uint32_t)rng_below(r, 3),
	};
}

static struct op
random_number(struct rng *r, const struct tree *t)
{
	return (struct op){.code = OP_number, .number = {random_node(r, t, 2), random_name(r), 0}};
}

static struct op
random_create(struct rng *r, const struct tree *t)
{
	return (struct op){
	    .code = OP_create,
	    .create = {.parent = random_node(r, t, 2),
	               .name = random_name(r),
	               .kind = (uint8_t)(1 + rng_below(r, 2)),
	               .ephemeral = (uint8_t)rng_below(r, 2),
	               .exclusive = (uint8_t)rng_below(r, 2)},
	};
}

static struct op
random_quota(struct rng *r, uint64_t node)
{
	const uint8_t which = (uint8_t)rng_below(r, QUOTA_KINDS);

	return (struct op){.code = OP_set_quota,
	                   .set_quota = {node, which, rng_below(r, which ? 16000 : 50)}};
}

static struct op
random_contents_op(struct rng *r, const struct tree *t)
{
	uint64_t node = random_node(r, t, 3);

	switch (rng_below(r, 4)) {
	case 3:
		if (rng_chance(r, 300))
			return random_quota(r, random_node(r, t, 2));
		return (struct op){.code = OP_set_ttl,
		                   .set_ttl = {node, (uint32_t)rng_below(r, 3)}};
	case 0:
		return (struct op){.code = OP_append,
		                   .append = {.node = node, .data = random_contents(r)}};
	case 1:
		return (struct op){.code = OP_set_mtime,
		                   .set_mtime = {.node = node,
		                                 .now = (uint8_t)rng_below(r, 2),
		                                 .mtime_ns = (int64_t)rng_next(r)}};
	default:
		return (struct op){.code = OP_set_contents,
		                   .set_contents = {.node = node,
		                                    .guarded = (uint8_t)rng_below(r, 2),
		                                    .generation = 1 + rng_below(r, 3),
		                                    .contents = random_contents(r)}};
	}
}

static struct op
random_names_op(struct rng *r, const struct tree *t)
{
	switch (rng_below(r, 5)) {
	case 2:
		return random_number(r, t);
	case 0:
		return (struct op){.code = OP_delete,
		                   .delete = {.parent = random_node(r, t, 2),
		                              .name = random_name(r),
		                              .kind = (uint8_t)(1 + rng_below(r, 2))}};
	case 1:
		return (struct op){.code = OP_set_acl,
		                   .set_acl = {.node = random_node(r, t, 3),
		                               .which = (uint8_t)rng_below(r, 4),
		                               .name = bytes_of(names[rng_below(r, NAMES)])}};
	default:
		return (struct op){.code = OP_rename,
		                   .rename = {.parent = random_node(r, t, 2),
		                              .name = random_name(r),
		                              .new_parent = random_node(r, t, 2),
		                              .new_name = random_name(r),
		                              .no_replace = rng_chance(r, 200)}};
	}
}

static struct op
random_ephemeral_op(struct rng *r, const struct tree *t)
{
	uint64_t node = random_node(r, t, 3);

	switch (rng_below(r, 5)) {
	case 0:
	case 1:
	case 2: /* mostly refused */
		return (struct op){.code = OP_make_ephemeral, .make_ephemeral = {.node = node}};
	case 3:
		return (struct op){.code = OP_open_ephemeral, .open_ephemeral = {.node = node}};
	default:
		if (rng_chance(r, 500))
			node = rng_below(r, 400); /* it may have been renamed */
		return (struct op){.code = OP_close_ephemeral, .close_ephemeral = {.node = node}};
	}
}

static struct op
random_lock_op(struct rng *r, const struct tree *t)
{
	struct acquire a = random_acquire(r, t);

	switch (rng_below(r, 5)) {
	case 0:
		return (struct op){.code = OP_release,
		                   .release = {.node = a.node,
		                               .owner = a.owner,
		                               .acquisition = a.acquisition}};
	case 1:
		return (struct op){.code = OP_cancel,
		                   .cancel = {.node = a.node,
		                              .owner = a.owner,
		                              .acquisition = a.acquisition}};
	case 2:
		if (a.wait)
			return (struct op){.code = OP_set_lock_slots,
			                   .set_lock_slots = {a.node, (uint32_t)a.acquisition % 4}};
		return (struct op){.code = OP_set_lock_delay,
		                   .set_lock_delay = {.node = a.node, .seconds = a.delay_s}};
	default:
		return (struct op){.code = OP_acquire, .acquire = {.acquire = a}};
	}
}

static struct op
random_end_session(struct rng *r, const struct tree *t)
{
	return (struct op){.code = OP_end_session,
	                   .end_session = {.session = random_session(r, t),
	                                   .cause = (uint8_t)(1 + rng_below(r, 3)),
	                                   .epoch = tree_epoch(t)}};
}

static struct op
random_finish_session(struct rng *r, const struct tree *t)
{
	struct op op = {.code = OP_finish_session};
	enum end_cause cause;

	if (!tree_ending(t, &op.finish_session.session, &cause) || rng_chance(r, 50))
		op.finish_session.session = random_session(r, t);
	return op;
}

static struct op
random_delay_over(struct rng *r, const struct tree *t)
{
	struct tree_note delay = {0};

	if (!tree_delay_after(t, rng_below(r, 30), &delay))
		tree_delay_after(t, 0, &delay);
	return (struct op){.code = OP_delay_over,
	                   .delay_over = {.node = delay.node,
	                                  .lock_generation = delay.lock_generation,
	                                  .began = delay.index - rng_chance(r, 100)}};
}

static struct op
random_expire(struct rng *r, const struct tree *t)
{
	struct tree_note ttl = {0};

	if (!tree_ttl_after(t, rng_below(r, 30), &ttl))
		tree_ttl_after(t, 0, &ttl);
	return (struct op){.code = OP_expire,
	                   .expire = {.node = ttl.node,
	                              .generation = ttl.generation - rng_chance(r, 100),
	                              .began = ttl.index - rng_chance(r, 100)}};
}

/* ---- members ---- */

static struct member
random_member(struct rng *r, uint8_t id, struct buffer *texts)
{
	static const char *const addresses[] = {"a:1", "b:1", "c:1", "d:1",
	                                        "e:1", "f:1", "g:1", "h:1"};
	uint8_t key[32] = {rng_chance(r, 50) ? 1 : id};

	buffer_reset(texts);
	buffer_put(texts, key, sizeof key);
	return (struct member){
	    .id = id,
	    .role = (uint8_t)(rng_chance(r, 20) ? rng_below(r, 5) : 1 + rng_below(r, 2)),
	    .address = bytes_of(addresses[rng_chance(r, 30) ? 0 : id % 8]),
	    .key = buffer_view(texts),
	};
}

/* One member of the list changes, now and then another one as well. */
static void
change_member(struct rng *r, struct member *m)
{
	if (rng_chance(r, 20))
		m->id++;
	m->role = (uint8_t)(rng_chance(r, 20) ? rng_below(r, 5) : 1 + rng_below(r, 3));
}

/* The list as it is with a change or an addition. Valid until the next call. */
static struct wire_list
random_members(struct rng *r, const struct tree *t)
{
	static struct buffer packed = BUFFER(LIMIT_ENTRY);
	struct buffer texts = BUFFER(64);
	struct member m = {0};
	struct wire_list list = {0};
	uint64_t changing = rng_below(r, 8);
	uint8_t id = 0;

	buffer_reset(&packed);
	for (; tree_member_after(t, id, &m); list.count++) {
		id = m.id;
		if (list.count == changing || rng_chance(r, 20))
			change_member(r, &m);
		wire_put_member(&packed, &m);
	}
	for (uint64_t n = id == 0 ? 1 + rng_below(r, 4) : rng_below(r, 2); n > 0; n--) {
		m = random_member(r, ++id, &texts);
		wire_put_member(&packed, &m);
		list.count++;
	}
	buffer_free(&texts);
	list.packed = buffer_view(&packed);
	return list;
}

static struct op
random_set_members(struct rng *r, const struct tree *t)
{
	return (struct op){
	    .code = OP_set_members,
	    .set_members = {.version = tree_members_version(t) - rng_chance(r, 30),
	                    .members = random_members(r, t)},
	};
}

/* Rare: it ends all that has grown, and counters do not grow for ever. */
static struct op
random_restore(struct rng *r)
{
	return (struct op){.code = OP_restore,
	                   .restore = {rng_chance(r, 30) ? rng_next(r) : rng_below(r, 1 << 20)}};
}

static struct op
random_lengthening(struct rng *r, const struct tree *t)
{
	const enum setting which = rng_chance(r, 500) ? SETTING_session_lease : SETTING_cache_lease;
	const uint64_t value = tree_setting(t, which), highest = setting_info(which)->highest;

	return (struct op){.code = OP_lengthen_promise,
	                   .lengthen_promise = {(uint8_t)(which + rng_chance(r, 30)),
	                                        value + rng_below(r, highest - value + 1000)}};
}

static struct op
random_setting(struct rng *r, const struct tree *t)
{
	const uint8_t code = (uint8_t)rng_below(r, SETTING_CODES + 1);
	const struct setting_info *info = setting_info(code);
	struct tree_note lowered = {.setting = code, .index = 1};

	tree_setting_lowered_after(t, 0, &lowered);
	if (rng_chance(r, 400))
		return (struct op){.code = OP_settle_setting,
		                   .settle_setting = {lowered.setting,
		                                      lowered.index - rng_chance(r, 100)}};
	if (rng_chance(r, 300))
		return random_lengthening(r, t);
	return (struct op){.code = OP_set_setting,
	                   .set_setting = {code, info == NULL
	                                             ? rng_below(r, 3)
	                                             : info->lowest - 1 +
	                                                   rng_below(r, info->standard * 2)}};
}

static uint64_t
generation_of(const struct tree *t, struct bytes name)
{
	struct tree_principal p;

	return tree_principal(t, name, &p) ? p.generation : 0;
}

/* Each name has one of a few keys, so that some are in use; `admin` goes only if /acl/admin names
 * another principal. The name of one that is gone is purged. */
static struct op
random_principal(struct rng *r, const struct tree *t)
{
	static const uint8_t keys[40] = {[32] = 1, 2, 3, 4, 5, 6, 7, 8};
	static const char *const principals[] = {"me", "you", "them", "us", "admin", "n/a"};
	const struct bytes name = bytes_of(principals[rng_below(r, 6)]);
	struct bytes key;

	if (rng_chance(r, 500))
		return generation_of(t, name) == 0
		           ? (struct op){.code = OP_purge_name, .purge_name = {name}}
		           : (struct op){.code = OP_remove_principal, .remove_principal = {name}};
	key = (struct bytes){keys + rng_below(r, 9), 32 - rng_chance(r, 50)};
	if (bytes_equal(name, bytes_of("admin")))
		return (struct op){.code = OP_rekey_principal, .rekey_principal = {name, key}};
	return (struct op){.code = OP_add_principal, .add_principal = {name, key}};
}

/* One of a few keys takes the place of the newest one, which may be lost, or of another one. */
static struct op
random_rotation(struct rng *r, const struct tree *t)
{
	static const uint8_t keys[40] = {[32] = 1, 2, 3, 4, 5, 6, 7, 8};
	const struct bytes now = tree_signing_keys(t), some = {keys + rng_below(r, 9), 32};
	struct op op = {.code = OP_rotate_key,
	                .rotate_key = {{keys + rng_below(r, 9), 32 - rng_chance(r, 50)},
	                               now.len > 0 && rng_chance(r, 800)
	                                   ? (struct bytes){now.data, 32}
	                                   : some,
	                               {NULL, 0}}};

	if (now.len > 0 && some.data == keys + 8) {
		op.rotate_key.former = (struct bytes){now.data + 32, 32};
		op.rotate_key.lost = (struct bytes){now.data, 32};
	}
	return op;
}

static struct op
random_master_op(struct rng *r, const struct tree *t)
{
	switch (rng_below(r, 19)) {
	case 18:
		return (struct op){.code = OP_unlock,
		                   .unlock = {.node = random_node(r, t, 1),
		                              .session = rng_below(r, 2) * random_session(r, t),
		                              .fence = UINT64_MAX,
		                              .keep_delay = rng_chance(r, 500)}};
	case 17:
		return random_rotation(r, t);
	case 16:
		return random_principal(r, t);
	case 14:
	case 15:
		return random_finish_session(r, t);
	case 0:
		return (struct op){.code = OP_begin_epoch,
		                   .begin_epoch = {.ballot = {rng_next(r), 1},
		                                   .members = random_members(r, t)}};
	case 11:
		return random_setting(r, t);
	case 12:
		return (struct op){.code = OP_settle_epoch,
		                   .settle_epoch = {tree_epoch(t) - rng_chance(r, 100)}};
	case 13:
		return (
		    struct op){.code = OP_await_session,
		               .await_session = {random_session(r, t), (uint8_t)rng_below(r, 3)}};
	case 8:
	case 9:
		return random_set_members(r, t);
	case 10:
		if (rng_chance(r, 250))
			return random_restore(r);
		return (struct op){.code = OP_check_digest, .check_digest = {tree_applied(t), 7}};
	case 1:
		return random_end_session(r, t);
	case 2:
		return random_expire(r, t);
	case 3:
		return random_delay_over(r, t);
	case 4:
		return (struct op){.code = OP_grant,
		                   .grant = {.session = random_session(r, t),
		                             .acquire = random_acquire(r, t)}};
	default:
		return (
		    struct op){.code = OP_create_session,
		               .create_session = {.nonce = bytes_of(nonces[rng_below(r, NONCES)]),
		                                  .host = bytes_of("host"),
		                                  .principal = bytes_of("admin"),
		                                  .principal_generation =
		                                      generation_of(t, bytes_of("admin"))}};
	}
}

/* ---- transactions ---- */

enum { PATHS = 12 };

static struct bytes
random_path(struct rng *r)
{
	static const char *const paths[PATHS] = {"/a",     "/b",     "/c",         "/dir",
	                                         "/dir/a", "/dir/b", "/dir/dir",   "/dir/dir/a",
	                                         "/b/a",   "/acl",   "/acl/admin", "/"};

	return bytes_of(paths[rng_below(r, rng_chance(r, 900) ? PATHS - 3 : PATHS)]);
}

static struct op
random_step_op(struct rng *r, const struct tree *t)
{
	struct op op;

	switch (rng_below(r, 8)) {
	case 0:
	case 1:
		op = random_create(r, t);
		if (rng_chance(r, 200))
			op = random_number(r, t);
		op.create = (struct op_create){.kind = op.create.kind};
		return op;
	case 2:
		return (struct op){.code = OP_delete};
	case 3:
		return (struct op){.code = OP_rename, .rename = {.no_replace = rng_chance(r, 200)}};
	case 4:
		return (struct op){.code = OP_set_acl,
		                   .set_acl = {.which = (uint8_t)rng_below(r, 3),
		                               .name = bytes_of("everyone")}};
	case 5:
		op = (struct op){.code = OP_acquire, .acquire.acquire = random_acquire(r, t)};
		op.acquire.acquire.mode = LOCK_EXCLUSIVE;
		op.acquire.acquire.wait = rng_chance(r, 10);
		return op;
	case 6:
		if (rng_chance(r, 100))
			return random_quota(r, 0);
		if (rng_chance(r, 300))
			return (struct op){.code = OP_set_ttl,
			                   .set_ttl = {.seconds = (uint32_t)rng_below(r, 3)}};
		/* fall through */
	default:
		op = random_contents_op(r, t);
		if (op.code == OP_set_contents)
			op.set_contents.guarded = rng_chance(r, 100);
		return op;
	}
}

static struct step
random_condition(struct rng *r, const struct tree *t)
{
	return (struct step){.kind = (uint8_t)(STEP_GENERATION + rng_below(r, 3)),
	                     .generation = 1 + rng_below(r, 3),
	                     .guard = {.node = random_node(r, t, 1),
	                               .lock_generation = 1,
	                               .mode = LOCK_EXCLUSIVE,
	                               .fence = tree_applied(t)}};
}

/* Valid until the next call. */
struct op
random_transaction(struct rng *r, const struct tree *t)
{
	static struct buffer steps = BUFFER(LIMIT_ENTRY);
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct op op = {.code = OP_transaction}, one;
	const uint64_t conditions = rng_below(r, 2), operations = 1 + rng_below(r, 6);
	const uint64_t others = rng_below(r, 2 * operations);

	buffer_reset(&steps);
	for (uint64_t i = 0; i < conditions + operations; i++) {
		struct step s = {.kind = STEP_DO};

		if (i == conditions + others)
			s.kind = STEP_ELSE;
		else if (i < conditions || rng_chance(r, 2))
			s = random_condition(r, t);
		s.path = random_path(r);
		if (s.kind == STEP_DO) {
			buffer_reset(&encoded);
			one = random_step_op(r, t);
			if (one.code == OP_rename)
				s.new_path = random_path(r);
			wire_put_op(&encoded, &one);
			s.op = buffer_view(&encoded);
		}
		wire_put_step(&steps, &s);
	}
	op.transaction.steps =
	    (struct wire_list){buffer_view(&steps), (uint32_t)(conditions + operations)};
	buffer_free(&encoded);
	return op;
}

static struct op
random_session_op(struct rng *r, const struct tree *t)
{
	switch (rng_below(r, 16)) {
	case 0:
	case 1:
	case 2:
		return random_create(r, t);
	case 3:
	case 4:
		return random_contents_op(r, t);
	case 5:
	case 6:
	case 7:
		return random_names_op(r, t);
	case 8:
	case 10:
		return random_ephemeral_op(r, t);
	case 9:
		return rng_chance(r, 200) ? random_end_session(r, t) : random_lock_op(r, t);
	default:
		return random_lock_op(r, t);
	}
}

/* Numbers jump about a little, some come twice, `below` follows behind. */
static struct command
random_command(struct rng *r, const struct tree *t, bool of_master)
{
	struct command c = {.stamp_ns = (int64_t)rng_below(r, 1000000),
	                    .user = bytes_of(rng_chance(r, 100) ? "eve" : "")};

	if (of_master)
		return c;
	c.session = random_session(r, t);
	if (rng_chance(r, 800)) {
		uint64_t about = tree_applied(t) / 4;

		c.number = about + rng_below(r, 8);
		c.below = about > 20 && rng_chance(r, 300) ? about - 20 : 0;
	}
	return c;
}

/* Some commands declare what they change, and some of these forget a key, or change something else
 * by the time when it is their turn. */
static void
random_keys(struct rng *r, const struct tree *t, const struct op *op, struct command *c,
            struct buffer *keys)
{
	struct footprint f = {0};

	buffer_reset(keys);
	tree_changes(t, &(struct requester){c->session, c->user, c->handle_rights}, op,
	             wire_op_node(op), &f);
	c->bounded = op->code != OP_restore && rng_chance(r, 700);
	for (size_t i = rng_chance(r, 50); c->bounded && i < f.n; i++) {
		wire_put_node_key(keys, &(struct node_key){f.keys[i]});
		c->keys.count++;
	}
	c->keys.packed = buffer_view(keys);
	footprint_free(&f);
}

static void
put_entry(struct rng *r, const struct tree *t, bool declaring, struct buffer *payload)
{
	struct buffer packed = BUFFER(LIMIT_ENTRY), encoded = BUFFER(LIMIT_ENTRY);
	struct buffer keys = BUFFER(LIMIT_ENTRY);
	uint32_t n = (uint32_t)(1 + rng_below(r, rng_chance(r, 300) ? 4 : 1));

	for (uint32_t i = 0; i < n; i++) {
		bool of_master = tree_epoch(t) == 0 || rng_chance(r, 150);
		struct op op = of_master ? random_master_op(r, t) : random_session_op(r, t);
		struct command c = random_command(r, t, of_master);

		if (declaring && !of_master && rng_chance(r, 120))
			op = random_transaction(r, t);
		buffer_reset(&encoded);
		wire_put_op(&encoded, &op);
		c.op = buffer_view(&encoded);
		if (declaring)
			random_keys(r, t, &op, &c, &keys);
		wire_put_command(&packed, &c);
	}
	buffer_free(&keys);
	wire_put_entry(payload, &(struct entry){.commands = {buffer_view(&packed), n}});
	buffer_free(&packed);
	buffer_free(&encoded);
}

void
random_entry(struct rng *r, const struct tree *t, struct buffer *payload)
{
	put_entry(r, t, false, payload);
}

void
random_declaring_entry(struct rng *r, const struct tree *t, struct buffer *payload)
{
	put_entry(r, t, true, payload);
}

void
random_read(struct rng *r, const struct tree *t, struct op *op)
{
	uint64_t node = random_node(r, t, 3);

	switch (rng_below(r, 7)) {
	case 0:
		*op = (struct op){.code = OP_lookup, .lookup = {node, random_name(r)}};
		return;
	case 1:
		*op = (struct op){.code = OP_get_attr, .get_attr = {node}};
		return;
	case 2:
		*op = (struct op){.code = OP_get_contents, .get_contents = {node, rng_below(r, 4)}};
		return;
	case 3:
		*op = (struct op){.code = OP_get_listing, .get_listing = {.node = node}};
		return;
	case 4:
		*op = (struct op){.code = OP_get_lock, .get_lock = {node}};
		return;
	case 5:
		*op = (struct op){.code = OP_get_sequencer, .get_sequencer = {.node = node}};
		return;
	default:
		*op = (struct op){.code = OP_get_usage, .get_usage = {node}};
	}
}

void
random_damage(struct rng *r, struct buffer *b)
{
	size_t at = rng_below(r, b->len), n = 1 + rng_below(r, 8);

	switch (rng_below(r, 4)) {
	case 0:
		b->len = at;
		return;
	case 1:
		buffer_put_u64(b, rng_next(r));
		return;
	default:
		for (size_t i = at; i < at + n && i < b->len; i++)
			b->data[i] = (uint8_t)(rng_chance(r, 500) ? rng_next(r) : rng_below(r, 8));
	}
}
