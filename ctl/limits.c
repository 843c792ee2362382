#include "ctl/limits.h"

#include <stdio.h>

/* ---- the array ---- */

static void
add(json_t *limits, const char *name, const char *of, const char *unit, uint64_t used,
    uint64_t most)
{
	json_t *one = json_object();

	json_object_set_new(one, "limit", json_string(name));
	json_object_set_new(one, "of", json_string(of));
	json_object_set_new(one, "unit", json_string(unit));
	json_object_set_new(one, "used", json_integer((json_int_t)used));
	json_object_set_new(one, "most", json_integer((json_int_t)most));
	json_array_append_new(limits, one);
}

static void
add_rows(json_t *limits, const struct answer *a, enum limit_owner owner, const char *of)
{
	for (int i = 0; a->heard && i < a->limits_n; i++) {
		const struct answer_limit *l = &a->limits[i];

		if (l->owner == owner)
			add(limits, l->name, of, l->unit, l->used, l->most);
	}
}

/* Only the master tells them. */
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
		add(limits, l->name, of, l->unit, l->used, l->most);
	}
}

static int
newest(const struct cell_file *cell_file, const struct answer *answers)
{
	int best = answers_master(answers, cell_file->replicas_n);

	for (int i = 0; best < 0 && i < cell_file->replicas_n; i++)
		if (answers[i].heard)
			best = i;
	for (int i = 0; i < cell_file->replicas_n; i++)
		if (answers[i].heard && answers[i].status.applied > answers[best].status.applied &&
		    answers[best].status.role != REPLICA_MASTER)
			best = i;
	return best;
}

json_t *
limits_of_replicas(const struct cell_file *cell_file, const struct answer answers[LIMIT_REPLICAS])
{
	const int best = newest(cell_file, answers);
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

static uint64_t
number_of(const json_t *object, const char *key)
{
	return (uint64_t)json_integer_value(json_object_get(object, key));
}

json_t *
limits_of_mount(const json_t *status)
{
	json_t *limits = json_array();

	if (json_object_get(status, "nodes_quota") == NULL)
		return limits;
	add(limits, "quota_nodes", "the cell", "count", number_of(status, "nodes"),
	    number_of(status, "nodes_quota"));
	add(limits, "quota_bytes", "the cell", "bytes", number_of(status, "bytes"),
	    number_of(status, "bytes_quota"));
	return limits;
}

/* The lock with the longest list of that name. */
static void
add_longest(json_t *limits, const json_t *locks, const char *list, const char *name, uint64_t most)
{
	const char *path = "any lock";
	const json_t *lock;
	size_t i, n = 0;

	json_array_foreach(locks, i, lock)
	{
		if (json_array_size(json_object_get(lock, list)) <= n)
			continue;
		n = json_array_size(json_object_get(lock, list));
		path = json_string_value(json_object_get(lock, "path"));
	}
	add(limits, name, path != NULL ? path : "?", "count", n, most);
}

void
limits_add_locks(json_t *limits, const json_t *locks)
{
	add_longest(limits, locks, "waiters", "lock_waiters", LIMIT_WAITERS);
	add_longest(limits, locks, "holders", "lock_holders", LIMIT_HOLDERS);
}

/* ---- printing ---- */

double
limit_percent(const json_t *limit)
{
	const uint64_t most = number_of(limit, "most");

	return most == 0 ? 100 : 100.0 * (double)number_of(limit, "used") / (double)most;
}

void
limits_print(const json_t *limits)
{
	const json_t *one;
	size_t i;

	printf("%-14s %-16s %12s %12s %-6s %7s\n", "limit", "of", "used", "most", "unit",
	       "percent");
	json_array_foreach(limits, i, one)
	    printf("%-14s %-16s %12llu %12llu %-6s %7.1f\n",
	           json_string_value(json_object_get(one, "limit")),
	           json_string_value(json_object_get(one, "of")),
	           (unsigned long long)number_of(one, "used"),
	           (unsigned long long)number_of(one, "most"),
	           json_string_value(json_object_get(one, "unit")), limit_percent(one));
}
