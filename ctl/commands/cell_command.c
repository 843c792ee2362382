/* cell: makes the files of a cell on several machines, shows a cell file and the settings, changes
 * these, brings the file up to date, and gives the cell another signing key. */
#include "ctl/cell.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "cell/base/setting.h"
#include "cell/config/cell_file_edit.h"
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "cell/view/ask.h"
#include "cell/view/output.h"
#include "cell/wire/codec.h"
#include "ctl/cell_admin.h"

/* ---- settings ---- */

/* Takes NAME=VALUE; false after an error message. */
static bool
assign(void *to, const char *text)
{
	const char *equals = strchr(text, '=');
	const uint8_t code = equals == NULL ? 0 : setting_named(text, (size_t)(equals - text));
	uint64_t value;
	char why[64];

	if (equals == NULL) {
		ctl_usage(text, "not NAME=VALUE");
		return false;
	}
	if (code == 0) {
		ctl_usage(text, "no such setting");
		return false;
	}
	if (!setting_parse(code, equals + 1, &value) || value == 0) {
		snprintf(why, sizeof why, "not %s", setting_form(code));
		ctl_usage(text, why);
		return false;
	}
	((struct settings *)to)->value[code] = value;
	return true;
}

static void
take_settings(void *user, const struct message *m)
{
	struct cursor rest = cursor_of(m->settings.settings.packed);
	struct setting_row row;
	json_t *all = user, *one;

	json_object_clear(all);
	while (wire_next_setting_row(&rest, &row)) {
		one = json_object();
		json_object_set_new(one, "value", json_number(row.value));
		json_object_set_new(one, "unit", json_text(row.unit.data, row.unit.len));
		json_object_set_new(one, "longest", json_number(row.longest));
		json_object_set_new(one, "lowest", json_number(row.lowest));
		json_object_set_new(one, "highest", json_number(row.highest));
		json_object_set_new(one, "default", json_number(row.standard));
		json_object_setn_new(all, (const char *)row.name.data, row.name.len, one);
	}
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
static void
print_settings(json_t *settings)
{
	char value[SETTING_TEXT], lowest[SETTING_TEXT], highest[SETTING_TEXT];
	char standard[SETTING_TEXT], longest[SETTING_TEXT];
	const char *name;
	json_t *row;

	json_object_foreach(settings, name, row) {
		const uint8_t code = setting_named(name, strlen(name));
		bool lowered;

		number_text(row, "value", code, value);
		number_text(row, "lowest", code, lowest);
		number_text(row, "highest", code, highest);
		number_text(row, "default", code, standard);
		number_text(row, "longest", code, longest);
		lowered = strcmp(value, longest) != 0;
		line_print("%-16s %-8s %s to %s, default %s%s%s%s", name, value, lowest, highest,
		           standard, lowered ? "; leases of " : "", lowered ? longest : "",
		           lowered ? " may still run" : "");
	}
}

static int
run_set(const struct ctl *ctl, char **argv)
{
	struct settings settings = {0};
	int rc = CTL_OK;

	if (!assign(&settings, argv[0]))
		return CTL_USAGE;
	for (uint8_t code = 1; code < SETTING_CODES; code++) {
		struct msg_operate what = {.what = OPERATION_SET, .value = settings.value[code]};

		if (what.value == 0)
			continue;
		what.name = bytes_of(setting_info(code)->name);
		rc = cell_admin_run(ctl, &what);
	}
	return rc;
}

/* ---- show ---- */

static json_t *
key_json(const uint8_t *key, size_t len)
{
	char text[KEY_TEXT];

	return key_to_text(key, len, text, sizeof text) ? json_string(text) : json_null();
}

json_t *
cell_json(const char *path, const struct cell_file *cell_file)
{
	json_t *all = json_object(), *replicas = json_array();

	json_object_set_new(all, "cell", json_string(cell_file->name));
	json_object_set_new(all, "file", json_string(path));
	json_object_set_new(all, "id", key_json(cell_file->id, CELL_ID));
	json_object_set_new(all, "signing_key", key_json(cell_file->signing_public, SIGN_PUBLIC));
	if (cell_file->has_former)
		json_object_set_new(all, "former_signing_key",
		                    key_json(cell_file->former_public, SIGN_PUBLIC));
	if (cell_file->has_admin)
		json_object_set_new(all, "admin_key", key_json(cell_file->admin_public, NOISE_KEY));
	for (int i = 0; i < cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &cell_file->replicas[i];
		json_t *one = json_object();

		json_object_set_new(one, "id", json_integer(r->id));
		if (!cell_file_is_standalone(cell_file)) {
			json_object_set_new(one, "address", json_string(r->address));
			json_object_set_new(one, "key", key_json(r->public_key, NOISE_KEY));
		}
		json_array_append_new(replicas, one);
	}
	json_object_set_new(all, "replicas", replicas);
	return all;
}

/* The settings of the cell, an object for each, according to the replica with the newest state
 * among those that answer. NULL: no replica can be asked, or none answers. */
static json_t *
settings_of(const struct ctl *ctl, const char *path, const struct cell_file *cell_file)
{
	json_t *settings = json_object();
	struct noise_pair key;
	bool ok = !cell_file_is_standalone(cell_file) && cell_has_key(ctl, path) &&
	          cell_key(ctl, path, &key);

	if (ok) {
		ok = ask_settings(cell_file, &key, take_settings, settings);
		explicit_bzero(&key, sizeof key);
	}
	if (ok)
		return settings;
	json_decref(settings);
	return NULL;
}

static void
show_json(const char *path, const struct cell_file *cell_file, json_t *settings)
{
	json_t *all = cell_json(path, cell_file);

	if (settings != NULL)
		json_object_set(all, "settings", settings);
	json_text_print(all);
	json_decref(all);
}

static void
show_text(const char *path, const struct cell_file *cell_file)
{
	json_t *all = cell_json(path, cell_file), *replica;
	char what[32];
	size_t i;

	table_print_values(all);
	json_array_foreach(json_object_get(all, "replicas"), i, replica) {
		snprintf(what, sizeof what, "replica %d", (int)json_number_of(replica, "id"));
		if (cell_file_is_standalone(cell_file)) {
			printf("%-12s %s\n", what, "in the process of the mount");
			continue;
		}
		line_print("%-12s %s", what, json_text_of(replica, "address"));
		printf("%-12s %s\n", "", json_text_of(replica, "key"));
	}
	json_decref(all);
}

static int
run_show(const struct ctl *ctl, char **argv)
{
	static struct cell_file cell_file;
	char path[PATH_MAX];
	json_t *settings;

	(void)argv;
	if (!cell_find(ctl, path, &cell_file))
		return CTL_FAILED;
	settings = settings_of(ctl, path, &cell_file);
	if (ctl->json) {
		show_json(path, &cell_file, settings);
	} else {
		show_text(path, &cell_file);
		if (settings != NULL)
			print_settings(settings);
	}
	json_decref(settings);
	return CTL_OK;
}

/* ---- create ---- */

static const char *directory;
static struct addresses replicas;
static struct settings settings;
static bool is_private;

static int
run_create(const struct ctl *ctl, char **argv)
{
	static struct cell_file cell_file;
	char path[PATH_MAX], why[LIMIT_WHY];

	if (!cell_file_cell_name_valid(argv[0]))
		return ctl_usage(argv[0], "not a cell's name");
	if (settings_wrong(&settings, why, sizeof why))
		return ctl_usage("--set", why);
	snprintf(cell_file.name, sizeof cell_file.name, "%s", argv[0]);
	addresses_to_cell_file(&replicas, &cell_file);
	cell_file.is_private = is_private;
	cell_file.settings = settings;
	if (!cell_make(directory, &cell_file, NULL))
		return CTL_FAILED;
	snprintf(path, sizeof path, "%s/%s.conf", directory, cell_file.name);
	if (ctl->json)
		show_json(path, &cell_file, NULL);
	else
		cell_print_made(directory, &cell_file);
	return CTL_OK;
}

/* ---- refresh and rotate-key ---- */

static void
report(const struct ctl *ctl, const struct cell_admin *o, bool changed)
{
	json_t *all;

	if (ctl->json) {
		all = cell_json(o->file, &o->cell_file);
		json_object_set_new(all, "version", json_number(o->cell_file.version));
		json_object_set_new(all, "changed", json_boolean(changed));
		json_text_print(all);
		json_decref(all);
		return;
	}
	printf("%s: %s: version %" PRIu64 ", replicas", o->file,
	       changed ? "brought up to date" : "up to date", o->cell_file.version);
	for (int i = 0; i < o->cell_file.replicas_n; i++)
		printf(" %d", o->cell_file.replicas[i].id);
	putchar('\n');
}

/* The replica that answers may be behind: its keys count unless those of a later state are
 * known. */
static void
take_keys(void *user, const struct message *m)
{
	struct cell_file *cell_file = user;
	const struct bytes keys = m->settings.keys;

	if (keys.len != 2 * SIGN_PUBLIC || m->settings.applied < cell_file->key_version)
		return;
	memcpy(cell_file->signing_public, keys.data, SIGN_PUBLIC);
	memcpy(cell_file->former_public, keys.data + SIGN_PUBLIC, SIGN_PUBLIC);
	cell_file->has_former = true;
	cell_file->key_version = m->settings.applied;
}

bool
cell_ask_keys(struct cell_file *cell_file, const struct noise_pair *key)
{
	return ask_settings(cell_file, key, take_keys, cell_file);
}

/* Asks the cell for its list of replicas and its signing keys, into `o`; the replicas to ask are
 * those of the newest list that this machine knows. False after an error message. */
static bool
find_list(const struct ctl *ctl, struct cell_admin *o)
{
	if (!cell_admin_begin(ctl, o))
		return false;
	o->cell_file.version = UINT64_MAX; /* until a replica tells one */
	if (!ask_members(&o->cell_file, &o->key))
		return false;
	if (o->cell_file.version != UINT64_MAX && cell_ask_keys(&o->cell_file, &o->key))
		return true;
	return log_error("%s: no replica answers", o->file);
}

static bool
has_newer_keys(const struct cell_file *was, const struct cell_file *is)
{
	return is->has_former && is->key_version > was->key_version &&
	       memcmp(was->signing_public, is->signing_public, SIGN_PUBLIC) != 0;
}

bool
cell_lacks_key(const struct cell_file *given, const struct cell_file *members,
               const struct noise_pair *key)
{
	struct cell_file newest = *given;

	return ask_settings(members, key, take_keys, &newest) && has_newer_keys(given, &newest);
}

/* Writes the list and the keys of the cell into its file, but none that is older than that of the
 * file. False after an error message. */
static bool
bring_up_to_date(const struct ctl *ctl, struct cell_admin *o)
{
	struct cell_file was, *is = &o->cell_file;
	bool newer_keys;
	char why[512];

	if (!cell_read(o->file, &was))
		return false;
	newer_keys = has_newer_keys(&was, is);
	if (!newer_keys) {
		memcpy(is->signing_public, was.signing_public, SIGN_PUBLIC);
		memcpy(is->former_public, was.former_public, SIGN_PUBLIC);
		is->has_former = was.has_former;
		is->key_version = was.key_version;
	}
	if (was.version >= is->version && !newer_keys) {
		report(ctl, o, false);
		return true;
	}
	if (was.version > is->version) {
		memcpy(is->replicas, was.replicas, sizeof is->replicas);
		is->replicas_n = was.replicas_n;
		is->version = was.version;
	}
	if (!cell_file_refresh(o->file, is, why, sizeof why))
		return log_error("%s", why);
	report(ctl, o, true);
	return true;
}

static int
run_refresh(const struct ctl *ctl, char **argv)
{
	struct cell_admin o;
	const bool ok = find_list(ctl, &o) && bring_up_to_date(ctl, &o);

	(void)argv;
	cell_admin_end(&o);
	return ok ? CTL_OK : CTL_FAILED;
}

static int
run_rotate(const struct ctl *ctl, char **argv)
{
	const struct msg_operate what = {.what = OPERATION_ROTATE_KEY};
	int code = cell_admin_run(ctl, &what);

	if (code != CTL_OK)
		return code;
	code = run_refresh(ctl, argv);
	if (code != CTL_OK)
		log_error("the cell has a new signing key all the same: bring its file up to date "
		          "(lsctl cell refresh)");
	return code;
}

static const struct ctl_option options[] = {
    {"dir", 0, "DIR", &directory, .only = "create", .needed = true},
    {"replica", 0, "HOST:PORT", &replicas, addresses_take, .only = "create", .needed = true},
    {"set", 0, "NAME=VALUE", &settings, assign, .only = "create"},
    {"private", .to = &is_private, .only = "create"},
    {0},
};

const struct ctl_command cell_command = {
    "cell",
    "makes the files of a cell on several machines (--replica and --set once for each); shows its"
    " file and settings; sets one; brings the file up to date; gives it another signing key",
    {{.name = "create", .words = {"CELL"}, .run = run_create},
     {.name = "show", .run = run_show},
     {.name = "set", .words = {"NAME=VALUE"}, .run = run_set},
     {.name = "refresh", .run = run_refresh},
     {.name = "rotate-key", .run = run_rotate}},
    options,
};
