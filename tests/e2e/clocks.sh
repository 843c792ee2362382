#!/bin/bash
# Three replicas and two mounts whose clocks jump: the time of day because somebody sets it, the
# clock of decisions because a machine was suspended.
MOUNTS=2
SETTINGS="cache_lease=2s session_lease=4s"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"

m1=$work/m1 m2=$work/m2
for machine in $(machines); do truncate -s 16 "$work/clock-$machine"; done
CLOCKS=$TOOLS/clock_shim.so
export ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 # ours stands before the sanitizer's

# jump MACHINE boot|real SECONDS: so far ahead is the clock of its daemon now.
jump() {
	python3 - "$work/clock-$1" "$2" "$3" <<-'P'
		import os, struct, sys
		path, clock, seconds = sys.argv[1:]
		fd = os.open(path, os.O_WRONLY)
		os.pwrite(fd, struct.pack("<q", int(seconds) * 10**9), 8 * (clock == "real"))
	P
}

# held_by_the_first SESSION FENCE: its mount has that session still, and that lock.
held_by_the_first() {
	wait_until "the first mount is safe" is_in_state "$m1" safe
	is "$(session "$m1")" "$1"
	is "$(attribute fence "$m1/lock")" "$2"
	exits 1 limit 10 flock -n "$m2/lock" true
}

# nothing_is_lost JUMP...: a session, its lock and a writer outlive it.
nothing_is_lost() {
	local session fence
	exec 9<> "$m1/lock"
	limit 10 flock 9
	session=$(session "$m1") fence=$(attribute fence "$m1/lock")
	steadily "$m2"
	writes_go_on 20
	"$@"
	writes_go_on 100
	held_by_the_first "$session" "$fence"
	end_writer
	exec 9>&-
}

case_up() {
	up grace=30,lock_delay=0
}

everywhere() {
	local machine
	for machine in $(machines); do jump "$machine" "$@"; done
}

case_the_time_of_day_is_set_ahead() { nothing_is_lost everywhere real 7200; }
case_the_time_of_day_is_set_back() { nothing_is_lost everywhere real -7200; }
case_the_times_of_day_differ() { nothing_is_lost jump "r$(master)" real 86400; }

# Its lease is over, so another master is elected, or it is again: its clock does not end what
# others have a lease for.
case_the_master_was_suspended() { nothing_is_lost jump "r$(master)" boot 60; }

case_a_follower_was_suspended() { nothing_is_lost jump "r$(($(master) % 3 + 1))" boot 60; }

# The lease may have run out, the grace period has not: the session is asked for, and is there.
case_a_mount_was_suspended_for_a_moment() { nothing_is_lost jump c1 boot 10; }

# After an hour nothing is answered from what was cached: the mount asks the cell first, which may
# have its session still.
case_a_mount_was_suspended_for_an_hour() {
	echo old > "$m1/f"
	is "$(cat "$m1/f")" old
	freeze c1
	jump c1 boot 3600
	limit 15 bash -c "echo new > '$m2/f'"
	thaw c1
	is "$(limit 20 cat "$m1/f")" new
	wait_until "the first mount is safe" is_in_state "$m1" safe
	limit 10 flock "$m1/lock" true
}

case_the_states_are_equal() {
	stop_mount 1
	stop_mount 2
	same_everywhere
}

run_cases
