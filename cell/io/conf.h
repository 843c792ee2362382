/* The cell file: INI, no secrets, the same for everyone.
 *
 *   [cell]
 *   name = dc1
 *   signing_key = BASE64URL
 *   [replica 1]
 *   address = HOST:PORT      (none for a cell in one process) */
#ifndef LSFS_IO_CONF_H
#define LSFS_IO_CONF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "cell/base/limit.h"

struct conf_replica {
	uint8_t id;
	char address[LIMIT_HOST + 8]; /* empty: in this process */
};

struct conf {
	char name[LIMIT_CELL_NAME + 1];
	uint8_t signing_public[32];
	struct conf_replica replicas[LIMIT_REPLICAS];
	int replicas_n;
};

/* Reads a cell file. False with one line in `why` that names file, line and value. */
bool conf_read(const char *path, struct conf *conf, char *why, size_t why_size);
/* Writes one atomically (temporary file, sync, rename); refuses to overwrite. 0 or -errno. */
int conf_write(const char *path, const struct conf *conf);
/* A cell's name is 1..64 of letters, digits, '.', '_', '-', and starts with a letter or digit. */
bool conf_cell_name_valid(const char *name);

#endif
