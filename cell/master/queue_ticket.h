/* Tickets: places in locks' queues, as clients carry them from one master to the next. */
#ifndef LSFS_MASTER_QUEUE_TICKET_H
#define LSFS_MASTER_QUEUE_TICKET_H

#include <stdbool.h>
#include "cell/wire/codec.h"

struct master;

struct tickets {
	uint8_t key[2][16]; /* of the codes: one for each signing key */
	uint64_t last;      /* the last place that was given out in this epoch */
};

/* Derives the keys from the cell's signing keys. */
void m_ticket_set_keys(struct master *m);
/* Places are counted anew: an epoch begins. */
void m_ticket_begin(struct master *m);
/* The ticket for the last place in the queue, for this acquire of `session`. */
struct ticket m_ticket_next(struct master *m, uint64_t session, const struct acquire *a);
/* True when a master of this cell gave the acquire its ticket, or when it has none. */
bool m_ticket_genuine(const struct master *m, uint64_t session, const struct acquire *a);

#endif
