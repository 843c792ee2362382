/* Leases of sessions: how long they are, and when a session expires. */
#ifndef LSFS_MASTER_SESSION_LEASE_H
#define LSFS_MASTER_SESSION_LEASE_H

#include <stdbool.h>

#include "cell/base/mono.h"
#include "cell/base/setting.h"
#include "cell/master/timer.h"
#include "cell/tree/tree.h"

struct m_session;
struct master;

/* ---- session_lease.c: load ----
 *
 * How much longer session leases have to be for a master to bear their KeepAlives, pure (Chubby,
 * section 4.1: the lease is increased "from the default 12s up to around 60s when under heavy
 * load", so that the master handles fewer KeepAlives). The master counts what it answers; the
 * factor grows at once, and shrinks step by step when the load has been low for a while. */

enum { LEASE_LOAD_MOST = 5 }; /* times the lease that is set */

struct lease_load {
	unsigned bearable; /* KeepAlives a second */
	unsigned factor;   /* 1 to LEASE_LOAD_MOST, by which leases are longer than set */
	uint64_t answered; /* KeepAlives in this window, */
	span_t window;     /* the length of the window */
	mono_t end;        /* of the window */
};

/* Nothing was answered yet. */
void lease_load_begin(struct lease_load *l, unsigned bearable);
/* Windows that have ended by `now` decide about the factor. `lease`: as it is set. */
void lease_load_pass(struct lease_load *l, mono_t now, span_t lease);
/* A KeepAlive is answered at `now`. */
void lease_load_answered(struct lease_load *l, mono_t now, span_t lease);

/* ---- session_lease.c: lengthened leases ----
 *
 * Session leases that are longer than the setting while the master is loaded. The longest that may
 * be promised is replicated first, because a new master waits for it before it ends a session; it
 * is the setting again when the last longer promise is over (see lowered leases). */

struct lengthened_leases {
	struct lease_load load;
	bool due;          /* longer leases are needed than the log allows */
	uint64_t proposed; /* ms: an entry under way allows leases as long as this; 0 if none is */
	bool settling;     /* after an entry under way none is longer than the setting */
	mono_t until;      /* the last promise longer than the setting ends then */
};

/* An epoch begins: leases are as long as they are set. */
void m_lengthened_begin(struct master *m);
/* Proposes to allow longer leases, which are due. */
void m_lengthened_propose(struct master *m);
/* The command to allow them was applied. */
void m_lengthened_applied(struct master *m);
/* The command that ends the longer leases was applied. */
void m_lengthened_settled(struct master *m);

/* ---- session_lease.c: lowered leases ----
 *
 * Settings that are promises and were lowered: their earlier length counts until all that was
 * promised has ended. */

struct lowered_leases {
	struct timer timers[SETTING_CODES]; /* each expires when what was promised has ended */
	uint64_t since[SETTING_CODES];      /* log index of the lowering */
};

/* Initializes the timers of a new master. */
void m_lowered_init(struct master *m);
/* An epoch begins: each term that began under an earlier master runs from its start. */
void m_lowered_begin(struct master *m);
/* Stops all timers: the mastership is lost. */
void m_lowered_end(struct master *m);
/* The setting was lowered, or is not any more: its index in the note is 0. */
void m_lowered_note(struct master *m, const struct tree_note *note);
/* The timer of the setting has expired. */
void m_lowered_timeout(struct master *m, uint8_t code);

/* ---- session_lease.c ----
 *
 * Leases of sessions (Chubby, section 2.8): a session lives until nothing was received from it for
 * its whole lease. */

struct session_lease {
	mono_t promised; /* the end of the lease as the client was told */
	mono_t expiry;   /* the session is ended then, unless something is received from it; of a
	                  * lasting session: never */
	mono_t counted;  /* the load last had an answer to this session added */
	struct timer timer;
};

/* The time by which clocks of client and master may differ in a lease of this length. */
span_t m_lease_margin(const struct master *m, span_t lease);
/* The length of each session lease that is promised now. */
span_t m_lease(const struct master *m);
/* The longest value of the setting that an earlier master may have promised. */
span_t m_lease_longest(const struct master *m, enum setting which);
/* Begins the lease of a session that is recorded now. */
void m_lease_begin(struct master *m, struct m_session *s, bool lasting);
/* True if the session never expires. */
bool m_lease_lasts(const struct m_session *s);
/* The session lives at least a lease from now: something was received from it. */
void m_lease_extend(struct master *m, struct m_session *s);
/* The session may count on the promise of an earlier master, whatever its length. */
void m_lease_inherited(struct master *m, struct m_session *s);
/* The client is told that the session has its lease until a lease from now. */
void m_lease_promise(struct master *m, struct m_session *s);
/* Sets the session's timer to the earliest of its instants. */
void m_lease_arm(struct master *m, struct m_session *s);
/* The session's timer has expired. */
void m_lease_timeout(struct master *m, struct m_session *s);
/* Adds the time in which the master did not run to every session's lease. `last`: the time of the
 * step before this one. */
void m_lease_account_pause(struct master *m, mono_t last);
/* The session's record goes. */
void m_lease_forget(struct master *m, struct m_session *s);

#endif
