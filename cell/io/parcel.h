/* Frames that wait in a host: for their delivery, for a record to be durable, for their turn to be
 * read. */
#ifndef LSFS_IO_PARCEL_H
#define LSFS_IO_PARCEL_H

#include <bsd/sys/queue.h>
#include "cell/base/bytes.h"

struct parcel {
	TAILQ_ENTRY(parcel) link;
	uint64_t conn;
	uint8_t peer;       /* to a replica, not to a connection; 0: no */
	uint64_t after;     /* log ticket */
	bool close;         /* no frame: the replica closes the connection */
	struct bytes frame; /* owned */
};

TAILQ_HEAD(parcel_list, parcel);

/* Appends a copy of the struct, which owns the frame from here on. */
void parcel_put(struct parcel_list *list, struct parcel parcel);
/* Takes the first one out: false when there is none. */
bool parcel_take(struct parcel_list *list, struct parcel *parcel);
void parcel_free(struct parcel *parcel);
/* Frees all that are left. */
void parcels_free(struct parcel_list *list);

#endif
