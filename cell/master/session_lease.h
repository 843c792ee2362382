/* Leases of sessions (Chubby, section 2.8): a session lives until nothing was received from it for
 * its whole lease. */
#ifndef LSFS_MASTER_SESSION_LEASE_H
#define LSFS_MASTER_SESSION_LEASE_H

#include "cell/base/mono.h"
#include "cell/base/setting.h"
#include "cell/master/timer.h"

struct m_session;

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
