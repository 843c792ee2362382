#include "cell/base/memory.h"
#include "tests/unit/tree_fixture.h"

struct fixture *
fixture_empty(void)
{
	struct fixture *f = memory_zero(1, sizeof *f);

	f->tree = tree_new("local");
	f->stamp_ns = SECOND_NS;
	f->packed = BUFFER(LIMIT_ENTRY);
	f->result = BUFFER(LIMIT_FRAME);
	return f;
}

struct fixture *
fixture_new(void)
{
	struct fixture *f = fixture_empty();

	assert_int_equal(run(f, 0, OP(begin_epoch, .ballot = {1, 1})), RC_OK);
	assert_int_equal(new_session(f, "reader"), READER);
	return f;
}

void
fixture_free(struct fixture *f)
{
	tree_free(f->tree);
	tree_outcome_free(&f->out);
	buffer_free(&f->packed);
	buffer_free(&f->result);
	free(f);
}

int
tree_setup(void **state)
{
	*state = fixture_new();
	return 0;
}

int
tree_teardown(void **state)
{
	fixture_free(*state);
	return 0;
}

void
entry_add(struct fixture *f, const struct command *c, const struct op *op)
{
	struct buffer encoded = BUFFER(LIMIT_ENTRY);
	struct command with_op = *c;

	wire_put_op(&encoded, op);
	assert_false(encoded.failed);
	with_op.op = buffer_view(&encoded);
	wire_put_command(&f->packed, &with_op);
	f->packed_n++;
	buffer_free(&encoded);
}

enum rc
entry_apply(struct fixture *f)
{
	struct buffer payload = BUFFER(LIMIT_ENTRY);
	enum rc rc;

	wire_put_entry(&payload,
	               &(struct entry){.commands = {buffer_view(&f->packed), f->packed_n}});
	assert_false(payload.failed);
	rc = tree_apply(f->tree, tree_applied(f->tree) + 1, (struct ballot){1, 1},
	                buffer_view(&payload), &f->out);
	buffer_reset(&f->packed);
	f->packed_n = 0;
	buffer_free(&payload);
	if (tree_check(f->tree) != NULL)
		fail_msg("%s", tree_check(f->tree));
	return rc;
}

/* The results of refusals, but for want of a right, are empty. */
static void
keep_answer(struct fixture *f, enum op_code code, enum rc rc, struct bytes encoded)
{
	struct result r;

	assert_int_equal(wire_get_result(wire_answer_kind(code, rc), encoded, &r), RC_OK);
	if (r.kind != RESULT_none || rc == RC_OK)
		f->answer = r;
}

enum rc
run_numbered(struct fixture *f, uint64_t session, uint64_t number, uint64_t below,
             const struct op *op)
{
	struct command c = {.stamp_ns = f->stamp_ns,
	                    .session = session,
	                    .number = number,
	                    .below = below,
	                    .handle_rights = f->handle_rights};
	const struct tree_answer *a;

	f->stamp_ns += SECOND_NS;
	entry_add(f, &c, op);
	assert_int_equal(entry_apply(f), RC_OK);
	assert_int_equal(f->out.answers_n, 1);
	a = &f->out.answers[0];
	assert_int_equal(a->session, session);
	assert_int_equal(a->number, number);
	assert_int_equal(a->op, op->code);
	if (a->rc != RC_ACCES || session != 0) /* a refused grant tells the master no more */
		keep_answer(f, op->code, a->rc, a->result);
	return a->rc;
}

enum rc
run(struct fixture *f, uint64_t session, const struct op *op)
{
	return run_numbered(f, session, 0, 0, op);
}

enum rc
tree_read_encoded(const struct tree *t, const struct requester *who, int64_t now_ns,
                  const struct op *op, struct buffer *to)
{
	struct buffer scratch = BUFFER(LIMIT_FRAME);
	struct result r;
	const enum rc rc = tree_read(t, who, now_ns, op, &r, &scratch);

	buffer_reset(to);
	if (wire_answer_kind(op->code, rc) == r.kind)
		wire_put_result(to, &r);
	buffer_free(&scratch);
	return rc;
}

enum rc
look(struct fixture *f, uint64_t session, const struct op *op)
{
	const struct requester who = {.session = session, .handle_rights = f->handle_rights};
	const enum rc rc = tree_read_encoded(f->tree, &who, 77, op, &f->result);

	keep_answer(f, op->code, rc, buffer_view(&f->result));
	return rc;
}

const struct tree_note *
noted(const struct fixture *f, enum tree_note_kind kind)
{
	for (size_t i = 0; i < f->out.notes_n; i++) {
		if (f->out.notes[i].kind == kind)
			return &f->out.notes[i];
	}
	return NULL;
}

size_t
notes_of(const struct fixture *f, enum tree_note_kind kind)
{
	size_t n = 0;

	for (size_t i = 0; i < f->out.notes_n; i++)
		n += f->out.notes[i].kind == kind;
	return n;
}

void
add_principal(struct fixture *f, const char *name, uint8_t key)
{
	uint8_t bytes[32];

	memset(bytes, key, sizeof bytes);
	assert_int_equal(run(f, 0,
	                     OP(add_principal, .name = bytes_of(name),
	                        .key = {bytes, sizeof bytes})),
	                 RC_OK);
}

uint64_t
principal_generation(const struct fixture *f, const char *name)
{
	struct tree_principal p;

	assert_true(tree_principal(f->tree, bytes_of(name), &p));
	return p.generation;
}

uint64_t
session_of(struct fixture *f, const char *nonce, const char *principal)
{
	assert_int_equal(run(f, 0,
	                     OP(create_session, .nonce = bytes_of(nonce),
	                        .principal = bytes_of(principal),
	                        .principal_generation = principal_generation(f, principal),
	                        .host = bytes_of("here"))),
	                 RC_OK);
	return f->answer.session.session;
}

uint64_t
new_session(struct fixture *f, const char *nonce)
{
	return session_of(f, nonce, "admin");
}

enum rc
end_session(struct fixture *f, uint64_t session, enum end_cause cause)
{
	return run(f, 0,
	           OP(end_session, .session = session, .cause = cause,
	              .epoch = tree_epoch(f->tree)));
}

enum rc
create(struct fixture *f, uint64_t session, uint64_t parent, const char *name, enum node_kind kind,
       bool ephemeral)
{
	return run(f, session,
	           OP(create, .parent = parent, .name = bytes_of(name), .kind = kind,
	              .ephemeral = ephemeral, .exclusive = 1));
}

uint64_t
new_file(struct fixture *f, uint64_t parent, const char *name)
{
	assert_int_equal(create(f, READER, parent, name, NODE_FILE, false), RC_OK);
	return f->answer.created.attr.node;
}

uint64_t
new_directory(struct fixture *f, uint64_t parent, const char *name)
{
	assert_int_equal(create(f, READER, parent, name, NODE_DIRECTORY, false), RC_OK);
	return f->answer.created.attr.node;
}

enum rc
write_file(struct fixture *f, uint64_t node, const char *contents)
{
	return run(f, READER, OP(set_contents, .node = node, .contents = bytes_of(contents)));
}

enum rc
append_file(struct fixture *f, uint64_t node, const char *data)
{
	return run(f, READER, OP(append, .node = node, .data = bytes_of(data)));
}

enum rc
rename_file(struct fixture *f, uint64_t session, uint64_t parent, const char *name,
            uint64_t new_parent, const char *new_name)
{
	return run(f, session,
	           OP(rename, .parent = parent, .name = bytes_of(name), .new_parent = new_parent,
	              .new_name = bytes_of(new_name)));
}

enum rc
delete_name(struct fixture *f, uint64_t parent, const char *name, enum node_kind kind)
{
	return run(f, READER, OP(delete, .parent = parent, .name = bytes_of(name), .kind = kind));
}

enum rc
acquire(struct fixture *f, uint64_t session, uint64_t owner, uint64_t acquisition, uint64_t node,
        enum lock_mode mode)
{
	return run(f, session,
	           OP(acquire, .acquire = {.node = node,
	                                   .owner = owner,
	                                   .acquisition = acquisition,
	                                   .mode = mode,
	                                   .delay_s = -1,
	                                   .default_delay_s = 15,
	                                   .pid = 42}));
}

enum rc
release(struct fixture *f, uint64_t session, uint64_t owner, uint64_t acquisition, uint64_t node)
{
	return run(f, session,
	           OP(release, .node = node, .owner = owner, .acquisition = acquisition));
}

enum rc
cancel(struct fixture *f, uint64_t session, uint64_t owner, uint64_t acquisition, uint64_t node)
{
	return run(f, session,
	           OP(cancel, .node = node, .owner = owner, .acquisition = acquisition));
}

bool
exists(struct fixture *f, uint64_t node)
{
	enum rc rc = look(f, READER, OP(get_attr, .node = node));

	assert_true(rc == RC_OK || rc == RC_STALE);
	return rc == RC_OK;
}

uint64_t
lookup(struct fixture *f, uint64_t parent, const char *name)
{
	enum rc rc = look(f, READER, OP(lookup, .parent = parent, .name = bytes_of(name)));

	assert_true(rc == RC_OK || rc == RC_NOENT);
	return rc == RC_OK ? f->answer.attr.attr.node : 0;
}

struct attr
attr_of(struct fixture *f, uint64_t node)
{
	assert_int_equal(look(f, READER, OP(get_attr, .node = node)), RC_OK);
	return f->answer.attr.attr;
}

void
assert_contents(struct fixture *f, uint64_t node, const char *contents)
{
	assert_int_equal(look(f, READER, OP(get_contents, .node = node)), RC_OK);
	assert_true(bytes_equal(f->answer.contents.contents, bytes_of(contents)));
}

struct result_lock
lock_of_node(struct fixture *f, uint64_t node)
{
	assert_int_equal(look(f, READER, OP(get_lock, .node = node)), RC_OK);
	return f->answer.lock;
}
