/* verify: checks that the cell has issued a sequencer. Needs no connection: the cell file holds the
 * public key. */
#include <sodium.h>
#include <stdio.h>
#include "cell/sys/log.h"
#include "cell/master/sequencer.h"
#include "ctl/cell.h"

static int
verify(const struct ctl *ctl, const char *text)
{
	char path[PATH_MAX];
	struct sequencer s;
	struct cell_file cell_file;

	if (sodium_init() < 0) {
		log_error("libsodium: cannot be initialized");
		return CTL_FAILED;
	}
	if (!cell_find(ctl, path, &cell_file))
		return CTL_FAILED;
	if (!sequencer_parse(bytes_of(text), &s)) {
		log_error("%s: not a sequencer", text);
		return CTL_FAILED;
	}
	if (!sequencer_verify(&s, cell_file.signing_public) &&
	    !(cell_file.has_former && sequencer_verify(&s, cell_file.former_public))) {
		log_error("%s: not signed by cell %s with a key that %s names", text,
		          cell_file.name, path);
		return CTL_FAILED;
	}
	return CTL_OK;
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	if (argc != 1)
		return ctl_usage(&verify_command, "SEQUENCER", "exactly one is needed");
	if (!ctl->cell)
		return ctl_usage(&verify_command, "--cell", "needed");
	return verify(ctl, argv[0]);
}

const struct ctl_command verify_command = {
    "verify",
    "--cell FILE SEQUENCER",
    "checks offline that the cell has issued the sequencer: exit 0 or 1",
    .run_plain = run,
};
