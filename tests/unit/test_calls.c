/* The judgement of calls finds what is wrong in each of these histories, and nothing in the good
 * ones. A line is a call: outcome, process, operation, path, value ("-": none, "_": a space), when
 * it began and ended, and what else is known of it. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell/base/must.h"
#include "tests/calls/calls.h"

/* A violation holds one of the texts, which "|" separates, and there is no other violation; NULL:
 * there is none. `calls` begins with "stale" where reads may show earlier states. */
static const struct history {
	const char *finds, *calls;
} histories[] = {
    /* ---- registers ---- */

    {NULL, /* a register */
     "ok 1 write r a 10 20\n"
     "ok 2 read r a 11 12 generation=1\n" /* while it is written */
     "ok 1 write r b 30 40\n"
     "ok 2 read r a 31 32 generation=1\n" /* the next one is under way */
     "ok 3 read r b 33 39 generation=2\n"
     "info 1 write r c 50 60\n" /* may happen later */
     "ok 2 read r b 70 80 generation=2\n"
     "ok 2 cas r d 81 82 expected=b\n"
     "ok 3 read r c 90 91 generation=4\n" /* it did */
     "info 4 write r e 92 93\n"           /* it never did */
     "info 4 cas r f 94 95 expected=c\n"
     "ok 3 cas r g 96 97 expected=f\n" /* the open swap before it did */
     "fail 3 write r h 98 99\n"
     "ok 1 final r g 100 110 generation=6\n"
     "ok 2 final r g 100 110 generation=6\n"},
    {"still seen when", "ok 1 write r a 10 20\n"
                        "ok 1 write r b 30 40\n"
                        "ok 2 read r a 50 60\n"},
    {"still seen when", "ok 1 write r a 10 20\n"
                        "ok 1 write r b 30 60\n"
                        "ok 2 read r b 40 45\n"
                        "ok 3 read r a 50 55\n"},
    {"nobody wrote what was seen", "ok 1 write r a 10 20\n" /* and lost */
                                   "ok 2 read r 0 30 40\n"},
    {"2 writes were acknowledged, 0 are open, but 1 versions",
     "ok 1 write r a 10 20\n"
     "ok 1 read r a 21 22 generation=1\n"
     "ok 1 write r b 30 40\n"
     "ok 1 write r c 50 60\n"
     "ok 2 read r c 70 80 generation=2\n"},
    {"1 writes were acknowledged, 0 are open, but 2 versions",
     "ok 1 write r a 10 20\n"
     "ok 1 read r a 21 22 generation=1\n"
     "ok 1 write r b 30 40\n"
     "ok 2 read r b 70 80 generation=3\n"},
    /* the open write took effect twice */
    {"still seen when", "ok 1 write r a 10 20\n"
                        "info 2 write r b 30 31\n"
                        "ok 1 read r b 40 41\n"
                        "ok 1 write r c 50 51\n"
                        "ok 1 read r c 60 61\n"
                        "ok 1 read r b 70 71\n"},
    {"a write that failed was seen", "ok 1 write r a 10 20\n"
                                     "fail 1 write r b 30 40\n"
                                     "ok 1 read r b 50 60\n"},
    {"seen before it was written", "ok 1 read r a 10 20\n"
                                   "ok 1 write r a 30 40\n"},
    {"two swaps of 'a'", "ok 1 write r a 10 20\n"
                         "ok 1 cas r b 30 40 expected=a\n"
                         "ok 2 cas r c 50 60 expected=a\n"},
    {"had been swapped for it", "ok 1 write r a 10 20\n"
                                "ok 1 cas r b 30 40 expected=a\n"
                                "ok 2 read r a 50 60\n"},
    {"still seen when", "ok 1 write r a 10 20\n"
                        "ok 1 write r x 30 40\n"
                        "ok 2 read r x 41 42\n"
                        "ok 1 cas r b 30 60 expected=a\n" /* x stood between */
                        "ok 2 read r a 25 29\n"
                        "ok 2 read r b 61 62\n"},
    {"version 5 was|but 0 versions", "ok 1 write r a 10 20\n"
                                     "ok 1 read r a 21 22 generation=5\n"
                                     "ok 1 write r b 30 40\n"
                                     "ok 1 read r b 41 42 generation=5\n"},
    {"was version 5 and 6|but 1 versions", "ok 1 write r a 10 20\n"
                                           "ok 1 read r a 21 22 generation=5\n"
                                           "ok 2 read r a 31 32 generation=6\n"},
    {"version 1 'a' was swapped for version 3", "ok 1 write r a 10 11\n"
                                                "ok 1 read r a 12 13 generation=1\n"
                                                "ok 1 cas r b 20 21 expected=a\n"
                                                "info 2 write r c 5 6\n"
                                                "ok 1 read r b 30 31 generation=3\n"},
    /* what stat tells */
    {NULL, "ok 1 write s 65 10 20\n"
           "ok 2 stat s 65 21 22 mtime=1000\n"
           "ok 1 write s 66 30 60\n"
           "ok 2 stat s 65 31 32 mtime=1000\n"
           "ok 3 read s 66 35 36 generation=2\n"
           "ok 2 stat s 66 37 38 mtime=1001\n"
           "ok 2 stat s 66 70 71 generation=2 mtime=1001\n"
           "ok 1 final s 66 80 81 generation=2\n"},
    /* a cache that was not told of the write, or had no leave any more */
    {"'65' was still seen when '66' had replaced it", "ok 1 write s 65 10 20\n"
                                                      "ok 2 stat s 65 21 22 mtime=1000\n"
                                                      "ok 1 write s 66 30 40\n"
                                                      "ok 2 stat s 65 41 42 mtime=1000\n"},
    /* stat and read are answered from different memories */
    {"'65' was still seen when '66' had replaced it|'66' was still seen when '65' had",
     "ok 1 write s 65 10 20\n"
     "ok 1 write s 66 30 60\n"
     "ok 2 read s 66 40 41\n"
     "ok 3 stat s 65 42 43 mtime=1000\n"},
    /* a stat was under way when the machine was frozen, its call came after the write */
    {"'65' was still seen when '66' had replaced it", "ok 1 write s 65 10 20\n"
                                                      "ok 2 stat s 65 21 200 mtime=1000\n"
                                                      "ok 1 write s 66 30 80\n"
                                                      "ok 3 stat s 65 90 200 mtime=1000\n"},
    {"nobody wrote what was seen", "ok 1 write s 65 10 20\n" /* while it is being emptied */
                                   "ok 2 stat s 0 30 40 mtime=1000\n"},
    {"'65' was changed at 1000 and 1001", "ok 1 write s 65 10 20\n"
                                          "ok 2 stat s 65 21 22 mtime=1000\n"
                                          "ok 3 stat s 65 23 24 mtime=1001\n"},
    {"version 2 is not later than version 1|mtime 1000 had ended|mtime 999 had ended",
     "ok 1 write s 65 10 20\n"
     "ok 2 stat s 65 21 22 generation=1 mtime=1000\n"
     "ok 1 write s 66 30 40\n"
     "ok 2 stat s 66 41 42 generation=2 mtime=999\n"},
    {"its source was gone", "ok 1 rename r a 10 20\n"
                            "fail 1 rename r b 30 40 error=ENOENT\n"},
    /* ---- appends ---- */

    {NULL, /* appended lines */
     "ok 1 append l a 10 20\n"
     "ok 2 append l b 15 30\n"
     "ok 3 tail l 2_b 16 17\n"
     "info 1 append l c 40 50\n"
     "info 2 append l d 41 50\n"
     "fail 2 append l e 60 61\n"
     "ok 3 tail l 4_a 70 71\n"
     "ok 1 final l b;a;d; 80 90\n"},
    {"an acknowledged line is lost", "ok 1 append l a 10 20\n"
                                     "ok 1 final l - 80 90\n"},
    {"appended twice", "info 1 append l a 10 20\n"
                       "ok 1 final l a;a; 80 90\n"},
    {"had ended when", "ok 1 append l a 10 20\n"
                       "ok 1 append l b 30 40\n"
                       "ok 1 final l b;a; 80 90\n"},
    /* a stale read of a file that grows */
    {"had ended when", "ok 1 append l a 10 20\n"
                       "ok 2 tail l 0 30 40\n"
                       "ok 1 final l a; 80 90\n"},
    {"nobody appended", "ok 1 append l a 10 20\n"
                        "ok 1 final l a;x; 80 90\n"},
    /* ---- counters ---- */

    {NULL, /* a counter */
     "ok 1 count n 1 10 20\n"
     "info 1 count n - 30 40\n"
     "ok 1 count n 3 50 60\n"
     "ok 1 final n 3 80 90\n"},
    {"increment is lost|counts 1", "ok 1 count n 1 10 20\n"
                                   "ok 2 count n 1 30 40\n"
                                   "ok 1 final n 1 80 90\n"},
    {"counts 2; 1 increments were acknowledged, 0 are open", "ok 1 count n 1 10 20\n"
                                                             "ok 1 final n 2 80 90\n"},
    /* ---- locks ---- */

    {NULL, /* locks */
     "ok 1 lock k 7 10 20\n"
     "ok 1 hold k - 30 31\n"
     "ok 2 lock k 8 15 35\n"
     "ok 2 hold k - 40 41\n"
     "ok 3 lock k 9 16 50\n" /* its session ended, nothing proves that it was held */
     "fail 3 hold k - 70 71\n"
     "ok 4 lock k 10 17 60\n"
     "ok 4 hold k - 65 66\n"
     "ok 1 share k 0 70 71\n"
     "ok 2 share k 0 70 72\n"
     "ok 1 hold k - 80 81\n"
     "ok 2 hold k - 80 81\n"},
    {"two holders at once", "ok 1 lock k 7 10 20\n"
                            "ok 2 lock k 8 15 30\n"
                            "ok 1 hold k - 40 41\n"
                            "ok 2 hold k - 40 41\n"},
    {"two holders at once", "ok 1 share k 0 10 20\n"
                            "ok 2 lock k 8 15 30\n"
                            "ok 1 hold k - 40 41\n"
                            "ok 2 hold k - 40 41\n"},
    {"fencing token 7 had ended when 8 began|fencing token 8 had ended when",
     "ok 1 lock k 8 10 20\n"
     "ok 2 lock k2 7 30 40\n"},
    {NULL, /* its holder is told a token again */
     "ok 1 lock k 7 10 20 generation=3\n"
     "ok 1 lock k 7 30 40 generation=3 again\n"
     "ok 2 share k 9 41 50 generation=4\n"},
    {"fencing token 7 was given twice", "ok 1 lock k 7 10 20\n"
                                        "ok 2 lock k 7 30 40 again\n"},
    {"lock generation 3 is exclusive twice", "ok 1 lock k 7 10 20 generation=3\n"
                                             "ok 2 lock k 8 30 40 generation=3\n"},

    /* ---- the end ---- */

    {"two mounts differ at the end", "ok 1 write r a 10 20\n"
                                     "ok 1 final r a 30 40\n"
                                     "info 1 write r b 50 60\n"
                                     "ok 2 final r b 70 80\n"},
    {"ephemeral files are left", "ok 1 ephemeral e/1 - 10 20\n"
                                 "ok 1 left e 1 30 40\n"},

    /* ---- what the cell decided is known ---- */

    {NULL, /* answers of the cell, with their places, and of caches, without */
     "ok 1 write v a 10 20 at=5 generation=1\n"
     "ok 1 write v b 30 60 at=7 generation=2\n"
     "ok 2 read v a 31 41 at=6 generation=1\n"
     "ok 3 read v a 41 41\n" /* cached, and nobody knows better yet */
     "ok 2 read v b 42 43 at=8 generation=2\n"
     "ok 3 read v b 44 44\n"
     "ok 4 read v - 44 45 at=8 generation=2 unseen\n"
     "info 1 write v a 70 90 at=9 generation=3\n" /* a value may come again */
     "ok 3 read v b 80 80\n"
     "ok 3 read v a 81 81\n"
     "fail 1 write v c 82 85\n"
     "ok 1 other x - 91 92 at=10\n"},
    {NULL, /* a name: absent, there, absent */
     "ok 1 write n - 1 2 at=1\n"
     "ok 1 write n 8 10 20 at=5\n"
     "ok 1 write n - 30 40 at=6\n"
     "ok 2 read n - 11 19 at=4\n"
     "ok 3 read n - 12 12\n"
     "ok 3 read n 8 29 29\n"
     "ok 3 read n 8 35 35\n"
     "ok 3 read n - 36 36\n"
     "ok 2 read n - 41 42 at=6\n"},
    {NULL, /* with clocks that are wrong */
     "stale\n"
     "ok 1 write v a 10 20 at=5\n"
     "ok 1 write v b 30 40 at=7\n"
     "ok 2 read v a 50 51 at=6\n"
     "ok 2 read v a 52 52\n"},
    /* stale reads, of the cell and of caches */
    {"'a' was still seen when 'b' had replaced it|place 7 had ended when 6 began",
     "ok 1 write v a 10 20 at=5\n"
     "ok 1 write v b 30 40 at=7\n"
     "ok 2 read v a 50 51 at=6\n"},
    {"'a' was still seen when 'b' had replaced it", "ok 1 write v a 10 20 at=5\n"
                                                    "ok 1 write v b 30 40 at=7\n"
                                                    "ok 2 read v a 50 50\n"},
    /* another reader knew already, though the writer did not */
    {"'a' was still seen when 'b' had replaced it", "ok 1 write v a 10 20 at=5\n"
                                                    "info 1 write v b 30 40 at=7\n"
                                                    "ok 2 read v b 50 51 at=7\n"
                                                    "ok 3 read v a 52 52\n"},
    /* a file that exists is absent in a cache, and the other way round */
    {"'' was still seen when '8' had replaced it", "ok 1 write n - 1 2 at=1\n"
                                                   "ok 1 write n 8 10 20 at=5\n"
                                                   "ok 3 read n - 21 21\n"},
    {"'8' was still seen when '' had replaced it", "ok 1 write n 8 10 20 at=5\n"
                                                   "ok 1 write n - 30 40 at=6\n"
                                                   "ok 3 read n 8 41 41\n"},
    {"shows another value than was there", "ok 1 write v a 10 20 at=5\n"
                                           "ok 1 write v b 30 40 at=7\n"
                                           "ok 2 read v b 31 39 at=6\n"},
    {"shows another value than was there", "ok 1 write v a 10 20 at=5 generation=1\n"
                                           "ok 2 read v - 31 39 at=6 generation=2 unseen\n"},
    {"nobody wrote what was seen", "ok 1 write v a 10 20 at=5\n"
                                   "ok 2 read v b 31 31\n"},
    {"nobody wrote what was seen", "ok 1 write v a 10 20 at=5\n"
                                   "ok 2 read v a 11 11 at=4\n"},
    {"seen before it was written", "ok 1 write v a 10 20 at=5\n"
                                   "ok 2 read v a 8 9\n"},
    {"version 3 follows version 1", "ok 1 write v a 10 20 at=5 generation=1\n"
                                    "ok 1 write v b 30 40 at=6 generation=3\n"},
    {"acknowledged, and never decided", "ok 1 write v a 10 20 at=5\n"
                                        "ok 1 write v b 30 40\n"},
    {"'a' was still seen when 'b' had replaced it|place 6 had ended when 5 began",
     "ok 1 write v b 10 20 at=6\n"
     "ok 1 write v a 30 40 at=5\n"},
    {"place 6 had ended when 5 began", "ok 1 other x - 10 20 at=6\n"
                                       "ok 2 other y - 30 40 at=5\n"},
};

/* ---- reading ---- */

static enum call_kind
kind_of(const char *name)
{
	int k = 0;

	while (strcmp(calls_kind_name((enum call_kind)k), name) != 0)
		must(++k < CALL_KINDS);
	return (enum call_kind)k;
}

static struct bytes
value_of(char *word)
{
	for (char *at = word; *at != '\0'; at++)
		if (*at == '_')
			*at = ' ';
	return bytes_of(strcmp(word, "-") == 0 ? "" : word);
}

static void
know(struct call *call, char *word)
{
	char *text = strchr(word, '=');

	if (text != NULL)
		*text++ = '\0';
	if (strcmp(word, "unseen") == 0)
		call->unseen = true;
	else if (strcmp(word, "again") == 0)
		call->again = true;
	else if (strcmp(word, "generation") == 0)
		call->generation = strtoull(text, NULL, 10);
	else if (strcmp(word, "mtime") == 0)
		call->mtime = strtoull(text, NULL, 10);
	else if (strcmp(word, "at") == 0)
		call->place = strtoull(text, NULL, 10);
	else if (strcmp(word, "expected") == 0)
		call->expected = bytes_of(text);
	else if (strcmp(word, "error") == 0)
		call->error = text;
	else
		fail_msg("what is %s?", word);
}

static void
read_call(struct calls *calls, char *line, uint64_t number)
{
	char *outcome = strsep(&line, " "), *word;
	struct call call = {.source = number, .outcome = CALL_OPEN};

	call.process = atoi(strsep(&line, " "));
	call.kind = kind_of(strsep(&line, " "));
	call.path = strsep(&line, " ");
	call.value = value_of(strsep(&line, " "));
	call.begin = atol(strsep(&line, " "));
	call.end = atol(strsep(&line, " "));
	while ((word = strsep(&line, " ")) != NULL)
		know(&call, word);
	if (strcmp(outcome, "info") == 0)
		call.end = INT64_MAX;
	else
		call.outcome = strcmp(outcome, "ok") == 0 ? CALL_OK : CALL_FAILED;
	calls_add(calls, call);
}

/* `text` is changed, and stays. */
static void
read_calls(struct calls *calls, char *text)
{
	char *line;

	for (uint64_t number = 1; (line = strsep(&text, "\n")) != NULL; number++)
		if (strcmp(line, "stale") == 0)
			calls->stale_reads = true;
		else if (*line != '\0')
			read_call(calls, line, number);
}

/* ---- the tests ---- */

static bool
is_expected(const char *violation, const char *finds)
{
	char *texts = strdup(finds), *next = texts, *text;
	bool found = false;

	while ((text = strsep(&next, "|")) != NULL)
		found = found || strstr(violation, text) != NULL;
	free(texts);
	return found;
}

static void
check(const struct history *h)
{
	struct calls calls = CALLS;
	char *text = strdup(h->calls), *found, *next, *violation;

	calls.end_of_line = ';';
	read_calls(&calls, text);
	calls_check(&calls);
	found = bytes_to_text(buffer_view(&calls.found));
	if ((calls.violations > 0) != (h->finds != NULL))
		fail_msg("%s:\n%s\nfound: %s", h->finds != NULL ? h->finds : "none", h->calls,
		         found);
	next = found;
	while ((violation = strsep(&next, "\n")) != NULL)
		if (*violation != '\0' && !is_expected(violation, h->finds))
			fail_msg("%s:\n%s\nalso: %s", h->finds, h->calls, violation);
	free(found);
	free(text);
	calls_free(&calls);
}

TEST(test_histories)
{
	for (size_t i = 0; i < sizeof histories / sizeof *histories; i++)
		check(&histories[i]);
}
