#include "cell/base/rc.h"

#include <errno.h>
#include <stddef.h>

struct row {
	int error;
	const char *name, *text, *error_name;
};

/* Indexed by code; a row without a name is no code. */
static const struct row rows[] = {
#define X(name_, number_, error_, text_) [number_] = {error_, #name_, text_, #error_},
    RC_LIST(X)
#undef X
};

static const struct row *
row_of(enum rc code)
{
	static const struct row unknown = {EIO, "?", "unknown result", "EIO"};

	if ((size_t)code >= sizeof rows / sizeof rows[0] || rows[code].name == NULL)
		return &unknown;
	return &rows[code];
}

int
rc_errno(enum rc code)
{
	return row_of(code)->error;
}

const char *
rc_text(enum rc code)
{
	return row_of(code)->text;
}

const char *
rc_name(enum rc code)
{
	return row_of(code)->name;
}

const char *
rc_errno_name(int error)
{
	for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
		if (rows[i].name != NULL && rows[i].error == error)
			return rows[i].error_name;
	/* Handles are the mount's own: the cell has no code for a wrong one. */
	return error == EBADF ? "EBADF" : "?";
}
