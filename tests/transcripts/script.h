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
 * One command is every player's: `quietly COMMAND ...` drops what the command says, for the steps
 * that lead to the subject. */
#ifndef LSFS_TESTS_TRANSCRIPTS_SCRIPT_H
#define LSFS_TESTS_TRANSCRIPTS_SCRIPT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
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
	void *(*begin)(void); /* makes the world of one transcript */
	void (*end)(void *world);
};

/* The main function of a player; returns its exit status. */
int script_main(int argc, char **argv, const struct script_player *player);
/* Plays one file, and prints differences to `out`, each line behind "# ". Returns how many commands
 * said something else than the file expects; with `accept` the file is then rewritten. -1: the file
 * could not be played to its end, for the reason printed. */
int script_play(const struct script_player *player, const char *path, bool accept, FILE *out);

/* ---- for the functions of commands ---- */

/* The next argument that is no key=value; NULL: there is none. Valid during the command. */
const char *script_word(struct script *s);
/* The value of key=value; NULL: it is not given. */
const char *script_value(struct script *s, const char *key);
/* The same as numbers. A word must be there, the value has a default; both end the script when they
 * are no number. */
uint64_t script_number(struct script *s);
uint64_t script_value_number(struct script *s, const char *key, uint64_t otherwise);
/* The whole command, with its name, for a player that reads it by itself. */
const char *script_rest(struct script *s);
/* Ends the script: the command at hand is wrong. Arguments that a command does not take are
 * reported by the core. */
_Noreturn void script_misuse(struct script *s, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds a line to what the command says, without a newline. */
void script_say(struct script *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says the lines of a sink, each behind `who` and a colon; takes them out of it. */
void script_say_traces(struct script *s, const char *who, struct trace *t);

#endif
