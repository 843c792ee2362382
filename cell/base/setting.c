#include "cell/base/setting.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "cell/base/must.h"

enum { BEATS_A_LEASE = 3 }; /* so one heartbeat may be lost and another one late */

static const struct setting_info table[SETTING_CODES] = {
#define X(code, name, unit, kind, lowest, highest, standard) \
	[code] = {#name, #unit, SETTING_##kind, lowest, highest, standard},
    SETTINGS(X)
#undef X
};

const struct setting_info *
setting_info(uint64_t code)
{
	return code < SETTING_CODES && table[code].name != NULL ? &table[code] : NULL;
}

uint8_t
setting_named(const char *name, size_t len)
{
	for (uint8_t code = 1; code < SETTING_CODES; code++)
		if (table[code].kind != SETTING_OWN && strlen(table[code].name) == len &&
		    memcmp(table[code].name, name, len) == 0)
			return code;
	return 0;
}

/* ---- as text ---- */

struct suffix {
	const char *unit, *text;
	uint64_t factor;
};

/* The greatest factor of a unit comes first: setting_print takes the first that divides. */
static const struct suffix suffixes[] = {
    {"ms", "m", 60000},      {"ms", "s", 1000},       {"ms", "ms", 1},
    {"bytes", "G", 1 << 30}, {"bytes", "M", 1 << 20}, {"bytes", "K", 1 << 10},
    {"bytes", "", 1},        {"count", "", 1},        {"s", "", 1},
};

bool
setting_parse(uint8_t code, const char *text, uint64_t *value)
{
	const size_t digits = strspn(text, "0123456789");
	uint64_t number = 0;

	if (digits == 0 || digits > 18)
		return false;
	for (size_t i = 0; i < digits; i++)
		number = number * 10 + (uint64_t)(text[i] - '0');
	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
		const struct suffix *s = &suffixes[i];

		if (strcmp(s->unit, table[code].unit) != 0 || strcmp(s->text, text + digits) != 0)
			continue;
		*value = number * s->factor;
		return number <= UINT64_MAX / s->factor;
	}
	return false;
}

const char *
setting_form(uint8_t code)
{
	if (strcmp(table[code].unit, "ms") == 0)
		return "a number above 0 with ms, s or m";
	if (strcmp(table[code].unit, "bytes") == 0)
		return "a number above 0, alone or with K, M or G";
	return "a number above 0";
}

void
setting_print(uint8_t code, uint64_t value, char text[SETTING_TEXT])
{
	for (size_t i = 0; i < sizeof suffixes / sizeof suffixes[0]; i++) {
		const struct suffix *s = &suffixes[i];

		if (strcmp(s->unit, table[code].unit) != 0 || value % s->factor != 0)
			continue;
		snprintf(text, SETTING_TEXT, "%" PRIu64 "%s", value / s->factor, s->text);
		return;
	}
	must(false); /* each unit has a suffix of factor 1 */
}

/* ---- values ---- */

uint64_t
settings_value(const struct settings *s, enum setting which)
{
	return s->value[which] != 0 ? s->value[which] : table[which].standard;
}

span_t
settings_span(const struct settings *s, enum setting which)
{
	must(strcmp(table[which].unit, "ms") == 0);
	return span_ms((int64_t)settings_value(s, which));
}

static bool
is_outside(const struct settings *s, uint8_t code, char *why, size_t why_size)
{
	const struct setting_info *info = &table[code];
	const uint64_t value = settings_value(s, code);
	char lowest[SETTING_TEXT], highest[SETTING_TEXT];

	if (value >= info->lowest && value <= info->highest)
		return false;
	setting_print(code, info->lowest, lowest);
	setting_print(code, info->highest, highest);
	snprintf(why, why_size, "%s: from %s to %s", info->name, lowest, highest);
	return true;
}

bool
settings_wrong(const struct settings *s, char *why, size_t why_size)
{
	for (uint8_t code = 1; code < SETTING_CODES; code++)
		if (is_outside(s, code, why, why_size))
			return true;
	if (settings_value(s, SETTING_cache_lease) > settings_value(s, SETTING_session_lease)) {
		snprintf(why, why_size, "cache_lease: not longer than session_lease");
		return true;
	}
	if (settings_value(s, SETTING_heartbeat) >
	    settings_value(s, SETTING_master_lease) / BEATS_A_LEASE) {
		snprintf(why, why_size, "heartbeat: at most a third of master_lease");
		return true;
	}
	return false;
}
