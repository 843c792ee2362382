/* The simulated world (tests/sim) under a script: replicas that run the production server, clients,
 * an operator, and one command after the other. No faults but those that the script orders, and the
 * shortest delays.
 *
 *   cell 3                      a new cell; it ends when all know the first master, replica 1
 *   run 300ms [events=N]        time passes, in which at most N things may happen
 *   until master | 2 is master | 4 votes | 4 is expelled | a is safe |
 *   a is answered | operator is answered
 *                               time passes until it is so, at most a minute
 *   crash 2, start 2, stop 2    a process; `stop` is a clean end; `crash master`
 *   freeze 2 3s, freeze a 3s    a process or a client does not run
 *   cut 1 [2], deaf 1, heal     connections between replicas: all of one, or between two, in both
 *                               directions; only those that lead to it
 *   disk 2 stuck 3s | writes | full | free
 *   disk 2 copied | old | stateless
 *                               a copy of it is kept; while its replica does not run, that takes
 *                               its place, or its state gets lost
 *   damage 2 history | f        its state is not what the log says any more
 *   damage 2 keys               the keys and the cell file on its disk, while it does not run, are
 *                               those of before the first rotation
 *   replica 2 tells 1 members of 99 1 2 9
 *                               a list of members, which it has made up
 *   list 2                      the members that it connects to
 *   speaks 2 1                  from its next start the program of a replica speaks minor version 1
 *   show log | all              also the entries of the log as they take effect; all traces
 *   operator: [at 2] [replica 3: with its key]
 *                    add | remove 4 | transfer 2 | set session_lease 6000 | end a [keep] |
 *                    recover admin [new key] |
 *                    add-principal ann [other key] | remove-principal ann |
 *                    unlock f 1 (the generation of its lock) | again-behind 5 COMMAND |
 *                    backed-up 1000 (the time in seconds; 0: now) |
 *                    sessions | locks | members | settings | status | limits | principals
 *   operator: leaves            hangs up, without an answer
 *   client a [caching]          one with the client library, which keeps its session by itself
 *   bare b [caching]            one that sends only what the script says; see cell_bare.c
 *   a: write f "x"              a request; see cell_words.h
 *   a: watch f                  see cell_watches.c
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
	struct script *words; /* of the command that runs */
	int64_t began;        /* the command */
	bool times;           /* lines tell when, from there on */
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
		bool limits;    /* of the status only these are printed */
		uint8_t body;   /* of a replica that it adds */
	} questions[QUESTIONS_MAX];
	int questions_n;
};

/* The replica that serves, or the first that runs; NULL: none does. */
struct host *player_master(struct player *p);
/* A connection of that client, from SCRIPTED on, to a replica; `at` 0: to the master. */
uint64_t player_connect(struct player *p, int client, int at, uint8_t seat);
/* The replica that the next word names; NULL: it names none. */
struct host *player_take_host(struct player *p, struct script *w);
/* The client with the library of that name; NULL: there is none. That of the next word. */
struct machine *player_client(struct player *p, const char *name);
struct machine *player_next_client(struct player *p, struct script *w);

/* ---- cell_until.c ---- */

/* Time passes until it is as the next words say, at most a minute. */
void player_until(struct player *p, struct script *w);

/* ---- cell_said.c ---- */

/* A line of output. */
void player_say(struct player *p, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The functions that the world calls, for the player `user`. */
void player_listen(struct sim_script *script, struct player *user);

/* ---- cell_bare.c ---- */

struct bare {
	char name[WORD_ROOM];
	int id;                 /* its number among the clients of the network */
	uint64_t conn, earlier; /* 0: none; the one before, if it was not closed */
	uint64_t session, epoch, number, sequence, datagram;
	uint8_t nonce[LIMIT_NONCE];
	bool caching, lasting;
	uint64_t generation; /* of its cache, as it shows it; 0: it has none */
	struct lock_names locks;
	uint8_t seat;                 /* whose key it has */
	struct client_rights through; /* of the handle that the request goes through; node 0: none
	                               */
};

/* A client of the next words' name connects to the master and asks for a session. */
void bare_new(struct player *p, struct script *w);
/* The one of that name, or connection; NULL: there is none. */
struct bare *bare_find(const struct player *p, const char *name);
struct bare *bare_of_conn(const struct player *p, uint64_t conn);
/* It does what the next words say; a frame, or the end, comes to it on a connection. */
void bare_command(struct player *p, struct bare *b, struct script *w);
void bare_heard(struct player *p, struct bare *b, uint64_t conn, enum client_event_kind kind,
                struct bytes frame);

/* ---- cell_operator.c ---- */

/* A question in words. */
void operator_command(struct player *p, struct script *w);
/* Is a question without an answer? */
bool operator_waits(const struct player *p);
/* A frame, or the end, comes on a connection; false: it is not an operator's. */
bool operator_heard(struct player *p, uint64_t conn, enum client_event_kind kind,
                    struct bytes frame);

/* ---- cell_watches.c ---- */

/* An event comes to a client with the library. */
void watches_said(void *user, int machine, const struct client_watched *w);
/* It begins or ends a watch, as the next words say. */
void watches_command(struct player *p, struct machine *m, struct script *w, bool begin);
/* The message `watch` of a client without, whose list is to be freed. */
void watches_bare(struct player *p, struct bare *b, struct script *w, struct message *m);
/* Says the answers to that. */
void watches_bare_watching(struct player *p, const struct bare *b, const struct msg_watching *m);
void watches_bare_events(struct player *p, const struct bare *b, const struct msg_events *m);

#endif
