#include "cell/master/request_proof.h"

#include "cell/master/check_digits.h"
#include "cell/master/internal.h"

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
