/* A new list of replicas in the text of a cell file: everything else stays as people wrote it. */
#ifndef LSFS_CONFIG_CELL_FILE_EDIT_H
#define LSFS_CONFIG_CELL_FILE_EDIT_H

#include "cell/config/cell_file.h"

/* Appends the text of a cell file, which was read as `was`, with the replicas and the version of
 * `is`. Comments stay, except those in the sections of replicas that are no more; sections of
 * replicas that have not changed stay to the letter. New replicas come last. */
void cell_file_edit(struct bytes text, const struct cell_file *was, const struct cell_file *is,
                    struct buffer *to);

/* Brings the cell file at `path` up to date in this way, atomically; its mode stays. A symbolic
 * link is followed. False with one line in `why`. */
bool cell_file_refresh(const char *path, const struct cell_file *is, char *why, size_t why_size);

#endif
