/* The outcome of an entry, for the master: answers, and notes of all that has changed. */
#include <stdlib.h>
#include "cell/tree/internal.h"

struct tree_note *
apply_note(struct execution *x, enum tree_note_kind kind, uint64_t node)
{
	struct tree_outcome *out = x->out;
	struct tree_note *n;

	ARRAY_ROOM(out->notes, out->notes_n, out->notes_room);
	n = &out->notes[out->notes_n++];
	*n = (struct tree_note){.kind = kind, .node = node};
	return n;
}

struct tree_note *
apply_note_node(struct execution *x, enum tree_note_kind kind, const struct node *n)
{
	struct tree_note *note = apply_note(x, kind, n->number);

	note->parent = n->parent_number;
	note->name = bytes_copy(n->name);
	return note;
}

enum rc
apply_attr_changed(struct execution *x, struct node *n)
{
	node_changed(x->tree, n, x->stamp_ns);
	apply_note_node(x, TREE_NODE_CHANGED, n);
	return RC_OK;
}

void
outcome_cut_notes(struct tree_outcome *out, size_t n)
{
	while (out->notes_n > n) {
		const struct tree_note *note = &out->notes[--out->notes_n];

		free((void *)note->name.data);
		free((void *)note->path.data);
		free((void *)note->acl_read.data);
	}
}

void
outcome_clear(struct tree_outcome *out)
{
	outcome_cut_notes(out, 0);
	out->answers_n = 0;
	out->results.limit = LIMIT_FRAME;
	buffer_reset(&out->results);
}

void
tree_outcome_free(struct tree_outcome *out)
{
	outcome_clear(out);
	free(out->answers);
	free(out->notes);
	buffer_free(&out->results);
	*out = (struct tree_outcome){0};
}
