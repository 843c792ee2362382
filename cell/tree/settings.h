/* The settings of the cell. A promised length that is lowered still counts as the longest until the
 * master records that all promises of it have ended: a master that begins in between waits so
 * long. A length that the master promises for a while, without its being set, counts likewise. */
#ifndef LSFS_TREE_SETTINGS_H
#define LSFS_TREE_SETTINGS_H

#include "cell/base/setting.h"
#include "cell/tree/apply.h"

/* The length of a setting that may still be promised. */
struct lowered {
	uint64_t longest;
	uint64_t since; /* log index of the lowering, or of the last lengthening; 0: it is the
	                 * value in force */
};

struct tree_settings {
	struct settings in_force; /* all given */
	struct lowered lowered[SETTING_CODES];
};

/* Sets the values of a new cell; 0: the default. */
void settings_begin(struct tree *t, const struct settings *first);
/* Reads a new cell's first settings; RC_INVAL when a cell cannot have them. */
enum rc settings_read(struct wire_list list, struct settings *first);

#endif
