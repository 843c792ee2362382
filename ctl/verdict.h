/* The verdict on a cell for a monitor, by its status (cell_status). */
#ifndef LSFS_CTL_VERDICT_H
#define LSFS_CTL_VERDICT_H

#include <jansson.h>

enum verdict {
	VERDICT_GOOD,
	VERDICT_DEGRADED, /* one more failure would stop the cell, or a limit is near */
	VERDICT_DOWN,     /* there is no master, or the mount's session is not safe */
};

/* The verdict; the reasons are appended to the array `reasons`, a string each. A cell of one or two
 * replicas outlives no failure at any time: it is good while all of them work. */
enum verdict verdict_of(const json_t *status, json_t *reasons);
/* Its name, for people. */
const char *verdict_name(enum verdict v);

#endif
