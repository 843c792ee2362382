/* Who may join and leave, and what a master does about full disks: decisions, without a cell. */
#include <stdio.h>
#include <string.h>
#include "cell/replica/member_rules.h"
#include "cell/wire/codec.h"
#include "tests/unit/unit.h"

enum { LEASE_MS = 500, ASKED_MS = 500 };

static const mono_t now = {1000000000000};
static uint8_t keys[LIMIT_MEMBERS + 8][32];
static char addresses[LIMIT_MEMBERS + 8][16];

static struct member
member(uint8_t id, enum member_role role)
{
	snprintf(addresses[id], sizeof addresses[id], "host%u:1", id);
	memset(keys[id], id, sizeof keys[id]);
	return (struct member){.id = id,
	                       .role = (uint8_t)role,
	                       .address = bytes_of(addresses[id]),
	                       .key = {keys[id], sizeof keys[id]}};
}

/* A letter per member from id 1 on: v, l or x (removed); the master is `self`; all were heard just
 * now and have everything. */
static struct member_view
cell(const char *roles, uint8_t self)
{
	struct member_view m = {.version = 7,
	                        .self = self,
	                        .chosen = 10000,
	                        .now = now,
	                        .began = mono_add(now, span_ms(-60000)),
	                        .asked = mono_add(now, span_ms(-ASKED_MS)),
	                        .lease = span_ms(LEASE_MS)};

	for (; *roles != '\0'; roles++) {
		struct member_view_item *of = &m.list[m.n++];

		of->member = member((uint8_t)m.n, *roles == 'v'   ? MEMBER_VOTER
		                                  : *roles == 'l' ? MEMBER_LEARNER
		                                                  : MEMBER_REMOVED);
		of->progress = (struct px_progress){.match = 10000,
		                                    .applied = 10000,
		                                    .answered_at = now,
		                                    .keys = 1};
	}
	return m;
}

static void
silent_ms(struct member_view *m, uint8_t id, int64_t ms)
{
	m->list[id - 1].progress.answered_at = mono_add(now, span_ms(-ms));
}

static enum member_role
role(const struct member_view *m, uint8_t id)
{
	for (int i = 0; i < m->n; i++)
		if (m->list[i].member.id == id)
			return m->list[i].member.role;
	return 0;
}

static struct member_verdict
add(struct member_view *m, uint8_t like)
{
	struct member new = member(like, MEMBER_LEARNER);

	return member_rules_add(m, new.address, new.key);
}

static void
expect(struct member_verdict v, enum rc rc, const char *why)
{
	assert_int_equal(v.rc, rc);
	assert_string_equal(v.why, why);
	assert_true(!v.changed || rc == RC_OK);
}

/* ---- adding ---- */

TEST(test_add)
{
	struct member_view m = cell("vvx", 1);
	struct member_verdict v = add(&m, 9);

	expect(v, RC_OK, "");
	assert_true(v.changed);
	assert_int_equal(v.id, 4); /* 3 is never used again */
	assert_int_equal(role(&m, 4), MEMBER_LEARNER);
	assert_int_equal(m.n, 4);
	/* Once more, after an answer that got lost. */
	v = add(&m, 9);
	expect(v, RC_OK, "");
	assert_false(v.changed);
	assert_int_equal(v.id, 4);
	assert_int_equal(m.n, 4);
}

TEST(test_add_taken)
{
	struct member_view m = cell("vvx", 1);
	struct member a = member(2, MEMBER_VOTER), b = member(9, MEMBER_VOTER);
	struct member gone = member(3, MEMBER_REMOVED);

	expect(member_rules_add(&m, a.address, b.key), RC_EXIST, "replica 2 has this address");
	expect(member_rules_add(&m, b.address, a.key), RC_EXIST,
	       "replica 2 has this key at another address");
	expect(member_rules_add(&m, gone.address, gone.key), RC_EXIST,
	       "this key was that of replica 3, which was removed");
	/* In the place of one that was removed. */
	assert_true(member_rules_add(&m, gone.address, b.key).changed);
}

TEST(test_add_limits)
{
	struct member_view m = cell("vvvvxvl", 1), last = cell("v", 1), alone = cell("v", 1);
	struct member b = member(9, MEMBER_VOTER);

	assert_true(add(&m, 20).changed);
	expect(add(&m, 21), RC_FULL, "a cell has at most 7 replicas");
	last.list[0].member.id = last.self = LIMIT_REPLICA_ID;
	expect(add(&last, 9), RC_FULL, "all 255 ids of replicas were used");
	alone.list[0].member.address = alone.list[0].member.key = (struct bytes){NULL, 0};
	expect(add(&alone, 9), RC_NOTSUP, "a cell in one process has one replica");
	expect(member_rules_add(&m, b.address, bytes_of("short")), RC_INVAL,
	       "a replica needs an address and a key of 32 bytes");
	expect(member_rules_add(&m, bytes_of(""), b.key), RC_INVAL,
	       "a replica needs an address and a key of 32 bytes");
}

/* The list is bounded: of those removed the first ones are forgotten. */
TEST(test_add_to_a_full_list)
{
	char roles[LIMIT_MEMBERS + 1] = "v";
	struct member_view m;
	struct member_verdict v;

	memset(roles + 1, 'x', LIMIT_MEMBERS - 1);
	m = cell(roles, 1);
	v = add(&m, LIMIT_MEMBERS + 1);
	assert_int_equal(v.id, LIMIT_MEMBERS + 1);
	assert_int_equal(m.n, LIMIT_MEMBERS);
	assert_int_equal(role(&m, 1), MEMBER_VOTER);
	assert_int_equal(role(&m, 2), 0);
	assert_int_equal(role(&m, 3), MEMBER_REMOVED);
	assert_int_equal(role(&m, LIMIT_MEMBERS + 1), MEMBER_LEARNER);
}

/* ---- removing ---- */

TEST(test_remove)
{
	struct member_view m = cell("vvvl", 1);
	struct member_verdict v = member_rules_remove(&m, 3);

	expect(v, RC_OK, "");
	assert_true(v.changed);
	assert_int_equal(role(&m, 3), MEMBER_REMOVED);
	v = member_rules_remove(&m, 3);
	expect(v, RC_OK, "");
	assert_false(v.changed);
	expect(member_rules_remove(&m, 9), RC_NOENT, "there is no replica 9");
	expect(member_rules_remove(&m, 256 + 2), RC_NOENT, "there is no replica 258");
	assert_true(member_rules_remove(&m, 1).changed); /* the master itself */
	expect(member_rules_remove(&m, 2), RC_INVAL, "replica 2 is the last one with a vote");
	assert_true(member_rules_remove(&m, 4).changed);
}

/* A dead one may go as long as the others are there. */
TEST(test_remove_the_dead)
{
	struct member_view m = cell("vvv", 1);

	silent_ms(&m, 3, 3600 * 1000);
	assert_true(member_rules_remove(&m, 3).changed);
}

/* One that answers, and takes nothing, would stop the cell with the change. */
TEST(test_remove_would_leave_a_stuck_disk)
{
	struct member_view m = cell("vvv", 1);

	m.list[1].progress.match = m.chosen - 65;
	expect(member_rules_remove(&m, 3), RC_BUSY, "");
	assert_int_equal(role(&m, 3), MEMBER_VOTER);
	m.asked = mono_add(now, span_ms(-4 * LEASE_MS));
	expect(member_rules_remove(&m, 3), RC_INVAL,
	       "1 of 2 voters would remain that accept new entries in time");
	assert_int_equal(role(&m, 3), MEMBER_VOTER);
	m.list[1].progress.match = m.chosen - 64;
	m.trial = m.chosen - 63; /* in a cell without load nothing else shows it */
	assert_int_equal(member_rules_remove(&m, 3).rc, RC_INVAL);
	m.trial = m.chosen - 64;
	m.list[1].progress.full = true;
	expect(member_rules_remove(&m, 3), RC_INVAL,
	       "1 of 2 voters would remain whose disks are not full");
	m.list[1].progress.full = false;
	assert_true(member_rules_remove(&m, 3).changed);
}

TEST(test_remove_would_lose_the_majority)
{
	struct member_view m = cell("vvv", 1), five = cell("vvvvv", 2);

	silent_ms(&m, 3, 12000);
	expect(member_rules_remove(&m, 2), RC_INVAL,
	       "replica 3 has not answered for 12 s: 1 of 2 voters would remain");
	assert_int_equal(role(&m, 2), MEMBER_VOTER);
	expect(member_rules_remove(&m, 1), RC_INVAL,
	       "replica 3 has not answered for 12 s: 1 of 2 voters would remain");
	silent_ms(&m, 3, 4 * LEASE_MS);
	assert_int_equal(member_rules_remove(&m, 2).rc, RC_INVAL);
	silent_ms(&five, 4, 2400);
	five.list[4].progress.answered_at = (mono_t){INT64_MIN};
	expect(member_rules_remove(&five, 1), RC_INVAL,
	       "replica 4 has not answered for 2 s, replica 5 has not answered yet: "
	       "2 of 4 voters would remain");
	assert_true(member_rules_remove(&five, 5).changed);
}

/* Who was heard lately may have died since: it has to be heard once more. */
TEST(test_remove_when_it_is_certain)
{
	struct member_view m = cell("vvv", 1);

	silent_ms(&m, 3, 4 * LEASE_MS - 1);
	expect(member_rules_remove(&m, 2), RC_BUSY, "");
	silent_ms(&m, 3, ASKED_MS + 1);
	expect(member_rules_remove(&m, 2), RC_BUSY, "");
	assert_int_equal(role(&m, 2), MEMBER_VOTER);
	silent_ms(&m, 3, ASKED_MS);
	assert_true(member_rules_remove(&m, 2).changed);
}

/* A master that has begun a moment ago waits for a first word. */
TEST(test_remove_under_a_new_master)
{
	struct member_view m = cell("vvv", 1);

	m.list[2].progress.answered_at = (mono_t){INT64_MIN};
	m.began = mono_add(now, span_ms(-4 * LEASE_MS + 1));
	expect(member_rules_remove(&m, 2), RC_BUSY, "");
	m.began = mono_add(now, span_ms(-4 * LEASE_MS));
	expect(member_rules_remove(&m, 2), RC_INVAL,
	       "replica 3 has not answered yet: 1 of 2 voters would remain");
}

/* The remaining majority has the signing keys in force, or is given time to get them. */
TEST(test_remove_keeps_the_keys)
{
	struct member_view m = cell("vvv", 1);

	m.keys = 70;
	m.list[0].progress.keys = m.list[1].progress.keys = 71;
	expect(member_rules_remove(&m, 2), RC_BUSY, "");
	m.asked = mono_add(now, span_ms(-4 * LEASE_MS));
	expect(member_rules_remove(&m, 2), RC_INVAL,
	       "1 of 2 voters would have the signing keys in force");
	assert_int_equal(role(&m, 2), MEMBER_VOTER);
	m.list[2].progress.keys = 76;
	assert_true(member_rules_remove(&m, 2).changed);
}

/* ---- promoting ---- */

TEST(test_promote)
{
	struct member_view m = cell("vvvll", 1);
	struct member_verdict v;

	m.list[3].progress.match = 10000 - 65;
	m.list[4].progress.match = 10000 - 64;
	v = member_rules_promote(&m);
	assert_true(v.changed);
	assert_int_equal(v.id, 5);
	assert_int_equal(role(&m, 5), MEMBER_VOTER);
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT);
	m.list[3].progress.match = 10000;
	silent_ms(&m, 4, LEASE_MS);
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT);
	silent_ms(&m, 4, LEASE_MS - 1);
	m.list[3].progress.full = true;
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT);
	m.list[3].progress.full = false;
	m.list[3].progress.applied = 10000 - 4097;
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT);
	m.chosen = 100;
	m.list[3].progress.applied = 0; /* it waits for a copy of the state */
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT);
	m.chosen = 10000;
	m.list[3].progress.applied = 10000 - 4096; /* what is durable there is told late */
	assert_int_equal(member_rules_promote(&m).id, 4);
}

/* The signing keys in force are on disks only: those with a vote have them. */
TEST(test_promote_with_the_keys)
{
	struct member_view m = cell("vvvl", 1);

	m.list[3].progress.keys = 0;
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT);
	m.keys = 70;
	m.list[3].progress.keys = 70;
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT);
	m.list[3].progress.keys = 71;
	assert_int_equal(member_rules_promote(&m).id, 4);
}

/* Not while a voter more would mean no majority. */
TEST(test_promote_keeps_the_majority)
{
	struct member_view m = cell("vvvvvl", 1);

	silent_ms(&m, 2, 60000);
	silent_ms(&m, 3, 60000);
	assert_int_equal(member_rules_promote(&m).id, 6); /* 4 of 6 */
	m = cell("vvvl", 1);
	silent_ms(&m, 2, 60000);
	silent_ms(&m, 3, 60000);
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT); /* 2 of 4 */
	silent_ms(&m, 2, ASKED_MS + 1);
	assert_int_equal(member_rules_promote(&m).rc, RC_NOENT); /* 2 may be dead, too */
	assert_int_equal(role(&m, 4), MEMBER_LEARNER);
}

/* ---- handing over ---- */

TEST(test_transfer)
{
	struct member_view m = cell("vvvlx", 1);

	assert_int_equal(member_rules_transfer(&m, 2).rc, RC_OK);
	assert_int_equal(member_rules_transfer(&m, 1).id, 1);
	assert_int_equal(member_rules_transfer(&m, 1).rc, RC_OK);
	expect(member_rules_transfer(&m, 4), RC_INVAL, "replica 4 has no vote yet");
	expect(member_rules_transfer(&m, 5), RC_NOENT, "there is no replica 5");
	expect(member_rules_transfer(&m, 6), RC_NOENT, "there is no replica 6");
	silent_ms(&m, 2, 7000);
	expect(member_rules_transfer(&m, 2), RC_INVAL, "replica 2 has not answered for 7 s");
	assert_int_equal(member_rules_transfer(&m, 0).id, 3);
	m.list[2].progress.full = true;
	expect(member_rules_transfer(&m, 3), RC_INVAL, "the disk of replica 3 is full");
	silent_ms(&m, 3, 7000);
	expect(member_rules_transfer(&m, 0), RC_INVAL,
	       "no other replica with a vote has answered lately");
}

TEST(test_transfer_to_the_furthest)
{
	struct member_view m = cell("vvvl", 3);

	m.list[0].progress.match = 990;
	m.list[1].progress.match = 991;
	assert_int_equal(member_rules_transfer(&m, 0).id, 2);
	m.list[1].progress.full = true;
	assert_int_equal(member_rules_transfer(&m, 0).id, 1);
}

/* ---- the list as it is sent ---- */

TEST(test_pack)
{
	struct member_view m = cell("vlx", 1);
	struct buffer packed = BUFFER(LIMIT_FRAME);
	struct wire_list list = member_rules_pack(&m, &packed);
	struct cursor from = cursor_of(list.packed);
	struct member got;

	assert_int_equal(list.count, 3);
	for (int i = 0; i < 3; i++) {
		assert_true(wire_next_member(&from, &got));
		assert_int_equal(got.id, i + 1);
		assert_int_equal(got.role, MEMBER_VOTER + i);
		assert_true(bytes_equal(got.key, m.list[i].member.key));
	}
	buffer_free(&packed);
}

/* ---- full disks ---- */

static void
expect_full(const struct member_view *m, bool refuse, uint8_t hand_over)
{
	struct disk_full_verdict f = member_rules_disk_full(m);

	assert_int_equal(f.refuse, refuse);
	assert_int_equal(f.hand_over, hand_over);
}

TEST(test_full_disks)
{
	struct member_view m = cell("vvvl", 1);

	expect_full(&m, false, 0);
	m.list[1].progress.full = true; /* two have room */
	expect_full(&m, false, 0);
	m.list[2].progress.full = true; /* only the master has */
	expect_full(&m, true, 0);
	m.list[1].progress.full = false;
	m.list[0].progress.full = true;
	expect_full(&m, true, 2);
	m.list[2].progress.full = false;
	m.list[1].progress.match = 999;
	expect_full(&m, false, 3);
	m.list[1].progress.full = m.list[2].progress.full = true; /* a learner is no help */
	expect_full(&m, true, 0);
}

/* The one with room lacks what the log does not have any more, or its state. */
TEST(test_full_beside_one_that_lags)
{
	struct member_view m = cell("vvv", 1);

	m.list[0].progress.full = m.list[1].progress.full = true;
	expect_full(&m, true, 3);
	m.list[2].progress.match = 10;
	expect_full(&m, true, 0);
	m.list[2].progress = m.list[1].progress;
	m.list[2].progress.full = false;
	m.list[2].progress.applied = 0;
	expect_full(&m, true, 0);
}

/* Who is silent has no room to offer, but as long as nobody says that his disk is full all is
 * taken: there may be nobody to be heard yet. */
TEST(test_full_and_silent)
{
	struct member_view m = cell("vvv", 1);

	silent_ms(&m, 2, 60000);
	silent_ms(&m, 3, 60000);
	expect_full(&m, false, 0);
	silent_ms(&m, 3, 0);
	m.list[2].progress.full = true;
	expect_full(&m, true, 0);
	m.list[2].progress.full = false;
	m.list[0].progress.full = true;
	silent_ms(&m, 3, 60000);
	expect_full(&m, true, 0);
}

/* A new master has not heard yet who has room. */
TEST(test_full_under_a_new_master)
{
	struct member_view m = cell("vvv", 1);

	m.list[1].progress.full = true;
	m.list[2].progress.answered_at = (mono_t){INT64_MIN};
	expect_full(&m, true, 0);
	m.began = now;
	expect_full(&m, false, 0);
	m.list[2].progress.full = true;
	m.list[2].progress.answered_at = now;
	expect_full(&m, true, 0);
}

TEST(test_full_alone)
{
	struct member_view m = cell("v", 1);

	expect_full(&m, false, 0);
	m.list[0].progress.full = true;
	expect_full(&m, true, 0);
}

/* ---- versions ---- */

/* A member that is down holds the version up: it may come back with an older program. */
TEST(test_minor)
{
	struct member_view m = cell("vvlx", 1);

	for (int i = 0; i < 3; i++)
		m.list[i].progress.minor = 2;
	silent_ms(&m, 1, 60000); /* the master itself */
	assert_int_equal(member_rules_minor(&m), 2);
	m.list[2].progress.minor = 1;
	assert_int_equal(member_rules_minor(&m), 1);
	m.list[2].progress.minor = 2;
	silent_ms(&m, 2, 60000);
	assert_int_equal(member_rules_minor(&m), 0);
	silent_ms(&m, 2, 0);
	m.list[2].progress.answered_at = (mono_t){INT64_MIN};
	assert_int_equal(member_rules_minor(&m), 0);
}
