#include <stdlib.h>
#include "cell/base/memory.h"
#include "cell/waiting.h"

void
waiting_push(struct waiting_list *list, uint64_t conn, struct bytes owned)
{
	struct waiting *w = memory_zero(1, sizeof *w);

	w->conn = conn;
	w->bytes = owned;
	TAILQ_INSERT_TAIL(list, w, entry);
}

void
waiting_pop(struct waiting_list *list)
{
	struct waiting *w = TAILQ_FIRST(list);

	TAILQ_REMOVE(list, w, entry);
	free((void *)w->bytes.data);
	free(w);
}

void
waiting_clear(struct waiting_list *list)
{
	while (!TAILQ_EMPTY(list))
		waiting_pop(list);
}
