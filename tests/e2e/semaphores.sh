#!/bin/bash
# Counting locks, on two mounts of a cell of three, over a fail-over and the death of a mount.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three
	mount_second
	mkdir "$work/in"
}

held() { [ "$(attribute lock "$d/$1")" = "$2" ]; }
waiting() { [ "$(attribute lock_waiters "$d/$1" 2> /dev/null | grep -c .)" = "$2" ]; }

# enter FILE NAME [OPTION...]: a command under the lock that says which slot it has, and ends when
# "$work/leave.NAME" exists.
enter() {
	local file=$1 name=$2
	shift 2
	# shellcheck disable=SC2016
	"$LSCTL" lock "$@" "$file" -- bash -c 'echo "$LS_SLOT" > "$1/in/$2"
		until [ -e "$1/leave.$2" ]; do read -r -t 0.05 <> "$1/never"; done
		rm "$1/in/$2"' - "$work" "$name" &
}

case_at_most_n_at_a_time() {
	local other=$m2/${d##*/} pids=() i names=(a b c d e f)
	local mounts=("$d" "$other")
	for i in 0 1 2 3 4 5; do
		enter "${mounts[i % 2]}/sem" "${names[i]}" --slots 2
		pids[i]=$!
		[ $i -gt 1 ] || wait_until "it runs" test -s "$work/in/${names[i]}"
		[ $i -lt 2 ] || wait_until "it waits" waiting sem $((i - 1))
	done
	is "$(cat "$work/in/a")$(cat "$work/in/b")" 01
	is "$(attribute lock_slots "$other/sem")" 2
	is "$(attribute lock_holders "$d/sem" | grep -c ' slot [01]$')" 2
	is "$("$LSCTL" --json locks "$d/sem" | jq_slots)" "0 1"

	# In their order, each in the slot that came free.
	touch "$work/leave.b"
	wait_until "the next one has it" test -s "$work/in/c"
	is "$(cat "$work/in/c")" 1

	# A fail-over keeps holders, waiters and slots.
	kill_replica "$(master)"
	touch "$work/leave.a"
	wait_until "the next one has it" test -s "$work/in/d"
	is "$(cat "$work/in/d")$(ls "$work/in" | tr -d '\n')" 0cd
	touch "$work/leave.c" "$work/leave.d" "$work/leave.e" "$work/leave.f"
	wait "${pids[@]}"
	held sem free
	start_missing
}

jq_slots() {
	python3 -c 'import json, sys
print(*sorted(h["slot"] for l in json.load(sys.stdin) for h in l["holders"] if "slot" in h))'
}

# flock(1) counts as well, without a word of lsctl.
case_flock_is_a_semaphore() {
	local other=$m2/${d##*/}
	touch "$d/plain"
	setfattr -n user.ls.lock_slots -v 2 "$d/plain"
	exec 7< "$d/plain" 8< "$other/plain" 9< "$other/plain"
	flock -s 7
	flock -s 8
	exits 1 flock -s -n 9
	exits 1 flock -x -n 9
	flock -u 7
	flock -s -n 9
	exec 7<&- 8<&- 9<&-
	wait_until "all are gone" held plain free
	setfattr -x user.ls.lock_slots "$d/plain"
	is "$(attribute lock_slots "$d/plain")" 0
}

# Two owners of one mount: each sees its own slot, token and sequencer.
case_each_has_its_own() {
	touch "$d/own"
	setfattr -n user.ls.lock_slots -v 3 "$d/own"
	is "$(python3 - "$d/own" <<- 'P'
		import fcntl, os, sys
		out = []
		for i in range(3):
		    ready, done = os.pipe(), os.pipe()
		    if os.fork() == 0:
		        f = open(sys.argv[1])
		        fcntl.flock(f, fcntl.LOCK_SH)
		        os.write(ready[1], b"x")
		        os.read(done[0], 1)
		        print(os.getxattr(f.fileno(), "user.ls.lock_slot").decode(), flush=True)
		        os._exit(0)
		    os.read(ready[0], 1)
		    out.append(done[1])
		for fd in out:
		    os.write(fd, b"x")
		    os.wait()
	P
	)" $'0\n1\n2'
}

# Whoever counts otherwise, or where counting is not possible, is told so.
case_refusals() {
	touch "$d/sem"
	setfattr -n user.ls.lock_slots -v 2 "$d/sem"
	one_line 1 "sem: has 2 slots, not 3 (user.ls.lock_slots)" \
		"$LSCTL" lock --slots 3 "$d/sem" -- true
	mkdir "$d/dir"
	one_line 1 "dir: the lock of a directory does not count" \
		"$LSCTL" lock --slots 3 "$d/dir" -- true
	exits 2 "$LSCTL" lock --slots 65 "$d/sem" -- true
	exits 2 "$LSCTL" lock --slots 0 "$d/sem" -- true
	exits 2 "$LSCTL" elect --slots 2 "$d/sem" -- true
	refused "Numerical result" setfattr -n user.ls.lock_slots -v 65 "$d/sem"
	refused "Invalid argument" setfattr -n user.ls.lock_slots -v many "$d/sem"
	refused "Operation not permitted" setfattr -n user.ls.lock_slot -v 1 "$d/sem"
	refused "No such attribute" getfattr -n user.ls.lock_slot "$d/sem"
}

delayed() { "$@" | grep -q "/sem2 *delayed *[1-9]"; }

# The slot of a mount that died is free after the lock-delay: its command is killed before that.
case_a_slot_is_delayed() {
	local other=$m2/${d##*/}
	enter "$other/sem2" g --slots 2 --lock-delay 9
	local g=$!
	wait_until "it runs" test -s "$work/in/g"
	enter "$d/sem2" h --slots 2
	local h=$!
	wait_until "it runs" test -s "$work/in/h"
	enter "$d/sem2" i --slots 2
	local i=$!
	wait_until "it waits" waiting sem2 1
	kill -9 "$(daemon_of "$m2")"
	exits 75 wait $g
	[ ! -e "$work/in/i" ]
	wait_until "the mount lists the delay" delayed "$LSCTL" locks "$d/sem2"
	wait_until "so does the cell" delayed cell_ctl locks
	wait_until "the delay is over" test -s "$work/in/i"
	is "$(cat "$work/in/h") $(cat "$work/in/i")" "1 0"
	touch "$work/leave.h" "$work/leave.i"
	wait $h $i
}

run_cases
