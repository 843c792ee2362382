#include "ctl/verdict.h"

#include <stdio.h>
#include <string.h>
#include "ctl/cell_status.h"
#include "ctl/health.h"
#include "ctl/limits.h"

enum { HEARD_MS = 2000 }; /* the master has heard of a replica that works since then */

/* ---- replicas ---- */

/* A replica that does not answer us may still be in contact with the master. */
static bool
works(const json_t *replica)
{
	const char *condition = json_string_value(json_object_get(replica, "condition"));
	const json_t *heard = json_object_get(replica, "heard_ms");

	if (json_is_true(json_object_get(replica, "reachable")))
		return condition != NULL && strcmp(condition, "voting") == 0 &&
		       !json_is_true(json_object_get(replica, "disk_full"));
	return json_is_integer(heard) && json_integer_value(heard) < HEARD_MS;
}

static bool
replicas_are_few(const json_t *status, json_t *reasons)
{
	const json_t *one;
	size_t i, voters = 0, working = 0, needed;

	json_array_foreach(json_object_get(status, "replicas"), i, one)
	{
		voters += json_is_true(json_object_get(one, "voter"));
		working += json_is_true(json_object_get(one, "voter")) && works(one);
	}
	needed = voters / 2 + 1;
	if (working == voters || working > needed)
		return false;
	health_add(reasons, "%zu of %zu replicas work, and %zu are needed", working, voters,
	           needed);
	return true;
}

static bool
states_differ(const json_t *status, json_t *reasons)
{
	if (json_object_get(status, "disputed") == NULL)
		return false;
	health_add(reasons, "replicas have different states, and too few answer to tell which is "
	                    "right");
	return true;
}

/* ---- limits ---- */

static bool
limits_are_near(const json_t *status, json_t *reasons)
{
	const json_t *one;
	bool near = false;
	size_t i;

	json_array_foreach(json_object_get(status, "limits"), i, one)
	{
		if (limit_percent(one) < LIMITS_NEAR_PERCENT)
			continue;
		near = true;
		health_add(reasons,
		           "%s of %s: %" JSON_INTEGER_FORMAT " of %" JSON_INTEGER_FORMAT " %s",
		           json_string_value(json_object_get(one, "limit")),
		           json_string_value(json_object_get(one, "of")),
		           json_integer_value(json_object_get(one, "used")),
		           json_integer_value(json_object_get(one, "most")),
		           json_string_value(json_object_get(one, "unit")));
	}
	return near;
}

/* ---- the verdict ---- */

static void
add_down(const json_t *status, json_t *reasons)
{
	const char *state = json_string_value(json_object_get(status, "state"));
	const char *problem =
	    json_string_value(json_array_get(json_object_get(status, "problems"), 0));

	if (state != NULL && strcmp(state, "safe") != 0)
		health_add(reasons, "the mount's session is not safe: %s", state);
	else
		health_add(reasons, "%s", problem != NULL ? problem : "no master");
}

enum verdict
verdict_of(const json_t *status, json_t *reasons)
{
	bool degraded;

	if (!cell_status_is_good(status)) {
		add_down(status, reasons);
		return VERDICT_DOWN;
	}
	degraded = replicas_are_few(status, reasons);
	degraded |= states_differ(status, reasons);
	degraded |= limits_are_near(status, reasons);
	return degraded ? VERDICT_DEGRADED : VERDICT_GOOD;
}

const char *
verdict_name(enum verdict v)
{
	static const char *const names[] = {
	    [VERDICT_GOOD] = "good",
	    [VERDICT_DEGRADED] = "degraded",
	    [VERDICT_DOWN] = "down",
	};

	return names[v];
}
