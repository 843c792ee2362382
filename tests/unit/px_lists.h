/* A bench whose px is one of several members, written as "1v 2v 3l 4r": two voters, a learner and
 * one that was removed. Replica 1 is the one under test. */
#ifndef LSFS_TESTS_PX_LISTS_H
#define LSFS_TESTS_PX_LISTS_H

#include "tests/unit/px_bench.h"

extern const struct px_recovered nothing; /* a new disk */
extern const struct px_recovered later;   /* it promised more than others accepted */
extern const struct ballot b2, b3, b4;    /* ever higher ones of these replicas */

/* ---- changes of the members ---- */

/* Holds the payload of one. */
struct list {
	uint8_t bytes[4096];
	size_t n;
};

/* To these members, from the list of version `replaces`. The payload is a view into *to. */
struct bytes change(struct list *to, uint64_t replaces, const char *members);
struct log_entry change_entry(struct list *to, uint64_t slot, struct ballot ballot,
                              uint64_t replaces, const char *members);
void propose_change(struct bench *b, uint64_t replaces, const char *members);
void assert_members(const struct px *px, uint64_t version, const char *members);

/* ---- what others say ---- */

/* `from` has accepted all up to a slot, grants the lease, or beats as master. */
void accepted(struct bench *b, uint8_t from, struct ballot ballot, uint64_t upto);
void reply(struct bench *b, uint8_t from, struct ballot ballot, uint64_t sequence);
void heartbeat(struct bench *b, struct ballot ballot, uint64_t chosen);

/* ---- a replica among members ---- */

/* One that the others have welcomed. */
struct bench bench_listed(const char *members, uint64_t version,
                          const struct px_recovered *recovered);
/* Its time has come: it is a candidate. */
void stand(struct bench *b);
/* Likewise; its ballot, with which it asks replica 2 for its vote. */
struct ballot candidate(struct bench *b);
/* Replica 1 of "1v 2v ..." is elected with the promise of replica 2; its ballot. */
struct ballot master(struct bench *b, const char *members);
/* It knows that it was removed; if another did not, that one might need its vote. */
void only_asks_whether_it_is_gone(struct bench *b);

#endif
