/* The settings of a cell: parsed for a new cell, printed, and changed in a running one. */
#include "ctl/cell_settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cell/wire/codec.h"
#include "ctl/ask.h"
#include "ctl/cell_admin.h"

bool
cell_settings_assign(const char *text, const struct ctl_command *command, struct settings *settings)
{
	const char *equals = strchr(text, '=');
	const uint8_t code = equals == NULL ? 0 : setting_named(text, (size_t)(equals - text));
	uint64_t value;
	char why[64];

	if (equals == NULL) {
		ctl_usage(command, text, "not NAME=VALUE");
		return false;
	}
	if (code == 0) {
		ctl_usage(command, text, "no such setting");
		return false;
	}
	if (!setting_parse(code, equals + 1, &value) || value == 0) {
		snprintf(why, sizeof why, "not %s", setting_form(code));
		ctl_usage(command, text, why);
		return false;
	}
	settings->value[code] = value;
	return true;
}

/* ---- the settings in force ---- */

static json_t *
row_json(const struct setting_row *row)
{
	json_t *one = json_object();

	json_object_set_new(one, "value", json_integer((json_int_t)row->value));
	json_object_set_new(one, "unit", json_stringn((const char *)row->unit.data, row->unit.len));
	json_object_set_new(one, "longest", json_integer((json_int_t)row->longest));
	json_object_set_new(one, "lowest", json_integer((json_int_t)row->lowest));
	json_object_set_new(one, "highest", json_integer((json_int_t)row->highest));
	json_object_set_new(one, "default", json_integer((json_int_t)row->standard));
	return one;
}

static void
on_settings(void *user, const struct message *m)
{
	struct cursor rest = cursor_of(m->settings.settings.packed);
	struct setting_row row;
	json_t *all = user;

	json_object_clear(all);
	while (wire_next_setting_row(&rest, &row))
		json_object_setn_new(all, (const char *)row.name.data, row.name.len,
		                     row_json(&row));
}

json_t *
cell_settings_of_cell(const struct cell_file *cell_file, const struct noise_pair *key)
{
	json_t *all = json_object();

	if (ask_settings(cell_file, key, on_settings, all))
		return all;
	json_decref(all);
	return NULL;
}

static void
number_text(const json_t *row, const char *name, uint8_t code, char text[SETTING_TEXT])
{
	const json_int_t number = json_integer_value(json_object_get(row, name));

	if (code != 0)
		setting_print(code, (uint64_t)number, text);
	else
		snprintf(text, SETTING_TEXT, "%" JSON_INTEGER_FORMAT, number);
}

/* A setting that this version does not know is printed as a bare number. */
void
cell_settings_print(json_t *settings)
{
	char value[SETTING_TEXT], lowest[SETTING_TEXT], highest[SETTING_TEXT];
	char standard[SETTING_TEXT], longest[SETTING_TEXT];
	const char *name;
	json_t *row;

	json_object_foreach(settings, name, row)
	{
		const uint8_t code = setting_named(name, strlen(name));

		number_text(row, "value", code, value);
		number_text(row, "lowest", code, lowest);
		number_text(row, "highest", code, highest);
		number_text(row, "default", code, standard);
		number_text(row, "longest", code, longest);
		printf("%-14s %-8s %s to %s, default %s", name, value, lowest, highest, standard);
		if (strcmp(value, longest) != 0)
			printf("; leases of %s may still run", longest);
		putchar('\n');
	}
}

/* ---- changing one ---- */

int
cell_settings_change(const struct ctl *ctl, const char *text, const struct ctl_command *command)
{
	struct settings settings = {0};
	struct cell_admin o;
	int rc = CTL_OK;

	if (!cell_settings_assign(text, command, &settings))
		return CTL_USAGE;
	if (!cell_admin_begin(ctl, &o))
		return CTL_FAILED;
	for (uint8_t code = 1; code < SETTING_CODES; code++) {
		struct msg_operate what = {.what = OPERATION_SET, .value = settings.value[code]};

		if (what.value == 0)
			continue;
		what.name = bytes_of(setting_info(code)->name);
		rc = cell_admin_send(&o, &what, NULL) == CELL_ADMIN_DONE ? CTL_OK : CTL_FAILED;
	}
	cell_admin_end(&o);
	return rc;
}
