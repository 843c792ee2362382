/* Reads, plays, compares and rewrites transcripts. */
#include "tests/transcripts/script.h"

#include <dirent.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "cell/base/memory.h"

enum {
	FILE_MAX = 1 << 20,
	SAID_MAX = 1 << 20,
	ARGUMENTS_MAX = 64,
	DIFFERENCES_SHOWN = 3, /* later ones mostly follow from the first */
};

struct lines {
	char **line; /* views into a text */
	int n, room;
};

struct script {
	const struct script_player *player;
	const char *path;
	FILE *out;
	void *world;
	struct lines file; /* of the transcript as it is */
	int at;            /* the line of the command that is played, from 0 */
	char *words;       /* a copy of that line, cut into words */
	char *argument[ARGUMENTS_MAX];
	bool taken[ARGUMENTS_MAX];
	int arguments_n;
	const struct script_command *command;
	struct buffer said;
	struct buffer text; /* the transcript as it would be accepted */
	int differences;
	jmp_buf broken;
};

/* ---- for the functions of commands ---- */

void
script_misuse(struct script *s, const char *format, ...)
{
	va_list args;

	fprintf(s->out, "# %s:%d: ", s->path, s->at + 1);
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
script_word(struct script *s)
{
	for (int i = 0; i < s->arguments_n; i++) {
		if (s->taken[i] || (strchr(s->argument[i], '=') && s->argument[i][0] != '"'))
			continue;
		s->taken[i] = true;
		return s->argument[i] + (s->argument[i][0] == '"');
	}
	return NULL;
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
		return a + n + 1 + (a[n + 1] == '"');
	}
	return NULL;
}

static uint64_t
number(struct script *s, const char *text)
{
	char *end;
	uint64_t v = strtoull(text, &end, 0);

	if (*text < '0' || *text > '9' || *end != '\0')
		script_misuse(s, "\"%s\" is no number", text);
	return v;
}

uint64_t
script_number(struct script *s)
{
	const char *word = script_word(s);

	if (word == NULL)
		script_misuse(s, "a number is missing");
	return number(s, word);
}

uint64_t
script_value_number(struct script *s, const char *key, uint64_t otherwise)
{
	const char *value = script_value(s, key);

	return value != NULL ? number(s, value) : otherwise;
}

const char *
script_rest(struct script *s)
{
	static const char quietly[] = "quietly ";
	const char *rest = s->file.line[s->at] + 1;

	rest += strspn(rest, " ");
	if (strncmp(rest, quietly, sizeof quietly - 1) == 0)
		rest += sizeof quietly - 1;
	for (int i = 0; i < s->arguments_n; i++)
		s->taken[i] = true;
	return rest;
}

void
script_say(struct script *s, const char *format, ...)
{
	char line[4096];
	va_list args;

	va_start(args, format);
	vsnprintf(line, sizeof line, format, args);
	va_end(args);
	for (char *c = line; *c != '\0'; c++)
		if (*c == '\n')
			*c = '?';
	buffer_printf(&s->said, "%s\n", line);
	if (s->said.failed)
		script_misuse(s, "too much is said");
}

void
script_say_traces(struct script *s, const char *who, struct trace *t)
{
	enum trace_kind kind;
	const char *line;

	while ((line = trace_take(t, &kind)) != NULL)
		script_say(s, "%s: %s", who, line);
}

/* ---- the text ---- */

/* Cuts a text into its lines; consumes its newlines. */
static void
split(struct lines *lines, char *text)
{
	char *line;

	lines->n = 0;
	while ((line = strsep(&text, "\n")) != NULL) {
		if (text == NULL && *line == '\0')
			break;
		ARRAY_ROOM(lines->line, lines->n, lines->room);
		lines->line[lines->n++] = line;
	}
}

static char *
read_file(const char *path)
{
	FILE *f = fopen(path, "r");
	char *text;
	size_t n;

	if (f == NULL)
		return NULL;
	text = memory_zero(FILE_MAX, 1);
	n = fread(text, 1, FILE_MAX - 1, f);
	text[n] = '\0';
	fclose(f);
	return text;
}

static bool
write_file(const char *path, struct bytes text)
{
	FILE *f = fopen(path, "w");

	return f != NULL && fwrite(text.data, 1, text.len, f) == text.len && fclose(f) == 0;
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

/* A quote at the beginning of a word or a value stays, to be skipped by its reader; the one behind
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

/* Runs the command of line `at`; its lines are in `said`. */
static void
run(struct script *s)
{
	const char *name;
	bool quiet;

	free(s->words);
	s->words = strdup(s->file.line[s->at] + 1);
	s->command = NULL;
	buffer_reset(&s->said);
	split_words(s, s->words);
	name = script_word(s);
	quiet = name != NULL && strcmp(name, "quietly") == 0;
	if (quiet)
		name = script_word(s);
	if (name == NULL)
		script_misuse(s, "a command is missing");
	s->command = find(s, name);
	s->command->run(s, s->world);
	for (int i = 0; i < s->arguments_n; i++)
		if (!s->taken[i])
			script_misuse(s, "unexpected argument \"%s\"", s->argument[i]);
	if (quiet)
		buffer_reset(&s->said);
}

/* ---- differences ---- */

/* Prints both lists as one: "-" expected and not said, "+" said and not expected. */
static void
print_difference(FILE *out, const struct lines *want, const struct lines *said)
{
	const int width = said->n + 1;
	/* same[i * width + j]: the most lines that the rests behind i and j have in common. */
	int *same = memory_zero((size_t)(want->n + 1) * (size_t)width, sizeof *same);
	int i, j;

	for (i = want->n - 1; i >= 0; i--)
		for (j = said->n - 1; j >= 0; j--) {
			const int down = same[(i + 1) * width + j], right = same[i * width + j + 1];

			same[i * width + j] = strcmp(want->line[i], said->line[j]) == 0
			                          ? same[(i + 1) * width + j + 1] + 1
			                      : down > right ? down
			                                     : right;
		}
	for (i = j = 0; i < want->n || j < said->n;) {
		if (i < want->n && j < said->n && strcmp(want->line[i], said->line[j]) == 0) {
			fprintf(out, "#      %s\n", want->line[i++]);
			j++;
		} else if (j == said->n ||
		           (i < want->n && same[(i + 1) * width + j] >= same[i * width + j + 1])) {
			fprintf(out, "#   -  %s\n", want->line[i++]);
		} else {
			fprintf(out, "#   +  %s\n", said->line[j++]);
		}
	}
	free(same);
}

static bool
is_same(const struct lines *a, const struct lines *b)
{
	if (a->n != b->n)
		return false;
	for (int i = 0; i < a->n; i++)
		if (strcmp(a->line[i], b->line[i]) != 0)
			return false;
	return true;
}

/* Compares what was said with the `n` lines below the command, which are indented. */
static void
compare(struct script *s, int n)
{
	struct lines want = {0}, said = {0};

	buffer_put_u8(&s->said, 0);
	split(&said, (char *)s->said.data);
	for (int i = 0; i < n; i++) {
		ARRAY_ROOM(want.line, want.n, want.room);
		want.line[want.n++] = s->file.line[s->at + 1 + i] + 2;
	}
	if (!is_same(&want, &said) && s->differences++ < DIFFERENCES_SHOWN) {
		fprintf(s->out, "# %s:%d: %s\n", s->path, s->at + 1, s->file.line[s->at]);
		print_difference(s->out, &want, &said);
	}
	for (int i = 0; i < said.n; i++)
		buffer_printf(&s->text, "  %s\n", said.line[i]);
	free(want.line);
	free(said.line);
}

/* ---- a transcript ---- */

static void
play_lines(struct script *s)
{
	int n;

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
		run(s);
		compare(s, n);
	}
}

static bool
accept_text(struct script *s)
{
	if (!s->text.failed && write_file(s->path, buffer_view(&s->text)))
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
	                   .said = BUFFER(SAID_MAX),
	                   .text = BUFFER(2 * FILE_MAX)};
	char *text = read_file(path);
	volatile bool whole = false;

	if (text == NULL) {
		fprintf(out, "# %s: %s\n", path, strerror(errno));
		return -1;
	}
	split(&s.file, text);
	s.world = player->begin();
	if (setjmp(s.broken) == 0) {
		play_lines(&s);
		whole = true;
	}
	player->end(s.world);
	if (s.differences > DIFFERENCES_SHOWN)
		fprintf(out, "# and %d more commands\n", s.differences - DIFFERENCES_SHOWN);
	if (whole && accept && s.differences > 0)
		whole = accept_text(&s);
	free(text);
	free(s.words);
	free(s.file.line);
	buffer_free(&s.said);
	buffer_free(&s.text);
	return whole ? s.differences : -1;
}

/* ---- the program ---- */

/* In a process of its own, so that one that aborts leaves the others their results. */
static bool
play_apart(const struct script_player *player, const char *path, bool accept)
{
	int status = 0;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		const int n = script_play(player, path, accept, stdout);

		exit(n == 0 || (accept && n > 0) ? 0 : 1);
	}
	if (child < 0 || waitpid(child, &status, 0) != child)
		return false;
	if (WIFSIGNALED(status))
		printf("# ended by signal %d\n", WTERMSIG(status));
	return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static int
is_transcript(const struct dirent *entry)
{
	const size_t n = strlen(entry->d_name);

	return n > 4 && strcmp(entry->d_name + n - 4, ".txt") == 0;
}

/* The paths of all transcripts of the folder; owned by the caller, like the paths. */
static struct lines
list(const char *folder)
{
	const char *source = getenv("srcdir");
	struct lines paths = {0};
	struct dirent **entries;
	char path[4096];
	int n;

	snprintf(path, sizeof path, "%s/tests/transcripts/%s", source ? source : "..", folder);
	n = scandir(path, &entries, is_transcript, alphasort);
	if (n < 0)
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
	for (int i = 0; i < n; i++) {
		snprintf(path, sizeof path, "%s/tests/transcripts/%s/%s", source ? source : "..",
		         folder, entries[i]->d_name);
		ARRAY_ROOM(paths.line, paths.n, paths.room);
		paths.line[paths.n++] = strdup(path);
		free(entries[i]);
	}
	if (n >= 0)
		free(entries);
	return paths;
}

int
script_main(int argc, char **argv, const struct script_player *player)
{
	const bool accept = argc > 1 && strcmp(argv[1], "--accept") == 0;
	struct lines all = {0};
	int n = argc - 1 - accept, failed = 0;
	char **paths = argv + 1 + accept;

	if (n == 0) {
		all = list(player->folder);
		n = all.n;
		paths = all.line;
	}
	printf("1..%d\n", n);
	for (int i = 0; i < n; i++) {
		const bool ok = play_apart(player, paths[i], accept);

		printf("%sok %d - %s\n", ok ? "" : "not ", i + 1, paths[i]);
		failed += !ok;
	}
	for (int i = 0; i < all.n; i++)
		free(all.line[i]);
	free(all.line);
	return failed > 0 || n == 0;
}
