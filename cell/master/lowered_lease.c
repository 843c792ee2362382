/* The earlier length of a lowered promise counts until one such length after the lowering, or after
 * the beginning of this epoch. Then an entry records that it does not count any more. */
#include "cell/base/must.h"
#include "cell/master/internal.h"

void
m_lowered_note(struct master *m, const struct tree_note *note)
{
	struct timer *a = &m->lowered.timers[note->setting];
	span_t longest = m_lease_longest(m, (enum setting)note->setting);

	if (note->index == 0) {
		m_timer_off(m, a);
		return;
	}
	m->lowered.since[note->setting] = note->index;
	m_timer_set(m, a, mono_add(mono_add(m->now, longest), m_lease_margin(m, longest)));
}

void
m_lowered_init(struct master *m)
{
	for (uint8_t code = 1; code < SETTING_CODES; code++)
		m->lowered.timers[code] = m_timer(TIMER_SETTING, code);
}

void
m_lowered_begin(struct master *m)
{
	struct tree_note lowered = {.setting = 0};

	while (tree_setting_lowered_after(m->tree, lowered.setting, &lowered))
		m_lowered_note(m, &lowered);
}

void
m_lowered_end(struct master *m)
{
	for (uint8_t code = 1; code < SETTING_CODES; code++)
		m_timer_off(m, &m->lowered.timers[code]);
}

void
m_lowered_timeout(struct master *m, uint8_t code)
{
	struct op op = {
	    .code = OP_settle_setting,
	    .settle_setting = {.setting = code, .since = m->lowered.since[code]},
	};

	mono_t until;

	m_timer_off(m, &m->lowered.timers[code]);
	if (code == SETTING_session_lease && !m_lengthened_settle(m, &until)) {
		m_timer_set(m, &m->lowered.timers[code], until);
		return;
	}
	m_propose(m, 0, &op)->setting = code;
	m_propose_flush(m);
}
