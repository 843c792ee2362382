#include "ctl/cell_refresh.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cell/config/cell_file_edit.h"
#include "cell/config/key_file.h"
#include "cell/sys/log.h"
#include "ctl/ask.h"
#include "ctl/cell.h"
#include "ctl/cell_admin.h"

static bool
report(const struct ctl *ctl, const struct cell_admin *o, bool changed)
{
	json_t *all;

	if (ctl->json) {
		all = cell_json(o->file, &o->cell_file);
		json_object_set_new(all, "version", json_integer((json_int_t)o->cell_file.version));
		json_object_set_new(all, "changed", json_boolean(changed));
		json_dumpf(all, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(all);
		return true;
	}
	printf("%s: %s: version %" PRIu64 ", replicas", o->file,
	       changed ? "brought up to date" : "up to date", o->cell_file.version);
	for (int i = 0; i < o->cell_file.replicas_n; i++)
		printf(" %d", o->cell_file.replicas[i].id);
	putchar('\n');
	return true;
}

/* Of the state of any replica, which may be behind: it counts unless the keys that are known are
 * those of a later state. */
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
cell_refresh_keys(struct cell_admin *o)
{
	return ask_settings(&o->cell_file, &o->key, take_keys, &o->cell_file);
}

/* The cell's list of replicas, in `o`, which is asked for with the newest list that this machine
 * knows. */
static bool
find_list(const struct ctl *ctl, struct cell_admin *o)
{
	if (!cell_admin_begin(ctl, o))
		return false;
	o->cell_file.version = UINT64_MAX; /* until a replica tells one */
	if (!ask_members(&o->cell_file, &o->key))
		return false;
	if (o->cell_file.version != UINT64_MAX && cell_refresh_keys(o))
		return true;
	log_error("%s: no replica answers", o->file);
	return false;
}

static bool
has_newer_keys(const struct cell_file *was, const struct cell_file *is)
{
	return is->has_former && is->key_version > was->key_version &&
	       memcmp(was->signing_public, is->signing_public, SIGN_PUBLIC) != 0;
}

static void
keep_keys(struct cell_file *is, const struct cell_file *was)
{
	memcpy(is->signing_public, was->signing_public, SIGN_PUBLIC);
	memcpy(is->former_public, was->former_public, SIGN_PUBLIC);
	is->has_former = was->has_former;
	is->key_version = was->key_version;
}

static void
keep_list(struct cell_file *is, const struct cell_file *was)
{
	memcpy(is->replicas, was->replicas, sizeof is->replicas);
	is->replicas_n = was->replicas_n;
	is->version = was->version;
}

static bool
bring_up_to_date(const struct ctl *ctl, struct cell_admin *o)
{
	struct cell_file was;
	bool newer_keys;
	char why[512];

	if (!cell_read(o->file, &was))
		return false;
	newer_keys = has_newer_keys(&was, &o->cell_file);
	if (!newer_keys)
		keep_keys(&o->cell_file, &was);
	if (was.version >= o->cell_file.version && !newer_keys)
		return report(ctl, o, false);
	if (was.version > o->cell_file.version)
		keep_list(&o->cell_file, &was);
	if (cell_file_refresh(o->file, &o->cell_file, why, sizeof why))
		return report(ctl, o, true);
	log_error("%s", why);
	return false;
}

int
cell_rotate_key(const struct ctl *ctl)
{
	const struct msg_operate what = {.what = OPERATION_ROTATE_KEY};
	struct cell_admin o;
	bool done;

	if (!cell_admin_begin(ctl, &o))
		return CTL_FAILED;
	done = cell_admin_send(&o, &what, NULL) == CELL_ADMIN_DONE;
	cell_admin_end(&o);
	return done ? cell_refresh(ctl) : CTL_FAILED;
}

int
cell_refresh(const struct ctl *ctl)
{
	struct cell_admin o;
	const bool ok = find_list(ctl, &o) && bring_up_to_date(ctl, &o);

	cell_admin_end(&o);
	return ok ? CTL_OK : CTL_FAILED;
}
