/* Points in time, for people. */
#ifndef LSFS_CTL_UTC_H
#define LSFS_CTL_UTC_H

#include <stdint.h>

enum { UTC_TEXT = 40, AGE_TEXT = 40 };

/* The instant, in seconds since 1970, by RFC 3339 in UTC; empty when there is no such year. */
void utc_text(int64_t seconds, char text[UTC_TEXT]);
/* How long ago that was: "3 hours ago". */
void utc_age(int64_t seconds, char text[AGE_TEXT]);

#endif
