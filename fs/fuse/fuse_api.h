/* libfuse's low-level interface, in the one version that is asked for everywhere. */
#ifndef LSFS_FS_FUSE_FUSE_API_H
#define LSFS_FS_FUSE_FUSE_API_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#endif
