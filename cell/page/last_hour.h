/* What a replica has seen in the last hour, by minutes. */
#ifndef LSFS_PAGE_LAST_HOUR_H
#define LSFS_PAGE_LAST_HOUR_H

#include <stdbool.h>
#include <stdint.h>
#include "cell/base/latency.h"
#include "cell/base/mono.h"

enum { LAST_HOUR_MINUTES = 60 };

struct last_hour_minute {
	bool seen;       /* something was noted in it */
	bool masterless; /* there was no master at a time at which something was noted */
	uint64_t entries, fail_overs;
	struct latency commits; /* of the replica as the master */
};

struct last_hour {
	struct last_hour_minute minutes[LAST_HOUR_MINUTES]; /* a ring: of `minute` % 60 */
	int64_t minute;                                     /* the newest; 0: none */
	uint64_t applied, epoch;                            /* when something was last noted */
	struct latency commits;                             /* likewise */
};

/* Notes the applied index of the replica, how long its own commands have taken since its start, and
 * whether it knows a master. */
void last_hour_note(struct last_hour *h, mono_t now, uint64_t applied, uint64_t epoch,
                    const struct latency *commits, bool has_master);
/* The minute that began `minutes` minutes before this one: 0 to 59. */
const struct last_hour_minute *last_hour_ago(const struct last_hour *h, int minutes);

#endif
