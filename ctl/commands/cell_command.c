/* cell: makes the files of a cell on several machines, shows a cell file and the settings, and
 * changes these. */
#include "ctl/cell.h"

#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "ctl/addresses.h"
#include "ctl/cell_refresh.h"
#include "ctl/cell_settings.h"

struct cell_arguments {
	const char *directory;
	struct addresses replicas;
};

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

/* NULL: no replica can be asked, or none answers. */
static json_t *
ask_cell(const struct ctl *ctl, const char *path, const struct cell_file *cell_file)
{
	struct noise_pair key;
	json_t *settings = NULL;

	if (cell_file_is_standalone(cell_file) || !cell_has_key(ctl, path))
		return NULL;
	if (cell_key(ctl, path, &key))
		settings = cell_settings_of_cell(cell_file, &key);
	explicit_bzero(&key, sizeof key);
	return settings;
}

static void
show_json(const char *path, const struct cell_file *cell_file, json_t *settings)
{
	json_t *all = cell_json(path, cell_file);

	if (settings != NULL)
		json_object_set(all, "settings", settings);
	json_dumpf(all, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(all);
}

static void
show_key(const char *what, const uint8_t *key, size_t len)
{
	char text[KEY_TEXT];

	key_to_text(key, len, text, sizeof text);
	printf("%-12s %s\n", what, text);
}

static void
show_text(const char *path, const struct cell_file *cell_file)
{
	char what[32];

	printf("%-12s %s\n%-12s %s\n", "cell", cell_file->name, "file", path);
	show_key("id", cell_file->id, CELL_ID);
	show_key("signing_key", cell_file->signing_public, SIGN_PUBLIC);
	if (cell_file->has_former)
		show_key("former_signing_key", cell_file->former_public, SIGN_PUBLIC);
	if (cell_file->has_admin)
		show_key("admin_key", cell_file->admin_public, NOISE_KEY);
	for (int i = 0; i < cell_file->replicas_n; i++) {
		const struct cell_file_replica *r = &cell_file->replicas[i];

		snprintf(what, sizeof what, "replica %d", r->id);
		if (cell_file_is_standalone(cell_file)) {
			printf("%-12s %s\n", what, "in the process of the mount");
			continue;
		}
		printf("%-12s %s\n", what, r->address);
		show_key("", r->public_key, NOISE_KEY);
	}
}

static int
show(const struct ctl *ctl)
{
	static struct cell_file cell_file;
	char path[PATH_MAX];
	json_t *settings;

	if (!cell_find(ctl, path, &cell_file))
		return CTL_FAILED;
	settings = ask_cell(ctl, path, &cell_file);
	if (ctl->json)
		show_json(path, &cell_file, settings);
	else
		show_text(path, &cell_file);
	if (!ctl->json && settings != NULL)
		cell_settings_print(settings);
	json_decref(settings);
	return CTL_OK;
}

/* ---- create ---- */

void
cell_print_made(const char *directory, const struct cell_file *cell_file)
{
	char path[PATH_MAX];

	if (cell_file_is_standalone(cell_file)) {
		printf("%-24s data directory of the cell: lsfs --standalone, or lsctl up --dir\n",
		       directory);
		return;
	}
	snprintf(path, sizeof path, "%s/%s.conf", directory, cell_file->name);
	printf("%-24s the cell file: the same for every replica and client\n", path);
	for (int i = 0; i < cell_file->replicas_n; i++) {
		snprintf(path, sizeof path, "%s/%d", directory, cell_file->replicas[i].id);
		printf("%-24s data directory of the replica at %s\n", path,
		       cell_file->replicas[i].address);
	}
	snprintf(path, sizeof path, "%s/admin.key", directory);
	printf("%-24s the key of principal admin: keep it secret\n", path);
}

static int
usage(const char *what, const char *why)
{
	return ctl_usage(&cell_command, what, why);
}

static int
create(const struct ctl *ctl, const char *name, const struct cell_arguments *a)
{
	static struct cell_file cell_file;
	char path[PATH_MAX], why[LIMIT_WHY];

	for (int i = 0; i < a->replicas.set_n; i++)
		if (!cell_settings_assign(a->replicas.set[i], &cell_command, &cell_file.settings))
			return CTL_USAGE;
	if (settings_wrong(&cell_file.settings, why, sizeof why))
		return usage("--set", why);
	snprintf(cell_file.name, sizeof cell_file.name, "%s", name);
	addresses_to_cell_file(&a->replicas, &cell_file);
	cell_file.is_private = a->replicas.is_private;
	if (!cell_make(a->directory, &cell_file, NULL))
		return CTL_FAILED;
	snprintf(path, sizeof path, "%s/%s.conf", a->directory, cell_file.name);
	if (ctl->json)
		show_json(path, &cell_file, NULL);
	else
		cell_print_made(a->directory, &cell_file);
	return CTL_OK;
}

/* ---- the command ---- */

static int
run_create(const struct ctl *ctl, int argc, char **argv, const struct cell_arguments *a)
{
	int code;

	if (argc < 1)
		return usage("CELL", "needed");
	if (argc > 1)
		return usage(argv[1], "unexpected argument");
	if (!cell_file_cell_name_valid(argv[0]))
		return usage(argv[0], "not a cell's name");
	if (!a->directory || a->directory[0] == '\0')
		return usage("--dir", "needed");
	if (a->replicas.n == 0)
		return usage("--replica", "needed, once for each replica");
	code = addresses_check(&a->replicas, &cell_command);
	return code ? code : create(ctl, argv[0], a);
}

static int
run_show(const struct ctl *ctl, int argc, char **argv)
{
	if (argc > 0)
		return usage(argv[0], "unexpected argument");
	return show(ctl);
}

static int
run_set(const struct ctl *ctl, int argc, char **argv)
{
	if (argc < 1)
		return usage("NAME=VALUE", "needed");
	if (argc > 1)
		return usage(argv[1], "unexpected argument");
	return cell_settings_change(ctl, argv[0], &cell_command);
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	struct cell_arguments a = {0};
	int code = addresses_scan(ctl, argc, argv, &a.directory, &a.replicas);

	if (code || ctl->help)
		return code;
	argc -= optind;
	argv += optind;
	if (argc == 0)
		return usage("create, show, set, refresh or rotate-key", "needed");
	if (strcmp(argv[0], "create") == 0)
		return run_create(ctl, argc - 1, argv + 1, &a);
	if (a.directory || a.replicas.n > 0 || a.replicas.set_n > 0 || a.replicas.is_private)
		return usage(a.directory            ? "--dir"
		             : a.replicas.n > 0     ? "--replica"
		             : a.replicas.set_n > 0 ? "--set"
		                                    : "--private",
		             "only for create");
	if (strcmp(argv[0], "show") == 0)
		return run_show(ctl, argc - 1, argv + 1);
	if (strcmp(argv[0], "set") == 0)
		return run_set(ctl, argc - 1, argv + 1);
	if (strcmp(argv[0], "refresh") == 0)
		return argc > 1 ? usage(argv[1], "unexpected argument") : cell_refresh(ctl);
	if (strcmp(argv[0], "rotate-key") == 0)
		return argc > 1 ? usage(argv[1], "unexpected argument") : cell_rotate_key(ctl);
	return usage(argv[0], "neither create, show, set, refresh nor rotate-key");
}

const struct ctl_command cell_command = {
    "cell",
    "create CELL --dir DIR --replica HOST:PORT [--replica ...] [--set NAME=VALUE ...] [--private] "
    "| show |"
    " set NAME=VALUE | refresh | rotate-key",
    "makes the files of a cell on several machines; shows its file and settings; sets one; brings"
    " the file up to date; gives it another signing key",
    .run = run,
};
