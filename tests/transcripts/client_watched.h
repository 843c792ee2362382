/* Events of watched nodes in words, and the messages that tell clients of them. */
#ifndef LSFS_CLIENT_WATCHED_H
#define LSFS_CLIENT_WATCHED_H

#include "cell/client/client.h"
#include "tests/transcripts/script.h"

/* Says the event. */
void watched_say(struct script *s, const struct client_watched *w);
/* The cell has taken watches of the nodes that come next. `states` keeps the list. */
void watched_states(struct script *s, struct msg_watching *m, struct buffer *states);
/* The next words' events: FIRST NODE kind=KIND [version=N] [name=NAME] [count=N]. */
void watched_events(struct script *s, struct msg_events *m, struct buffer *events);

#endif
