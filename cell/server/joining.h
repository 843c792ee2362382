/* The first start of a replica that was added to a running cell. Its data directory, made by `lsctl
 * replica add`, lacks the cell's signing key, which no tool has. The key is requested from the
 * other members, over the secure channel, before the replica is started. Of server_io it needs
 * clock, log and connections. */
#ifndef LSFS_SERVER_JOINING_H
#define LSFS_SERVER_JOINING_H

#include "cell/config/identity.h"
#include "cell/server/server_io.h"

struct joining;

struct joining_config {
	const struct identity *identity; /* must outlive it; has no signing key */
	/* Called with the signing key, once it is checked to be the cell's; the view is valid
	 * during the call. */
	void (*keep)(void *user, struct bytes key);
	/* Called once a majority of the other voters in the cell file has answered that this
	 * replica was removed from the cell: it never gets the key. */
	void (*expelled)(void *user);
	void *user;
};

/* Begins to request the key, and repeats the request, after pauses that grow, until it is
 * answered. `io` is copied. */
struct joining *joining_new(const struct server_io *io, const struct joining_config *config);
/* Passes on server_opened. */
bool joining_opened(struct joining *j, uint64_t conn, enum channel_role role,
                    const uint8_t key[NOISE_KEY]);
/* Passes on server_frame. */
void joining_frame(struct joining *j, uint64_t conn, struct bytes frame);
/* Passes on server_closed. */
void joining_closed(struct joining *j, uint64_t conn, const char *why);
/* The time at which joining_timeout must be called. */
mono_t joining_deadline(const struct joining *j);
/* Connects and asks again, as is due. */
void joining_timeout(struct joining *j);
/* Frees it; its connections are closed by the owner. */
void joining_free(struct joining *j);

#endif
