#!/bin/bash
# Much at once, for three replicas: tens of thousands of requests that wait, and a directory with as
# many names. The master stays who it is, hears everybody in time, and others have their turn.
# SESSIONS=120 tests/e2e/crowds.sh: sixty thousand requests.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

NAMES=98304              # of the large directory, /acl among them: as many as there may be
SESSIONS=${SESSIONS:-60} # of the crowd, with 512 requests each

answers() { tail -n 1 "$work/crowd" | cut -d ' ' -f 2; }
answered() { [ "0$(answers)" -gt "$1" ]; }
all_are_safe() { is "$(tail -n 1 "$work/crowd" | cut -d ' ' -f 3)" $SESSIONS; }
start_crowd() {
	"$TOOLS/crowd" "$cell/dc1.conf" "$cell/admin.key" $SESSIONS \
		> "$work/crowd" 2> "$work/crowd.log" 9>&- &
	crowd=$!
}
stop_crowd() {
	kill "$crowd"
	wait "$crowd"
	is "$(cat "$work/crowd.log")" ""
}

# Where ten programs share two processors a heartbeat may be late without anybody's fault.
case_mounts() {
	up_of_three master_lease=3s
	mount_second
}

# Reads wait behind commands that hold up what follows: all requests, again and again.
case_requests_behind_ordered_ones() {
	local before i
	before=$(epoch)
	start_crowd
	wait_until "there are answers" answered $((SESSIONS * 512))
	for i in 1 2 3; do
		limit 20 bash -c "echo $i > '$m/turn'"
		keepalives_are_in_time
	done
	wait_until "it goes on" answered $((SESSIONS * 1024))
	all_are_safe
	stop_crowd
	is "$(cat "$m2/turn")" 3
	is "$(epoch)" "$before"
	steps_are_short
}

# In flock(2), which is call 73; on arm64, 32.
waits() { grep -qE '^(73|32) ' "/proc/$1/syscall"; }

# A mount that waits for a lock says nothing: a new master's barrier stands for it, and in front of
# that the crowd. When it falls all of them begin.
case_requests_behind_the_barrier() {
	local second old before i
	second=$(daemon_of "$m2")
	exec 9<> "$m/held"
	flock 9
	start_crowd
	wait_until "there are answers" answered $((SESSIONS * 512))
	flock "$m2/held" true 9>&- &
	local waiter=$!
	wait_until "it waits" waits $waiter
	limit 20 bash -c "echo queued > '$m2/turn'" # what was asked for before has its answer
	old=$(master)
	before=$(epoch)
	kill -STOP "$second"
	kill_replica "$old"
	wait_until "another master" another_master "$old"
	for i in $(seq 10); do
		keepalives_are_in_time
		pause_s 0.3
	done
	i=$(answers)
	wait_until "the barrier falls" answered "$i"
	kill -CONT "$second"
	exec 9>&-
	patience=40 wait_until "all go on" answered $((i + SESSIONS * 512))
	wait $waiter
	all_are_safe
	stop_crowd
	is "$(epoch)" $((before + 1))
	steps_are_short 2
	start_replica "$old"
}

# After a failure of the network all clients of a cell come together, and most of them come in vain:
# many more than may be about to prove their keys.
case_all_clients_at_once() {
	local before clients=() i
	before=$(epoch)
	for i in a b c; do
		"$LSCTL" key generate "$work/key.$i" $i > "$work/pub"
		cell_ctl principal add $i "$(cat "$work/pub")" > "$work/added"
	done
	for i in a b c; do
		"$TOOLS/watchers" "$cell/dc1.conf" "$work/key.$i" 1000 "$(stat -c %i "$m/turn")" 0 \
			> "$work/clients.$i" 2>&1 &
		clients+=($!)
	done
	come() { tail -n 1 "$work/clients.$1" | grep -q "^1000 "; }
	for i in a b c; do patience=60 wait_until "those of $i are there" come $i; done
	come a && come b
	kill "${clients[@]}"
	wait "${clients[@]}"
	is "$(epoch)" "$before"
}

names() { limit 60 find "$1" -mindepth 1 -maxdepth 1 -printf x | wc -c; }
lists() { [ "$(tail -n 1 "$work/listers" | cut -d ' ' -f 3)" -ge "$1" ]; }

# Made as fast as one session can, then listed through two mounts while others list it, too.
case_a_large_directory() {
	local before there i first second
	before=$(epoch)
	there=$(names "$m")
	"$TOOLS/writers" "$cell/dc1.conf" "$cell/admin.key" 256 $((NAMES - there)) 1 list \
		> "$work/listers" 2> "$work/listers.log" &
	local listers=$!
	patience=120 wait_until "all are made, and listed" lists $((2 * NAMES))
	limit 60 ls -f "$m" | grep -c . > "$work/first" &
	first=$!
	is "$(names "$m2")" "$NAMES"
	wait $first
	is "$(cat "$work/first")" $((NAMES + 2))
	keepalives_are_in_time
	kill $listers
	wait $listers
	is "$(cat "$work/listers.log")" ""
	is "$(epoch)" "$before"
	wait_until "all three are there" steps_are_short
	is_sanitized && return # their memory is several times as large
	for i in 1 2 3; do
		[ "$(kilobytes "$(replica $i)")" -lt 300000 ]
	done
	for i in "$m" "$m2"; do
		[ "$(kilobytes "$(daemon_of "$i")")" -lt 150000 ]
	done
}

run_cases
