#!/bin/bash
# Replicas whose data directories are on small filesystems that fill up: a follower's, the master's,
# one that is started there. The cell goes on with those that have room; all is well again when
# there is room, and nothing that was acknowledged is lost.
MOUNTS=1
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"

m1=$work/m1

steadily() {
	"$TOOLS/stress" steady "$m1/steady" "$work/steady" &
	writer=$!
	wait_until "it writes" test -s "$work/steady"
}

# The steady writer never failed; what it wrote last is there.
ends_well() {
	local rc=0
	mv "$work/steady" "$work/steady.done"
	wait $writer || rc=$?
	is $rc 0
	say "the longest pause was $("$TOOLS/stress" pauses "$work/steady.done" 1) ms"
	is "$(cat "$m1/steady")" "$(tail -n 1 "$work/steady.done" | cut -d ' ' -f 2)"
}

# More has been written than a full replica could keep in what was reserved for it.
goes_on() { wait_until "writes go on" longer $(($(wc -l < "$work/steady") + 300)); }
longer() { [ "$(wc -l < "$work/steady")" -gt "$1" ]; }

full() { [ "$(stat -f -c %a "$work/disk/$1")" -eq 0 ]; }

case_up() {
	local i
	make_network
	make_cell
	for i in 1 2 3; do
		small_disk $i 48
		start_replica $i
	done
	wait_until "there is a master" has_master
	start_mount 1 grace=30
}

case_a_full_follower() {
	local follower=$(($(master) % 3 + 1))
	steadily
	fill_disk $follower
	goes_on
	set -x; 	full $follower
	empty_disk $follower
	goes_on
	ends_well
	wait_until "all replicas are in step" in_step
}

case_the_masters_disk_is_full() {
	local old
	old=$(master)
	steadily
	fill_disk "$old"
	goes_on
	full "$old"
	empty_disk "$old"
	goes_on
	ends_well
	wait_until "all replicas are in step" in_step
}

# Killed on its full disk, and started there.
case_a_restart_on_a_full_disk() {
	local old
	old=$(master)
	steadily
	fill_disk "$old"
	kill_replica "$old"
	start_replica "$old"
	goes_on
	empty_disk "$old"
	goes_on
	ends_well
	gone "$(pid_of "r$old")" && start_replica "$old"
	wait_until "all replicas are in step" in_step
}

case_the_states_are_equal() {
	stop_mount 1
	same_everywhere
}

run_cases
