/* Reads the arguments that the user has given to lsctl, by the tables of the commands. */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/sys/log.h"
#include "config.h"
#include "ctl/ctl.h"

enum { OPTIONS_MOST = 16, LONG = 256 };

static struct ctl given;
static bool help, version;
static const struct ctl_command *const *commands;
static const struct ctl_command *command; /* NULL: none yet */
static int wrong_use = CTL_USAGE;
static int unsaid = CTL_FAILED;

static const struct ctl_option global[] = {
    {"cell", .value = "FILE|NAME", .to = &given.cell},
    {"key", .value = "FILE", .to = &given.key},
    {"json", .to = &given.json},
    {"help", .letter = 'h', .to = &help},
    {0},
};
static const struct ctl_option version_only[] = {{"version", .letter = 'V', .to = &version}, {0}};

/* ---- help ---- */

static bool
is_optional(const char *word)
{
	return word[0] == '[';
}

static bool
is_of(const struct ctl_option *o, const struct ctl_form *f)
{
	return o->only == NULL || (f->name != NULL && strcmp(o->only, f->name) == 0);
}

static void
put_options(FILE *to, const struct ctl_command *c, const struct ctl_form *f, bool needed)
{
	for (const struct ctl_option *o = c->options; o != NULL && o->name != NULL; o++) {
		if (!is_of(o, f) || o->needed != needed)
			continue;
		fputs(needed ? " " : " [", to);
		if (o->letter != 0)
			fprintf(to, "-%c", o->letter);
		else
			fprintf(to, "--%s", o->name);
		fprintf(to, "%s%s%s", o->value != NULL ? " " : "", o->value != NULL ? o->value : "",
		        needed ? "" : "]");
	}
}

/* "list | remove [--purge] NAME | recover NAME PUBLICKEY --dir DATADIR" */
static void
put_usage(FILE *to, const struct ctl_command *c)
{
	for (const struct ctl_form *f = c->forms; f->run != NULL; f++) {
		fprintf(to, "%s%s%s", f != c->forms ? " |" : "", f->name != NULL ? " " : "",
		        f->name != NULL ? f->name : "");
		put_options(to, c, f, false);
		if (f->runs)
			put_options(to, c, f, true);
		for (int i = 0; i < CTL_WORDS && f->words[i] != NULL; i++)
			fprintf(to, " %s", f->words[i]);
		fputs(f->many ? "..." : "", to);
		if (!f->runs)
			put_options(to, c, f, true);
		fputs(f->runs ? " -- COMMAND..." : "", to);
	}
}

static int
print_help(const struct ctl_command *c)
{
	if (c != NULL) {
		printf("usage: lsctl %s", c->name);
		put_usage(stdout, c);
		printf("\n\n%s\n", c->does);
		return CTL_OK;
	}
	puts("usage: lsctl [OPTIONS] COMMAND ...\n"
	     "\n"
	     "Commands:");
	for (size_t i = 0; (c = commands[i]) != NULL; i++) {
		printf("  %-7s", c->name);
		put_usage(stdout, c);
		printf("\n          %s\n", c->does);
	}
	puts("  help    [COMMAND]\n"
	     "          shows this, or a command's arguments\n"
	     "\n"
	     "Options, before or after the command:\n"
	     "  --cell FILE|NAME  the cell, by its cell file or name (or $LSFS_CELL)\n"
	     "  --key FILE        the key of the principal to act as (or $LSFS_KEY)\n"
	     "  --json            print JSON\n"
	     "  --help, --version");
	return CTL_OK;
}

int
ctl_usage(const char *what, const char *why)
{
	char *usage = NULL;
	size_t n;
	FILE *f = open_memstream(&usage, &n);

	must(f != NULL);
	put_usage(f, command);
	must(fclose(f) == 0);
	log_error("%s: %s (usage: lsctl %s%s)", what, why, command->name, usage);
	free(usage);
	return wrong_use;
}

/* ---- options ---- */

struct scan {
	int argc;
	char **argv;
	const struct ctl_option *options[OPTIONS_MOST];
	int n;
	struct option longs[OPTIONS_MOST + 1];
	char letters[2 * OPTIONS_MOST + 2];
	unsigned seen; /* a bit for each option */
};

static void
add_options(struct scan *s, const struct ctl_option *o)
{
	char *letter = s->letters + strlen(s->letters);

	for (; o != NULL && o->name != NULL; o++) {
		must(s->n < OPTIONS_MOST);
		s->longs[s->n] = (struct option){
		    .name = o->name,
		    .has_arg = o->value != NULL ? required_argument : no_argument,
		    .val = LONG + s->n,
		};
		s->options[s->n++] = o;
		if (o->letter != 0)
			*letter++ = o->letter;
		if (o->letter != 0 && o->value != NULL)
			*letter++ = ':';
	}
}

/* From the word after the first one of argv; with `stops` only up to the next word. */
static struct scan
begin(int argc, char **argv, const struct ctl_option *own, bool stops)
{
	static char name[] = "lsctl"; /* the prefix of getopt's messages */
	struct scan s = {.argc = argc, .argv = argv};

	if (stops)
		strcpy(s.letters, "+");
	add_options(&s, own);
	add_options(&s, global);
	if (argc > 0)
		argv[0] = name;
	optind = 0;
	return s;
}

bool
ctl_take_count(void *to, const char *text)
{
	char *end;

	errno = 0;
	*(uint64_t *)to = strtoull(text, &end, 10);
	return text[0] >= '0' && text[0] <= '9' && *end == '\0' && errno == 0 &&
	       *(uint64_t *)to > 0;
}

bool
ctl_take_span(void *to, const char *text)
{
	static const struct {
		const char *name;
		double seconds;
	} units[] = {{"", 1},     {"ms", 0.001}, {"s", 1},      {"m", 60},
	             {"h", 3600}, {"d", 86400},  {"w", 604800}, {NULL, 0}};
	char *end;
	const double number = strtod(text, &end);

	for (size_t i = 0; text[0] >= '0' && text[0] <= '9' && units[i].name != NULL; i++) {
		if (strcmp(end, units[i].name) != 0)
			continue;
		*(double *)to = number * units[i].seconds;
		return *(double *)to < 1e9;
	}
	return false;
}

bool
ctl_is_whole(const char *text)
{
	return text[0] != '\0' && text[strspn(text, "0123456789")] == '\0';
}

static bool
take(const struct ctl_option *o, const char *text)
{
	char why[64] = "", *end;
	bool ok = true;

	if (o->value == NULL) {
		*(bool *)o->to = true;
	} else if (o->take != NULL) {
		ok = o->take(o->to, text);
	} else if (o->most > 0) {
		const double number = strtod(text, &end);

		ok = text[0] != '\0' && *end == '\0' && number >= o->least && number <= o->most &&
		     (!o->whole || ctl_is_whole(text));
		*(double *)o->to = number;
		snprintf(why, sizeof why, "not a %snumber from %g to %.0f",
		         o->whole ? "whole " : "", o->least, o->most);
	} else {
		*(const char **)o->to = text;
	}
	if (!ok && (o->wrong != NULL || why[0] != '\0'))
		ctl_usage(text, o->wrong != NULL ? o->wrong : why);
	return ok;
}

/* Leaves optind at the next word. False after an error message. */
static bool
scan(struct scan *s)
{
	int code, i;

	while ((code = getopt_long(s->argc, s->argv, s->letters, s->longs, NULL)) != -1) {
		for (i = 0; i < s->n && code != LONG + i && code != s->options[i]->letter; i++)
			;
		if (i == s->n) /* getopt has printed the error */
			return false;
		s->seen |= 1u << i;
		if (!take(s->options[i], optarg))
			return false;
	}
	return true;
}

static int
check_options(const struct scan *s, const struct ctl_form *f)
{
	char what[32], why[32];

	for (int i = 0; i < s->n; i++) {
		const struct ctl_option *o = s->options[i];
		const bool seen = (s->seen >> i & 1) != 0;

		snprintf(what, sizeof what, "--%s", o->name);
		snprintf(why, sizeof why, "only for %s", o->only != NULL ? o->only : "");
		if (seen && !is_of(o, f))
			return ctl_usage(what, why);
		if (o->needed && is_of(o, f) &&
		    (!seen || (o->take == NULL && **(const char **)o->to == '\0')))
			return ctl_usage(what, "needed");
	}
	return CTL_OK;
}

/* ---- forms ---- */

/* "create, show or set" */
static void
list_forms(char text[128], const struct ctl_form *f, const char *last)
{
	text[0] = '\0';
	for (; f->run != NULL; f++) {
		strcat(text, f->name);
		if (f[1].run != NULL)
			strcat(text, f[2].run != NULL ? ", " : last);
	}
}

/* NULL after an error message. */
static const struct ctl_form *
choose_form(int argc, char **argv)
{
	const struct ctl_form *f = command->forms;
	char names[128], why[160];

	for (; f->run != NULL; f++)
		if (f->name == NULL || (argc > 0 && strcmp(f->name, argv[0]) == 0))
			return f;
	f = command->forms;
	list_forms(names, f, argc > 0 ? " nor " : " or ");
	snprintf(why, sizeof why, "%s %s", f[1].run != NULL ? "neither" : "not", names);
	ctl_usage(argc > 0 ? argv[0] : names, argc > 0 ? why : "needed");
	return NULL;
}

static int
check_words(const struct ctl_form *f, int argc, char **argv)
{
	int n = 0;

	for (; n < CTL_WORDS && f->words[n] != NULL; n++)
		if (n >= argc && !is_optional(f->words[n]))
			return ctl_usage(f->words[n], "needed");
	return argc > n && !f->many ? ctl_usage(argv[n], "unexpected argument") : CTL_OK;
}

static int
run_form(const struct scan *s, const struct ctl_form *f, int argc, char **argv)
{
	int code = check_words(f, argc, argv);

	if (code == CTL_OK && f->runs && (f->alone == NULL || !*f->alone) &&
	    (given.command == NULL || *given.command == NULL))
		code = ctl_usage("COMMAND", "needed");
	if (code == CTL_OK)
		code = check_options(s, f);
	unsaid = f->unsaid != 0 ? f->unsaid : CTL_FAILED;
	given.cell_chosen = given.cell != NULL && given.cell != getenv("LSFS_CELL");
	return code == CTL_OK ? f->run(&given, argv) : code;
}

/* The program begins after "--", or with the first word that is no option after the words of the
 * form; from there on options are the program's. Where a word may be missing, "--" is needed, for
 * the program could not be told from it. */
static int
run_program(struct scan *s, const struct ctl_form *f)
{
	char *words[CTL_WORDS + 1] = {NULL};
	bool ended = false, must_end = false;
	int n = 0;

	for (;;) {
		const bool next_is_needed =
		    n > 0 && n < CTL_WORDS && f->words[n] != NULL && !is_optional(f->words[n]);

		if (!next_is_needed && !scan(s)) /* which may look like an option */
			return wrong_use;
		ended = !next_is_needed && n > 0 && strcmp(s->argv[optind - 1], "--") == 0;
		if (help || ended || optind == s->argc || n == CTL_WORDS || f->words[n] == NULL)
			break;
		must_end = is_optional(f->words[n]);
		words[n++] = s->argv[optind++];
		if (must_end)
			break;
	}
	if (help)
		return print_help(command);
	if (must_end && (optind == s->argc || strcmp(s->argv[optind++], "--") != 0))
		return ctl_usage("-- COMMAND", "needed");
	given.command = s->argv + optind;
	return run_form(s, f, n, words);
}

static int
run_command(int argc, char **argv)
{
	const bool runs = command->forms[0].runs;
	struct scan s = begin(argc, argv, command->options, runs);
	const struct ctl_form *f;

	if (runs)
		return run_program(&s, command->forms);
	if (!scan(&s))
		return wrong_use;
	if (help)
		return print_help(command);
	argc -= optind;
	argv += optind;
	f = choose_form(argc, argv);
	if (f == NULL)
		return wrong_use;
	return run_form(&s, f, argc - (f->name != NULL), argv + (f->name != NULL));
}

/* NULL after an error message. */
static const struct ctl_command *
find_command(const char *name)
{
	for (size_t i = 0; commands[i] != NULL; i++)
		if (strcmp(commands[i]->name, name) == 0)
			return commands[i];
	log_error("%s: no such command (see lsctl --help)", name);
	return NULL;
}

/* As other programs have it, an empty variable is as one that is not set. */
static const char *
variable(const char *name)
{
	const char *value = getenv(name);

	return value != NULL && value[0] != '\0' ? value : NULL;
}

int
ctl_run(const struct ctl_command *const *all, int argc, char **argv)
{
	struct scan s = begin(argc, argv, version_only, true);

	commands = all;
	given = (struct ctl){.cell = variable("LSFS_CELL"), .key = variable("LSFS_KEY")};
	/* A monitor takes the exit code of wrong use for that of a cell that is down, unless it
	 * differs. */
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strlen(argv[i]) > 3 && strncmp(argv[i], "--check", strlen(argv[i])) == 0)
			wrong_use = CTL_UNKNOWN;
	if (!scan(&s))
		return wrong_use;
	argc -= optind;
	argv += optind;
	if (version) {
		puts("lsctl " PACKAGE_VERSION);
		return CTL_OK;
	}
	if (help)
		return print_help(NULL);
	if (argc == 0) {
		log_error("no command given (see lsctl --help)");
		return wrong_use;
	}
	if (strcmp(argv[0], "__complete") == 0)
		return completion_print(commands, global, &given, argc - 1, argv + 1);
	if (strcmp(argv[0], "help") == 0) {
		command = argc > 1 ? find_command(argv[1]) : NULL;
		return argc > 1 && command == NULL ? wrong_use : print_help(command);
	}
	command = find_command(argv[0]);
	if (command == NULL)
		return wrong_use;
	if (command != &status_command)
		wrong_use = CTL_USAGE;
	return run_command(argc, argv);
}

int
ctl_unsaid(void)
{
	return wrong_use == CTL_UNKNOWN ? CTL_UNKNOWN : unsaid; /* a monitor asks */
}
