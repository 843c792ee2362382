/* The settings of the cell: those in force at this replica, and their list for people. */
#include "cell/base/must.h"
#include "cell/replica/internal.h"
#include "cell/wire/codec.h"

span_t
r_settings_span(const struct replica *r, enum setting which)
{
	if (tree_epoch(r->tree) == 0)
		return settings_span(&r->config.settings, which);
	return tree_setting_span(r->tree, which);
}

struct wire_list
r_settings_first(const struct replica *r, struct buffer *packed)
{
	uint32_t n = 0;

	for (uint8_t code = 1; code < SETTING_CODES && tree_epoch(r->tree) == 0; code++) {
		const struct setting_value v = {code, r->config.settings.value[code]};

		if (v.value == 0)
			continue;
		wire_put_setting_value(packed, &v);
		n++;
	}
	return (struct wire_list){buffer_view(packed), n};
}

void
r_settings_changed(struct replica *r)
{
	const span_t lease = tree_setting_span(r->tree, SETTING_master_lease);
	const span_t heartbeat = tree_setting_span(r->tree, SETTING_heartbeat);

	R_TRACE(r, "settings: a master lease of %" PRId64 " ms, a heartbeat each %" PRId64 " ms",
	        span_to_ms(lease), span_to_ms(heartbeat));
	px_set_lease(r->px, lease, heartbeat);
}

uint32_t
r_settings_minor(const struct replica *r)
{
	return (uint32_t)tree_setting(r->tree, SETTING_minor_version);
}

void
r_settings_follow(struct replica *r)
{
	const uint32_t minor = r_settings_minor(r);

	r->settings.outdated = minor > r->config.paxos.minor;
	if (r->settings.outdated)
		R_TRACE(r, "settings: minor version %u, later than %u: applies nothing", minor,
		        r->config.paxos.minor);
}

void
r_settings_elected(struct replica *r)
{
	r->settings.raising = 0;
}

/* A member that joins meanwhile, and speaks a lower version, stops when it applies the entry. */
void
r_settings_supervise(struct replica *r, const struct member_view *m)
{
	const uint32_t minor = member_rules_minor(m);
	const struct op op = OPERATION(set_setting, SETTING_minor_version, minor);

	if (minor <= r_settings_minor(r) || minor <= r->settings.raising ||
	    r_member_list_changing(r) || !r_lease_valid(r))
		return;
	NOTICE(r->config.trace, "every member speaks minor version %u: so does the log", minor);
	r->settings.raising = minor;
	r_propose(r, &op);
}

void
r_settings_send(struct replica *r, uint64_t conn)
{
	struct buffer rows = BUFFER(LIMIT_FRAME);
	struct message m =
	    MESSAGE(settings, .applied = r->applied, .keys = tree_signing_keys(r->tree));

	for (uint8_t code = 1; code < SETTING_CODES; code++) {
		const struct setting_info *info = setting_info(code);
		const struct setting_row row = {
		    .name = bytes_of(info->name),
		    .unit = bytes_of(info->unit),
		    .value = tree_setting(r->tree, code),
		    .longest = tree_setting_longest(r->tree, code),
		    .lowest = info->lowest,
		    .highest = info->highest,
		    .standard = info->standard,
		};

		wire_put_setting_row(&rows, &row);
		m.settings.settings.count++;
	}
	must(!rows.failed);
	m.settings.settings.packed = buffer_view(&rows);
	r_answer(r, conn, &m);
	buffer_free(&rows);
}
