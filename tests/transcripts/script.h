/* Transcripts: conversations with a part of the system, written down to be read.
 *
 *   # prose, which says what is shown, and why it is so
 *   > command argument key=value "an argument with spaces"
 *     what the command said, compared line by line
 *
 * A player is a program with a table of commands. Without arguments it plays every transcript of
 * its folder, each in a process of its own, and reports each as one case (TAP); with file names
 * only those. A difference is printed with file and line. With --accept the files are rewritten
 * with what was said: review the change like any other.
 *
 * Several commands may stand in a line, and two words in front of them:
 *
 *   COMMAND ... ; COMMAND ...   one after the other
 *   quietly COMMAND ...         drops what the commands say, for the steps that lead to the subject
 *   N times COMMAND ...         the commands again and again; % in them is the count, from 1 on
 *
 * Of five and more lines, or groups of lines, that differ only in numbers, and these by the same
 * step from each to the next, the first and the last are said. */
#ifndef LSFS_TESTS_TRANSCRIPTS_SCRIPT_H
#define LSFS_TESTS_TRANSCRIPTS_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "cell/base/mono.h"
#include "cell/base/rc.h"
#include "cell/base/trace.h"

/* One transcript while it is played. */
struct script;

struct script_command {
	const char *name, *usage; /* usage: the arguments, for people */
	void (*run)(struct script *s, void *world);
};

struct script_player {
	const char *folder; /* below tests/transcripts */
	/* The last one has no name; if it has a function, that runs all others. */
	const struct script_command *commands;
	size_t world;               /* the size of the world of one transcript; it is zeroed */
	void (*begin)(void *world); /* prepares it; may be NULL */
	void (*end)(void *world);   /* frees what it refers to; may be NULL */
};

/* The main function of a player; returns its exit status. */
int script_main(int argc, char **argv, const struct script_player *player);
/* Plays one file, and prints differences to `out`, each line behind "# ". Returns how many commands
 * said something else than the file expects; with `accept` the file is then rewritten. -1: the file
 * could not be played to its end, for the reason printed. */
int script_play(const struct script_player *player, const char *path, bool accept, FILE *out);

/* Begins the function of a command, which gets `s` and its world `w`:
 *
 *   SCRIPT_COMMAND(crash, struct world)
 *   {
 *           ...
 *
 * defines run_crash, for the table. */
#define SCRIPT_COMMAND(command, type)                                           \
	static void command##_command(struct script *s, type *w);               \
	static void run_##command(struct script *s, void *world)                \
	{                                                                       \
		command##_command(s, world);                                    \
	}                                                                       \
	static void command##_command(struct script *s __attribute__((unused)), \
	                              type *w __attribute__((unused)))

/* ---- for the functions of commands: arguments, which are valid during the command ---- */

/* The name that it was called by. */
const char *script_name(struct script *s);
/* The next argument that is no key=value; NULL: there is none. */
const char *script_word(struct script *s);
/* The same where there must be one. Is there one? */
const char *script_needed(struct script *s);
bool script_more(struct script *s);
/* Is the next word this one? Then it is taken. */
bool script_take(struct script *s, const char *word);
/* The value of key=value; NULL: it is not given. */
const char *script_value(struct script *s, const char *key);
/* The same as numbers, and as numbers of milliseconds. A word must be there, the value has a
 * default; both end the script when they are no number. */
uint64_t script_number(struct script *s);
uint64_t script_value_number(struct script *s, const char *key, uint64_t otherwise);
span_t script_ms(struct script *s);
span_t script_value_ms(struct script *s, const char *key, uint64_t otherwise);
/* The next word if it is a number, into *n. */
bool script_take_number(struct script *s, uint64_t *n);
/* The place of a word in a list of `n`; NULL in the list is no word. */
size_t script_choice(struct script *s, const char *word, const char *const *list, size_t n);
/* The code of that name; RC_OK: no name (NULL). */
enum rc script_rc(struct script *s, const char *name);
/* Ends the script: the command at hand is wrong. Arguments that a command does not take are
 * reported by the core. */
_Noreturn void script_misuse(struct script *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- and what they say ---- */

/* Adds a line to what the command says, without a newline. */
void script_say(struct script *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The text of a buffer as a line; frees it. */
void script_say_buffer(struct script *s, struct buffer *line);
/* Says a text after the last line, if that is short and was said so, too, with the same sign in
 * front of it. */
void script_say_joined(struct script *s, const char *sign, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says the lines of a sink, without those of messages, each after `who` and a colon (NULL:
 * nothing); takes them out of it. */
void script_say_traces(struct script *s, const char *who, struct trace *t);

#endif
