/* Lists of lines: those of a transcript, and what a command has said. */
#ifndef LSFS_TESTS_TRANSCRIPTS_SCRIPT_LINES_H
#define LSFS_TESTS_TRANSCRIPTS_SCRIPT_LINES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* Zeroed it is empty; each line is owned by the list. */
struct lines {
	char **line;
	size_t n, room;
};

/* Adds a copy of a text, whose newlines become question marks. */
void lines_add(struct lines *l, const char *text);
/* Adds each line of a text that may be long. */
void lines_add_all(struct lines *l, const char *text);
/* Only the first `n` are left. */
void lines_cut(struct lines *l, size_t n);
void lines_free(struct lines *l);
bool lines_equal(const struct lines *a, const struct lines *b);
/* Of many lines, or groups of lines, that differ only in numbers, and these by the same step, only
 * the first and the last are left, with their count between them. */
void lines_fold(struct lines *l);
/* Prints both lists as one: "-" expected and not said, "+" said and not expected. */
void lines_print_difference(FILE *out, const struct lines *want, const struct lines *said);

#endif
