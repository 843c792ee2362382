/* Archives as tar(1) has them: a ustar header for each file and directory, and before it a pax
 * header for what does not fit into one: long names, and attributes as `tar --xattrs` has them. */
#ifndef LSFS_CTL_TAR_H
#define LSFS_CTL_TAR_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include "cell/base/bytes.h"
#include "cell/base/limit.h"

enum { TAR_ATTRIBUTES = 8, TAR_RIGHTS = 2, TAR_WHY = 256 };

/* The attributes user.ls.* that an archive keeps: those that can be set again. The last TAR_RIGHTS
 * say who may change a node, and are set when nothing else is to be set in it. */
extern const char *const tar_attributes[TAR_ATTRIBUTES];

struct tar_entry {
	char name[LIMIT_PATH + 1]; /* relative; empty: the directory that all others are in */
	bool directory;
	mode_t mode;
	int64_t mtime;                               /* seconds since 1970 */
	char values[TAR_ATTRIBUTES][LIMIT_NAME + 1]; /* empty: it has none */
};

/* Writes the entry with its contents. Errors are those of the stream. */
void tar_write(FILE *to, const struct tar_entry *e, struct bytes contents);
/* Writes the end of the archive. */
void tar_write_end(FILE *to);

enum tar_read { TAR_READ, TAR_END, TAR_REFUSED };

/* Reads the next entry. Its contents replace those of the buffer, whose limit is that of a file's
 * contents. TAR_REFUSED: the archive is damaged or contains something that no cell can have; `why`
 * says what. The archive may be anything. */
enum tar_read tar_read(FILE *from, struct tar_entry *e, struct buffer *contents, char why[TAR_WHY]);

#endif
