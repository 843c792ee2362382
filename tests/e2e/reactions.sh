#!/bin/bash
# lsctl watch --run and --signal, and lsctl once, on two mounts of a cell of three: through the
# death of a holder, of a session and of the master.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

scratch="seen pid out events err"

case_up() {
	up_of_three
	mount_second
}

seen() { [ "$(tail -n 1 "$work/seen" 2> /dev/null)" = "$1" ]; }

# Changes that come during a run make one more run, never a second one beside it.
case_run_after_changes() {
	local other=$m2/${d##*/} i
	echo 0 > "$d/f"
	cat > "$work/command" <<-C
		mkdir "$work/runs" || echo two >> "$work/two"
		cat "$d/f" >> "$work/seen"
		until [ -e "$work/go" ]; do read -r -t 0.05 <> "$work/never"; done
		rmdir "$work/runs"
		[ "\$(cat "$d/f")" != 11 ]
	C
	"$LSCTL" watch --run "bash '$work/command'" "$d/f" > "$work/out" 2> "$work/err" &
	watcher=$!
	wait_until "it runs at the start" seen 0
	for i in 1 2 3 4 5 6 7 8 9 10; do echo $i > "$other/f"; done
	touch "$work/go"
	wait_until "the last state is seen" seen 10
	[ ! -e "$work/two" ]
	[ "$(wc -l < "$work/seen")" -le 3 ] # an event may come behind the state
	echo 11 > "$other/f"
	wait_until "its failure is told" grep -qx "lsctl: .*: exit status 1" "$work/err"

	# Deleted, and made again.
	rm "$d/f"
	# shellcheck disable=SC2016
	wait_until "it is seen again" sh -c 'echo 12 > "$1" && [ "$(tail -n 1 "$2")" = 12 ]' - \
		"$other/f" "$work/seen"
	kill $watcher
	is "$(cat "$work/out")" ""
}

# Neither another master nor another session is a change.
case_no_run_at_reconnects() {
	local other=$m2/${d##*/} old plain
	echo 0 > "$d/f"
	"$LSCTL" watch --run "cat '$d/f' >> '$work/seen'" "$d/f" 2> "$work/err" &
	watcher=$!
	wait_until "it runs at the start" seen 0
	"$LSCTL" watch "$d/f" > "$work/events" 2>&1 &
	plain=$!
	old=$(master)
	kill_replica "$old"
	wait_until "a fail-over" grep -q master_failed_over "$work/events"
	start_replica "$old"
	cell_ctl session destroy "$(session "$m")"
	wait_until "another session" grep -q '"expired"' "$work/events"
	kill $plain
	echo 1 > "$other/f"
	wait_until "it goes on" seen 1
	is "$(grep -cx 0 "$work/seen")" 1
	kill $watcher
}

# Nor is a change forgotten for which no process could be started, or watched.
case_a_run_that_cannot_begin() {
	local other=$m2/${d##*/}
	echo 0 > "$d/f"
	strace -D -q -o "$work/traced" -e trace=clone,clone3,pidfd_open \
		-e inject=clone,clone3:error=EAGAIN:when=1..2 \
		-e inject=pidfd_open:error=EMFILE:when=1 \
		"$LSCTL" watch --run "cat '$d/f' >> '$work/seen'" "$d/f" 2> "$work/err" &
	watcher=$!
	wait_until "it runs, later" seen 0
	is "$(grep -c "cannot run it: Resource temporarily unavailable; tries again" \
		"$work/err")" 1
	echo 1 > "$other/f"
	wait_until "it runs again" seen 1
	is "$(uniq -d "$work/seen")" ""
	kill $watcher
}

case_settle() {
	local other=$m2/${d##*/}
	echo 0 > "$d/s"
	"$LSCTL" watch --settle 1s --run "cat '$d/s' >> '$work/seen'" "$d" &
	watcher=$!
	wait_until "it runs at the start" seen 0
	for i in 1 2 3 4 5; do echo $i > "$other/s"; done
	wait_until "the last state is seen" seen 5
	[ "$(wc -l < "$work/seen")" -le 3 ]
	kill $watcher
}

case_signal() {
	local other=$m2/${d##*/}
	echo 0 > "$d/conf"
	bash -c 'trap "cat \"$1/conf\" >> \"$2/seen\"" HUP; echo $$ > "$2/service.pid"
		while :; do read -r -t 1 <> "$2/never"; done' - "$d" "$work" &
	local service=$!
	wait_until "the service runs" test -s "$work/service.pid"
	"$LSCTL" watch --signal HUP --pid "$work/service.pid" "$d/conf" 2> "$work/err" &
	watcher=$!
	wait_until "at the start" seen 0
	echo 1 > "$other/conf"
	wait_until "after a change" seen 1
	kill -9 $service
	wait $service || :
	echo 2 > "$other/conf"
	wait_until "it is told" grep -q "service.pid: process $service: No such process" "$work/err"
	kill $watcher
	one_line 2 "both are needed" "$LSCTL" watch --signal HUP "$d/conf"
	one_line 2 "one of them" "$LSCTL" watch --run true --signal HUP --pid x "$d/conf"
	one_line 2 "FOO: no such signal" "$LSCTL" watch --signal FOO --pid x "$d/conf"
	one_line 2 "only for printing" "$LSCTL" watch --run true -n 1 "$d/conf"
	one_line 2 "only with" "$LSCTL" watch --settle 1 "$d/conf"
}

case_once() {
	local other=$m2/${d##*/} old
	is "$("$LSCTL" once --every 1000d "$d/job" -- echo ran)" ran
	grep -qxE '20[0-9]{2}-..-..T..:..:..Z' "$d/job"
	is "$("$LSCTL" once --every 1000d "$other/job" -- echo ran)" ""
	is "$(faketime_is_ignored)" ""
	old=$(master)
	kill_replica "$old"
	is "$("$LSCTL" once --every 1000d "$other/job" -- echo ran)" ""
	start_replica "$old"
	is "$("$LSCTL" once --every 1000d "$other/other" -- echo ran)" ran
	echo 2001-02-03T04:05:06Z > "$d/job"
	is "$("$LSCTL" once --every 1000d "$other/job" -- echo ran)" ran
	echo nonsense > "$d/bad"
	one_line 1 "bad: holds no time of a last run" "$LSCTL" once --every 1d "$d/bad" -- true
	one_line 2 "--every: needed" "$LSCTL" once "$d/job" -- true
	one_line 2 "not a number with" "$LSCTL" once --every day "$d/job" -- true
	one_line 2 "a second at least" "$LSCTL" once --every 10ms "$d/job" -- true
}
# This host's clock counts for nothing: the cell's has set the time in the file.
faketime_is_ignored() {
	local at
	at=$(date -u -d "$(cat "$d/job")" +%s)
	[ $((at - $(date +%s))) -lt 60 ] || echo wrong
}

# A run that fails, or whose holder dies, is none: the next caller runs it.
case_once_after_a_failure() {
	local other=$m2/${d##*/}
	exits 3 "$LSCTL" once --every 1000d "$d/again" -- sh -c 'exit 3'
	is "$(cat "$d/again")" ""
	"$LSCTL" once --every 1000d "$d/again" -- sh -c 'echo $$ > "$1"; exec tail -f "$1"' - \
		"$work/pid" > "$work/out" &
	local first=$! rc=0
	wait_until "the first one runs" test -s "$work/pid"
	exits 7 "$LSCTL" once -n -E 7 --every 1000d "$other/again" -- true
	"$LSCTL" once --every 1000d "$other/again" -- echo second > "$work/second" &
	local second=$!
	kill -9 $first "$(cat "$work/pid")"
	wait $first || rc=$?
	wait $second
	is "$(cat "$work/second")" second
	is "$("$LSCTL" once --every 1000d "$d/again" -- echo third)" ""
}

# What the command has left behind has the lock's descriptor, and must not keep the lock.
case_once_that_cannot_be_noted() {
	echo nobody/x > "$m/acl/none"
	one_line 1 "cannot write the time of the run: Permission denied" \
		"$LSCTL" once --every 1000d "$d/noted" -- sh -c '
			setfattr -n user.ls.acl.write -v none "$1"
			tail -f "$1" > "$2" 2>&1 &
			echo $! > "$3"' - "$d/noted" "$work/out" "$work/pid"
	setfattr -n user.ls.acl.write -v everyone "$d/noted"
	exits 0 "$LSCTL" lock -n "$d/noted" -- true
	kill "$(cat "$work/pid")"
}

# Its mount dies, and the session with it: the lock is another's, and the first one records nothing.
case_once_on_a_mount_that_dies() {
	local other=$m2/${d##*/}
	"$LSCTL" once --every 1000d "$other/dies" -- sh -c 'echo $$ > "$1"; exec tail -f "$1"' - \
		"$work/pid" > "$work/out" 2> "$work/err" &
	local first=$! rc=0
	wait_until "the first one runs" test -s "$work/pid"
	cell_ctl session destroy "$(session "$m2")"
	wait $first || rc=$?
	is $rc 75
	is "$(cat "$d/dies")" ""
	is "$("$LSCTL" once --every 1000d "$d/dies" -- echo second)" second
}

case_down() {
	limit 10 umount "$m2"
	down
}

run_cases
