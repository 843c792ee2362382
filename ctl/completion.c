/* Completion of lsctl's command line in a shell: by the tables of the commands, so no list of them
 * stands in a script. A line of the output is a word that may stand there, or tells the shell to
 * complete by itself: ":files", ":directories" or ":commands". */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/setting.h"
#include "cell/view/output.h"
#include "ctl/cell.h"
#include "ctl/cell_status.h"

enum { PATIENCE_S = 3 }; /* for what the cell is asked */

struct completion {
	struct ctl ctl;
	const struct ctl_command *command; /* NULL: it is not there yet */
	const struct ctl_option *global;
	const struct ctl_option *before; /* the option of which the last word is the value */
	char *words[CTL_WORDS + 1];      /* after the command, without options */
	int n;
	bool ended;       /* by "--" */
	const char *last; /* the word that is completed */
};

static void
offer(const struct completion *c, const char *word)
{
	if (strncmp(word, c->last, strlen(c->last)) == 0)
		line_print("%s", word);
}

static bool
offer_mount(void *user, const struct run_record *record, bool alive)
{
	if (alive)
		offer(user, record->mountpoint);
	return true;
}

static bool
offer_mounted_cell(void *user, const struct run_record *record, bool alive)
{
	if (alive)
		offer(user, record->cell);
	return true;
}

static void
offer_cells(struct completion *c)
{
	DIR *d = opendir(CELL_FILE_DIRECTORY);
	char name[LIMIT_CELL_NAME + 1];
	const struct dirent *e;

	while (d != NULL && (e = readdir(d)) != NULL)
		if (strlen(e->d_name) > 5 && strlen(e->d_name) - 5 < sizeof name &&
		    strcmp(e->d_name + strlen(e->d_name) - 5, ".conf") == 0) {
			snprintf(name, sizeof name, "%.*s", (int)strlen(e->d_name) - 5, e->d_name);
			offer(c, name);
		}
	if (d != NULL)
		closedir(d);
	run_dir_each(offer_mounted_cell, c);
}

static void
offer_ids(const struct completion *c)
{
	static struct cell_file cell_file;
	char path[PATH_MAX], text[24];
	struct cell_admin o;
	json_t *sessions, *one;
	size_t i;

	if (strcmp(c->command->name, "session") != 0) {
		for (int k = 0; cell_find(&c->ctl, path, &cell_file) && k < cell_file.replicas_n;
		     k++) {
			snprintf(text, sizeof text, "%d", cell_file.replicas[k].id);
			offer(c, text);
		}
		return;
	}
	sessions = cell_admin_begin(&c->ctl, &o) ? session_list(&o) : NULL;
	cell_admin_end(&o);
	json_array_foreach(sessions, i, one) {
		snprintf(text, sizeof text, "%" JSON_INTEGER_FORMAT,
		         json_number_of(one, "session"));
		offer(c, text);
	}
	json_decref(sessions);
}

/* "freeze|ignore" */
static void
offer_each(const struct completion *c, const char *words)
{
	char text[64], *rest = text;

	snprintf(text, sizeof text, "%s", words);
	for (char *word; (word = strsep(&rest, "|")) != NULL;)
		offer(c, word);
}

/* By the word that the help has for it. */
static void
offer_values(struct completion *c, const char *what)
{
	char word[32], setting[64];

	snprintf(word, sizeof word, "%s", what + (what[0] == '['));
	word[strcspn(word, "]")] = '\0';
	if (strcmp(word, "CELL") == 0 || strcmp(word, "FILE|NAME") == 0)
		offer_cells(c);
	if (strcmp(word, "PATH") == 0 && c->last[0] == '\0')
		run_dir_each(offer_mount, c);
	if (strcmp(word, "ID") == 0)
		offer_ids(c);
	for (uint8_t code = 1; code < SETTING_CODES && strcmp(word, "NAME=VALUE") == 0; code++) {
		snprintf(setting, sizeof setting, "%s=", setting_info(code)->name);
		offer(c, setting);
	}
	if (strcmp(word, "DIR") == 0 || strcmp(word, "DATADIR") == 0 ||
	    strcmp(word, "MOUNTPOINT") == 0)
		puts(":directories");
	else if (strcmp(word, "PATH") == 0 || strstr(word, "FILE") != NULL)
		puts(":files");
	else if (strchr(word, '|') != NULL)
		offer_each(c, word);
}

static void
offer_options(const struct completion *c, const struct ctl_option *o)
{
	char text[64];

	for (; o != NULL && o->name != NULL; o++) {
		snprintf(text, sizeof text, "--%s", o->name);
		if (o->only == NULL || c->n == 0 || strcmp(o->only, c->words[0]) == 0)
			offer(c, text);
	}
}

static void
offer_words(struct completion *c)
{
	const struct ctl_form *f = c->command->forms;
	int at = c->n;

	for (; f->run != NULL && f->name != NULL; f++) {
		if (c->n == 0)
			offer(c, f->name);
		else if (strcmp(f->name, c->words[0]) == 0)
			break;
	}
	if (f->run == NULL)
		return;
	at -= f->name != NULL;
	while (f->many && at > 0 && (at >= CTL_WORDS || f->words[at] == NULL))
		at--;
	if (f->runs && (c->ended || at >= CTL_WORDS || f->words[at] == NULL))
		puts(":commands");
	else if (at < CTL_WORDS && f->words[at] != NULL)
		offer_values(c, f->words[at]);
}

/* ---- the words before ---- */

static const struct ctl_option *
find_option(const struct ctl_option *o, const char *word)
{
	for (; o != NULL && o->name != NULL; o++)
		if (word[1] == '-' ? strcmp(word + 2, o->name) == 0
		                   : o->letter != 0 && word[1] == o->letter && word[2] == '\0')
			return o;
	return NULL;
}

static void
take_word(struct completion *c, const struct ctl_command *const *commands, char *word)
{
	if (strcmp(word, "=") == 0) /* a shell makes three words of --cell=NAME */
		return;
	if (c->before != NULL) {
		if (strcmp(c->before->name, "cell") == 0)
			c->ctl.cell = word;
		if (strcmp(c->before->name, "key") == 0)
			c->ctl.key = word;
		c->before = NULL;
	} else if (strcmp(word, "--") == 0) {
		c->ended = true;
	} else if (word[0] == '-' && !c->ended) {
		c->before = c->command != NULL ? find_option(c->command->options, word) : NULL;
		if (c->before == NULL)
			c->before = find_option(c->global, word);
		if (c->before != NULL && c->before->value == NULL)
			c->before = NULL;
	} else if (c->command == NULL) {
		while (*commands != NULL && strcmp((*commands)->name, word) != 0)
			commands++;
		c->command = *commands;
	} else if (c->n <= CTL_WORDS) {
		c->words[c->n++] = word;
	}
}

int
completion_print(const struct ctl_command *const *commands, const struct ctl_option *global,
                 const struct ctl *ctl, int argc, char **argv)
{
	struct completion c = {.ctl = *ctl,
	                       .global = global,
	                       .last = argc > 0 ? argv[argc - 1] : ""};
	const int null = open("/dev/null", O_WRONLY | O_CLOEXEC);

	dup2(null, STDERR_FILENO); /* a message would stand in the command line */
	signal(SIGALRM, SIG_DFL);
	alarm(PATIENCE_S);
	setvbuf(stdout, NULL, _IOLBF, 0);
	for (int i = 0; i + 1 < argc; i++)
		take_word(&c, commands, argv[i]);
	if (strcmp(c.last, "=") == 0)
		c.last = "";
	if (c.before != NULL) {
		offer_values(&c, c.before->value);
	} else if (c.last[0] == '-' && !c.ended) {
		if (c.command != NULL)
			offer_options(&c, c.command->options);
		offer_options(&c, global);
	} else if (c.command != NULL) {
		offer_words(&c);
	} else {
		for (; *commands != NULL; commands++)
			offer(&c, (*commands)->name);
		offer(&c, "help");
	}
	return CTL_OK;
}
