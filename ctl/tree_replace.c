#include "ctl/tree_replace.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/base/rc.h"
#include "ctl/ctl.h"
#include "ctl/mounted_path.h"

enum { TRANSACTION = 1024 * 1024 }; /* the most bytes of its lines */

const char *const tree_acl_attributes[TREE_ACLS] = {"user.ls.acl.read", "user.ls.acl.write",
                                                    "user.ls.acl.change"};

/* The lines of a transaction that gives an existing file contents, in base64, and ACL names: one
 * for each name, empty if that stays. False: the file's name cannot stand in them. */
static bool
put_lines(const char *path, const char *contents, const struct tree_acls *acls, struct buffer *to)
{
	bool right;

	buffer_printf(to, "set");
	right = mounted_path_word(to, "", path);
	buffer_printf(to, " %s\n", contents);
	for (size_t i = 0; i < TREE_ACLS && right; i++) {
		if (acls->names[i][0] != '\0') {
			buffer_printf(to, "setattr");
			mounted_path_word(to, "", path);
			buffer_printf(to, " %s", tree_acl_attributes[i]);
			right = mounted_path_word(to, "", acls->names[i]);
		}
		buffer_put_u8(to, '\n');
	}
	return right && !to->failed;
}

/* 0 or an error; *line is then that of the operation that was refused, or 0. */
static int
commit(int root, struct bytes lines, unsigned *line)
{
	char at[32], *answer;
	const char *why;
	int rc, error;

	*line = 0;
	snprintf(at, sizeof at, "/proc/self/fd/%d", root);
	rc = mounted_path_transaction(at, lines, &answer);
	error = rc == CTL_OK ? 0 : rc == CTL_USAGE ? EINVAL : EIO;
	if (sscanf(answer, "nothing %*u\n%u", line) == 1 && (why = strrchr(answer, ':')) != NULL)
		for (int code = 1; code <= UINT8_MAX; code++)
			if (strncmp(why + 2, rc_text(code), strcspn(why + 2, "\n")) == 0)
				error = rc_errno(code);
	free(answer);
	return error;
}

int
tree_replace(int root, const char *path, struct bytes contents, struct tree_acls *acls)
{
	char *encoded = mounted_path_base64(contents);
	struct buffer lines = BUFFER(TRANSACTION);
	unsigned line = 0;
	int error = ENOENT;

	while (error == ENOENT && line != 1) {
		if (line > 1)
			acls->names[line - 2][0] = '\0';
		buffer_reset(&lines);
		error = put_lines(path, encoded, acls, &lines)
		            ? commit(root, buffer_view(&lines), &line)
		            : EILSEQ;
	}
	buffer_free(&lines);
	free(encoded);
	return error;
}
