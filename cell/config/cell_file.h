/* The cell file: INI, no secrets, the same for everyone.
 *
 *   [cell]
 *   name = dc1
 *   id = BASE64URL           random, made with the cell and never changed
 *   signing_key = BASE64URL
 *   admin_key = BASE64URL    of principal `admin`; none for a cell in one process
 *   version = NUMBER         log index of the change that made this list of replicas; none: the
 *                            first list
 *   [settings]               of a new cell; those in force are known to the cell
 *   session_lease = 20s
 *   [replica 1]
 *   address = HOST:PORT      none for a cell in one process
 *   key = BASE64URL          likewise
 *   role = learner           in the data directory of a replica that joins a running cell: it has
 *                            no vote yet; else voter
 *
 * A cell on a network gives all of these but the role, and no two replicas share an address or a
 * key. Ids are 1 to 255, in any order and with gaps. It is where to begin: who the members are now
 * is known to the cell. */
#ifndef LSFS_CONFIG_CELL_FILE_H
#define LSFS_CONFIG_CELL_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cell/base/setting.h"
#include "cell/wire/channel.h"
#include "cell/wire/types.h"

struct cell_file_replica {
	uint8_t id;
	enum member_role role;
	char address[LIMIT_HOST + 8]; /* empty: in this process */
	uint8_t public_key[32];       /* Curve25519, for the secure channel */
};

struct cell_file {
	char name[LIMIT_CELL_NAME + 1];
	uint8_t id[CELL_ID]; /* of the cell, in handshakes */
	uint8_t signing_public[32];
	bool has_admin;
	uint8_t admin_public[32];
	uint64_t version; /* of the list of replicas; 0: the first */
	struct cell_file_replica replicas[LIMIT_REPLICAS];
	int replicas_n;
	struct settings settings; /* with which the cell began; 0: the default */
	char listen[LIMIT_HOST + 8]; /* in a data directory: instead of the replica's address */
};

/* Where cell files are looked for by the cell's name: CELL_FILE_DIRECTORY/NAME.conf. */
#define CELL_FILE_DIRECTORY "/etc/lsfs"

/* The path of the cell file that a user means by a path or a cell's name; true: by its name. What
 * holds no slash is a name; but a file called so, where there is no cell of that name, is meant. */
bool cell_file_locate(const char *cell, char *path, size_t path_size);
/* Reads a cell file. False with one line in `why` that names file, line and value. */
bool cell_file_read(const char *path, struct cell_file *cell_file, char *why, size_t why_size);
/* Writes one atomically (temporary file, sync, rename); refuses to overwrite. 0 or -errno. */
int cell_file_write(const char *path, const struct cell_file *cell_file);
/* The same in the place of an older one. */
int cell_file_replace(const char *path, const struct cell_file *cell_file);
/* A cell's name is 1..64 of letters, digits, '.', '_', '-', and starts with a letter or digit. */
bool cell_file_cell_name_valid(const char *name);
/* HOST:PORT with a name or an IPv4 address of at most CELL_FILE_HOST_MAX bytes, or [IPv6]:PORT. */
bool cell_file_address_valid(const char *address);
/* Does the cell run in one process: one replica that nobody can connect to? */
bool cell_file_is_standalone(const struct cell_file *cell_file);

enum { CELL_FILE_HOST_MAX = 180 }; /* a setting is one line, and the parser's lines are short */

#endif
