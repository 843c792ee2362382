/* Who a replica is: what its data directory says of its cell, and its secret keys. */
#ifndef LSFS_CONFIG_IDENTITY_H
#define LSFS_CONFIG_IDENTITY_H

#include "cell/config/cell_file.h"
#include "cell/config/key_file.h"

struct identity {
	struct cell_file cell_file;
	uint8_t replica;              /* which of the cell's this is */
	bool has_signing;
	uint8_t signing[SIGN_SECRET]; /* the cell's */
	struct noise_pair pair;       /* the replica's; none for a cell in one process */
};

/* Reads DIRECTORY/cell.conf, signing.key and, unless the cell runs in one process, replica.key,
 * whose public half in the cell file tells which replica this is. False with one line in `why`: a
 * file is missing, damaged or readable by others, or they do not belong together. Only of a replica
 * that joins a running cell, and is a learner in its cell file, signing.key may be missing
 * (joining.h). */
bool identity_read(const char *directory, struct identity *identity, char *why, size_t why_size);
/* Wipes the secrets. */
void identity_forget(struct identity *identity);

#endif
