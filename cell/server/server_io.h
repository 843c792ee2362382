/* The services that a server needs: clocks, a disk, connections. The server's owner provides them:
 * cell/host with a loop, threads and sockets, the simulator with virtual time. Every call returns
 * at once and does not call the server back; the result of a call that takes time is reported
 * later, by the function of server.h that its comment names. All calls are made in one thread. */
#ifndef LSFS_SERVER_SERVER_IO_H
#define LSFS_SERVER_SERVER_IO_H

#include "cell/base/clock_io.h"
#include "cell/config/cell_file.h"
#include "cell/config/key_file.h"
#include "cell/copy/state_transfer.h"
#include "cell/paxos/px.h"
#include "cell/tree/rows.h"

struct store;
struct transport;

/* The databases. Their owner is a struct store in a process, and named so here; others cast their
 * own. */
struct store_io {
	/* Writes records to the log in one transaction; copies them. Result: server_persisted. */
	void (*append)(struct store *store, uint64_t write, const struct px_record *records,
	               size_t n);
	/* Writes rows to the state in one transaction; takes the rows over. Returns the number of
	 * bytes of the state that wait to be written now. Result: server_saved. */
	size_t (*save)(struct store *store, uint64_t applied, struct row_list *rows);
	/* Reports that another write than these two has failed: nothing on the disk can be relied
	 * on any more. Result: server_disk_failed. */
	void (*fail)(struct store *store, const char *why);
	struct store *store;
};

/* The other files of the data directory. */
struct directory_io {
	/* Replaces the file of the signing keys, if it has others, and then the cell file; copies
	 * them. One call at a time. Result: server_cell_file_written. */
	void (*write_cell_file)(void *user, const struct cell_file *cell_file,
	                        const struct sign_keys *keys);
	/* The size of the disk with the data directory and how much of it is used, in bytes; 0: not
	 * known. NULL: never known. */
	void (*disk)(void *user, uint64_t *used, uint64_t *size);
	void *user;
};

/* Connections. Their owner is a struct transport in a process, and named so here. */
struct network_io {
	/* Begins to connect to a peer, which must prove that it holds the key. Returns the
	 * connection's number, which is never used again. Result: server_opened or
	 * server_closed. */
	uint64_t (*connect)(struct transport *n, const char *address, enum channel_role role,
	                    const uint8_t key[NOISE_KEY]);
	/* Sends whole frames; copies them. Dropped when the connection is not open. */
	void (*send)(struct transport *n, uint64_t conn, struct bytes frames);
	/* Sends a frame as a datagram beside a client's connection; it may be lost. */
	void (*send_datagram)(struct transport *n, uint64_t conn, struct bytes frame);
	/* Stops reading from the connection (on), or goes on reading (off). */
	void (*hold)(struct transport *n, uint64_t conn, bool on);
	/* The number of bytes that were passed to `send` and are not yet sent. */
	size_t (*unsent)(struct transport *n, uint64_t conn);
	/* The key that the peer has proved to hold; NULL: the connection is not open. */
	const uint8_t *(*key)(struct transport *n, uint64_t conn);
	/* Closes the connection once its frames are sent. Returns true if server_closed would still
	 * have been called for the connection; it is not called after this. */
	bool (*close)(struct transport *n, uint64_t conn);
	struct transport *transport;
};

struct server_io {
	struct clock_io clock;
	struct store_io store;
	struct directory_io directory;
	struct copy_io copies;
	struct network_io network;
};

#endif
