/* The nodes of whose changes the caller wants to know, and the events of them. The master forgets
 * its part when it fails; so all watches are shown again to each connection, with the number of the
 * last event that was received, and the index of the log up to which all were: that is of use to
 * another master. Then either nothing is missing, or a gap says that something may be. */
#include <stdlib.h>
#include "cell/base/keyed.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/client/internal.h"

enum { ACKNOWLEDGE_AT = LIMIT_EVENTS / 4 }; /* before the next KeepAlive does */
#define NOT_TAKEN UINT64_MAX

struct client_watch {
	RB_ENTRY(client_watch) link;
	uint64_t node;
	uint32_t mask;
	uint64_t generation; /* of the contents, as the caller knows it; 0: it does not */
	uint64_t asked;      /* the number of its last beginning on this connection */
	uint64_t after;      /* its events have greater numbers; NOT_TAKEN: it has none yet */
	uint64_t since;      /* index of the log at which it began; 0: no master has taken it */
	bool stands;         /* a master has taken it, and nothing was lost since */
	bool fallen;         /* it stood or was to stand, and is to stand again */
	struct bytes user;   /* for which it began last; owned */
	struct bytes path;   /* owned; empty: not yet known */
};

KEYED_TREE(watch_tree, client_watch, link, node)

static struct client_watch *
watch_find(struct client *c, uint64_t node)
{
	return watch_tree_find(&c->watches.by_node, node);
}

static void
watch_free(struct client *c, struct client_watch *w)
{
	RB_REMOVE(watch_tree, &c->watches.by_node, w);
	c->watches.n--;
	free((void *)w->user.data);
	free((void *)w->path.data);
	free(w);
}

/* ---- events for the caller ---- */

/* An event of the whole session has no watch. */
static struct client_watched *
tell(struct client *c, enum watch_event_kind kind, const struct client_watch *w)
{
	struct client_update *u = c->update;
	struct client_watched *e;

	ARRAY_ROOM(u->watched, u->watched_n, u->watched_room);
	e = &u->watched[u->watched_n++];
	*e = (struct client_watched){.kind = kind};
	if (w == NULL)
		return e;
	e->node = w->node;
	e->path = bytes_copy(w->path);
	return e;
}

void
client_watches_update_clear(struct client_update *u)
{
	for (size_t i = 0; i < u->watched_n; i++) {
		free((void *)u->watched[i].path.data);
		free((void *)u->watched[i].name.data);
	}
	u->watched_n = 0;
}

void
client_watches_state(struct client *c, enum client_state to)
{
	struct client_watches *w = &c->watches;

	if (to == CLIENT_JEOPARDY)
		tell(c, EVENT_JEOPARDY, NULL);
	if (to == CLIENT_EXPIRED)
		tell(c, EVENT_EXPIRED, NULL);
	if (to == CLIENT_SAFE && w->disturbed)
		tell(c, EVENT_SAFE, NULL);
	if (to == CLIENT_SAFE || to == CLIENT_JEOPARDY || to == CLIENT_EXPIRED)
		w->disturbed = to != CLIENT_SAFE;
}

/* ---- showing the watches to the master ---- */

static void
send_watches(struct client *c, bool all, struct wire_list list)
{
	const struct message m = {
	    .code = MSG_watch,
	    .watch =
	        {
	            .session = c->session.id,
	            .epoch = c->session.epoch,
	            .all = all,
	            .heard = c->watches.heard,
	            .watches = list,
	        },
	};

	c->watches.acknowledged = c->watches.heard;
	c->watches.shown |= list.count > 0;
	MESSAGE_TRACE(c->config.trace, "sends watch: %s%u nodes, events up to %llu received",
	              all ? "all " : "", list.count, (unsigned long long)c->watches.heard);
	client_send(c, &m);
}

/* The index up to which its events were received; 0: it is to begin. */
static uint64_t
since(const struct client *c, const struct client_watch *w)
{
	return w->since != 0 && w->since < c->watches.upto ? c->watches.upto : w->since;
}

static void
show_all(struct client *c)
{
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct client_watch *w;

	RB_FOREACH(w, watch_tree, &c->watches.by_node) {
		w->asked = ++c->watches.asked;
		wire_put_watch(&packed, &(struct watch){w->node, w->mask, since(c, w), w->user});
	}
	must(!packed.failed);
	send_watches(c, true, (struct wire_list){buffer_view(&packed), (uint32_t)c->watches.n});
	buffer_free(&packed);
}

/* Said when all watches stand again, before the events that the other master has to tell. */
static void
tell_failed_over(struct client *c)
{
	struct client_watch *w;

	if (!c->watches.failed_over)
		return;
	RB_FOREACH(w, watch_tree, &c->watches.by_node)
		if (w->fallen)
			return;
	c->watches.failed_over = false;
	tell(c, EVENT_MASTER_FAILED_OVER, NULL);
}

void
client_watches_opened(struct client *c)
{
	struct client_watches *all = &c->watches;
	struct client_watch *w;

	if (all->epoch != c->session.epoch) {
		all->failed_over |= all->epoch != 0;
		all->heard = all->acknowledged = 0;
		all->shown = false;
		all->epoch = c->session.epoch;
		RB_FOREACH(w, watch_tree, &all->by_node) {
			w->fallen = true;
			w->after = w->since != 0 ? 0 : NOT_TAKEN;
		}
	}
	all->asked = all->answered = 0;
	if (all->n > 0 || all->shown)
		show_all(c);
	tell_failed_over(c);
}

/* ---- the caller ---- */

void
client_watches_submit(struct client *c, const struct watch *watch, uint64_t generation)
{
	struct client_watch *w = watch_find(c, watch->node);
	struct buffer packed = BUFFER(LIMIT_NAME);

	if (w == NULL && watch->mask == 0)
		return;
	if (w == NULL && c->watches.n == LIMIT_WATCHES) {
		tell(c, EVENT_GAP, NULL)->node = watch->node;
		return;
	}
	if (w == NULL) {
		w = memory_zero(1, sizeof *w);
		w->node = watch->node;
		w->generation = generation;
		w->after = NOT_TAKEN;
		RB_INSERT(watch_tree, &c->watches.by_node, w);
		c->watches.n++;
	}
	w->mask = watch->mask;
	bytes_set(&w->user, watch->user);
	if (watch->mask == 0)
		watch_free(c, w);
	if (c->connection.state != CONNECTION_OPEN)
		return;
	if (watch->mask != 0)
		w->asked = ++c->watches.asked;
	wire_put_watch(&packed, watch);
	send_watches(c, false, (struct wire_list){buffer_view(&packed), 1});
	buffer_free(&packed);
}

void
client_watches_forget(struct client *c)
{
	struct client_watch *w;

	while ((w = RB_ROOT(&c->watches.by_node)) != NULL)
		watch_free(c, w);
	c->watches.heard = c->watches.acknowledged = c->watches.epoch = c->watches.upto = 0;
	c->watches.shown = c->watches.failed_over = false;
}

/* ---- the master's answers ---- */

/* True if a watch has begun to stand, or is refused, be it one that stood on an earlier connection.
 * The state of a watch that has ended and begun again meanwhile is not yet its own. */
static bool
take_state(struct client *c, const struct watch_state *s)
{
	struct client_watch *w = watch_find(c, s->node);
	bool told;

	c->watches.answered++;
	if (w == NULL || w->asked != c->watches.answered)
		return false;
	w->after = s->after;
	/* An event of this master says that it is stale, if that has taken it. */
	told = w->stands && (s->rc == RC_OK || (s->rc == RC_STALE && !w->fallen));
	w->fallen = false;
	if (told)
		return false;
	w->stands = true;
	w->since = s->since;
	if (w->path.len == 0)
		w->path = bytes_copy(s->path);
	CLIENT_TRACE(c, "node %llu is watched: %s, generation %llu", (unsigned long long)w->node,
	             rc_name(s->rc), (unsigned long long)s->generation);
	return true;
}

/* Tells the changes that were made before the watch stood. */
static void
catch_up(struct client *c, struct client_watch *w, const struct watch_state *s)
{
	const bool changed =
	    w->generation != 0 && s->generation != 0 && w->generation != s->generation;

	if (s->rc != RC_OK) {
		tell(c, s->rc == RC_STALE ? EVENT_HANDLE_INVALID : EVENT_GAP, w);
		watch_free(c, w);
		return;
	}
	if (s->generation != 0)
		w->generation = s->generation;
	if (changed)
		tell(c, EVENT_CONTENTS_MODIFIED, w)->generation = s->generation;
}

/* First all of them stand, then it is said that the master is another one, then what is known of
 * those for which events may be missing. */
void
client_watches_on_watching(struct client *c, const struct msg_watching *m)
{
	struct cursor first = cursor_of(m->states.packed), second = first;
	bool *fresh = memory_zero(m->states.count + 1, sizeof *fresh);
	struct watch_state s;

	for (size_t i = 0; wire_next_watch_state(&first, &s); i++)
		fresh[i] = take_state(c, &s);
	tell_failed_over(c);
	for (size_t i = 0; wire_next_watch_state(&second, &s); i++)
		if (fresh[i])
			catch_up(c, watch_find(c, s.node), &s);
	free(fresh);
}

static void
take_event(struct client *c, uint64_t number, const struct watch_event *e)
{
	struct client_watch *w;
	struct client_watched *told;

	if (e->kind == EVENT_GAP) {
		CLIENT_TRACE(c, "events up to %llu are missing",
		             (unsigned long long)c->watches.heard);
		tell(c, EVENT_GAP, NULL);
		RB_FOREACH(w, watch_tree, &c->watches.by_node) {
			w->stands = false;
			w->fallen = true;
		}
		return;
	}
	w = watch_find(c, e->node);
	if (w == NULL)
		return; /* the watch has ended meanwhile */
	/* Events of a watch that has ended may come when the next one of the same node has begun:
	 * before its state, or after it. They are not its own: one in the middle could be
	 * missing. */
	if (w->after == NOT_TAKEN || number <= w->after)
		return;
	/* The state of a watch tells what was changed before it. An event from before may come
	 * later, when it is sent again after a reconnect. */
	if (e->kind == EVENT_CONTENTS_MODIFIED && (!w->stands || e->generation <= w->generation))
		return;
	told = tell(c, e->kind, w);
	told->generation = e->generation;
	told->time_ns = e->time_ns;
	told->name = bytes_copy(e->name);
	if (e->kind == EVENT_CONTENTS_MODIFIED)
		w->generation = e->generation;
	if (e->kind == EVENT_HANDLE_INVALID)
		watch_free(c, w);
}

bool
client_watches_on_events(struct client *c, const struct msg_events *m)
{
	struct cursor at = cursor_of(m->events.packed), first = at;
	struct watch_event e;
	bool gap = false;

	/* Numbers are left out by a gap only. */
	if (m->first > c->watches.heard + 1 &&
	    !(wire_next_watch_event(&first, &e) && e.kind == EVENT_GAP))
		return false;
	for (uint64_t number = m->first; wire_next_watch_event(&at, &e); number++) {
		if (number <= c->watches.heard)
			continue;
		c->watches.heard = number;
		gap |= e.kind == EVENT_GAP;
		take_event(c, number, &e);
	}
	if (m->upto > c->watches.upto)
		c->watches.upto = m->upto;
	if (gap)
		show_all(c);
	if (c->watches.heard - c->watches.acknowledged >= ACKNOWLEDGE_AT)
		send_watches(c, false, (struct wire_list){0});
	return true;
}

uint64_t
client_watches_acknowledge(struct client *c)
{
	return c->watches.acknowledged = c->watches.heard;
}

/* ---- the image ---- */

static void
watch_image(struct client_watch *w, struct image *i)
{
	IMAGE(i, w->node);
	IMAGE(i, w->mask);
	IMAGE(i, w->generation);
	IMAGE(i, w->after);
	IMAGE(i, w->since);
	IMAGE(i, w->stands);
	IMAGE(i, w->fallen);
	image_bytes(i, &w->user);
	image_bytes(i, &w->path);
}

void
client_watches_image(struct client *c, struct image *i)
{
	struct client_watches *all = &c->watches;
	struct client_watch *w = RB_MIN(watch_tree, &all->by_node);

	IMAGE(i, all->epoch);
	IMAGE(i, all->heard);
	IMAGE(i, all->upto);
	IMAGE(i, all->shown);
	IMAGE(i, all->failed_over);
	for (; !image_reads(i) && image_number(i, w != NULL);
	     w = RB_NEXT(watch_tree, &all->by_node, w))
		watch_image(w, i);
	while (image_reads(i) && image_number(i, 0) != 0) {
		w = memory_zero(1, sizeof *w);
		watch_image(w, i);
		if (watch_find(c, w->node) != NULL || all->n == LIMIT_WATCHES) {
			image_refuse(i);
			w->node = UINT64_MAX - all->n; /* no other has it */
		}
		RB_INSERT(watch_tree, &all->by_node, w);
		all->n++;
	}
}
