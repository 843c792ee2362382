#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/e2e/torture_record.h"

static long long
now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

/* Names and lines hold nothing else that JSON would want escaped. */
static void
print_escaped(FILE *f, const char *text)
{
	for (; text && *text; text++) {
		if (*text == '\n')
			fputs("\\n", f);
		else
			fputc(*text, f);
	}
}

/* One line, written at once. */
static void
note(struct worker *w, const struct record *r, const char *type, int error)
{
	char *line = NULL;
	size_t len = 0;
	FILE *f = open_memstream(&line, &len);

	if (!f)
		give_up("memory");
	fprintf(f, "{\"process\":%d,\"type\":\"%s\",\"operation\":\"%s\",\"path\":\"%s\",",
	        w->process, type, r->operation, r->path);
	fprintf(f, "\"value\":\"");
	print_escaped(f, r->value);
	fprintf(f, "\",\"expected\":\"%s\",\"generation\":%llu,\"mtime\":%llu,",
	        r->expected ? r->expected : "", r->generation, r->mtime);
	fprintf(f, "\"error\":\"%s\",\"time\":%lld}\n", error ? strerrorname_np(error) : "", now());
	if (fclose(f) != 0 || write(w->history, line, len) != (ssize_t)len)
		give_up("history");
	free(line);
}

void
begin(struct worker *w, const struct record *r)
{
	note(w, r, "invoke", 0);
}

void
done(struct worker *w, const struct record *r)
{
	note(w, r, "ok", 0);
}

void
refused(struct worker *w, const struct record *r)
{
	note(w, r, "fail", errno);
}

/* These errors are the cell's or the mount's verdict; any other one says that the answer was lost.
 */
void
uncommitted(struct worker *w, const struct record *r)
{
	bool verdict = errno == ECANCELED || errno == ENOSPC || errno == EDQUOT;

	note(w, r, verdict ? "fail" : "info", errno);
}
