#include "cell/io/parcel.h"

#include <stdlib.h>

#include "cell/base/memory.h"

void
parcel_put(struct parcel_list *list, struct parcel parcel)
{
	struct parcel *p = memory_zero(1, sizeof *p);

	*p = parcel;
	TAILQ_INSERT_TAIL(list, p, link);
}

bool
parcel_take(struct parcel_list *list, struct parcel *parcel)
{
	struct parcel *p = TAILQ_FIRST(list);

	if (p == NULL)
		return false;
	TAILQ_REMOVE(list, p, link);
	*parcel = *p;
	free(p);
	return true;
}

void
parcel_free(struct parcel *parcel)
{
	free((void *)parcel->frame.data);
	parcel->frame = (struct bytes){NULL, 0};
}

void
parcels_free(struct parcel_list *list)
{
	struct parcel parcel;

	while (parcel_take(list, &parcel))
		parcel_free(&parcel);
}
