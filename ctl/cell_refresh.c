#include "ctl/cell_refresh.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cell/config/cell_file_edit.h"
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
	if (o->cell_file.version != UINT64_MAX)
		return true;
	log_error("%s: no replica answers", o->file);
	return false;
}

static bool
bring_up_to_date(const struct ctl *ctl, const struct cell_admin *o)
{
	struct cell_file was;
	char why[512];

	if (!cell_read(o->file, &was))
		return false;
	if (was.version >= o->cell_file.version)
		return report(ctl, o, false);
	if (cell_file_refresh(o->file, &o->cell_file, why, sizeof why))
		return report(ctl, o, true);
	log_error("%s", why);
	return false;
}

int
cell_refresh(const struct ctl *ctl)
{
	struct cell_admin o;
	const bool ok = find_list(ctl, &o) && bring_up_to_date(ctl, &o);

	cell_admin_end(&o);
	return ok ? CTL_OK : CTL_FAILED;
}
