/* The clients of one key may not leave more than so much unread, all together. The sum is kept, so
 * that a frame costs the same however many connections there are. It may be too great, for the
 * kernel takes bytes of a write that is under way without a word: all of the key's connections are
 * counted again before one of them is closed. */
#include <stdlib.h>
#include <string.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/net/stream.h"

static int
by_key(const struct reader *a, const struct reader *b)
{
	return memcmp(a->key, b->key, sizeof a->key);
}

RB_GENERATE_INTERNAL(readers, reader, link, by_key, __attribute__((unused)) static)

void
readers_join(struct stream *s)
{
	struct transport *n = s->transport;
	struct reader like = {0}, *found;

	memcpy(like.key, channel_peer(&s->channel), sizeof like.key);
	found = RB_FIND(readers, &n->readers, &like);
	if (found == NULL) {
		found = memory_zero(1, sizeof *found);
		*found = like;
		must(RB_INSERT(readers, &n->readers, found) == NULL);
	}
	LIST_INSERT_HEAD(&found->connections, s, beside);
	s->reader = found;
	readers_count(s);
}

void
readers_leave(struct stream *s)
{
	struct reader *reader = s->reader;

	s->reader = NULL;
	if (reader == NULL)
		return;
	reader->unsent -= s->counted;
	LIST_REMOVE(s, beside);
	if (!LIST_EMPTY(&reader->connections))
		return;
	RB_REMOVE(readers, &s->transport->readers, reader);
	free(reader);
}

void
readers_count(struct stream *s)
{
	const size_t unsent = stream_unsent(s);

	if (s->reader == NULL)
		return;
	s->reader->unsent += unsent - s->counted;
	s->counted = unsent;
}

struct stream *
readers_surplus(struct stream *s, size_t len)
{
	struct stream *other, *most = s;

	if (s->reader == NULL || s->reader->unsent + len <= LIMIT_PRINCIPAL_UNSENT)
		return NULL;
	readers_count(s);
	LIST_FOREACH(other, &s->reader->connections, beside)
	{
		readers_count(other);
		if (other->counted > most->counted)
			most = other;
	}
	return s->reader->unsent + len > LIMIT_PRINCIPAL_UNSENT ? most : NULL;
}
