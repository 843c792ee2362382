#!/bin/bash
# lsctl lock, when the lock is lost: its exit status says so, and all that the command has started
# is dead before somebody else has the lock.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# A command with offspring that is hard to find: in the background, in a session of its own, and one
# that cares for no signal and whose parents have ended. Each writes its process id into $1.
cat > "$work/command" <<'C'
#!/bin/bash
report() { echo "${BASHPID}" >> "$pids"; }
pids=$1 never=$2
trap 'echo told >> "$pids.told"' TERM
(report; exec tail -f /dev/null) &
(setsid bash -c 'echo $$ >> "$0"; exec tail -f /dev/null' "$pids" &) &
(trap '' TERM HUP; (report; while :; do read -r -t 0.05 <> "$never"; done) &) &
report
while :; do read -r -t 0.05 <> "$never"; done
C
chmod +x "$work/command"

# hold NAME MOUNT [OPTION...]: the command runs under the lock of MOUNT/NAME. Its exit status will
# be in $work/NAME.code.
hold() {
	local name=$1 at=$2
	shift 2
	(
		rc=0
		"$LSCTL" lock "$@" "$at/$name" -- "$work/command" "$work/$name.pids" \
			"$work/never" 2> "$work/$name.err" || rc=$?
		echo $rc > "$work/$name.code"
	) &
	wait_until "the command runs" four "$work/$name.pids"
}
four() { [ "$(cat "$1" 2> /dev/null | wc -l)" = 4 ]; }
ended() { [ -s "$work/$1.code" ]; }

# living FILE: how many of the processes listed there still execute something. One that is exiting
# may wait for a frozen mount to close its files.
cat > "$work/living" <<'L'
#!/bin/bash
n=0
for pid in $(cat "$1"); do
	stat=$(cat "/proc/$pid/stat" 2> /dev/null) || continue
	read -r state _ _ _ _ _ flags _ <<< "${stat##*) }"
	[[ $state == [ZX] ]] || ((flags & 4)) || n=$((n + 1))
done
echo $n
L
chmod +x "$work/living"

# next NAME MOUNT: waits there for the lock; when it comes, says how many of the command live.
next() { flock "$2/$1" "$work/living" "$work/$1.pids" > "$work/$1.next" & }
came() { [ -s "$work/$1.next" ]; }

lost() {
	wait_until "lsctl has ended" ended "$1"
	is "$(cat "$work/$1.code")" 75
	is "$("$work/living" "$work/$1.pids")" 0
	is "$(grep -c "the lock was lost" "$work/$1.err")" 1
}

session() { sed -n 's/^session: //p' "$1/.cell/status"; }

case_up() {
	up_of_three
	mount_second
}

case_session_destroyed() {
	hold destroyed "$m"
	next destroyed "$m2"
	"$LSCTL" --cell "$cell/dc1.conf" session destroy "$(session "$m")"
	lost destroyed
	wait_until "it has the lock" came destroyed
	wait_until "there is a new session" grep -q '^state: safe' "$m/.cell/status"
}

# The command goes on through a jeopardy that ends well, and its status is its own.
case_jeopardy_that_ends() {
	local i rc=0 pids=()
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	"$LSCTL" lock --lock-delay 7 "$m/jeopardy" -- bash -c '
		echo > "$0.runs"
		until [ -e "$0.back" ]; do read -r -t 0.05 <> "$1"; done
		exit 9' "$work/jeopardy" "$work/never" &
	wait_until "the command runs" test -e "$work/jeopardy.runs"
	kill -STOP "${pids[@]}"
	wait_until "the session is in jeopardy" grep -q '^state: jeopardy' "$m/.cell/status"
	kill -CONT "${pids[@]}"
	wait_until "the session is safe" grep -q '^state: safe' "$m/.cell/status"
	touch "$work/jeopardy.back"
	wait $! || rc=$?
	is $rc 9
}

# With the daemon frozen nothing on the mount answers, and the master lets the session expire.
case_frozen_mount() {
	local daemon patience=40
	hold frozen "$m" --lock-delay 7
	hold undelayed "$m" --lock-delay 0
	next frozen "$m2"
	next undelayed "$m2"
	daemon=$(daemon_of "$m")
	kill -STOP "$daemon"
	wait_until "the next one has the lock" came undelayed
	is "$(cat "$work/undelayed.next")" 0
	lost undelayed
	[ ! -e "$work/undelayed.pids.told" ]
	wait_until "the next one has the lock" came frozen
	grep -q "/frozen: the lock is delayed for 7 s" "$cell"/[123]/log
	is "$(cat "$work/frozen.next")" 0
	lost frozen
	is "$(cat "$work/frozen.pids.told")" told
	kill -CONT "$daemon"
	wait_until "there is a new session" grep -q '^state: safe' "$m/.cell/status"
}

# A new daemon ends the session of a killed one at once, as expired: earlier than its lease would.
case_killed_mount() {
	local patience=40
	hold killed "$m" --lock-delay 8
	next killed "$m2"
	kill -9 "$(daemon_of "$m")"
	wait_until "the mount is dead" eval "! ls '$m' 2> /dev/null"
	limit 20 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
	wait_until "the next one has the lock" came killed
	is "$(cat "$work/killed.next")" 0
	lost killed
}

case_released_when_the_cell_is_away() {
	local i pids=() patience=40
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	(
		rc=0
		"$LSCTL" lock --lock-delay 0 "$m/away" -- bash -c '
			echo > "$0.runs"
			until [ -e "$0.end" ]; do read -r -t 0.05 <> "$1"; done' \
			"$work/away" "$work/never" 2> "$work/away.err" || rc=$?
		echo $rc > "$work/away.code"
	) &
	wait_until "the command runs" test -e "$work/away.runs"
	kill -STOP "${pids[@]}"
	touch "$work/away.end"
	wait_until "lsctl has ended" ended away
	is "$(cat "$work/away.code")" 75
	kill -CONT "${pids[@]}"
}

run_cases
