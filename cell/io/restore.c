#include "cell/io/restore.h"

#include <stdio.h>
#include <sys/stat.h>

#include "cell/base/must.h"
#include "cell/io/clock.h"
#include "cell/io/salvage.h"
#include "cell/paxos/ballot.h"
#include "cell/wire/codec.h"

/* By so much every counter grows. At a million a second an old cell needs twelve days to catch up
 * with a copy. The same backup may be restored once more: each cell that is made later begins
 * further on, by a quarter of a million for each second, and so beyond what the earlier one gives
 * out meanwhile. There is room for forty thousand copies of copies. */
static uint64_t
jump(int64_t wall_ns)
{
	return (1ull << 40) + (wall_ns > 0 ? (uint64_t)wall_ns >> 12 : 0);
}

/* Like an entry of the log; of no ballot, so that whatever the new cell proposes is newer. */
static enum rc
apply_restore(struct tree *tree)
{
	struct buffer op = BUFFER(LIMIT_ENTRY), commands = op, payload = op;
	struct command command = {.stamp_ns = clock_wall_ns()};
	struct op restore = {.code = OP_restore, .restore = {.jump = jump(command.stamp_ns)}};
	struct tree_outcome out = {0};
	enum rc rc;

	wire_put_op(&op, &restore);
	command.op = buffer_view(&op);
	wire_put_command(&commands, &command);
	wire_put_entry(&payload, &(struct entry){.commands = {buffer_view(&commands), 1}});
	must(!op.failed && !commands.failed && !payload.failed);
	must(tree_apply(tree, tree_applied(tree) + 1, BALLOT_NONE, buffer_view(&payload), &out) ==
	     RC_OK);
	rc = out.answers[0].rc;
	tree_outcome_free(&out);
	buffer_free(&op);
	buffer_free(&commands);
	buffer_free(&payload);
	return rc;
}

static bool
become_new(struct salvage *s, struct restored *to)
{
	snprintf(to->cell, sizeof to->cell, "%s", s->cell);
	to->applied = tree_applied(s->tree);
	to->from_log = s->from_log;
	to->damaged = s->damaged;
	to->written_s = s->written_s;
	to->sessions = tree_usage(s->tree).sessions;
	if (apply_restore(s->tree) != RC_OK) {
		snprintf(s->why, sizeof s->why, "cell %s: its counters are at their end", s->cell);
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
restore_prepare(const char *source, const char *work, struct restored *restored, char *why,
                size_t why_size)
{
	struct salvage s;
	bool ok = is_directory(source) ? salvage_directory(&s, source, work)
	                               : salvage_backup(&s, source, work);

	*restored = (struct restored){0};
	ok = ok && become_new(&s, restored) && salvage_write(&s);
	if (!ok)
		snprintf(why, why_size, "%s", s.why);
	salvage_end(&s);
	return ok;
}
