/* Metrics in the text format of Prometheus. */
#ifndef LSFS_BASE_EXPOSITION_H
#define LSFS_BASE_EXPOSITION_H

#include "cell/base/bytes.h"

/* Begins a metric of that type: its values follow, a line each. A counter's name ends in _total. */
void exposition_begin(struct buffer *to, const char *name, const char *type, const char *help);
/* A gauge with one value. */
void exposition_gauge(struct buffer *to, const char *name, uint64_t value, const char *help);
/* A counter with one value. */
void exposition_counter(struct buffer *to, const char *name, uint64_t value, const char *help);
/* The value of a label: backslash, quote and newline are escaped, and a byte that is not UTF-8 is
 * shown as \xNN, because Prometheus would refuse all metrics for it. */
void exposition_label(struct buffer *to, const char *text);

#endif
