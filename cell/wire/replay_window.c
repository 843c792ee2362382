#include "cell/wire/replay_window.h"

#include "cell/base/must.h"

bool
replay_window_is_fresh(const struct replay_window *w, uint64_t number)
{
	if (number >= w->next)
		return number < UINT64_MAX;
	return w->next - number <= REPLAY_WINDOW && !(w->seen >> (w->next - 1 - number) & 1);
}

void
replay_window_take(struct replay_window *w, uint64_t number)
{
	must(replay_window_is_fresh(w, number));
	if (number >= w->next) {
		const uint64_t by = number + 1 - w->next;

		w->seen = by < REPLAY_WINDOW ? w->seen << by : 0;
		w->next = number + 1;
	}
	w->seen |= 1ull << (w->next - 1 - number);
}
