/* check: asks whether the lock that a sequencer proves is still held. A mount of the cell on this
 * machine is asked, else the cell itself. verify: checks that the cell has issued the sequencer,
 * which needs no connection: the cell file holds the public key. */
#include <errno.h>
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/master/sequencer.h"
#include "cell/sys/log.h"
#include "cell/view/ask.h"
#include "cell/view/output.h"
#include "ctl/cell.h"
#include "ctl/cell_admin.h"

static bool
parse(const char *text, struct sequencer *s)
{
	if (sequencer_parse(bytes_of(text), s) &&
	    strcspn(text + strlen("/ls/"), "/") <= LIMIT_CELL_NAME)
		return true;
	return log_error("%s: not a sequencer", text);
}

static int
verdict(const char *text)
{
	line_print("%s", text);
	return strcmp(text, "valid") == 0 ? CTL_OK : CTL_FAILED;
}

static int
check_by_mount(const struct run_record *mount, const char *sequencer)
{
	char path[PATH_MAX + 16], answer[LIMIT_WHY + 16];
	size_t len = strlen(sequencer);
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof path, "%s/.cell:check", mount->mountpoint);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && write(fd, sequencer, len) == (ssize_t)len)
		n = pread(fd, answer, sizeof answer - 1, 0);
	if (n < 0)
		log_error("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return CTL_UNKNOWN;
	answer[n] = '\0';
	answer[strcspn(answer, "\n")] = '\0';
	return verdict(answer);
}

static void
on_checked(void *user, const struct message *m)
{
	struct bytes why = m->sequencer_checked.why;

	snprintf(user, LIMIT_WHY + 16, why.len == 0 ? "valid" : "stale: %.*s", (int)why.len,
	         (const char *)why.data);
}

/* Makes the cell of the sequencer the one that is asked, unless the user means another. */
static int
choose(struct ctl *ctl, const char *sequencer, const char *cell)
{
	static struct cell_file cell_file;
	char path[PATH_MAX];

	if (ctl->cell && !cell_find(ctl, path, &cell_file))
		return CTL_UNKNOWN;
	if (ctl->cell && strcmp(cell_file.name, cell) == 0)
		return CTL_OK;
	if (ctl->cell_chosen) {
		log_error("%s: is of cell %s, not of %s", sequencer, cell, cell_file.name);
		return CTL_UNKNOWN;
	}
	ctl->cell = cell;
	return CTL_OK;
}

/* The cell's name stands in "/ls/CELL/PATH:...". */
static int
run(const struct ctl *ctl, char **argv)
{
	static struct run_record mount;
	char cell[LIMIT_CELL_NAME + 1];
	const char *name = argv[0] + strlen("/ls/");
	const struct message question = MESSAGE(check_sequencer, .sequencer = bytes_of(argv[0]));
	struct ctl named = *ctl;
	char answer[LIMIT_WHY + 16];
	struct cell_admin o;
	struct sequencer s;
	int code;

	if (!parse(argv[0], &s))
		return CTL_FAILED;
	snprintf(cell, sizeof cell, "%.*s", (int)strcspn(name, "/"), name);
	if (!ctl->cell_chosen && place_mounted_cells(cell, &mount) == 1)
		return check_by_mount(&mount, argv[0]);
	code = choose(&named, argv[0], cell);
	if (code != CTL_OK)
		return code;
	code = CTL_UNKNOWN;
	if (cell_admin_begin(&named, &o) &&
	    ask_master(&o.cell_file, &o.key, &question, MSG_sequencer_checked, on_checked, answer))
		code = verdict(answer);
	cell_admin_end(&o);
	return code;
}

static int
run_verify(const struct ctl *ctl, char **argv)
{
	char path[PATH_MAX];
	struct sequencer s;
	struct cell_file cell_file;

	if (!ctl->cell)
		return ctl_usage("--cell", "needed");
	if (sodium_init() < 0)
		return CTL_FAIL("libsodium: cannot be initialized");
	if (!cell_find(ctl, path, &cell_file) || !parse(argv[0], &s))
		return CTL_FAILED;
	if (sequencer_verify(&s, cell_file.signing_public) ||
	    (cell_file.has_former && sequencer_verify(&s, cell_file.former_public)))
		return CTL_OK;
	return CTL_FAIL("%s: not signed by cell %s with a key that %s names", argv[0],
	                cell_file.name, path);
}

const struct ctl_command check_command = {
    "check",
    "asks the cell whether a lock is still held: prints valid, or stale and why (exit 1)",
    {{.words = {"SEQUENCER"}, .run = run, .unsaid = CTL_UNKNOWN}},
    NULL,
};

const struct ctl_command verify_command = {
    "verify",
    "checks offline, by the cell file of --cell, that the cell has issued the sequencer: exit 0"
    " or 1",
    {{.words = {"SEQUENCER"}, .run = run_verify}},
    NULL,
};
