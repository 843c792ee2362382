#include "cell/config/identity.h"

#include <errno.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* This replica in its cell file; NULL: it is not there. */
static const struct cell_file_replica *
find_self(const struct identity *identity)
{
	const struct cell_file *cell_file = &identity->cell_file;

	for (int i = 0; i < cell_file->replicas_n; i++)
		if (memcmp(cell_file->replicas[i].public_key, identity->pair.public, NOISE_KEY) ==
		    0)
			return &cell_file->replicas[i];
	return NULL;
}

/* A learner may lack the key, which the cell sends it; and that may differ from the key that its
 * cell file names, if the cell's key was rotated since. */
static bool
read_signing(const char *directory, struct identity *identity, bool learner, char *why,
             size_t why_size)
{
	char path[PATH_MAX];

	snprintf(path, sizeof path, "%s/signing.key", directory);
	if (learner && access(path, F_OK) < 0 && errno == ENOENT)
		return true;
	if (!key_file_read_signing(path, &identity->signing, why, why_size))
		return false;
	/* The key file is replaced before the cell file. */
	if (learner || sign_keys_find(&identity->signing, identity->cell_file.signing_public) >= 0)
		return true;
	snprintf(why, why_size, "%s: not the key that is named in %s/cell.conf", path, directory);
	return false;
}

bool
identity_read_replica(const char *directory, struct identity *identity, bool *learner, char *why,
                      size_t why_size)
{
	const struct cell_file *cell_file = &identity->cell_file;
	const struct cell_file_replica *self = cell_file->replicas;
	char path[PATH_MAX];

	memset(identity, 0, sizeof *identity);
	snprintf(path, sizeof path, "%s/cell.conf", directory);
	if (!cell_file_read(path, &identity->cell_file, why, why_size))
		return false;
	if (!cell_file_is_standalone(cell_file)) {
		snprintf(path, sizeof path, "%s/replica.key", directory);
		if (!key_file_read_replica(path, &identity->pair, why, why_size))
			return false;
		self = find_self(identity);
		if (self == NULL) {
			snprintf(why, why_size,
			         "%s: the key of none of the replicas in %s/cell.conf", path,
			         directory);
			return false;
		}
	}
	identity->replica = self->id;
	*learner = self->role == MEMBER_LEARNER;
	return true;
}

bool
identity_read(const char *directory, struct identity *identity, char *why, size_t why_size)
{
	bool learner;

	return identity_read_replica(directory, identity, &learner, why, why_size) &&
	       read_signing(directory, identity, learner, why, why_size);
}

int
identity_replace(const char *directory, const struct sign_keys *keys,
                 const struct cell_file *cell_file, struct sign_keys *on_disk, char *why,
                 size_t why_size)
{
	struct cell_file next = *cell_file, now;
	char path[PATH_MAX], ignored[512];
	int rc = 0;

	if (memcmp(keys, on_disk, sizeof *keys) != 0) {
		sodium_memzero(on_disk, sizeof *on_disk);
		snprintf(path, sizeof path, "%s/signing.key", directory);
		rc = key_file_replace_signing(path, keys);
		if (rc == 0)
			*on_disk = *keys;
	}
	if (rc == 0) {
		snprintf(path, sizeof path, "%s/cell.conf", directory);
		if (cell_file_read(path, &now, ignored, sizeof ignored)) {
			memcpy(next.listen, now.listen, sizeof next.listen);
			memcpy(next.srv, now.srv, sizeof next.srv);
		}
		rc = cell_file_replace(path, &next);
	}
	if (rc < 0)
		snprintf(why, why_size, "%s: %s", path, strerror(-rc));
	return rc;
}

void
identity_forget(struct identity *identity)
{
	sodium_memzero(&identity->signing, sizeof identity->signing);
	sodium_memzero(&identity->pair, sizeof identity->pair);
}
