/* Parked calls. A call is answered exactly once, and continues when the cell's answer arrives.
 *
 * When a signal interrupts a call that is waiting, the call may be answered EINTR early. Its
 * request to the cell is still under way then, so the call stays alive, already answered, until the
 * answer is received and its effects are undone or recorded. */
#include "cell/base/keyed.h"
#include "fs/mount/internal.h"

enum { PATIENCE_MS = 1000 }; /* with a lock: until the cell has granted or queued the request */

KEYED_GENERATE(call_numbers, call, by_number, event.call)
KEYED_GENERATE(call_tokens, call, by_token, token)

static int
call_patience_order(const struct call *a, const struct call *b)
{
	if (a->patient_until.ns != b->patient_until.ns)
		return a->patient_until.ns < b->patient_until.ns ? -1 : 1;
	return call_numbers_order(a, b);
}

RB_GENERATE(call_patience, call, by_patience, call_patience_order)

struct call *
call_new(struct mount *m, const struct mount_event *event)
{
	struct call *c = memory_zero(1, sizeof *c);

	must(event->call != 0);
	TAILQ_INIT(&c->held);
	TAILQ_INSERT_TAIL(&m->calls.all, c, of_mount);
	c->event = *event;
	c->event.name = bytes_copy(event->name);
	c->event.new_name = bytes_copy(event->new_name);
	c->event.data = bytes_copy(event->data);
	c->event.user = bytes_copy(event->user);
	c->event.answer = NULL;
	c->event.grant = NULL;
	must(RB_INSERT(call_numbers, &m->calls.unanswered, c) == NULL);
	return c;
}

struct call *
call_behind(struct mount *m, struct inode *inode, struct handle *handle)
{
	struct call *c = memory_zero(1, sizeof *c);

	TAILQ_INIT(&c->held);
	TAILQ_INSERT_TAIL(&m->calls.all, c, of_mount);
	c->answered = true;
	c->ordered = true;
	if (inode)
		call_refer(c, inode);
	if (handle)
		handle_refer(c, handle);
	return c;
}

void
call_refer(struct call *c, struct inode *inode)
{
	must(c->inode == NULL);
	c->inode = inode;
	inode->refs++;
}

/* ---- asking ---- */

/* The acquisition without which the cell refuses the request: that of the handle's sequencer. A
 * lock is asked about and given back without it, and a sequencer that takes its place is checked
 * without it. */
static struct guard
guard_of(struct mount *m, const struct call *c)
{
	const struct handle *h = c->handle;

	if (h == NULL && c->event.fh != 0)
		h = handle_find(m, c->event.fh);
	if (h == NULL || h->guard.node == 0 || c->op == OP_check_sequencer ||
	    c->op == OP_get_lock || wire_op(c->op)->slot == SLOT_URGENT)
		return (struct guard){0};
	return h->guard;
}

struct bytes
call_user(const struct call *c)
{
	return c->handle ? c->handle->user : c->event.user;
}

void
call_act_for(struct call *behind, const struct call *c)
{
	behind->event.user = bytes_copy(call_user(c));
}

/* The rights that the call's handle had at its open, on the node that it opened. */
static struct client_rights
opened_of(const struct call *c)
{
	const struct handle *h = c->handle;
	const bool contents =
	    c->op == OP_get_contents || c->op == OP_set_contents || c->op == OP_append;

	if (!contents || h == NULL || h->opened.node != c->node)
		return (struct client_rights){0};
	return h->opened;
}

void
call_ask(struct mount *m, struct call *c, const struct op *op, call_then *then)
{
	struct mount_update *u = m->update;
	struct client_call *r;
	struct bytes *text;

	must(c->token == 0 && c->queue == NULL);
	c->token = ++m->calls.next_token;
	c->op = op->code;
	c->node = wire_op_node(op);
	c->then = then;
	c->session = m->session.over ? 0 : m->session.id;
	c->connections = m->session.connections;
	c->outlasts = !c->answered && c->handle == NULL && c->lock == NULL && c->event.fh == 0;
	ARRAY_ROOM(u->requests, u->requests_n, u->requests_room);
	r = &u->requests[u->requests_n++];
	*r = (struct client_call){
	    .token = c->token,
	    .op = *op,
	    .ordered = c->ordered,
	    .outlasts = c->outlasts,
	    .guard = guard_of(m, c),
	    .opened = opened_of(c),
	    .user = mount_keep(m, call_user(c)),
	};
	/* The views in an update must stay valid until the end of the step, whatever is freed in
	 * it. */
	for (size_t n = 0; (text = wire_op_bytes(&r->op, n)) != NULL; n++)
		*text = mount_keep(m, *text);
	MESSAGE_TRACE(m->config.trace, "call %llu asks%s: %s of node %llu",
	              (unsigned long long)c->event.call, c->ordered ? " in order" : "",
	              wire_op(op->code)->name, (unsigned long long)c->node);
	must(RB_INSERT(call_tokens, &m->calls.asked, c) == NULL);
}

/* The attributes in an answer; NULL if there are none. */
static const struct attr *
attr_of(const struct client_answer *a)
{
	if (a->rc != RC_OK)
		return NULL;
	return a->result.kind == RESULT_listing ? &a->result.listing.attr
	                                        : wire_result_attr(&a->result);
}

/* While nothing is taken away, a handle has the newest check digits: they outlast a rotation of the
 * cell's key. */
static void
renew_digits(struct call *c, const struct client_answer *a)
{
	struct handle *h = c->handle;

	if (h != NULL && h->opened.node != 0 && h->opened.node == a->opens.node &&
	    h->opened.rights == a->opens.rights)
		h->opened = a->opens;
}

struct attr
call_sees(const struct call *c, const struct inode *i)
{
	struct attr attr = i->attr;

	if (c->rights_on == i->ino)
		attr.rights = c->rights;
	return attr;
}

void
call_heard(struct mount *m, const struct client_answer *answer)
{
	struct call *c = call_tokens_find(&m->calls.asked, answer->token);
	struct client_answer a = *answer;
	const struct attr *attr = attr_of(answer);

	if (c == NULL)
		return;
	MESSAGE_TRACE(m->config.trace, "call %llu: %s of node %llu is answered %s",
	              (unsigned long long)c->event.call, wire_op(c->op)->name,
	              (unsigned long long)c->node, rc_name(a.rc));
	RB_REMOVE(call_tokens, &m->calls.asked, c);
	c->token = 0;
	metrics_heard(m, c->op, a.rc);
	if (attr != NULL) {
		c->rights_on = attr->node;
		c->rights = attr->rights;
	}
	renew_digits(c, &a);
	if (a.result.kind != wire_answer_kind(c->op, a.rc))
		a.rc = RC_BAD_MESSAGE;
	if (a.rc == RC_ACCES) {
		refusal_note(c, &a.result.refused);
		/* A refused acquire is told by the call that waits for it. */
		if (c->answered && c->op != OP_acquire)
			refusal_log(m, c, MOUNT_WRITE);
	}
	c->then(m, c, &a);
}

/* ---- replies ---- */

/* The reply, which is to be filled in; NULL if the call was answered before. */
static struct mount_reply *
answer(struct mount *m, struct call *c, enum mount_reply_kind kind, int error)
{
	struct mount_update *u = m->update;
	struct mount_reply *r;

	if (c->answered)
		return NULL;
	c->answered = true;
	must(RB_REMOVE(call_numbers, &m->calls.unanswered, c) == c);
	if (c->interrupted)
		RB_REMOVE(call_patience, &m->calls.interrupted, c);
	c->interrupted = false;
	metrics_replied(m, c->event.kind, error);
	if (error == EACCES)
		refusal_log(m, c, c->event.kind);
	if (c->event.kind != MOUNT_LOOKUP)
		stale_answered(m, c, error);
	ARRAY_ROOM(u->replies, u->replies_n, u->replies_room);
	r = &u->replies[u->replies_n++];
	*r = (struct mount_reply){.call = c->event.call, .kind = kind, .error = error};
	return r;
}

/* ---- signals ---- */

static struct call *
call_find(struct mount *m, uint64_t number)
{
	return call_numbers_find(&m->calls.unanswered, number);
}

bool
call_cell_answers(const struct mount *m)
{
	return client_status(m->client).state == CLIENT_SAFE;
}

static bool
waits_for_lock(const struct call *c)
{
	return (c->event.kind == MOUNT_FLOCK || c->event.kind == MOUNT_SETLK) && c->event.wait &&
	       c->event.lock_mode != LOCK_NONE && c->lock && c->lock->ask == ASK_QUEUED;
}

/* True if the call waits for an event or a change, which may never come. */
static bool
waits_for_event(const struct mount *m, const struct call *c)
{
	return c->queue == &m->changes.readers ||
	       (c->handle && c->handle->stream && c->queue == &c->handle->stream->readers);
}

bool
call_wants_fate(struct mount *m, uint64_t number)
{
	const struct call *c = call_find(m, number);

	return c && (c->event.for_page || c->spared || !call_cell_answers(m) || !waits_for_lock(c));
}

void
call_be_patient(struct mount *m, struct call *c)
{
	c->interrupted = true;
	c->patient_until = mono_add(m->now, span_ms(PATIENCE_MS));
	RB_INSERT(call_patience, &m->calls.interrupted, c);
}

/* True if the call goes on because no signal has come to its caller. A jeopardy in which a caller
 * is frozen is longer than the moment until it is thawed, so its wait for a lock goes on
 * afterwards, too. */
static bool
spares(struct mount *m, struct call *c, enum mount_fate fate)
{
	if (fate == FATE_KILLED)
		return false;
	if (c->event.for_page) /* an access to a mapping gets no errno: a failure is a SIGBUS */
		return true;
	if (fate != FATE_UNDISTURBED)
		return false;
	c->spared |= !call_cell_answers(m);
	if (!c->spared && waits_for_lock(c))
		return false;
	MOUNT_TRACE(m, "call %llu goes on: no signal has come to its caller",
	            (unsigned long long)c->event.call);
	return true;
}

/* A call that takes effect must not be answered with a failure: programs do not repeat an open or a
 * rename, and when they do they take their own new lock file for that of another process. So an
 * interrupted call is given some time for its real answer first. */
void
call_interrupt(struct mount *m, uint64_t number, enum mount_fate fate)
{
	struct call *c = call_find(m, number);

	if (c == NULL || spares(m, c, fate))
		return;
	if (fate == FATE_KILLED)
		MOUNT_TRACE(m, "call %llu: its process was killed", (unsigned long long)number);
	if (fate == FATE_KILLED || !call_cell_answers(m) || waits_for_lock(c) ||
	    waits_for_event(m, c))
		call_give_up(m, c);
	else if (!c->interrupted) {
		call_be_patient(m, c);
		MOUNT_TRACE(m, "call %llu is interrupted: its answer is awaited for %d ms",
		            (unsigned long long)number, PATIENCE_MS);
	}
}

void
call_timeout(struct mount *m)
{
	struct call *c;

	while ((c = RB_MIN(call_patience, &m->calls.interrupted)) &&
	       (!call_cell_answers(m) || mono_reached(m->now, c->patient_until)))
		if (!summary_answer(m, c))
			call_give_up(m, c);
}

/* The close of a descriptor has an effect even if it is interrupted, when it has its handle. Before
 * it has released its lock its owner, whose number may be used again, gets no other one: requests
 * for a lock wait behind each other. */
static bool
closes_later(const struct call *c)
{
	return c->event.kind == MOUNT_FLUSH && c->handle &&
	       (c->queue == &c->handle->queue || (c->lock && c->queue == &c->lock->queue));
}

void
call_give_up(struct mount *m, struct call *c)
{
	struct mount_update *u = m->update;
	int error = EINTR;

	if (c->queue == NULL && c->lock && c->lock->caller == c)
		error = lock_interrupted(m, c->lock);
	else if (c->token || c->waits || closes_later(c)) {
		MOUNT_TRACE(m, "call %llu is given up: its request goes on in the background",
		            (unsigned long long)c->event.call);
		answer(m, c, MOUNT_STATUS, EINTR);
		c->ordered = true;
		if (c->token != 0 && wire_op(c->op)->slot == SLOT_COMMAND) {
			ARRAY_ROOM(u->requests, u->requests_n, u->requests_room);
			u->requests[u->requests_n++] =
			    (struct client_call){.token = c->token, .given_up = true};
		}
		return;
	}
	call_status(m, c, error);
}

int
call_plain_errno(enum rc rc)
{
	switch (rc) {
	case RC_NOT_MASTER:
	case RC_OLD_EPOCH:
	case RC_BAD_MESSAGE:
	case RC_QUEUED:
	case RC_INTR:
		return EIO;
	default:
		return rc_errno(rc);
	}
}

int
call_errno(struct mount *m, struct call *c, const struct client_answer *a)
{
	struct inode *i;

	if (a->rc == RC_OK)
		return 0;
	if (a->rc == RC_NO_SESSION || (a->rc == RC_STALE && mount_session_lost(m, c->session)))
		return c->handle ? ESTALE : EIO;
	/* RC_STALE says that the node of the request is gone; of a rename, one of two. */
	if (a->rc != RC_STALE || c->op == OP_rename)
		return call_plain_errno(a->rc);
	i = inode_find(m, c->node);
	if (i && !i->dead)
		inode_die(m, i, false);
	return ESTALE;
}

bool
call_was_repeated(const struct mount *m, const struct call *c)
{
	return c->connections != m->session.connections;
}

bool
call_handle_moved(const struct call *c)
{
	const struct inode *i = c->handle->inode;

	return c->error == ESTALE && !c->handle->dead && (i->ino != c->node || inode_lives_on(i));
}

int
call_path_errno(struct mount *m, struct call *c, const struct client_answer *a)
{
	int error = call_errno(m, c, a);

	return error == ESTALE ? stale_path(m, c) : error;
}

int
call_learn(struct mount *m, struct call *c, const struct client_answer *a, int error)
{
	const struct attr *attr = wire_result_attr(&a->result);

	if (error != 0)
		return error;
	return attr->node == c->node && inode_learn(m, attr, a->index) ? 0 : EIO;
}

/* ---- answering ---- */

struct mount_reply *
call_reply(struct mount *m, struct call *c, enum mount_reply_kind kind)
{
	return answer(m, c, kind, 0);
}

void
call_end(struct mount *m, struct call *c)
{
	must(c->answered && c->token == 0 && TAILQ_EMPTY(&c->held));
	if (c->queue) {
		TAILQ_REMOVE(c->queue, c, waiting);
		c->queue = NULL;
	}
	if (c->handle) {
		handle_leave(m, c);
		handle_put(m, c->handle);
	}
	if (c->lock)
		lock_put(m, c->lock);
	if (c->inode)
		inode_put(m, c->inode);
	call_free(m, c);
}

void
call_free(struct mount *m, struct call *c)
{
	TAILQ_REMOVE(&m->calls.all, c, of_mount);
	free((void *)c->event.name.data);
	free((void *)c->event.new_name.data);
	free((void *)c->event.data.data);
	free((void *)c->event.user.data);
	free((void *)c->text.data);
	free((void *)c->missing.acl.data);
	if (c->version)
		version_put(m, c->version);
	free(c);
}

void
call_status(struct mount *m, struct call *c, int error)
{
	answer(m, c, MOUNT_STATUS, error);
	if (c->event.kind == MOUNT_LOOKUP && error != ESTALE)
		stale_absent(m, c);
	call_end(m, c);
}

/* The reply may be the first that tells the kernel of the inode. An invalidation that crosses it
 * finds no inode yet, so the kernel keeps the name only, and no attributes. */
static void
reply_introduces(struct mount *m, const struct call *c, struct mount_reply *r, struct inode *inode)
{
	inode->nlookup++;
	stale_found(m, c, inode);
	r->stat = inode_stat(m, c, inode);
	r->entry_timeout = kernel_cache_name(m, inode);
}

void
call_entry(struct mount *m, struct call *c, struct inode *inode)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_ENTRY);

	if (r)
		reply_introduces(m, c, r, inode);
	call_end(m, c);
}

void
call_attr(struct mount *m, struct call *c, const struct mount_stat *stat, span_t timeout)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_ATTR);

	if (r) {
		r->stat = *stat;
		r->attr_timeout = timeout;
	}
	call_end(m, c);
}

void
call_opened(struct mount *m, struct call *c, uint64_t fh)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_OPENED);

	must(r);
	r->fh = fh;
	call_end(m, c);
}

void
call_created(struct mount *m, struct call *c, struct inode *inode, uint64_t fh)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_CREATED);

	must(r);
	reply_introduces(m, c, r, inode);
	r->fh = fh;
	call_end(m, c);
}

void
call_data(struct mount *m, struct call *c, struct bytes data)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_DATA);

	if (r)
		r->data = mount_keep(m, data);
	call_end(m, c);
}

void
call_count(struct mount *m, struct call *c, size_t count)
{
	struct mount_reply *r = call_reply(m, c, MOUNT_COUNT);

	if (r)
		r->count = count;
	call_end(m, c);
}
