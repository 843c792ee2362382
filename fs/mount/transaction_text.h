/* A transaction as lines, as they are written into .cell/txn (lsctl(1), txn):
 *
 *   if PATH generation N | if PATH absent | if PATH held SEQUENCER
 *   set PATH [BASE64] | create PATH | mkdir PATH | append PATH BASE64 | delete PATH |
 *   rename PATH PATH | setattr PATH ATTRIBUTE VALUE | acquire PATH exclusive
 *   else
 *
 * Words are separated by blanks; a word that begins with a quotation mark ends with the next one.
 * Paths begin at the cell's root. Empty lines and lines that begin with # are skipped. */
#ifndef LSFS_FS_MOUNT_TRANSACTION_TEXT_H
#define LSFS_FS_MOUNT_TRANSACTION_TEXT_H

#include "cell/wire/types.h"

enum { TRANSACTION_TEXT = 1024 * 1024 }; /* the longest */

struct transaction_line {
	unsigned number; /* in the text, from 1 on */
	struct bytes word, path;
	struct bytes sequencer; /* of a condition `held` */
	struct step step;       /* its guard is the caller's to fill in */
	struct op op;           /* of STEP_DO */
	size_t decoded;         /* the length of its contents, which `op` does not have yet, */
	size_t decoded_at;      /* and their place in `contents` */
};

struct transaction_text {
	struct transaction_line lines[LIMIT_STEPS];
	uint32_t n;
	bool has_operation, has_else;
	struct buffer contents; /* decoded */
	unsigned wrong;         /* the number of the first line that is wrong; 0: none is */
	const char *why;        /* the reason why it is wrong; a static text */
};

/* Reads the text, which must outlive *t; free that with transaction_text_free. False: a line is
 * wrong. */
bool transaction_text_read(struct transaction_text *t, struct bytes text);
/* Encodes the steps, as the caller has completed them. */
struct wire_list transaction_text_steps(struct transaction_text *t, struct buffer *to);
/* Frees what it owns. */
void transaction_text_free(struct transaction_text *t);

#endif
