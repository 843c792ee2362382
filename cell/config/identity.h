/* A replica's identity: the cell file and the secret keys in its data directory. */
#ifndef LSFS_CONFIG_IDENTITY_H
#define LSFS_CONFIG_IDENTITY_H

#include "cell/config/cell_file.h"
#include "cell/config/key_file.h"

struct identity {
	struct cell_file cell_file;
	uint8_t replica;          /* this replica's id in the cell */
	struct sign_keys signing; /* the cell's; none: it joins a running cell, which sends them */
	struct noise_pair pair;   /* the replica's key; unset for a cell in one process */
};

/* Reads DIRECTORY/cell.conf, signing.key and, unless the cell runs in one process, replica.key. The
 * replica's id is the one whose public key in the cell file matches replica.key. False with one
 * line in `why`: a file is missing, damaged or readable by others, or two files do not belong
 * together. Only a learner (in its cell file: it joins a running cell) may lack signing.key. */
bool identity_read(const char *directory, struct identity *identity, char *why, size_t why_size);
/* The same without signing.key; *learner: in its cell file it is one. */
bool identity_read_replica(const char *directory, struct identity *identity, bool *learner,
                           char *why, size_t why_size);
/* Replaces DIRECTORY/signing.key, unless `on_disk`, the keys that it has, are the same, and then
 * cell.conf; what only an operator sets, `listen` and `srv`, stays as cell.conf has it. 0; or else
 * -errno, with one line in `why` that names the file. In either case `on_disk` is brought up to
 * date; no keys: what the file has is uncertain. */
int identity_replace(const char *directory, const struct sign_keys *keys,
                     const struct cell_file *cell_file, struct sign_keys *on_disk, char *why,
                     size_t why_size);
/* Wipes the secret keys from memory. */
void identity_forget(struct identity *identity);

#endif
