/* Tickets: the places in locks' queues, as their holders carry them from one master to the next. A
 * ticket is good for the acquire that it was given for and for no other; that this cell gave it is
 * proved by a code that only its replicas can make, as Chubby's handles carry "check digits that
 * prevent clients from creating or guessing handles" (section 2.2). */
#include <sodium.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/master/internal.h"

static_assert(crypto_shorthash_KEYBYTES == sizeof((struct master *)0)->ticket_key, "SipHash");
static_assert(crypto_shorthash_BYTES == sizeof((struct ticket *)0)->code, "SipHash");

/* The key is the same for every master of the cell and tells nothing of the one it comes from. */
void
m_ticket_init(struct master *m)
{
	static const char purpose[] = "lsfs ticket";
	const uint8_t *secret = m->config.signing_key;

	must(crypto_generichash(m->ticket_key, sizeof m->ticket_key, (const uint8_t *)purpose,
	                        sizeof purpose, secret, sizeof m->config.signing_key) == 0);
}

static uint64_t
code(const struct master *m, uint64_t session, const struct acquire *a)
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
	must(crypto_shorthash(hash, text.data, text.len, m->ticket_key) == 0);
	buffer_free(&text);
	for (size_t i = 0; i < sizeof hash; i++)
		number |= (uint64_t)hash[i] << (8 * i);
	return number;
}

void
m_ticket_give(struct master *m, uint64_t session, struct acquire *a)
{
	a->ticket = (struct ticket){.epoch = m->epoch, .place = ++m->place};
	a->ticket.code = code(m, session, a);
}

bool
m_ticket_genuine(const struct master *m, uint64_t session, const struct acquire *a)
{
	return a->ticket.epoch == 0 || a->ticket.code == code(m, session, a);
}
