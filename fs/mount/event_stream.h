/* The file .cell/events: a stream of lines, one JSON object for each event, that begins when the
 * file is opened. A read waits for the next event. A reader that is slower than the events finds a
 * gap in their place. */
#ifndef LSFS_FS_MOUNT_EVENT_STREAM_H
#define LSFS_FS_MOUNT_EVENT_STREAM_H

#include <bsd/sys/queue.h>
#include "fs/mount/call.h"

struct client_watched;

/* Of one open of the file. */
struct event_stream {
	TAILQ_ENTRY(event_stream) entry;
	struct handle *handle;
	struct buffer lines;      /* that were not read */
	bool lost;                /* there was no room for the next ones, */
	int64_t lost_ns;          /* at this time of day */
	struct call_list readers; /* that wait */
};

TAILQ_HEAD(event_streams, event_stream);

/* Makes the handle, which is new, a stream. */
void event_stream_open(struct mount *m, struct handle *h);
/* The handle is closed: its reads are answered. */
void event_stream_close(struct mount *m, struct handle *h);
/* Frees the stream of the handle, if it is one. */
void event_stream_free(struct mount *m, struct handle *h);
/* Answers a read, now or with the next event. */
void event_stream_read(struct mount *m, struct call *c);
/* True if a read would not wait. */
bool event_stream_readable(const struct handle *h);
/* Appends the event to all streams; `wall_ns`: now, by the time of day. */
void event_stream_told(struct mount *m, const struct client_watched *w, int64_t wall_ns);

#endif
