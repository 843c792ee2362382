/* What a server stands on: clocks, a disk, connections. Its owner provides them: cell/host with a
 * loop, threads and sockets, the simulator with virtual time. Every call returns at once and none
 * calls back from within; what takes its time is answered later, by the call of server.h that its
 * comment names. All happens in one thread. */
#ifndef LSFS_SERVER_SERVER_IO_H
#define LSFS_SERVER_SERVER_IO_H

#include "cell/base/mono.h"
#include "cell/config/cell_file.h"
#include "cell/paxos/px.h"
#include "cell/tree/rows.h"

enum server_level { SERVER_ERROR, SERVER_WARN, SERVER_INFO, SERVER_DEBUG };

/* Reasons are for people: one line, valid until the next call; NULL: it went well. */
struct server_io {
	mono_t (*now)(void *user);        /* decides */
	int64_t (*wall_ns)(void *user);   /* only stamps */
	void (*random)(void *user, void *to, size_t n);
	/* A line without its end; NULL: nobody reads them. */
	void (*log)(void *user, enum server_level level, const char *line);

	/* One transaction of the log; copies. server_persisted. */
	void (*append)(void *user, uint64_t write, const struct px_record *records, size_t n);
	/* One transaction of the state; takes the rows over. server_saved. */
	void (*save)(void *user, uint64_t applied, struct row_list *rows);
	/* Bytes of the state that wait. */
	size_t (*unsaved)(void *user);
	/* A write has failed that is not one of the two: nothing on the disk counts any more.
	 * server_disk_failed. */
	void (*fail)(void *user, const char *why);
	/* Replaces the cell file; copies. One at a time. server_cell_file_written. */
	void (*write_cell_file)(void *user, const struct cell_file *cell_file);

	/* A consistent copy of the saved state, kept in a place (below STATE_SENDER_MAX) until it
	 * is dropped. One is made at a time. server_copy_made. */
	void (*make_copy)(void *user, int place);
	/* Bytes of a copy that was made. */
	const char *(*read_copy)(void *user, int place, uint64_t offset, uint8_t *to, size_t n);
	void (*drop_copy)(void *user, int place);

	/* Another replica's state, written in order from its beginning; to drop none does
	 * nothing. */
	const char *(*begin_fetch)(void *user);
	const char *(*write_fetch)(void *user, uint64_t offset, struct bytes data);
	/* It is whole: checks it and leaves it for the next start. server_fetch_checked. */
	void (*check_fetch)(void *user);
	void (*drop_fetch)(void *user);

	/* Begins to connect to the peer that must hold the key. Returns the connection's number,
	 * which is never used again. server_opened or server_closed. */
	uint64_t (*connect)(void *user, const char *address, enum channel_role role,
	                    const uint8_t key[NOISE_KEY]);
	/* Whole frames; copies. Dropped when the connection is not open. */
	void (*send)(void *user, uint64_t conn, struct bytes frames);
	/* Reads no more from it, or (off) goes on. */
	void (*hold)(void *user, uint64_t conn, bool on);
	/* Bytes sent to it that have not left. */
	size_t (*unsent)(void *user, uint64_t conn);
	/* The key that its peer has proved; NULL: it is not open. */
	const uint8_t *(*key)(void *user, uint64_t conn);
	/* Closes it after what was sent; true when server_closed would have come for it, which does
	 * not come any more. */
	bool (*close)(void *user, uint64_t conn);
	void *user;
};

static inline mono_t
server_io_now(const struct server_io *io)
{
	return io->now(io->user);
}

/* Formats a line for `log`, which is not done when nobody reads it. */
void server_io_log(const struct server_io *io, enum server_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
