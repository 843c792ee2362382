/* The cell's signing keys, as far as this replica has them. A rotation brings in another key: the
 * master draws it, stores it and sends it to all members over their secure channels; once a
 * majority has it on disk the log says that it is in force, beside the one before. A replica that
 * was away asks the others for a key that the log names. Secret keys are never in log or state. */
#ifndef LSFS_SERVER_KEY_ROTATION_H
#define LSFS_SERVER_KEY_ROTATION_H

#include "cell/config/identity.h"
#include "cell/master/master.h"
#include "cell/server/cell_file_writer.h"
#include "cell/server/server_io.h"

struct key_rotation;

struct key_rotation_config {
	const struct server_io *io; /* these four must outlive it */
	const struct identity *identity;
	const struct tree *tree;
	struct cell_file_writer *writer;
	void (*send)(void *user, uint8_t replica, uint64_t conn, struct bytes frame);
	/* A majority has the new key: the public ones to be in force are this one and the one
	 * before it, one behind the other, and behind these the newest one until now, if it is
	 * lost. Empty: this replica can't store the new key. */
	void (*agreed)(void *user, struct bytes keys);
	/* Other keys are to be used: key_rotation_keys. */
	void (*changed)(void *user);
	void *user;
};

/* Nothing is under way. The configuration is copied; what it points to must outlive it. */
struct key_rotation *key_rotation_new(const struct key_rotation_config *config);
/* Wipes the keys and frees it. */
void key_rotation_free(struct key_rotation *k);
/* The keys for a master on this replica. */
void key_rotation_keys(const struct key_rotation *k, struct master_keys *keys);
/* Begins to introduce a new key, unless one is being introduced; results in `agreed`. When this
 * replica lacks the newest key in force it asks all members for that meanwhile: it is lost if a
 * majority takes the new one and none has sent it within some seconds. */
void key_rotation_begin(struct key_rotation *k);
/* The tree may name other keys than before. */
void key_rotation_follow(struct key_rotation *k);
/* This replica is not the master any more: it introduces no key. */
void key_rotation_cease(struct key_rotation *k);
/* Takes a frame of a replica, which is a member of the cell or was removed, and perhaps the master.
 * False: the frame is of another kind. */
bool key_rotation_peer(struct key_rotation *k, uint8_t from, bool member, bool master,
                       struct bytes frame);
/* The files were written, or could not be. */
void key_rotation_written(struct key_rotation *k);
/* The time at which key_rotation_timeout must be called. */
mono_t key_rotation_deadline(const struct key_rotation *k);
/* Sends a new key again, and asks again for one that is missing, as is due. */
void key_rotation_timeout(struct key_rotation *k, mono_t now);

#endif
