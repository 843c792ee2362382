/* The target of libFuzzer and of the replay of mutated messages. */
#ifndef LSFS_TESTS_FUZZ_WIRE_H
#define LSFS_TESTS_FUZZ_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* The first byte chooses the decoder, the rest is its input. Returns 0; a fault ends all. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* What the first byte chooses among. */
enum fuzz_wire_decoder { FUZZ_FRAME, FUZZ_OP, FUZZ_ENTRY, FUZZ_RESULT };

#endif
