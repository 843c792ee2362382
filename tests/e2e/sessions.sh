#!/bin/bash
# Sessions as people see them: settings for all of them, lasting ones, and those that operators end.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

heard_before() { cell_ctl --json session list | python3 -c 'import json, sys
row = [s for s in json.load(sys.stdin) if s["session"] == int(sys.argv[1])][0]
sys.exit(row["heard_ms"] is None or row["heard_ms"] < int(sys.argv[2]))' "$1" "$2"; }
is_free() { flock -n "$1" true; }
is_busy() { exits 1 flock -n "$1" true; }

is_held() { is "$(attribute lock "$1")" exclusive; }
# lock FILE: held by a process that waits for the end of the test.
lock() {
	flock "$1" bash -c 'read -r <> "$0"' "$work/never" &
	wait_until "the lock is held" is_held "$1" > "$work/log.held"
}

case_up() {
	up_of_three cache_lease=1s session_lease=2s grace=1s
	: > "$m/l"
}

# Its mount's process is killed, and another one starts in its place: the lock stays held.
case_a_lasting_session_is_ended_by_an_operator() {
	local old
	mount_second lasting
	old=$(session "$m2")
	grep -q '^lasting: yes$' "$m2/.cell/status"
	cell_ctl session list | grep -q "^$old .* lasting\$"
	lock "$m2/l"
	kill -9 "$(daemon_of "$m2")"
	wait_until "it is not heard for two leases" heard_before "$old" 4500
	is_busy "$m/l"
	mount_second lasting
	[ "$(session "$m2")" != "$old" ]
	is_busy "$m2/l"
	cell_ctl session destroy "$old"
	is_free "$m/l"
	refused "no such session" \
		"$LSCTL" --cell "$cell/dc1.conf" --key "$cell/admin.key" session destroy "$old"
}

# Long behind every grace period it goes on with its lock.
case_a_lasting_session_waits_for_its_cell() {
	local before replicas=() i frozen
	for i in 1 2 3; do replicas+=("$(replica $i)"); done
	before=$(session "$m2")
	lock "$m2/l"
	"$LSCTL" lock "$m2/frozen" -- sleep 60 2> "$work/frozen" &
	frozen=$!
	wait_until "the command has its lock" is_held "$m2/frozen"
	kill -STOP "${replicas[@]}"
	wait_until "the other mount has given up" is_in_state "$m" expired
	is_in_state "$m2" jeopardy
	grep -q "the command is frozen; it goes on when the cell answers\$" "$work/frozen"
	limit 30 cat "$m2/l" &
	pause_s 2
	is_in_state "$m2" jeopardy
	kill -CONT "${replicas[@]}"
	wait $!
	wait_until "it is safe" is_in_state "$m2" safe
	is "$(session "$m2")" "$before"
	wait_until "the other mount is back" is_in_state "$m" safe
	is_busy "$m/l"
	kill $frozen
	exits 143 wait $frozen
}

# No other client can get the lock, so nothing but a signal ends a command that is frozen.
case_a_frozen_command_of_a_lasting_session_is_ended() {
	local replicas=() i lsctl
	for i in 1 2 3; do replicas+=("$(replica $i)"); done
	"$LSCTL" lock "$m2/stuck" -- sh -c 'echo $$ > "$1"; sleep 60' - "$work/stuck.pid" \
		2> "$work/stuck" &
	lsctl=$!
	wait_until "the command runs" test -s "$work/stuck.pid"
	kill -STOP "${replicas[@]}"
	wait_until "the command is frozen" grep -q "the command is frozen" "$work/stuck"
	kill -TERM $lsctl
	wait_until "lsctl has ended" gone $lsctl
	exits 143 wait $lsctl
	gone "$(cat "$work/stuck.pid")"
	kill -CONT "${replicas[@]}"
	wait_until "the lock is free" is_free "$m2/stuck"
	wait_until "the other mount is back" is_in_state "$m" safe
}

# The command has ended, and its lock is not released before the cell answers: that may take days,
# and a signal ends the wait.
case_a_lasting_session_is_not_waited_for() {
	local replicas=() i lsctl command
	for i in 1 2 3; do replicas+=("$(replica $i)"); done
	mkfifo "$work/ends"
	"$LSCTL" lock --jeopardy=ignore "$m2/ended" -- sh -c 'echo $$ > "$1"; read -r _ < "$2"' \
		- "$work/command" "$work/ends" &
	lsctl=$!
	wait_until "the command runs" test -s "$work/command"
	command=$(cat "$work/command")
	kill -STOP "${replicas[@]}"
	limit 10 sh -c 'echo > "$1"' - "$work/ends"
	wait_until "the command has ended" not test -e "/proc/$command"
	not gone $lsctl
	kill -TERM $lsctl
	wait_until "lsctl has ended" gone $lsctl
	exits 143 wait $lsctl
	kill -CONT "${replicas[@]}"
	wait_until "the lock is free" is_free "$m2/ended"
	wait_until "the other mount is back" is_in_state "$m" safe
}

# A signal ends the mount, and the process with the lock may still act on it.
case_a_lasting_session_is_left_behind() {
	local old
	old=$(session "$m2")
	kill -TERM "$(daemon_of "$m2")"
	wait_until "it has left" gone "$(daemon_of "$m2")"
	wait_until "it is not heard for two leases" heard_before "$old" 4500
	is_busy "$m/l"
	cell_ctl session destroy "$old"
	is_free "$m/l"
}

# Without anything held, an unmounted one is gone.
case_a_lasting_session_ends_with_its_mount() {
	local old
	mount_second lasting
	old=$(session "$m2")
	limit 10 umount "$m2"
	wait_until "it has ended" bash -c '! "$@" | grep -q "^$0 "' "$old" \
		"$LSCTL" --cell "$cell/dc1.conf" --key "$cell/admin.key" session list
}

# Unmounted while the cell does not answer it is not closed: this is said, and remembered.
case_a_session_that_could_not_be_closed() {
	local replicas=() i daemon old record
	for i in 1 2 3; do replicas+=("$(replica $i)"); done
	"$LSFS" -f -o "key=$cell/admin.key,lasting" "$cell/dc1.conf" "$m2" 2> "$work/said" &
	daemon=$!
	wait_until "it is mounted" test -e "$m2/.cell/status"
	old=$(session "$m2")
	kill -STOP "${replicas[@]}"
	wait_until "it is in jeopardy" is_in_state "$m2" jeopardy
	limit 10 umount "$m2"
	exits 0 wait $daemon
	kill -CONT "${replicas[@]}"
	grep -q "the session could not be closed: it lasts until an operator ends it\$" "$work/said"
	record=$(grep -rls --include=\*.mount "^mountpoint $m2\$" /run/lsfs "$XDG_RUNTIME_DIR") || :
	grep -q "^session $old\$" "$record"
	wait_until "the other mount is back" is_in_state "$m" safe
	cell_ctl session destroy "$old"
	mount_second
	limit 10 umount "$m2"
	wait_until "its record is gone" not test -e "$record"
}

run_cases
