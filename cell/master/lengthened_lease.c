#include "cell/base/must.h"
#include "cell/master/internal.h"

void
m_lengthened_begin(struct master *m)
{
	m->lengthened = (struct lengthened_leases){.until = m->now};
	lease_load_begin(&m->lengthened.load, m->config.keepalives);
}

static span_t
set_lease(const struct master *m)
{
	return tree_setting_span(m->tree, SETTING_session_lease);
}

static uint64_t
wanted_ms(const struct master *m)
{
	const uint64_t ms =
	    tree_setting(m->tree, SETTING_session_lease) * m->lengthened.load.factor;
	const uint64_t highest = setting_info(SETTING_session_lease)->highest;

	return ms < highest ? ms : highest;
}

span_t
m_lengthened(const struct master *m)
{
	const uint64_t longest = tree_setting_longest(m->tree, SETTING_session_lease);
	const uint64_t wanted = wanted_ms(m);

	if (m->lengthened.settling)
		return set_lease(m);
	return span_ms((int64_t)(wanted < longest ? wanted : longest));
}

/* Longer leases are needed than the log allows, or will. */
static bool
is_due(const struct master *m)
{
	const uint64_t wanted = wanted_ms(m);

	return wanted > tree_setting_longest(m->tree, SETTING_session_lease) &&
	       wanted > m->lengthened.proposed && !m->lengthened.settling;
}

void
m_lengthened_promised(struct master *m, span_t lease)
{
	const mono_t end = mono_add(mono_add(m->now, lease), m_lease_margin(m, lease));

	must(span_to_ms(lease) <= (int64_t)tree_setting_longest(m->tree, SETTING_session_lease));
	if (lease.ns > set_lease(m).ns)
		m->lengthened.until = mono_max(m->lengthened.until, end);
}

void
m_lengthened_count(struct master *m)
{
	const unsigned factor = m->lengthened.load.factor;

	lease_load_answered(&m->lengthened.load, m->now, set_lease(m));
	if (m->lengthened.load.factor != factor)
		M_TRACE(m, "session leases are to be %" PRIu64 " ms long", wanted_ms(m));
	m->lengthened.due = is_due(m);
}

void
m_lengthened_propose(struct master *m)
{
	const struct op op = {
	    .code = OP_lengthen_promise,
	    .lengthen_promise = {.setting = SETTING_session_lease, .longest = wanted_ms(m)},
	};

	m->lengthened.due = false;
	m->lengthened.proposed = wanted_ms(m);
	m_propose(m, 0, &op);
	m_propose_flush(m);
}

void
m_lengthened_applied(struct master *m)
{
	if (tree_setting_longest(m->tree, SETTING_session_lease) >= m->lengthened.proposed)
		m->lengthened.proposed = 0;
}

/* Without KeepAlives nothing else notices that the load is gone. */
bool
m_lengthened_settle(struct master *m, mono_t *until)
{
	lease_load_pass(&m->lengthened.load, m->now, set_lease(m));
	*until = m->lengthened.until;
	m->lengthened.settling = mono_reached(m->now, *until);
	return m->lengthened.settling;
}

void
m_lengthened_settled(struct master *m)
{
	m->lengthened.settling = false;
}
