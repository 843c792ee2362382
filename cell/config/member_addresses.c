#include "cell/config/member_addresses.h"

#include <string.h>
#include "cell/wire/codec.h"

int
member_addresses_of(const struct wire_list *from, struct cell_file_replica list[LIMIT_MEMBERS])
{
	struct cursor rest = cursor_of(from->packed);
	struct member m;
	int n = 0;

	while (n < LIMIT_MEMBERS && wire_next_member(&rest, &m)) {
		struct cell_file_replica *r = &list[n++];

		/* A malformed address or key becomes zeros: no connection is made with either. */
		*r = (struct cell_file_replica){.id = m.id, .role = m.role};
		if (m.address.len > 0 && m.address.len < sizeof r->address)
			memcpy(r->address, m.address.data, m.address.len);
		if (m.key.len == sizeof r->public_key)
			memcpy(r->public_key, m.key.data, sizeof r->public_key);
	}
	return n;
}
