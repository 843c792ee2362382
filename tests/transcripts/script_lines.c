#include "tests/transcripts/script_lines.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"

enum { ALIKE = 5, GROUP_MAX = 12 };

static void
add_owned(struct lines *l, char *line)
{
	ARRAY_ROOM(l->line, l->n, l->room);
	l->line[l->n++] = line;
}

void
lines_add(struct lines *l, const char *text)
{
	char *line = strdup(text);

	for (char *c = line; *c != '\0'; c++)
		if (*c == '\n')
			*c = '?';
	add_owned(l, line);
}

void
lines_add_all(struct lines *l, const char *text)
{
	while (*text != '\0') {
		const size_t len = strcspn(text, "\n");

		add_owned(l, strndup(text, len));
		text += len + (text[len] == '\n');
	}
}

void
lines_cut(struct lines *l, size_t n)
{
	while (l->n > n)
		free(l->line[--l->n]);
}

void
lines_free(struct lines *l)
{
	lines_cut(l, 0);
	free(l->line);
	*l = (struct lines){0};
}

bool
lines_equal(const struct lines *a, const struct lines *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (strcmp(a->line[i], b->line[i]) != 0)
			return false;
	return true;
}

/* ---- folding ---- */

static bool
is_number(const char *at)
{
	return isdigit((unsigned char)*at) != 0;
}

/* True if three lines differ only in numbers, which go on by equal steps. */
static bool
in_step(const char *a, const char *b, const char *c)
{
	char *ends[3];
	uint64_t x, y, z;

	while (*a == *b || (is_number(a) && is_number(b))) {
		if (!is_number(a)) {
			if (*c++ != *a)
				return false;
			if (*a == '\0')
				return true;
			a++, b++;
			continue;
		}
		if (!is_number(b) || !is_number(c))
			return false;
		x = strtoull(a, &ends[0], 10);
		y = strtoull(b, &ends[1], 10);
		z = strtoull(c, &ends[2], 10);
		if (z - y != y - x)
			return false;
		a = ends[0], b = ends[1], c = ends[2];
	}
	return false;
}

/* How many groups of `size` lines from `at` on follow each other in equal steps. */
static size_t
groups_in_step(const struct lines *l, size_t at, size_t size)
{
	size_t n = 2;

	for (; at + (n + 1) * size <= l->n; n++)
		for (size_t i = at; i < at + size; i++)
			if (!in_step(l->line[i + (n - 2) * size], l->line[i + (n - 1) * size],
			             l->line[i + n * size]))
				return n;
	return n;
}

/* True if the second group is the first one again. */
static bool
is_again(const struct lines *l, size_t at, size_t size)
{
	for (size_t i = at; i < at + size; i++)
		if (strcmp(l->line[i], l->line[i + size]) != 0)
			return false;
	return true;
}

static void
move_lines(struct lines *to, struct lines *from, size_t at, size_t n)
{
	for (size_t i = at; i < at + n; i++) {
		add_owned(to, from->line[i]);
		from->line[i] = NULL;
	}
}

/* Folds the groups that begin at `at`, if they are many; returns how many lines they are. */
static size_t
fold_groups(struct lines *to, struct lines *l, size_t at)
{
	for (size_t size = 1; size <= GROUP_MAX && at + ALIKE * size <= l->n; size++) {
		const size_t n = groups_in_step(l, at, size);
		const bool same = is_again(l, at, size);
		char more[80];

		if (n < ALIKE)
			continue;
		snprintf(more, sizeof more, "... %zu more%s, %s", same ? n - 1 : n - 2,
		         size > 1 ? " like these" : "", same ? "the same" : "up to");
		move_lines(to, l, at, size);
		lines_add(to, more);
		if (!same)
			move_lines(to, l, at + (n - 1) * size, size);
		return n * size;
	}
	return 0;
}

static void
fold_once(struct lines *l)
{
	struct lines folded = {0};

	for (size_t at = 0; at < l->n;) {
		size_t n = fold_groups(&folded, l, at);

		if (n == 0)
			move_lines(&folded, l, at, n = 1);
		at += n;
	}
	lines_free(l);
	*l = folded;
}

void
lines_fold(struct lines *l)
{
	fold_once(l);
	fold_once(l); /* groups of what was folded */
}

/* ---- differences ---- */

void
lines_print_difference(FILE *out, const struct lines *want, const struct lines *said)
{
	const size_t width = said->n + 1;
	/* same[i * width + j]: the most lines that the rests after i and j have in common. */
	int *same = memory_zero((want->n + 1) * width, sizeof *same);
	size_t i, j;

	for (i = want->n; i-- > 0;)
		for (j = said->n; j-- > 0;) {
			const int down = same[(i + 1) * width + j], right = same[i * width + j + 1];

			same[i * width + j] = strcmp(want->line[i], said->line[j]) == 0
			                          ? same[(i + 1) * width + j + 1] + 1
			                      : down > right ? down
			                                     : right;
		}
	for (i = j = 0; i < want->n || j < said->n;) {
		if (i < want->n && j < said->n && strcmp(want->line[i], said->line[j]) == 0) {
			fprintf(out, "#      %s\n", want->line[i++]);
			j++;
		} else if (j == said->n ||
		           (i < want->n && same[(i + 1) * width + j] >= same[i * width + j + 1])) {
			fprintf(out, "#   -  %s\n", want->line[i++]);
		} else {
			fprintf(out, "#   +  %s\n", said->line[j++]);
		}
	}
	free(same);
}
