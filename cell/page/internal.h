/* The inside of a replica's page: page.c, which decides what is made when, replica_metrics.c and
 * status_page.c, which make it. */
#ifndef LSFS_PAGE_INTERNAL_H
#define LSFS_PAGE_INTERNAL_H

#include <jansson.h>
#include "cell/base/bytes.h"
#include "cell/page/last_hour.h"
#include "cell/page/page.h"
#include "cell/view/ask.h"

/* The metrics of a replica: of its answer when it was asked for its status, and how long its
 * commits took. */
void replica_metrics(struct buffer *to, const char *cell, const struct answer *own,
                     const struct latency *commits, const char *ailment);

/* The page about the cell: health_json of it, cell_locks and cell_sessions (NULL: there was no
 * answer), and what the replica `self` has seen itself. */
void status_page(struct buffer *to, const json_t *health, const json_t *locks,
                 const json_t *sessions, const struct last_hour *seen, uint8_t self);

#endif
