/* The settings of a cell: replicated numbers that operators change while it runs. Each is described
 * once, in this table; the value in force is in the tree (tree_setting). */
#ifndef LSFS_BASE_SETTING_H
#define LSFS_BASE_SETTING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cell/base/mono.h"

/* S(code, name, unit, kind, lowest, highest, default). Codes are on the wire and in the log: they
 * keep their numbers. Units: ms, s, count, bytes. A PROMISE is a lease length that the master
 * promises to clients: after it was lowered, a new master still reckons with the old length until
 * every lease promised with it has ended. One that is OWN to the cell is set by the master, by
 * nobody else: minor_version is the version in which the log is written, and which every member
 * understands, and only grows; last_backup is the time of day when a backup was last made (0:
 * never).
 *
 * A later minor version that adds a setting gives it the default 0, which is not stored: so the
 * state of a cell is the same in programs of both versions until the setting is given. */
#define SETTINGS(S)                                                                    \
	S(1, session_lease, ms, PROMISE, 1000, 60000, 12000) /* Chubby, section 2.8 */ \
	S(2, cache_lease, ms, PROMISE, 1000, 60000, 5000)                              \
	S(3, master_lease, ms, PLAIN, 200, 60000, 500)                                 \
	S(4, heartbeat, ms, PLAIN, 20, 20000, 100)                                     \
	S(5, disk_patience, ms, PLAIN, 1000, 600000, 5000)                             \
	S(6, quota_nodes, count, PLAIN, 1, 1ull << 32, 1000000)                        \
	S(7, quota_bytes, bytes, PLAIN, 1, 1ull << 40, 1 << 30)                        \
	S(8, minor_version, count, OWN, 0, UINT16_MAX, 0)                              \
	S(9, grace, ms, PLAIN, 1000, 86400000, 45000) /* Chubby, section 2.8 */        \
	S(10, last_backup, s, OWN, 0, UINT32_MAX, 0)                                   \
	S(11, history_seconds, s, PLAIN, 1, 86400, 600)                                \
	S(12, history_bytes, bytes, PLAIN, 1, 1ull << 32, 64 << 20)

enum setting {
#define X(code, name, unit, kind, lowest, highest, standard) SETTING_##name = code,
	SETTINGS(X)
#undef X
	    SETTING_CODES, /* one more than the last code */
};

struct setting_info {
	const char *name, *unit;
	enum setting_kind { SETTING_PLAIN, SETTING_PROMISE, SETTING_OWN } kind;
	uint64_t lowest, highest, standard;
};

/* A value for each code, in the setting's unit; 0: not given, the default applies. */
struct settings {
	uint64_t value[SETTING_CODES];
};

/* The table's row, static; NULL when no setting has this code. */
const struct setting_info *setting_info(uint64_t code);
/* The code of a name; 0 when no setting has this name, or only the cell itself may set it. */
uint8_t setting_named(const char *name, size_t len);
/* Parses the text form of a value: a number with the suffix `ms`, `s` or `m` for a duration, or an
 * optional `K`, `M` or `G` (powers of 1,024) for bytes. False when the text is no value of this
 * setting, or a number too great for 64 bits. */
bool setting_parse(uint8_t code, const char *text, uint64_t *value);
/* The text form of its values, for people: "a number above 0 with ms, s or m". */
const char *setting_form(uint8_t code);
enum { SETTING_TEXT = 32 };
/* Prints a value in the form that setting_parse reads, with the greatest suffix that divides it. */
void setting_print(uint8_t code, uint64_t value, char text[SETTING_TEXT]);

/* The value in force, in the setting's unit: the given one or the default. */
uint64_t settings_value(const struct settings *s, enum setting which);
/* The same of a setting in ms, as a span. */
span_t settings_span(const struct settings *s, enum setting which);
/* True, with one line in `why`, when these values can't be in force together or one is out of its
 * range; false when nothing is wrong. */
bool settings_wrong(const struct settings *s, char *why, size_t why_size);

#endif
