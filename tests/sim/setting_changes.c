#include "tests/sim/setting_changes.h"

#include "tests/sim/sim.h"

void
setting_changes_begin(struct sim *s)
{
	struct setting_changes *c = &s->settings;

	c->now = c->least = c->greatest = sim_settings(s);
	for (uint8_t code = 1; code < SETTING_CODES; code++)
		c->now.value[code] = c->least.value[code] = c->greatest.value[code] =
		    settings_value(&c->now, (enum setting)code);
}

void
setting_changes_epoch(struct sim *s)
{
	s->settings.least = s->settings.now;
}

static void
set(struct sim *s, const struct op_set_setting *op)
{
	struct setting_changes *c = &s->settings;
	struct settings with = c->now;
	char why[LIMIT_WHY];
	const uint64_t before = c->now.value[op->setting];

	with.value[op->setting] = op->value;
	if (settings_wrong(&with, why, sizeof why))
		return;
	c->now = with;
	model_past_setting(&s->model, op->setting, op->value);
	c->since[op->setting] = s->now;
	if (op->value < c->least.value[op->setting])
		c->least.value[op->setting] = op->value;
	if (op->value > c->greatest.value[op->setting])
		c->greatest.value[op->setting] = op->value;
	adversary_setting(s, (enum setting)op->setting, before, op->value);
}

void
setting_changes_decide(struct sim *s, const struct op *op)
{
	const struct op_lengthen_promise *longer = &op->lengthen_promise;
	uint64_t *greatest = s->settings.greatest.value;

	if (op->code == OP_set_setting)
		set(s, &op->set_setting);
	else if (longer->longest > greatest[longer->setting])
		greatest[longer->setting] = longer->longest;
}

/* A client looks for another master when two thirds of a lease are over without an answer, which is
 * held for one third and has two ways to go. A master's lease has to last for two such ways, and as
 * long again for another heartbeat. */
static uint64_t
bearable(const struct sim *s, enum setting which, uint64_t value)
{
	const uint64_t way = (uint64_t)s->swarm.latency_us / 1000;
	const uint64_t least = which == SETTING_session_lease  ? 8 * way
	                       : which == SETTING_master_lease ? 4 * way
	                                                       : 0;

	return value < least ? least : value;
}

struct setting_value
setting_changes_draw(struct sim *s)
{
	static const struct {
		enum setting which;
		uint64_t lowest, highest;
	} wanted[] = {
	    {SETTING_session_lease, 1000, 20000}, {SETTING_session_lease, 1000, 20000},
	    {SETTING_cache_lease, 1000, 4000},    {SETTING_master_lease, 200, 2000},
	    {SETTING_master_lease, 200, 2000},    {SETTING_heartbeat, 20, 600},
	    {SETTING_disk_patience, 1000, 10000}, {SETTING_grace, 1500, 45000},
	    {SETTING_history_seconds, 1, 120},    {SETTING_history_bytes, 1, 50000},
	};
	const uint64_t i = rng_below(&s->rng, sizeof wanted / sizeof wanted[0]);
	uint64_t above = rng_below(&s->rng, wanted[i].highest - wanted[i].lowest + 1);

	if (setting_info(wanted[i].which)->kind == SETTING_PROMISE)
		above >>= rng_below(&s->rng, 5);
	return (struct setting_value){(uint8_t)wanted[i].which,
	                              bearable(s, wanted[i].which, wanted[i].lowest + above)};
}

bool
setting_changes_had(const struct sim *s, const struct setting_value *v, int64_t from)
{
	return s->settings.now.value[v->setting] == v->value ||
	       s->settings.since[v->setting] >= from;
}

int64_t
setting_changes_least(const struct sim *s, enum setting which)
{
	return (int64_t)s->settings.least.value[which] * MS;
}

int64_t
setting_changes_greatest(const struct sim *s, enum setting which)
{
	return (int64_t)s->settings.greatest.value[which] * MS;
}

/* A new master begins to wait anew. */
void
setting_changes_check_end(struct sim *s)
{
	const struct setting_changes *c = &s->settings;
	struct tree_note lowered = {.setting = 0};

	if (!sim_leases_hold(s))
		return; /* a master's seconds may be of any length */
	while (tree_setting_lowered_after(replica_tree(sim_serving(s)->replica), lowered.setting,
	                                  &lowered)) {
		const enum setting which = (enum setting)lowered.setting;
		int64_t since = c->since[which];

		if (which == SETTING_session_lease && s->swarm.limits.keepalives > 0)
			continue; /* it is longer for as long as there are so many sessions */
		since = since > s->model.epoch_from ? since : s->model.epoch_from;
		if (s->now > since + setting_changes_greatest(s, which) / 100 * 102 + SECOND)
			sim_fail(s, "%s was lowered long ago, and the longer one counts yet",
			         setting_info(which)->name);
	}
}
