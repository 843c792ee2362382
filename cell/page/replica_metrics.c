#include "cell/base/exposition.h"
#include "cell/page/internal.h"
#include "cell/wire/condition.h"
#include "config.h"

static void
put_states(struct buffer *to, const struct msg_status_reply *s)
{
	exposition_begin(to, "lscell_role", "gauge", "1 for the role that the replica has.");
	for (unsigned i = REPLICA_FOLLOWER; i <= REPLICA_MASTER; i++)
		buffer_printf(to, "lscell_role{role=\"%s\"} %d\n", condition_role(i), s->role == i);
	exposition_begin(to, "lscell_condition", "gauge",
	                 "1 for the condition that the replica is in.");
	for (unsigned i = 0; i <= CONDITION_OUTDATED; i++)
		buffer_printf(to, "lscell_condition{condition=\"%s\"} %d\n",
		              condition_words(i)->name, s->condition == i);
}

static void
put_others(struct buffer *to, const struct answer *a)
{
	exposition_begin(to, "lscell_link_up", "gauge",
	                 "1 while the replica has a connection to that one.");
	for (int i = 0; i < a->links_n; i++)
		buffer_printf(to, "lscell_link_up{replica=\"%d\"} %d\n", a->links[i].id,
		              a->links[i].down_ms < 0);
	exposition_begin(to, "lscell_member_applied_entry", "gauge",
	                 "On the master, the newest entry that a member has applied.");
	for (int i = 0; i < a->progress_n; i++)
		buffer_printf(to, "lscell_member_applied_entry{replica=\"%d\"} %llu\n",
		              a->progress[i].id, (unsigned long long)a->progress[i].applied);
	exposition_begin(to, "lscell_member_silence_seconds", "gauge",
	                 "On the master, the time since a member was heard.");
	for (int i = 0; i < a->progress_n; i++) {
		if (a->progress[i].heard_ms < 0)
			continue;
		buffer_printf(to, "lscell_member_silence_seconds{replica=\"%d\"} %.3f\n",
		              a->progress[i].id, (double)a->progress[i].heard_ms / 1000);
	}
}

static void
put_limit(struct buffer *to, const char *name, const struct answer_limit *l, uint64_t value)
{
	static const char *const owners[] = {
	    [LIMIT_OF_REPLICA] = "replica",
	    [LIMIT_OF_CELL] = "cell",
	    [LIMIT_OF_PRINCIPAL] = "principal",
	};

	buffer_printf(to, "%s{limit=\"", name);
	exposition_label(to, l->name);
	buffer_printf(to, "\",of=\"%s\",principal=\"",
	              l->owner <= LIMIT_OF_PRINCIPAL ? owners[l->owner] : "?");
	exposition_label(to, l->principal);
	buffer_printf(to, "\"} %llu\n", (unsigned long long)value);
}

void
replica_metrics(struct buffer *to, const char *cell, const struct answer *own,
                const struct latency *commits, const char *ailment)
{
	const struct msg_status_reply *s = &own->status;

	exposition_begin(to, "lscell_info", "gauge", "The replica and its cell.");
	buffer_printf(to, "lscell_info{version=\"%s\",cell=\"", PACKAGE_VERSION);
	exposition_label(to, cell);
	buffer_printf(to, "\",replica=\"%d\"} 1\n", s->self);
	exposition_gauge(to, "lscell_healthy", ailment == NULL, "1 if /healthz answers 200.");
	put_states(to, s);
	exposition_gauge(to, "lscell_master_replica", s->master,
	                 "The replica that was the master last; 0: none.");
	exposition_gauge(to, "lscell_epoch", s->epoch, "The epoch of the last master.");
	exposition_begin(to, "lscell_master_since_timestamp_seconds", "gauge",
	                 "On the master, the time at which it became that; else 0.");
	buffer_printf(to, "lscell_master_since_timestamp_seconds %lld\n",
	              (long long)(s->master_since_ns / 1000000000));
	exposition_gauge(to, "lscell_log_first_entry", s->first,
	                 "The oldest entry that the log still has.");
	exposition_gauge(to, "lscell_log_last_entry", s->last, "The newest entry accepted.");
	exposition_gauge(to, "lscell_log_chosen_entry", s->chosen,
	                 "The newest entry known to be chosen.");
	exposition_counter(to, "lscell_applied_entries_total", s->applied,
	                   "Entries of the cell's log that the replica has applied.");
	exposition_gauge(to, "lscell_disputed_entry", s->disputed,
	                 "On the master, an entry at which states differ; 0: none.");
	exposition_gauge(to, "lscell_sessions", s->sessions, "Sessions of the cell.");
	exposition_gauge(to, "lscell_locks_held", s->locks_held,
	                 "Locks that are held in the cell.");
	exposition_gauge(to, "lscell_disk_full", s->full, "1 while the disk has no room.");
	exposition_begin(to, "lscell_longest_step_seconds", "gauge",
	                 "The longest time for which the replica did one thing only.");
	buffer_printf(to, "lscell_longest_step_seconds %llu.%06llu\n",
	              (unsigned long long)(s->longest_step_us / 1000000),
	              (unsigned long long)(s->longest_step_us % 1000000));
	exposition_counter(to, "lscell_slow_steps_total", s->slow_steps,
	                   "Steps that took more than 10 ms.");
	latency_expose(to, "lscell_commit_seconds",
	               "Time from the proposal of a command by this replica until it was applied.",
	               commits);
	put_others(to, own);
	exposition_begin(to, "lscell_limit_used", "gauge", "How much of a limit is used.");
	for (int i = 0; i < own->limits_n; i++)
		put_limit(to, "lscell_limit_used", &own->limits[i], own->limits[i].used);
	exposition_begin(to, "lscell_limit_most", "gauge", "How much that may be.");
	for (int i = 0; i < own->limits_n; i++)
		put_limit(to, "lscell_limit_most", &own->limits[i], own->limits[i].most);
}
