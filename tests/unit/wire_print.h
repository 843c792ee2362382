/* Messages as lines for people: for the traces of tests, and for what they compare. */
#ifndef LSFS_TESTS_WIRE_PRINT_H
#define LSFS_TESTS_WIRE_PRINT_H

#include "cell/wire/codec.h"

/* One line: "request session=7 number=3 op=set_contents{node=5 ...}". Long bytes are shortened to
 * their length. */
void wire_print_message(struct buffer *to, const struct message *m);
/* The same of an operation. */
void wire_print_op(struct buffer *to, const struct op *op);

#endif
