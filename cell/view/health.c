#include "cell/view/health.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/bytes.h"
#include "cell/sys/clock.h"
#include "cell/view/findings.h"
#include "cell/view/output.h"
#include "cell/wire/condition.h"

enum {
	NEAR_PERCENT = 90,
	DISK_NEAR_PERCENT = 95,
	DOWN_MS = 3000,       /* a connection that is lost is made again at once */
	HEARD_MS = 2000,      /* the master has heard of a replica that works since then */
	CLOCK_MS = 2000,      /* an answer under way makes a clock seem late by at most that much */
	BACKUP_S = 25 * 3600, /* one a day, which may begin within an hour */
};

/* ---- limits ---- */

void
limits_add(json_t *limits, const char *name, const char *of, const char *unit, uint64_t used,
           uint64_t most)
{
	json_t *one = json_object();

	json_object_set_new(one, "limit", json_path(bytes_of(name)));
	json_object_set_new(one, "of", json_path(bytes_of(of)));
	json_object_set_new(one, "unit", json_path(bytes_of(unit)));
	json_object_set_new(one, "used", json_number(used));
	json_object_set_new(one, "most", json_number(most));
	json_array_append_new(limits, one);
}

static void
add_rows(json_t *limits, const struct answer *a, enum limit_owner owner, const char *of)
{
	for (int i = 0; a->heard && i < a->limits_n; i++) {
		const struct answer_limit *l = &a->limits[i];

		if (l->owner == owner)
			limits_add(limits, l->name, of, l->unit, l->used, l->most);
	}
}

/* Adds the limits of principals, which only the master tells. */
static void
add_principals(json_t *limits, const struct answer *a)
{
	char of[LIMIT_PRINCIPAL + 16];

	for (int i = 0; i < a->limits_n; i++) {
		const struct answer_limit *l = &a->limits[i];

		if (l->owner != LIMIT_OF_PRINCIPAL)
			continue;
		snprintf(of, sizeof of, "%s%s",
		         l->principal[0] != '\0' ? "principal " : "any principal", l->principal);
		limits_add(limits, l->name, of, l->unit, l->used, l->most);
	}
}

/* The index of the replica that tells the limits of the cell; negative when none has answered. */
static int
best_informed(const struct cell_file *cell_file, const struct answer *answers)
{
	int best = answers_master(answers, cell_file->replicas_n);

	if (best >= 0)
		return best;
	for (int i = 0; i < cell_file->replicas_n; i++)
		if (answers[i].heard &&
		    (best < 0 || answers[i].status.applied > answers[best].status.applied))
			best = i;
	return best;
}

json_t *
limits_of_replicas(const struct cell_file *cell_file, const struct answer answers[LIMIT_REPLICAS])
{
	const int best = best_informed(cell_file, answers);
	json_t *limits = json_array();
	char of[32];

	if (best >= 0)
		add_rows(limits, &answers[best], LIMIT_OF_CELL, "the cell");
	for (int i = 0; i < cell_file->replicas_n; i++) {
		snprintf(of, sizeof of, "replica %d", cell_file->replicas[i].id);
		add_rows(limits, &answers[i], LIMIT_OF_REPLICA, of);
	}
	if (best >= 0)
		add_principals(limits, &answers[best]);
	return limits;
}

json_t *
limits_of_mount(const json_t *status)
{
	json_t *limits = json_array();

	if (json_object_get(status, "nodes_quota") == NULL)
		return limits;
	limits_add(limits, "quota_nodes", "the cell", "count", json_number_of(status, "nodes"),
	           json_number_of(status, "nodes_quota"));
	limits_add(limits, "quota_bytes", "the cell", "bytes", json_number_of(status, "bytes"),
	           json_number_of(status, "bytes_quota"));
	return limits;
}

/* Adds, as a limit of this name, the longest list ("waiters" or "holders") of any lock. */
static void
add_longest(json_t *limits, const json_t *locks, const char *list, const char *name, uint64_t most)
{
	const char *path = "any lock";
	const json_t *lock;
	size_t i, n = 0;

	json_array_foreach(locks, i, lock) {
		if (json_array_size(json_object_get(lock, list)) <= n)
			continue;
		n = json_array_size(json_object_get(lock, list));
		path = json_string_value(json_object_get(lock, "path"));
	}
	limits_add(limits, name, path != NULL ? path : "?", "count", n, most);
}

void
limits_add_locks(json_t *limits, const json_t *locks)
{
	add_longest(limits, locks, "waiters", "lock_waiters", LIMIT_WAITERS);
	add_longest(limits, locks, "holders", "lock_holders", LIMIT_HOLDERS);
}

double
limit_percent(const json_t *limit)
{
	const json_int_t most = json_number_of(limit, "most");

	return most == 0 ? 100 : 100.0 * (double)json_number_of(limit, "used") / (double)most;
}

/* A large disk still has much space when a tenth of it is left. A cell with as many replicas as
 * there may be is a good cell. */
static bool
limit_is_near(const json_t *limit)
{
	const char *name = json_text_of(limit, "limit");
	const bool disk = strcmp(name, "disk") == 0;

	return strcmp(name, "replicas") != 0 &&
	       limit_percent(limit) >= (disk ? DISK_NEAR_PERCENT : NEAR_PERCENT);
}

static void
percent_text(const json_t *limit, char text[COLUMN_TEXT])
{
	snprintf(text, COLUMN_TEXT, "%.1f", limit_percent(limit));
}

void
limits_print(const json_t *limits)
{
	static const struct column columns[] = {
	    {"limit", -14, "limit", NULL},
	    {"of", -16, "of", NULL},
	    {"used", 12, "used", NULL},
	    {"most", 12, "most", NULL},
	    {"unit", -6, "unit", NULL},
	    {"percent", 7, NULL, percent_text},
	    {0},
	};

	table_print(limits, columns);
}

/* ---- findings ---- */

/* A master that did not answer us, but that voters which did answer follow; *by is their number. A
 * master that answered is not counted: its answer says that it does not serve. 0: none. */
static uint8_t
unreachable_master(const struct cell_file *cell_file, const struct answer *answers, int *by)
{
	int times[LIMIT_REPLICA_ID + 1] = {0};
	uint8_t most = 0;

	for (int i = 0; i < cell_file->replicas_n; i++) {
		const uint8_t master = answers[i].status.master;
		const int at = cell_file_find(cell_file, master);

		if (cell_file->replicas[i].role == MEMBER_VOTER && answers[i].heard &&
		    master != 0 && (at < 0 || !answers[at].heard) && ++times[master] > times[most])
			most = master;
	}
	*by = times[most];
	return most;
}

static void
add_lack_of_master(json_t *findings, const struct cell_file *cell_file,
                   const struct answer *answers)
{
	int n = 0, heard = 0, needed, followers;
	const uint8_t master = unreachable_master(cell_file, answers, &followers);

	for (int i = 0; i < cell_file->replicas_n; i++) {
		n += cell_file->replicas[i].role == MEMBER_VOTER;
		heard += cell_file->replicas[i].role == MEMBER_VOTER && answers[i].heard;
	}
	needed = n / 2 + 1;
	if (heard < needed)
		finding_add_detail(findings, FINDING_no_master, cell_file->name,
		                   "%d of %d replicas can be reached, %d are needed", heard, n,
		                   needed);
	else if (followers >= n / 2 && master != 0)
		finding_add_detail(findings, FINDING_master_unreachable, cell_file->name,
		                   "it is replica %d for %d of %d replicas", master, followers, n);
	else
		finding_add_detail(findings, FINDING_no_master, cell_file->name,
		                   "%d of %d replicas can be reached, but have not elected one",
		                   heard, n);
}

/* A replica that does not answer us may still be in contact with the master. */
static bool
works(uint8_t id, const struct answer *a, const struct answer *master)
{
	if (a->heard)
		return a->status.condition == CONDITION_VOTING && !a->status.full;
	for (int i = 0; i < master->progress_n; i++)
		if (master->progress[i].id == id)
			return master->progress[i].heard_ms >= 0 &&
			       master->progress[i].heard_ms < HEARD_MS;
	return false;
}

/* A cell of one or two replicas outlives no failure at any time: it is good while all of them
 * work. */
static void
add_if_few(json_t *findings, const struct cell_file *cell_file, const struct answer *answers,
           const struct answer *master)
{
	int voters = 0, working = 0, needed;

	for (int i = 0; i < cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &cell_file->replicas[i];

		voters += r->role == MEMBER_VOTER;
		working += r->role == MEMBER_VOTER && works(r->id, &answers[i], master);
	}
	needed = voters / 2 + 1;
	if (working < voters && working <= needed)
		finding_add_detail(findings,
		                   working < needed ? FINDING_no_majority : FINDING_few_replicas,
		                   cell_file->name, "%d of %d replicas work, and %d are needed",
		                   working, voters, needed);
}

static void
add_replica(json_t *findings, const struct cell_file_replica *r, const struct answer *a)
{
	char replica[LIMIT_ADDRESS + 32];

	snprintf(replica, sizeof replica, "replica %d (%s)", r->id, r->address);
	if (!a->heard) {
		finding_add_detail(findings, FINDING_unreachable, replica, "%s", a->why);
		return;
	}
	finding_add_condition(findings, replica, a->status.condition);
	if (!a->datagrams)
		finding_add(findings, FINDING_no_datagrams, replica);
	if (a->status.full)
		finding_add(findings, FINDING_disk_full, replica);
	if (a->ahead_ms > CLOCK_MS || a->ahead_ms < -CLOCK_MS)
		finding_add_detail(findings, FINDING_clock_differs, replica, "%.1f s %s",
		                   (double)llabs(a->ahead_ms) / 1000,
		                   a->ahead_ms > 0 ? "ahead" : "behind");
}

/* The span for which `from` has had no connection to `to`, in milliseconds; -1: it has one, or is
 * not known to have none. */
static int64_t
down_ms(const struct answer *from, uint8_t to)
{
	for (int i = 0; from->heard && i < from->links_n; i++)
		if (from->links[i].id == to)
			return from->links[i].down_ms;
	return -1;
}

/* Adds each pair of replicas that answer us and do not reach each other. */
static void
add_links(json_t *findings, const struct cell_file *cell_file, const struct answer *answers)
{
	const struct cell_file_replica *r = cell_file->replicas;
	char pair[64];

	for (int i = 0; i < cell_file->replicas_n; i++) {
		for (int j = i + 1; j < cell_file->replicas_n; j++) {
			const int64_t there = down_ms(&answers[i], r[j].id);
			const int64_t back = down_ms(&answers[j], r[i].id);

			if (!answers[i].heard || !answers[j].heard ||
			    (there < DOWN_MS && back < DOWN_MS))
				continue;
			snprintf(pair, sizeof pair, "replicas %d and %d", r[i].id, r[j].id);
			finding_add_detail(findings, FINDING_no_link, pair,
			                   "%s from %s, for %" PRId64 " s",
			                   there >= back ? r[j].address : r[i].address,
			                   there >= back ? r[i].address : r[j].address,
			                   (there >= back ? there : back) / 1000);
		}
	}
}

/* Adds the replicas of each version when there are several: "1.0 of 1 and 2, 1.1 of 3". */
static void
add_versions(json_t *findings, const struct cell_file *cell_file, const struct answer *answers)
{
	struct buffer text = BUFFER(LIMIT_REPLICAS * (LIMIT_VERSION + 16));
	int kinds = 0;

	for (int i = 0; i < cell_file->replicas_n; i++) {
		bool first = answers[i].heard;

		for (int j = 0; first && j < i; j++)
			first = !answers[j].heard ||
			        strcmp(answers[j].version, answers[i].version) != 0;
		if (!first)
			continue;
		buffer_printf(&text, "%s%s of %d", kinds++ > 0 ? ", " : "", answers[i].version,
		              cell_file->replicas[i].id);
		for (int j = i + 1; j < cell_file->replicas_n; j++)
			if (answers[j].heard && strcmp(answers[j].version, answers[i].version) == 0)
				buffer_printf(&text, " and %d", cell_file->replicas[j].id);
	}
	if (kinds > 1)
		finding_add_detail(findings, FINDING_versions_differ, cell_file->name, "%.*s",
		                   (int)buffer_view(&text).len,
		                   (const char *)buffer_view(&text).data);
	buffer_free(&text);
}

/* A cell that never had a backup may not need any. */
static void
add_backup(json_t *findings, const struct cell_file *cell_file, const struct answer *answers)
{
	uint64_t last = 0;
	int64_t age;

	for (int i = 0; i < cell_file->replicas_n; i++)
		if (answers[i].heard && answers[i].status.last_backup > last)
			last = answers[i].status.last_backup;
	age = clock_wall_ns() / 1000000000 - (int64_t)last;
	if (last != 0 && age > BACKUP_S)
		finding_add_detail(findings, FINDING_backup_old, cell_file->name,
		                   "%" PRId64 " hours", age / 3600);
}

void
health_add_limits(json_t *findings, const json_t *limits)
{
	const json_t *one;
	size_t i;

	json_array_foreach(limits, i, one) {
		if (limit_is_near(one))
			finding_add_detail(findings, FINDING_limit_near, json_text_of(one, "of"),
			                   "%s, %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT
			                   " %s",
			                   json_text_of(one, "limit"),
			                   json_integer_value(json_object_get(one, "used")),
			                   json_integer_value(json_object_get(one, "most")),
			                   json_text_of(one, "unit"));
	}
}

static json_t *
findings_of(const struct cell_file *cell_file, const struct answer *answers, int master)
{
	json_t *findings = json_array();

	if (master < 0)
		add_lack_of_master(findings, cell_file, answers);
	else
		add_if_few(findings, cell_file, answers, &answers[master]);
	if (master >= 0 && answers[master].status.disputed != 0)
		finding_add_detail(findings, FINDING_states_differ, cell_file->name,
		                   "at entry %llu",
		                   (unsigned long long)answers[master].status.disputed);
	add_links(findings, cell_file, answers);
	add_versions(findings, cell_file, answers);
	add_backup(findings, cell_file, answers);
	for (int i = 0; i < cell_file->replicas_n; i++)
		add_replica(findings, &cell_file->replicas[i], &answers[i]);
	return findings;
}

/* ---- the replicas ---- */

/* The master may know the progress of a replica that does not answer us. */
static void
add_progress(json_t *one, uint8_t id, const struct answer *master)
{
	for (int i = 0; master != NULL && i < master->progress_n; i++) {
		const struct answer_progress *p = &master->progress[i];

		if (p->id != id)
			continue;
		json_object_set_new(one, "applied", json_number(p->applied));
		if (p->heard_ms >= 0)
			json_object_set_new(one, "heard_ms", json_integer(p->heard_ms));
	}
}

static json_t *
links_json(const struct answer *a)
{
	json_t *links = json_array(), *one;

	for (int i = 0; i < a->links_n; i++) {
		one = json_object();
		json_object_set_new(one, "id", json_integer(a->links[i].id));
		json_object_set_new(one, "up", json_boolean(a->links[i].down_ms < 0));
		if (a->links[i].down_ms >= 0)
			json_object_set_new(one, "down_ms", json_integer(a->links[i].down_ms));
		json_array_append_new(links, one);
	}
	return links;
}

static json_t *
replica_json(const struct cell_file_replica *r, const struct answer *a, const struct answer *master,
             uint64_t chosen)
{
	const struct msg_status_reply *s = &a->status;
	json_t *one = json_object();
	char digest[20];

	snprintf(digest, sizeof digest, "%016llx", (unsigned long long)s->digest);
	json_object_set_new(one, "id", json_integer(r->id));
	json_object_set_new(one, "address", json_string(r->address));
	json_object_set_new(one, "voter", json_boolean(r->role == MEMBER_VOTER));
	json_object_set_new(one, "reachable", json_boolean(a->heard));
	if (!a->heard) {
		json_object_set_new(one, "error", json_string(a->why));
		add_progress(one, r->id, master);
		return one;
	}
	json_object_set_new(one, "condition", json_string(condition_words(s->condition)->name));
	json_object_set_new(one, "disk_full", json_boolean(s->full));
	json_object_set_new(one, "role", json_string(condition_role(s->role)));
	json_object_set_new(one, "master", json_integer(s->master));
	json_object_set_new(one, "epoch", json_number(s->epoch));
	json_object_set_new(one, "first", json_number(s->first));
	json_object_set_new(one, "last", json_number(s->last));
	json_object_set_new(one, "chosen", json_number(s->chosen));
	json_object_set_new(one, "applied", json_number(s->applied));
	json_object_set_new(one, "lag", json_number(chosen - s->applied));
	json_object_set_new(one, "digest", json_string(digest));
	json_object_set_new(one, "version", json_path(bytes_of(a->version)));
	json_object_set_new(one, "minor_version", json_integer(s->minor));
	json_object_set_new(one, "longest_step_us", json_number(s->longest_step_us));
	json_object_set_new(one, "slow_steps", json_number(s->slow_steps));
	json_object_set_new(one, "links", links_json(a));
	return one;
}

/* Adds the id of the master and its usage; without a master only that there is none. */
static void
add_master(json_t *all, const struct cell_file *cell_file, const struct answer *answers, int master)
{
	const struct msg_status_reply *s = master < 0 ? NULL : &answers[master].status;
	char since[UTC_TEXT], backup[UTC_TEXT];

	json_object_set_new(all, "master",
	                    s ? json_integer(cell_file->replicas[master].id) : json_null());
	if (!s)
		return;
	utc_text(s->master_since_ns / 1000000000, since);
	json_object_set_new(all, "master_since", since[0] ? json_string(since) : json_null());
	json_object_set_new(all, "epoch", json_number(s->epoch));
	utc_text((int64_t)s->last_backup, backup);
	json_object_set_new(all, "last_backup",
	                    s->last_backup != 0 ? json_string(backup) : json_null());
	json_object_set_new(all, "sessions", json_number(s->sessions));
	json_object_set_new(all, "locks_held", json_number(s->locks_held));
	if (s->disputed != 0)
		json_object_set_new(all, "disputed", json_number(s->disputed));
}

json_t *
health_json(const struct cell_file *cell_file, const struct answer answers[LIMIT_REPLICAS])
{
	const int master = answers_master(answers, cell_file->replicas_n);
	json_t *all = json_object(), *replicas = json_array();
	uint64_t chosen = 0;

	for (int i = 0; i < cell_file->replicas_n; i++)
		if (answers[i].heard && answers[i].status.chosen > chosen)
			chosen = answers[i].status.chosen;
	json_object_set_new(all, "cell", json_string(cell_file->name));
	add_master(all, cell_file, answers, master);
	for (int i = 0; i < cell_file->replicas_n; i++)
		json_array_append_new(replicas,
		                      replica_json(&cell_file->replicas[i], &answers[i],
		                                   master < 0 ? NULL : &answers[master], chosen));
	json_object_set_new(all, "replicas", replicas);
	json_object_set_new(all, "limits", limits_of_replicas(cell_file, answers));
	json_object_set_new(all, "problems", findings_of(cell_file, answers, master));
	health_add_limits(json_object_get(all, "problems"), json_object_get(all, "limits"));
	return all;
}
