/* Transcripts are compared, and rewritten, as they should be: with a player that adds numbers. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "tests/transcripts/script.h"
#include "tests/unit/unit.h"

struct sum {
	uint64_t value;
};

static void
run_add(struct script *s, void *world)
{
	struct sum *sum = world;

	sum->value += script_number(s) * script_value_number(s, "times", 1);
	script_say(s, "the sum is %d", (int)sum->value);
}

static void
run_echo(struct script *s, void *world)
{
	const char *word, *suffix = script_value(s, "suffix");

	(void)world;
	while ((word = script_word(s)) != NULL)
		script_say(s, "%s%s", word, suffix ? suffix : "");
}

static void
run_trace(struct script *s, void *world)
{
	struct trace t = {.on = true};

	(void)world;
	TRACE(&t, "first");
	MESSAGE_TRACE(&t, "which transcripts show themselves");
	NOTICE(&t, "second");
	script_say_traces(s, "sink", &t);
	trace_free(&t);
}

static const struct script_command commands[] = {
    {"add", "NUMBER [times=N]", run_add},
    {"echo", "WORD... [suffix=TEXT]", run_echo},
    {"trace", "", run_trace},
    {0},
};

static const struct script_player player = {"sums", commands, sizeof(struct sum), NULL, NULL};

/* Plays a transcript of this text; `text` (of 4096 bytes) becomes that of the file afterwards, and
 * `printed` the differences. */
static int
play(char *text, bool accept, char *printed)
{
	char path[] = "/tmp/test_script-XXXXXX";
	const int fd = mkstemp(path);
	FILE *out = tmpfile(), *file;
	int rc;

	assert_true(fd >= 0 && out != NULL);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	rc = script_play(&player, path, accept, out);
	rewind(out);
	printed[fread(printed, 1, 4095, out)] = '\0';
	fclose(out);
	file = fopen(path, "r");
	assert_non_null(file);
	text[fread(text, 1, 4095, file)] = '\0';
	fclose(file);
	unlink(path);
	return rc;
}

TEST(test_what_is_expected_is_said)
{
	char text[4096] = "# Sums.\n\n> add 2\n  the sum is 2\n"
	                  "> add 3 times=2\n  the sum is 8\n\n# Words.\n"
	                  "> echo \"two words\" one suffix=\"! !\"\n  two words! !\n  one! !\n"
	                  "> quietly add 1\n> add 1\n  the sum is 10\n"
	                  "> trace\n  sink: first\n  sink: second\n";
	char printed[4096];

	assert_int_equal(play(text, false, printed), 0);
	assert_string_equal(printed, "");
}

/* Lines are left out where the first and the last tell all of them. */
TEST(test_what_goes_on_in_steps_is_folded)
{
	char text[4096] = "> 6 times add 2\n  the sum is 2\n  ... 4 more, up to\n  the sum is 12\n"
	                  "> 3 times add %\n  the sum is 13\n  the sum is 15\n  the sum is 18\n"
	                  "> 5 times echo a% ; add 1\n  a1\n  the sum is 19\n"
	                  "  ... 3 more like these, up to\n  a5\n  the sum is 23\n"
	                  "> 5 times echo a\n  a\n  ... 4 more, the same\n"
	                  "> echo 1 2 4 8 16\n  1\n  2\n  4\n  8\n  16\n"
	                  "> 2 times quietly echo a ; echo b\n"
	                  "> echo a ; quietly echo b ; echo c\n  a\n";
	char printed[4096];

	assert_int_equal(play(text, false, printed), 0);
	assert_string_equal(printed, "");
}

TEST(test_a_difference_is_shown)
{
	char text[4096] = "# Words.\n> echo a b c d\n  a\n  c\n  x\n  d\n";
	char printed[4096];

	assert_int_equal(play(text, false, printed), 1);
	assert_non_null(strstr(printed, ":2: > echo a b c d\n"));
	assert_non_null(strstr(printed, "#      a\n#   +  b\n#      c\n#   -  x\n#      d\n"));
	assert_non_null(strstr(text, "  x\n"));
}

TEST(test_lines_too_many_and_too_few)
{
	char more[4096] = "> echo a\n  a\n  b\n", fewer[4096] = "> echo a b\n  a\n";
	char nothing[4096] = "> quietly echo a\n  a\n", printed[4096];

	assert_int_equal(play(more, false, printed), 1);
	assert_int_equal(play(fewer, false, printed), 1);
	assert_int_equal(play(nothing, false, printed), 1);
}

/* The prose stays where it was. */
TEST(test_accepting_rewrites_what_was_said)
{
	char text[4096] = "# Sums.\n\n> add 2\n# More of them.\n> add 3\n  the sum is 6\n"
	                  "  and so on\n\n# The end.\n";
	char printed[4096];

	assert_int_equal(play(text, true, printed), 2);
	assert_string_equal(text, "# Sums.\n\n> add 2\n  the sum is 2\n# More of them.\n> add 3\n"
	                          "  the sum is 5\n\n# The end.\n");
	assert_int_equal(play(text, false, printed), 0);
}

/* A broken script is never accepted. */
TEST(test_a_wrong_command_breaks_the_script)
{
	static const char *const wrong[] = {"> add 1\n> multiply 2\n",
	                                    "> add\n",
	                                    "> add x\n",
	                                    "> add 1 2\n",
	                                    "> add 1 times=\n",
	                                    ">\n",
	                                    "> quietly\n",
	                                    "not indented\n",
	                                    "> add 1 tmes=2\n",
	                                    "  said before any command\n"};
	char text[4096], printed[4096];

	for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
		strcpy(text, wrong[i]);
		assert_int_equal(play(text, true, printed), -1);
		assert_string_equal(text, wrong[i]);
		assert_non_null(strstr(printed, i == 0 ? ":2: no command \"multiply\"" : ":1: "));
	}
	assert_int_equal(script_play(&player, "/nowhere", false, stdout), -1);
}
