/* The file .cell/metrics: Prometheus can read it, its numbers are right, and it never waits for the
 * cell. */
#include <stdio.h>
#include <string.h>
#include "tests/unit/mount_bench.h"

static const struct mount_config config = {.cell = "a \"cell\"", .uid = 1000, .gid = 1000};

static uint64_t
call(struct bench *b, enum mount_event_kind kind, uint64_t ino, uint64_t fh)
{
	struct mount_event e = {
	    .kind = kind,
	    .ino = ino,
	    .fh = fh,
	    .pid = SHELL,
	    .size = LIMIT_FRAME,
	    .lock_mode = LOCK_EXCLUSIVE,
	    .wait = true,
	};

	return bench_start(b, e);
}

static uint64_t
open_file(struct bench *b, uint64_t ino)
{
	return bench_reply(b, call(b, MOUNT_OPEN, ino, 0))->fh;
}

/* What the file shows, to be freed by the caller. */
static char *
metrics(struct bench *b)
{
	const uint64_t fh = open_file(b, MOUNT_INO_METRICS);
	const uint64_t read = call(b, MOUNT_READ, MOUNT_INO_METRICS, fh);
	const struct mount_reply *r;
	char *text;

	assert_true(bench_answered(b, read)); /* at once */
	r = bench_reply(b, read);
	assert_int_equal(r->error, 0);
	text = bytes_to_text(r->data);
	call(b, MOUNT_RELEASE, MOUNT_INO_METRICS, fh);
	return text;
}

static void
shows(struct bench *b, const char *line)
{
	char *text = metrics(b), *whole;

	assert_true(asprintf(&whole, "\nlsfs_%s\n", line) > 0);
	if (strstr(text, whole) == NULL)
		fail_msg("no line %s in:\n%s", line, text);
	free(whole);
	free(text);
}

static void
shows_not(struct bench *b, const char *part)
{
	char *text = metrics(b);

	assert_null(strstr(text, part));
	free(text);
}

static void
end(struct bench *b)
{
	b->hold = false;
	bench_answer_all(b);
	bench_free(b);
}

/* ---- the format ---- */

/* A line of a metric: HELP, then TYPE, then its values. A counter ends in _total, a gauge does
 * not. */
static void
check_line(char *line, char name[100])
{
	char was[100], type[20], rest[200];
	double value;

	if (sscanf(line, "# HELP %99s %199s", was, rest) == 2) {
		strcpy(name, was);
		assert_int_equal(strncmp(name, "lsfs_", 5), 0);
		return;
	}
	if (sscanf(line, "# TYPE %99s %19s", was, type) == 2) {
		const size_t len = strlen(name);

		assert_string_equal(was, name);
		assert_int_equal(strcmp(type, "counter") == 0,
		                 len > 6 && strcmp(name + len - 6, "_total") == 0);
		return;
	}
	assert_int_equal(strncmp(line, name, strlen(name)), 0);
	assert_true(line[strlen(name)] == ' ' || line[strlen(name)] == '{');
	assert_int_equal(sscanf(strrchr(line, ' '), "%lf%199s", &value, rest), 1);
}

TEST(test_every_line_is_well_formed)
{
	struct bench *b = bench_new(&config);
	char *text = metrics(b), *next = text, *line, name[100] = "";

	while ((line = strsep(&next, "\n")) != NULL)
		if (next != NULL)
			check_line(line, name);
		else
			assert_string_equal(line, "");
	free(text);
	end(b);
}

TEST(test_labels_are_escaped)
{
	struct bench *b = bench_new(&config);
	char *text;

	strcpy(b->client.status.principal, "a\\b\nc");
	text = metrics(b);
	assert_non_null(strstr(text, "cell=\"a \\\"cell\\\"\",principal=\"a\\\\b\\nc\"} 1\n"));
	free(text);
	end(b);
}

TEST(test_labels_are_utf8)
{
	struct bench *b = bench_new(&config);
	char *text;

	strcpy(b->client.status.principal, "j\xc3\xbcrg\xff\x7f");
	text = metrics(b);
	assert_non_null(strstr(text, ",principal=\"j\xc3\xbcrg\\\\xff\x7f\"} 1\n"));
	free(text);
	end(b);
}

TEST(test_the_size_is_that_of_the_text)
{
	struct bench *b = bench_new(&config);
	const struct mount_reply *r = bench_reply(b, call(b, MOUNT_GETATTR, MOUNT_INO_METRICS, 0));

	assert_true(r->stat.size > 1000);
	end(b);
}

/* ---- the numbers ---- */

TEST(test_the_session)
{
	struct bench *b = bench_new(&config);

	b->client.counts = (struct client_counts){.connected = true,
	                                          .sessions = 1,
	                                          .connections = 3,
	                                          .fail_overs = 2,
	                                          .jeopardies = 1,
	                                          .datagrams = 4};
	b->client.status.leave_end = mono_add(b->now, span_ms(2500));
	shows(b, "session_state{state=\"safe\"} 1");
	shows(b, "session_state{state=\"jeopardy\"} 0");
	shows(b, "session_lease_left_seconds 12.000");
	shows(b, "session_grace_left_seconds 0.000");
	shows(b, "cache_leave_left_seconds 2.500");
	shows(b, "connections_total 3");
	shows(b, "fail_overs_total 2");
	shows(b, "datagrams_answered_total 4");
	b->client.status.leave_end = MONO_NEVER;
	b->client.status.grace_end = mono_add(b->now, span_s(45));
	bench_state(b, CLIENT_JEOPARDY);
	shows(b, "session_state{state=\"jeopardy\"} 1");
	shows(b, "session_grace_left_seconds 45.000");
	shows(b, "cache_leave_left_seconds 0.000");
	bench_state(b, CLIENT_EXPIRED);
	shows(b, "session_lease_left_seconds 0.000");
	end(b);
}

TEST(test_the_cache)
{
	struct bench *b = bench_new(&config);

	b->client.counts =
	    (struct client_counts){.cached_nodes = 7, .hits = 40, .misses = 9, .invalidations = 3};
	shows(b, "cached_nodes 7");
	shows(b, "cache_hits_total 40");
	shows(b, "cache_misses_total 9");
	shows(b, "cache_invalidations_total 3");
	end(b);
}

TEST(test_calls_and_their_outcomes)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f");
	uint64_t waits, fh;

	shows_not(b, "call=\"flock\"");
	call(b, MOUNT_GETATTR, f, 0);
	call(b, MOUNT_GETATTR, f + 1, 0);
	shows(b, "calls_total{call=\"getattr\",outcome=\"done\"} 1");
	shows(b, "calls_total{call=\"getattr\",outcome=\"failed\"} 1");
	shows(b, "requests_total{operation=\"get_attr\",result=\"OK\"} 1");
	shows(b, "requests_total{operation=\"get_attr\",result=\"STALE\"} 1");
	fh = open_file(b, f);
	shows(b, "open_files 1");
	b->hold = true;
	waits = call(b, MOUNT_FLOCK, f, fh);
	shows(b, "calls_waiting{call=\"flock\"} 1");
	bench_kill(b, waits);
	shows(b, "calls_total{call=\"flock\",outcome=\"interrupted\"} 1");
	shows_not(b, "calls_waiting{");
	end(b);
}

TEST(test_events)
{
	struct bench *b = bench_new(&config);
	const uint64_t f = new_file(b->cell, NODE_ROOT, "f"), fh = open_file(b, f);
	const struct client_watched w = {.kind = EVENT_CONTENTS_MODIFIED,
	                                 .node = f,
	                                 .generation = 9,
	                                 .path = bytes_of("/f")};

	open_file(b, MOUNT_INO_EVENTS);
	call(b, MOUNT_POLL, f, fh);
	shows(b, "events_pending 0");
	shows(b, "event_readers 1");
	shows(b, "events_unread_bytes 0");
	bench_watched(b, &w, 0);
	shows(b, "events_pending 1");
	shows_not(b, "\nlsfs_events_unread_bytes 0\n");
	end(b);
}

TEST(test_nothing_is_asked_for)
{
	struct bench *b = bench_new(&config);

	b->hold = true;
	bench_state(b, CLIENT_JEOPARDY);
	shows(b, "session_state{state=\"jeopardy\"} 1");
	assert_int_equal(b->pending_n, 0);
	end(b);
}
