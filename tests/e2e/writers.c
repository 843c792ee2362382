/* writers CELLFILE KEYFILE WRITERS FILES SIZE [list|even]: a load at full speed, without a mount.
 *
 * So many writers share one session, and the files among them; each writes again as soon as it was
 * answered: 1 to SIZE bytes, now and then as many as a file can hold, and with `even` always SIZE.
 * No write may fail, be lost or be done twice: the content generations tell. With `list` each
 * creates its part of the files, and then lists the directory, page by page, again and again. Until
 * SIGTERM; each second a line
 *
 *   SECONDS WRITES BYTES MEDIAN P99    since the beginning; or pages, and names in them
 *
 * with the time that a write took, in us, of those since the line before,
 * and a last one at the end. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/sys/clock.h"
#include "cell/wire/codec.h"
#include "tests/e2e/loader.h"

enum { LARGEST_ONE_IN = 256, FILES_MAX = 100000, TIMES_MAX = 100000 };

struct file {
	uint64_t node, generation; /* node 0: not created yet */
};

struct writer {
	bool waiting; /* for an answer, about a file and so many bytes: */
	int file;
	size_t size;
	mono_t asked;
	bool lists; /* has created its files */
	struct op_get_listing page;
	char after[LIMIT_NAME];
};

struct load {
	uv_loop_t loop;
	struct loader session;
	struct writer writers[LIMIT_IN_FLIGHT];
	struct file *files; /* of writer i those with the numbers i, i + n, i + 2n ... */
	int n, files_n, waiting;
	size_t size;
	struct rng rng;
	uint8_t contents[LIMIT_CONTENTS];
	uint64_t writes, bytes;
	mono_t begun;
	int64_t times[TIMES_MAX]; /* ns that each write since the last line took */
	size_t times_n;
	bool ending, list, even;
};

static int
by_time(const void *a, const void *b)
{
	const int64_t *left = a, *right = b;

	return (*left > *right) - (*left < *right);
}

/* In us; 0: there are none. */
static long long
percentile(const struct load *l, size_t percent)
{
	return l->times_n > 0 ? l->times[(l->times_n - 1) * percent / 100] / 1000 : 0;
}

static void
tell(void *user)
{
	struct load *l = user;

	qsort(l->times, l->times_n, sizeof *l->times, by_time);
	printf("%lld %llu %llu %lld %lld\n",
	       (long long)(span_to_ms(mono_since(clock_now(), l->begun)) / 1000),
	       (unsigned long long)l->writes, (unsigned long long)l->bytes, percentile(l, 50),
	       percentile(l, 99));
	fflush(stdout);
	l->times_n = 0;
}

/* ---- the client ---- */

static void
submit(struct load *l, int i, const struct op *op)
{
	loader_submit(&l->session, (uint64_t)i, op, false);
}

static void
create(struct load *l, int i)
{
	char name[32];
	struct op op = {.code = OP_create, .create = {.parent = NODE_ROOT, .kind = NODE_FILE}};

	snprintf(name, sizeof name, "file-%d", l->writers[i].file);
	op.create.name = bytes_of(name);
	submit(l, i, &op);
}

static void
write_contents(struct load *l, int i)
{
	const struct writer *w = &l->writers[i];
	const struct op op = {
	    .code = OP_set_contents,
	    .set_contents = {.node = l->files[w->file].node, .contents = {l->contents, w->size}},
	};

	submit(l, i, &op);
}

static void
read_page(struct load *l, int i)
{
	struct op op = {.code = OP_get_listing, .get_listing = l->writers[i].page};

	op.get_listing.node = NODE_ROOT;
	submit(l, i, &op);
}

static void
take_page(struct load *l, struct writer *w, const struct result_listing *r)
{
	struct cursor from = cursor_of(r->entries.packed);
	struct child child = {0};

	while (wire_next_child(&from, &child))
		l->bytes++;
	l->writes++;
	w->page = (struct op_get_listing){0};
	if (!r->more)
		return;
	memcpy(w->after, child.name.data, child.name.len);
	w->page.after = (struct bytes){(const uint8_t *)w->after, child.name.len};
	w->page.index = r->index;
	w->page.next_node = r->next_node;
}

/* The next file of its own, and when there is none, a page. */
static void
begin_list(struct load *l, int i)
{
	struct writer *w = &l->writers[i];

	l->waiting++;
	w->file = l->files[i].node == 0 ? i : w->file + l->n;
	w->waiting = true;
	w->lists = w->lists || w->file >= l->files_n;
	if (w->lists)
		read_page(l, i);
	else
		create(l, i);
}

static void
begin_write(struct load *l, int i)
{
	struct writer *w = &l->writers[i];
	const int own = (l->files_n - i + l->n - 1) / l->n;

	w->waiting = true;
	w->file = i + l->n * (int)rng_below(&l->rng, (uint64_t)own);
	w->size = l->even ? l->size
	          : rng_below(&l->rng, LARGEST_ONE_IN) == 0
	              ? LIMIT_CONTENTS
	              : 1 + (size_t)rng_below(&l->rng, l->size);
	l->waiting++;
	w->asked = clock_now();
	if (l->files[w->file].node == 0)
		create(l, i);
	else
		write_contents(l, i);
}

/* All that have an answer. */
static void
go_on(void *user)
{
	struct load *l = user;

	for (int i = 0; i < l->n && !l->ending; i++)
		if (!l->writers[i].waiting && l->list)
			begin_list(l, i);
		else if (!l->writers[i].waiting)
			begin_write(l, i);
	if (l->ending && l->waiting == 0) {
		tell(l);
		exit(0);
	}
}

static void
end(void *user)
{
	((struct load *)user)->ending = true;
	go_on(user);
}

static void
take_answer(void *user, const struct client_answer *a)
{
	struct load *l = user;
	struct writer *w = &l->writers[a->token];
	struct file *f = &l->files[w->lists ? 0 : w->file];

	if (a->rc != RC_OK)
		load_die("a request failed", rc_text(a->rc));
	w->waiting = false;
	l->waiting--;
	if (w->lists) {
		take_page(l, w, &a->result.listing);
		return;
	}
	if (f->node == 0) {
		f->node = a->result.created.attr.node;
		f->generation = a->result.created.attr.content_generation;
		return;
	}
	f->generation++;
	if (a->result.attr.attr.content_generation != f->generation)
		load_die("content generation", "a write was lost, or done twice");
	l->writes++;
	l->bytes += w->size;
	if (l->times_n < TIMES_MAX)
		l->times[l->times_n++] = mono_since(clock_now(), w->asked).ns;
}

/* ---- the beginning ---- */

static void
scan(struct load *l, char **argv)
{
	const long size = atol(argv[5]);

	l->n = atoi(argv[3]);
	l->files_n = atoi(argv[4]);
	if (l->n < 1 || l->n > LIMIT_IN_FLIGHT || l->files_n < l->n || l->files_n > FILES_MAX ||
	    size < 1 || size > LIMIT_CONTENTS)
		load_die("WRITERS, FILES or SIZE", "out of range");
	l->size = (size_t)size;
	l->files = memory_zero((size_t)l->files_n, sizeof *l->files);
}

int
main(int argc, char **argv)
{
	static struct load l;
	struct cell_file cell;
	uint64_t seed;
	struct noise_pair key;

	l.list = argc == 7 && strcmp(argv[6], "list") == 0;
	l.even = argc == 7 && strcmp(argv[6], "even") == 0;
	if (argc != 6 && !l.list && !l.even) {
		fprintf(stderr, "usage: writers CELLFILE KEYFILE WRITERS FILES SIZE [list|even]\n");
		return 2;
	}
	scan(&l, argv);
	load_files(argv[1], argv[2], &cell, &key);
	must(uv_loop_init(&l.loop) == 0);
	l.begun = clock_now();
	random_fill(&seed, sizeof seed);
	l.rng = rng_seeded(seed);
	for (size_t i = 0; i < LIMIT_CONTENTS; i++)
		l.contents[i] = (uint8_t)rng_next(&l.rng);
	load_tell(&l.loop, tell, end, &l);
	l.session.answered = take_answer;
	l.session.go_on = go_on;
	l.session.user = &l;
	loader_begin(&l.session, &l.loop, "writers", &cell, &key);
	return uv_run(&l.loop, UV_RUN_DEFAULT);
}
