#!/bin/bash
# A client that means harm, against three replicas: with a key that the cell knows, of a principal
# that may write some files and read nothing else, and with one that it does not. Nothing ends, the
# master stays who it is, memory has its limits, others have their turn, and nothing is learnt.
# ATTACK=60 SESSIONS=2000 HALF=50000 PARKED=60000 tests/e2e/hostile.sh: more of it, for so many
# seconds, in which so many requests wait for locks. With LEASE=500ms, a cell's own, a step that is
# too long ends the mastership, if the machine has nothing else to do.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

ATTACK=${ATTACK:-6}
export PARKED=${PARKED:-2000}
secret=hidden-$RANDOM$RANDOM$RANDOM
LOCKS=8

case_mounts() {
	up_of_three master_lease="${LEASE:-3s}" # two processors have all of this to do
	"$LSCTL" key generate "$work/mallory.key" mallory > "$work/mallory.pub"
	"$LSCTL" key generate "$work/stranger.key" > /dev/null
	cell_ctl principal add mallory "$(cat "$work/mallory.pub")" > /dev/null
	echo mallory > "$m/acl/mallory"
	local i
	for i in $(seq 0 $LOCKS); do
		: > "$m/ground$i"
		setfattr -n user.ls.acl.read -v mallory "$m/ground$i"
		setfattr -n user.ls.acl.write -v mallory "$m/ground$i"
	done
	for i in read write; do setfattr -n user.ls.acl.$i -v admin "$m"; done
	mkdir "$m/vault"
	echo "$secret" > "$m/vault/$secret"
	for i in read write; do is "$(attribute acl.$i "$m/vault/$secret")" admin; done
}

# writes SECONDS: how often a file can be written in that time, by a mount that does no harm.
writes() {
	: > "$work/writes"
	timeout "$1" bash -c 'while echo > "$0/turn"; do echo >> "$1"; done' \
		"$m" "$work/writes" || :
	wc -l < "$work/writes"
}

replicas() { for i in 1 2 3; do replica $i; done | xargs; }

# number WORD: the one behind it in the last line of the hostile program.
number() { sed -n "s/.*\<$1 \([0-9]*\).*/\1/p" "$work/said"; }

all_wait() { grep -q "all wait" "$work/said"; }

# attacked KEY [MASTER NODE...]: by that key, while a mount writes: a tenth of what it writes alone,
# at least. The attack needs the processors, too, and they may have other things to do.
attacked() {
	local alone beside before processes pid key=$1
	shift
	before=$(epoch)
	processes=$(replicas)
	alone=$(writes 2)
	nice -n 19 "$build/tests/hostile/hostile" "$cell/dc1.conf" "$key" "$ATTACK" "$secret" "$@" \
		> "$work/said" 2> "$work/said.log" &
	pid=$!
	patience=120 wait_until "their acquires wait" all_wait
	beside=$(writes "$ATTACK")
	wait $pid || cat "$work/said.log"
	say "$(cat "$work/said")"
	say "writes a second: $((alone / 2)) alone, $((beside / ATTACK)) beside it"
	is "$(cat "$work/said.log")" ""
	is "$(number learnt)" 0
	is "$(epoch)" "$before"
	is "$(replicas)" "$processes"
	[ $((beside * 2 * 10 / ATTACK)) -ge "$alone" ]
	for pid in $processes; do
		say "replica of $(kilobytes "$pid") KiB"
		is_sanitized || [ "$(kilobytes "$pid")" -lt $((640 * 1024)) ]
	done
}

# Frames that never end take no memory: hundreds of MiB, if each connection could keep one.
case_unfinished_frames() {
	local pid
	HALF=0 SESSIONS=300 OPENED=80 MANNER=hoarding nice -n 19 "$build/tests/hostile/hostile" \
		"$cell/dc1.conf" "$work/mallory.key" 6 "$secret" "$(master)" > "$work/said"
	say "$(cat "$work/said")"
	for pid in $(replicas); do
		say "replica of $(kilobytes "$pid") KiB"
		is_sanitized || [ "$(kilobytes "$pid")" -lt $((64 * 1024)) ]
	done
}

case_one_manner_after_another() {
	local before manner
	before=$(epoch)
	for manner in curious pulsing knocking; do
		HALF=0 SESSIONS=20 MANNER=$manner nice -n 19 "$build/tests/hostile/hostile" \
			"$cell/dc1.conf" "$work/mallory.key" 2 "$secret" "$(master)" > "$work/said"
		say "$manner: $(cat "$work/said")"
		[ "$(number opened)" -ge 20 ]
		is "$(number learnt)" 0
		is "$(epoch)" "$before"
	done
}

case_with_a_key_that_is_known() {
	local nodes
	nodes=$(stat -c %i "$m"/ground*)
	exec 9< "$m/vault/$secret"
	flock 9 # lists of locks have it
	# shellcheck disable=SC2086 # words
	attacked "$work/mallory.key" "$(master)" $nodes
	[ "$(number parked)" -ge "$PARKED" ]
	[ "$(number answers)" -gt 0 ]
}

case_with_a_key_that_is_unknown() {
	attacked "$work/stranger.key"
	is "$(number sessions)" 0
	[ "$(number denied)" -gt 0 ]
}

# An administrator asks in the same way, and learns it: so the search would have found it.
case_the_secret_is_told_to_whom_it_belongs() {
	HALF=0 SESSIONS=1 MANNER=curious "$build/tests/hostile/hostile" "$cell/dc1.conf" \
		"$cell/admin.key" 1 "$secret" "$(master)" > "$work/said"
	[ "$(number learnt)" -gt 0 ]
}

# Behind it the cell does what it did, also for clients that come now.
case_and_behind_it() {
	mount_second
	echo after > "$m/after"
	is "$(cat "$m2/after")" after
	steps_are_short
	limit 20 umount "$m2"
	down
}

run_cases
