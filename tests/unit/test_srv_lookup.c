/* Answers of DNS: the addresses in them, in their order; answers that are cut off, damaged or of
 * another kind; and the replicas to which addresses are given. */
#include <stdio.h>
#include <string.h>

#include "cell/base/rng.h"
#include "cell/net/srv_lookup.h"
#include "tests/unit/unit.h"

static void
put_u16(struct buffer *to, unsigned value)
{
	buffer_put_u8(to, (uint8_t)(value >> 8));
	buffer_put_u8(to, (uint8_t)value);
}

/* "a.b" as labels; "" is the root. */
static void
put_name(struct buffer *to, const char *name)
{
	while (*name != '\0') {
		const size_t len = strcspn(name, ".");

		buffer_put_u8(to, (uint8_t)len);
		buffer_put(to, name, len);
		name += len + (name[len] == '.');
	}
	buffer_put_u8(to, 0);
}

static struct buffer
answer_begin(unsigned records)
{
	struct buffer to = BUFFER(4096);

	put_u16(&to, 7);      /* id */
	put_u16(&to, 0x8180); /* an answer */
	put_u16(&to, 1);
	put_u16(&to, records);
	put_u16(&to, 0);
	put_u16(&to, 0);
	put_name(&to, "_lsfs._tcp.a.org");
	put_u16(&to, 33);
	put_u16(&to, 1);
	return to;
}

static void
put_record(struct buffer *to, unsigned type, struct bytes data)
{
	put_u16(to, 0xc00c); /* the name of the question */
	put_u16(to, type);
	put_u16(to, 1);
	buffer_put_u32(to, 0); /* time to live */
	put_u16(to, (unsigned)data.len);
	buffer_put_bytes(to, data);
}

static void
put_srv(struct buffer *to, unsigned priority, unsigned weight, unsigned port, const char *host)
{
	struct buffer data = BUFFER(512);

	put_u16(&data, priority);
	put_u16(&data, weight);
	put_u16(&data, port);
	put_name(&data, host);
	put_record(to, 33, buffer_view(&data));
	buffer_free(&data);
}

TEST(test_preferred_first)
{
	struct buffer answer = answer_begin(5);
	struct srv_addresses a;

	put_srv(&answer, 20, 9, 7003, "c.a.org");
	put_srv(&answer, 10, 1, 7002, "b.a.org");
	put_record(&answer, 16, bytes_of("\3txt"));
	put_srv(&answer, 10, 5, 7001, "a.a.org");
	put_srv(&answer, 0, 0, 7009, ""); /* not offered */
	assert_true(srv_parse(buffer_view(&answer), &a));
	assert_int_equal(a.n, 3);
	assert_string_equal(a.list[0], "a.a.org:7001");
	assert_string_equal(a.list[1], "b.a.org:7002");
	assert_string_equal(a.list[2], "c.a.org:7003");
	buffer_free(&answer);
}

TEST(test_more_than_a_cell_has)
{
	struct buffer answer = answer_begin(100);
	struct srv_addresses a;

	for (unsigned i = 0; i < 100; i++)
		put_srv(&answer, i, 0, 7000 + i, "a.org");
	assert_true(srv_parse(buffer_view(&answer), &a));
	assert_int_equal(a.n, LIMIT_REPLICAS);
	assert_string_equal(a.list[0], "a.org:7000");
	buffer_free(&answer);
}

/* A name of 253 bytes is one of DNS, and too long for an address. */
TEST(test_a_name_too_long)
{
	struct buffer answer = answer_begin(2);
	struct srv_addresses a;
	char host[254];

	memset(host, 'x', sizeof host);
	for (size_t i = 63; i < sizeof host; i += 64)
		host[i] = '.';
	host[253] = '\0';
	put_srv(&answer, 1, 1, 7000, host);
	put_srv(&answer, 2, 1, 7000, "a.org");
	assert_true(srv_parse(buffer_view(&answer), &a));
	for (int i = 0; i < a.n; i++)
		assert_in_range(strlen(a.list[i]), 1, sizeof a.list[0] - 1);
	assert_string_equal(a.list[a.n - 1], "a.org:7000");
	buffer_free(&answer);
}

/* Whatever is cut off or changed: no address that does not fit, no reading beyond the end. */
TEST(test_damage)
{
	struct buffer answer = answer_begin(2);
	struct rng rng = rng_seeded(1);
	struct srv_addresses a;

	put_srv(&answer, 1, 1, 7001, "a.a.org");
	put_srv(&answer, 2, 1, 7002, "b.a.org");
	for (size_t len = 0; len < answer.len; len++)
		assert_false(srv_parse((struct bytes){answer.data, len}, &a));
	for (int i = 0; i < 20000; i++) {
		const size_t at = rng_below(&rng, answer.len);
		const uint8_t was = answer.data[at];

		answer.data[at] = (uint8_t)rng_next(&rng);
		if (srv_parse(buffer_view(&answer), &a))
			for (int k = 0; k < a.n; k++)
				assert_non_null(strrchr(a.list[k], ':'));
		if (i % 4 != 0)
			answer.data[at] = was;
	}
	buffer_free(&answer);
}

/* Each index comes to each address, and first to its own. */
TEST(test_each_is_tried_with_each)
{
	const struct srv_addresses a = {.list = {"a:1", "b:1", "c:1"}, .n = 3};

	assert_string_equal(srv_address(&a, "c:1", 0, 0), "c:1");
	assert_string_equal(srv_address(&a, "x:1", 1, 0), "b:1");
	assert_string_equal(srv_address(&a, "x:1", 6, 0), "a:1");
	for (int i = 0; i < 7; i++) {
		bool seen[3] = {false};

		for (unsigned time = 0; time < 3; time++)
			seen[srv_address(&a, "b:1", i, time)[0] - 'a'] = true;
		assert_true(seen[0] && seen[1] && seen[2]);
	}
}
