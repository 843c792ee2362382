#include "ctl/cell_status.h"

#include <stdio.h>
#include <string.h>
#include "cell/view/findings.h"
#include "cell/view/output.h"

static bool
is_reachable(const json_t *one)
{
	return json_is_true(json_object_get(one, "reachable"));
}

static void
role_text(const json_t *one, char text[COLUMN_TEXT])
{
	snprintf(text, COLUMN_TEXT, "%s",
	         is_reachable(one) ? json_text_of(one, "role") : "unreachable");
}

static void
member_text(const json_t *one, char text[COLUMN_TEXT])
{
	snprintf(text, COLUMN_TEXT, "%s",
	         json_is_true(json_object_get(one, "voter")) ? "voter" : "learner");
}

static void
condition_text(const json_t *one, char text[COLUMN_TEXT])
{
	snprintf(text, COLUMN_TEXT, "%s",
	         is_reachable(one) ? json_text_of(one, "condition") : "unreachable");
}

static void
position_text(const json_t *one, char text[COLUMN_TEXT])
{
	text[0] = '\0';
	if (is_reachable(one))
		snprintf(text, COLUMN_TEXT, "%" JSON_INTEGER_FORMAT,
		         json_number_of(one, "applied"));
}

static void
lag_text(const json_t *one, char text[COLUMN_TEXT])
{
	text[0] = '\0';
	if (is_reachable(one))
		snprintf(text, COLUMN_TEXT, "%" JSON_INTEGER_FORMAT, json_number_of(one, "lag"));
}

/* The master may know more of a replica that cannot be reached. */
static void
known_position_text(const json_t *one, char text[COLUMN_TEXT])
{
	text[0] = '\0';
	if (is_reachable(one) || json_object_get(one, "heard_ms") != NULL)
		snprintf(text, COLUMN_TEXT, "%" JSON_INTEGER_FORMAT,
		         json_number_of(one, "applied"));
}

static void
known_lag_text(const json_t *one, char text[COLUMN_TEXT])
{
	lag_text(one, text);
	if (!is_reachable(one) && json_object_get(one, "heard_ms") != NULL)
		snprintf(text, COLUMN_TEXT, "heard %" JSON_INTEGER_FORMAT " s ago",
		         json_number_of(one, "heard_ms") / 1000);
}

static void
trouble_text(const json_t *one, char text[COLUMN_TEXT])
{
	const char *condition = json_text_of(one, "condition");
	const bool votes = !is_reachable(one) || strcmp(condition, "voting") == 0;

	snprintf(text, COLUMN_TEXT, "%s%s%s", votes ? "" : condition, votes ? "" : " ",
	         json_is_true(json_object_get(one, "disk_full")) ? "disk full" : "");
	text[strlen(text) - (text[0] != '\0' && text[strlen(text) - 1] == ' ')] = '\0';
}

static void
version_text(const json_t *one, char text[COLUMN_TEXT])
{
	snprintf(text, COLUMN_TEXT, "%s", is_reachable(one) ? json_text_of(one, "version") : "");
}

static void
link_text(const json_t *from, json_int_t to, char text[24])
{
	const json_t *link;
	size_t i;

	snprintf(text, 24, "%s", json_number_of(from, "id") == to ? "-" : "");
	json_array_foreach(json_object_get(from, "links"), i, link) {
		if (json_number_of(link, "id") != to)
			continue;
		if (json_is_true(json_object_get(link, "up")))
			snprintf(text, 24, "up");
		else
			snprintf(text, 24, "%" JSON_INTEGER_FORMAT " s",
			         json_number_of(link, "down_ms") / 1000);
	}
}

/* The connections of each, or for how long it has had none. */
static void
print_links(const json_t *replicas)
{
	const json_t *from, *to;
	char text[24];
	size_t i, j;

	printf("\n%-8s", "link to");
	json_array_foreach(replicas, j, to)
		printf(" %6" JSON_INTEGER_FORMAT, json_number_of(to, "id"));
	putchar('\n');
	json_array_foreach(replicas, i, from) {
		printf("from %-3" JSON_INTEGER_FORMAT, json_number_of(from, "id"));
		json_array_foreach(replicas, j, to) {
			link_text(from, json_number_of(to, "id"), text);
			printf(" %6s", text);
		}
		putchar('\n');
	}
}

static void
master_text(const json_t *one, char text[COLUMN_TEXT])
{
	snprintf(text, COLUMN_TEXT, "%s",
	         strcmp(json_text_of(one, "role"), "master") == 0 ? "master" : "");
}

void
replica_table_print(const json_t *health)
{
	static const struct column columns[] = {
	    {"replica", -8, "id", NULL},    {"address", -24, "address", NULL},
	    {"role", -12, NULL, role_text}, {"position", 10, NULL, position_text},
	    {"lag", 6, NULL, lag_text},     {"version", -8, NULL, version_text},
	    {"", -1, NULL, trouble_text},   {0},
	};
	const json_t *replicas = json_object_get(health, "replicas");

	putchar('\n');
	table_print(replicas, columns);
	if (json_array_size(replicas) > 1)
		print_links(replicas);
}

void
replica_table_print_members(const json_t *health)
{
	static const struct column columns[] = {
	    {"replica", -8, "id", NULL},
	    {"address", -24, "address", NULL},
	    {"role", -8, NULL, member_text},
	    {"condition", -12, NULL, condition_text},
	    {"position", 10, NULL, known_position_text},
	    {"lag", 6, NULL, known_lag_text},
	    {"", -1, NULL, master_text},
	    {0},
	};

	table_print(json_object_get(health, "replicas"), columns);
	findings_print(json_object_get(health, "problems"), SEVERITY_WARNING, "problem     ",
	               false);
}
