/* The output of lsctl on stdout: JSON, and for people lines and tables of its values. */
#ifndef LSFS_VIEW_OUTPUT_H
#define LSFS_VIEW_OUTPUT_H

#include <jansson.h>
#include <stdint.h>
#include <stdio.h>
#include "cell/base/bytes.h"

/* ---- lines, whatever the names in them are ---- */

/* Prints a line. A control character in it (C1 ones included), and a byte that is not UTF-8, is
 * shown as \xNN for each of its bytes: the name of a host, a principal or a file can neither forge
 * a line nor give commands to a terminal. */
void line_print(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* Writes such a text to `to`. */
void line_put(FILE *to, const char *text);

/* ---- JSON ---- */

/* Prints a value in several lines; numbers as people write them. */
void json_text_print(const json_t *value);
/* Prints it in one line. */
void json_text_print_line(const json_t *value);

/* The text of that key; "?" when there is none, or it is not UTF-8. */
const char *json_text_of(const json_t *object, const char *key);
/* The number of that key; 0 if there is none. */
json_int_t json_number_of(const json_t *object, const char *key);
/* A number as JSON. */
json_t *json_number(uint64_t n);
/* A text as JSON; null when it is not UTF-8. */
json_t *json_text(const void *text, size_t n);
/* The same of a path or another text that must be told: where it is not UTF-8, its bytes are shown
 * as \xNN. */
json_t *json_path(struct bytes path);

/* ---- the same for people ---- */

enum { COLUMN_TEXT = 320 };

/* A column of a table of objects. */
struct column {
	const char *title;
	int width;       /* as of printf: negative is to the left */
	const char *key; /* of its value; NULL: */
	void (*text)(const json_t *row, char text[COLUMN_TEXT]);
};

/* Prints the objects of an array, a line for each, below the titles (NULL if none has one). The
 * last column has neither key nor text. */
void table_print(const json_t *rows, const struct column *columns);
/* Prints the values of an object, a line for each that is no array or object. */
void table_print_values(json_t *object);

/* ---- points in time ---- */

enum { UTC_TEXT = 40, AGE_TEXT = 40 };

/* The instant, in seconds since 1970, by RFC 3339 in UTC; empty when there is no such year. */
void utc_text(int64_t seconds, char text[UTC_TEXT]);
/* How long ago that was: "3 hours ago". */
void utc_age(int64_t seconds, char text[AGE_TEXT]);

#endif
