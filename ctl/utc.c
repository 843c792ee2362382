#include "ctl/utc.h"

#include <inttypes.h>
#include <stdio.h>
#include <time.h>
#include "cell/sys/clock.h"

enum { DAY_S = 86400 };

void
utc_text(int64_t seconds, char text[UTC_TEXT])
{
	const time_t t = seconds;
	struct tm tm;

	if (!gmtime_r(&t, &tm) || !strftime(text, UTC_TEXT, "%FT%TZ", &tm))
		text[0] = '\0';
}

void
utc_age(int64_t seconds, char text[AGE_TEXT])
{
	const int64_t age = clock_wall_ns() / 1000000000 - seconds;

	if (age >= 2 * DAY_S)
		snprintf(text, AGE_TEXT, "%" PRId64 " days ago", age / DAY_S);
	else if (age >= 7200)
		snprintf(text, AGE_TEXT, "%" PRId64 " hours ago", age / 3600);
	else if (age >= 120)
		snprintf(text, AGE_TEXT, "%" PRId64 " minutes ago", age / 60);
	else
		snprintf(text, AGE_TEXT, "%" PRId64 " seconds ago", age > 0 ? age : 0);
}
