/* The client whose transcripts are played, with what it was told. */
#ifndef LSFS_CLIENT_PLAYER_H
#define LSFS_CLIENT_PLAYER_H

#include "cell/client/client.h"
#include "tests/transcripts/script.h"

enum { NUMBERS = 8192 };

struct player {
	struct client *client;
	struct client_update update;
	struct script *s;
	struct trace trace;
	mono_t now, began;                /* began: the command */
	enum op_code ops[NUMBERS];        /* of requests, by number */
	uint64_t token, number, sequence; /* of the last request, the last KeepAlive */
	unsigned
	    listens[LIMIT_REPLICAS + 1]; /* to each replica, of those that opened since a spread */
	uint64_t generation;             /* of the cache, as shown last */
	struct client_rights opened;     /* of the last answer that had check digits */
	uint64_t datagram;               /* number of the last KeepAlive beside the connection */
};

#define say(p, ...) script_say((p)->s, __VA_ARGS__)

/* Says all that is in the update of the step that was taken. */
void say_update(struct player *p);
/* Milliseconds from then to now. */
long long ms_since(const struct player *p, mono_t t);

#endif
