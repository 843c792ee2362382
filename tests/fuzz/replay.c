/* corpus_NAME: each input of the corpus of this name, through the target that is linked to it. */
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "tests/fuzz/fuzz.h"

enum { INPUT_MAX = 1 << 20 };

/* The input lies in memory of just its size, so that a sanitizer sees a read after it. */
static int
replay(const char *path)
{
	static uint8_t input[INPUT_MAX];
	FILE *f = fopen(path, "re");
	uint8_t *exact;
	size_t len;

	if (f == NULL) {
		fprintf(stderr, "%s: %s\n", path, strerror(errno));
		return 1;
	}
	len = fread(input, 1, sizeof input, f);
	fclose(f);
	exact = malloc(len > 0 ? len : 1);
	if (exact == NULL)
		abort();
	memcpy(exact, input, len);
	LLVMFuzzerTestOneInput(exact, len);
	free(exact);
	return 0;
}

int
main(int argc, char **argv)
{
	const char *source = getenv("srcdir"), *name = strrchr(argv[0], '_');
	char corpus[PATH_MAX], path[2 * PATH_MAX];
	struct dirent *entry;
	int n = 0, failed = 0;
	DIR *d;

	(void)argc;
	snprintf(corpus, sizeof corpus, "%s/tests/fuzz/corpus/%s", source != NULL ? source : "..",
	         name != NULL ? name + 1 : "");
	d = opendir(corpus);
	while (d != NULL && (entry = readdir(d)) != NULL) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof path, "%s/%s", corpus, entry->d_name);
		failed += replay(path);
		n++;
	}
	if (d != NULL)
		closedir(d);
	printf("# %d inputs of %s\n", n, corpus);
	return n == 0 || failed > 0;
}
