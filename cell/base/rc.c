#include <errno.h>
#include <stddef.h>
#include "cell/base/rc.h"

struct row {
	int error;
	const char *name, *text;
};

/* Indexed by code; a row without a name is no code. */
static const struct row rows[] = {
#define X(name_, number_, error_, text_) [number_] = {error_, #name_, text_},
	RC_LIST(X)
#undef X
};

static const struct row *
row_of(enum rc code)
{
	static const struct row unknown = {EIO, "?", "unknown result"};

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
