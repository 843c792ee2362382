#include "cell/view/findings.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include "cell/view/output.h"
#include "cell/wire/condition.h"

static const struct {
	const char *name;
	enum severity severity;
	const char *what, *todo;
} kinds[] = {
#define FINDING(name, severity, what, todo) {#name, SEVERITY_##severity, what, todo},
    FINDINGS(FINDING)
#undef FINDING
};

enum { KINDS = sizeof kinds / sizeof kinds[0] };

static const char *const severities[] = {
    [SEVERITY_WARNING] = "warning",
    [SEVERITY_DEGRADED] = "degraded",
    [SEVERITY_DOWN] = "down",
};

/* What is found twice is one finding: the kernel's table of locks, read while it changes, may show
 * one of them again. */
static void
add(json_t *findings, enum finding kind, const char *object, const char *what, const char *todo)
{
	json_t *one = json_object();
	const json_t *found;
	size_t i;

	json_object_set_new(one, "condition", json_string(kinds[kind].name));
	json_object_set_new(one, "severity", json_string(severities[kinds[kind].severity]));
	json_object_set_new(one, "object", json_string(object));
	json_object_set_new(one, "what", json_path(bytes_of(what)));
	json_object_set_new(one, "do", json_string(todo));
	json_array_foreach(findings, i, found) {
		if (json_equal(found, one)) {
			json_decref(one);
			return;
		}
	}
	json_array_append_new(findings, one);
}

void
finding_add(json_t *findings, enum finding kind, const char *object)
{
	add(findings, kind, object, kinds[kind].what, kinds[kind].todo);
}

void
finding_add_detail(json_t *findings, enum finding kind, const char *object, const char *format, ...)
{
	char what[1024];
	const size_t n = (size_t)snprintf(what, sizeof what, "%s: ", kinds[kind].what);
	va_list args;

	va_start(args, format);
	vsnprintf(what + n, sizeof what - n, format, args);
	va_end(args);
	add(findings, kind, object, what, kinds[kind].todo);
}

void
finding_add_condition(json_t *findings, const char *object, unsigned condition)
{
	const struct condition_words *words = condition_words(condition);

	for (size_t i = 0; i < KINDS; i++)
		if (kinds[i].what == NULL && strcmp(kinds[i].name, words->name) == 0)
			add(findings, (enum finding)i, object, words->means,
			    kinds[i].todo != NULL ? kinds[i].todo : words->todo);
}

static int
severity_of(const json_t *one)
{
	const char *severity = json_string_value(json_object_get(one, "severity"));

	for (int i = SEVERITY_DOWN; i > SEVERITY_WARNING; i--)
		if (strcmp(severity, severities[i]) == 0)
			return i;
	return SEVERITY_WARNING;
}

int
findings_worst(const json_t *findings)
{
	const json_t *one;
	int worst = -1;
	size_t i;

	json_array_foreach(findings, i, one)
		if (severity_of(one) > worst)
			worst = severity_of(one);
	return worst;
}

const char *
findings_verdict(const json_t *findings)
{
	const int worst = findings_worst(findings);

	return worst < SEVERITY_DEGRADED ? "good" : severities[worst];
}

static const char *
text_of(const json_t *one, const char *key)
{
	const char *text = json_string_value(json_object_get(one, key));

	return text ? text : "?"; /* not UTF-8 */
}

void
findings_sentence(const json_t *findings, const char *cell, char *text, size_t size)
{
	const int worst = findings_worst(findings);
	const char *const verb = worst == SEVERITY_DOWN ? "is down" : "works";
	const json_t *one;
	size_t i;

	snprintf(text, size, "%s works", cell);
	json_array_foreach(findings, i, one) {
		const char *const object = text_of(one, "object");

		if (severity_of(one) < SEVERITY_DEGRADED || severity_of(one) < worst)
			continue;
		if (strcmp(object, cell) != 0)
			snprintf(text, size, "%s %s; %s: %s", cell, verb, object,
			         text_of(one, "what"));
		else if (worst == SEVERITY_DOWN)
			snprintf(text, size, "%s %s", cell, text_of(one, "what"));
		else
			snprintf(text, size, "%s %s; %s", cell, verb, text_of(one, "what"));
		return;
	}
}

void
findings_print(const json_t *findings, int severity, const char *prefix, bool remedies)
{
	const json_t *one;
	size_t i;

	json_array_foreach(findings, i, one) {
		if (severity_of(one) >= severity)
			line_print("%s %s: %s%s%s", prefix, text_of(one, "object"),
			           text_of(one, "what"), remedies ? ": " : "",
			           remedies ? text_of(one, "do") : "");
	}
}
