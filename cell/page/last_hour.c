#include "cell/page/last_hour.h"

#include "cell/base/must.h"

static struct last_hour_minute *
at(struct last_hour *h, int64_t minute)
{
	return &h->minutes[minute % LAST_HOUR_MINUTES];
}

void
last_hour_note(struct last_hour *h, mono_t now, uint64_t applied, uint64_t epoch,
               const struct latency *commits, bool has_master)
{
	const int64_t minute = now.ns / 60000000000 + 1; /* the clock begins with the machine */
	struct last_hour_minute *m;

	must(minute > 0);
	if (h->minute == 0 || minute >= h->minute + LAST_HOUR_MINUTES)
		*h = (struct last_hour){.minute = minute,
		                        .applied = applied,
		                        .epoch = epoch,
		                        .commits = h->commits};
	while (h->minute < minute)
		*at(h, ++h->minute) = (struct last_hour_minute){0};
	m = at(h, minute);
	m->seen = true;
	m->masterless |= !has_master;
	m->entries += applied > h->applied ? applied - h->applied : 0;
	m->fail_overs += epoch > h->epoch && h->epoch > 0 ? epoch - h->epoch : 0;
	latency_add(&m->commits, commits, &h->commits);
	h->commits = *commits;
	h->applied = applied;
	h->epoch = epoch;
}

const struct last_hour_minute *
last_hour_ago(const struct last_hour *h, int minutes)
{
	must(minutes >= 0 && minutes < LAST_HOUR_MINUTES);
	return &h->minutes[(h->minute + LAST_HOUR_MINUTES - minutes) % LAST_HOUR_MINUTES];
}
