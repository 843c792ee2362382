#include "cell/view/output.h"

#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "cell/base/printable.h"
#include "cell/sys/clock.h"

/* ---- lines ---- */

void
line_put(FILE *to, const char *text)
{
	while (*text != '\0') {
		bool shown;
		const char *const end = text + printable_next(text, &shown);

		for (; text < end; text++)
			fprintf(to, shown ? "%c" : "\\x%02x", (unsigned char)*text);
	}
}

void
line_print(const char *format, ...)
{
	char text[4 * PATH_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	line_put(stdout, text);
	putchar('\n');
}

/* ---- JSON ---- */

enum { DIGITS = 15 }; /* the decimal digits of a double: 4.17 is not 4.1699999999999999 */

/* ASCII control characters but DEL are escaped already, and newlines are those between values. */
static void
print_json(const json_t *value, size_t flags)
{
	char *const text = json_dumps(value, flags | JSON_REAL_PRECISION(DIGITS));

	for (const char *at = text; at != NULL && *at != '\0';) {
		bool shown;
		const size_t n = printable_next(at, &shown);

		if (shown || *at == '\n')
			fwrite(at, 1, n, stdout);
		else
			printf("\\u%04x", (unsigned char)at[n - 1]); /* of U+0080 to U+009F, too */
		at += n;
	}
	putchar('\n');
	free(text);
}

void
json_text_print(const json_t *value)
{
	print_json(value, JSON_INDENT(2));
}

void
json_text_print_line(const json_t *value)
{
	print_json(value, JSON_COMPACT);
}

const char *
json_text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text != NULL ? text : "?";
}

json_int_t
json_number_of(const json_t *object, const char *key)
{
	return json_integer_value(json_object_get(object, key));
}

json_t *
json_number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

json_t *
json_text(const void *text, size_t n)
{
	json_t *json = json_stringn(text, n);

	return json != NULL ? json : json_null();
}

json_t *
json_path(struct bytes path)
{
	json_t *json = json_stringn((const char *)path.data, path.len);
	struct buffer text = BUFFER(4 * PATH_MAX);

	for (size_t i = 0; json == NULL && i < path.len; i++) {
		if (path.data[i] < 0x80)
			buffer_put_u8(&text, path.data[i]);
		else
			buffer_printf(&text, "\\x%02x", path.data[i]);
	}
	if (json == NULL)
		json = json_stringn((const char *)text.data, text.len);
	buffer_free(&text);
	return json;
}

/* ---- tables ---- */

static void
value_text(const json_t *value, char text[COLUMN_TEXT])
{
	if (json_is_integer(value))
		snprintf(text, COLUMN_TEXT, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
	else if (json_is_real(value))
		snprintf(text, COLUMN_TEXT, "%.3f", json_real_value(value));
	else
		snprintf(text, COLUMN_TEXT, "%s",
		         json_is_string(value) ? json_string_value(value) : "?");
}

/* Nothing is filled up after the last text of a line. */
static void
print_row(const struct column *columns, const json_t *row)
{
	char text[COLUMN_TEXT], line[16 * COLUMN_TEXT] = "";
	size_t end = 0, used = 0;

	for (const struct column *c = columns; c->key != NULL || c->text != NULL; c++) {
		if (row == NULL)
			snprintf(text, sizeof text, "%s", c->title);
		else if (c->text != NULL)
			c->text(row, text);
		else
			value_text(json_object_get(row, c->key), text);
		used += (size_t)snprintf(line + used, sizeof line - used, "%s%*s",
		                         c != columns ? " " : "", c->width, text);
		if (text[0] != '\0')
			end = used - (c->width < 0 && strlen(text) < (size_t)-c->width
			                  ? (size_t)-c->width - strlen(text)
			                  : 0);
	}
	line[end] = '\0';
	line_print("%s", line);
}

void
table_print(const json_t *rows, const struct column *columns)
{
	const json_t *row;
	size_t i;

	if (columns->title != NULL)
		print_row(columns, NULL);
	json_array_foreach(rows, i, row)
		print_row(columns, row);
}

void
table_print_values(json_t *object)
{
	char text[COLUMN_TEXT];
	const char *key;
	json_t *value;

	json_object_foreach(object, key, value) {
		if (json_is_string(value)) {
			line_print("%-12s %s", key, json_string_value(value));
		} else if (json_is_null(value)) {
			printf("%-12s none\n", key);
		} else if (json_is_number(value)) {
			value_text(value, text);
			printf("%-12s %s\n", key, text);
		}
	}
}

/* ---- points in time ---- */

enum { DAY_S = 86400 };

void
utc_text(int64_t seconds, char text[UTC_TEXT])
{
	const time_t t = seconds;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(text, UTC_TEXT, "%FT%TZ", &tm))
		text[0] = '\0';
}

void
utc_age(int64_t seconds, char text[AGE_TEXT])
{
	const int64_t age = clock_wall_ns() / 1000000000 - seconds;

	if (age >= 2 * DAY_S)
		snprintf(text, AGE_TEXT, "%" PRId64 " days ago", age / DAY_S);
	else if (age >= 7200)
		snprintf(text, AGE_TEXT, "%" PRId64 " hours ago", age / 3600);
	else if (age >= 120)
		snprintf(text, AGE_TEXT, "%" PRId64 " minutes ago", age / 60);
	else
		snprintf(text, AGE_TEXT, "%" PRId64 " seconds ago", age > 0 ? age : 0);
}
