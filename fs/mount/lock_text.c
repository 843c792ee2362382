#include "fs/mount/lock_text.h"

void
lock_text_state(struct buffer *to, enum lock_state state, uint32_t holders, int64_t delay_s)
{
	switch (state) {
	case LOCK_STATE_FREE:
		buffer_printf(to, "free");
		break;
	case LOCK_STATE_SHARED:
		buffer_printf(to, "shared %u", holders);
		break;
	case LOCK_STATE_EXCLUSIVE:
		buffer_printf(to, "exclusive");
		break;
	case LOCK_STATE_DELAYED:
		buffer_printf(to, "delayed %lld", (long long)delay_s);
		break;
	}
}

void
lock_text_waiter(struct buffer *to, const struct lock_waiter *w, int64_t now_ns)
{
	int64_t seconds = (now_ns - w->since_ns) / 1000000000;

	buffer_printf(to, "%llu %.*s %.*s ", (unsigned long long)w->session, (int)w->principal.len,
	              (const char *)w->principal.data, (int)w->host.len,
	              (const char *)w->host.data);
	if (w->pid)
		buffer_printf(to, "%u", w->pid);
	else
		buffer_printf(to, "-");
	buffer_printf(to, " %s %lld", w->mode == LOCK_SHARED ? "shared" : "exclusive",
	              seconds > 0 ? (long long)seconds : 0);
}

void
lock_text_holder(struct buffer *to, const struct lock_holder *h, int64_t now_ns)
{
	const struct lock_waiter same = {
	    .session = h->session,
	    .mode = h->mode,
	    .since_ns = h->since_ns,
	    .pid = h->pid,
	    .host = h->host,
	    .principal = h->principal,
	};

	lock_text_waiter(to, &same, now_ns);
}
