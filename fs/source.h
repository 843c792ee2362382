/* The source of the mount: a data directory, whose cell runs in this process, or a cell file, whose
 * replicas are reached over the network. */
#ifndef LSFS_FS_SOURCE_H
#define LSFS_FS_SOURCE_H

#include <limits.h>
#include "fs/link.h"
#include "fs/options.h"

struct server_process;

struct source {
	char path[PATH_MAX];  /* canonical: of the directory or the file */
	char shown[PATH_MAX]; /* as the mount table shows it: the path, or the cell's name */
	struct cell_file cell_file;
	struct srv_addresses srv;       /* of the cell file's `srv`; none if it has none */
	struct server_process *process; /* NULL: over the network */
	char key_path[PATH_MAX]; /* over the network: of the key file, canonical; else empty */
	struct noise_pair key;   /* likewise: the principal's; wiped by source_link */
};

/* Resolves the given source to a path. False after one logged line. */
bool source_find(struct source *s, const struct options *options, const char *mountpoint);
/* True if a mount whose source the mount table shows like this is of the same cell file. */
bool source_is_shown(const struct source *s, const char *shown);
/* Reads the cell file and the key, or opens the server of the data directory. `server_failed` as in
 * struct server_process_config. False after one logged line. */
bool source_open(struct source *s, const struct options *options, void (*server_failed)(void *user),
                 void *user);
/* Starts the server, if there is one, and makes the link. NULL after one logged line. */
struct link *source_link(struct source *s, uv_loop_t *loop);

#endif
