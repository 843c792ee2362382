/* A child process that works on a store and tells through a pipe what was acknowledged. When it is
 * dead, the parent opens what it left and compares. */
#ifndef LSFS_TESTS_VICTIM_H
#define LSFS_TESTS_VICTIM_H

#include <sys/types.h>
#include "tests/unit/store_fixture.h"

/* What the child tells. All of it only grows. */
struct acks {
	uint64_t incarnation, persisted, saved, failed;
};

/* How a child ends that nobody killed. */
enum { OK = 0, REFUSED = 3, LATE_ACK = 4, UNNOTICED = 5 };

extern struct fixture f;
extern struct acks told; /* by this process */
extern int report_fd;    /* where it tells */

/* Contents that can be told from those of any other slot. */
struct bytes payload_of(uint64_t slot);
/* An empty directory, and nothing told. */
void victim_fresh(void);

/* ---- in the child ---- */

/* Opens and starts the store; what it acknowledges is told. False with f.why. */
bool victim_start(void);
void victim_trim(uint64_t slot, uint64_t ticket);
int victim_threads(void); /* of this process */

/* ---- in the parent ---- */

struct victim {
	pid_t pid;
	int fd;
};

/* A child that does `work` and ends with its result. With `prepare` its disk is powercut.h's, and
 * prepare(n) says what happens to it. */
struct victim victim_run(int (*work)(void), void (*prepare)(long n), long n, uint64_t seed);
/* Reads until it has told so many things; the last one is in *acks. */
void victim_listen(struct victim victim, uint64_t times, struct acks *acks);
/* Reads what it told until it is dead; its exit status, or -1 if it was killed. */
int victim_harvest(struct victim victim, struct acks *acks);

/* As if the machine had been started again, which has marked its disk as failed. */
void victim_next_boot(void);

void assert_entry(const struct log_entry *e, uint64_t slot);
/* Opens what is left and compares it with what had been acknowledged. */
void assert_kept(const struct acks *acks);

#endif
