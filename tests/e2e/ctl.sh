#!/bin/bash
# lsctl: up, down, status, lock, verify.
. "$(dirname "$0")/lib.sh"

up() { limit 30 "$LSCTL" up --dir "$data" --mount "$m" "$@"; }
down() { limit 30 "$LSCTL" down --dir "$data" "$@"; }

case_up_and_down() {
	is "$(up | tail -n 1)" "$m"
	mountpoint -q "$m"
	echo x > "$m/f"
	is "$(up | tail -n 1)" "$m"
	is "$(cat "$m/f")" x
	down
	not mountpoint -q "$m"
	down
	up > /dev/null
	is "$(cat "$m/f")" x
	down
}

# Several at once: one of them starts the cell, and all say where it is mounted.
case_up_at_once() {
	local i ups=() data=$work/at_once
	for i in 1 2 3 4 5; do
		up > "$work/up-$i" 2>&1 &
		ups+=($!)
	done
	for i in "${ups[@]}"; do wait "$i"; done
	for i in 1 2 3 4 5; do is "$(cat "$work/up-$i")" "$m"; done
	is "$(stat -c %a "$data")" 700
	down
	touch "$work/file"
	refused "$work/file" "$LSCTL" up --dir "$work/unmade" --mount "$work/file" one
	[ ! -e "$work/unmade" ]
}

case_status() {
	up > /dev/null
	"$LSCTL" status "$m" | grep -q master
	"$LSCTL" status --json "$m" | python3 -c '
import json, sys
s = json.load(sys.stdin)
assert isinstance(s["lease_left"], float) and isinstance(s["session"], int), s
assert isinstance(s["version"], str) and s["state"] == "safe", s'
	"$LSCTL" status "$m" | grep -qE '^lease_left +[0-9]+\.[0-9]{3}$'
	is "$("$LSCTL" status --check "$m")" good
	"$LSCTL" status --limits "$m" | grep -qE '^quota_nodes +the cell +[0-9]+ +1000000 count '
	exits 3 "$LSCTL" status --limits --check "$m" 2> "$work/err"
	exits 3 "$LSCTL" status --check "$m" "$m" 2> "$work/err"
	exits 3 "$LSCTL" --bogus status --check "$m" 2> "$work/err"
	exits 2 "$LSCTL" --bogus status "$m" 2> "$work/err"
	exits 3 "$LSCTL" statsu --check "$m" 2> "$work/err"
	exits 3 "$LSCTL" status --chec "$m" "$m" 2> "$work/err"
	exits 3 "$LSCTL" status --check "$work/none" > "$work/out" 2>&1
	exits 3 "$LSCTL" status --check --cell none > "$work/out" 2>&1
	down
	exits 2 "$LSCTL" status --check "$m" > /dev/null 2>&1
	exits 1 "$LSCTL" status "$m" 2> "$work/err"
	is "$(wc -l < "$work/err")" 1
}

# The root of a user namespace cannot write to /run: the records are where another user's are.
case_the_root_of_a_user_namespace() {
	mkdir "$work/ns" "$work/ns/mnt" "$work/ns/run"
	chown -R 4711 "$work/ns"
	chmod 711 "$work"
	mknod -m 666 "$work/fuse" c 10 229
	mount --bind "$work/fuse" /dev/fuse
	cat > "$work/ns/script" <<-E
		set -e
		cd "$work/ns"
		"$LSFS" --standalone data mnt
		echo x > mnt/f
		"$LSCTL" status mnt | grep -q '^state *safe'
		"$LSCTL" --json status mnt | grep -q '"mountpoint": "$work/ns/mnt"'
		umount mnt
		XDG_RUNTIME_DIR=$work/none "$LSFS" --standalone data mnt
	E
	exits 1 limit 30 setpriv --reuid 4711 --clear-groups env XDG_RUNTIME_DIR="$work/ns/run" \
		unshare -Urm sh "$work/ns/script" 2> "$work/err"
	umount /dev/fuse
	grep -q "lsfs: $work/ns/mnt: cannot keep a run record in $work/none/lsfs: " "$work/err"
	is "$(wc -l < "$work/err")" 1
}

case_status_of_what_does_not_answer() {
	up > /dev/null
	mkdir "$m/sub"
	daemon=$(daemon_of "$m")
	kill -9 "$daemon"
	wait_until "the daemon is dead" gone "$daemon"
	one_line 1 "$m: a dead mount: its lsfs was killed" "$LSCTL" status "$m"
	up > /dev/null
	"$LSCTL" status "$m" | grep -q safe
	down
	cp -a /dev/fuse "$work/fuse"
	chmod 666 "$work/fuse"
	mount --bind "$work/fuse" /dev/fuse
	chmod 711 "$work"
	mkdir "$work/theirs" "$work/theirs/mnt"
	chown -R 65534:65534 "$work/theirs"
	limit 20 setpriv --reuid=65534 --regid=65534 --clear-groups env -u XDG_RUNTIME_DIR \
		"$LSFS" --standalone "$work/theirs/data" "$work/theirs/mnt" || return 1
	one_line 1 "$work/theirs/mnt: mounted by the user with id 65534" \
		"$LSCTL" status "$work/theirs/mnt/f"
	umount "$work/theirs/mnt"
	umount -l /dev/fuse
}

case_lock() {
	up > /dev/null
	is "$("$LSCTL" lock "$m/l" -- echo ran)" ran
	exits 9 "$LSCTL" lock "$m/l" -- sh -c 'exit 9'
	exits 9 limit 20 env --ignore-signal=CHLD "$LSCTL" lock "$m/l" -- sh -c 'exit 9'
	"$LSCTL" lock "$m/l" -- sh -c 'echo "$LS_FENCE"; echo "$LS_SEQUENCER"' > "$work/out"
	head -n 1 "$work/out" | grep -qE '^[0-9]+$'
	"$LSCTL" verify --cell "$data/cell.conf" "$(tail -n 1 "$work/out")"
	exec 9<> "$m/l"
	flock 9
	rc=0
	exits 1 "$LSCTL" lock -n "$m/l" -- true
	rc=0
	exits 33 "$LSCTL" lock -w 0.2 -E 33 "$m/l" -- true
	exec 9>&-
	"$LSCTL" lock -s -n "$m/l" -- sh -c "flock -s -n '$m/l' true"
	rc=0
	exits 143 "$LSCTL" lock -n "$m/l" -- sh -c 'kill -TERM $$'
	one_line 75 "the lock was lost: the file was deleted" \
		"$LSCTL" lock "$m/l" -- rm "$m/l"
	one_line 75 "the lock was lost: the file was deleted" \
		"$LSCTL" lock "$m/l" -- mv "$m/l" "$m/k"
	setfattr -n user.ls.ttl -v 60 "$m/k"
	one_line 1 "has a time to live (user.ls.ttl)" "$LSCTL" lock "$m/k" -- echo ran
	rm "$m/k"
	down
}

# The lock needs the right to write alone.
case_lock_what_may_not_be_read() {
	start
	echo x > "$m/f"
	: > "$m/acl/none"
	setfattr -n user.ls.acl.read -v none "$m/f"
	refused "Permission denied" cat "$m/f"
	is "$(limit 10 "$LSCTL" lock "$m/f" -- "$LSCTL" lock -n -E 5 "$m/f" -- true || echo $?)" 5
	limit 20 "$LSCTL" lock "$m/f" -- sh -c 'echo > "$0"; exec sleep 1000' "$work/runs" &
	wait_until "the command runs" test -e "$work/runs"
	rm "$m/f"
	exits 75 wait $!
	stop
}

# Not even one that nobody writes is waited for.
case_lock_a_fifo() {
	mkfifo "$work/fifo"
	one_line 1 "not on a mounted cell" timeout 5 "$LSCTL" lock "$work/fifo" -- true
}

case_a_check() {
	local lock=("$LSCTL" lock --check-every 0.1 --check-fails 2)
	up > /dev/null
	# one failure is none, and every second one succeeds
	touch "$work/turns"
	exits 7 limit 60 "$LSCTL" lock --check-every 2s --check-fails 2 "$m/l" --check \
		"echo x >> $work/turns; [ \$((\$(wc -l < $work/turns) % 2)) = 0 ]" -- sh -c \
		'until [ "$(wc -l < "$0")" -ge 4 ]; do sleep 0.1; done; exit 7' "$work/turns"
	one_line 76 "the check has failed (2 in a row)" "${lock[@]}" --check false "$m/l" -- \
		sh -c 'sleep 1000 & echo $! > "$0"; wait' "$work/left"
	gone "$(cat "$work/left")"
	limit 5 flock -n "$m/l" true
	one_line 76 "the check has failed" "${lock[@]}" "$m/l" \
		--check "echo \$\$ > $work/hangs; exec sleep 1000" -- sleep 1000
	wait_until "no check is left" gone "$(cat "$work/hangs")"
	one_line 76 "the check has failed" "${lock[@]}" --check false "$m/l" -- \
		sh -c 'trap "" TERM; while :; do sleep 0.1; done'
	limit 5 flock -n "$m/l" true
	one_line 2 "--check-every: a tenth of a second" "$LSCTL" lock --check true \
		--check-every 0 "$m/l" -- true
	down
}

case_elect() {
	up > /dev/null
	is "$("$LSCTL" elect "$m/primary" -- cat "$m/primary" | cut -d : -f 1)" "$(hostname)"
	is "$("$LSCTL" elect "$m/primary" me -- cat "$m/primary")" me
	"$LSCTL" elect "$m/primary" -w 5 b:80 -- sh -c '
		cat "$0"; getfattr --only-values -n user.ls.lock "$0" 2> /dev/null' \
		"$m/primary" > "$work/out"
	is "$(cat "$work/out")" "b:80
exclusive"
	"$LSCTL" elect "$m/primary" first -- "$LSCTL" elect -n -E 9 "$m/primary" second -- \
		true || is $? 9
	is "$(cat "$m/primary")" first
	one_line 2 "-- COMMAND: needed" "$LSCTL" elect "$m/primary" me true
	one_line 2 "COMMAND: needed" "$LSCTL" elect "$m/primary" --
	one_line 2 "invalid option" "$LSCTL" elect -s "$m/primary" -- true
	mkdir "$m/elect-dir"
	one_line 1 "cannot write the name" "$LSCTL" elect "$m/elect-dir" -- true
	down
}

# A person at a terminal is told after a second for whom it waits.
case_a_person_who_waits_is_told() {
	up > /dev/null
	python3 - "$LSCTL" "$m/busy" <<-'P'
		import fcntl, os, pty, re, socket, subprocess, sys
		lsctl, path = sys.argv[1:]
		fd = os.open(path, os.O_RDWR | os.O_CREAT)
		fcntl.flock(fd, fcntl.LOCK_EX)
		waiters = []
		for ahead in range(2):
		    terminal, other = pty.openpty()
		    waiters.append((subprocess.Popen([lsctl, "lock", path, "--", "true"],
		                                     stderr=other), terminal))
		    os.close(other)
		    said = b""
		    while b"\n" not in said:
		        said += os.read(terminal, 4096)
		    expected = (r"lsctl: .*/busy: waiting: the lock is held by admin on %s "
		                r"\(process %d\) since 20\d\d-.* \(\d+ s\); waiters ahead: %d\r\n")
		    expected %= (re.escape(socket.gethostname()), os.getpid(), ahead)
		    assert re.fullmatch(expected, said.decode()), said
		os.close(fd)
		for waiter, terminal in waiters:
		    assert waiter.wait(timeout=20) == 0
	P
	down
}

case_lock_a_directory() {
	up > /dev/null
	mkdir "$m/dir"
	"$LSCTL" lock "$m/dir" -- getfattr --only-values -n user.ls.lock "$m/dir" > "$work/out" 2>&1
	grep -q exclusive "$work/out"
	exits 1 "$LSCTL" lock "$m/dir" -- "$LSCTL" lock -n "$m/dir" -- true
	"$LSCTL" lock -n "$m/dir" -- true
	down
}

# Its wait is a call that the kernel does not begin again, as it does with flock(2).
case_stopped_while_it_waits_for_a_directory() {
	local waits holder
	up > /dev/null
	mkdir "$m/held"
	setfattr -n user.ls.lock -v exclusive "$m/held"
	"$LSCTL" lock "$m/held" -- touch "$work/had" &
	waits=$!
	wait_until "it waits" is_awaited "$m/held"
	holder=$(pgrep -P $waits)
	kill -STOP "$holder"
	wait_until "it is stopped" grep -q '^State:.T' "/proc/$holder/status"
	kill -CONT "$holder"
	pause_s 0.3
	wait_until "it waits again" is_awaited "$m/held"
	setfattr -n user.ls.lock -v free "$m/held"
	wait $waits
	[ -e "$work/had" ]
	setfattr -n user.ls.lock -v exclusive "$m/held"
	exits 9 limit 5 "$LSCTL" lock -w 0.5 -E 9 "$m/held" -- true
	down
}

# It may be set on a file that is locked: the lock is not kept then.
case_a_time_to_live_that_comes_while_it_waits() {
	local how waits
	up > /dev/null
	for how in lock elect "once --every 1h"; do
		touch "$m/late"
		setfattr -n user.ls.lock -v exclusive "$m/late"
		# shellcheck disable=SC2086 # words
		limit 20 "$LSCTL" $how "$m/late" -- touch "$work/late" 2> "$work/err" &
		waits=$!
		wait_until "it waits" is_awaited "$m/late"
		setfattr -n user.ls.ttl -v 60 "$m/late"
		setfattr -n user.ls.lock -v free "$m/late"
		exits 1 wait $waits
		grep -q "has a time to live (user.ls.ttl)" "$work/err"
		[ ! -e "$work/late" ]
		limit 5 flock -n "$m/late" true
		rm "$m/late"
	done
	down
}
is_awaited() { [ -n "$(attribute lock_waiters "$1" 2> "$work/no")" ]; }

case_a_command_keeps_the_lock_of_a_killed_lsctl() {
	up > /dev/null
	"$LSCTL" lock "$m/k" -- bash -c "echo \$\$ > $work/pid; exec tail -f /dev/null" &
	local ctl=$!
	wait_until "the command runs" test -s "$work/pid"
	kill -9 $ctl
	wait $ctl || :
	is "$(attribute lock "$m/k")" exclusive
	kill "$(cat "$work/pid")"
	limit 5 flock "$m/k" true
	down
}

case_lock_forwards_signals() {
	up > /dev/null
	cat > "$work/command" <<-C
		trap 'kill \$!; echo got > $work/got; exit 5' TERM
		tail -f $work/command &
		touch $work/ready
		wait # until the signal
	C
	"$LSCTL" lock "$m/l" -- bash "$work/command" &
	local pid=$!
	wait_until "the command runs" test -e "$work/ready"
	kill -TERM $pid
	exits 5 wait $pid
	[ -e "$work/got" ]
	limit 5 flock -n "$m/l" true
	down
}

# A hangup reaches the session's leader alone, and Ctrl-C the terminal's process group. Neither is
# ignored, as where the test runs in the background or under nohup(1).
case_lock_at_a_terminal() {
	up > /dev/null
	limit 60 python3 - "$LSCTL" "$m/t" <<-'P'
		import os, pty, signal, sys, time
		lsctl, path = sys.argv[1:]
		def run(*command):
		    pid, terminal = pty.fork()
		    if pid == 0:
		        for number in (signal.SIGINT, signal.SIGHUP):
		            signal.signal(number, signal.SIG_DFL)
		        os.execv(lsctl, [lsctl, "lock", path, "--", *command])
		    said = b""
		    while b"runs" not in said:
		        said += os.read(terminal, 4096)
		    return pid, terminal
		def ends(pid, code):
		    end = time.monotonic() + 10
		    while time.monotonic() < end:
		        ended, status = os.waitpid(pid, os.WNOHANG)
		        if ended:
		            assert os.waitstatus_to_exitcode(status) == code, status
		            return
		        time.sleep(0.02)
		    sys.exit("it has not ended with %d" % code)
		sleeps = ("sh", "-c", "echo runs; exec sleep 60")
		pid, terminal = run(*sleeps)
		os.close(terminal)
		ends(pid, 129)
		pid, terminal = run("timeout", "60", *sleeps)
		os.write(terminal, b"\x03")
		ends(pid, 130)
	P
	limit 5 flock -n "$m/t" true
	down
}

# Where only a part of the cell is mounted the session cannot be asked for.
# As a container sees it: a directory of the cell, and nothing else of the mount or its daemon.
case_a_part_of_the_cell() {
	up > /dev/null
	mkdir "$m/part" "$work/part"
	echo x > "$m/part/f"
	mount --bind "$m/part" "$work/part"
	cat > "$work/script" <<-E
		set -e
		umount "$m"
		mount -t tmpfs -o mode=700 own /run/lsfs
		cd "$work/part"
		"$LSCTL" status . | grep -q '^state *safe'
		"$LSCTL" status --check
		"$LSCTL" doctor
		"$LSCTL" doctor f
		"$LSCTL" acl show f | tail -n 1
		"$LSCTL" lock f -- sh -c '"$LSCTL" check "\$LS_SEQUENCER"
			"$LSCTL" locks . | grep -o "^/part/f"'
		"$LSCTL" watch -n 1 f & watcher=\$!
		while ! echo y > f || kill -0 \$watcher 2> /dev/null; do sleep 0.1; done
		touch .cell:status
	E
	exits 1 limit 30 unshare --mount sh "$work/script" > "$work/out" 2> "$work/err"
	cat "$work/out" "$work/err"
	is "$(head -n 6 "$work/out" | xargs)" "good nothing found nothing found change admin:\
 (the file is not in the part that is mounted) valid /part/f"
	sed -n 7p "$work/out" | grep -q '"event": "contents_modified", "path": "/ls/local/part/f"'

	# Or one file.
	touch "$work/alone"
	mount --bind "$m/part/f" "$work/alone"
	limit 20 "$LSCTL" lock "$work/alone" -- cat "$m/part/f" > "$work/out"
	is "$(cat "$work/out")" y
	exits 5 limit 20 "$LSCTL" lock -n "$m/part/f" -- \
		"$LSCTL" lock -n -E 5 "$work/alone" -- true
	umount "$work/alone"
	umount "$work/part"
	down
}

# The log names it by its path.
case_a_directory_locked_for_this_machine_only() {
	"$LSFS" -f --standalone "$data" "$m" 2> "$work/log-f" &
	daemon=$!
	wait_until "it is mounted" mountpoint -q "$m"
	mkdir -p "$m/a/dir"
	flock "$m/a/dir" sh -c 'exec tail -f "$1"' - "$work/log-f" > /dev/null &
	wait_until "it says so" grep -q "lsfs: $m/a/dir: process $! has locked" "$work/log-f"
	kill $! $(pgrep -P $!)
	wait_until "nobody is there" limit 10 umount "$m"
	wait_until "the daemon has left" gone "$daemon"
}

run_cases
