/* The services that a server needs: clocks, a disk, connections. The server's owner provides them:
 * cell/host with a loop, threads and sockets, the simulator with virtual time. Every call returns
 * at once and does not call the server back; the result of a call that takes time is reported
 * later, by the function of server.h that its comment names. All calls are made in one thread. */
#ifndef LSFS_SERVER_SERVER_IO_H
#define LSFS_SERVER_SERVER_IO_H

#include "cell/base/mono.h"
#include "cell/config/cell_file.h"
#include "cell/config/sign_keys.h"
#include "cell/paxos/px.h"
#include "cell/tree/rows.h"

enum server_level { SERVER_ERROR, SERVER_WARN, SERVER_INFO, SERVER_DEBUG };

/* Functions that return a string return NULL for success, or else the reason for people: one line,
 * valid until the next call. */

/* The files of state transfers. */
struct copy_io {
	/* Makes a consistent copy of the saved state, in a place (below STATE_SENDER_MAX), where it
	 * stays until it is dropped. One call at a time. Result: server_copy_made. */
	void (*make)(void *user, int place);
	/* Reads n bytes of a copy that was made. */
	const char *(*read)(void *user, int place, uint64_t offset, uint8_t *to, size_t n);
	void (*drop)(void *user, int place);

	/* Writes another replica's state, in order from its beginning. drop_fetch does nothing if
	 * no fetch was begun. */
	const char *(*begin_fetch)(void *user);
	const char *(*write_fetch)(void *user, uint64_t offset, struct bytes data);
	/* The state is complete: checks it and keeps it for the next start. Result:
	 * server_fetch_checked. */
	void (*check_fetch)(void *user);
	void (*drop_fetch)(void *user);
	void *user;
};

struct server_io {
	/* The clock for decisions; and in *wall_ns, unless it is NULL, the time of day, for
	 * time stamps. */
	mono_t (*now)(void *user, int64_t *wall_ns);
	void (*random)(void *user, void *to, size_t n);
	/* Logs a line, given without a newline; NULL: nothing is logged. */
	void (*log)(void *user, enum server_level level, const char *line);

	/* Writes records to the log in one transaction; copies them. Result: server_persisted. */
	void (*append)(void *user, uint64_t write, const struct px_record *records, size_t n);
	/* Writes rows to the state in one transaction; takes the rows over. Returns the number of
	 * bytes of the state that wait to be written now. Result: server_saved. */
	size_t (*save)(void *user, uint64_t applied, struct row_list *rows);
	/* Reports that another write than these two has failed: nothing on the disk can be relied
	 * on any more. Result: server_disk_failed. */
	void (*fail)(void *user, const char *why);
	/* Replaces the file of the signing keys, if it has others, and then the cell file; copies
	 * them. One call at a time. Result: server_cell_file_written. */
	void (*write_cell_file)(void *user, const struct cell_file *cell_file,
	                        const struct sign_keys *keys);

	struct copy_io copies;

	/* Begins to connect to a peer, which must prove that it holds the key. Returns the
	 * connection's number, which is never used again. Result: server_opened or
	 * server_closed. */
	uint64_t (*connect)(void *user, const char *address, enum channel_role role,
	                    const uint8_t key[NOISE_KEY]);
	/* Sends whole frames; copies them. Dropped when the connection is not open. */
	void (*send)(void *user, uint64_t conn, struct bytes frames);
	/* Sends a frame as a datagram beside a client's connection; it may be lost. */
	void (*send_datagram)(void *user, uint64_t conn, struct bytes frame);
	/* Stops reading from the connection (on), or goes on reading (off). */
	void (*hold)(void *user, uint64_t conn, bool on);
	/* The number of bytes that were passed to `send` and are not yet sent. */
	size_t (*unsent)(void *user, uint64_t conn);
	/* The key that the peer has proved to hold; NULL: the connection is not open. */
	const uint8_t *(*key)(void *user, uint64_t conn);
	/* Closes the connection once its frames are sent. Returns true if server_closed would still
	 * have been called for the connection; it is not called after this. */
	bool (*close)(void *user, uint64_t conn);
	void *user;
};

static inline mono_t
server_io_now(const struct server_io *io)
{
	return io->now(io->user, NULL);
}

/* Formats a line and logs it; formats nothing if `log` is NULL. */
void server_io_log(const struct server_io *io, enum server_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
