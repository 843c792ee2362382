/* The characters of a text that may be shown to people as they are: those that are UTF-8 and
 * neither end a line nor give commands to a terminal. */
#ifndef LSFS_BASE_PRINTABLE_H
#define LSFS_BASE_PRINTABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "cell/base/bytes.h"

/* The length of the character that the text begins with, up to its zero byte; *shown is false for a
 * control character (C0, DEL, or C1: U+0080 to U+009F), and for a byte that is not UTF-8. */
size_t printable_next(const char *text, bool *shown);

/* Appends the text as it stands within a string of JSON: a byte that is not UTF-8 as \udcNN, the
 * half of a surrogate pair of which Python makes that byte again (PEP 383). */
void printable_json(struct buffer *to, struct bytes text);

#endif
