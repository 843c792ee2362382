#include "cell/base/printable.h"

/* 0 when it is no UTF-8. */
static size_t
length_of(const unsigned char *text)
{
	const size_t n = text[0] < 0x80                      ? 1
	                 : text[0] >= 0xc2 && text[0] < 0xe0 ? 2
	                 : text[0] >= 0xe0 && text[0] < 0xf0 ? 3
	                 : text[0] >= 0xf0 && text[0] < 0xf5 ? 4
	                                                     : 0;

	for (size_t i = 1; i < n; i++)
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	return n;
}

static bool
is_control(const unsigned char *text)
{
	return text[0] < 0x20 || text[0] == 0x7f || (text[0] == 0xc2 && text[1] < 0xa0);
}

size_t
printable_next(const char *text, bool *shown)
{
	const unsigned char *at = (const unsigned char *)text;
	const size_t n = length_of(at);

	*shown = n > 0 && !is_control(at);
	return n > 0 ? n : 1;
}
