#include "cell/sys/secret.h"

#include <sodium.h>
#include <string.h>
#include <sys/prctl.h>

#include "cell/base/must.h"

/* sodium_malloc goes on where the pages can't be locked. */
void *
secret_new(size_t size)
{
	void *secret = sodium_init() < 0 ? NULL : sodium_malloc(size);

	must(secret != NULL && "out of memory");
	memset(secret, 0, size);
	return secret;
}

void
secret_free(void *secret)
{
	sodium_free(secret);
}

/* A leak checker reads the memory of its own process in the same way as a debugger does, and has to
 * go on doing so. */
bool
secret_hide_process(void)
{
#ifndef __SANITIZE_ADDRESS__
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return false;
#endif
	return true;
}
