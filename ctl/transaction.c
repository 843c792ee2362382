#include "ctl/transaction.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/memory.h"
#include "cell/sys/file.h"
#include "ctl/ctl.h"

enum { ANSWER = 256 * 1024 };

/* The first word of the answer says whether it was done; one that was refused has an answer, too.
 */
int
transaction_give(const char *mountpoint, struct bytes text, char **answer)
{
	char path[PATH_MAX + 16];
	int fd, error, rc = CTL_FAILED;

	snprintf(path, sizeof path, "%s/.cell:txn", mountpoint);
	fd = open(path, O_RDWR | O_CLOEXEC);
	error = fd < 0 ? errno : -file_write_at(fd, text, 0);
	*answer = memory_zero(1, ANSWER);
	if (error == 0 && fsync(fd) < 0)
		error = errno;
	if (fd >= 0 && (error == 0 || error == EINVAL) &&
	    pread(fd, *answer, ANSWER - 1, (off_t)text.len) > 0) {
		rc = strncmp(*answer, "refused", 7) == 0   ? CTL_USAGE
		     : strncmp(*answer, "unknown", 7) == 0 ? CTL_UNKNOWN
		     : strncmp(*answer, "done", 4) == 0    ? CTL_OK
		                                           : CTL_FAILED;
	} else {
		snprintf(*answer, ANSWER, "%s: %s", path, strerror(error));
		rc = fd < 0 ? CTL_FAILED : CTL_UNKNOWN;
	}
	if (fd >= 0)
		close(fd);
	return rc;
}
