/* A bench for one px: the test plays clock, disk and all other replicas. */
#ifndef LSFS_TESTS_PX_BENCH_H
#define LSFS_TESTS_PX_BENCH_H

#include <stdlib.h>
#include <string.h>

#include "cell/base/checksum.h"
#include "cell/paxos/px.h"
#include "cell/wire/codec.h"
#include "tests/unit/unit.h"

enum { BENCH_START = 77 };

struct bench {
	struct px *px;
	struct px_update update; /* of the last step */
	mono_t now;
	uint64_t incarnation;
};

struct px_config bench_config(int members);
/* A px that has just started: mute, unless it is alone. */
struct bench bench_mute(const struct px_config *c, const struct px_recovered *recovered);
void bench_free(struct bench *b);
void bench_step(struct bench *b, struct px_event e);
void bench_pass(struct bench *b, int64_t ms);
void bench_receive(struct bench *b, uint8_t from, struct message m);
/* `from` answers the hello of this px. */
void bench_welcome(struct bench *b, uint8_t from, enum welcome verdict);
/* A px that all others have welcomed. */
struct bench bench_of(const struct px_config *c, const struct px_recovered *recovered);
struct bench bench_new(int members, const struct px_recovered *recovered);
/* The ticket is durable. */
void bench_persist(struct bench *b, uint64_t ticket);
void bench_propose(struct bench *b, const char *payload);
/* Waits until the deadline and lets it pass. */
void bench_timeout(struct bench *b);
/* The message of this code that the last step sends to `to`, and its ticket; NULL: none. It is a
 * view into the update. */
const struct message *bench_sent(const struct bench *b, uint8_t to, enum message_code code,
                                 uint64_t *after);
struct log_entry bench_entry(uint64_t slot, struct ballot ballot, struct ballot origin,
                             const char *payload);

#endif
