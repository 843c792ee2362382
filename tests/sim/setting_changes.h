/* Settings of the cell that operators change while it runs. */
#ifndef LSFS_SIM_SETTING_CHANGES_H
#define LSFS_SIM_SETTING_CHANGES_H

#include "cell/base/rng.h"
#include "cell/base/setting.h"
#include "cell/wire/types.h"

struct sim;

/* As the log says, and since when. */
struct setting_changes {
	struct settings now;
	struct settings least;        /* of each: in this epoch */
	struct settings greatest;     /* in this run */
	int64_t since[SETTING_CODES]; /* virtual time of the last change; 0: none */
};

void setting_changes_begin(struct sim *s);
void setting_changes_epoch(struct sim *s);
/* A set_setting or lengthen_promise was applied. */
void setting_changes_decide(struct sim *s, const struct op *op);
/* A value that an operator may want; the leases of these runs are short ones. */
struct setting_value setting_changes_draw(struct sim *s);
/* Was it in force, at some time since `from`? */
bool setting_changes_had(const struct sim *s, const struct setting_value *v, int64_t from);
/* The shortest length in this epoch and the longest in this run, in nanoseconds. */
int64_t setting_changes_least(const struct sim *s, enum setting which);
int64_t setting_changes_greatest(const struct sim *s, enum setting which);
/* What was lowered long ago counts as lowered no more. */
void setting_changes_check_end(struct sim *s);

#endif
