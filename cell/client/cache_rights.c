#include "cell/client/cache_rights.h"
#include <stdlib.h>
#include <string.h>

static size_t
place_of(const struct cache_rights *r, struct bytes user)
{
	size_t i = 0;

	while (i < r->n && !bytes_equal(r->of[i].user, user))
		i++;
	return i;
}

void
cache_rights_put(struct cache_rights *r, struct bytes user, uint8_t rights, struct bytes check)
{
	size_t i = place_of(r, user);

	if (i == CACHE_SUBJECTS) {
		i = r->next;
		r->next = (r->next + 1) % CACHE_SUBJECTS;
	}
	if (i == r->n)
		r->n++;
	bytes_set(&r->of[i].user, user);
	r->of[i].rights = rights;
	r->of[i].checked = check.len == LIMIT_CHECK;
	if (r->of[i].checked)
		memcpy(r->of[i].check, check.data, LIMIT_CHECK);
}

bool
cache_rights_allow(const struct cache_rights *r, struct bytes user, unsigned needed,
                   uint8_t *rights, struct bytes *check)
{
	const size_t i = place_of(r, user);

	if (i == r->n || (r->of[i].rights & needed) != needed)
		return false;
	*rights = r->of[i].rights;
	*check = (struct bytes){r->of[i].check, r->of[i].checked ? LIMIT_CHECK : 0};
	return true;
}

bool
cache_rights_show(const struct attr *from, uint8_t rights, struct attr *to)
{
	const bool reads = (rights & RIGHT_READ) != 0;

	*to = *from;
	to->rights = rights;
	if (!reads)
		to->checksum = 0;
	return !reads || (from->rights & RIGHT_READ) != 0;
}

void
cache_rights_free(struct cache_rights *r)
{
	for (size_t i = 0; i < r->n; i++)
		free((void *)r->of[i].user.data);
	*r = (struct cache_rights){0};
}
