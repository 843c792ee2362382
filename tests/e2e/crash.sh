#!/bin/bash
# The daemon is killed at any moment: what was acknowledged is there after the restart, and the dead
# mount is cleaned up by it.
ON_DISK=yes
. "$(dirname "$0")/lib.sh"

case_killed_fifty_times_under_load() {
	local i
	for i in $(seq 50); do
		start
		mkdir -p "$m/load"
		limit 30 "$TOOLS/stress" verify "$m/load" "$work/acknowledged"
		"$TOOLS/stress" load "$m/load" "$work/acknowledged" &
		local writers=$!
		local before
		before=$(stat -c %s "$work/acknowledged" 2> /dev/null || echo 0)
		wait_until "writes are acknowledged" grown "$work/acknowledged" $((before + 400))
		kill -9 "$daemon"
		wait $writers || :
	done
	start
	limit 30 "$TOOLS/stress" verify "$m/load" "$work/acknowledged"
	stop
	not mountpoint -q "$m"
}

grown() { [ "$(stat -c %s "$1" 2> /dev/null || echo 0)" -gt "$2" ]; }

case_locks_of_a_dead_mount_are_delayed() {
	start -o lock_delay=1
	exec 9<> "$m/f"
	flock 9
	exec 8> "$m/e"
	setfattr -n user.ls.ephemeral -v 1 "$m/e"
	kill -9 "$daemon"
	wait_until "the daemon is gone" gone "$daemon"
	exec 9>&- 8>&-
	start -o lock_delay=1
	[[ $(attribute lock "$m/f") == delayed* ]]
	[ ! -e "$m/e" ]
	limit 20 flock "$m/f" true
	stop
}

# In the foreground the exit status tells how it ended, in a sanitized build leaks, too.
foreground() {
	"$LSFS" -f --standalone "$data" "$m" 2> "$work/err" &
	daemon=$!
	wait_until "the mount is there" mountpoint -q "$m"
	echo x > "$m/f"
	"$@"
	exits 0 wait $daemon
	not mountpoint -q "$m"
}

# Every call with its answer, and no contents.
case_debug() {
	"$LSFS" -df --standalone "$data" "$m" 2> "$work/err" &
	daemon=$!
	wait_until "the mount is there" mountpoint -q "$m"
	echo secret > "$m/f"
	umount "$m"
	wait $daemon
	grep -q 'lookup f in inode 1,' "$work/err"
	grep -q 'asks: set_contents of node' "$work/err"
	grep -q 'the session is closed' "$work/err"
	not grep -q secret "$work/err"
}

case_end_by_umount() { foreground umount "$m"; }

# It unmounts nothing that is not its own, and leaves no memory behind.
case_end_below_another_mount() {
	local checked=(valgrind -q --leak-check=full --error-exitcode=9)
	is_sanitized && checked=()
	"${checked[@]}" "$LSFS" -f --standalone "$data" "$m" 2> "$work/err" &
	daemon=$!
	wait_until "the mount is there" mountpoint -q "$m"
	mount -t tmpfs other "$m"
	kill -TERM $daemon
	exits 0 wait $daemon || { cat "$work/err"; return 1; }
	is "$(findmnt -n -o SOURCE "$m" | tail -n 1)" other
	umount "$m"
	umount "$m"
	not mountpoint -q "$m"
}

case_end_by_signal() {
	foreground eval 'kill -TERM $daemon'
	foreground eval 'kill -INT $daemon'
	foreground eval 'exec 9<> "$m/f"; flock 9; kill -TERM $daemon'
}

# A process that goes on writes where nobody else has the lock yet.
case_end_by_signal_under_a_lock() {
	start
	touch "$m/g"
	setfattr -n user.ls.lock_delay -v 3 "$m/g"
	exec 9<> "$m/g"
	flock 9
	kill -TERM "$daemon"
	wait_until "the daemon has left" gone "$daemon"
	start
	[[ $(attribute lock "$m/g") == delayed* ]]
	exec 9>&-
	limit 20 flock "$m/g" true
	stop
}

case_end_after_the_last_close() {
	foreground eval 'exec 9<> "$m/f"; umount -l "$m"; echo y >&9; exec 9>&-'
	start
	is "$(cat "$m/f")" y
	stop
}

# The daemon is still closing its session when umount returns.
case_start_right_after_umount() {
	local i
	for i in 1 2 3 4 5; do
		start
		touch "$m/f"
		umount "$m"
	done
	start
	stop
}

case_restart_keeps_everything() {
	start
	mkdir "$m/kept"
	echo x > "$m/kept/f"
	local instance generation
	instance=$(attribute instance "$m/kept/f")
	generation=$(attribute content_generation "$m/kept/f")
	stop
	start
	is "$(cat "$m/kept/f")" x
	is "$(attribute instance "$m/kept/f")" "$instance"
	is "$(attribute content_generation "$m/kept/f")" "$generation"
	touch "$m/kept/g"
	[ "$(attribute instance "$m/kept/g")" -gt "$instance" ]
	stop
}

run_cases
