/* The side of `lsfs --replace` that takes over a mount from the process that has it (handover.h).
 * Every failure is one logged line, and leaves the mount with that process. */
#ifndef LSFS_FS_TAKEOVER_H
#define LSFS_FS_TAKEOVER_H

#include "cell/base/image.h"
#include "fs/options.h"

struct takeover {
	struct options options; /* of the mount, as the other process has it; strings owned */
	char *source, *shown;   /* its path, and as the mount table shows it; owned */
	int conn;
	int device, record, listening; /* descriptors */
	struct bytes state;            /* owned */
};

/* Asks for the options. `own`: those of this process, which say how it runs. */
bool takeover_ask(struct takeover *t, const struct options *own, const char *mountpoint,
                  const char *record);
/* Has the mount's process stop, and receives its state and its descriptors. */
bool takeover_begin(struct takeover *t, const char *mountpoint, const char *record);
/* The state was read. True: the mount is this process's. */
bool takeover_end(struct takeover *t, const char *mountpoint);
/* Frees what was received, except for the descriptors. */
void takeover_free(struct takeover *t);

#endif
