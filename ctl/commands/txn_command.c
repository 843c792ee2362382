/* txn: a transaction, as lines, is given to a mount of the cell, which commits it. Names of files
 * stand here for their contents. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "cell/base/limit.h"
#include "cell/sys/file.h"
#include "cell/sys/log.h"
#include "ctl/cell.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"

enum { TEXT = 1024 * 1024 }; /* most bytes of the lines, with the contents of files */

/* Appends the contents of the file as base64. Returns CTL_OK, CTL_USAGE if it is too large, or
 * CTL_FAILED, after an error message. */
static int
put_file(struct buffer *to, struct bytes name)
{
	struct buffer contents = BUFFER(LIMIT_CONTENTS);
	char path[PATH_MAX], *encoded;
	int fd, error;

	snprintf(path, sizeof path, "%.*s", (int)name.len, (const char *)name.data);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	error = fd < 0 ? errno : -file_read(fd, LIMIT_CONTENTS, &contents);
	if (fd >= 0)
		close(fd);
	if (error != 0) {
		log_error("%s: %s", path, strerror(error));
		buffer_free(&contents);
		return error == EFBIG ? CTL_USAGE : CTL_FAILED;
	}
	encoded = mounted_path_base64(buffer_view(&contents));
	buffer_printf(to, "%s", encoded);
	free(encoded);
	buffer_free(&contents);
	return CTL_OK;
}

/* Copies the text with @FILE, as the last word of a line, replaced. Words are those that the mount
 * finds: one may stand between quotation marks. Returns what put_file does. */
static int
expand(const struct buffer *given, struct buffer *to)
{
	struct bytes text = buffer_view(given);
	int rc = CTL_OK;

	to->failed = given->failed;
	if (text.len == 0)
		buffer_put_u8(to, '\n'); /* without a write there is no answer */
	while (text.len > 0 && !to->failed) {
		const uint8_t *end = memchr(text.data, '\n', text.len), *at = NULL;
		const size_t len = end == NULL ? text.len : (size_t)(end - text.data);
		bool quoted = false, begins = true; /* the word at i */

		for (size_t i = 0; i < len && at == NULL; i++) {
			const uint8_t c = text.data[i];
			const bool quote = c == '"' && (quoted || begins);

			if (c == '@' && begins && !quoted && i > 0)
				at = text.data + i;
			quoted ^= quote;
			begins = quote || c == ' ' || c == '\t';
		}
		if (at == NULL || text.data[0] == '#') {
			buffer_put(to, text.data, len);
		} else {
			buffer_put(to, text.data, (size_t)(at - text.data));
			rc = put_file(to,
			              (struct bytes){at + 1, len - (size_t)(at - text.data) - 1});
			if (rc != CTL_OK)
				return rc;
		}
		buffer_put_u8(to, '\n');
		text = (struct bytes){text.data + len, text.len - len};
		if (end != NULL)
			text = (struct bytes){text.data + 1, text.len - 1};
	}
	if (to->failed) {
		log_error("the transaction is longer than %d bytes", TEXT);
		rc = CTL_USAGE;
	}
	return rc;
}

/* The record of a mount of the cell that --cell gives, by name or by cell file, or of the only cell
 * that is mounted. False: there is none, or more than one. */
static bool
find_mount(const struct ctl *ctl, struct run_record *mount)
{
	static struct cell_file cell_file;
	char file[PATH_MAX];

	if (ctl->cell == NULL || access(ctl->cell, F_OK) < 0)
		return place_mounted_cells(ctl->cell, mount) == 1;
	return cell_find(ctl, file, &cell_file) && place_mounted_cells(cell_file.name, mount) == 1;
}

static int
run(const struct ctl *ctl, char **argv)
{
	static struct run_record mount;
	static char part[64 * 1024];
	struct buffer given = BUFFER(TEXT), text = BUFFER(TEXT);
	FILE *from = argv[0] != NULL ? fopen(argv[0], "re") : stdin;
	char *answer;
	int rc = CTL_FAILED;
	size_t n;

	while (from != NULL && (n = fread(part, 1, sizeof part, from)) > 0 && !given.failed)
		buffer_put(&given, part, n);
	if (from == NULL || ferror(from))
		log_error("%s: %s", argv[0] != NULL ? argv[0] : "standard input", strerror(errno));
	else if (!find_mount(ctl, &mount))
		log_error("%s: name one cell that is mounted here, by --cell",
		          ctl->cell != NULL ? ctl->cell : "txn");
	else if ((rc = expand(&given, &text)) == CTL_OK) {
		rc = mounted_path_transaction(mount.mountpoint, buffer_view(&text), &answer);
		if (strncmp(answer, "/", 1) == 0)
			log_error("%s", answer);
		else if (rc == CTL_USAGE)
			log_error("txn: %.*s", (int)strcspn(answer, "\n"), answer);
		else
			fputs(answer, stdout);
		free(answer);
	}
	if (from != NULL && from != stdin)
		fclose(from);
	buffer_free(&given);
	buffer_free(&text);
	return rc;
}

const struct ctl_command txn_command = {
    "txn",
    "does the operations of a transaction, written as lines, all at once or not at all: exit 0"
    " done, 1 not",
    {{.words = {"[FILE]"}, .run = run, .unsaid = CTL_UNKNOWN}},
    NULL,
};
