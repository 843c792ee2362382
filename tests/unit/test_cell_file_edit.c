/* A new list of replicas in the text of a cell file. */
#include <string.h>
#include "cell/config/cell_file_edit.h"
#include "cell/config/key_file.h"
#include "tests/unit/unit.h"

static struct cell_file_replica
replica(int id, const char *address)
{
	struct cell_file_replica r = {.id = (uint8_t)id, .role = MEMBER_VOTER};

	strcpy(r.address, address);
	memset(r.public_key, id, sizeof r.public_key);
	return r;
}

static struct cell_file
list_of(uint64_t version, int n, const struct cell_file_replica *replicas)
{
	struct cell_file f = {.version = version, .replicas_n = n};

	memcpy(f.replicas, replicas, (size_t)n * sizeof *replicas);
	return f;
}

static void
expect(const char *text, const struct cell_file *was, const struct cell_file *is,
       const char *expected)
{
	struct buffer to = BUFFER(10000);
	struct bytes got;

	cell_file_edit(bytes_of(text), was, is, &to);
	buffer_put_u8(&to, 0);
	got = buffer_view(&to);
	assert_string_equal((const char *)got.data, expected);
	buffer_free(&to);
}

#define KEY_OF_1 "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"
#define KEY_OF_2 "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"
#define KEY_OF_4 "BAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQ"

/* The keys of zeros, of ones and of twos, in text. */
#define KEY_OF_0 "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
#define KEY_OF_ONES "AQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQEBAQE"
#define KEY_OF_TWOS "AgICAgICAgICAgICAgICAgICAgICAgICAgICAgICAgI"

static const char before[] = "# The cell file.\n"
                             "[cell]\n"
                             "name = dc1 ; the first one\n"
                             "version = 7\n"
                             "\n"
                             "# in the cellar\n"
                             "[replica 1]\n"
                             "address = a:1\n"
                             "key = " KEY_OF_1 "\n"
                             "\n"
                             "# in the attic\n"
                             "[replica 2]\n"
                             "address = b:1\n"
                             "  # its key\n"
                             "key = " KEY_OF_2 "\n";

TEST(test_the_same_list)
{
	const struct cell_file_replica both[] = {replica(1, "a:1"), replica(2, "b:1")};
	const struct cell_file was = list_of(7, 2, both);

	expect("[cell]\nname = a\n", &was, &was,
	       "[cell]\nname = a\nversion = 7\n\n[replica 1]\naddress = a:1\nkey = " KEY_OF_1
	       "\n\n[replica 2]\naddress = b:1\nkey = " KEY_OF_2 "\n");
}

/* A colon separates a name from its value, too. */
TEST(test_a_colon)
{
	const struct cell_file_replica one = replica(1, "a:1");
	const struct cell_file was = list_of(7, 1, &one), is = list_of(34, 1, &one);

	expect("[cell]\nname: a\nversion : 7\n[replica 1]\naddress: a:1\nkey: " KEY_OF_1 "\n", &was,
	       &is,
	       "[cell]\nname: a\nversion = 34\n[replica 1]\naddress: a:1\nkey: " KEY_OF_1 "\n");
}

/* Readers take two sections of a name for one, in which nothing may be given twice. */
TEST(test_two_sections_of_the_cell)
{
	const struct cell_file_replica one = replica(1, "a:1");
	const struct cell_file was = list_of(7, 1, &one);
	struct cell_file is = list_of(34, 1, &one);

	memset(is.signing_public, 1, SIGN_PUBLIC);
	is.has_former = true;
	expect("[cell]\nname = a\n[replica 1]\naddress = a:1\n[cell]\nid = b\nversion = 7\n"
	       "signing_key = " KEY_OF_0 "\n",
	       &was, &is,
	       "[cell]\nname = a\nsigning_key = " KEY_OF_ONES "\nformer_signing_key = " KEY_OF_0
	       "\nversion = 34\n[replica 1]\naddress = a:1\n[cell]\nid = b\n");
}

TEST(test_one_comes_and_one_goes)
{
	const struct cell_file_replica old[] = {replica(1, "a:1"), replica(2, "b:1")};
	const struct cell_file_replica new[] = {replica(2, "b:1"), replica(4, "[::1]:9")};
	const struct cell_file was = list_of(7, 2, old), is = list_of(34, 2, new);

	expect(before, &was, &is,
	       "# The cell file.\n"
	       "[cell]\n"
	       "name = dc1 ; the first one\n"
	       "version = 34\n"
	       "\n"
	       "# in the attic\n"
	       "[replica 2]\n"
	       "address = b:1\n"
	       "  # its key\n"
	       "key = " KEY_OF_2 "\n"
	       "\n"
	       "[replica 4]\n"
	       "address = [::1]:9\n"
	       "key = " KEY_OF_4 "\n");
}

TEST(test_the_signing_key_is_rotated)
{
	const struct cell_file_replica one[] = {replica(1, "a:1")};
	struct cell_file was = list_of(0, 1, one), is = was, next;

	memset(is.signing_public, 1, SIGN_PUBLIC);
	is.has_former = true;
	is.key_version = 5;
	next = is;
	memset(next.signing_public, 2, SIGN_PUBLIC);
	memset(next.former_public, 1, SIGN_PUBLIC);
	next.key_version = 9;
	expect("[cell]\nsigning_key = " KEY_OF_0 "\nname = a\n[replica 1]\naddress = a:1\n", &was,
	       &is,
	       "[cell]\nname = a\nsigning_key = " KEY_OF_ONES "\nformer_signing_key = " KEY_OF_0
	       "\nkey_version = 5\n[replica 1]\naddress = a:1\n");
	expect("[cell]\nformer_signing_key = " KEY_OF_0
	       "\nkey_version = 5\n # a comment\n signing_key=" KEY_OF_ONES
	       "\nname = a\n[replica 1]\naddress = a:1\n",
	       &is, &next,
	       "[cell]\n # a comment\nname = a\nsigning_key = " KEY_OF_TWOS
	       "\nformer_signing_key = " KEY_OF_ONES
	       "\nkey_version = 9\n[replica 1]\naddress = a:1\n");
	expect("[cell]\nname = a\nsigning_key = " KEY_OF_ONES "\n[replica 1]\naddress = a:1\n", &is,
	       &is,
	       "[cell]\nname = a\nsigning_key = " KEY_OF_ONES "\n[replica 1]\naddress = a:1\n");
}

TEST(test_one_moves)
{
	const struct cell_file_replica old[] = {replica(1, "a:1"), replica(2, "b:1")};
	struct cell_file_replica new[] = {replica(1, "a:1"), replica(2, "c:1")};
	const struct cell_file was = list_of(7, 2, old);
	struct cell_file is;

	new[1].role = MEMBER_LEARNER;
	is = list_of(8, 2, new);
	expect(before, &was, &is,
	       "# The cell file.\n"
	       "[cell]\n"
	       "name = dc1 ; the first one\n"
	       "version = 8\n"
	       "\n"
	       "# in the cellar\n"
	       "[replica 1]\n"
	       "address = a:1\n"
	       "key = " KEY_OF_1 "\n"
	       "\n"
	       "# in the attic\n"
	       "[replica 2]\n"
	       "address = c:1\n"
	       "key = " KEY_OF_2 "\n"
	       "role = learner\n"
	       "  # its key\n");
}
