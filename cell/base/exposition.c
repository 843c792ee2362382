#include "cell/base/exposition.h"

#include "cell/base/printable.h"

void
exposition_begin(struct buffer *to, const char *name, const char *type, const char *help)
{
	buffer_printf(to, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void
exposition_gauge(struct buffer *to, const char *name, uint64_t value, const char *help)
{
	exposition_begin(to, name, "gauge", help);
	buffer_printf(to, "%s %llu\n", name, (unsigned long long)value);
}

void
exposition_counter(struct buffer *to, const char *name, uint64_t value, const char *help)
{
	exposition_begin(to, name, "counter", help);
	buffer_printf(to, "%s %llu\n", name, (unsigned long long)value);
}

void
exposition_label(struct buffer *to, const char *text)
{
	while (*text != '\0') {
		bool shown;
		const size_t n = printable_next(text, &shown);

		if (*text == '\\' || *text == '"')
			buffer_put_u8(to, '\\');
		if (*text == '\n')
			buffer_printf(to, "\\n");
		else if (!shown && n == 1 && (*text & 0x80) != 0)
			buffer_printf(to, "\\\\x%02x", (unsigned char)*text);
		else
			buffer_put(to, text, n);
		text += n;
	}
}
