#include "ctl/health.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "ctl/limits.h"
#include "ctl/utc.h"

static const char *const roles[] = {
    [REPLICA_FOLLOWER] = "follower",
    [REPLICA_CANDIDATE] = "candidate",
    [REPLICA_ELECTED] = "elected",
    [REPLICA_MASTER] = "master",
};

static const char *const conditions[] = {
    [CONDITION_VOTING] = "voting",       [CONDITION_JOINING] = "joining",
    [CONDITION_REPAIRING] = "repairing", [CONDITION_LEARNER] = "learner",
    [CONDITION_LOST] = "lost",           [CONDITION_EXPELLED] = "expelled",
    [CONDITION_ALONE] = "alone",         [CONDITION_OUTDATED] = "outdated",
};

static const char *
condition_name(unsigned condition)
{
	return condition < sizeof conditions / sizeof conditions[0] ? conditions[condition]
	                                                            : "unknown";
}

static const char *
role_name(unsigned role)
{
	return role < sizeof roles / sizeof roles[0] ? roles[role] : "unknown";
}

static json_t *
number(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static json_t *
hexadecimal(uint64_t n)
{
	char text[20];

	snprintf(text, sizeof text, "%016llx", (unsigned long long)n);
	return json_string(text);
}

static json_t *
instant(int64_t ns)
{
	char text[UTC_TEXT];

	utc_text(ns / 1000000000, text);
	return text[0] != '\0' ? json_string(text) : json_null();
}

/* ---- problems ---- */

void
health_add(json_t *list, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	json_array_append_new(list, json_string(text));
}

static bool
was_heard(const struct cell_file *cell_file, const struct answer *answers, uint8_t id)
{
	for (int i = 0; i < cell_file->replicas_n; i++)
		if (cell_file->replicas[i].id == id)
			return answers[i].heard;
	return false;
}

/* A master that did not answer us, but that voters which did answer follow; *by is their number. A
 * master that answered is not counted: its answer says that it does not serve. 0: none. */
static uint8_t
unreachable_master(const struct cell_file *cell_file, const struct answer *answers, int *by)
{
	int times[LIMIT_REPLICA_ID + 1] = {0};
	uint8_t most = 0;

	for (int i = 0; i < cell_file->replicas_n; i++) {
		uint8_t master = answers[i].status.master;

		if (cell_file->replicas[i].role == MEMBER_VOTER && answers[i].heard &&
		    master != 0 && !was_heard(cell_file, answers, master) &&
		    ++times[master] > times[most])
			most = master;
	}
	*by = times[most];
	return most;
}

static void
add_lack_of_master(json_t *problems, const struct cell_file *cell_file,
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
		health_add(problems, "no master: %d of %d replicas can be reached, %d are needed",
		           heard, n, needed);
	else if (followers >= n / 2 && master != 0)
		health_add(problems,
		           "no master can be reached: it is replica %d for %d of %d "
		           "replicas",
		           master, followers, n);
	else
		health_add(problems,
		           "no master: %d of %d replicas can be reached, but have not "
		           "elected one",
		           heard, n);
}

static void
add_problem_of(json_t *problems, const struct cell_file_replica *r, const struct answer *a)
{
	if (!a->heard)
		health_add(problems, "replica %d (%s) cannot be reached: %s", r->id, r->address,
		           a->why);
	else if (a->status.condition == CONDITION_LOST)
		health_add(problems,
		           "replica %d (%s) has an older state than it has acknowledged "
		           "and lost its vote: remove it and add a new one",
		           r->id, r->address);
	else if (a->status.condition == CONDITION_REPAIRING)
		health_add(problems,
		           "replica %d (%s) lacks part of its log or state, and fetches "
		           "it from the others",
		           r->id, r->address);
	else if (a->status.condition == CONDITION_ALONE)
		health_add(problems, "replica %d (%s) has had no master for long", r->id,
		           r->address);
	if (a->heard && a->status.full)
		health_add(problems, "replica %d (%s) has no room on its disk", r->id, r->address);
}

static json_t *
problems_of(const struct cell_file *cell_file, const struct answer *answers, int master)
{
	json_t *problems = json_array();

	if (master < 0)
		add_lack_of_master(problems, cell_file, answers);
	if (master >= 0 && answers[master].status.disputed != 0)
		health_add(problems,
		           "replicas have different states (at entry %llu), and "
		           "too few answer to tell which is right: bring the others back, or "
		           "restore a backup",
		           (unsigned long long)answers[master].status.disputed);
	for (int i = 0; i < cell_file->replicas_n; i++)
		add_problem_of(problems, &cell_file->replicas[i], &answers[i]);
	return problems;
}

/* ---- the replicas ---- */

static uint64_t
newest_chosen(const struct cell_file *cell_file, const struct answer *answers)
{
	uint64_t newest = 0;

	for (int i = 0; i < cell_file->replicas_n; i++)
		if (answers[i].heard && answers[i].status.chosen > newest)
			newest = answers[i].status.chosen;
	return newest;
}

/* The master may know the progress of a replica that does not answer us. */
static void
add_progress(json_t *one, uint8_t id, const struct answer *master)
{
	for (int i = 0; master != NULL && i < master->progress_n; i++) {
		const struct answer_progress *p = &master->progress[i];

		if (p->id != id)
			continue;
		json_object_set_new(one, "applied", number(p->applied));
		if (p->heard_ms >= 0)
			json_object_set_new(one, "heard_ms", json_integer(p->heard_ms));
	}
}

static json_t *
replica_json(const struct cell_file_replica *r, const struct answer *a, const struct answer *master,
             uint64_t newest)
{
	const struct msg_status_reply *s = &a->status;
	json_t *one = json_object();

	json_object_set_new(one, "id", json_integer(r->id));
	json_object_set_new(one, "address", json_string(r->address));
	json_object_set_new(one, "voter", json_boolean(r->role == MEMBER_VOTER));
	json_object_set_new(one, "reachable", json_boolean(a->heard));
	if (!a->heard) {
		json_object_set_new(one, "error", json_string(a->why));
		add_progress(one, r->id, master);
		return one;
	}
	json_object_set_new(one, "condition", json_string(condition_name(s->condition)));
	json_object_set_new(one, "disk_full", json_boolean(s->full));
	json_object_set_new(one, "role", json_string(role_name(s->role)));
	json_object_set_new(one, "master", json_integer(s->master));
	json_object_set_new(one, "epoch", number(s->epoch));
	json_object_set_new(one, "first", number(s->first));
	json_object_set_new(one, "last", number(s->last));
	json_object_set_new(one, "chosen", number(s->chosen));
	json_object_set_new(one, "applied", number(s->applied));
	json_object_set_new(one, "lag", number(newest - s->applied));
	json_object_set_new(one, "digest", hexadecimal(s->digest));
	json_object_set_new(one, "longest_step_us", number(s->longest_step_us));
	json_object_set_new(one, "slow_steps", number(s->slow_steps));
	return one;
}

/* Adds the master's data; without a master only the data in the cell file. */
static void
add_master(json_t *all, const struct cell_file *cell_file, const struct answer *answers, int master)
{
	const struct msg_status_reply *s = master < 0 ? NULL : &answers[master].status;

	json_object_set_new(all, "master",
	                    s ? json_integer(cell_file->replicas[master].id) : json_null());
	if (!s)
		return;
	json_object_set_new(all, "master_since", instant(s->master_since_ns));
	json_object_set_new(all, "epoch", number(s->epoch));
	json_object_set_new(all, "sessions", number(s->sessions));
	json_object_set_new(all, "locks_held", number(s->locks_held));
	if (s->disputed != 0)
		json_object_set_new(all, "disputed", number(s->disputed));
}

json_t *
health_json(const struct cell_file *cell_file, const struct answer answers[LIMIT_REPLICAS])
{
	const int master = answers_master(answers, cell_file->replicas_n);
	const uint64_t newest = newest_chosen(cell_file, answers);
	json_t *all = json_object(), *replicas = json_array();

	json_object_set_new(all, "cell", json_string(cell_file->name));
	add_master(all, cell_file, answers, master);
	for (int i = 0; i < cell_file->replicas_n; i++)
		json_array_append_new(replicas,
		                      replica_json(&cell_file->replicas[i], &answers[i],
		                                   master < 0 ? NULL : &answers[master], newest));
	json_object_set_new(all, "replicas", replicas);
	json_object_set_new(all, "limits", limits_of_replicas(cell_file, answers));
	json_object_set_new(all, "problems", problems_of(cell_file, answers, master));
	return all;
}

/* ---- printing ---- */

static json_int_t
number_of(const json_t *one, const char *name)
{
	return json_integer_value(json_object_get(one, name));
}

static const char *
text_of(const json_t *one, const char *name)
{
	return json_string_value(json_object_get(one, name));
}

static bool
is_voting(const json_t *one)
{
	return strcmp(text_of(one, "condition"), "voting") == 0;
}

static void
print_replica(const json_t *one)
{
	printf("%-8" JSON_INTEGER_FORMAT " %-24s ", number_of(one, "id"), text_of(one, "address"));
	if (!json_is_true(json_object_get(one, "reachable")))
		puts("unreachable");
	else
		printf("%-12s %10" JSON_INTEGER_FORMAT " %6" JSON_INTEGER_FORMAT "%s%s%s\n",
		       text_of(one, "role"), number_of(one, "applied"), number_of(one, "lag"),
		       is_voting(one) ? "" : " ", is_voting(one) ? "" : text_of(one, "condition"),
		       json_is_true(json_object_get(one, "disk_full")) ? " disk full" : "");
}

static void
print_problems(const json_t *health)
{
	const json_t *value;
	size_t i;

	if (json_array_size(json_object_get(health, "problems")) > 0)
		putchar('\n');
	json_array_foreach(json_object_get(health, "problems"), i, value)
	    printf("%-12s %s\n", "problem", json_string_value(value));
}

void
health_print(const json_t *health)
{
	const json_t *value;
	size_t i;

	printf("\n%-8s %-24s %-12s %10s %6s\n", "replica", "address", "role", "position", "lag");
	json_array_foreach(json_object_get(health, "replicas"), i, value) print_replica(value);
	print_problems(health);
}

/* Prints a replica; of one that cannot be reached only the progress that the master knows. */
static void
print_member(const json_t *one, json_int_t master)
{
	const bool reachable = json_is_true(json_object_get(one, "reachable"));
	const bool is_master = number_of(one, "id") == master;

	printf("%-8" JSON_INTEGER_FORMAT " %-24s %-8s ", number_of(one, "id"),
	       text_of(one, "address"),
	       json_is_true(json_object_get(one, "voter")) ? "voter" : "learner");
	if (reachable)
		printf("%-12s %10" JSON_INTEGER_FORMAT " %6" JSON_INTEGER_FORMAT "%s\n",
		       text_of(one, "condition"), number_of(one, "applied"), number_of(one, "lag"),
		       is_master ? " master" : "");
	else if (json_object_get(one, "heard_ms") != NULL)
		printf("%-12s %10" JSON_INTEGER_FORMAT " heard %" JSON_INTEGER_FORMAT " s ago\n",
		       "unreachable", number_of(one, "applied"), number_of(one, "heard_ms") / 1000);
	else
		puts("unreachable");
}

void
health_print_members(const json_t *health)
{
	const json_int_t master = number_of(health, "master");
	const json_t *value;
	size_t i;

	printf("%-8s %-24s %-8s %-12s %10s %6s\n", "replica", "address", "role", "condition",
	       "position", "lag");
	json_array_foreach(json_object_get(health, "replicas"), i, value)
	    print_member(value, master);
	print_problems(health);
}
