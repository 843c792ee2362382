/* Result codes: one list for the tree, the wire, the mount and the tools. On the wire a code is one
 * byte, so codes keep their numbers. System calls on the mount fail with the errno. */
#ifndef LSFS_BASE_RC_H
#define LSFS_BASE_RC_H

#define RC_LIST(X)                                                                            \
	/* name, number, errno, text */                                                       \
	X(OK, 0, 0, "ok")                                                                     \
	X(NOENT, 1, ENOENT, "no such node")                                                   \
	X(EXIST, 2, EEXIST, "the node exists")                                                \
	X(NOTDIR, 3, ENOTDIR, "not a directory")                                              \
	X(ISDIR, 4, EISDIR, "is a directory")                                                 \
	X(NOTEMPTY, 5, ENOTEMPTY, "the directory has children")                               \
	X(ACCES, 6, EACCES, "not permitted by the node's ACL")                                \
	X(PERM, 7, EPERM, "operation not permitted")                                          \
	X(BUSY_LOCK, 8, EAGAIN, "the lock is held or delayed")                                \
	X(CANCELED, 9, ECANCELED, "another write came between")                               \
	X(STALE, 10, ESTALE, "the session has expired or the node is gone")                   \
	X(NOSPC, 11, ENOSPC, "the cell's quota is used up")                                   \
	X(IO, 12, EIO, "the cell could not be reached")                                       \
	X(FBIG, 13, EFBIG, "contents are limited to 256 KiB")                                 \
	X(NAMETOOLONG, 14, ENAMETOOLONG, "name or path too long")                             \
	X(INVAL, 15, EINVAL, "invalid argument")                                              \
	X(RANGE, 16, ERANGE, "out of range")                                                  \
	X(NODATA, 17, ENODATA, "no such attribute")                                           \
	X(XDEV, 18, EXDEV, "directories cannot be renamed")                                   \
	X(DEADLK, 19, EDEADLK, "the descriptor holds a lock of the other kind")               \
	X(INTR, 20, EINTR, "interrupted")                                                     \
	X(NOLCK, 21, ENOLCK, "only locks over the whole file are supported")                  \
	X(NOTSUP, 22, EOPNOTSUPP, "not supported")                                            \
	X(BUSY, 23, EBUSY, "busy")                                                            \
	X(GUARD, 24, ESTALE, "the sequencer of the descriptor is stale")                      \
	X(QUEUED, 32, EAGAIN, "the request waits in the lock's queue")                        \
	X(NOT_MASTER, 33, EAGAIN, "this replica is not the master")                           \
	X(NO_SESSION, 34, ESTALE, "no such session")                                          \
	X(OLD_EPOCH, 35, EAGAIN, "the request belongs to an earlier epoch")                   \
	X(OLD_REQUEST, 36, EIO, "the request was answered before and its reply acknowledged") \
	X(BAD_MESSAGE, 37, EPROTO, "malformed message")                                       \
	X(CORRUPT, 38, EIO, "stored data is damaged")                                         \
	X(FULL, 39, ENOSPC, "a limit of the cell is reached")                                 \
	X(AGAIN, 40, EAGAIN, "the command would change more than it declares")                \
	X(DQUOT, 41, EDQUOT, "the budget of a directory above is used up")

enum rc {
#define X(name, number, error, text) RC_##name = number,
	RC_LIST(X)
#undef X
};

/* The errno of `code`; EIO for a number that is no code. */
int rc_errno(enum rc code);

/* A static text for messages and traces; "unknown result" for a number that is no code. */
const char *rc_text(enum rc code);

/* The name without its prefix ("NOENT"), for traces; "?" for a number that is no code. */
const char *rc_name(enum rc code);

/* The name of an errno that a code has, or that the mount answers with ("ENOENT"), for traces; "?"
 * for any other. */
const char *rc_errno_name(int error);

#endif
