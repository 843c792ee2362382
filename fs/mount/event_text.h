/* Events as people and scripts read them: one line of JSON each. */
#ifndef LSFS_FS_MOUNT_EVENT_TEXT_H
#define LSFS_FS_MOUNT_EVENT_TEXT_H

#include "cell/client/client.h"

/* Appends the event's line, as `{"event": "child_added", "path": "/ls/CELL/d", "time":
 * "2026-11-22T19:42:21.000000000Z", "child": "f"}`. An event of the session, or of all nodes, has
 * the path of the cell. `wall_ns` is the time of an event that has none. */
void event_text(struct buffer *to, const char *cell, const struct client_watched *w,
                int64_t wall_ns);

/* Appends the line of a change, as `{"event": "created", "path": "/ls/CELL/d/f", "time": "...",
 * "index": 7}`. */
void event_text_change(struct buffer *to, const char *cell, const struct past_change *c);
/* Appends the line that says that the changes of entries up to this index may be missing. */
void event_text_compacted(struct buffer *to, const char *cell, uint64_t index);

#endif
