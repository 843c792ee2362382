/* A transaction, as lines, is given to a mount of the cell, which commits it. */
#ifndef LSFS_CTL_TRANSACTION_H
#define LSFS_CTL_TRANSACTION_H

#include "cell/base/bytes.h"

/* Commits it at once or not at all. Returns CTL_OK; CTL_FAILED, CTL_USAGE if it was refused for its
 * form, or CTL_UNKNOWN if it may have been done. *answer, to be freed by the caller, is what the
 * mount says of it, or what went wrong. */
int transaction_give(const char *mountpoint, struct bytes text, char **answer);

#endif
