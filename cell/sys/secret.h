/* Memory for keys, and the process that has some. */
#ifndef LSFS_SYS_SECRET_H
#define LSFS_SYS_SECRET_H

#include <stdbool.h>
#include <stddef.h>

/* A zeroed block between pages that can't be accessed, which is not written to swap space, as far
 * as the limit of locked memory (RLIMIT_MEMLOCK) allows. Owned by the caller; running out of memory
 * ends the process. */
void *secret_new(size_t size);
/* Wipes the block and frees it; NULL: nothing. */
void secret_free(void *secret);

/* From here on the process leaves no core dump, and no process of the same user reads its memory:
 * for a process that gets a key. False, with errno, if the kernel refuses. */
bool secret_hide_process(void);

#endif
