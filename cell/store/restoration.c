#include "cell/store/restoration.h"

#include <stdio.h>
#include <sys/stat.h>

#include "cell/sys/clock.h"
#include "cell/store/salvage.h"

static bool
become_new(struct salvage *s, struct restoration *to)
{
	snprintf(to->cell, sizeof to->cell, "%s", s->cell);
	to->applied = tree_applied(s->tree);
	to->from_log = s->from_log;
	to->damaged = s->damaged;
	to->written_s = s->written_s;
	to->sessions = tree_usage(s->tree).sessions;
	if (tree_restore(s->tree, clock_wall_ns()) != RC_OK) {
		snprintf(s->why, sizeof s->why, "cell %s: its counters can't grow any further",
		         s->cell);
		return false;
	}
	to->nodes = tree_usage(s->tree).nodes;
	to->bytes = tree_usage(s->tree).bytes;
	return true;
}

static bool
is_directory(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

bool
restoration_prepare(const char *source, const char *work, struct restoration *restored, char *why,
                    size_t why_size)
{
	struct salvage s;
	bool ok = is_directory(source) ? salvage_directory(&s, source, work)
	                               : salvage_backup(&s, source, work);

	*restored = (struct restoration){0};
	ok = ok && become_new(&s, restored) && salvage_write(&s);
	if (!ok)
		snprintf(why, why_size, "%s", s.why);
	salvage_end(&s);
	return ok;
}
