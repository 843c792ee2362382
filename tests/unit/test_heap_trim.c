/* Memory that was freed in the middle of the heap. */
#include "tests/unit/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/must.h"
#include "cell/host/heap_trim.h"

enum { BLOCK = 4000, BLOCKS = 16384, KEPT_EACH = 64, LOOK_MS = 10 };

struct world {
	uv_loop_t loop;
	struct heap_trim heap;
	long bound; /* KiB */
};

/* Of this process, in KiB. */
static long
anonymous(void)
{
	FILE *f = fopen("/proc/self/status", "re");
	char line[256];
	long kib = -1;

	must(f != NULL);
	while (kib < 0 && fgets(line, sizeof line, f) != NULL)
		sscanf(line, "RssAnon: %ld kB", &kib);
	fclose(f);
	must(kib >= 0);
	return kib;
}

static void
on_look(uv_timer_t *timer)
{
	struct world *w = timer->data;

	if (anonymous() > w->bound)
		return;
	uv_close((uv_handle_t *)timer, NULL);
	heap_trim_stop(&w->heap);
}

/* A block that is kept at the end of the heap keeps malloc from shrinking it. */
TEST(test_it_goes_back_to_the_system)
{
	static char *blocks[BLOCKS];
	struct world w;
	uv_timer_t look;
	long full;

	must(uv_loop_init(&w.loop) == 0 && uv_timer_init(&w.loop, &look) == 0);
	for (size_t i = 0; i < BLOCKS; i++) {
		blocks[i] = malloc(BLOCK);
		must(blocks[i] != NULL);
		memset(blocks[i], 1, BLOCK);
	}
	for (size_t i = 0; i < BLOCKS; i++)
		if (i % KEPT_EACH != KEPT_EACH - 1)
			free(blocks[i]);
	full = anonymous();
	assert_true(full > (long)BLOCKS * BLOCK / 1024 / 2);

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
	w.bound = 2 * full; /* their malloc keeps it */
#else
	w.bound = full / 4;
#endif
	look.data = &w;
	must(heap_trim_start(&w.heap, &w.loop) == 0);
	must(uv_timer_start(&look, on_look, LOOK_MS, LOOK_MS) == 0);
	uv_run(&w.loop, UV_RUN_DEFAULT);
	must(uv_loop_close(&w.loop) == 0);
	for (size_t i = KEPT_EACH - 1; i < BLOCKS; i += KEPT_EACH)
		free(blocks[i]);
}
