#!/bin/bash
# Events: .cell/events, poll, lsctl watch, on two mounts of a cell of three; through a fail-over, in
# jeopardy; many watchers of one file. WATCHERS=2000 tests/e2e/events.sh: so many.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

WATCHERS=${WATCHERS:-400}
scratch="events plain seen changes watchers err"

# listen MOUNT: the mount's events are written to $work/events from now on.
listen() {
	exec 7< "$1/.cell/events"
	cat <&7 > "$work/events" &
	listener=$!
	exec 7<&-
}
listen_no_more() {
	kill $listener
	wait $listener || :
}

# told EVENT PATTERN: how many events of that name have been received, in a line with the pattern.
told() { grep -cE "^\{\"event\": \"$1\", .*${2:-}" "$work/events" || :; }
told_of() { [ "$(told "$1" "${2:-}")" -ge 1 ]; }
told_times() { [ "$(told "$2" "${3:-}")" -eq "$1" ]; }

case_up() {
	up_of_three
	mount_second
}

case_a_file_is_modified_elsewhere() {
	echo 1 > "$d/f"
	exec 8< "$d/f"
	listen "$m"
	echo 2 > "$m2/${d##*/}/f"
	wait_until "it is told" told_of contents_modified "/ls/dc1/${d##*/}/f\","
	is "$(cat "$d/f")" 2
	echo 3 > "$m2/${d##*/}/f"
	wait_until "it is told again" told_times 2 contents_modified
	python3 - "$work/events" <<-'P'
		import json, sys, datetime
		for line in open(sys.argv[1]):
		    event = json.loads(line)
		    at = datetime.datetime.strptime(event["time"][:19], "%Y-%m-%dT%H:%M:%S")
		    assert abs((datetime.datetime.utcnow() - at).total_seconds()) < 60, event
		    assert event["time"].endswith("Z"), event
		    assert event["path"].startswith("/ls/dc1"), event
	P
	listen_no_more
	exec 8<&-
}

# U+009B in a name gives a command to a terminal.
case_a_control_character_in_a_name() {
	local name=$'a\302\2332J'
	echo 1 > "$d/$name"
	exec 8< "$d/$name"
	listen "$m"
	echo 2 > "$m2/${d##*/}/$name"
	wait_until "it is told" told_of contents_modified 'a\\u009b2J", '
	listen_no_more
	exec 8<&-
}

# Names are bytes, and JSON is UTF-8: Python finds the name again.
case_a_name_that_is_not_utf8() {
	local name=$'\377\355\240\200\302\233"\\\303\244'
	wrote_and_saw_both() {
		echo 2 > "$m2/${d##*/}/$name"
		grep -q '"child"' "$work/events" && grep -qv '"child"' "$work/events"
	}
	echo 1 > "$d/$name"
	"$LSCTL" watch "$d/$name" "$d" > "$work/events" &
	wait_until "it is told" wrote_and_saw_both
	kill $!
	wait $! || :
	python3 - "$work/events" "$name" <<-'P'
		import json, os, sys
		for line in open(sys.argv[1], encoding="utf-8"):
		    event = json.loads(line)
		    name = event.get("child") or os.path.basename(event["path"])
		    assert os.fsencode(name) == os.fsencode(sys.argv[2]), line
	P
}

# A file that is not open is not watched.
case_nothing_else_is_told() {
	echo 1 > "$d/f"
	echo 1 > "$d/g"
	exec 8< "$d/f"
	listen "$m"
	echo 2 > "$m2/${d##*/}/g"
	echo 2 > "$m2/${d##*/}/f"
	wait_until "it is told" told_of contents_modified
	is "$(told contents_modified '/g"')" 0
	listen_no_more
	exec 8<&-
}

case_a_directory() {
	local other=$m2/${d##*/}
	limit 30 "$LSCTL" watch -n 2 "$d" > "$work/events" 2>&1 &
	watcher=$!
	# shellcheck disable=SC2016
	wait_until "it has told two" sh -c 'mkdir "$1/begin" && rmdir "$1/begin" &&
		[ "$(wc -l < "$2")" -eq 2 ]' - "$other" "$work/events"
	wait $watcher
	is "$(wc -l < "$work/events")" 2
	told_of child_removed '"child": "begin"'
}

case_children_and_deletion() {
	local other=$m2/${d##*/} rc=0
	echo 1 > "$d/f"
	"$LSCTL" watch "$d" "$d/f" > "$work/events" 2> "$work/err" &
	watcher=$!
	wait_until "it watches" sh -c 'echo 2 > "$1" && [ -s "$2" ]' - "$other/f" "$work/events"
	wait_until "of the child" told_of child_modified '"child": "f"'
	rm "$other/f"
	wait_until "of its end" told_of child_removed '"child": "f"'
	wait_until "of its own end" told_of handle_invalid '/f"'
	kill $watcher
	wait $watcher || rc=$?
	is $rc 143
	is "$(cat "$work/err")" ""
	refused "not in a mounted cell" "$LSCTL" watch /tmp
	refused "not in a mounted cell" "$LSCTL" watch "$work/nothing"
	exits 2 "$LSCTL" watch 2> /dev/null
	exits 2 "$LSCTL" watch -n 0 "$d" 2> /dev/null
}

# A path is watched before it is there, and after its end; through the death of the master.
case_a_path_that_comes_and_goes() {
	local other=$m2/${d##*/} old
	mkdir "$d/begin"
	"$LSCTL" watch "$d/begin" "$d/sub/dir/f" > "$work/events" 2> "$work/err" &
	watcher=$!
	# shellcheck disable=SC2016
	wait_until "it watches" sh -c 'touch "$1/x" && rm "$1/x" && [ -s "$2" ]' - \
		"$other/begin" "$work/events"
	mkdir -p "$other/sub/dir"
	is "$(told created)" 0
	echo 1 > "$other/sub/dir/f"
	wait_until "it has come" told_times 1 created '/sub/dir/f", "time": "20[^"]*Z"}$'
	echo 2 > "$other/sub/dir/f"
	wait_until "it is modified" told_of contents_modified '/sub/dir/f"'
	rm -r "$other/sub"
	wait_until "it is gone" told_of handle_invalid '/sub/dir/f"'
	old=$(master)
	kill_replica "$old"
	mkdir -p "$other/sub/dir"
	echo 3 > "$other/sub/dir/f"
	wait_until "it is there again" told_times 2 created '/sub/dir/f"'
	# shellcheck disable=SC2016
	wait_until "it is watched again" sh -c '
		echo 4 > "$1" && tail -n 1 "$2" | grep -q contents_modified' - \
		"$other/sub/dir/f" "$work/events"
	start_replica "$old"
	kill $watcher
	is "$(cat "$work/err")" ""
	limit 30 "$LSCTL" watch -n 1 "$d/late" > "$work/events" &
	watcher=$!
	# shellcheck disable=SC2016
	wait_until "it looks for it" sh -c 'ls -l /proc/[0-9]*/fd 2> /dev/null | grep -q "$1$"' - \
		"$m/.cell:events"
	touch "$other/late"
	wait $watcher
	told_of created '/late"'
}

# All of a tree by one watch: through the death of the master, and of the session.
case_a_tree() {
	local other=$m2/${d##*/} old plain
	mkdir -p "$d/a/b"
	"$LSCTL" watch "$d" > "$work/plain" &
	plain=$!
	"$LSCTL" watch -r "$d" > "$work/events" &
	watcher=$!
	# shellcheck disable=SC2016
	wait_until "both watch" sh -c '
		touch "$1/a/x" "$1/x" && rm "$1/a/x" "$1/x" && grep -q a/x "$2" && [ -s "$3" ]' - \
		"$other" "$work/events" "$work/plain"
	wait_until "it is one watch" grep -q '^lsfs_watched_nodes 1$' "$m/.cell/metrics"
	echo 1 > "$other/a/b/f"
	wait_until "a file is added" told_of child_added '"child": "a/b/f"}'
	wait_until "and written" told_of child_modified '"child": "a/b/f"}'
	flock "$other/a/b/f" true
	wait_until "and locked" told_of lock_acquired '"child": "a/b/f", "lock_generation": 1}'
	old=$(master)
	kill_replica "$old"
	echo 2 > "$other/a/b/f"
	wait_until "a fail-over" told_of master_failed_over
	mkdir "$other/a/new"
	wait_until "a directory" told_of child_added '"child": "a/new"}'
	echo 3 > "$other/a/new/g"
	wait_until "a file in it" told_of child_modified '"child": "a/new/g"}'
	start_replica "$old"
	cell_ctl session destroy "$(session "$m")"
	wait_until "another session" told_of expired
	# shellcheck disable=SC2016
	wait_until "it is watched again" sh -c 'echo 4 > "$1/a/b/last" && grep -q last "$2"' - \
		"$other" "$work/events"
	rm -r "$other/a"
	wait_until "all is gone" told_of child_removed '"child": "a"}'
	told_of child_removed '"child": "a/new/g"}'
	wait_until "of its own child" grep -q '"child": "a"}' "$work/plain"
	kill $watcher $plain
	if grep '"child": "a/' "$work/plain"; then return 1; fi
}

# A command for the changes of a tree.
case_a_tree_and_a_command() {
	local other=$m2/${d##*/}
	mkdir -p "$d/a/b"
	"$LSCTL" watch -r --run "cat '$d'/a/b/* >> '$work/seen'" "$d" 2> "$work/err" &
	watcher=$!
	wait_until "it runs at the start" test -s "$work/err"
	# shellcheck disable=SC2016
	wait_until "after a change" sh -c 'echo 1 > "$1/a/b/f"; grep -q 1 "$2"' - \
		"$other" "$work/seen"
	kill $watcher
}

# The mount can no longer name a file that its own process has unlinked: nobody is told of it.
case_an_unlinked_file_of_others() {
	echo 1 > "$d/f"
	exec 8<> "$d/mine"
	rm "$d/mine"
	limit 30 "$LSCTL" watch -n 1 "$d/f" > "$work/events" &
	watcher=$!
	wait_until "it tells of its file" sh -c 'echo 2 > "$1" && [ -s "$2" ]' - \
		"$m2/${d##*/}/f" "$work/events"
	wait $watcher
	told_of contents_modified '/f"'
	exec 8>&-
}

case_poll() {
	echo 1 > "$d/f"
	limit 30 python3 - "$d/f" "$m2/${d##*/}/f" <<-'P'
		import os, select, sys
		fd = os.open(sys.argv[1], os.O_RDONLY)
		poll = select.poll()
		poll.register(fd, select.POLLPRI)
		assert os.pread(fd, 10, 0) == b"1\n"
		assert poll.poll(0) == []
		open(sys.argv[2], "w").write("2\n")
		assert poll.poll(10000) == [(fd, select.POLLPRI)]
		assert poll.poll(0) == [(fd, select.POLLPRI)]
		assert os.pread(fd, 10, 0) == b"2\n"
		assert poll.poll(0) == []
		open(sys.argv[2], "w").write("3\n")
		assert poll.poll(10000) == [(fd, select.POLLPRI)]
		import fcntl
		fcntl.flock(fd, fcntl.LOCK_EX)
		assert os.pread(fd, 10, 0) == b"3\n"
		assert select.select([fd], [], [fd], 0) == ([fd], [], [])
	P
}

# A file that was modified between its open and the first poll.
case_poll_misses_nothing() {
	echo 1 > "$d/f"
	limit 30 python3 - "$d/f" "$m2/${d##*/}/f" <<-'P'
		import os, select, sys
		fd = os.open(sys.argv[1], os.O_RDONLY)
		assert os.pread(fd, 10, 0) == b"1\n"
		open(sys.argv[2], "w").write("2\n")
		poll = select.poll()
		poll.register(fd, select.POLLPRI)
		assert poll.poll(10000) == [(fd, select.POLLPRI)]
	P
}

# A session has at most LIMIT_WATCHES: a node that is polled beyond them may have changed, and is
# watched once there is room.
case_poll_of_more_than_can_be_watched() {
	mkdir "$d/many"
	limit 120 python3 - "$d/many" "$m2/${d##*/}/many" <<-'P'
	import os, select, sys, time
	here, there = sys.argv[1:]
	def tells(fd, ms):
	    p = select.poll()
	    p.register(fd, select.POLLPRI)
	    return bool(p.poll(ms))
	fds = []
	for n in range(1100):
	    fds.append(os.open(f"{here}/{n}", os.O_RDWR | os.O_CREAT))
	    tells(fds[-1], 0)
	last = fds[-1]
	assert tells(last, 60000)
	os.pread(last, 10, 0)
	assert tells(last, 60000)
	wakes, end = 0, time.monotonic() + 2
	while time.monotonic() < end:
	    os.pread(last, 10, 0)
	    wakes += tells(last, 100)
	assert wakes < 20, wakes
	for fd in fds[:100]:
	    os.close(fd)
	with open(f"{there}/1099", "w") as f:
	    f.write("new")
	assert tells(last, 60000)
	assert os.pread(last, 10, 0) == b"new"
	P
}

case_the_stream_waits_and_is_interrupted() {
	limit 20 python3 - "$m/.cell/events" <<-'P'
		import errno, os, select, signal, sys, time
		fd = os.open(sys.argv[1], os.O_RDONLY | os.O_NONBLOCK)
		try:
		    os.read(fd, 100)
		    assert False
		except BlockingIOError:
		    pass
		assert select.select([fd], [], [], 0) == ([], [], [])
		try:
		    os.lseek(fd, 0, os.SEEK_SET)
		    assert False
		except OSError as e:
		    assert e.errno == errno.ESPIPE
	P
	local begin=$SECONDS rc=0
	timeout -s INT 1 cat "$m/.cell/events" || rc=$?
	is $rc 124
	[ $((SECONDS - begin)) -lt 5 ]
	ls "$m/.cell" | grep -qx events
}

# Each of those that share the open file waits by itself.
case_a_second_reader_can_be_killed() {
	exec 7< "$m/.cell/events"
	cat <&7 > /dev/null &
	local first=$!
	cat <&7 > /dev/null &
	local second=$!
	exec 7<&-
	pause_s 0.3
	kill -KILL $second
	wait_until "the second reader ends" gone $second
	kill $first
	wait_until "the first reader ends" gone $first
}

case_a_conflicting_lock() {
	echo 1 > "$d/f"
	exec 8<> "$d/f"
	listen "$m"
	flock 8
	wait_until "the lock is told" told_of lock_acquired
	is "$(told conflicting_lock)" 0
	flock "$m2/${d##*/}/f" true &
	wait_until "somebody waits" told_of conflicting_lock '/f"'
	flock -u 8
	wait $!
	wait_until "the next one has it" told_times 2 lock_acquired
	listen_no_more
	exec 8<&-
}

case_a_fail_over_is_told() {
	local old
	old=$(master)
	echo 1 > "$d/f"
	exec 8< "$d/f"
	listen "$m"
	echo 2 > "$m2/${d##*/}/f"
	wait_until "it is told" told_of contents_modified
	kill_replica "$old"
	echo 3 > "$m2/${d##*/}/f"
	wait_until "the fail-over is told" told_of master_failed_over '"path": "/ls/dc1"'
	wait_until "the third" told_of contents_modified '"content_generation": [0-9]*4?'
	echo 4 > "$m2/${d##*/}/f"
	wait_until "the last" told_times 3 contents_modified
	start_replica "$old"
	listen_no_more
	exec 8<&-
}

# The mount is away while the master dies and files come and locks are taken, at either master.
case_a_fail_over_loses_nothing() {
	local other=$m2/${d##*/} frozen last i
	mkdir "$d/dir"
	touch "$d/dir/f"
	"$LSCTL" watch -r "$d" > "$work/events" 2> "$work/err" &
	watcher=$!
	# shellcheck disable=SC2016
	wait_until "it watches" sh -c 'flock "$1/dir/f" true && [ -s "$2" ]' - \
		"$other" "$work/events"
	frozen=$(daemon_of "$m")
	old=$(master)
	for i in $(seq 60); do
		[ "$i" -ne 15 ] || kill -STOP "$frozen"
		[ "$i" -ne 20 ] || kill_replica "$old"
		touch "$other/dir/$i"
		flock "$other/dir/f" true
		[ "$i" -ne 40 ] || kill -CONT "$frozen"
	done
	last=$(attribute lock_generation "$other/dir/f")
	wait_until "all is told" told_of lock_acquired "\"lock_generation\": $last}"
	sed -n 's|.*"child_added".*"dir/\([0-9]*\)"}|\1|p' "$work/events" > "$work/told"
	is "$(cat "$work/told")" "$(seq 60)"
	sed -n 's/.*"lock_generation": \([0-9]*\)}/\1/p' "$work/events" > "$work/told"
	is "$(cat "$work/told")" "$(seq "$(head -n 1 "$work/told")" "$(tail -n 1 "$work/told")")"
	is "$(told master_failed_over)" 1
	is "$(told gap)" 0
	is "$(told expired)" 0
	is "$(cat "$work/err")" ""
	start_replica "$old"
	kill $watcher
}

# since INDEX ARGUMENT...: what lsctl prints of the changes above the index, as "EVENT PATH", until
# the last line is one of a file that has just been made; without the lines of such files.
since() {
	local from=$1 rc=0 end=$d/end${EPOCHREALTIME/./}
	shift
	echo over > "$end"
	"$LSCTL" watch --since "$from" "$@" "$end" > "$work/changes" 2> "$work/err" &
	watcher=$!
	wait_until "the end is told" grep -q "/${end##*/}\"" "$work/changes"
	kill $watcher
	wait $watcher || rc=$?
	is $rc 143
	rm "$end"
	sed -E 's|^\{"event": "([a-z_]*)", "path": "/ls/dc1([^"]*)".*|\1 \2|; /end[0-9]+$/d' \
		"$work/changes"
}
last_index() { sed -nE 's/.*"index": ([0-9]+).*/\1/p' "$work/changes" | tail -n 1; }

case_changes_can_be_read_again() {
	local old from name=/${d##*/}
	since 0 "$d" > "$work/told"
	from=$(last_index)
	mkdir "$d/dir"
	echo 1 > "$d/f"
	(exec 9< "$d/f" && flock 9)
	old=$(master)
	kill_replica "$old"
	echo 2 > "$m2$name/f"
	echo 1 > "$m2$name/dir/deep"
	mv "$m2$name/f" "$m2$name/g"
	start_replica "$old"
	touch -d @1 "$d/g"
	rm -r "$d/dir"
	# A file is created empty, and then has contents.
	cat > "$work/want" <<-W
		created $name/dir
		created $name/f
		contents_modified $name/f
		lock_acquired $name/f
		contents_modified $name/f
		created $name/g
		contents_modified $name/g
		deleted $name/f
		attributes_modified $name/g
		deleted $name/dir
	W
	since "$from" "$d" | grep -v "$name/end" > "$work/told"
	is "$(cat "$work/told")" "$(cat "$work/want")"
	is "$(cat "$work/err")" ""
	since "$from" -r "$d" > "$work/told"
	grep -qx "created $name/dir/deep" "$work/told"
	grep -qx "deleted $name/dir/deep" "$work/told"
	# When all replicas have been away, too.
	for old in 1 2 3; do kill_replica $old; done
	start_missing
	since "$from" "$d/f" > "$work/told"
	is "$(cat "$work/told")" "$(grep '/f$' "$work/want")"
	# From the middle on.
	since "$(last_index)" "$d" > "$work/told"
	is "$(cat "$work/told")" ""
}

case_changes_that_are_not_kept() {
	since 0 "$d" > "$work/told"
	cell_ctl cell set history_bytes=1 > "$work/out"
	echo 1 > "$d/f"
	echo 2 > "$d/f"
	since 1 "$d" > "$work/told"
	head -n 1 "$work/changes" |
		grep -qxE '\{"event": "compacted", "path": "/ls/dc1", "index": [0-9]+\}'
	cell_ctl cell set history_bytes=64M > "$work/out"
	exits 2 "$LSCTL" watch --since x "$d" 2> /dev/null
	exits 2 "$LSCTL" watch --since 1 --run true "$d" 2> /dev/null
}

# A read waits for the next change, and ends with a signal; one that must not wait does not, and who
# polls at the end asks once a second.
case_the_changes_wait() {
	python3 - "$m" "$d" <<-'P'
		import json, os, select, signal, sys, time
		m, d = sys.argv[1:]
		fd = os.open(m + "/.cell/changes", os.O_RDONLY | os.O_NONBLOCK)
		lines = b""
		while True:
		    try:
		        lines += os.read(fd, 1000)
		    except BlockingIOError:
		        break
		index = json.loads(lines.splitlines()[-1])["index"]
		poll = select.poll()
		poll.register(fd, select.POLLIN)
		turns, end = 0, time.monotonic() + 2.5
		while time.monotonic() < end:
		    if not poll.poll(100):
		        continue
		    turns += 1
		    try:
		        os.read(fd, 1000)
		    except BlockingIOError:
		        pass
		assert 0 < turns < 10, turns
		os.close(fd)
		fd = os.open(m + "/.cell/changes", os.O_RDONLY)
		os.lseek(fd, index, os.SEEK_SET)
		if os.fork() == 0:
		    time.sleep(0.5)
		    open(d + "/new", "w").close()
		    os._exit(0)
		change = json.loads(os.read(fd, 65536))
		assert change["event"] == "created" and change["path"].endswith("/new"), change
		assert change["index"] > index
		def handler(*_):
		    raise InterruptedError
		signal.signal(signal.SIGALRM, handler)
		signal.setitimer(signal.ITIMER_REAL, 0.3)
		try:
		    os.read(fd, 65536)
		    sys.exit("a read has not waited")
		except InterruptedError:
		    pass
	P
}

case_jeopardy_and_safe() {
	local i
	leases 1s 2s
	limit 10 umount "$m2"
	mount_second grace=40
	echo 1 > "$m2/f"
	exec 8< "$m2/f"
	listen "$m2"
	for i in 1 2 3; do kill_replica $i; done
	wait_until "jeopardy" told_of jeopardy
	for i in 1 2 3; do start_replica $i; done
	wait_until "safe" told_of safe
	echo 2 > "$m2/f"
	wait_until "it is told" told_of contents_modified
	is "$(told expired)" 0
	listen_no_more
	exec 8<&-
}

# lsctl watch opens its paths again.
case_expired() {
	local id
	echo 1 > "$m2/f"
	"$LSCTL" watch "$m2/f" > "$work/events" 2>&1 &
	watcher=$!
	wait_until "it watches" sh -c 'echo 2 > "$1" && [ -s "$2" ]' - "$m/f" "$work/events"
	id=$(session "$m2")
	cell_ctl session destroy "$id"
	wait_until "expired" told_of expired
	# shellcheck disable=SC2016
	wait_until "it goes on" sh -c '
		echo 3 > "$1" && tail -n 1 "$2" | grep -q contents_modified' - \
		"$m/f" "$work/events"
	kill $watcher
}

# lsctl watch --since waits for the cell, however long it is away.
case_the_changes_of_a_cell_that_is_away() {
	local i
	limit 10 umount "$m2"
	mount_second grace=1
	touch "$m2/f"
	"$LSCTL" watch --since 0 "$m2/f" > "$work/changes" 2> "$work/err" &
	watcher=$!
	wait_until "it is told what was" grep -q '/f"' "$work/changes"
	for i in 1 2 3; do kill_replica $i; done
	# shellcheck disable=SC2016
	wait_until "a grace period is over" sh -c '! cat "$1" > /dev/null 2>&1' - "$m2/f"
	i=$(sed -n 's/^syscr: //p' "/proc/$watcher/io")
	# shellcheck disable=SC2016
	wait_until "it has asked again" sh -c '
		[ "$(sed -n "s/^syscr: //p" "/proc/$1/io")" -gt "$2" ]' - $watcher $((i + 2))
	for i in 1 2 3; do start_replica $i; done
	wait_until "the cell is back" touch "$m/after"
	: > "$work/changes"
	echo 1 > "$m/f"
	wait_until "it goes on" grep -q contents_modified "$work/changes"
	is "$(cat "$work/err")" ""
	kill $watcher
}

least() { tail -n 1 "$work/watchers" | cut -d ' ' -f 2; }
most() { tail -n 1 "$work/watchers" | cut -d ' ' -f 3; }
all_were_told() { [ "$(least)" = "$1" ]; }

case_watchers() {
	local node generation
	cell_ctl cell set session_lease=30s
	echo 1 > "$m/f"
	node=$(stat -c %i "$m/f")
	echo 2 > "$m/f"
	generation=$(attribute content_generation "$m/f")
	ulimit -n 20000
	"$TOOLS/watchers" "$cell/dc1.conf" "$cell/admin.key" "$WATCHERS" "$node" \
		$((generation - 1)) > "$work/watchers" 2> "$work/watchers.log" &
	patience=60 wait_until "all watch" all_were_told 1 ||
		{ tail -n 1 "$work/watchers"; cat "$work/watchers.log"; return 1; }
	echo 3 > "$m/f"
	wait_until "all are told of one" all_were_told 2
	echo 4 > "$m/f"
	echo 5 > "$m/f"
	wait_until "all are told of each" all_were_told 4
	is "$(most)" 4
	kill $!
}

case_down() {
	limit 10 umount "$m2"
	down
}

run_cases
