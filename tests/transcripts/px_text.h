/* How the transcripts of paxos write ballots, marks, entries, messages and records; a message is
 * written the same way where it is sent and where it is injected.
 *
 *   ballot   ROUND.REPLICA
 *   mark     REPLICA:INCARNATION:START:BALLOT:SLOT, then :genuine, if it has its replica's proof,
 *            or :false, if it has another one
 *   entry    SLOT@BALLOT:VALUE, or SLOT@BALLOT/ORIGIN<BEFORE:VALUE where the entry was proposed
 *            first in ballot ORIGIN, after one of BEFORE; FIRST-LAST@... for several. A header is
 *            written without its value. A wrong checksum: ~ at the end
 *   value    TEXT; or C*N, N times that character; or members:VERSION:1v/2l/3r, a change of the
 *            list VERSION to a voter, a learner, and a removed member
 *
 * Fields of messages that are 0 are left out. */
#ifndef LSFS_TESTS_TRANSCRIPTS_PX_TEXT_H
#define LSFS_TESTS_TRANSCRIPTS_PX_TEXT_H

#include "cell/paxos/px.h"
#include "tests/transcripts/script.h"

/* clang-format off */
/* The messages between replicas, and the list that a driver passes on. */
#define PX_MESSAGES(M)                                                                         \
	M(prepare) M(promise) M(accept) M(accepted) M(refused) M(heartbeat) M(heartbeat_reply) \
	M(fetch) M(hand_over) M(pre_vote) M(pre_voted) M(hello) M(welcome) M(gather)           \
	M(gathered) M(members)
/* clang-format on */

/* The memory of values that were read; freed with px_text_free. */
struct px_text {
	void **blocks;
	size_t n, room;
};

void px_text_free(struct px_text *t);
/* The secret of a replica, with which it proves its marks. */
void px_text_key(uint8_t key[PX_KEY], uint8_t replica);
/* The proof that a mark of its replica has. */
uint64_t px_text_proof(const struct mark *m);

/* Print. Marks in messages of the kinds that always carry some are printed only on demand. */
void px_print_ballot(struct buffer *to, struct ballot b);
void px_print_entry(struct buffer *to, const struct log_entry *e, bool value);
void px_print_message(struct buffer *to, const struct message *m, bool marks);
void px_print_record(struct buffer *to, const struct px_record *r);

/* Read. Wrong text ends the script. */
struct ballot px_read_ballot(struct script *s, const char *text);
struct mark px_read_mark(struct script *s, const char *text);
/* Entries, separated by spaces; the array and the payloads belong to `t`. NULL text: none. */
struct log_entry *px_read_entries(struct script *s, struct px_text *t, const char *text, size_t *n);
struct bytes px_read_value(struct script *s, struct px_text *t, const char *text);
/* A message from the script's arguments: its name, then its fields. */
struct message px_read_message(struct script *s, struct px_text *t);

#endif
