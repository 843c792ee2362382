/* A sequencer is parsed from the right: its parts lie in the text, and none that the cell has not
 * signed is taken for one of its own. */
#include "tests/fuzz/fuzz.h"

#include "cell/base/must.h"
#include "cell/master/sequencer.h"

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static const uint8_t key[32] = {1};
	const struct bytes text = {data, len};
	struct sequencer s;

	if (!sequencer_parse(text, &s))
		return 0;
	must(s.path.data == data && s.path.len < s.body.len);
	must(s.body.data == data && s.body.len < len);
	must(s.mode == LOCK_SHARED || s.mode == LOCK_EXCLUSIVE);
	must(!sequencer_verify(&s, key));
	return 0;
}
