#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/master/withdrawal.h"

static int
order(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int
withdrawal_compare(const struct withdrawal *a, const struct withdrawal *b)
{
	int by = order(a->node, b->node);

	if (by == 0)
		by = order(a->owner, b->owner);
	return by != 0 ? by : order(a->acquisition, b->acquisition);
}

RB_GENERATE_INTERNAL(withdrawal_tree, withdrawal, link, withdrawal_compare,
                     __attribute__((unused)) static)

void
m_withdrawals_init(struct withdrawals *w)
{
	TAILQ_INIT(&w->received);
}

uint64_t
m_withdrawals_find(const struct withdrawals *w, uint64_t node, uint64_t owner, uint64_t acquisition)
{
	struct withdrawal like = {.node = node, .owner = owner, .acquisition = acquisition};
	const struct withdrawal *found =
	    RB_FIND(withdrawal_tree, (struct withdrawal_tree *)&w->by_name, &like);

	return found != NULL ? found->number : 0;
}

void
m_withdrawals_add(struct withdrawals *w, uint64_t number, uint64_t node, uint64_t owner,
                  uint64_t acquisition)
{
	struct withdrawal *added;

	must(number != 0);
	if (m_withdrawals_find(w, node, owner, acquisition) != 0)
		return;
	added = memory_zero(1, sizeof *added);
	added->number = number;
	added->node = node;
	added->owner = owner;
	added->acquisition = acquisition;
	must(RB_INSERT(withdrawal_tree, &w->by_name, added) == NULL);
	TAILQ_INSERT_TAIL(&w->received, added, entry);
}

/* The order of arrival is the order of numbers but for a few, which are forgotten later. */
void
m_withdrawals_forget(struct withdrawals *w, uint64_t below)
{
	struct withdrawal *first;

	while ((first = TAILQ_FIRST(&w->received)) != NULL && first->number < below) {
		TAILQ_REMOVE(&w->received, first, entry);
		RB_REMOVE(withdrawal_tree, &w->by_name, first);
		free(first);
	}
}
