/* <lsfs.h>: calls of the lock service on open files that POSIX does not have. */
#ifndef LSFS_H
#define LSFS_H

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>

/* The size is that of the text, with the NUL that ends it: most sequencers are shorter than the
 * 1,024 bytes that Python takes, and one of a long path is not cut. */
#define LSFS_SET_SEQUENCER(size) _IOC(_IOC_WRITE, 'L', 1, size)

/* Attaches a sequencer, the value of the attribute user.ls.sequencer, to an open file on a mounted
 * cell, instead of an earlier one; NULL detaches that, and asks the cell nothing. From then on
 * every read, write and commit through this open file, which asks the cell, is done only while the
 * acquisition of the lock that the sequencer names is held, and fails with ESTALE after that. The
 * lock may be that of any file, and be held by any process of any machine. 0, or -1 with errno:
 * EINVAL: not a sequencer of this cell; ESTALE: it is stale already, or the open file is dead;
 * ECANCELED: dead because it was poisoned, or an operator has released its lock; ENOTTY: not a file
 * on a mounted cell. */
static inline int
lsfs_set_sequencer(int fd, const char *sequencer)
{
	const char *text = sequencer == NULL ? "" : sequencer;
	const size_t size = strlen(text) + 1;

	if (size > _IOC_SIZEMASK) {
		errno = EINVAL;
		return -1;
	}
	return ioctl(fd, LSFS_SET_SEQUENCER(size), text);
}

#define LSFS_WATCH_TREE _IO('L', 2)

/* While this descriptor of a directory is open, .cell/events of its mount also tells what is
 * added, removed, modified and locked anywhere below the directory. 0, or -1 with errno: ENOTTY:
 * not on a mounted cell; ESTALE: the session of the open has ended. */
static inline int
lsfs_watch_tree(int fd)
{
	return ioctl(fd, LSFS_WATCH_TREE);
}

#define LSFS_LOCK _IOW('L', 3, int)

/* flock(2), for directories, whose flock(2) would exclude only this machine: `how` is LOCK_SH,
 * LOCK_EX or LOCK_UN of <sys/file.h>, with LOCK_NB or without. The lock belongs to the open file
 * description, and ends with its last close. 0, or -1 with errno: as flock(2); EACCES: without the
 * right to write; ESTALE: the directory was removed, or the session of the open has ended; ENOTTY:
 * not on a mounted cell. */
static inline int
lsfs_lock(int fd, int how)
{
	return ioctl(fd, LSFS_LOCK, &how);
}

#define LSFS_POISON _IO('L', 4)

/* Makes all calls through the open file description fail with ESTALE, those of other threads and
 * processes that wait for a lock, too, and drops what was written and is not committed. Only close
 * is left, which gives back the lock. 0, or -1 with errno: ENOTTY: not on a mounted cell. */
static inline int
lsfs_poison(int fd)
{
	return ioctl(fd, LSFS_POISON);
}

/* `name` is the prefix of a name, and becomes the name; both are ended by a NUL. */
struct lsfs_number {
	char name[256];
	int ephemeral; /* 1: the file is deleted when no process has it open */
};

#define LSFS_NUMBER _IOWR('L', 5, struct lsfs_number)

/* Makes an empty file in the open directory, whose name is the prefix and the next number of the
 * directory, of ten digits or more. A number is never given again, whichever machines ask. An
 * ephemeral file is there at least until the directory is closed, or has the next one made through
 * the same descriptor: the caller opens it before. 0, or -1 with errno, as open(2) with O_CREAT;
 * ENAMETOOLONG: there is no room for a number behind the prefix. */
static inline int
lsfs_number(int directory, struct lsfs_number *number)
{
	return ioctl(directory, LSFS_NUMBER, number);
}

#endif
