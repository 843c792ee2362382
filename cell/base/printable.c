#include "cell/base/printable.h"

#include <string.h>

/* Bytes of the character that the text begins with; 0 when that is no UTF-8. */
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
	/* Longer than needed, half a surrogate pair, beyond U+10FFFF. */
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] >= 0xa0) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] >= 0x90))
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

void
printable_json(struct buffer *to, struct bytes text)
{
	size_t n;
	bool shown;

	for (size_t i = 0; i < text.len; i += n) {
		const struct bytes rest = {text.data + i, text.len - i};
		char at[5] = "";

		memcpy(at, rest.data, rest.len < 4 ? rest.len : 4);
		n = printable_next(at, &shown);
		if (!shown && n == 1 && rest.data[0] >= 0x80)
			buffer_printf(to, "\\udc%02x", rest.data[0]);
		else if (!shown)
			buffer_printf(to, "\\u%04x", rest.data[n - 1]);
		else if (at[0] == '"' || at[0] == '\\')
			buffer_printf(to, "\\%c", at[0]);
		else
			buffer_put(to, rest.data, n);
	}
}
