/* The end of a session. Every handle and every lock belongs to one session and ends with it; no
 * handle ever moves to a new session (Chubby, section 2.8). */
#include "fs/mount/internal.h"

const char *
mount_session_state(enum client_state state)
{
	switch (state) {
	case CLIENT_NEW:
		return "connecting";
	case CLIENT_SAFE:
		return "safe";
	case CLIENT_JEOPARDY:
		return "jeopardy";
	case CLIENT_EXPIRED:
		return "expired";
	case CLIENT_CLOSED:
		return "closed";
	}
	return "unknown";
}

bool
mount_session_lost(const struct mount *m, uint64_t session)
{
	return m->session.over || (session != 0 && session != m->session.id);
}

static void
session_died(struct mount *m)
{
	struct handle *h;
	struct inode *i, *more_i;
	struct mount_lock *l, *more_l;

	MOUNT_TRACE(m, "session %llu is over: its handles and locks are void",
	            (unsigned long long)m->session.id);
	m->session.over = true;
	RB_FOREACH(h, handle_numbers, &m->handles.by_number)
		if (h->kind != HANDLE_VIRTUAL)
			handle_die(m, h);
	RB_FOREACH_SAFE(i, inode_numbers, &m->inodes, more_i) {
		i->opened = 0;
		i->newest = NULL; /* the next session may be with a cell restored from a backup */
		mount_stale_inode(m, i->ino);
		i->refs++;
		TAILQ_FOREACH_SAFE(l, &i->locks, of_inode, more_l)
			lock_die(m, l);
		inode_put(m, i);
	}
	event_watch_forget_all(m);
}

/* Requests that were made while there was no session belong to this one. */
static void
session_began(struct mount *m, uint64_t session)
{
	struct call *c;

	MOUNT_TRACE(m, "session %llu begins", (unsigned long long)session);
	m->session.id = session;
	m->session.over = false;
	RB_FOREACH(c, call_tokens, &m->calls.asked)
		if (c->session == 0)
			c->session = session;
}

void
mount_session_follow(struct mount *m)
{
	struct client_status s = client_status(m->client);
	bool alive = s.session && (s.state == CLIENT_SAFE || s.state == CLIENT_JEOPARDY);

	if (m->session.id && !m->session.over && (!alive || s.session != m->session.id))
		session_died(m);
	if (alive && (m->session.id == 0 || s.session != m->session.id))
		session_began(m, s.session);
}
