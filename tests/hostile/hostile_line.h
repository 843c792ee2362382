/* A connection of a hostile client: over the secure channel, with a key that the cell may know or
 * not, and with every byte as its user wants it. The library's own connections send whole frames
 * only. Each frame that arrives is searched for a secret. */
#ifndef LSFS_TESTS_HOSTILE_LINE_H
#define LSFS_TESTS_HOSTILE_LINE_H

#include <netinet/in.h>
#include <uv.h>
#include "cell/wire/channel.h"

/* A replica, as its cell file describes it. */
struct hostile_target {
	uv_loop_t *loop;
	struct sockaddr_in address;
	uint8_t key[NOISE_KEY], cell_id[CELL_ID];
	const struct noise_pair *own; /* the hostile client's */
};

struct hostile_line {
	const struct hostile_target *target;
	void (*opened)(struct hostile_line *l);
	void (*frame)(struct hostile_line *l, struct bytes frame);
	void (*closed)(struct hostile_line *l); /* may begin it anew */
	void *user;
	uv_tcp_t tcp;
	uv_connect_t connecting;
	struct channel channel;
	struct buffer in; /* an unfinished frame */
	bool is_open, is_closing;
};

/* What must be in no answer, NULL: nothing is searched for; and how often it was there. */
extern const char *hostile_secret;
extern uint64_t hostile_learnt;

/* Begins to connect; target, user and callbacks are set by the caller before. */
void hostile_line_begin(struct hostile_line *l);
/* Sends plain text, no matter whether it is frames; false: there is no room for it now. */
bool hostile_line_send(struct hostile_line *l, struct bytes plain);
/* Reads no more: what the replica sends stays with it. */
void hostile_line_stop_reading(struct hostile_line *l);
/* Closes the connection without a word. */
void hostile_line_end(struct hostile_line *l);
/* The bytes with which a connection began that was opened, to be sent again; empty: none was. */
struct bytes hostile_line_recorded(void);

#endif
