/* Connections that never prove a key: silent ones, ones that stop in the middle of a handshake,
 * that send noise, a byte now and then, or the handshake of another connection again. */
#ifndef LSFS_TESTS_HALF_OPEN_H
#define LSFS_TESTS_HALF_OPEN_H

#include <stddef.h>
#include "tests/hostile/hostile_line.h"

struct half_open;

/* So many connections will be opened, one after the other, to each of the targets in turn. */
struct half_open *half_open_new(const struct hostile_target *targets, size_t targets_n,
                                size_t most);
/* Some more are opened, and some bytes sent. */
void half_open_tick(struct half_open *h);
/* How many were opened until now, and how many of them are open. */
size_t half_open_made(const struct half_open *h);
size_t half_open_standing(const struct half_open *h);

#endif
