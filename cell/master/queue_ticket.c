/* A ticket is good for the acquire that it was given for and for no other. A code that only
 * replicas of the cell can make proves that the cell gave it, as Chubby's handles carry "check
 * digits that prevent clients from creating or guessing handles" (section 2.2). */
#include <sodium.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/master/internal.h"

static_assert(crypto_shorthash_KEYBYTES == sizeof((struct tickets *)0)->key[0], "SipHash");
static_assert(crypto_shorthash_BYTES == sizeof((struct ticket *)0)->code, "SipHash");

/* A key is the same for every master of the cell, and does not reveal the signing key. */
void
m_ticket_set_keys(struct master *m)
{
	static const char purpose[] = "lsfs ticket";
	const struct master_keys *keys = &m->config.keys;

	for (int i = 0; i < keys->n; i++)
		must(crypto_generichash(m->tickets.key[i], sizeof m->tickets.key[i],
		                        (const uint8_t *)purpose, sizeof purpose, keys->secret[i],
		                        sizeof keys->secret[i]) == 0);
}

static uint64_t
code(const struct master *m, int key, uint64_t session, const struct acquire *a)
{
	struct buffer text = BUFFER(64);
	uint8_t hash[crypto_shorthash_BYTES];
	uint64_t number = 0;

	buffer_put_u64(&text, session);
	buffer_put_u64(&text, a->node);
	buffer_put_u64(&text, a->owner);
	buffer_put_u64(&text, a->acquisition);
	buffer_put_u64(&text, a->ticket.epoch);
	buffer_put_u64(&text, a->ticket.place);
	must(!text.failed);
	must(crypto_shorthash(hash, text.data, text.len, m->tickets.key[key]) == 0);
	buffer_free(&text);
	for (size_t i = 0; i < sizeof hash; i++)
		number |= (uint64_t)hash[i] << (8 * i);
	return number;
}

void
m_ticket_begin(struct master *m)
{
	m->tickets.last = 0;
}

struct ticket
m_ticket_next(struct master *m, uint64_t session, const struct acquire *a)
{
	struct acquire placed = *a;

	placed.ticket = (struct ticket){.epoch = m->epoch, .place = ++m->tickets.last};
	placed.ticket.code = code(m, 0, session, &placed);
	return placed.ticket;
}

bool
m_ticket_genuine(const struct master *m, uint64_t session, const struct acquire *a)
{
	for (int i = 0; i < m->config.keys.n && a->ticket.epoch != 0; i++)
		if (a->ticket.code == code(m, i, session, a))
			return true;
	return a->ticket.epoch == 0;
}
