/* The text of a mount's .cell/status, whatever has happened to the mount. */
#ifndef LSFS_CTL_MOUNT_TEXT_H
#define LSFS_CTL_MOUNT_TEXT_H

#include <jansson.h>

enum { MOUNT_TEXT_SIZE = 4096 };

/* Puts the status of the mount at `mountpoint` into `text`. 0 or a positive errno: ETIMEDOUT when
 * there is no answer within seconds. */
int mount_text(const char *mountpoint, char text[MOUNT_TEXT_SIZE + 1]);
/* Appends what such an answer shows: the mount is dead, silent, or its session is not safe. */
void mount_text_findings(json_t *findings, const char *mountpoint, int error, const char *text);

#endif
