/* replay_wire [INPUTS [SEED]]: well-formed messages, damaged at random, through the fuzz target. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "cell/wire/codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire_values.h"

/* Appends a random well-formed input with the byte that chooses its decoder. */
static void
put_random(struct values *v, struct buffer *b)
{
	union {
		struct message message;
		struct op op;
		struct entry entry;
		struct result result;
	} value;
	unsigned kind = (unsigned)rng_below(&v->rng, RESULT_session + 1);
	unsigned decoder = (unsigned)rng_below(&v->rng, FUZZ_RESULT + 1);

	buffer_put_u8(b, (uint8_t)(decoder == FUZZ_RESULT ? FUZZ_RESULT + kind : decoder));
	switch (decoder) {
	case FUZZ_FRAME:
		while (!values_message(v, (unsigned)rng_below(&v->rng, 256), &value.message))
			continue;
		wire_put_frame(b, &value.message);
		break;
	case FUZZ_OP:
		while (!values_op(v, (unsigned)rng_below(&v->rng, 256), &value.op))
			continue;
		wire_put_op(b, &value.op);
		break;
	case FUZZ_ENTRY:
		values_fill(v, &shape_entry, &value.entry);
		wire_put_entry(b, &value.entry);
		break;
	default:
		values_result(v, kind, &value.result);
		wire_put_result(b, &value.result);
	}
}

/* Changes what decoders trust: single bits, whole bytes, lengths (large and small), the end. */
static void
damage(struct rng *rng, struct buffer *b)
{
	static const uint8_t telling[] = {0, 1, 0x7f, 0x80, 0xff};
	size_t at = rng_below(rng, b->len);

	switch (rng_below(rng, 5)) {
	case 0:
		b->data[at] ^= (uint8_t)(1 << rng_below(rng, 8));
		break;
	case 1:
		b->data[at] = telling[rng_below(rng, sizeof telling)];
		break;
	case 2:
		b->data[at] = (uint8_t)(b->data[at] + rng_below(rng, 5) - 2);
		break;
	case 3:
		b->len = at + 1;
		break;
	default:
		buffer_put_u8(b, (uint8_t)rng_next(rng));
	}
}

static void
replay(struct values *v, struct buffer *b)
{
	uint8_t *exact;

	buffer_reset(b);
	put_random(v, b);
	for (uint64_t n = rng_below(&v->rng, 4); n > 0; n--)
		damage(&v->rng, b);
	exact = malloc(b->len); /* of just this size, so that a sanitizer sees a read after it */
	memcpy(exact, b->data, b->len);
	LLVMFuzzerTestOneInput(exact, b->len);
	free(exact);
	values_free(v);
}

int
main(int argc, char **argv)
{
	uint64_t inputs = argc > 1 ? strtoull(argv[1], NULL, 0) : 50000;
	uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
	struct values v = {.rng = rng_seeded(seed)};
	struct buffer b = BUFFER(LIMIT_FRAME);

	printf("# %" PRIu64 " inputs, seed %" PRIu64 "\n", inputs, seed);
	for (uint64_t i = 0; i < inputs; i++)
		replay(&v, &b);
	buffer_free(&b);
	return 0;
}
