/* An update of the client, as lines. */
#include <ctype.h>
#include <string.h>
#include "cell/base/must.h"
#include "tests/transcripts/client_player.h"
#include "tests/transcripts/client_watched.h"
#include "tests/unit/wire_print.h"

/* Fields are left out that are mostly zero or empty, and session and epoch where they are those of
 * a safe client. */
static void
say_message(struct player *p, const struct message *m)
{
	static const char *const known[] = {" session=7",
	                                    " epoch=3",
	                                    " ticket={epoch=0 place=0 code=0}",
	                                    " delay_s=-1",
	                                    " default_delay_s=0",
	                                    " pid=0",
	                                    " ordered=0",
	                                    " earlier=0",
	                                    " earlier_nonce=",
	                                    " caching=0",
	                                    " lasting=0",
	                                    " mtime_ns=0",
	                                    " generation=0",
	                                    " generation=0",
	                                    " guarded=0",
	                                    " dropped=0[]",
	                                    " nodes=0[]",
	                                    " leave=0",
	                                    " upto=0",
	                                    " heard=0",
	                                    " all=0",
	                                    " watches=0[]",
	                                    " user=\"\"",
	                                    " user=\"\"",
	                                    " user=\"\"",
	                                    " handle_rights=0",
	                                    " check=",
	                                    " guard={node=0 lock_generation=0 mode=0 fence=0}"};
	struct buffer text = BUFFER(4096);
	char *at;

	wire_print_message(&text, m);
	buffer_put_u8(&text, 0);
	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		const size_t n = strlen(known[i]);

		if ((at = strstr((char *)text.data, known[i])) && !isalnum((unsigned char)at[n]))
			memmove(at, at + n, strlen(at + n) + 1);
	}
	script_say_joined(p->s, "-> ", "%s", (char *)text.data);
	buffer_free(&text);
}

/* The trace has said it. */
static void
note_datagram(struct player *p)
{
	const struct bytes frame = buffer_view(&p->update.datagram);
	struct message m;

	if (frame.len == 0)
		return;
	must(wire_get_frame(frame, &m) == RC_OK && m.code == MSG_keepalive);
	p->datagram = m.keepalive.sequence;
}

static void
say_frames(struct player *p)
{
	struct bytes rest = buffer_view(&p->update.frames);
	struct message m;
	struct op op;

	while (rest.len > 0) {
		const size_t len = (size_t)wire_frame_length(rest);

		must(wire_get_frame((struct bytes){rest.data, len}, &m) == RC_OK);
		say_message(p, &m);
		if (m.code == MSG_request && wire_get_op(m.request.op, &op) == RC_OK) {
			p->ops[m.request.number % NUMBERS] = op.code;
			p->number = m.request.number;
			p->generation = m.request.generation;
		}
		if (m.code == MSG_keepalive) {
			p->sequence = m.keepalive.sequence;
			p->generation = m.keepalive.generation;
		}
		rest.data += len;
		rest.len -= len;
	}
}

long long
ms_since(const struct player *p, mono_t t)
{
	return span_to_ms(mono_since(p->now, t));
}

static void
say_answer(struct player *p, const struct client_answer *a)
{
	char text[100];
	int n =
	    snprintf(text, sizeof text, "%llu: %s", (unsigned long long)a->token, rc_name(a->rc));

	if (a->index)
		n += snprintf(text + n, sizeof text - (size_t)n, ", index %llu",
		              (unsigned long long)a->index);
	if (a->result.kind == RESULT_attr)
		n += snprintf(text + n, sizeof text - (size_t)n, ", node %llu",
		              (unsigned long long)a->result.attr.attr.node);
	if (a->result.kind == RESULT_attr && a->rc == RC_OK && a->result.attr.attr.rights != 7)
		n += snprintf(text + n, sizeof text - (size_t)n, ", rights %u",
		              a->result.attr.attr.rights);
	if (a->opens.node != 0) {
		p->opened = a->opens;
		n += snprintf(text + n, sizeof text - (size_t)n, ", check %.*s", LIMIT_CHECK,
		              (const char *)a->opens.check);
	}
	if (a->result.kind == RESULT_contents && a->rc == RC_OK)
		snprintf(text + n, sizeof text - (size_t)n, ", node %llu%s%.*s",
		         (unsigned long long)a->result.contents.attr.node,
		         a->result.contents.same ? ", the same" : ": ",
		         (int)a->result.contents.contents.len, a->result.contents.contents.data);
	if (a->result.kind == RESULT_listing && a->rc == RC_OK)
		snprintf(text + n, sizeof text - (size_t)n, ", node %llu: %u names",
		         (unsigned long long)a->result.listing.attr.node,
		         a->result.listing.entries.count);
	script_say_joined(p->s, "= ", "%s", text);
}

/* The driver is asked to invalidate. */
static void
say_invalidation(struct player *p)
{
	const struct client_update *u = &p->update;
	struct buffer text = BUFFER(4096);

	if (u->invalid_all)
		buffer_printf(&text, " everything");
	for (size_t i = 0; i < u->invalid_n && i < 8; i++)
		buffer_printf(&text, " %llu", (unsigned long long)u->invalid[i]);
	if (u->invalid_n > 8)
		buffer_printf(&text, " and %zu more", u->invalid_n - 8);
	if (u->invalidation)
		buffer_printf(&text, ", then report %llu", (unsigned long long)u->invalidation);
	if (text.len > 0)
		say(p, "invalidate%.*s", (int)text.len, text.data);
	buffer_free(&text);
}

void
say_update(struct player *p)
{
	const struct client_update *u = &p->update;

	script_say_traces(p->s, NULL, &p->trace);
	note_datagram(p);
	say_frames(p);
	if (u->connect)
		say(p, "connect %u after %lld ms", u->replica, ms_since(p, p->began));
	if (u->listen)
		say(p, "listen %u after %lld ms", u->listen_to, ms_since(p, p->began));
	for (size_t i = 0; i < u->answers_n; i++)
		say_answer(p, &u->answers[i]);
	for (size_t i = 0; i < u->grants_n; i++)
		say(p, "= grant of acquisition %llu: %s, fence %llu",
		    (unsigned long long)u->grants[i].acquisition, rc_name(u->grants[i].rc),
		    (unsigned long long)u->grants[i].fence);
	say_invalidation(p);
	for (size_t i = 0; i < u->watched_n; i++)
		watched_say(p->s, &u->watched[i]);
	if (u->members_changed)
		say(p, "the members have changed");
}
