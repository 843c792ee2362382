/* The frames of each level, as programs of that level have sent them: a later program reads them
 * as they were meant. tests/golden/frames-LEVEL has one a line: in hexadecimal, and as it is
 * printed. A change of the schema without a new level (WIRE_MINOR) is seen here; before anything of
 * the new level was published, `tests/unit/test_golden --write > tests/golden/frames-LEVEL` makes
 * its file. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/wire/codec.h"
#include "tests/unit/wire_print.h"
#include "tests/unit/wire_values.h"

enum { CODES = 256, LINE = 1 << 20 };

/* The frame as a line of the file. */
static void
put_line(struct buffer *to, struct bytes frame)
{
	struct message m;

	assert_int_equal(wire_get_frame(frame, &m), RC_OK);
	for (size_t i = 0; i < frame.len; i++)
		buffer_printf(to, "%02x", frame.data[i]);
	buffer_printf(to, " ");
	wire_print_message(to, &m);
	buffer_printf(to, "\n");
	assert_false(to->failed);
}

static void
put_message(struct buffer *to, const struct message *m)
{
	struct buffer frame = BUFFER(LIMIT_FRAME);

	wire_put_frame(&frame, m);
	put_line(to, buffer_view(&frame));
	buffer_free(&frame);
}

/* A request with each operation, and each message; the numbers in each depend on its code alone. */
static void
put_all(struct buffer *to)
{
	for (unsigned code = 0; code < 2 * CODES; code++) {
		struct values v = {.rng = rng_seeded(code)};
		struct buffer encoded = BUFFER(LIMIT_ENTRY);
		struct message m;
		struct op op;

		if (code >= CODES && values_message(&v, code - CODES, &m)) {
			put_message(to, &m);
		} else if (code < CODES && values_op(&v, code, &op)) {
			wire_put_op(&encoded, &op);
			m = (struct message){MSG_request, .request.op = buffer_view(&encoded)};
			put_message(to, &m);
		}
		buffer_free(&encoded);
		values_free(&v);
	}
}

static bool
next_line(FILE *f, char line[static LINE], struct buffer *frame)
{
	unsigned byte;

	frame->len = 0;
	if (!fgets(line, LINE, f))
		return false;
	for (char *at = line; *at != ' '; at += 2) {
		assert_int_equal(sscanf(at, "%2x", &byte), 1);
		buffer_put_u8(frame, (uint8_t)byte);
	}
	return true;
}

/* Returns the contents of a level's file, whose frames are read. */
static void
read_level(unsigned level, struct buffer *all)
{
	const char *source = getenv("srcdir");
	struct buffer frame = BUFFER(LIMIT_FRAME), said = BUFFER(LINE);
	char path[4096], *line = malloc(LINE);
	FILE *f;

	snprintf(path, sizeof path, "%s/tests/golden/frames-%u", source ? source : "..", level);
	f = fopen(path, "re");
	assert_non_null(f);
	while (next_line(f, line, &frame)) {
		said.len = 0;
		put_line(&said, buffer_view(&frame));
		buffer_put_u8(&said, '\0');
		assert_string_equal((char *)said.data, line);
		buffer_printf(all, "%s", line);
	}
	fclose(f);
	free(line);
	buffer_free(&frame);
	buffer_free(&said);
}

TEST(test_frames_of_each_level)
{
	struct buffer now = BUFFER(4 * LINE), golden = BUFFER(4 * LINE);

	for (unsigned level = 0; level <= WIRE_MINOR; level++) {
		golden.len = 0;
		read_level(level, &golden);
	}
	put_all(&now);
	assert_int_equal(golden.len, now.len);
	assert_memory_equal(golden.data, now.data, now.len);
	buffer_free(&now);
	buffer_free(&golden);
}

int
main(int argc, char **argv)
{
	struct buffer now = BUFFER(4 * LINE);

	if (argc < 2 || strcmp(argv[1], "--write") != 0)
		return unit_run(NULL, NULL);
	put_all(&now);
	fwrite(now.data, 1, now.len, stdout);
	buffer_free(&now);
	return 0;
}
