/* The cell file: INI, no secrets, the same for everyone.
 *
 *   [cell]
 *   name = dc1
 *   id = BASE64URL           random, made with the cell and never changed
 *   signing_key = BASE64URL
 *   former_signing_key = BASE64URL   of the time before a rotation; absent: there was none
 *   key_version = NUMBER     log index at which the cell had these signing keys; absent: they are
 *                            from before any rotation
 *   admin_key = BASE64URL    of principal `admin`; absent for a cell in one process
 *   private = yes            only administrators may read and write the root of the new cell
 *   version = NUMBER         log index of the change that made this list of replicas; absent: the
 *                            first list
 *   srv = NAME               a DNS name of type SRV, which gives clients the addresses to begin
 *                            with, in place of those below
 *   listen = HOST:PORT       in a data directory: the replica listens here, not on its address
 *   [settings]               with which a new cell begins; the settings in force are in the tree
 *   session_lease = 20s
 *   [replica 1]
 *   address = HOST:PORT      empty for a cell in one process
 *   key = BASE64URL          absent for a cell in one process
 *   role = learner           in the data directory of a replica that joins a running cell and has
 *                            no vote yet; default: voter
 *
 * The cell file of a cell on a network gives admin_key, an address and a key of each replica; no
 * two replicas share an address or a key. Ids are 1 to 255, in any order and with gaps. The file
 * only says where a client or replica connects first; the current members come from the cell. */
#ifndef LSFS_CONFIG_CELL_FILE_H
#define LSFS_CONFIG_CELL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include "cell/base/setting.h"
#include "cell/wire/channel.h"
#include "cell/wire/types.h"
#include "config.h"

struct cell_file_replica {
	uint8_t id;
	enum member_role role;
	char address[LIMIT_ADDRESS + 1]; /* HOST:PORT; empty: a cell in one process */
	uint8_t public_key[32];          /* Curve25519, for the secure channel */
};

struct cell_file {
	char name[LIMIT_CELL_NAME + 1];
	uint8_t id[CELL_ID]; /* of the cell, in handshakes */
	uint8_t signing_public[32];
	bool has_former; /* a rotation has replaced this one: what it has signed is still valid */
	uint8_t former_public[32];
	uint64_t key_version; /* log index at which the cell had these two; 0: never rotated */
	bool has_admin;
	uint8_t admin_public[32];
	bool is_private;  /* a new cell's root is its administrators' alone */
	uint64_t version; /* of the list of replicas; 0: the first */
	struct cell_file_replica replicas[LIMIT_REPLICAS];
	int replicas_n;
	struct settings settings;       /* with which a new cell begins; 0: the default */
	char srv[LIMIT_HOST + 1];       /* clients begin at its addresses; empty: at those above */
	char listen[LIMIT_ADDRESS + 1]; /* in a data directory: listen here, not on the address */
};

/* The cell file of a cell given by its name is CELL_FILE_DIRECTORY/NAME.conf. */
#define CELL_FILE_DIRECTORY SYSCONFDIR "/lsfs"

/* Puts into `path` the cell file that `cell`, a cell's name or a path, stands for; true when it was
 * taken as a name. Text of the form of a name is a name, unless no cell file of that name exists in
 * CELL_FILE_DIRECTORY and a regular file of that name does in the current directory. */
bool cell_file_locate(const char *cell, char *path, size_t path_size);
/* Reads and checks a cell file. False with one line in `why` that names file, line and value. */
bool cell_file_read(const char *path, struct cell_file *cell_file, char *why, size_t why_size);
/* Writes a cell file atomically (temporary file, sync, rename); never over an existing file
 * (-EEXIST). 0 or -errno. */
int cell_file_write(const char *path, const struct cell_file *cell_file);
/* Like cell_file_write, but replaces an existing file. 0 or -errno. */
int cell_file_replace(const char *path, const struct cell_file *cell_file);
/* Copies the newest list of replicas of the same cell, with its version, from DIRECTORY/cell.conf
 * and DIRECTORY/N/cell.conf into *cell_file. A cell file names the replicas of the day on which it
 * was copied, but each replica keeps the one in its data directory up to date. True when a newer
 * list was found. Files that are missing, unreadable, or owned by neither root nor this user are
 * ignored. */
bool cell_file_renew_in(const char *directory, struct cell_file *cell_file);
/* The same for the directory of the cell file `path` and for LOCALSTATEDIR/lib/lsfs/NAME: so on a
 * machine with a replica the members are known even when every replica in the given cell file was
 * replaced. */
bool cell_file_renew(const char *path, struct cell_file *cell_file);
/* A cell's name is 1..64 of letters, digits, '.', '_', '-', and starts with a letter or digit. */
bool cell_file_cell_name_valid(const char *name);
enum { CELL_FILE_HOST_MAX = 180 }; /* bytes; an address must fit into one line of inih */

/* HOST:PORT with a name or an IPv4 address of at most CELL_FILE_HOST_MAX bytes, or [IPv6]:PORT. */
bool cell_file_address_valid(const char *address);
/* The index of the replica with that id; -1: there is none. */
static inline int
cell_file_find(const struct cell_file *cell_file, int id)
{
	for (int i = 0; i < cell_file->replicas_n; i++)
		if (cell_file->replicas[i].id == id)
			return i;
	return -1;
}
/* True for the name of a replica's data directory among those of its cell on one machine, an id. */
static inline bool
cell_file_is_replica_directory(const char *name)
{
	const size_t n = strlen(name);

	return name[0] != '0' && n <= 3 && strspn(name, "0123456789") == n;
}
/* True for a cell in one process: its only replica has no address to connect to. */
static inline bool
cell_file_is_standalone(const struct cell_file *cell_file)
{
	return cell_file->replicas_n == 1 && cell_file->replicas[0].address[0] == '\0';
}

#endif
