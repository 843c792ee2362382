/* `lsfs --replace`: another process takes the mount over, with its session. The process that has it
 * listens on a socket beside its run record, which only its user can reach, and answers two
 * questions, each on a connection of its own:
 *
 *   ASK  -> OFFER: source, key and options of the mount
 *   TAKE -> STATE: the image of everything, with the descriptors of the FUSE device, of the run
 *           record and of the socket, once nothing is under way; READY -> YOURS
 *
 * Any answer may be REFUSED instead, with the reason. Until it has sent YOURS the old process has
 * the mount, and goes on with it when the other one fails; from then on the new one has it. So
 * never more than one process has the mount, and none only if that one is killed. */
#ifndef LSFS_FS_HANDOVER_H
#define LSFS_FS_HANDOVER_H

#include <sys/un.h>
#include <uv.h>
#include "cell/base/image.h"
#include "fs/engine.h"
#include "fs/fuse/device.h"
#include "fs/mountpoint.h"
#include "fs/options.h"
#include "fs/source.h"

/* Raised whenever anything in the image changes. */
enum { HANDOVER_FORMAT = 7 };

enum handover_word {
	HANDOVER_ASK = 'A',
	HANDOVER_OFFER = 'O',
	HANDOVER_TAKE = 'T',
	HANDOVER_STATE = 'S',
	HANDOVER_READY = 'R',
	HANDOVER_YOURS = 'Y',
	HANDOVER_REFUSED = 'N',
};

enum {
	HANDOVER_FDS = 4, /* the image, the device, the run record, the socket */
	HANDOVER_MESSAGE = 5 * PATH_MAX,
};

/* Sends one message with its descriptors; `words` is the text after its first byte. */
bool handover_send(int conn, enum handover_word word, struct bytes words, const int *fds, int n);
/* Waits at most that long for a message, whose descriptors become the caller's. Returns its word,
 * with *words in `room`; 0: none was received. */
int handover_receive(int conn, char room[HANDOVER_MESSAGE], struct bytes *words, int *fds, int n,
                     int patience_ms);
/* The address of the socket beside the run record. 0 or -errno. */
int handover_address(const char *record, struct sockaddr_un *address);
/* Writes or reads an offer. Strings that are read belong to the caller. */
void handover_image_offer(struct image *i, struct options *o, struct bytes *source,
                          struct bytes *shown, struct bytes *manager, uint64_t *watchdog);

/* The side of the process that has the mount. */
struct handover {
	const struct options *options;
	const struct source *source;
	const struct mountpoint *mountpoint;
	struct device *device;
	struct engine *engine;
	uv_poll_t poll;
	uv_timer_t timer; /* while a process waits for the state */
	mono_t until;     /* calls that are under way then are the reason to refuse */
	int listening;    /* -1: no process can request the mount */
	int conn;         /* of the process that waits; -1 if none does */
	pid_t heir;       /* its process id */
};

/* Listens on the socket `fd`; -1: on a new one. A failure is logged, and no process can request the
 * mount then. The other fields are set. */
void handover_start(struct handover *h, uv_loop_t *loop, int fd);
/* Closes its handles on the loop. */
void handover_stop(struct handover *h);

#endif
