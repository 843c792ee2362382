/* One replica fetches the state of another: parts that are lost, doubled, late and damaged,
 * replicas that fall silent, copies that are dropped. Copies are files of the test's own making. */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/server/state_sender.h"
#include "cell/sys/log.h"
#include "cell/server/state_fetcher.h"
#include "tests/unit/net_fixture.h"

enum { REPLICAS = 2, STATE = LIMIT_PART * 5 + 1234, READER = 9 };

/* A question or an answer on its way. */
struct letter {
	struct letter *next;
	uint8_t replica;
	bool is_part;
	struct msg_snapshot_request request;
	struct msg_copy_part part;
};

struct play {
	uv_loop_t loop;
	uv_timer_t post, make;
	uv_timer_t tick; /* the loop turns at least this often */
	char directory[64], makers[REPLICAS][80];
	struct state_sender *copies[REPLICAS];
	struct state_fetcher *snapshot;
	struct letter *first, **last;
	uint8_t *state;

	/* what goes wrong */
	int lose, twice, damage, forget; /* the part of that number, from 1 */
	int silent;                      /* replica, from its third part on */
	bool no_room, no_state;          /* the copy cannot be made; the whole is refused, once */

	int parts, asked[REPLICAS + 1], made, ready_n, stopped_n;
	bool late;                       /* making takes a moment */
	void (*done)(void *user, enum rc rc, uint64_t applied, const char *why);
	void *done_user;
	const char *made_name;
	int maker;
};

static struct play *play; /* for what stands in for the store */

/* ---- in the place of the store ---- */

static void
put_file(const char *directory, const char *name, const uint8_t *data, size_t n)
{
	char path[128];
	int fd;

	snprintf(path, sizeof path, "%s/%s", directory, name);
	fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
	must(fd >= 0 && write(fd, data, n) == (ssize_t)n);
	close(fd);
}

static void
on_make(uv_timer_t *timer)
{
	struct play *p = timer->data;

	p->made++;
	if (!p->no_room)
		put_file(p->makers[p->maker], p->made_name, p->state, STATE);
	p->done(p->done_user, p->no_room ? RC_NOSPC : RC_OK, 77, "No space left on device");
}

void
store_copy(struct store *s, const char *name,
           void (*done)(void *user, enum rc rc, uint64_t applied, const char *why), void *user)
{
	must(!uv_is_active((uv_handle_t *)&play->make)); /* one at a time */
	play->maker = (uint8_t *)s - (uint8_t *)play;
	play->made_name = name;
	play->done = done;
	play->done_user = user;
	must(uv_timer_start(&play->make, on_make, play->late ? 120 : 0, 0) == 0);
}

bool
store_fetched_ready(const char *directory, const char *cell, char *why, size_t why_size)
{
	char path[128];
	uint8_t *data = malloc(STATE + 1);
	int fd;
	bool good;

	must(strcmp(cell, "dc1") == 0 && strcmp(directory, play->directory) == 0);
	snprintf(path, sizeof path, "%s/" STORE_FETCHED, directory);
	fd = open(path, O_RDONLY);
	good = fd >= 0 && read(fd, data, STATE + 1) == STATE &&
	       memcmp(data, play->state, STATE) == 0 && !play->no_state;
	close(fd);
	free(data);
	unlink(path);
	if (!good)
		snprintf(why, why_size, "not what it was");
	play->no_state = false;
	return good;
}

/* ---- the post ---- */

static void on_post(uv_timer_t *timer);

static struct letter *
post(struct play *p)
{
	struct letter *l = memory_zero(1, sizeof *l);

	*p->last = l;
	p->last = &l->next;
	must(uv_timer_start(&p->post, on_post, 0, 0) == 0);
	return l;
}

static void
on_ask(void *user, uint8_t replica, const struct msg_snapshot_request *request)
{
	struct letter *l = post(user);

	l->replica = replica;
	l->request = *request;
}

static void
post_part(struct play *p, uint8_t replica, const struct msg_copy_part *part)
{
	struct letter *l = post(p);

	l->is_part = true;
	l->replica = replica;
	l->part = *part;
	l->part.data = bytes_copy(part->data);
}

static void
on_answer(void *user, struct state_sender_reader reader, const struct msg_copy_part *part)
{
	struct play *p = play;
	uint8_t replica = (uint8_t)(1 + (struct state_sender **)user - p->copies);
	struct msg_copy_part changed = *part;

	must(reader.peer == READER && reader.conn == 0);
	if (part->rc == RC_OK) {
		p->parts++;
		if (p->parts == p->lose || (replica == p->silent && p->parts >= 3))
			return;
		changed.checksum ^= p->parts == p->damage;
		if (p->parts == p->twice)
			post_part(p, replica, &changed);
	}
	post_part(p, replica, &changed);
}

static void
deliver(struct play *p, struct letter *l)
{
	const struct msg_copy_part *from = &l->part;
	const struct msg_snapshot_part part = {
		.rc = from->rc, .copy = from->copy, .applied = from->applied, .size = from->size,
		.offset = from->offset, .data = from->data, .checksum = from->checksum,
	};
	const struct msg_copy_request request = {l->request.copy, l->request.offset};

	if (l->is_part && p->snapshot != NULL) {
		state_fetcher_part(p->snapshot, l->replica, &part);
	} else if (!l->is_part) {
		p->asked[l->replica]++;
		state_sender_ask(p->copies[l->replica - 1], (struct state_sender_reader){READER, 0},
		                 &request);
	}
}

static void
on_post(uv_timer_t *timer)
{
	struct play *p = timer->data;
	struct letter *l = p->first;

	if (l == NULL)
		return;
	p->first = l->next;
	if (p->first == NULL)
		p->last = &p->first;
	else
		must(uv_timer_start(&p->post, on_post, 0, 0) == 0);
	if (p->forget != 0 && p->parts == p->forget) {
		p->forget = 0;
		state_sender_forget(p->copies[0], (struct state_sender_reader){READER, 0});
	}
	deliver(p, l);
	free((void *)l->part.data.data);
	free(l);
}

/* ---- the play ---- */

static void
on_ready(void *user)
{
	((struct play *)user)->ready_n++;
}

static void
on_stopped(void *user)
{
	((struct play *)user)->stopped_n++;
}

static void
on_tick(uv_timer_t *timer)
{
	(void)timer;
}

static void
start(struct play *p)
{
	memset(p, 0, sizeof *p);
	play = p;
	p->last = &p->first;
	p->state = malloc(STATE);
	random_fill(p->state, STATE);
	strcpy(p->directory, "/tmp/test_state_sender.XXXXXX");
	assert_non_null(mkdtemp(p->directory));
	assert_int_equal(uv_loop_init(&p->loop), 0);
	assert_int_equal(uv_timer_init(&p->loop, &p->post), 0);
	assert_int_equal(uv_timer_init(&p->loop, &p->make), 0);
	assert_int_equal(uv_timer_init(&p->loop, &p->tick), 0);
	must(uv_timer_start(&p->tick, on_tick, 10, 10) == 0);
	p->post.data = p->make.data = p;
	for (int i = 0; i < REPLICAS; i++) {
		snprintf(p->makers[i], sizeof p->makers[i], "%s/%d", p->directory, i);
		assert_int_equal(mkdir(p->makers[i], 0700), 0);
		p->copies[i] = state_sender_new(&(struct state_sender_config){
			.loop = &p->loop, .store = (struct store *)((uint8_t *)p + i),
			.directory = p->makers[i], .answer = on_answer, .user = &p->copies[i],
		});
	}
	p->snapshot = state_fetcher_new(&(struct state_fetcher_config){
		.loop = &p->loop, .directory = p->directory, .cell = "dc1",
		.patience = span_ms(300), .ask = on_ask, .ready = on_ready, .user = p,
	});
}

static void
stop_snapshot(struct play *p)
{
	int before = p->stopped_n;

	state_fetcher_stop(p->snapshot, on_stopped, p);
	p->snapshot = NULL;
	UNTIL(p, p->stopped_n == before + 1);
}

static int
remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
	(void)type;
	(void)at;
	must(S_ISDIR(st->st_mode)); /* no file is left */
	return remove(path);
}

static void
end(struct play *p)
{
	if (p->snapshot != NULL)
		stop_snapshot(p);
	while (p->first != NULL)
		on_post(&p->post);
	for (int i = 0; i < REPLICAS; i++)
		state_sender_stop(p->copies[i], on_stopped, p);
	UNTIL(p, p->stopped_n == 1 + REPLICAS);
	uv_close((uv_handle_t *)&p->post, NULL);
	uv_close((uv_handle_t *)&p->make, NULL);
	uv_close((uv_handle_t *)&p->tick, NULL);
	uv_run(&p->loop, UV_RUN_DEFAULT);
	assert_int_equal(uv_loop_close(&p->loop), 0);
	assert_int_equal(nftw(p->directory, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
	free(p->state);
}

static void
fetch(struct play *p)
{
	UNTIL(p, (state_fetcher_need(p->snapshot, 1), p->ready_n == 1));
}

/* ---- tests ---- */

static void
test_fetched(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.late = true;
	fetch(&p);
	assert_int_equal(p.parts, 6);
	assert_int_equal(p.made, 1);
	assert_true(p.asked[1] > 7); /* it was busy for a moment */
	/* It is enough: whatever is said from here on, nobody is asked. */
	state_fetcher_need(p.snapshot, 2);
	state_fetcher_need(p.snapshot, 0);
	end(&p);
	assert_int_equal(p.asked[2], 0);
}

static void
test_lost_and_doubled(void **unused)
{
	struct play p;

	(void)unused;
	for (int i = 1; i <= 6; i++) {
		start(&p);
		p.lose = i;
		p.twice = i % 6 + 1;
		fetch(&p);
		assert_int_equal(p.made, 1);
		end(&p);
	}
}

static void
test_damaged(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.damage = 4;
	fetch(&p);
	assert_int_equal(p.made, 2); /* all anew */
	end(&p);
}

static void
test_dropped_there(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.forget = 3;
	fetch(&p);
	assert_int_equal(p.made, 2);
	end(&p);
}

/* Whoever answers is stayed with; who falls silent is left for the one that is named by then. */
static void
test_another_replica(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.silent = 1;
	state_fetcher_need(p.snapshot, 1);
	UNTIL(&p, p.parts >= 2);
	UNTIL(&p, (state_fetcher_need(p.snapshot, 2), p.ready_n == 1));
	assert_int_equal(p.made, 2);
	assert_true(p.parts >= 2 + 4 + 6); /* thrice asked again in vain */
	end(&p);
}

static void
test_not_made(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.no_room = true;
	UNTIL(&p, (state_fetcher_need(p.snapshot, 1), p.made == 2));
	p.no_room = false;
	fetch(&p);
	end(&p);
}

static void
test_whole_refused(void **unused)
{
	struct play p;

	(void)unused;
	start(&p);
	p.no_state = true;
	fetch(&p);
	assert_int_equal(p.made, 2);
	end(&p);
}

static void
test_not_needed_any_more(void **unused)
{
	char path[128];
	struct play p;

	(void)unused;
	start(&p);
	snprintf(path, sizeof path, "%s/" STORE_FETCHED, p.directory);
	p.silent = 1; /* else all of it may come in one turn of the loop */
	UNTIL(&p, (state_fetcher_need(p.snapshot, 1), access(path, F_OK) == 0));
	state_fetcher_need(p.snapshot, 0);
	assert_int_not_equal(access(path, F_OK), 0);
	p.silent = 0;
	fetch(&p);
	end(&p);
}

/* Wherever it is stopped, nothing is left. */
static void
test_stopped(void **unused)
{
	struct play p;

	(void)unused;
	for (int i = 0; i <= 6; i++) {
		start(&p);
		state_fetcher_need(p.snapshot, 1);
		UNTIL(&p, p.parts >= i);
		stop_snapshot(&p);
		end(&p);
	}
}

/* ---- copies ---- */

static struct msg_copy_part last_part;
static int answers_n;

static void
on_copy_answer(void *user, struct state_sender_reader reader, const struct msg_copy_part *part)
{
	(void)user;
	(void)reader;
	last_part = *part;
	answers_n++;
}

static void
ask_copy(struct state_sender *c, uint64_t conn, uint64_t copy, uint64_t offset)
{
	const struct msg_copy_request request = {copy, offset};

	state_sender_ask(c, (struct state_sender_reader){.conn = conn}, &request);
}

/* There is room for so many readers; a part is told once for each question, at first. */
static void
test_many_readers(void **unused)
{
	uint64_t ids[STATE_SENDER_MAX];
	struct state_sender *c;
	struct play p;

	(void)unused;
	start(&p);
	c = state_sender_new(&(struct state_sender_config){
		.loop = &p.loop, .store = (struct store *)&p, .directory = p.makers[0],
		.answer = on_copy_answer,
	});
	for (int i = 0; i < STATE_SENDER_MAX; i++) {
		ask_copy(c, (uint64_t)i + 1, 0, 0);
		assert_int_equal(last_part.rc, RC_BUSY);
		ids[i] = last_part.copy;
		assert_int_not_equal(ids[i], 0);
		assert_int_not_equal(ids[i], ids[(i + 1) % STATE_SENDER_MAX]);
	}
	ask_copy(c, 100, 0, 0);
	assert_int_equal(last_part.rc, RC_BUSY);
	assert_int_equal(last_part.copy, 0);
	ask_copy(c, 2, ids[0], 0);
	assert_int_equal(last_part.rc, RC_NOENT); /* somebody else's */
	UNTIL(&p, p.made == STATE_SENDER_MAX);

	answers_n = 0;
	for (int i = 0; i < STATE_SENDER_MAX; i++)
		for (int k = 0; k < 5; k++)
			ask_copy(c, (uint64_t)i + 1, ids[i], LIMIT_PART);
	assert_int_equal(answers_n, 0);
	UNTIL(&p, answers_n == STATE_SENDER_MAX);
	assert_int_equal(last_part.rc, RC_OK);
	assert_int_equal(last_part.offset, LIMIT_PART);
	assert_int_equal(last_part.size, STATE);
	assert_int_equal(last_part.applied, 77);
	ask_copy(c, 1, ids[0], STATE);
	assert_int_equal(last_part.rc, RC_INVAL);

	state_sender_forget(c, (struct state_sender_reader){.conn = 1});
	ask_copy(c, 100, 0, 0);
	assert_int_not_equal(last_part.copy, 0);
	state_sender_forget(c, (struct state_sender_reader){.conn = 100}); /* while it is made */
	UNTIL(&p, p.made == STATE_SENDER_MAX + 1);
	ask_copy(c, 2, 0, 0); /* anew: some of it was read */
	assert_int_equal(last_part.rc, RC_BUSY);
	assert_int_not_equal(last_part.copy, ids[1]);
	UNTIL(&p, p.made == STATE_SENDER_MAX + 2);
	ask_copy(c, 100, 0, 0); /* still being made at the end */
	state_sender_stop(c, on_stopped, &p);
	UNTIL(&p, p.stopped_n == 1);
	assert_int_equal(p.made, STATE_SENDER_MAX + 3);
	p.stopped_n = 0;
	end(&p);
}

static void
begin_asking(struct play *p, struct state_sender **c, int64_t soon_ms)
{
	start(p);
	*c = state_sender_new(&(struct state_sender_config){
		.loop = &p->loop, .store = (struct store *)p, .directory = p->makers[0],
		.answer = on_copy_answer, .soon = span_ms(soon_ms),
	});
	ask_copy(*c, 1, 0, 0);
	UNTIL(p, p->made == 1);
	answers_n = 0;
	ask_copy(*c, 1, last_part.copy, 0);
}

static void
end_asking(struct play *p, struct state_sender *c)
{
	state_sender_stop(c, on_stopped, p);
	UNTIL(p, p->stopped_n == 1);
	p->stopped_n = 0;
	end(p);
}

/* So many answers, and no more of them by themselves. */
static void
assert_answers(struct play *p, int n)
{
	const mono_t enough = mono_add(clock_now(), span_ms(STATE_SENDER_PACE_MS * 5));

	UNTIL(p, answers_n >= n && mono_reached(clock_now(), enough));
	assert_int_equal(answers_n, n);
}

/* Who comes back soon for the next part finds some on their way. */
static void
test_ahead(void **unused)
{
	struct state_sender *c;
	struct play p;

	(void)unused;
	begin_asking(&p, &c, 20000);
	UNTIL(&p, answers_n == 1);
	ask_copy(c, 1, last_part.copy, LIMIT_PART);
	UNTIL(&p, answers_n == 3);
	ask_copy(c, 1, last_part.copy, LIMIT_PART * 2);
	UNTIL(&p, answers_n == 5);
	assert_int_equal(last_part.offset, LIMIT_PART * 4);
	ask_copy(c, 1, last_part.copy, LIMIT_PART * 2); /* what was on its way is lost */
	UNTIL(&p, answers_n == 6);
	assert_int_equal(last_part.offset, LIMIT_PART * 2);
	assert_answers(&p, 6);
	end_asking(&p, c);
}

/* A link that is slow carries one part at a time: other messages wait behind it. */
static void
test_not_ahead(void **unused)
{
	struct state_sender *c;
	struct play p;
	mono_t late;

	(void)unused;
	begin_asking(&p, &c, 10);
	for (int i = 1; i <= 3; i++) {
		UNTIL(&p, answers_n == i);
		late = mono_add(clock_now(), span_ms(10 + STATE_SENDER_PACE_MS * 5));
		UNTIL(&p, mono_reached(clock_now(), late));
		assert_int_equal(answers_n, i);
		ask_copy(c, 1, last_part.copy, (uint64_t)LIMIT_PART * (unsigned)i);
	}
	end_asking(&p, c);
}

/* Who has read to the end keeps nobody from reading. */
static void
test_read_to_the_end(void **unused)
{
	struct state_sender *c;
	struct play p;

	(void)unused;
	start(&p);
	c = state_sender_new(&(struct state_sender_config){
		.loop = &p.loop, .store = (struct store *)&p, .directory = p.makers[0],
		.answer = on_copy_answer,
	});
	for (uint64_t conn = 1; conn <= STATE_SENDER_MAX + 2; conn++) {
		ask_copy(c, conn, 0, 0);
		assert_int_equal(last_part.rc, RC_BUSY);
		assert_int_not_equal(last_part.copy, 0);
		UNTIL(&p, p.made == (int)conn);
		answers_n = 0;
		ask_copy(c, conn, last_part.copy, STATE - 100);
		UNTIL(&p, answers_n == 1);
		assert_int_equal(last_part.data.len, 100);
	}
	/* It may ask for the end again. */
	ask_copy(c, STATE_SENDER_MAX + 2, last_part.copy, STATE - 100);
	UNTIL(&p, answers_n == 2);
	assert_int_equal(last_part.data.len, 100);
	state_sender_stop(c, on_stopped, &p);
	UNTIL(&p, p.stopped_n == 1);
	p.stopped_n = 0;
	end(&p);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fetched), cmocka_unit_test(test_lost_and_doubled),
		cmocka_unit_test(test_damaged), cmocka_unit_test(test_dropped_there),
		cmocka_unit_test(test_another_replica), cmocka_unit_test(test_not_made),
		cmocka_unit_test(test_whole_refused), cmocka_unit_test(test_not_needed_any_more),
		cmocka_unit_test(test_stopped), cmocka_unit_test(test_many_readers),
		cmocka_unit_test(test_ahead), cmocka_unit_test(test_not_ahead),
		cmocka_unit_test(test_read_to_the_end),
	};

	log_start("test_state_sender", LEVEL_ERROR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
