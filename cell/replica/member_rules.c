/* The decisions about members. A voter that has not answered for a few leases counts as dead: it
 * may come back, but that is not certain. */
#include "cell/replica/member_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/wire/codec.h"

enum {
	SILENT_LEASES = 4, /* without an answer; then a member counts as dead */
	/* Slots after the last chosen one, with which a learner gets its vote: of its log, which a
	 * vote needs, and of its state.db, which is reported late: a busy cell chooses a thousand
	 * entries meanwhile. */
	CAUGHT_UP_LOG = 64,
	CAUGHT_UP_STATE = 4096,
};

/* ---- the members ---- */

static bool
answered_within(const struct member_view *m, const struct member_view_item *of, span_t span)
{
	if (of->member.id == m->self)
		return true;
	return of->progress.answered_at.ns != INT64_MIN &&
	       mono_before(m->now, mono_add(of->progress.answered_at, span));
}

/* True if the member has answered so lately that it counts as alive. */
static bool
is_alive(const struct member_view *m, const struct member_view_item *of)
{
	return answered_within(m, of, (span_t){SILENT_LEASES * m->lease.ns});
}

/* True also for a member that has not answered yet, while the mastership is young. */
static bool
may_be_alive(const struct member_view *m, const struct member_view_item *of)
{
	const span_t patience = {SILENT_LEASES * m->lease.ns};

	return is_alive(m, of) || (of->progress.answered_at.ns == INT64_MIN &&
	                           mono_before(m->now, mono_add(m->began, patience)));
}

static bool
has_disk_room(const struct member_view *m, const struct member_view_item *of)
{
	(void)m;
	return !of->progress.full;
}

static bool
is_able(const struct member_view *m, const struct member_view_item *of)
{
	return has_disk_room(m, of) && of->progress.match + CAUGHT_UP_LOG >= m->chosen;
}

/* True if the member has answered since the change was requested, and accepted what was proposed
 * since: one whose disk is stuck or full answers heartbeats all the same. */
static bool
is_alive_for_certain(const struct member_view *m, const struct member_view_item *of)
{
	return of->member.id == m->self || (!mono_before(of->progress.answered_at, m->asked) &&
	                                    is_able(m, of) && of->progress.match >= m->trial);
}

static bool
is_active(const struct member_view_item *of)
{
	return of->member.role != MEMBER_REMOVED;
}

static struct member_view_item *
find(const struct member_view *m, uint64_t id)
{
	for (int i = 0; i < m->n; i++)
		if (m->list[i].member.id == id)
			return (struct member_view_item *)&m->list[i];
	return NULL;
}

static int
count(const struct member_view *m, enum member_role role)
{
	int n = 0;

	for (int i = 0; i < m->n; i++)
		n += m->list[i].member.role == role;
	return n;
}

/* ---- reasons ---- */

static void say(char why[LIMIT_WHY + 1], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends text, as far as it fits. */
static void
say(char why[LIMIT_WHY + 1], const char *format, ...)
{
	size_t len = strlen(why);
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(why + len, LIMIT_WHY + 1 - len, format, arguments);
	va_end(arguments);
}

static void
say_silent(const struct member_view *m, const struct member_view_item *of, char why[LIMIT_WHY + 1])
{
	int64_t ms = span_to_ms(mono_since(m->now, of->progress.answered_at));

	if (of->progress.answered_at.ns == INT64_MIN)
		say(why, "replica %u has not answered yet", of->member.id);
	else
		say(why, "replica %u has not answered for %lld s", of->member.id,
		    (long long)(ms + 500) / 1000);
}

static struct member_verdict
unknown(uint64_t id)
{
	struct member_verdict v = {.rc = RC_NOENT};

	say(v.why, "there is no replica %llu", (unsigned long long)id);
	return v;
}

static int
count_voters(const struct member_view *m,
             bool is(const struct member_view *m, const struct member_view_item *of))
{
	int n = 0;

	for (int i = 0; i < m->n; i++)
		n += m->list[i].member.role == MEMBER_VOTER && is(m, &m->list[i]);
	return n;
}

static void
say_all_silent(const struct member_view *m, char why[LIMIT_WHY + 1])
{
	const char *between = "";

	for (int i = 0; i < m->n; i++) {
		if (m->list[i].member.role != MEMBER_VOTER || may_be_alive(m, &m->list[i]))
			continue;
		say(why, "%s", between);
		say_silent(m, &m->list[i], why);
		between = ", ";
	}
}

/* True once the voters had time to show what a change requires of them. */
static bool
had_time(const struct member_view *m)
{
	return mono_reached(m->now, mono_add(m->asked, (span_t){SILENT_LEASES * m->lease.ns}));
}

/* True if a majority of the voters is alive: an operator must not lose the cell by one command.
 * Otherwise the verdict has the reason, or the voters have not had the time to show it. */
static bool
majority_lives(const struct member_view *m, struct member_verdict *v)
{
	int voters = count(m, MEMBER_VOTER), alive = count_voters(m, may_be_alive);
	int certain = count_voters(m, is_alive_for_certain);

	if (certain > voters / 2)
		return true;
	v->rc = RC_BUSY;
	if (count_voters(m, has_disk_room) <= voters / 2) {
		say(v->why, "%d of %d voters would remain whose disks are not full",
		    count_voters(m, has_disk_room), voters);
		v->rc = RC_INVAL;
		return false;
	}
	if (alive > voters / 2 && !had_time(m))
		return false;
	if (alive > voters / 2) {
		say(v->why, "%d of %d voters would remain that accept new entries in time", certain,
		    voters);
		v->rc = RC_INVAL;
		return false;
	}
	say_all_silent(m, v->why);
	say(v->why, ": %d of %d voters would remain", alive, voters);
	v->rc = RC_INVAL;
	return false;
}

static bool
has_keys(const struct member_view *m, const struct member_view_item *of)
{
	return of->progress.keys > m->keys;
}

/* True if a majority of the voters has the signing keys in force, which are nowhere but on their
 * disks. Otherwise the verdict has the reason once the voters had time to get the keys. */
static bool
majority_has_keys(const struct member_view *m, struct member_verdict *v)
{
	const int voters = count(m, MEMBER_VOTER), having = count_voters(m, has_keys);

	if (having > voters / 2)
		return true;
	v->rc = RC_BUSY;
	if (!had_time(m))
		return false;
	say(v->why, "%d of %d voters would have the signing keys in force", having, voters);
	v->rc = RC_INVAL;
	return false;
}

/* ---- adding ---- */

static bool
is_taken(const struct member_view *m, struct bytes address, struct bytes key,
         struct member_verdict *v)
{
	for (int i = 0; i < m->n; i++) {
		const struct member *is = &m->list[i].member;
		bool same_key = bytes_equal(is->key, key);
		bool same_address = bytes_equal(is->address, address) && is_active(&m->list[i]);

		if (!same_key && !same_address)
			continue;
		v->id = is->id;
		if (same_key && same_address)
			return true;
		v->rc = RC_EXIST;
		if (!is_active(&m->list[i]))
			say(v->why, "this key was that of replica %u, which was removed", is->id);
		else
			say(v->why, "replica %u has this %s", is->id,
			    same_key ? "key at another address" : "address");
		return true;
	}
	return false;
}

static void
append(struct member_view *m, struct bytes address, struct bytes key, struct member_verdict *v)
{
	uint8_t highest = m->list[m->n - 1].member.id;
	int i = 0;

	if (highest == LIMIT_REPLICA_ID) {
		v->rc = RC_FULL;
		say(v->why, "all %d ids of replicas were used", LIMIT_REPLICA_ID);
		return;
	}

	/* Drops, when the list is full, the removed member with the lowest id; the highest id of
	 * the list is never dropped. */
	if (m->n >= LIMIT_MEMBERS) {
		while (is_active(&m->list[i]))
			i++;
		must(i < m->n - 1);
		memmove(&m->list[i], &m->list[i + 1], (size_t)(m->n - 1 - i) * sizeof m->list[0]);
		m->n--;
	}

	m->list[m->n++] = (struct member_view_item){
	    .member = {.id = (uint8_t)(highest + 1),
	               .role = MEMBER_LEARNER,
	               .address = address,
	               .key = key},
	    .progress.answered_at = {INT64_MIN},
	};
	v->id = (uint8_t)(highest + 1);
	v->changed = true;
}

struct member_verdict
member_rules_add(struct member_view *m, struct bytes address, struct bytes key)
{
	struct member_verdict v = {.rc = RC_OK};
	const struct member_view_item *self = find(m, m->self);

	if (address.len == 0 || key.len != PUBLIC_KEY_BYTES) {
		v.rc = RC_INVAL;
		say(v.why, "a replica needs an address and a key of %d bytes", PUBLIC_KEY_BYTES);
	} else if (self == NULL || self->member.address.len == 0) {
		v.rc = RC_NOTSUP;
		say(v.why, "a cell in one process has one replica");
	} else if (is_taken(m, address, key, &v)) {
		return v;
	} else if (count(m, MEMBER_VOTER) + count(m, MEMBER_LEARNER) >= LIMIT_REPLICAS) {
		v.rc = RC_FULL;
		say(v.why, "a cell has at most %d replicas", LIMIT_REPLICAS);
	} else {
		append(m, address, key, &v);
	}
	return v;
}

/* ---- removing ---- */

struct member_verdict
member_rules_remove(struct member_view *m, uint64_t id)
{
	struct member_view_item *of = find(m, id);
	struct member_verdict v = {.rc = RC_OK, .id = (uint8_t)id};
	uint8_t role;

	if (of == NULL)
		return unknown(id);
	if (!is_active(of))
		return v;
	role = of->member.role;
	if (role == MEMBER_VOTER && count(m, MEMBER_VOTER) == 1) {
		v.rc = RC_INVAL;
		say(v.why, "replica %u is the last one with a vote", of->member.id);
		return v;
	}
	of->member.role = MEMBER_REMOVED;
	v.changed = role == MEMBER_LEARNER || (majority_lives(m, &v) && majority_has_keys(m, &v));
	if (!v.changed)
		of->member.role = role;
	return v;
}

/* ---- promoting ---- */

static bool
has_caught_up(const struct member_view *m, const struct member_view_item *of)
{
	return answered_within(m, of, m->lease) && is_able(m, of) && has_keys(m, of) &&
	       of->progress.minor >= m->minor && of->progress.applied > 0 &&
	       of->progress.applied + CAUGHT_UP_STATE >= m->chosen;
}

struct member_verdict
member_rules_promote(struct member_view *m)
{
	for (int i = 0; i < m->n; i++) {
		struct member_view_item *of = &m->list[i];
		struct member_verdict v = {.rc = RC_OK, .changed = true, .id = of->member.id};

		if (of->member.role != MEMBER_LEARNER || !has_caught_up(m, of))
			continue;
		of->member.role = MEMBER_VOTER;
		if (majority_lives(m, &v))
			return v;
		of->member.role = MEMBER_LEARNER;
	}
	return (struct member_verdict){.rc = RC_NOENT};
}

/* ---- handing over ---- */

/* A voter with space on its disk is better than one without; then the longer log decides. */
static struct member_verdict
transfer_to_best(const struct member_view *m)
{
	const struct member_view_item *best = NULL;
	struct member_verdict v = {.rc = RC_INVAL};

	for (int i = 0; i < m->n; i++) {
		const struct member_view_item *of = &m->list[i];
		const struct px_progress *p = &of->progress;

		if (of->member.id == m->self || of->member.role != MEMBER_VOTER || !is_alive(m, of))
			continue;
		if (best == NULL ||
		    (p->full != best->progress.full ? !p->full : p->match > best->progress.match))
			best = of;
	}
	if (best == NULL) {
		say(v.why, "no other replica with a vote has answered lately");
		return v;
	}
	return (struct member_verdict){.rc = RC_OK, .id = best->member.id};
}

struct member_verdict
member_rules_transfer(const struct member_view *m, uint64_t id)
{
	const struct member_view_item *of = find(m, id);
	struct member_verdict v = {.rc = RC_INVAL, .id = (uint8_t)id};

	if (id == 0)
		return transfer_to_best(m);
	if (of == NULL || !is_active(of))
		return unknown(id);
	if (of->member.role != MEMBER_VOTER)
		say(v.why, "replica %u has no vote yet", of->member.id);
	else if (!is_alive(m, of))
		say_silent(m, of, v.why);
	else if (of->progress.full && of->member.id != m->self)
		say(v.why, "the disk of replica %u is full", of->member.id);
	else
		v.rc = RC_OK;
	return v;
}

/* ---- full disks ---- */

/* The voter with space on its disk and the longest log; 0 if there is none that has caught up: the
 * mastership would go to a full one instead, which would hand it over in its turn. */
static uint8_t
successor(const struct member_view *m)
{
	const struct member_verdict v = member_rules_transfer(m, 0);

	return v.rc == RC_OK && has_caught_up(m, find(m, v.id)) ? v.id : 0;
}

struct disk_full_verdict
member_rules_disk_full(const struct member_view *m)
{
	struct disk_full_verdict f = {0};
	int voters = 0, with_room = 0, full = 0;

	for (int i = 0; i < m->n; i++) {
		const struct member_view_item *of = &m->list[i];

		if (of->member.role != MEMBER_VOTER)
			continue;
		voters++;
		full += of->progress.full;
		with_room += !of->progress.full && may_be_alive(m, of);
		if (of->member.id == m->self && of->progress.full)
			f.hand_over = successor(m);
	}
	f.refuse = full > 0 && with_room <= voters / 2;
	return f;
}

/* ---- versions ---- */

uint32_t
member_rules_minor(const struct member_view *m)
{
	uint32_t lowest = UINT32_MAX;

	for (int i = 0; i < m->n; i++) {
		const struct member_view_item *of = &m->list[i];
		const uint32_t minor = is_alive(m, of) ? of->progress.minor : 0;

		if (is_active(of) && minor < lowest)
			lowest = minor;
	}
	return lowest;
}

/* ---- the list ---- */

struct wire_list
member_rules_pack(const struct member_view *m, struct buffer *packed)
{
	for (int i = 0; i < m->n; i++)
		wire_put_member(packed, &m->list[i].member);
	return (struct wire_list){buffer_view(packed), (uint32_t)m->n};
}
