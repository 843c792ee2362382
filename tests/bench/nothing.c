/* nothing MOUNTPOINT: a filesystem that does nothing, to see what the kernel's requests cost alone.
 *
 * It has files of every name, each with the same contents, which no write changes, and are read as
 * those of a cell are: the kernel keeps names and attributes for a second, and asks for each open,
 * read and close. In the foreground, until it is unmounted. */
#define FUSE_USE_VERSION 314
#include <fuse_lowlevel.h>
#include <stdio.h>
#include <string.h>

enum { FILE_INODE = 2 };

static const char contents[64];

static struct stat
attributes(fuse_ino_t ino)
{
	struct stat st = {.st_ino = ino, .st_nlink = 1, .st_mode = S_IFREG | 0644};

	if (ino == FUSE_ROOT_ID)
		st.st_mode = S_IFDIR | 0755;
	else
		st.st_size = sizeof contents;
	return st;
}

static void
look_up(fuse_req_t request, fuse_ino_t parent, const char *name)
{
	const struct fuse_entry_param entry = {
	    .ino = FILE_INODE,
	    .attr = attributes(FILE_INODE),
	    .attr_timeout = 1,
	    .entry_timeout = 1,
	};

	(void)parent;
	(void)name;
	fuse_reply_entry(request, &entry);
}

static void
get_attributes(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *info)
{
	const struct stat st = attributes(ino);

	(void)info;
	fuse_reply_attr(request, &st, 1);
}

static void
open_file(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *info)
{
	(void)ino;
	info->direct_io = 1;
	fuse_reply_open(request, info);
}

static void
read_file(fuse_req_t request, fuse_ino_t ino, size_t size, off_t at, struct fuse_file_info *info)
{
	const size_t from = (size_t)at < sizeof contents ? (size_t)at : sizeof contents;
	const size_t left = sizeof contents - from;

	(void)ino;
	(void)info;
	fuse_reply_buf(request, contents + from, size < left ? size : left);
}

static void
set_attributes(fuse_req_t request, fuse_ino_t ino, struct stat *st, int which,
               struct fuse_file_info *info)
{
	(void)st;
	(void)which;
	get_attributes(request, ino, info);
}

static void
write_file(fuse_req_t request, fuse_ino_t ino, const char *from, size_t size, off_t at,
           struct fuse_file_info *info)
{
	(void)ino;
	(void)from;
	(void)at;
	(void)info;
	fuse_reply_write(request, size);
}

static void
close_file(fuse_req_t request, fuse_ino_t ino, struct fuse_file_info *info)
{
	(void)ino;
	(void)info;
	fuse_reply_err(request, 0);
}

static const struct fuse_lowlevel_ops ops = {
    .lookup = look_up,
    .getattr = get_attributes,
    .setattr = set_attributes,
    .open = open_file,
    .read = read_file,
    .write = write_file,
    .flush = close_file,
    .release = close_file,
};

int
main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(1, argv);
	struct fuse_session *session;
	int rc = 1;

	if (argc != 2) {
		fprintf(stderr, "usage: nothing MOUNTPOINT\n");
		return 2;
	}
	session = fuse_session_new(&args, &ops, sizeof ops, NULL);
	if (session != NULL && fuse_session_mount(session, argv[1]) == 0) {
		rc = fuse_session_loop(session) < 0;
		fuse_session_unmount(session);
	}
	if (session != NULL)
		fuse_session_destroy(session);
	return rc;
}
