#include "cell/replica/disk_full.h"

/* The best voter with space on its disk; 0 if there is none. */
static uint8_t
successor(const struct member_view *m)
{
	struct member_verdict v = member_rules_transfer(m, 0);

	if (v.rc == RC_OK && member_rules_transfer(m, v.id).rc == RC_OK)
		return v.id;
	return 0;
}

struct disk_full_verdict
disk_full_judge(const struct member_view *m)
{
	struct disk_full_verdict f = {0};
	int voters = 0, with_room = 0, full = 0;

	for (int i = 0; i < m->n; i++) {
		const struct member_view_item *of = &m->list[i];

		if (of->member.role != MEMBER_VOTER)
			continue;
		voters++;
		full += of->progress.full;
		with_room += !of->progress.full && member_rules_may_be_alive(m, of);
		if (of->member.id == m->self && of->progress.full)
			f.hand_over = successor(m);
	}
	f.refuse = full > 0 && with_room <= voters / 2;
	return f;
}
