/* writers CELLFILE KEYFILE WRITERS FILES SIZE [list]: a load at full speed, without a mount.
 *
 * So many writers share one session, and the files among them; each writes again as soon as it was
 * answered: 1 to SIZE bytes, now and then as many as a file can hold. No write may fail,
 * be lost or be done twice: the content generations tell. With `list` each creates its part of
 * the files, and then lists the directory, page by page, again and again. Until SIGTERM; each
 * second a line
 *
 *   SECONDS WRITES BYTES    since the beginning; or pages, and names in them
 *
 * and a last one at the end. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/client/client.h"
#include "cell/sys/clock.h"
#include "cell/config/key_file.h"
#include "fs/link.h"
#include "cell/wire/codec.h"

enum { LARGEST_ONE_IN = 256, TOLD_EVERY_MS = 1000, FILES_MAX = 100000 };

struct file {
	uint64_t node, generation; /* node 0: not created yet */
};

struct writer {
	bool waiting; /* for an answer, about a file and so many bytes: */
	int file;
	size_t size;
	bool lists; /* has created its files */
	struct op_get_listing page;
	char after[LIMIT_NAME];
};

struct load {
	uv_loop_t loop;
	uv_timer_t timer, told;
	uv_signal_t terminate;
	struct link *link;
	struct client *client;
	struct client_update update;
	struct writer writers[LIMIT_IN_FLIGHT];
	struct file *files; /* of writer i those with the numbers i, i + n, i + 2n ... */
	int n, files_n, waiting;
	size_t size;
	struct rng rng;
	uint8_t contents[LIMIT_CONTENTS];
	uint64_t writes, bytes;
	mono_t begun;
	bool ending, list;
};

_Noreturn static void
die(const char *what, const char *why)
{
	fprintf(stderr, "writers: %s: %s\n", what, why);
	exit(1);
}

static void
tell(const struct load *l)
{
	printf("%lld %llu %llu\n",
	       (long long)(span_to_ms(mono_since(clock_now(), l->begun)) / 1000),
	       (unsigned long long)l->writes, (unsigned long long)l->bytes);
	fflush(stdout);
}

/* ---- the client ---- */

static void on_timer(uv_timer_t *timer);
static void take_answer(struct load *l, const struct client_answer *a);

static void
step(struct load *l, struct client_event event)
{
	struct client_update *u = &l->update;

	event.now = clock_now();
	client_step(l->client, &event, u);
	if (u->members_changed)
		link_set_members(l->link, client_members(l->client));
	if (u->connect)
		link_connect(l->link, u->replica);
	if (u->listen)
		link_listen(l->link, u->listen_to);
	if (u->frames.len > 0)
		link_send(l->link, buffer_view(&u->frames));
	for (size_t i = 0; i < u->answers_n; i++)
		take_answer(l, &u->answers[i]);
}

static void
submit(struct load *l, int i, const struct op *op)
{
	step(l, (struct client_event){.kind = CLIENT_REQUEST,
	                              .request = client_request_new((uint64_t)i, op, false)});
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
	w->size = rng_below(&l->rng, LARGEST_ONE_IN) == 0 ? LIMIT_CONTENTS
	                                                  : 1 + (size_t)rng_below(&l->rng, l->size);
	l->waiting++;
	if (l->files[w->file].node == 0)
		create(l, i);
	else
		write_contents(l, i);
}

/* All that have an answer. */
static void
go_on(struct load *l)
{
	for (int i = 0; i < l->n && !l->ending; i++)
		if (!l->writers[i].waiting && l->list)
			begin_list(l, i);
		else if (!l->writers[i].waiting)
			begin_write(l, i);
}

static void
take_answer(struct load *l, const struct client_answer *a)
{
	struct writer *w = &l->writers[a->token];
	struct file *f = &l->files[w->lists ? 0 : w->file];

	if (a->rc != RC_OK)
		die("a request failed", rc_text(a->rc));
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
		die("content generation", "a write was lost, or done twice");
	l->writes++;
	l->bytes += w->size;
}

/* ---- the loop ---- */

static void
arm(struct load *l)
{
	int64_t left = mono_since(client_deadline(l->client), clock_now()).ns;

	if (l->ending && l->waiting == 0) {
		tell(l);
		exit(0);
	}
	uv_update_time(&l->loop);
	must(uv_timer_start(&l->timer, on_timer,
	                    left <= 0 ? 0 : (uint64_t)(left + 999999) / 1000000, 0) == 0);
}

static void
hear(struct load *l, struct client_event event)
{
	step(l, event);
	go_on(l);
	arm(l);
}

static void
on_timer(uv_timer_t *timer)
{
	hear(timer->data, (struct client_event){.kind = CLIENT_TIMEOUT});
}

static void
on_connected(void *user)
{
	hear(user, (struct client_event){.kind = CLIENT_CONNECTED});
}

static void
on_frame(void *user, bool aside, struct bytes frame)
{
	hear(user, (struct client_event){.kind = CLIENT_FRAME, .standby = aside, .frame = frame});
}

static void
on_disconnected(void *user, bool aside)
{
	hear(user, (struct client_event){.kind = CLIENT_DISCONNECTED, .standby = aside});
}

static void
on_told(uv_timer_t *timer)
{
	tell(timer->data);
}

static void
on_terminate(uv_signal_t *handle, int number)
{
	struct load *l = handle->data;

	(void)number;
	l->ending = true;
	arm(l);
}

/* ---- the beginning ---- */

static void
begin_client(struct load *l, const struct cell_file *cell_file)
{
	struct client_config config = {.host = "writers", .grace = span_s(60)};

	random_fill(&config.seed, sizeof config.seed);
	random_fill(config.nonce, sizeof config.nonce);
	for (int i = 0; i < cell_file->replicas_n; i++)
		config.replicas[i] = cell_file->replicas[i].id;
	config.replicas_n = cell_file->replicas_n;
	l->rng = rng_seeded(config.seed);
	for (size_t i = 0; i < LIMIT_CONTENTS; i++)
		l->contents[i] = (uint8_t)rng_next(&l->rng);
	l->client = client_new(&config, clock_now());
}

static void
begin_link(struct load *l, const struct cell_file *cell_file, const char *key_path)
{
	char name[LIMIT_PRINCIPAL + 1], why[512];
	struct noise_pair key;
	int error = 0;

	if (!key_file_read_principal(key_path, name, &key, why, sizeof why))
		die(key_path, why);
	l->link = link_to_cell(&l->loop, cell_file, &key, &error);
	if (l->link == NULL)
		die("no link", strerror(-error));
	link_start(l->link, &(struct link_callbacks){.connected = on_connected,
	                                             .frame = on_frame,
	                                             .disconnected = on_disconnected,
	                                             .user = l});
}

static void
begin_handles(struct load *l)
{
	must(uv_timer_init(&l->loop, &l->timer) == 0);
	must(uv_timer_init(&l->loop, &l->told) == 0);
	must(uv_signal_init(&l->loop, &l->terminate) == 0);
	l->timer.data = l->told.data = l->terminate.data = l;
	must(uv_timer_start(&l->told, on_told, 0, TOLD_EVERY_MS) == 0);
	must(uv_signal_start(&l->terminate, on_terminate, SIGTERM) == 0);
}

static void
scan(struct load *l, char **argv)
{
	const long size = atol(argv[5]);

	l->n = atoi(argv[3]);
	l->files_n = atoi(argv[4]);
	if (l->n < 1 || l->n > LIMIT_IN_FLIGHT || l->files_n < l->n || l->files_n > FILES_MAX ||
	    size < 1 || size > LIMIT_CONTENTS)
		die("WRITERS, FILES or SIZE", "out of range");
	l->size = (size_t)size;
	l->files = memory_zero((size_t)l->files_n, sizeof *l->files);
}

int
main(int argc, char **argv)
{
	static struct load l;
	struct cell_file cell_file;
	char why[512];

	if (argc != 6 && (argc != 7 || strcmp(argv[6], "list") != 0)) {
		fprintf(stderr, "usage: writers CELLFILE KEYFILE WRITERS FILES SIZE [list]\n");
		return 2;
	}
	scan(&l, argv);
	l.list = argc == 7;
	if (!cell_file_read(argv[1], &cell_file, why, sizeof why))
		die(argv[1], why);
	must(uv_loop_init(&l.loop) == 0);
	l.begun = clock_now();
	begin_client(&l, &cell_file);
	begin_handles(&l);
	begin_link(&l, &cell_file, argv[2]);
	go_on(&l);
	arm(&l);
	return uv_run(&l.loop, UV_RUN_DEFAULT);
}
