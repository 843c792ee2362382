/* Reads, plays, compares and rewrites transcripts. */
#include "tests/transcripts/script.h"

#include <errno.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "tests/transcripts/script_lines.h"

enum {
	FILE_MAX = 1 << 20,
	LINE_MAX = 4096, /* of what is said in one */
	JOINED_MAX = 96,
	ARGUMENTS_MAX = 64,
	DIFFERENCES_SHOWN = 3, /* later ones mostly follow from the first */
};

struct script {
	const struct script_player *player;
	const char *path;
	FILE *out;
	void *world;
	struct lines file; /* of the transcript as it is */
	size_t at;         /* the line of the command that is played, from 0 */
	char *words;       /* a copy of the command, cut into words */
	char *argument[ARGUMENTS_MAX];
	bool taken[ARGUMENTS_MAX];
	int arguments_n;
	const struct script_command *command;
	struct lines said;
	const char *joined; /* the sign with which its last line was said; NULL: none */
	struct buffer text; /* the transcript as it would be accepted */
	int differences;
	jmp_buf broken;
};

/* ---- arguments ---- */

void
script_misuse(struct script *s, const char *format, ...)
{
	va_list args;

	fprintf(s->out, "# %s:%zu: ", s->path, s->at + 1);
	va_start(args, format);
	vfprintf(s->out, format, args);
	va_end(args);
	fprintf(s->out, "\n");
	if (s->command != NULL)
		fprintf(s->out, "# usage: %s %s\n", s->command->name ? s->command->name : "",
		        s->command->usage);
	longjmp(s->broken, 1);
}

const char *
script_name(struct script *s)
{
	return s->words;
}

/* The place of the next word; -1: there is none. */
static int
next_word(const struct script *s)
{
	for (int i = 0; i < s->arguments_n; i++)
		if (!s->taken[i] && (!strchr(s->argument[i], '=') || s->argument[i][0] == '"'))
			return i;
	return -1;
}

static const char *
unquoted(const char *text)
{
	return text + (*text == '"');
}

const char *
script_word(struct script *s)
{
	const int i = next_word(s);

	if (i < 0)
		return NULL;
	s->taken[i] = true;
	return unquoted(s->argument[i]);
}

const char *
script_needed(struct script *s)
{
	const char *word = script_word(s);

	if (word == NULL)
		script_misuse(s, "an argument is missing");
	return word;
}

bool
script_more(struct script *s)
{
	return next_word(s) >= 0;
}

bool
script_take(struct script *s, const char *word)
{
	const int i = next_word(s);

	if (i < 0 || strcmp(s->argument[i], word) != 0)
		return false;
	return s->taken[i] = true;
}

const char *
script_value(struct script *s, const char *key)
{
	const size_t n = strlen(key);

	for (int i = 0; i < s->arguments_n; i++) {
		const char *a = s->argument[i];

		if (strncmp(a, key, n) != 0 || a[n] != '=')
			continue;
		s->taken[i] = true;
		return unquoted(a + n + 1);
	}
	return NULL;
}

static bool
is_number(const char *text, uint64_t *n)
{
	char *end;

	*n = strtoull(text, &end, 0);
	return *text >= '0' && *text <= '9' && *end == '\0';
}

static uint64_t
number(struct script *s, const char *text)
{
	uint64_t n;

	if (!is_number(text, &n))
		script_misuse(s, "\"%s\" is no number", text);
	return n;
}

uint64_t
script_number(struct script *s)
{
	return number(s, script_needed(s));
}

uint64_t
script_value_number(struct script *s, const char *key, uint64_t otherwise)
{
	const char *value = script_value(s, key);

	return value != NULL ? number(s, value) : otherwise;
}

span_t
script_ms(struct script *s)
{
	return span_ms((int64_t)script_number(s));
}

span_t
script_value_ms(struct script *s, const char *key, uint64_t otherwise)
{
	return span_ms((int64_t)script_value_number(s, key, otherwise));
}

bool
script_take_number(struct script *s, uint64_t *n)
{
	const int i = next_word(s);
	uint64_t value;

	if (i < 0 || !is_number(s->argument[i], &value))
		return false;
	*n = value;
	return s->taken[i] = true;
}

size_t
script_choice(struct script *s, const char *word, const char *const *list, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (list[i] != NULL && strcmp(list[i], word) == 0)
			return i;
	script_misuse(s, "\"%s\" is none of those that there are", word);
}

enum rc
script_rc(struct script *s, const char *name)
{
#define X(code, number, error, text)                  \
	if (name != NULL && strcmp(name, #code) == 0) \
		return RC_##code;
	RC_LIST(X)
#undef X
	if (name != NULL)
		script_misuse(s, "no code \"%s\"", name);
	return RC_OK;
}

/* ---- what is said ---- */

static void
say(struct script *s, const char *format, va_list args)
{
	char line[LINE_MAX];

	vsnprintf(line, sizeof line, format, args);
	lines_add(&s->said, line);
}

void
script_say(struct script *s, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(s, format, args);
	va_end(args);
	s->joined = NULL;
}

void
script_say_buffer(struct script *s, struct buffer *line)
{
	script_say(s, "%.*s", (int)line->len, (const char *)line->data);
	buffer_free(line);
}

void
script_say_joined(struct script *s, const char *sign, const char *format, ...)
{
	char **last = s->said.n > 0 ? &s->said.line[s->said.n - 1] : NULL;
	const bool joins = last != NULL && s->joined != NULL && strcmp(s->joined, sign) == 0;
	char text[LINE_MAX];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	if (joins && strlen(*last) + strlen(sign) + strlen(text) < JOINED_MAX) {
		char line[2 * LINE_MAX];

		snprintf(line, sizeof line, "%s %s%s", *last, sign, text);
		free(*last);
		*last = strdup(line);
	} else {
		script_say(s, "%s%s", sign, text);
		s->joined = sign;
	}
}

void
script_say_traces(struct script *s, const char *who, struct trace *t)
{
	enum trace_kind kind;
	const char *line;

	while ((line = trace_take(t, &kind)) != NULL)
		if (kind != TRACE_MESSAGE)
			script_say(s, "%s%s%s", who ? who : "", who ? ": " : "", line);
}

/* ---- a command ---- */

/* The end of a word, which a space ends, but not between quotes. */
static char *
word_end(char *c)
{
	bool quoted = false;

	for (; *c != '\0' && (quoted || *c != ' '); c++)
		quoted ^= *c == '"';
	return c;
}

/* A quote at the beginning of a word or a value stays, to be skipped by its reader; the one after
 * it goes. */
static void
split_words(struct script *s, char *c)
{
	s->arguments_n = 0;
	while (*(c += strspn(c, " ")) != '\0') {
		char *end = word_end(c);
		const bool last = *end == '\0';

		if (s->arguments_n == ARGUMENTS_MAX)
			script_misuse(s, "too many arguments");
		s->taken[s->arguments_n] = false;
		s->argument[s->arguments_n++] = c;
		if (end > c && end[-1] == '"')
			end[-1] = '\0';
		*end = '\0';
		c = last ? end : end + 1;
	}
}

static const struct script_command *
find(struct script *s, const char *name)
{
	const struct script_command *c = s->player->commands;

	for (; c->name != NULL; c++)
		if (strcmp(c->name, name) == 0)
			return c;
	if (c->run != NULL)
		return c;
	fprintf(s->out, "# commands:");
	for (c = s->player->commands; c->name != NULL; c++)
		fprintf(s->out, " %s", c->name);
	fprintf(s->out, "\n");
	script_misuse(s, "no command \"%s\"", name);
}

static void
run_one(struct script *s, const char *text)
{
	free(s->words);
	s->words = strdup(text);
	s->command = NULL;
	split_words(s, s->words);
	s->command = find(s, script_needed(s));
	s->command->run(s, s->world);
	for (int i = 0; i < s->arguments_n; i++)
		if (!s->taken[i])
			script_misuse(s, "unexpected argument \"%s\"", s->argument[i]);
}

static void run(struct script *s, const char *text);

/* Runs a text with the count in place of %. */
static void
run_counted(struct script *s, const char *text, uint64_t count)
{
	struct buffer one = BUFFER(LINE_MAX);

	for (; *text != '\0'; text++)
		if (*text == '%')
			buffer_printf(&one, "%" PRIu64, count);
		else
			buffer_put_u8(&one, (uint8_t)*text);
	buffer_put_u8(&one, 0);
	run(s, (const char *)one.data);
	buffer_free(&one);
}

/* Runs a text: commands, perhaps after `quietly` or `N times`. */
static void
run(struct script *s, const char *text)
{
	static const char quietly[] = "quietly ";
	const size_t said = s->said.n;
	const char *end;
	uint64_t times;
	int n = 0;

	text += strspn(text, " ");
	if (strncmp(text, quietly, sizeof quietly - 1) == 0) {
		run(s, text + sizeof quietly - 1);
		lines_cut(&s->said, said);
	} else if (sscanf(text, "%" SCNu64 " times %n", &times, &n) == 1 && n > 0) {
		for (uint64_t count = 1; count <= times; count++)
			run_counted(s, text + n, count);
	} else if ((end = strstr(text, " ; ")) != NULL) {
		char *first = strndup(text, (size_t)(end - text));

		run(s, first);
		free(first);
		run(s, end + 3);
	} else {
		run_one(s, text);
	}
}

/* ---- a transcript ---- */

/* Compares what was said with the `n` lines below the command, which are indented. */
static void
compare(struct script *s, size_t n)
{
	struct lines want = {0};

	lines_fold(&s->said);
	for (size_t i = 0; i < n; i++)
		lines_add(&want, s->file.line[s->at + 1 + i] + 2);
	if (!lines_equal(&want, &s->said) && s->differences++ < DIFFERENCES_SHOWN) {
		fprintf(s->out, "# %s:%zu: %s\n", s->path, s->at + 1, s->file.line[s->at]);
		lines_print_difference(s->out, &want, &s->said);
	}
	for (size_t i = 0; i < s->said.n; i++)
		buffer_printf(&s->text, "  %s\n", s->said.line[i]);
	lines_free(&want);
	lines_cut(&s->said, 0);
	s->joined = NULL;
}

static void
play_lines(struct script *s)
{
	size_t n;

	for (s->at = 0; s->at < s->file.n; s->at += 1 + n) {
		const char *line = s->file.line[s->at];

		buffer_printf(&s->text, "%s\n", line);
		n = 0;
		if (*line == '#' || *line == '\0')
			continue;
		if (*line != '>')
			script_misuse(s, "neither prose (#) nor a command (>) nor below a command");
		while (s->at + 1 + n < s->file.n &&
		       strncmp(s->file.line[s->at + 1 + n], "  ", 2) == 0)
			n++;
		run(s, line + 1);
		compare(s, n);
	}
}

static bool
read_file(struct lines *lines, const char *path)
{
	FILE *f = fopen(path, "r");
	char *text;

	if (f == NULL)
		return false;
	text = memory_zero(FILE_MAX, 1);
	text[fread(text, 1, FILE_MAX - 1, f)] = '\0';
	fclose(f);
	lines_add_all(lines, text);
	free(text);
	return true;
}

static bool
accept_text(struct script *s)
{
	const struct bytes text = buffer_view(&s->text);
	FILE *f = s->text.failed ? NULL : fopen(s->path, "w");

	if (f != NULL && fwrite(text.data, 1, text.len, f) == text.len && fclose(f) == 0)
		return true;
	fprintf(s->out, "# %s: can't be written: %s\n", s->path, strerror(errno));
	return false;
}

int
script_play(const struct script_player *player, const char *path, bool accept, FILE *out)
{
	struct script s = {.player = player,
	                   .path = path,
	                   .out = out,
	                   .text = BUFFER(2 * FILE_MAX)};
	volatile bool whole = false;

	if (!read_file(&s.file, path)) {
		fprintf(out, "# %s: %s\n", path, strerror(errno));
		return -1;
	}
	s.world = memory_zero(1, player->world);
	if (player->begin != NULL)
		player->begin(s.world);
	if (setjmp(s.broken) == 0) {
		play_lines(&s);
		whole = true;
	}
	if (player->end != NULL)
		player->end(s.world);
	free(s.world);
	if (s.differences > DIFFERENCES_SHOWN)
		fprintf(out, "# and %d more commands\n", s.differences - DIFFERENCES_SHOWN);
	if (whole && accept && s.differences > 0)
		whole = accept_text(&s);
	lines_free(&s.file);
	lines_free(&s.said);
	free(s.words);
	buffer_free(&s.text);
	return whole ? s.differences : -1;
}
