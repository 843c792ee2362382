/* Damage in the files of a replica that was killed: flipped bytes, pages that are gone, exchanged,
 * garbage or cut off, at random and sector by sector. The replica never crashes, and never takes
 * something wrong for right: it stops with one line, or goes on with what was there, and knows how
 * much was lost. With LSFS_CRASH_ALL in the environment much more is tried, and every sector. */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cell/base/checksum.h"
#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/base/rng.h"
#include "cell/sys/log.h"
#include "cell/store/log_db.h"
#include "tests/unit/fake_tree.h"
#include "tests/unit/store_fixture.h"
#include "tests/unit/unit.h"

enum {
	LAST = 700,
	FIRST_AGAIN = 301,
	LAST_AGAIN = 330,
	TRIMMED = 40,
	APPLIED = 600,
	ROUND = 9,
	LARGE = 9000,
	PAGE = 4096,
	SECTOR = 512,
	TRIES = 300,
	MANY_TRIES = 20000,
	STRIDE = 61, /* so many sectors apart are those that are tried otherwise */
	FILES = 6,
	NODES = 40,
};

static struct fixture f;

/* ---- what was written ---- */

static bool
written_again(uint64_t slot)
{
	return slot >= FIRST_AGAIN && slot <= LAST_AGAIN;
}

static struct bytes
payload_of(uint64_t slot, uint64_t round)
{
	static uint8_t bytes[LARGE];

	for (size_t i = 0; i < LARGE; i++)
		bytes[i] = (uint8_t)(slot * 31 + round * 7 + i * (slot % 7 + 1));
	return (struct bytes){bytes, slot % 9 == 0 ? LARGE : 60 + slot % 200};
}

static void
put_entry(uint64_t slot, uint64_t round)
{
	struct bytes payload = payload_of(slot, round);

	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_ENTRY,
	                                    .slot = slot,
	                                    .ballot = {round, 1},
	                                    .origin = {round, 1},
	                                    .payload = payload,
	                                    .checksum = checksum(payload)});
}

/* All nodes say at which index they were written. */
static void
save(uint64_t applied)
{
	struct row_list rows = {0};
	struct row row = fake_meta(applied);

	row_list_add(&rows, &row);
	for (int64_t node = 2; node < 2 + NODES; node++) {
		row = fake_node(node, "name", payload_of(applied, (uint64_t)node));
		row_list_add(&rows, &row);
	}
	store_state(f.store, applied, &rows);
	fixture_wait_saved(&f, applied);
}

/* Two lives, the second one ended by a kill. A cell of one knows of nobody else. */
static void
live(int told, bool others)
{
	must(fixture_open(&f));
	fixture_start(&f);
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_PROMISE, .ballot = {ROUND - 1, 2}});
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_MARK,
	                                    .mark = {.replica = others ? 2 : 1, .slot = 77}});
	for (uint64_t slot = 1; slot <= 400; slot++)
		put_entry(slot, 3);
	save(100);
	save(200);
	fixture_close(&f);
	must(fixture_open(&f));
	fixture_start(&f);
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_PROMISE, .ballot = {ROUND, 1}});
	for (uint64_t slot = FIRST_AGAIN; slot <= LAST_AGAIN; slot++)
		put_entry(slot, 7);
	for (uint64_t slot = 401; slot <= LAST; slot++)
		put_entry(slot, 3);
	save(500);
	fixture_put(&f, &(struct px_record){.kind = PX_RECORD_TRIM, .slot = TRIMMED});
	save(APPLIED);
	must(write(told, "x", 1) == 1);
	pause();
}

/* ---- the files that were left, and how they are damaged ---- */

static const char *const names[FILES] = {"log.db",       "log.db-wal", "state.db",
                                         "state.db-wal", "marks",      "health"};

struct image {
	uint8_t *bytes;
	size_t len;
};

static struct image left[2][FILES]; /* by a cell of one, of several */

static struct image
read_image(const char *name)
{
	int fd = open(fixture_path(&f, name), O_RDONLY | O_CLOEXEC);
	struct image image;
	struct stat st;

	assert_true(fd >= 0);
	assert_int_equal(fstat(fd, &st), 0);
	image.len = (size_t)st.st_size;
	image.bytes = memory_zero(image.len + 1, 1);
	assert_int_equal(read(fd, image.bytes, image.len), image.len);
	close(fd);
	return image;
}

static void
write_image(const char *name, const struct image *image)
{
	int fd = open(fixture_path(&f, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, image->bytes, image->len), image->len);
	close(fd);
}

static void
put_all_back(const struct image images[FILES])
{
	DIR *d = opendir(f.directory);
	struct dirent *e;

	assert_non_null(d);
	while ((e = readdir(d)) != NULL)
		if (strcmp(e->d_name, "reserve") != 0)
			unlink(fixture_path(&f, e->d_name));
	closedir(d);
	for (int i = 0; i < FILES; i++)
		write_image(names[i], &images[i]);
}

static void
flip(struct rng *rng, struct image *image)
{
	int n = (int)rng_below(rng, 8) + 1;

	while (n-- > 0)
		image->bytes[rng_below(rng, image->len)] ^= (uint8_t)(rng_below(rng, 255) + 1);
}

static void
fill_part(struct rng *rng, struct image *image, bool garbage)
{
	size_t unit = rng_chance(rng, 500) ? PAGE : SECTOR;
	size_t at = rng_below(rng, image->len / unit + 1) * unit;
	size_t n = unit * (rng_below(rng, 3) + 1);

	for (size_t i = at; i < at + n && i < image->len; i++)
		image->bytes[i] = garbage ? (uint8_t)rng_below(rng, 256) : 0;
}

static void
exchange(struct rng *rng, struct image *image)
{
	uint8_t page[PAGE];
	size_t pages = image->len / PAGE;
	uint8_t *a, *b;

	if (pages < 2)
		return;
	a = image->bytes + rng_below(rng, pages) * PAGE;
	b = image->bytes + rng_below(rng, pages) * PAGE;
	memcpy(page, a, PAGE);
	memmove(a, b, PAGE);
	memcpy(b, page, PAGE);
}

static void
damage(struct rng *rng, struct image *image)
{
	switch (rng_below(rng, 6)) {
	case 0:
	case 1:
		flip(rng, image);
		return;
	case 2:
		fill_part(rng, image, false);
		return;
	case 3:
		fill_part(rng, image, true);
		return;
	case 4:
		image->len = rng_below(rng, image->len);
		return;
	default:
		exchange(rng, image);
	}
}

/* ---- what may be found afterwards ---- */

static void
check_entry(const struct log_entry *e, uint64_t slot)
{
	uint64_t round = written_again(slot) ? 7 : 3;

	assert_int_equal(e->slot, slot);
	assert_int_equal(e->ballot.round, round);
	assert_int_equal(e->origin.round, round);
	assert_true(bytes_equal(e->payload, payload_of(slot, round)));
}

static void
check_state(bool others)
{
	uint64_t applied = tree_applied(f.tree);

	assert_int_equal(f.recovered.applied, applied);
	/* Without its write-ahead log it is as of a checkpoint: the log has the rest. */
	assert_true(applied == APPLIED || applied == 500 || applied == 200 ||
	            (applied == 0 && others));
	assert_int_equal(f.recovered.state_lost, applied < f.recovered.trimmed);
	for (int64_t node = 2; applied > 0 && node < 2 + NODES; node++) {
		const struct row *row = fake_tree_find(f.tree, ROWS_nodes, node);

		assert_non_null(row);
		assert_true(bytes_equal(row->values[COL_nodes_contents].bytes,
		                        payload_of(applied, (uint64_t)node)));
	}
}

static void
check_found(bool others)
{
	const struct px_recovered *r = &f.recovered;
	uint64_t last = log_db_last(r);

	for (size_t i = 0; i < r->entries_n; i++)
		check_entry(&r->entries[i], r->trimmed + 1 + i);
	assert_true(last <= LAST);
	assert_true(last == LAST || (others && r->damaged >= LAST));
	assert_true(r->incarnation > 2);
	assert_int_equal(r->promised.round, ROUND);
	assert_int_equal(r->promised.replica, 1);
	assert_true(r->chosen <= (last > r->applied ? last : r->applied));
	assert_true(r->marks_n <= 1);
	if (r->marks_n == 1)
		assert_int_equal(r->marks[0].slot, 77);
	check_state(others);
}

struct count {
	int opened, repaired, refused;
};

/* The replica begins twice with the damaged image in place of one of its files. */
static void
try_image(int victim, const struct image *image, bool others, struct count *count)
{
	put_all_back(left[others]);
	write_image(names[victim], image);
	f.others = others;
	for (int life = 0; life < 2; life++) {
		if (!fixture_open(&f)) {
			assert_int_equal(life, 0);
			assert_true(strlen(f.why) > 10 && strchr(f.why, '\n') == NULL);
			count->refused++;
			return;
		}
		count->opened++;
		count->repaired += f.recovered.damaged > 0 || f.recovered.applied == 0;
		check_found(others);
		fixture_close(&f);
	}
}

static struct image
copy_of(const struct image *image)
{
	struct image copy = {memory_zero(image->len + 1, 1), image->len};

	memcpy(copy.bytes, image->bytes, image->len);
	return copy;
}

static void
try_one(struct rng *rng, bool others, struct count *count)
{
	int victim = (int)rng_below(rng, FILES);
	struct image image = copy_of(&left[others][victim]);

	damage(rng, &image);
	try_image(victim, &image, others, count);
	free(image.bytes);
}

/* A bit of the sector is flipped, the sector is zeroed, the file ends there. */
static void
try_sector(int victim, size_t at, struct count *count)
{
	const struct image *good = &left[true][victim];
	const size_t len = good->len - at < SECTOR ? good->len - at : SECTOR;
	struct image image = copy_of(good);

	image.bytes[at + at / SECTOR % len] ^= (uint8_t)(1u << at / SECTOR % 8);
	try_image(victim, &image, true, count);
	memset(image.bytes + at, 0, len);
	try_image(victim, &image, true, count);
	memcpy(image.bytes + at, good->bytes + at, len);
	image.len = at;
	try_image(victim, &image, true, count);
	free(image.bytes);
}

static void
make(bool others)
{
	int ends[2];
	pid_t pid;
	char c;

	assert_int_equal(pipe(ends), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		live(ends[1], others);
		_exit(1);
	}
	close(ends[1]);
	assert_int_equal(read(ends[0], &c, 1), 1);
	close(ends[0]);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < FILES; i++)
		left[others][i] = read_image(names[i]);
}

static void
make_both(void)
{
	for (int others = 0; others < 2; others++) {
		fixture_make(&f);
		make(others);
		fixture_remove(&f);
	}
	fixture_make(&f);
}

static void
drop_both(void)
{
	fixture_remove(&f);
	for (int i = 0; i < 2 * FILES; i++)
		free(left[i / FILES][i % FILES].bytes);
}

static uint64_t
first_seed(void)
{
	const char *drawn = getenv("LSFS_CRASH_SEED");

	return drawn != NULL ? strtoull(drawn, NULL, 10) : 1;
}

TEST(test_every_sector)
{
	const size_t stride = getenv("LSFS_CRASH_ALL") != NULL ? 1 : STRIDE;
	struct count count = {0};

	make_both();
	for (int victim = 0; victim < FILES; victim++)
		for (size_t n = first_seed() % stride; n * SECTOR < left[true][victim].len;
		     n += stride) {
			print_message("%s, sector %zu\r", names[victim], n);
			try_sector(victim, n * SECTOR, &count);
		}
	print_message("%d openings, %d of them repaired, %d refused\n", count.opened,
	              count.repaired, count.refused);
	assert_true(count.repaired > count.opened / 10);
	drop_both();
}

TEST(test_random_damage)
{
	uint64_t tries = getenv("LSFS_CRASH_ALL") != NULL ? MANY_TRIES : TRIES;
	uint64_t first = first_seed();
	struct count several = {0}, one = {0};

	make_both();
	for (uint64_t seed = first; seed < first + tries; seed++) {
		struct rng rng = rng_seeded(seed);

		print_message("seed %d\r", (int)seed);
		try_one(&rng, seed % 3 != 0, seed % 3 != 0 ? &several : &one);
	}
	print_message("several: %d openings, %d of them repaired, %d refused; "
	              "alone: %d openings, %d refused\n",
	              several.opened, several.repaired, several.refused, one.opened, one.refused);
	assert_true(several.repaired > (int)tries / 10);
	assert_true(several.refused < (int)tries / 4);
	assert_int_equal(one.repaired, 0);
	assert_true(one.refused > (int)tries / 10);
	drop_both();
}

int
main(void)
{
	log_start("test_corruption", LEVEL_ERROR);
	return unit_run(NULL, NULL);
}
