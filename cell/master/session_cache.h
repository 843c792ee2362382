/* The leave to cache (the cache lease). A session may cache the answers that carry leave for as
 * long as its leave is renewed, by answers to KeepAlives; and it acknowledges that it has dropped
 * what it is told to drop, or its leave ends one cache lease later at the latest. */
#ifndef LSFS_MASTER_SESSION_CACHE_H
#define LSFS_MASTER_SESSION_CACHE_H

#include "cell/master/gate.h"
#include "cell/master/timer.h"
#include "cell/wire/codec.h"

struct m_connection;
struct m_request;
struct m_session;

struct session_cache {
	struct gate_session copies;
	uint64_t generation; /* of the client's cache, the highest that it has shown; 0: none */
	bool wanted;         /* its last KeepAlive asked for leave */
	bool lapsed;         /* the leave of this generation is over, for good */
	mono_t leave_end;    /* by then its leave is over, unless it is renewed; {INT64_MIN}: it had
	                      * none in this generation */
	struct timer timer;  /* expires then, while a notice is not acknowledged */
	span_t penalty;    /* how long its leave was not renewed when it was late last; 0: never */
	mono_t late_at;    /* then */
	mono_t renew_from; /* its leave is not renewed before */
};

/* Initializes the cache of a session that is recorded now: nothing is known of it. */
void m_cache_begin(struct m_session *s);
/* A message of the session carries this generation of the client's cache (0: it has none): all
 * earlier ones are dropped. */
void m_cache_show(struct master *m, struct m_session *s, uint64_t generation);
/* The session's last KeepAlive asked for leave, or did not. */
void m_cache_want(struct m_session *s, bool wanted);
/* A KeepAlive of the session is answered, which was held for so long: the leave that the answer
 * renews, in ms; 0: none. */
uint32_t m_cache_renew(struct master *m, struct m_session *s, span_t held);
/* A KeepAlive of the session is held from now on: when it is to be answered at the latest, for the
 * leave to be renewed before it ends; MONO_NEVER: the session has none. */
mono_t m_cache_renew_at(const struct master *m, const struct m_session *s);
/* The bit of the session is raised: a KeepAlive that is held may bring it leave now. */
void m_cache_awaited(struct master *m, struct m_session *s);
/* The leave for the answer to the request, which depends on these keys: its number; 0: none. */
uint64_t m_cache_leave(struct master *m, struct m_session *s, const struct m_request *r,
                       const uint64_t *keys, size_t n);
/* The client has dropped what it was told to, or gives leave back. */
void m_cache_receive(struct master *m, struct m_connection *c, const struct msg_dropped *msg);
/* Sends the notices that the step has made. */
void m_cache_tell(struct master *m);
/* The session's timer has expired. */
void m_cache_timeout(struct master *m, struct m_session *s);
/* The session's record goes. */
void m_cache_forget(struct master *m, struct m_session *s);

#endif
