/* The files of a server's state transfer: a copy that is made is read without a name and gone when
 * it is dropped; what is fetched is there when it is whole, and only then. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <unistd.h>

#include "cell/base/memory.h"
#include "cell/base/must.h"
#include "cell/copy/copy_files.h"
#include "cell/store/state_db.h"
#include "cell/store/store.h"
#include "tests/unit/net_fixture.h"

static char directory[64], path[128];

struct play {
	uv_loop_t loop;
	struct copy_files files;
	struct copy_io io;
	int made_n, checked_n, stopped_n;
	enum rc rc;
	uint64_t size;
	char why[128];
};

static struct play *play;
static void (*done)(void *user, enum rc rc, uint64_t applied, const char *why);
static void *done_user;
static bool whole;

/* ---- in the place of the server and the copier ---- */

static void
on_copy(struct server *s, enum rc rc, uint64_t applied, uint64_t size, const char *why)
{
	must((void *)s == play && (rc != RC_OK || applied == 7));
	play->made_n++;
	play->rc = rc;
	play->size = size;
	snprintf(play->why, sizeof play->why, "%s", why != NULL ? why : "");
}

static void
on_check(struct server *s, const char *why)
{
	must((void *)s == play);
	play->checked_n++;
	snprintf(play->why, sizeof play->why, "%s", why != NULL ? why : "");
}

void
state_copy_init(struct state_copier *c, uv_loop_t *loop, const char *where)
{
	(void)c;
	(void)loop;
	must(strcmp(where, directory) == 0);
}

void
state_copy_stop(struct state_copier *c, void (*idle)(void *user), void *user)
{
	(void)c;
	idle(user);
}

void
state_copy_add(struct state_copier *c, const char *name, state_copy_done *then, void *user)
{
	(void)c;
	must(strcmp(name, STORE_COPY) == 0);
	done = then;
	done_user = user;
}

bool
state_copy_ready(const char *where, const char *cell, char *why, size_t why_size)
{
	must(strcmp(where, directory) == 0 && strcmp(cell, "dc1") == 0);
	if (!whole)
		snprintf(why, why_size, "it is damaged");
	return whole;
}

/* ---- */

static const char *
path_of(const char *name)
{
	snprintf(path, sizeof path, "%s/%s", directory, name);
	return path;
}

static void
put_copy(const char *text)
{
	int fd = open(path_of(STORE_COPY), O_WRONLY | O_CREAT | O_EXCL, 0600);

	must(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	close(fd);
}

static bool
is_there(const char *name)
{
	return access(path_of(name), F_OK) == 0;
}

static void
start(struct play *p)
{
	memset(p, 0, sizeof *p);
	play = p;
	assert_int_equal(uv_loop_init(&p->loop), 0);
	copy_files_init(&p->files, &p->loop, directory, "dc1");
	p->files.results = (struct copy_results){on_copy, on_check, (struct server *)p};
	p->io = copy_files_io(&p->files);
}

static void
on_stopped(void *user)
{
	((struct play *)user)->stopped_n++;
}

static void
end(struct play *p)
{
	copy_files_stop(&p->files, on_stopped, p);
	UNTIL(p, p->stopped_n == 1);
	copy_files_fini(&p->files);
	assert_int_equal(uv_loop_close(&p->loop), 0);
}

TEST(test_copy)
{
	uint8_t text[8] = "";
	struct play p;

	start(&p);
	p.io.make(p.io.user, 2);
	put_copy("state");
	done(done_user, RC_OK, 7, NULL);
	assert_int_equal(p.rc, RC_OK);
	assert_int_equal(p.size, 5);
	assert_false(is_there(STORE_COPY));
	assert_null(p.io.read(p.io.user, 2, 1, text, 4));
	assert_string_equal((char *)text, "tate");
	assert_non_null(p.io.read(p.io.user, 2, 1, text, 5));
	p.io.drop(p.io.user, 2);
	p.io.make(p.io.user, 2);
	done(done_user, RC_NOSPC, 0, "no room");
	assert_int_equal(p.rc, RC_NOSPC);
	assert_string_equal(p.why, "no room");
	p.io.make(p.io.user, 2);
	done(done_user, RC_OK, 7, NULL); /* and there is no file */
	assert_int_equal(p.rc, RC_IO);
	assert_non_null(strstr(p.why, STORE_COPY ": No such file"));
	end(&p);
}

/* The store gives it up, or has just made it. */
TEST(test_stopped_while_made)
{
	struct play p;

	start(&p);
	p.io.make(p.io.user, 0);
	copy_files_stop(&p.files, on_stopped, &p);
	put_copy("state");
	done(done_user, RC_OK, 7, NULL);
	assert_int_equal(p.made_n, 0);
	assert_false(is_there(STORE_COPY));
	copy_files_fini(&p.files);
	assert_int_equal(uv_loop_close(&p.loop), 0);
}

static void
fetch(struct play *p)
{
	assert_null(p->io.begin_fetch(p->io.user));
	assert_null(p->io.write_fetch(p->io.user, 0, bytes_of("sta")));
	assert_null(p->io.write_fetch(p->io.user, 3, bytes_of("te")));
	assert_true(is_there(STORE_FETCHED));
}

static void
put_file(const char *name)
{
	char file[128];
	int fd;

	snprintf(file, sizeof file, "%s/%s", directory, name);
	fd = open(file, O_WRONLY | O_CREAT, 0600);
	assert_true(fd >= 0 && close(fd) == 0);
}

TEST(test_fetch)
{
	struct play p;

	start(&p);
	fetch(&p);
	p.io.drop_fetch(p.io.user);
	assert_false(is_there(STORE_FETCHED));
	put_file(STATE_DB_FILE ".ready"); /* it was checked, and is not wanted any more */
	p.io.drop_fetch(p.io.user);
	assert_false(is_there(STATE_DB_FILE ".ready"));
	for (int i = 1; i <= 2; i++) {
		whole = i == 2;
		fetch(&p);
		p.io.check_fetch(p.io.user);
		UNTIL(&p, p.checked_n == i);
		assert_string_equal(p.why, whole ? "" : "it is damaged");
		p.io.drop_fetch(p.io.user);
	}
	fetch(&p);
	p.io.check_fetch(p.io.user);
	end(&p); /* waits for the check */
	assert_int_equal(p.checked_n, 2);
	assert_false(is_there(STORE_FETCHED));
}

/* The disk is not filled to the last byte: the log goes on. */
TEST(test_fetch_on_a_full_disk)
{
	enum { PIECE = 1 << 20, PIECES = 4 };
	uint8_t *bytes = memory_zero(PIECE, 1);
	const char *whys[PIECES];
	struct play p;

	if (geteuid() != 0 || mount("test_copy", directory, "tmpfs", 0, "size=18m") < 0) {
		free(bytes);
		skip();
	}
	start(&p);
	assert_null(p.io.begin_fetch(p.io.user));
	for (int i = 0; i < PIECES; i++)
		whys[i] =
		    p.io.write_fetch(p.io.user, (uint64_t)i * PIECE, (struct bytes){bytes, PIECE});
	free(bytes);
	p.io.drop_fetch(p.io.user);
	end(&p);
	assert_int_equal(umount2(directory, MNT_DETACH), 0);
	assert_null(whys[0]);
	assert_non_null(whys[PIECES - 1]);
	assert_non_null(strstr(whys[PIECES - 1], "no room on the disk"));
}

int
main(void)
{
	int failed;

	strcpy(directory, "/tmp/test_copy_files.XXXXXX");
	if (mkdtemp(directory) == NULL)
		return 1;
	failed = unit_run(NULL, NULL);
	return rmdir(directory) == 0 ? failed : 1;
}
