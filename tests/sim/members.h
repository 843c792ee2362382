/* The lists of members that there were, and those who ask for others. */
#ifndef LSFS_SIM_MEMBERS_H
#define LSFS_SIM_MEMBERS_H

#include "cell/client/client.h"
#include "cell/paxos/px.h"
#include "tests/sim/world.h"

struct members {
	struct seats *lists; /* that were in force, in order: `version` is the index */
	size_t lists_n, lists_room;
	uint8_t bodies[LIMIT_REPLICA_ID + 1]; /* who got the id; 0: nobody yet */
	uint64_t *sums;                       /* of the lists, as paxos knows them, by version */
	size_t sums_room;
	struct px_members newest; /* that any replica knows as chosen */
	int64_t changed;          /* since when */
	/* What operators were told: which id the address and key got, or that they got none; that a
	 * replica is removed. */
	uint8_t added[HOSTS_MAX + 1];
	bool refused[HOSTS_MAX + 1], removed[LIMIT_REPLICA_ID + 1];
};

/* The first list of the cell; a command that replaces the list. */
void members_first(struct sim *s, struct wire_list first);
void members_replace(struct sim *s, uint64_t index, const struct op_set_members *op);
/* Is what the replica knows a list that there was? After each of its steps. */
void members_check(struct sim *s, struct host *n);
/* A majority of the voters has promised to a replica that becomes master, and holds an entry that
 * is decided. */
void members_check_elected(struct sim *s, const struct host *n);
/* Now and then: one that was removed is not master any more. */
void members_check_office(struct sim *s, const struct host *n);
/* One that stands for election has a vote. */
void members_check_candidate(struct sim *s, const struct host *n);
void members_check_decided(struct sim *s, uint64_t index, struct ballot origin);
/* Its role in the last list that was decided; 0: it never was a member. */
enum member_role members_role(const struct sim *s, int id);
/* The list, with those that were removed; before the first one that of the replicas at the
 * start. */
const struct seats *members_last(const struct sim *s);
int members_count(const struct sim *s, enum member_role role);
/* Must this replica not forget, or not be removed, if the cell is to go on? */
bool members_spare_memory(const struct sim *s, const struct host *n);
bool members_spare_vote(const struct sim *s, const struct host *n);
/* Does a voter let it in, which it knows? If not nothing helps it but another in its place. */
bool members_reaches(const struct sim *s, const struct host *n);
void members_check_end(struct sim *s);
void members_free(struct members *m);

/* ---- operators.c ---- */

/* One change that somebody wants, until it is made or given up. */
struct wish {
	enum operation what; /* 0: none */
	uint8_t id;          /* of whom; ADD_REPLICA: of the new one, once it is known */
	uint8_t body;        /* the new one */
	uint64_t session;    /* that is to be ended, or to lose a lock (0: any) */
	uint64_t node;       /* whose lock is to be released, */
	uint64_t seen;       /* what came later stays: newest fence of the holders; generation */
	bool keep_delay;
	struct setting_value set; /* what it shall be */
	int64_t since;            /* when it was wanted first */
	bool foolish;             /* it has to be refused */
	int unanswered;           /* times that it was asked, and nobody said what became of it */
	uint64_t behind;          /* what was applied when it was asked first; 0: it was not */
};

struct operator
{
	int id;
	struct wish wish;
	struct seats known; /* the members, as it has heard */
	uint64_t conn;
	int node;     /* the replica that it is connected with, from 0 */
	int failures; /* in a row */
	uint64_t wakes;
	char why[LIMIT_WHY + 1]; /* the last refusal */
};

void operators_start(struct sim *s);
/* Its connection brings something. */
void operators_event(struct sim *s, int operator, enum client_event_kind kind, struct bytes frame);
/* What is missing until everybody has got what he wanted, and every member is whole; NULL: nothing.
 */
const char *operators_wait_for(struct sim *s);
/* Somebody has asked that it is removed, and that may still happen. */
bool operators_doom(const struct sim *s, uint8_t id);
void operators_check_end(struct sim *s);

/* ---- wishes.c ---- */

const char *wish_text(const struct wish *w);
/* The next one, in either part of a run; `what` 0: none now. */
struct wish wish_draw(struct sim *s);
struct wish wish_draw_calm(struct sim *s, struct operator* o);
/* The end of a lasting session whose client died; `what` 0: there is none. */
struct wish wish_left(const struct sim *s);
/* A member that acts as a master and was deposed; somebody whom nothing else can help but another
 * one in its place; NULL: nobody. */
struct host *wish_deposed_master(struct sim *s);
struct host *wish_hopeless(struct sim *s);

#endif
