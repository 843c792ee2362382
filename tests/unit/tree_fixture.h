/* A tree under test, with the shortest way to apply a command to it and to look at the answer. */
#ifndef LSFS_TESTS_TREE_FIXTURE_H
#define LSFS_TESTS_TREE_FIXTURE_H

#include <stdlib.h>
#include <string.h>
#include "cell/tree/tree.h"
#include "cell/wire/codec.h"
#include "tests/unit/unit.h"

enum { SECOND_NS = 1000000000 };

struct fixture {
	struct tree *tree;
	struct tree_outcome out;
	int64_t stamp_ns;     /* of the next command; grows by a second with each */
	struct buffer packed; /* commands of the entry being made */
	uint32_t packed_n;
	struct buffer result;  /* of the last read */
	struct result answer;  /* decoded result of the last command or read */
	uint8_t handle_rights; /* rights of the handle that commands and reads go through */
};

/* An empty tree; with fixture_new, one whose first epoch has begun. */
struct fixture *fixture_empty(void);
struct fixture *fixture_new(void);
void fixture_free(struct fixture *f);
int tree_setup(void **state);
int tree_teardown(void **state);
#define TREE_TEST(test) TEST_WITH(test, tree_setup, tree_teardown)

/* Several commands in one entry: add them, then apply. */
void entry_add(struct fixture *f, const struct command *c, const struct op *op);
enum rc entry_apply(struct fixture *f);

/* One command in an entry of its own; the tree is checked afterwards. */
enum rc run(struct fixture *f, uint64_t session, const struct op *op);
enum rc run_numbered(struct fixture *f, uint64_t session, uint64_t number, uint64_t below,
                     const struct op *op);
enum rc look(struct fixture *f, uint64_t session, const struct op *op);
/* tree_read, with its result encoded in `to`, in place of what was there. */
enum rc tree_read_encoded(const struct tree *t, const struct requester *who, int64_t now_ns,
                          const struct op *op, struct buffer *to);

/* The first note of this kind in the last outcome, NULL if there is none. */
const struct tree_note *noted(const struct fixture *f, enum tree_note_kind kind);
size_t notes_of(const struct fixture *f, enum tree_note_kind kind);

/* Sessions begin with the nonce that they are told by; they end by the master. */
uint64_t new_session(struct fixture *f, const char *nonce); /* of the principal admin */
uint64_t session_of(struct fixture *f, const char *nonce, const char *principal);
/* Adds a principal, whose key is 32 bytes of this value. */
void add_principal(struct fixture *f, const char *name, uint8_t key);
uint64_t principal_generation(const struct fixture *f, const char *name);
enum rc end_session(struct fixture *f, uint64_t session, enum end_cause cause);

/* Each returns the result code; f->answer has the rest. */
enum rc create(struct fixture *f, uint64_t session, uint64_t parent, const char *name,
               enum node_kind kind, bool ephemeral);
uint64_t new_file(struct fixture *f, uint64_t parent, const char *name);
uint64_t new_directory(struct fixture *f, uint64_t parent, const char *name);
enum rc write_file(struct fixture *f, uint64_t node, const char *contents);
enum rc append_file(struct fixture *f, uint64_t node, const char *data);
enum rc rename_file(struct fixture *f, uint64_t session, uint64_t parent, const char *name,
                    uint64_t new_parent, const char *new_name);
enum rc delete_name(struct fixture *f, uint64_t parent, const char *name, enum node_kind kind);
enum rc acquire(struct fixture *f, uint64_t session, uint64_t owner, uint64_t acquisition,
                uint64_t node, enum lock_mode mode);
enum rc release(struct fixture *f, uint64_t session, uint64_t owner, uint64_t acquisition,
                uint64_t node);
enum rc cancel(struct fixture *f, uint64_t session, uint64_t owner, uint64_t acquisition,
               uint64_t node);

/* Reads that must succeed. */
bool exists(struct fixture *f, uint64_t node);
uint64_t lookup(struct fixture *f, uint64_t parent, const char *name); /* 0: RC_NOENT */
struct attr attr_of(struct fixture *f, uint64_t node);
void assert_contents(struct fixture *f, uint64_t node, const char *contents);
struct result_lock lock_of_node(struct fixture *f, uint64_t node);

/* A session that does nothing but read, for the functions above. */
enum { READER = 5 }; /* the first number after the new cell's nodes */

#define OP(name, ...) (&(struct op){.code = OP_##name, .name = {__VA_ARGS__}})

#endif
