/* libfuse's low-level interface, with one FUSE_USE_VERSION for all files. */
#ifndef LSFS_FS_FUSE_FUSE_API_H
#define LSFS_FS_FUSE_FUSE_API_H

#define FUSE_USE_VERSION 312
#include <fuse_lowlevel.h>

#endif
