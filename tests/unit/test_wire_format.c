/* The format, byte by byte, and the lines in which messages are printed: these do not change. */
#include "tests/unit/unit.h"

#include <string.h>
#include "cell/wire/codec.h"
#include "tests/unit/wire_print.h"

static void
assert_golden(const struct message *m, const char *hex, const char *line)
{
	struct buffer b = BUFFER(LIMIT_FRAME), text = BUFFER(LIMIT_FRAME), printed = BUFFER(4096);
	struct message got;

	wire_put_frame(&b, m);
	for (size_t i = 0; i < b.len; i++)
		buffer_printf(&text, "%02x", b.data[i]);
	buffer_put_u8(&text, '\0');
	assert_string_equal((char *)text.data, hex);

	assert_int_equal(wire_get_frame(buffer_view(&b), &got), RC_OK);
	wire_print_message(&printed, &got);
	buffer_put_u8(&printed, '\0');
	assert_string_equal((char *)printed.data, line);
	buffer_free(&b);
	buffer_free(&text);
	buffer_free(&printed);
}

TEST(test_golden_keepalive)
{
	const struct message m = {MSG_keepalive, .keepalive = {7, 3, 258, 6, 5}};

	assert_golden(&m,
	              "29000000"
	              "03"
	              "0700000000000000"
	              "0300000000000000"
	              "0201000000000000"
	              "0600000000000000"
	              "0500000000000000",
	              "keepalive session=7 epoch=3 sequence=258 generation=6 heard=5");
}

TEST(test_golden_request)
{
	const struct op op = {OP_set_contents, .set_contents = {5, 1, 2, bytes_of("hi\n")}};
	struct message m = {MSG_request, .request = {7,
	                                             3,
	                                             9,
	                                             8,
	                                             1,
	                                             {NULL, 0},
	                                             6,
	                                             {{NULL, 0}, 1},
	                                             {5, 2, 1, 4},
	                                             bytes_of("ann"),
	                                             RIGHT_WRITE,
	                                             bytes_of("check")}};
	struct buffer b = BUFFER(100), dropped = BUFFER(100);

	wire_put_op(&b, &op);
	m.request.op = buffer_view(&b);
	wire_put_node_key(&dropped, &(struct node_key){5});
	m.request.dropped.packed = buffer_view(&dropped);
	assert_golden(&m,
	              "81000000"
	              "05"
	              "0700000000000000"
	              "0300000000000000"
	              "0900000000000000"
	              "0800000000000000"
	              "01"
	              "19000000"
	              "21"
	              "0500000000000000"
	              "01"
	              "0200000000000000"
	              "03000000"
	              "68690a"
	              "0600000000000000"
	              "01000000"
	              "08000000"
	              "0500000000000000"
	              "0500000000000000"
	              "0200000000000000"
	              "01"
	              "0400000000000000"
	              "03000000"
	              "616e6e"
	              "02"
	              "05000000"
	              "636865636b",
	              "request session=7 epoch=3 number=9 below=8 ordered=1 "
	              "op=set_contents{node=5 guarded=1 generation=2 contents=68690a} "
	              "generation=6 dropped=1[{node=5}] "
	              "guard={node=5 lock_generation=2 mode=1 fence=4} user=\"ann\" "
	              "handle_rights=2 check=636865636b");
	buffer_free(&b);
	buffer_free(&dropped);
}

TEST(test_golden_accept)
{
	const struct op op = {OP_lookup, .lookup = {1, bytes_of("a\"\n")}};
	struct command command = {.stamp_ns = -1, .session = 2, .number = 3, .below = 4};
	struct buffer ops = BUFFER(100), commands = BUFFER(200), payload = BUFFER(300);
	struct buffer entries = BUFFER(400);
	struct log_entry entry = {.slot = 10,
	                          .ballot = {6, 1},
	                          .origin = {5, 2},
	                          .checksum = 0xabcd,
	                          .before = {4, 3}};
	struct message m = {MSG_accept,
	                    .accept = {.ballot = {6, 1}, .chosen = 9, .pass = 2, .first = 10}};

	wire_put_op(&ops, &op);
	command.op = buffer_view(&ops);
	wire_put_command(&commands, &command);
	wire_put_entry(&payload, &(struct entry){{buffer_view(&commands), 1}});
	entry.payload = buffer_view(&payload);
	wire_put_log_entry(&entries, &entry);
	m.accept.entries = (struct wire_list){buffer_view(&entries), 1};
	assert_golden(&m,
	              "c5000000"
	              "22"
	              "0600000000000000"
	              "01"
	              "0900000000000000"
	              "0200000000000000"
	              "0a00000000000000"
	              "00000000"
	              "00000000"
	              "01000000"
	              "93000000"
	              "0a00000000000000"
	              "0600000000000000"
	              "01"
	              "0500000000000000"
	              "02"
	              "cdab000000000000"
	              "64000000"
	              "01000000"
	              "5c000000"
	              "ffffffffffffffff"
	              "0200000000000000"
	              "0300000000000000"
	              "0400000000000000"
	              "10000000"
	              "01"
	              "0100000000000000"
	              "03000000"
	              "61220a"
	              "00"
	              "00000000"
	              "00000000"
	              "0000000000000000"
	              "0000000000000000"
	              "00"
	              "0000000000000000"
	              "000000000000"
	              "0400000000000000"
	              "03",
	              "accept ballot={round=6 replica=1} chosen=9 pass=2 first=10 named=0[] "
	              "entries=1[{slot=10 ballot={round=6 replica=1} origin={round=5 replica=2} "
	              "checksum=43981 payload={commands=1[{stamp_ns=-1 session=2 number=3 below=4 "
	              "op=lookup{parent=1 name=\"a\\\"\\x0a\"} bounded=0 keys=0[] "
	              "guard={node=0 lock_generation=0 mode=0 fence=0} user=\"\" handle_rights=0 "
	              "refused=0}]} before={round=4 replica=3}}]");
	buffer_free(&ops);
	buffer_free(&commands);
	buffer_free(&payload);
	buffer_free(&entries);
}

TEST(test_long_values_are_printed_short)
{
	static const uint8_t contents[65];
	const struct op op = {OP_append, .append = {5, {contents, sizeof contents}}};
	struct message m = {MSG_gathered, .gathered = {{1, 1}, {{NULL, 0}, 9}}};
	struct buffer entries = BUFFER(1000), b = BUFFER(1000);

	wire_print_op(&b, &op);
	assert_true(bytes_equal(buffer_view(&b), bytes_of("append{node=5 data=<65 bytes>}")));
	buffer_reset(&b);
	wire_print_op(&b, &(struct op){.code = (enum op_code)200});
	assert_true(bytes_equal(buffer_view(&b), bytes_of("operation 200?")));

	for (int i = 0; i < 9; i++)
		wire_put_log_entry(&entries, &(struct log_entry){.slot = i});
	m.gathered.entries.packed = buffer_view(&entries);
	buffer_reset(&b);
	wire_print_message(&b, &m);
	buffer_put_u8(&b, '\0');
	assert_non_null(strstr((char *)b.data, "{slot=7 "));
	assert_non_null(strstr((char *)b.data, "} ...]"));
	assert_null(strstr((char *)b.data, "{slot=8 "));
	buffer_free(&entries);
	buffer_free(&b);
}
