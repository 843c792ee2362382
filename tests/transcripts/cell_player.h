/* The simulated world (tests/sim) under a script: replicas that run the production server, clients,
 * an operator, and one command after the other. No faults but those that the script orders, and the
 * shortest delays.
 *
 *   cell 3                      a new cell; it ends when all know the first master, replica 1
 *   run 300ms                   time passes
 *   until master | 2 is master | 4 votes | 4 is expelled | a is safe |
 *   a is answered | operator is answered
 *                               time passes until it is so, at most a minute
 *   crash 2, start 2, stop 2    a process; `stop` is a clean end; `crash master`
 *   freeze 2 3s, freeze a 3s    a process or a client does not run
 *   cut 1 [2], deaf 1, heal     connections between replicas: all of one, or between two, in both
 *                               directions; only those that lead to it
 *   disk 2 stuck 3s | writes | full | free
 *   damage 2 history | f        its state is not what the log says any more
 *   replica 2 tells 1 members of 99 1 2 9
 *                               a list of members, which it has made up
 *   list 2                      the members that it connects to
 *   speaks 2 1                  from its next start the program of a replica speaks minor version 1
 *   show log | all              also the entries of the log as they take effect; all traces
 *   operator: [at 2] add | remove 4 | transfer 2 | set session_lease 6000 | end a [keep delay] |
 *                    sessions | members | settings | status
 *   operator: leaves            hangs up, without an answer
 *   client a [caching]          one with the client library, which keeps its session by itself
 *   bare b [caching]            one that sends only what the script says; see cell_bare.c
 *   a: write f "x"              a request; see cell_words.h
 *
 *   20 times COMMAND
 *
 * Each command lasts until nothing more happens within a millisecond. Of `run` each line begins
 * with the time that has passed. */
#ifndef LSFS_CELL_PLAYER_H
#define LSFS_CELL_PLAYER_H

#include "tests/sim/sim.h"
#include "tests/transcripts/cell_words.h"

struct player {
	struct sim_script script;
	struct sim *s;
	struct buffer said; /* what this command brought about */
	int64_t began;      /* the command */
	bool times;         /* lines tell when, from there on */
	bool show_log, show_all, hide_keepalives;
	struct names names;
	struct bare *bares[BARES_MAX];
	int bares_n;
	char clients[MACHINES_MAX][WORD_ROOM];
	struct lock_names locks[MACHINES_MAX]; /* of these */
	int open[MACHINES_MAX];                /* requests of theirs without an answer */
	struct question {
		uint64_t conn;
		enum message_code asked;
		bool sent_away; /* to another replica */
		uint8_t body;   /* of a replica that it adds */
	} questions[QUESTIONS_MAX];
	int questions_n;
};

struct player *player_new(void);
void player_free(struct player *p);
/* Carries a command out. False: it is none; `said` says why. */
bool player_command(struct player *p, const char *line);
/* The same for tests in C, which expect that it is one; the lines, valid until the next. */
const char *player_do(struct player *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- for its parts ---- */

/* A line of output. */
void player_say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The replica that serves, or the first that runs; NULL: none does. */
struct host *player_master(struct player *p);
/* A connection of that client, from SCRIPTED on, to a replica; `at` 0: to the master. */
uint64_t player_connect(struct player *p, int client, int at);

/* ---- cell_bare.c ---- */

struct bare {
	char name[WORD_ROOM];
	int id;                 /* its number among the clients of the network */
	uint64_t conn, earlier; /* 0: none; the one before, if it was not closed */
	uint64_t session, epoch, number, sequence;
	uint8_t nonce[LIMIT_NONCE];
	bool caching;
	struct lock_names locks;
	struct player *player;
	char principal[WORD_ROOM]; /* in the replica's own process; "": over the network, admin */
	struct host *host;         /* that it is in, then */
};

/* A client of the next words' name connects to the master and asks for a session. */
bool bare_new(struct player *p, struct words *w);
/* The one of that name, or connection; NULL: there is none. */
struct bare *bare_find(const struct player *p, const char *name);
struct bare *bare_of_conn(const struct player *p, uint64_t conn);
/* What it is to do; false: it does not understand. What comes to it on a connection. */
bool bare_command(struct player *p, struct bare *b, struct words *w);
void bare_heard(struct player *p, struct bare *b, uint64_t conn, enum client_event_kind kind,
                struct bytes frame);

/* ---- cell_operator.c ---- */

/* A question in words; false: it is none. */
bool operator_command(struct player *p, struct words *w);
/* Is a question without an answer? */
bool operator_waits(const struct player *p);
/* What comes on a connection; false: it is not an operator's. */
bool operator_heard(struct player *p, uint64_t conn, enum client_event_kind kind,
                    struct bytes frame);

#endif
