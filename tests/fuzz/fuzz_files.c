/* Files that people write and carry: a cell file, key files. Any text is read, or refused with a
 * line that says why. The first byte chooses the kind. */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include "cell/base/must.h"
#include "cell/config/cell_file.h"
#include "cell/config/key_file.h"

enum { CELL_FILE, PRINCIPAL_KEY, REPLICA_KEY, SIGNING_KEY, PUBLIC_KEY, KINDS };

static bool
read_file(unsigned kind, const char *path, char *why, size_t why_size)
{
	static struct cell_file cell_file;
	char name[LIMIT_PRINCIPAL + 1];
	struct noise_pair pair;
	struct key_public key;
	struct sign_keys signing;

	switch (kind) {
	case CELL_FILE:
		return cell_file_read(path, &cell_file, why, why_size);
	case PRINCIPAL_KEY:
		return key_file_read_principal(path, name, &pair, why, why_size);
	case REPLICA_KEY:
		return key_file_read_replica(path, &pair, why, why_size);
	case SIGNING_KEY:
		return key_file_read_signing(path, &signing, why, why_size);
	default:
		return key_file_read_public(path, &key, why, why_size);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char path[64], why[512] = "";
	int fd;

	if (len == 0)
		return 0;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	must(fd >= 0 && fchmod(fd, 0600) == 0);
	must(write(fd, data + 1, len - 1) == (ssize_t)(len - 1));
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	must(read_file(data[0] % KINDS, path, why, sizeof why) || why[0] != '\0');
	close(fd);
	return 0;
}
