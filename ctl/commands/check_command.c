/* check: asks whether the lock that a sequencer proves is still held. A mount of the cell on this
 * machine is asked, else the cell itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "cell/master/sequencer.h"
#include "cell/sys/log.h"
#include "ctl/ask.h"
#include "ctl/cell_admin.h"

/* The cell's name in "/ls/CELL/PATH:..."; false, after an error message, when the text is no
 * sequencer. */
static bool
cell_of(const char *text, char cell[LIMIT_CELL_NAME + 1])
{
	struct sequencer s;
	const char *name = text + strlen("/ls/");

	if (sequencer_parse(bytes_of(text), &s) && strcspn(name, "/") <= LIMIT_CELL_NAME) {
		snprintf(cell, LIMIT_CELL_NAME + 1, "%.*s", (int)strcspn(name, "/"), name);
		return true;
	}
	log_error("%s: not a sequencer", text);
	return false;
}

static int
verdict(const char *text)
{
	printf("%s\n", text);
	return strcmp(text, "valid") == 0 ? CTL_OK : CTL_FAILED;
}

/* ---- by a mount ---- */

static int
check_by_mount(const struct run_record *mount, const char *sequencer)
{
	char path[PATH_MAX + 16], answer[LIMIT_WHY + 16];
	size_t len = strlen(sequencer);
	ssize_t n = -1;
	int fd;

	snprintf(path, sizeof path, "%s/.cell/check", mount->mountpoint);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd >= 0 && write(fd, sequencer, len) == (ssize_t)len)
		n = pread(fd, answer, sizeof answer - 1, 0);
	if (n < 0)
		log_error("%s: %s", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return CTL_FAILED;
	answer[n] = '\0';
	answer[strcspn(answer, "\n")] = '\0';
	return verdict(answer);
}

/* ---- by the cell ---- */

static void
on_checked(void *user, const struct message *m)
{
	struct bytes why = m->sequencer_checked.why;

	snprintf(user, LIMIT_WHY + 16, why.len == 0 ? "valid" : "stale: %.*s", (int)why.len,
	         (const char *)why.data);
}

static int
check_by_cell(const struct ctl *ctl, const char *sequencer)
{
	const struct message question = {
	    .code = MSG_check_sequencer,
	    .check_sequencer = {.sequencer = bytes_of(sequencer)},
	};
	char answer[LIMIT_WHY + 16];
	struct cell_admin o;
	int rc = CTL_FAILED;

	if (cell_admin_begin(ctl, &o) &&
	    ask_master(&o.cell_file, &o.key, &question, MSG_sequencer_checked, on_checked, answer))
		rc = verdict(answer);
	cell_admin_end(&o);
	return rc;
}

static int
check(const struct ctl *ctl, const char *sequencer)
{
	static struct run_record mount;
	char cell[LIMIT_CELL_NAME + 1];
	struct ctl named = *ctl;

	if (!cell_of(sequencer, cell))
		return CTL_FAILED;
	if (!ctl->cell && place_mounted_cells(cell, &mount) == 1)
		return check_by_mount(&mount, sequencer);
	if (!named.cell)
		named.cell = cell;
	return check_by_cell(&named, sequencer);
}

static int
run(struct ctl *ctl, int argc, char **argv)
{
	if (argc != 1)
		return ctl_usage(&check_command, "SEQUENCER", "exactly one is needed");
	return check(ctl, argv[0]);
}

const struct ctl_command check_command = {
    "check",
    "SEQUENCER",
    "asks the cell whether a lock is still held: prints valid, or stale and why (exit 1)",
    .run_plain = run,
};
