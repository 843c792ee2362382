#include <stdio.h>
#include "cell/tree/internal.h"

uint64_t
tree_setting(const struct tree *t, enum setting which)
{
	return settings_value(&t->settings.in_force, which);
}

span_t
tree_setting_span(const struct tree *t, enum setting which)
{
	return settings_span(&t->settings.in_force, which);
}

uint64_t
tree_setting_longest(const struct tree *t, enum setting which)
{
	return t->settings.lowered[which].longest;
}

bool
tree_setting_lowered_after(const struct tree *t, uint8_t after, struct tree_note *lowered)
{
	for (uint8_t code = after + 1; code < SETTING_CODES; code++) {
		if (t->settings.lowered[code].since == 0)
			continue;
		*lowered = (struct tree_note){.kind = TREE_SETTING_CHANGED,
		                              .setting = code,
		                              .index = t->settings.lowered[code].since};
		return true;
	}
	return false;
}

bool
tree_setting_refused(const struct tree *t, uint8_t code, uint64_t value, char *why, size_t why_size)
{
	struct settings with = t->settings.in_force;

	if (setting_info(code) == NULL || value == 0) {
		snprintf(why, why_size, "no such setting");
		return true;
	}
	if (code == SETTING_minor_version && value < t->settings.in_force.value[code]) {
		snprintf(why, why_size, "%s: only grows", setting_info(code)->name);
		return true;
	}
	with.value[code] = value;
	return settings_wrong(&with, why, why_size);
}

static void
settled(struct tree *t, uint8_t code)
{
	t->settings.lowered[code] = (struct lowered){.longest = t->settings.in_force.value[code]};
}

void
settings_begin(struct tree *t, const struct settings *first)
{
	for (uint8_t code = 1; code < SETTING_CODES; code++) {
		t->settings.in_force.value[code] = settings_value(first, code);
		settled(t, code);
		DIRTY_ROW(t, settings, .key = {code});
	}
}

enum rc
settings_read(struct wire_list list, struct settings *first)
{
	struct cursor from = cursor_of(list.packed);
	struct setting_value v;
	char why[LIMIT_WHY];

	*first = (struct settings){0};
	while (wire_next_setting_value(&from, &v)) {
		if (setting_info(v.setting) == NULL)
			return RC_INVAL;
		first->value[v.setting] = v.value;
	}
	return settings_wrong(first, why, sizeof why) ? RC_INVAL : RC_OK;
}

static void
note_changed(struct execution *x, uint8_t code)
{
	struct tree_note *n = apply_note(x, TREE_SETTING_CHANGED, 0);

	n->setting = code;
	n->index = x->tree->settings.lowered[code].since;
	DIRTY_ROW(x->tree, settings, .key = {code});
}

enum rc
apply_set_setting(struct execution *x, const struct op_set_setting *o)
{
	struct tree *t = x->tree;
	char why[LIMIT_WHY];

	if (tree_setting_refused(t, o->setting, o->value, why, sizeof why))
		return RC_RANGE;
	if (t->settings.in_force.value[o->setting] == o->value)
		return RC_OK;
	t->settings.in_force.value[o->setting] = o->value;
	if (setting_info(o->setting)->kind == SETTING_PROMISE &&
	    o->value < t->settings.lowered[o->setting].longest)
		t->settings.lowered[o->setting].since = x->index;
	else
		settled(t, o->setting);
	note_changed(x, o->setting);
	return RC_OK;
}

enum rc
apply_lengthen_promise(struct execution *x, const struct op_lengthen_promise *o)
{
	const struct setting_info *info = setting_info(o->setting);
	struct lowered *l;

	if (info == NULL || info->kind != SETTING_PROMISE || o->longest > info->highest ||
	    o->longest <= x->tree->settings.in_force.value[o->setting])
		return RC_RANGE;
	l = &x->tree->settings.lowered[o->setting];
	l->longest = o->longest > l->longest ? o->longest : l->longest;
	l->since = x->index;
	note_changed(x, o->setting);
	return RC_OK;
}

enum rc
apply_settle_setting(struct execution *x, const struct op_settle_setting *o)
{
	struct tree *t = x->tree;

	if (setting_info(o->setting) == NULL || o->since == 0 ||
	    t->settings.lowered[o->setting].since != o->since)
		return RC_OK;
	settled(t, o->setting);
	note_changed(x, o->setting);
	return RC_OK;
}
