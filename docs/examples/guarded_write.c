/* guarded_write LOCK FILE TEXT: makes TEXT the contents of FILE, both on mounted cells, under the
 * lock of the file LOCK. If the lock is lost before the contents are committed, they are refused,
 * and the status is 1.
 *
 *   cc -o guarded_write guarded_write.c */
#include <fcntl.h>
#include <lsfs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/xattr.h>
#include <unistd.h>

int
main(int argc, char **argv)
{
	char sequencer[2048] = "";
	int lock, file;

	if (argc != 4) {
		fputs("usage: guarded_write LOCK FILE TEXT\n", stderr);
		return 2;
	}
	lock = open(argv[1], O_RDWR | O_CREAT, 0666);
	if (lock < 0 || flock(lock, LOCK_EX) < 0 ||
	    fgetxattr(lock, "user.ls.sequencer", sequencer, sizeof sequencer - 1) < 0) {
		perror(argv[1]);
		return 1;
	}
	/* Truncated after the sequencer, not by open: that would not be guarded. */
	file = open(argv[2], O_WRONLY | O_CREAT, 0666);
	if (file < 0 || lsfs_set_sequencer(file, sequencer) < 0 || ftruncate(file, 0) < 0 ||
	    dprintf(file, "%s\n", argv[3]) < 0 || close(file) < 0) {
		perror(argv[2]);
		return 1;
	}
	return 0; /* the lock is released with its descriptor */
}
