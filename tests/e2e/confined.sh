#!/bin/bash
# What is left of root's rights in the daemon of a mount, and that it does its work with that.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# of_thread FILE NAME
of_thread() { sed -n "s/^$2:[[:space:]]*//p" "$1"; }

# CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH, CAP_SYS_PTRACE and CAP_SYS_ADMIN at most, in every thread.
is_confined() {
	local status name threads=0
	for status in /proc/"$1"/task/*/status; do
		threads=$((threads + 1))
		is "$(of_thread "$status" NoNewPrivs)" 1
		is "$(of_thread "$status" Seccomp)" 2
		for name in CapEff CapPrm; do
			is "$((0x$(of_thread "$status" $name) & ~0x280006))" 0
		done
	done
	[ $threads -gt 0 ]
}

# The files of other users below a directory of theirs, which only they can enter.
works() {
	echo x > "$1/f"
	: > "$1/f"
	is "$(stat -c %s "$1/f")" 0
	mkdir "$1/d"
	mv "$1/f" "$1/d/f"
	exits 1 flock "$1/d/f" false
	rm -r "$1/d"
}

case_one_over_the_network() {
	local mount
	"$LSCTL" cell create dc1 --dir "$cell" --replica "127.0.0.1:$(free_port)" > /dev/null
	start_replica 1
	mount_second
	mount=$(daemon_of "$m2")
	is_confined "$mount"
	works "$m2"
	kill_replica 1
	start_replica 1
	works "$m2"
	umount "$m2"
	wait_until "it has left" gone "$mount"
	not grep -q "$m2" /run/lsfs/* 2> /dev/null || { say "its run record is left"; return 1; }
}

case_one_of_another_users_directory() {
	mkdir "$work/theirs" "$work/theirs/mnt"
	chown -R 65534:65534 "$work/theirs"
	chmod 700 "$work/theirs"
	limit 30 "$LSFS" -o "key=$cell/admin.key,allow_other" "$cell/dc1.conf" "$work/theirs/mnt"
	works "$work/theirs/mnt"
	kill "$(daemon_of "$work/theirs/mnt")"
	wait_until "it is unmounted" not_mounted "$work/theirs/mnt"
}
not_mounted() { ! mountpoint -q "$1"; }

case_one_with_a_cell_of_its_own() {
	start
	is_confined "$daemon"
	works "$m"
	stop
	start
	works "$m"
	stop
}

run_cases
