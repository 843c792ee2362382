#!/bin/bash
# Locks: flock(1), Ctrl-C, dead holders, crowds; nothing is lost, nobody starves.
ON_DISK=yes
. "$(dirname "$0")/lib.sh"
start || exit 1
cd "$m" || exit 1

# hold FILE [OPTION...]: a background process that holds the lock until "$work/release" goes away.
# Its process id is in $holder; returns when it has the lock.
hold() {
	local file=$1
	shift
	rm -f "$work/held"
	touch "$work/release"
	(
		exec 9<> "$file"
		flock "$@" 9
		echo held > "$work/held"
		while [ -e "$work/release" ]; do pause_s 0.02; done
	) &
	holder=$!
	wait_until "the holder has the lock" test -e "$work/held"
}

is_queued() { [ "$(waiting "$1")" -ge "$2" ]; }

# How many processes of flock(1) are blocked on this file.
waiting() { pgrep -fc "^flock .*$1" || :; }

case_flock_command() {
	is "$(limit 5 flock "$d/f" echo ran)" ran
	is "$(limit 5 flock -s "$d/f" echo ran)" ran
	exits 7 limit 5 flock "$d/f" sh -c 'exit 7'
}

case_flock_nonblocking() {
	hold "$d/f"
	exits 1 limit 5 flock -n "$d/f" true
	exits 42 limit 5 flock -n -E 42 "$d/f" true
	rm "$work/release"
	wait $holder
	limit 5 flock -n "$d/f" true
}

case_flock_with_timeout() {
	hold "$d/f"
	exits 1 limit 10 flock -w 2 "$d/f" true
	rm "$work/release"
	limit 10 flock -w 5 "$d/f" true
}

case_shared_locks() {
	hold "$d/f" -s
	limit 5 flock -s -n "$d/f" true
	exits 1 limit 5 flock -n "$d/f" true
	is "$(attribute lock "$d/f")" "shared 1"
	rm "$work/release"
	wait $holder
	is "$(attribute lock "$d/f")" free
}

case_lock_generation_and_fence_grow() {
	local generation fence
	exec 8<> "$d/f"
	flock 8
	generation=$(attribute lock_generation "$d/f")
	fence=$(attribute fence "$d/f")
	flock -u 8
	refused "No such attribute" getfattr -n user.ls.fence "$d/f"
	flock 8
	is "$(attribute lock_generation "$d/f")" $((generation + 1))
	[ "$(attribute fence "$d/f")" -gt "$fence" ]
	exec 8>&-
	is "$(attribute lock "$d/f")" free
}

case_holder_killed() {
	hold "$d/f"
	limit 20 flock "$d/f" echo in > "$work/out" &
	local waiter=$!
	wait_until "a waiter stands" is_queued "$d/f" 1
	local start=$EPOCHREALTIME
	kill -9 $holder
	wait $waiter
	is "$(cat "$work/out")" in
	is "$(attribute lock "$d/f")" free
}

case_signals_end_a_blocked_process() {
	hold "$d/f"
	limit 10 "$TOOLS/stress" signals "$d/f"
	rm "$work/release"
	wait $holder
	limit 5 flock -n "$d/f" true
}

case_a_signal_handler_gets_eintr() {
	hold "$d/f"
	python3 - "$d/f" <<-'P'
		import errno, fcntl, os, signal, sys
		class Stop(Exception): pass
		def handler(*_): raise Stop
		signal.signal(signal.SIGALRM, handler)
		fd = os.open(sys.argv[1], os.O_RDWR)
		signal.setitimer(signal.ITIMER_REAL, 0.2)
		try:
		    fcntl.flock(fd, fcntl.LOCK_EX)
		    sys.exit("got the lock")
		except Stop:
		    pass
	P
	rm "$work/release"
}

case_a_restarted_wait_keeps_its_place() {
	# a handler with SA_RESTART makes the kernel ask again: the place in the queue is not lost
	hold "$d/f"
	"$TOOLS/stress" restart "$d/f" "$work/release"
}

case_no_signal_makes_a_call_fail() {
	limit 100 "$TOOLS/stress" timer "$d" 4 100
}

# A program that is told EINTR by an exclusive open tries again and finds its own file.
case_a_new_lock_file_is_ones_own() {
	# shellcheck disable=SC2016 # the inner shell expands
	limit 60 bash -c 'trap : USR1
		echo $$ > "$2/pid"
		wait_for() { until [ -e "$1" ]; do :; done; }
		wait_for "$2/go"
		set -C
		for ((i = 0; i < 300; i++)); do echo $$ > "$1/b$i" || exit 1; done' \
		bash "$d" "$work" &
	local shell=$!
	wait_until "the shell is ready" test -s "$work/pid"
	"$TOOLS/stress" pester "$(cat "$work/pid")" &
	touch "$work/go"
	wait $shell
	limit 60 python3 - "$d" <<-'P'
		import os, signal, sys
		signal.signal(signal.SIGALRM, lambda *_: None)
		signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
		for i in range(300):
		    os.close(os.open(f"{sys.argv[1]}/p{i}", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
		signal.setitimer(signal.ITIMER_REAL, 0)
	P
}

# ends_at_once COMMAND...: half a second of its own, and not the second that patience lasts. A
# machine may be slow once, but not every time.
ends_at_once() {
	local start took
	for _ in 1 2 3; do
		start=${EPOCHREALTIME/./}
		"$@" 2> /dev/null || :
		took=$(((${EPOCHREALTIME/./} - start) / 1000))
		[ $took -ge 1400 ] || return 0
	done
	say "$took ms: $*"
	return 1
}

# The lease is 12 s, so that for long it is not known that nobody answers.
case_signals_while_the_cell_is_silent() {
	local m2=$work/mnt2 cell=$work/cell signal
	mkdir "$m2"
	"$LSCTL" cell create silent --dir "$cell" --replica 127.0.0.1:7001
	"$LSCELL" "$cell/1" 2> "$work/lscell.log" &
	local replica=$!
	limit 20 "$LSFS" -o "key=$cell/admin.key" "$cell/silent.conf" "$m2"
	kill -STOP $replica
	for signal in INT TERM QUIT KILL; do
		ends_at_once timeout -s $signal 0.5 mkdir "$m2/$signal"
	done
	cat > "$work/handler.py" <<-'P'
		import os, signal, sys, time
		class Stop(Exception): pass
		def handler(*_): raise Stop
		signal.signal(signal.SIGALRM, handler)
		began = time.monotonic()
		signal.setitimer(signal.ITIMER_REAL, 0.2)
		try:
		    os.mkdir(sys.argv[1])
		    sys.exit("made a directory in a cell that does not answer")
		except Stop:
		    took = time.monotonic() - began
		assert float(sys.argv[2]) <= took < float(sys.argv[3]), took
	P
	limit 20 python3 "$work/handler.py" "$m2/patient" 1.1 4
	patience=40 wait_until "the session is in jeopardy" is_in_state "$m2" jeopardy
	limit 20 python3 "$work/handler.py" "$m2/jeopardy" 0.2 1
	ends_at_once timeout -s INT 0.5 mkdir "$m2/jeopardy"
	kill -CONT $replica
	limit 60 mkdir "$m2/after"
	limit 20 umount "$m2"
	kill $replica
}

case_conversion() {
	exec 7<> "$d/f" 8<> "$d/f"
	flock -s 7
	flock -s 8
	exits 1 flock -n 7
	is "$(attribute lock "$d/f")" "shared 2"
	flock -u 8
	flock -n 7
	is "$(attribute lock "$d/f")" exclusive
	flock -n -s 7
	flock -n -s 8
	is "$(attribute lock "$d/f")" "shared 2"
	exec 7>&- 8>&-
}

case_two_conversions_do_not_deadlock() {
	limit 20 "$TOOLS/stress" upgrade "$d/f" 4 50
}

case_fork_shares_the_lock() {
	exec 9<> "$d/f"
	flock 9
	(exec 9>&-) # a child's close frees nothing
	is "$(attribute lock "$d/f")" exclusive
	exec 9>&-
	is "$(attribute lock "$d/f")" free
}

# count READ: eight shells count in $d/f, and each reads the number by that function.
count() {
	echo 0 > "$d/f"
	local i jobs=
	for i in 1 2 3 4 5 6 7 8; do
		(
			for _ in $(seq 25); do
				exec 9<> "$d/f"
				flock 9
				"$1"
				echo $((x + 1)) > "$d/f"
				exec 9>&-
			done
		) &
		jobs="$jobs $!"
	done
	wait $jobs
	is "$(cat "$d/f")" 200
}
by_descriptor() { read -r x <&9; }
by_name() { read -r x < "$d/f"; }

case_shells_count_under_flock() { count by_descriptor; }
case_shells_count_by_name_under_flock() { count by_name; }

case_count_on_one_descriptor() {
	limit 60 "$TOOLS/stress" count "$d/f" 8 100
	is "$(cat "$d/f")" 800
}

case_append_tears_and_loses_nothing() {
	limit 60 "$TOOLS/stress" append "$d/f" 8 100
}

case_five_hundred_waiters() {
	limit 100 "$TOOLS/stress" crowd "$d/f" 500
	# everything else goes on meanwhile, which `crowd` checks on a file of its own
}

case_five_hundred_killed() {
	limit 100 "$TOOLS/stress" massacre "$d/f" 500
	is "$(attribute lock "$d/f")" free
}

case_first_come_first_served() {
	limit 60 "$TOOLS/stress" order "$d/f" 40
}

case_record_locks() {
	limit 60 "$TOOLS/stress" records "$d/f"
}

case_attribute_lock() {
	touch "$d/f"
	mkdir "$d/dir"
	local node
	for node in "$d/f" "$d/dir"; do
		is "$(attribute lock "$node")" free
		setfattr -n user.ls.lock -v exclusive "$node"
		is "$(attribute lock "$node")" exclusive
		attribute sequencer "$node" | grep -q "^/ls/local/"
		setfattr -n user.ls.lock -v free "$node"
		is "$(attribute lock "$node")" free
		setfattr -n user.ls.lock -v shared "$node"
		is "$(attribute lock "$node")" "shared 1"
		setfattr -x user.ls.lock "$node"
		is "$(attribute lock "$node")" free
		refused "Invalid argument" setfattr -n user.ls.lock -v maybe "$node"
	done
	exec 9<> "$d/f"
	flock 9
	refused "Device or resource busy" setfattr -n user.ls.lock -v exclusive "$d/f"
	refused "Operation not permitted" setfattr -n user.ls.lock -v free "$d/f"
	refused "Operation not permitted" setfattr -x user.ls.lock "$d/f"
	is "$(attribute lock "$d/f")" exclusive
	exec 9>&-
	setfattr -n user.ls.lock -v free "$d/f"
}

case_lock_holders() {
	exec 9<> "$d/f"
	flock 9
	local holders
	holders=$(attribute lock_holders "$d/f")
	[[ $holders == *exclusive* ]]
	[[ $holders == *admin* ]]
	[[ $holders == *"$(hostname)"* ]]
	exec 9>&-
}

# line KEY VALUE: .cell/locks has it in the paragraph of the lock of $d/f.
line() { grep -A 9 "^path: ${d#"$m"}/f\$" "$m/.cell/locks" | grep -q "^$1: $2\$"; }

case_lock_waiters() {
	local host id first second
	host=$(hostname)
	id=$(session "$m")
	refused "No such attribute" getfattr -n user.ls.lock_waiters "$d/f" || touch "$d/f"
	hold "$d/f"
	flock -s "$d/f" true &
	first=$!
	wait_until "one waits" line waiter "$id admin $host $first shared [0-9]*"
	flock "$d/f" true &
	second=$!
	wait_until "another waits" line waiter "$id admin $host $second exclusive [0-9]*"
	line holder "$id admin $host [0-9]* exclusive [0-9]*"
	line lock exclusive
	attribute lock_waiters "$d/f" > "$work/waiters"
	is "$(cut -d ' ' -f 4,5 "$work/waiters")" "$first shared
$second exclusive"
	getfattr -d "$d/f" | grep -q '^user.ls.lock_waiters='
	"$LSCTL" locks "$m" | sed "s/ *[0-9]* $id  */ S /; s/  */ /g" > "$work/table"
	is "$(grep -F "${d#"$m"}/f " "$work/table" | sed 's/:[0-9]*$//')" \
		"${d#"$m"}/f holds exclusive S admin $host
${d#"$m"}/f waits 1 shared S admin $host
${d#"$m"}/f waits 2 exclusive S admin $host"
	"$LSCTL" locks "$m" --json | grep -q "\"pid\": $second,"
	is "$("$LSCTL" top -n 2 -d 0.1 "$m" | grep -c "waits 1")" 2
	rm "$work/release"
	wait
	refused "No such attribute" getfattr -n user.ls.lock_waiters "$d/f"
	[ ! -s "$m/.cell/locks" ] || ! line path ".*"
}

# Names are bytes; in JSON, and in the table that is made of it, they are text.
case_a_locked_name_that_is_no_text() {
	local shown=${d#"$m"}/'b\xff'
	"$LSCTL" lock "$d/"$'b\xff' -- "$LSCTL" locks "$m" > "$work/table"
	grep -qF "$shown holds" <<< "$(tr -s ' ' < "$work/table")"
	"$LSCTL" lock "$d/"$'b\xff' -- "$LSCTL" locks --json "$m" > "$work/json"
	is "$(python3 -c 'import json, sys
print(json.load(sys.stdin)[0]["path"])' < "$work/json")" "$shown"
}

case_deleting_a_locked_file_wakes_its_waiters() {
	hold "$d/f"
	limit 20 flock "$d/f" true 2> "$work/err" &
	local waiter=$! rc=0
	wait_until "a waiter stands" is_queued "$d/f" 1
	wait_until "the waiter is queued at the cell" test -n "$(attribute lock_holders "$d/f")"
	rm "$d/f"
	wait $waiter || rc=$?
	[ $rc -ne 0 ]
	grep -q "Stale file handle" "$work/err"
	rm "$work/release"
}

run_cases
