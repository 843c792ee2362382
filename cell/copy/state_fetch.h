/* The fetching of a copy of a replica's state, as pure logic: for a replica that joins the cell or
 * can't continue from its own state, and for `lsctl backup`. docs/protocol.md has the messages.
 *
 * The owner names the source, the replica to fetch from. The copy is requested part by part; each
 * part is checked and written after the one before, and the whole is checked at the end. A request
 * without an answer is repeated. A source that does not answer, or has no useful copy, is given up;
 * then the fetch starts over with the source that the owner has named by then.
 *
 * The owner reports every event by state_fetch_step, and carries out the update in the order of its
 * fields. */
#ifndef LSFS_COPY_STATE_FETCH_H
#define LSFS_COPY_STATE_FETCH_H

#include "cell/base/mono.h"
#include "cell/wire/types.h"

struct state_fetch_policy {
	span_t patience; /* time to wait for an answer before the request is repeated */
	int requests;    /* unanswered requests in a row that give a source up */
	int copies;      /* useless copies (too old, discarded, empty) that give a source up */
	span_t pause;    /* after a source was given up; doubles each time, up to pause_max */
	span_t pause_max;
};

/* The states of a fetch. */
enum state_fetch_phase {
	STATE_FETCH_IDLE, /* no source is asked */
	STATE_FETCH_ASKING,
	STATE_FETCH_CHECKING, /* all parts are here, and the whole is being checked */
	STATE_FETCH_COMPLETE, /* the whole is checked; no event has any further effect */
};

struct state_fetch {
	struct state_fetch_policy policy;
	enum state_fetch_phase phase;
	uint8_t wanted;       /* the source, as it was named last; 0: no state is needed */
	uint64_t least;       /* log index that a copy must reach */
	struct backoff pause; /* after a source was given up */
	mono_t due;           /* of the next step without an event; MONO_NEVER: none */

	/* while asking */
	uint8_t source;
	uint64_t copy;          /* number of the copy at the source; 0: not known yet */
	uint64_t offset;        /* of the next part */
	uint64_t size, applied; /* of the whole, once a part is here (offset is not 0) */
	bool waiting;           /* the request is repeated at `due`, which is no missing answer */
	int unanswered;         /* requests in a row */
	int useless;            /* copies of this source */
	int refused;            /* answers in a row that the source makes copies for others, or one
	                         * while another source is wanted */
	int busy;               /* answers in a row that there is no copy yet */
};

enum state_fetch_kind {
	STATE_FETCH_TIME,      /* it is `due` */
	STATE_FETCH_WANT,      /* `replica` is the source, or no state is needed (0) */
	STATE_FETCH_PART,      /* `replica` has sent `part` */
	STATE_FETCH_REFUSED,   /* `replica` has sent `refused` */
	STATE_FETCH_LOST,      /* no further answer of `replica` can arrive: `why` */
	STATE_FETCH_UNWRITTEN, /* the update could not be written: `why` */
	STATE_FETCH_CHECKED,   /* the whole was checked: `why` it is useless, or NULL */
};

/* The pointers must be valid during the step. */
struct state_fetch_event {
	enum state_fetch_kind kind;
	mono_t now;
	uint8_t replica;
	uint64_t least; /* WANT */
	const struct msg_state_part *part;
	const struct msg_state_refused *refused;
	const char *why;
};

enum state_fetch_news {
	STATE_FETCH_NO_NEWS,
	STATE_FETCH_BEGUN,    /* with `source` */
	STATE_FETCH_WAITS,    /* for `source`, which makes copies: said every few seconds */
	STATE_FETCH_GIVEN_UP, /* `source`, for the reason `why` */
	STATE_FETCH_UNNEEDED, /* `source` is not asked any more, because no state is needed */
	STATE_FETCH_FETCHED,  /* the whole copy was received and checked */
};

/* The owner's tasks. If writing fails, the owner skips the rest of this update, and
 * reports UNWRITTEN. */
struct state_fetch_update {
	enum state_fetch_news news;
	uint8_t source;
	const char *why;   /* GIVEN_UP: for people; valid as long as the event's pointers */
	bool hopeless;     /* GIVEN_UP: any other source would fail for the same reason */
	bool drop;         /* all that was written must be removed */
	bool begin;        /* likewise, and a new file begun */
	struct bytes data; /* must be written at `offset`; a view into the part */
	uint64_t offset;
	bool check; /* the whole must be checked, which is reported by CHECKED */
	uint8_t to; /* the request must be sent to this replica; 0: to none */
	struct msg_state_request request;
};

/* Sets the beginning: no source. The policy is copied. */
void state_fetch_init(struct state_fetch *f, const struct state_fetch_policy *policy);
/* Takes one step. The update is overwritten, and owns nothing. WANT with another source takes
 * effect when the present one is given up; after WANT with replica 0 no source is asked,
 * and all is dropped: a whole copy that is being checked, when that is done. */
void state_fetch_step(struct state_fetch *f, const struct state_fetch_event *event,
                      struct state_fetch_update *update);

#endif
