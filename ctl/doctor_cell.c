/* A cell: its replicas, their clocks, its limits, and the age of a cell file. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/sys/log.h"
#include "ctl/cell.h"
#include "ctl/doctor.h"
#include "ctl/limits.h"

enum { CLOCK_MS = 2000 }; /* an answer under way makes a clock seem late by at most that much */

void
doctor_add(json_t *findings, const char *object, const char *todo, const char *format, ...)
{
	json_t *one = json_object();
	char what[1024];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof what, format, args);
	va_end(args);
	json_object_set_new(one, "object", json_string(object));
	json_object_set_new(one, "what", json_string(what));
	json_object_set_new(one, "do", json_string(todo));
	json_array_append_new(findings, one);
}

static void
add_clock(json_t *findings, const char *replica, int64_t ahead_ms)
{
	if (ahead_ms <= CLOCK_MS && ahead_ms >= -CLOCK_MS)
		return;
	doctor_add(findings, replica, "have both machines set their clocks (chrony, ntpd)",
	           "its time of day is %.1f s %s that of this machine",
	           (double)llabs(ahead_ms) / 1000, ahead_ms > 0 ? "ahead of" : "behind");
}

static void
add_condition(json_t *findings, const char *replica, const struct msg_status_reply *s)
{
	if (s->condition == CONDITION_LOST)
		doctor_add(findings, replica, "remove it, and add a new one (lsctl replica)",
		           "it has an older state than it has acknowledged, and lost its vote");
	else if (s->condition == CONDITION_ALONE)
		doctor_add(findings, replica,
		           "see whether it reaches the other replicas at their addresses",
		           "it has had no master for long");
	else if (s->condition == CONDITION_OUTDATED)
		doctor_add(findings, replica, "install a newer version and start it again",
		           "the log is written in a later version than it speaks");
	if (s->full)
		doctor_add(findings, replica, "make room there: it goes on by itself",
		           "it has no room on its disk");
}

static void
add_limits(json_t *findings, const struct cell_file *members, const struct answer *answers)
{
	json_t *limits = limits_of_replicas(members, answers), *one;
	size_t i;

	json_array_foreach(limits, i, one)
	{
		if (limit_percent(one) < LIMITS_NEAR_PERCENT)
			continue;
		doctor_add(findings, json_string_value(json_object_get(one, "of")),
		           "make room, or see lsctl status --limits and lsctl cell set",
		           "%.0f percent of %s are used", limit_percent(one),
		           json_string_value(json_object_get(one, "limit")));
	}
	json_decref(limits);
}

void
doctor_replicas(json_t *findings, const struct cell_file *members,
                const struct answer answers[LIMIT_REPLICAS])
{
	const int master = answers_master(answers, members->replicas_n);
	char replica[LIMIT_ADDRESS + 32];

	for (int i = 0; i < members->replicas_n; i++) {
		const struct answer *a = &answers[i];

		snprintf(replica, sizeof replica, "replica %d (%s)", members->replicas[i].id,
		         members->replicas[i].address);
		if (!a->heard) {
			doctor_add(
			    findings, replica,
			    "see whether lscell runs there, and whether the network leads to it",
			    "cannot be reached: %s", a->why);
			continue;
		}
		add_clock(findings, replica, a->ahead_ms);
		add_condition(findings, replica, &a->status);
	}
	if (master < 0)
		doctor_add(findings, members->name,
		           "start replicas until a majority runs (lsctl status)", "has no master");
	else if (answers[master].status.disputed != 0)
		doctor_add(findings, members->name,
		           "bring the other replicas back, or restore a backup",
		           "its replicas have different states");
	add_limits(findings, members, answers);
}

/* ---- one cell file ---- */

static bool
ask(json_t *findings, const struct ctl *ctl, const char *file, const struct cell_file *given)
{
	struct cell_file members = *given;
	struct answer answers[LIMIT_REPLICAS];
	struct noise_pair key;
	const bool asked = cell_key(ctl, file, &key) && ask_members(&members, &key) &&
	                   ask_replicas(&members, &key, answers);

	if (asked) {
		doctor_replicas(findings, &members, answers);
		if (members.version > given->version)
			doctor_add(findings, file, "lsctl cell refresh",
			           "older than the cell's list of replicas (version %" PRIu64
			           ", the cell's is %" PRIu64 ")",
			           given->version, members.version);
	}
	explicit_bzero(&key, sizeof key);
	return asked;
}

bool
doctor_cell(json_t *findings, const struct ctl *ctl, const char *file)
{
	struct cell_file given;
	char why[512];

	if (!cell_file_read(file, &given, why, sizeof why)) {
		doctor_add(findings, file, "copy it from another client of the cell", "%s", why);
		return true;
	}
	doctor_keys_beside(findings, file);
	if (cell_file_is_standalone(&given))
		return true;
	if (cell_has_key(ctl, file))
		return ask(findings, ctl, file, &given);
	log_warn("%s: no key: the replicas are not asked (give one with --key)", file);
	return true;
}
