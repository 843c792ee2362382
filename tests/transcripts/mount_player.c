/* Plays the transcripts of the mount: a command is a call of the kernel, a signal, the time, or
 * what another machine does; below it stands what the mount decides, asks the cell and answers (see
 * docs/testing.md). Processes are 100, 200 and 300, each with the threads after its number. */
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "tests/transcripts/mount_player.h"

/* ---- signals, time, the session ---- */

static uint64_t
waiting_call(struct player *p)
{
	const char *number = script_word(p->s);
	uint64_t call = number ? strtoull(number, NULL, 10) : p->b->calls;

	while (!number && call && bench_answered(p->b, call))
		call--;
	return call;
}

COMMAND(signal)
{
	bench_interrupt(p->b, waiting_call(p));
}

COMMAND(freeze)
{
	bench_freeze(p->b, waiting_call(p));
}

COMMAND(kill)
{
	bench_kill(p->b, waiting_call(p));
}

COMMAND(wait)
{
	p->call = 0;
	bench_wait(p->b, (int64_t)script_number(s));
}

COMMAND(session)
{
	const char *state = script_needed(s);

	p->call = 0;
	p->b->client.status.grace_end = mono_add(p->b->now, script_value_ms(s, "grace", 45000));
	p->b->client.counts.connections += !strcmp(state, "again");
	if (!strcmp(state, "new"))
		bench_new_session(p->b);
	else
		bench_state(p->b, !strcmp(state, "safe")       ? CLIENT_SAFE
		                  : !strcmp(state, "again")    ? CLIENT_SAFE
		                  : !strcmp(state, "jeopardy") ? CLIENT_JEOPARDY
		                                               : CLIENT_EXPIRED);
}

/* The client tells of an event of a file, or of the session (-). */
COMMAND(event)
{
	static const char *const kinds[] = {
	    [EVENT_CONTENTS_MODIFIED] = "modified",
	    [EVENT_CHILD_ADDED] = "added",
	    [EVENT_HANDLE_INVALID] = "invalid",
	    [EVENT_LOCK_ACQUIRED] = "acquired",
	    [EVENT_GAP] = "gap",
	    [EVENT_MASTER_FAILED_OVER] = "failed_over",
	    [EVENT_EXPIRED] = "expired",
	};
	const char *kind = script_needed(s), *name = script_needed(s);
	const char *child = script_value(s, "child"), *path = script_value(s, "path");
	struct client_watched w = {.generation = script_value_number(s, "version", 0),
	                           .path = bytes_of(path ? path : ""),
	                           .name = bytes_of(child ? child : "")};

	for (size_t i = 1; i < sizeof kinds / sizeof *kinds; i++)
		if (kinds[i] && !strcmp(kinds[i], kind))
			w.kind = (enum watch_event_kind)i;
	w.node = *name == '-' ? 0 : call_inode(p, name);
	p->call = 0;
	for (uint64_t n = script_value_number(s, "count", 1); n > 0; n--)
		bench_watched(p->b, &w, 1795376541123456789);
}

/* ---- the client's cache ---- */

COMMAND(leave)
{
	p->call = 0;
	p->b->client.leave_end = mono_add(p->b->now, span_ms((int64_t)script_number(s)));
}

COMMAND(late)
{
	p->b->late = span_ms((int64_t)script_number(s));
}

COMMAND(dropped)
{
	const char *name = script_needed(s);

	p->call = 0;
	bench_dropped(p->b, strcmp(name, "everything") ? call_inode(p, name) : 0);
}

/* ---- the cell and the other machine ---- */

COMMAND(hold)
{
	p->b->hold = true;
}

COMMAND(resume)
{
	p->call = 0;
	bench_answer_all(p->b);
	p->b->hold = false;
}

COMMAND(answer)
{
	const char *as = script_value(s, "as");
	const uint64_t known = script_value_number(s, "knows", 0);

	p->call = 0;
	if (p->b->pending_n == 0)
		script_misuse(s, "no request waits for an answer");
	if (known)
		p->b->pending[0].op.get_contents.generation = known;
	if (as)
		bench_answer_with(p->b, script_rc(s, as));
	else if (script_value(s, "lost") != NULL)
		bench_lose_answer(p->b);
	else if (script_value(s, "newest") != NULL)
		bench_answer_newest(p->b);
	else
		bench_answer(p->b);
}

static uint64_t
node_of(struct player *p, const char *name)
{
	return lookup(p->b->cell, NODE_ROOT, name);
}

static void
write_elsewhere(struct player *p, const char *name, struct bytes contents)
{
	uint64_t node = node_of(p, name);
	char *copy = bytes_to_text(contents);

	if (node == 0)
		node = new_file(p->b->cell, NODE_ROOT, name);
	assert_int_equal(write_file(p->b->cell, node, copy), RC_OK);
	free(copy);
}

/* From now on nobody may read it, nor have the other rights up to `last`. */
static enum rc
restrict_elsewhere(struct bench *b, uint64_t node, uint8_t last)
{
	enum rc rc = RC_OK;

	new_file(b->cell, lookup(b->cell, NODE_ROOT, "acl"), "none");
	for (uint8_t which = ACL_READ; which <= last && rc == RC_OK; which++)
		rc = run(b->cell, b->other,
		         OP(set_acl, .node = node, .which = which, .name = bytes_of("none")));
	return rc;
}

static enum rc
other_does(struct player *p, const char *what, const char *name, const char *to)
{
	struct bench *b = p->b;
	const uint64_t node = node_of(p, name);

	if (!strcmp(what, "locks"))
		return acquire(b->cell, b->other, BENCH_OTHER_OWNER, 1, node, call_mode(p, to));
	if (!strcmp(what, "renames"))
		return rename_file(b->cell, b->other, NODE_ROOT, name, NODE_ROOT, to);
	if (!strcmp(what, "creates"))
		return create(b->cell, b->other, NODE_ROOT, name, NODE_FILE, true);
	if (!strcmp(what, "mkdir"))
		return create(b->cell, b->other, NODE_ROOT, name, NODE_DIRECTORY, true);
	if (!strcmp(what, "rmdir"))
		return delete_name(b->cell, NODE_ROOT, name, NODE_DIRECTORY);
	if (!strcmp(what, "fills"))
		return create(b->cell, b->other, node, to, NODE_FILE, false);
	if (!strcmp(what, "empties"))
		return delete_name(b->cell, node, to,
		                   attr_of(b->cell, lookup(b->cell, node, to)).kind);
	if (!strcmp(what, "restricts"))
		return restrict_elsewhere(b, node, ACL_WRITE);
	if (!strcmp(what, "hides"))
		return restrict_elsewhere(b, node, ACL_READ);
	if (!strcmp(what, "breaks")) /* an operator */
		return run(b->cell, 0, OP(unlock, .node = node, .fence = UINT64_MAX));
	if (!strcmp(what, "closes"))
		return run(b->cell, b->other,
		           OP(close_ephemeral, .node = script_value_number(p->s, "number", node)));
	if (!strcmp(what, "marks"))
		return run(b->cell, b->other, OP(make_ephemeral, .node = node));
	if (!strcmp(what, "ends"))
		return end_session(b->cell, b->other, SESSION_CLOSED);
	if (!strcmp(what, "expires"))
		return end_session(b->cell, b->other, SESSION_EXPIRED);
	script_misuse(p->s, "another machine does nothing that is called \"%s\"", what);
}

COMMAND(other)
{
	const char *what = script_needed(s), *name = script_needed(s);
	enum rc rc = RC_OK;

	p->call = 0;
	if (!strcmp(what, "writes"))
		write_elsewhere(p, name, call_text(p));
	else if (!strcmp(what, "deletes"))
		bench_other_deletes(p->b, name);
	else if (!strcmp(what, "unlocks"))
		bench_other_unlocks(p->b, node_of(p, name));
	else
		rc = other_does(p, what, name, script_word(s));
	if (rc != RC_OK)
		script_say(s, "<- %s", rc_name(rc));
}

COMMAND(granted)
{
	struct client_grant g = {.node = node_of(p, script_needed(s)),
	                         .owner = script_value_number(s, "owner", 1)};

	p->call = 0;
	g.acquisition = script_number(s);
	g.rc = script_rc(s, script_value(s, "as"));
	bench_granted(p->b, &g);
}

/* The node of a name as the cell has it. */
COMMAND(cell)
{
	const char *name = script_needed(s);
	struct fixture *f = p->b->cell;
	const uint64_t node = node_of(p, name);
	struct result_lock lock;

	if (node == 0) {
		script_say(s, "no %s", name);
		return;
	}
	lock = lock_of_node(f, node);
	assert_int_equal(look(f, READER, OP(get_contents, .node = node)), RC_OK);
	script_say(s, "%llu: %s%s%s%s", (unsigned long long)node,
	           text_shown(f->answer.contents.contents),
	           f->answer.contents.attr.ephemeral ? ", ephemeral" : "",
	           lock.state ? ", locked " : "", lock.state ? text_modes[lock.state] : "");
	if (f->answer.contents.attr.mtime_ns < SECOND_NS)
		script_say(s, "mtime %lld", (long long)f->answer.contents.attr.mtime_ns);
}

/* The mount's memory and its next deadline. */
COMMAND(memory)
{
	const struct mount *m = p->b->mount;
	const mono_t deadline = mount_deadline(m);

	script_say(s, "%zu versions, %s", mount_versions(m),
	           mount_has_file_locks(m) ? "file locks" : "no file locks");
	if (!mono_is_never(deadline))
		script_say(s, "deadline in %lld ms",
		           (long long)span_to_ms(mono_since(deadline, p->b->now)));
}

/* ---- worlds ---- */

static void
player_end(void *world)
{
	struct player *p = world;

	if (p->b)
		bench_free(p->b);
	trace_free(&p->trace);
}

/* A new mount of a new cell, with files of these names and contents. */
COMMAND(mount)
{
	const char *commit = script_value(s, "commit"), *flags = script_value(s, "open");
	const char *locked = script_value(s, "locked"), *bits = script_value(s, "umask"), *name;
	struct mount_config config = {.cell = "local",
	                              .uid = 1000,
	                              .gid = 1000,
	                              .lock_delay_s = 15,
	                              .trace = &p->trace};

	player_end(p);
	*p = (struct player){.trace = {.on = true}, .s = s};
	config.commit_at_write = commit && !strcmp(commit, "write");
	config.quiet = call_option(p, "quiet");
	config.umask = bits ? (mode_t)strtoul(bits, NULL, 8) : 0;
	config.listing_page = (uint32_t)script_value_number(s, "page", 0);
	p->b = bench_new(&config);
	bench_state(p->b, CLIENT_SAFE);
	trace_free(&p->trace);
	p->b->stepped = text_of_step;
	p->b->heard = text_of_answer;
	p->b->user = p;
	while ((name = script_word(s))) {
		const struct bytes contents = call_text(p);

		if (!bytes_equal(contents, bytes_of("-")))
			write_elsewhere(p, name, contents);
		p->mute = true;
		if (flags)
			call_open(p, name, call_flags(p, flags));
		p->mute = false;
		if (locked)
			assert_int_equal(other_does(p, "locks", name, locked), RC_OK);
	}
}

/* The quota is lowered so that so many bytes are left, and the cell has told so. */
COMMAND(quota)
{
	struct fixture *f = p->b->cell;
	const uint64_t left = script_number(s);

	assert_int_equal(look(f, READER, OP(get_usage)), RC_OK);
	assert_int_equal(run(f, 0,
	                     OP(set_setting, .setting = SETTING_quota_bytes,
	                        .value = f->answer.usage.bytes + left)),
	                 RC_OK);
	p->b->client.status.scarce = tree_is_scarce(f->tree);
}

static const struct script_command commands[] = {
    {"mount",
     "[NAME CONTENTS|-]... [open=FLAGS] [locked=MODE] [commit=write] [quiet=yes] [umask=OCTAL] ...",
     run_mount},
    {"close", "DESCRIPTOR [by=THREAD]: flush, release", call_close},
    {"forget", "INODE COUNT", call_forget},
    {"wants", "CALL DESCRIPTOR|@NAME [FLAGS] [by=THREAD]", call_wants},
    {"signal", "[CALL]: one that its caller handles; without a number the last that waits",
     run_signal},
    {"freeze", "[CALL]: its caller is interrupted, and no signal is the reason", run_freeze},
    {"kill", "[CALL]: a signal that ends its process", run_kill},
    {"wait", "MILLISECONDS", run_wait},
    {"session", "safe|jeopardy|expired|new|again (on another connection) [grace=MS]", run_session},
    {"leave", "MILLISECONDS: of the leave to cache are left", run_leave},
    {"late", "MILLISECONDS: replies that the kernel keeps are written so late", run_late},
    {"dropped", "INODE|everything: by the client from its cache", run_dropped},
    {"event", "KIND NAME|- [path=PATH] [version=N] [child=NAME] [count=N]", run_event},
    {"hold", ": the cell does not answer until answer or resume", run_hold},
    {"answer", "[as=CODE] [knows=GENERATION] [lost=yes]: of the oldest request; [newest=yes]",
     run_answer},
    {"resume", ": the cell answers everything, from now on at once", run_resume},
    {"other",
     "writes|deletes|locks|unlocks|renames|restricts|hides|creates|mkdir|rmdir|fills|empties|"
     "closes|marks|ends|expires|breaks "
     "NAME ...",
     run_other},
    {"granted",
     "NAME ACQUISITION as=CODE [owner=N]: what the cell tells, by itself, of the lock's owner",
     run_granted},
    {"quota", "BYTES: are left", run_quota},
    {"cell", "NAME: as the cell has it", run_cell},
    {"memory", ": versions, locks and the next deadline", run_memory},
    {NULL, "", call_any},
};

int
main(int argc, char **argv)
{
	static const struct script_player player = {"mount", commands, sizeof(struct player), NULL,
	                                            player_end};

	return script_main(argc, argv, &player);
}
