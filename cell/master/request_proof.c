#include <sodium.h>

#include "cell/base/must.h"
#include "cell/master/internal.h"
#include "cell/master/master_request.h"

bool
m_proof_of_rights(struct master *m, const struct m_session *s, const struct msg_request *msg,
                  uint64_t node)
{
	const struct requester who = {.session = s->id, .user = msg->user};
	const struct master_keys *keys = &m->config.keys;

	if (msg->handle_rights == 0 ||
	    check_digits_genuine(keys->secret, keys->n, &who, node, msg->handle_rights, msg->check))
		return true;
	M_TRACE(m, "request %" PRIu64 ".%" PRIu64 " has not the check digits of its handle", s->id,
	        msg->number);
	return false;
}

bool
m_proof_of_place(struct master *m, const struct m_session *s, const struct op *op)
{
	return op->code != OP_acquire || m_lock_genuine(m, s, &op->acquire.acquire);
}

struct bytes
m_proof_for(struct master *m, const struct requester *who, uint64_t node, uint8_t rights,
            uint8_t digits[LIMIT_CHECK])
{
	if (node == 0)
		return (struct bytes){NULL, 0};
	check_digits(m->config.keys.secret[0], who, node, rights, digits);
	return (struct bytes){digits, LIMIT_CHECK};
}

/* ---- check digits ---- */

static_assert(LIMIT_CHECK >= crypto_generichash_BYTES_MIN, "BLAKE2b");
static_assert(CHECK_SECRET <= crypto_generichash_KEYBYTES_MAX, "BLAKE2b");

/* The purpose keeps them apart from all else that is derived from the key. */
void
check_digits(const uint8_t secret[CHECK_SECRET], const struct requester *who, uint64_t node,
             uint8_t rights, uint8_t digits[LIMIT_CHECK])
{
	struct buffer text = BUFFER(64 + LIMIT_PRINCIPAL);

	buffer_put_bytes(&text, bytes_of("lsfs check digits"));
	buffer_put_u64(&text, who->session);
	buffer_put_u64(&text, node);
	buffer_put_u8(&text, rights);
	buffer_put_bytes(&text, who->user);
	must(!text.failed);
	must(crypto_generichash(digits, LIMIT_CHECK, text.data, text.len, secret, CHECK_SECRET) ==
	     0);
	buffer_free(&text);
}

bool
check_digits_genuine(const uint8_t (*secrets)[CHECK_SECRET], int n, const struct requester *who,
                     uint64_t node, uint8_t rights, struct bytes digits)
{
	uint8_t right[LIMIT_CHECK];
	bool genuine = false;

	for (int i = 0; i < n && !genuine; i++) {
		check_digits(secrets[i], who, node, rights, right);
		genuine = digits.len == LIMIT_CHECK &&
		          sodium_memcmp(right, digits.data, LIMIT_CHECK) == 0;
	}
	return genuine;
}

/* ---- queue ticket ----
 *
 * A ticket is good for the acquire that it was given for and for no other. A code that only
 * replicas of the cell can make proves that the cell gave it, as Chubby's handles carry "check
 * digits that prevent clients from creating or guessing handles" (section 2.2). */

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
	struct cursor number = cursor_of((struct bytes){hash, sizeof hash});

	buffer_put_u64(&text, session);
	buffer_put_u64(&text, a->node);
	buffer_put_u64(&text, a->owner);
	buffer_put_u64(&text, a->acquisition);
	buffer_put_u64(&text, a->ticket.epoch);
	buffer_put_u64(&text, a->ticket.place);
	must(!text.failed);
	must(crypto_shorthash(hash, text.data, text.len, m->tickets.key[key]) == 0);
	buffer_free(&text);
	return cursor_u64(&number);
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
