/* lsctl: the control tool. */
#include <signal.h>
#include "cell/sys/log.h"
#include "cell/sys/process.h"
#include "ctl/ctl.h"

static const struct ctl_command *const commands[] = {
    &up_command,        &down_command,    &status_command, &cell_command,
    &lock_command,      &elect_command,   &once_command,   &get_command,
    &put_command,       &watch_command,   &mirror_command, &check_command,
    &verify_command,    &fence_command,   &key_command,    &backup_command,
    &restore_command,   &replica_command, &master_command, &session_command,
    &locks_command,     &top_command,     &acl_command,    &doctor_command,
    &principal_command, &wait_command,    &txn_command,    &export_command,
    &import_command,    &new_command,     &unlock_command, NULL,
};

int
main(int argc, char **argv)
{
	int code;

	process_open_standard();
	signal(SIGCHLD, SIG_DFL); /* ignored, it would hide how children end */
	log_start("lsctl", LEVEL_INFO);
	code = ctl_run(commands, argc, argv);
	return process_end_output(code) == code ? code : ctl_unsaid();
}
