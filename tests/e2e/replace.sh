#!/bin/bash
# lsfs --replace: another process goes on with a mount. Open files, locks, waiters, watchers and
# buffers stay what they are, and nobody notices but by the pause; when it fails, nothing changes.
#
#   ROUNDS=n   how often under load (default: 20)
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

ROUNDS=${ROUNDS:-20}

# The process that serves a mount, as its run record says.
serves() { sed -n 's/^pid //p' "$(grep -l "^mountpoint $1\$" /run/lsfs/*.mount)"; }
socket() { echo "$(grep -l "^mountpoint $1\$" /run/lsfs/*.mount).socket"; }

# replace [MOUNT]: by a process that is another one, for the same session.
replace() {
	local at=${1:-$m} before session
	before=$(serves "$at")
	session=$(session "$at")
	limit 20 "$LSFS" --replace "$at"
	[ "$(serves "$at")" != "$before" ]
	wait_until "the old process has left" gone "$before"
	is "$(session "$at")" "$session"
}

queue() { attribute lock_waiters "$1" | grep -c . || :; }
has_no_queue() { [ "$(queue "$1")" = 0 ]; }
is_queued() { [ "$(queue "$1")" -ge "$2" ]; }

case_up() {
	up_of_three
	mount_second
}

case_a_buffer_is_committed_by_the_next() {
	echo old > "$d/f"
	python3 - "$d" "$work" <<-'P' &
		import os, sys, time
		d, work = sys.argv[1:3]
		whole = open(d + "/f", "w")
		print("new", file=whole, flush=True)
		log = open(d + "/log", "a")
		print("one", file=log, flush=True)
		open(work + "/has", "w")
		while not os.path.exists(work + "/go"): time.sleep(0.02)
		assert os.stat(d + "/f").st_size == 4
		print("er", file=whole, flush=True)
		print("two", file=log)
		whole.close()
		log.close()
	P
	wait_until "it has written" test -e "$work/has"
	is "$(cat "$m2/${d##*/}/f")" old
	replace
	is "$(cat "$m2/${d##*/}/f" "$d/f")" "$(printf 'old\nold')"
	touch "$work/go"
	exits 0 wait $!
	rm "$work/has" "$work/go"
	is "$(cat "$m2/${d##*/}/f")" "$(printf 'new\ner')"
	is "$(cat "$m2/${d##*/}/log")" "$(printf 'one\ntwo')"
}

case_a_snapshot_stays_one_version() {
	printf 'old\nold\n' > "$d/f"
	exec 9< "$d/f"
	read -r first <&9
	printf 'new\nnew\n' > "$m2/${d##*/}/f"
	replace
	is "$first $(cat <&9)" "old old"
	exec 9<&-
	is "$(head -1 "$d/f")" new
}

case_locks_are_held() {
	local sequencer fence
	exec 9<> "$d/flock" 8<> "$d/fcntl"
	flock 9
	sequencer=$(attribute sequencer "$d/flock")
	fence=$(attribute fence "$d/flock")
	python3 - "$d/fcntl" "$work" <<-'P' &
		import fcntl, os, sys, time
		f = open(sys.argv[1], "r+")
		fcntl.lockf(f, fcntl.LOCK_EX)
		open(sys.argv[2] + "/has", "w")
		while not os.path.exists(sys.argv[2] + "/go"): time.sleep(0.02)
		fcntl.lockf(f, fcntl.LOCK_UN)
		fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
	P
	wait_until "it is locked" test -e "$work/has"
	replace
	is "$(attribute fence "$d/flock")" "$fence"
	limit 10 "$LSCTL" --cell "$conf" --key "$cell/admin.key" check "$sequencer"
	exits 1 limit 5 flock -n "$m2/${d##*/}/flock" true
	exits 1 limit 5 flock -n "$d/flock" true 9>&- 8>&-
	is "$(attribute lock "$m2/${d##*/}/fcntl")" exclusive
	touch "$work/go"
	wait $!
	rm "$work/has" "$work/go"
	flock -u 9
	limit 5 flock -n "$m2/${d##*/}/flock" true
	exec 9>&- 8>&-
}

# The queue stays as it was: a waiter here, one elsewhere, and one here again.
case_waiters_keep_their_places() {
	local other=$m2/${d##*/}/f i
	exec 9<> "$d/f"
	flock 9
	for i in 1 2 3; do
		if [ $i = 2 ]; then at=$other; else at=$d/f; fi
		flock "$at" sh -c "echo $i >> '$work/order'" 9>&- &
		wait_until "waiter $i is in the queue" is_queued "$d/f" $i
	done
	replace
	replace
	replace "$m2"
	is "$(queue "$d/f")" 3
	exec 9>&-
	wait
	is "$(tr -d '\n' < "$work/order")" 123
}

# Its wait goes on, and it shows no event and commits no buffer a second time.
case_a_waiter_does_nothing_twice() {
	exec 9<> "$d/f"
	flock 9
	python3 - "$d/f" "$m2/${d##*/}/f" "$work" <<-'P' &
		import fcntl, os, select, sys, threading, time
		f, elsewhere, work = sys.argv[1:4]
		fd = os.open(f, os.O_RDWR | os.O_APPEND)
		p = select.poll()
		p.register(fd, select.POLLPRI)
		assert p.poll(0) == []
		t = threading.Thread(target=fcntl.flock, args=(fd, fcntl.LOCK_EX))
		t.start()
		while "user.ls.lock_waiters" not in os.listxattr(f): time.sleep(0.02)
		open(elsewhere, "w").write("other ")
		assert p.poll(20000) != []
		os.write(fd, b"half ")
		open(work + "/has", "w")
		while not os.path.exists(work + "/go"): time.sleep(0.02)
		assert open(elsewhere).read() == "other "
		assert p.poll(0) != []
		open(work + "/unlock", "w")
		t.join()
		os.write(fd, b"whole")
		os.fsync(fd)
	P
	wait_until "it has written" test -e "$work/has"
	replace
	touch "$work/go"
	wait_until "it has looked" test -e "$work/unlock"
	flock -u 9
	exits 0 wait $!
	rm "$work/has" "$work/go" "$work/unlock"
	is "$(cat "$d/f")" "other half whole"
	exec 9>&-
}

# A waiter can be interrupted, as before.
case_a_waiter_is_interrupted() {
	exec 9<> "$d/f"
	flock 9
	flock "$d/f" true 9>&- &
	wait_until "it waits" is_queued "$d/f" 1
	replace
	kill $!
	exits 143 wait $!
	wait_until "it waits no more" has_no_queue "$d/f"
	flock -w 1 "$d/f" true 9>&- && return 1
	exec 9>&-
	limit 5 flock -n "$d/f" true
}

# Of two conversions that wait for each other the second one loses its share. Whether it still waits
# or was interrupted, its descriptor outlasts replacements and reconnects.
case_conversions() {
	cat > "$work/conversions" <<-'P'
		import fcntl, os, signal, sys, threading, time
		f, work, interrupted = sys.argv[1:4]
		def lock(fd):
		    t = threading.Thread(target=fcntl.flock, args=(fd, fcntl.LOCK_EX))
		    t.start()
		    return t
		def wait(condition):
		    while not condition(): time.sleep(0.02)
		def raises(*_): raise InterruptedError
		a, b = os.open(f, os.O_RDWR), os.open(f, os.O_RDWR)
		fcntl.flock(a, fcntl.LOCK_SH)
		fcntl.flock(b, fcntl.LOCK_SH)
		first = lock(a)
		wait(lambda: "user.ls.lock_waiters" in os.listxattr(f))
		if interrupted:
		    signal.signal(signal.SIGALRM, raises)
		    signal.setitimer(signal.ITIMER_REAL, 1)
		    try: fcntl.flock(b, fcntl.LOCK_EX)
		    except InterruptedError: pass
		    else: sys.exit("both have it")
		else:
		    second = lock(b)
		first.join()
		open(work + "/has", "w")
		wait(lambda: os.path.exists(work + "/go"))
		if interrupted: second = lock(b)
		time.sleep(0.3)
		assert second.is_alive() and os.pread(b, 9, 0) == b"text"
		fcntl.flock(a, fcntl.LOCK_UN)
		second.join()
		os.pwrite(b, b"more", 0)
		os.fsync(b)
	P
	local interrupted
	for interrupted in "" yes; do
		printf text > "$d/f"
		python3 "$work/conversions" "$d/f" "$work" "$interrupted" &
		wait_until "the first has it" test -e "$work/has"
		replace
		cell_ctl master transfer
		wait_until "the session is safe" is_in_state "$m" safe
		replace
		touch "$work/go"
		exits 0 wait $!
		rm "$work/has" "$work/go"
		is "$(cat "$d/f")" more
		is "$(attribute lock "$d/f")" free
	done
}

# What a process writes into .cell/txn or reads of .cell/locks may be long; and the kernel has not
# looked up the name of a numbered file.
case_long_texts_and_numbered_files() {
	local long
	long=$(printf '%0240d' 0)
	mkdir -p "$d/$long/$long/$long"
	exec 7<> "$m/.cell/txn"
	python3 - "${d#"$m"}" <<-'P'
		import os, sys
		text = f"create {sys.argv[1]}/f\n" + "# nothing\n" * 50000
		assert os.write(7, text.encode()) == len(text)
	P
	replace
	is "$(head -n 1 <&7 | cut -d " " -f 1)" "done"
	replace
	exec 7>&-
	[ -e "$d/f" ]
	python3 - "$d/$long/$long/$long" <<-'P'
		import os, sys
		for i in range(340):
		    path = f"{sys.argv[1]}/{i}"
		    open(path, "w")
		    os.setxattr(path, "user.ls.lock", b"exclusive")
	P
	exec 7< "$m/.cell/locks"
	head -c 1000 <&7 > /dev/null
	replace
	[ "$(wc -c <&7)" -gt 262144 ]
	exec 7>&-
	rm -r "${d:?}/$long"
	mkdir "$d/q"
	is "$("$LSCTL" new "$d/q/job-")" "$d/q/job-0000000000"
	replace
}

case_events_and_poll() {
	local reader poller tree
	mkdir -p "$d/a/b"
	echo 1 > "$d/f"
	exec 8< "$d/f"
	cat "$m/.cell/events" > "$work/events" &
	reader=$!
	python3 - "$d/f" "$work" <<-'P' &
		import os, select, sys
		fd = os.open(sys.argv[1], os.O_RDONLY)
		os.pread(fd, 10, 0)
		p = select.poll()
		p.register(fd, select.POLLPRI)
		open(sys.argv[2] + "/polls", "w")
		sys.exit(p.poll(20000) == [])
	P
	poller=$!
	wait_until "it polls" test -e "$work/polls"
	"$LSCTL" watch -r "$d" > "$work/tree" &
	tree=$!
	# shellcheck disable=SC2016
	wait_until "the tree is watched" sh -c 'echo 1 > "$1/g" && grep -q /g "$2"' - \
		"$m2/${d##*/}/a/b" "$work/tree"
	pause_s 0.3
	replace
	echo 2 > "$m2/${d##*/}/f"
	wait_until "the reader is told" grep -q contents_modified "$work/events"
	exits 0 wait $poller
	mkdir "$m2/${d##*/}/a/b/later"
	wait_until "the tree still is" grep -q '"child": "a/b/later"}' "$work/tree"
	[ "$(grep -c gap "$work/events")" = 0 ]
	kill $reader $tree
	exec 8<&-
}

# Two threads wait for the next change, one behind the other.
case_readers_of_changes() {
	echo 1 > "$d/f"
	python3 - "$m/.cell/changes" "$d" "$work" <<-'P' &
		import json, os, sys, threading, time
		changes, d, work = sys.argv[1:4]
		fd = os.open(changes, os.O_RDONLY)
		f, text = os.fsencode(os.path.basename(d) + '/f", '), b""
		while f not in text: text = os.read(fd, 1 << 20)
		last = json.loads(text.splitlines()[-1])["index"]
		told = []
		def read(): told.append(os.pread(fd, 1000, last))
		readers = [threading.Thread(target=read) for _ in range(2)]
		for r in readers: r.start()
		time.sleep(0.5)
		open(work + "/has", "w")
		while not os.path.exists(work + "/go"): time.sleep(0.02)
		assert told == []
		open(d + "/g", "w").close()
		for r in readers: r.join()
		assert all(b'/g", ' in t for t in told), told
	P
	wait_until "they wait" test -e "$work/has"
	replace
	touch "$work/go"
	exits 0 wait $!
	rm "$work/has" "$work/go"
}

case_files_without_a_name() {
	python3 - "$d" "$work" <<-'P' &
		import os, stat, sys, time
		d, work = sys.argv[1:3]
		gone = os.open(d + "/gone", os.O_RDWR | os.O_CREAT)
		os.write(gone, b"still here")
		os.unlink(d + "/gone")
		brief = os.open(d + "/brief", os.O_RDWR | os.O_CREAT, 0o644 | stat.S_ISVTX)
		os.write(brief, b"x")
		os.fsync(brief)
		os.chdir(d)
		names = os.scandir(".")
		open(work + "/has", "w")
		while not os.path.exists(work + "/go"): time.sleep(0.02)
		assert os.pread(gone, 100, 0) == b"still here"
		os.write(gone, b" and there")
		assert os.pread(gone, 100, 0) == b"still here and there"
		assert os.fstat(gone).st_nlink == 0
		assert os.path.exists("brief"), os.listdir(".")
		assert sorted(e.name for e in names) == ["brief"]
		os.mkdir("made")
		os.close(brief)
		while os.path.exists(d + "/brief"): time.sleep(0.02)
	P
	wait_until "it has them" test -e "$work/has"
	is "$(attribute ephemeral "$m2/${d##*/}/brief")" 1
	replace
	touch "$work/go"
	exits 0 wait $!
	rm "$work/has" "$work/go"
	is "$(ls "$m2/${d##*/}")" made
}

# No increment is lost, no read fails, and none takes long.
case_again_and_again_under_load() {
	local i workers=() longest
	echo 0 > "$d/counter"
	touch "$work/running"
	for i in "$d" "$d" "$m2/${d##*/}"; do
		python3 - "$i/counter" "$work/running" <<-'P' &
			import fcntl, os, sys
			n = 0
			while os.path.exists(sys.argv[2]):
			    with open(sys.argv[1], "r+") as f:
			        fcntl.flock(f, fcntl.LOCK_EX)
			        value = int(f.read())
			        f.seek(0)
			        f.write(str(value + 1))
			        f.truncate()
			    n += 1
			print(n, file=open(sys.argv[2] + ".did", "a"))
		P
		workers+=($!)
	done
	python3 - "$d" "$work/running" <<-'P' &
		import os, sys, time
		longest = 0
		with open(sys.argv[1] + "/other", "w") as f: f.write("text")
		while os.path.exists(sys.argv[2]):
		    began = time.monotonic()
		    assert open(sys.argv[1] + "/other").read() == "text"
		    os.listdir(sys.argv[1])
		    os.stat(sys.argv[1] + "/counter")
		    longest = max(longest, time.monotonic() - began)
		print(f"{longest * 1000:.0f}", file=open(sys.argv[2] + ".longest", "w"))
	P
	workers+=($!)
	for i in $(seq "$ROUNDS"); do
		replace
		pause_s 0.1
	done
	rm "$work/running"
	for i in "${workers[@]}"; do exits 0 wait "$i"; done
	is "$(cat "$d/counter")" "$(awk '{ n += $1 } END { print n }' "$work/running.did")"
	longest=$(cat "$work/running.longest")
	say "$ROUNDS replacements, $(cat "$d/counter") increments, longest read $longest ms" >&3
	[ "$longest" -lt 5000 ]
}

is_dead() { limit 10 cat "$1/.cell/status" 2>&1 | grep -q "not connected"; }

# heir WHAT: a process that asks for the mount, and fails. WHAT: format, dies.
heir() {
	python3 - "$(socket "${2:-$m}")" "$1" <<-'P'
		import array, socket, struct, sys
		s = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
		s.connect(sys.argv[1])
		s.settimeout(10)
		what = sys.argv[2]
		s.send(b"T" + struct.pack("<Q", 99 if what == "format" else 7))
		answer, ancillary, *_ = s.recvmsg(70000, 1000)
		if what == "format":
		    assert answer[:1] == b"N" and b"different formats" in answer, answer
		else:
		    assert answer == b"S", answer
		if what == "ready":
		    s.send(b"R")
		    assert s.recv(10) == b"Y"
	P
}

case_refused_and_nothing_changes() {
	local before
	exec 9<> "$d/f"
	flock 9
	echo text >&9
	before=$(serves "$m")
	heir format
	heir dies
	one_line 1 "no cell is mounted there" "$LSFS" --replace "$work"
	one_line 2 "keeps its options" "$LSFS" --replace -o quiet "$m"
	chmod 711 "$work"
	exits 1 limit 10 setpriv --reuid 65534 --clear-groups "$LSFS" --replace "$m" 2> /dev/null
	is "$(serves "$m")" "$before"
	exits 1 limit 5 flock -n "$m2/${d##*/}/f" true
	exec 9>&-
	is "$(cat "$m2/${d##*/}/f")" text
	replace
}

# It would wait for itself when it closes them.
case_standard_files_on_the_mount() {
	local before why="standard input or output is a file on it: nothing has changed"
	before=$(serves "$m")
	echo text > "$d/f"
	one_line 1 "$why" "$LSFS" --replace "$m" < "$d/f"
	one_line 1 "$why" "$LSFS" -f --replace "$m" < "$d/f"
	exits 1 limit 10 "$LSFS" --replace "$m" > "$d/out" 2> "$work/why"
	exits 1 limit 10 "$LSFS" --replace "$m" 2> "$d/why"
	is "$(cat "$d/why")" "$(cat "$work/why")"
	grep -q "$why" "$d/why"
	is "$(serves "$m")" "$before"
	cd "$d"
	replace
}

# A cell that does not answer: what is under way can't be handed over.
case_a_silent_cell() {
	local i writer
	exec 9<> "$d/f"
	flock 9
	for i in 1 2 3; do kill -STOP "$(replica $i)"; done
	echo text > "$d/g" &
	writer=$!
	pause_s 0.5
	one_line 1 "nothing has changed" "$LSFS" --replace "$m"
	for i in 1 2 3; do kill -CONT "$(replica $i)"; done
	exits 0 wait $writer
	is "$(cat "$d/g")" text
	wait_until "the session is safe" is_in_state "$m" safe
	replace
	exits 1 limit 5 flock -n "$m2/${d##*/}/f" true
	exec 9>&-
}

case_a_standalone_cell() {
	mkdir "$work/mnt3"
	limit 20 "$LSFS" --standalone "$work/data3" "$work/mnt3"
	one_line 1 "its cell runs in the same process" "$LSFS" --replace "$work/mnt3"
	echo 1 > "$work/mnt3/f"
	umount "$work/mnt3"
}

# The service manager learns of the end of its own children only, and takes a process that has
# another parent for ended as soon as it is told to end.
case_the_manager_is_told_of_a_child_of_its_own() {
	mkdir "$work/managed"
	python3 - "$work" > "$work/told" <<-'P' &
		import re, socket, sys
		s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
		s.bind(sys.argv[1] + "/manager")
		print("listens", flush=True)
		while not (told := re.search(rb"MAINPID=(\d+)", s.recv(4096))): pass
		status = open(f"/proc/{int(told[1])}/status").read()
		parent = re.search(r"PPid:\s+(\d+)", status)[1]
		print(open(f"/proc/{parent}/comm").read().strip(), flush=True)
	P
	wait_until "the manager listens" grep -q listens "$work/told"
	NOTIFY_SOCKET=$work/manager "$LSFS" -f -o "key=$cell/admin.key" "$conf" "$work/managed" &
	wait_until "it is mounted" mountpoint -q "$work/managed"
	wait_until "its session is safe" is_in_state "$work/managed" safe
	replace "$work/managed"
	wait_until "the manager is told" grep -qv listens "$work/told"
	not grep -q lsfs "$work/told"
	umount "$work/managed"
}

# The new process is killed at any moment: the old one goes on, or the mount is dead.
case_killed_in_between() {
	local i rc served=0
	for i in $(seq 20); do
		"$LSFS" -f --replace "$m2" 2> /dev/null &
		pause_s "0.0$((RANDOM % 70 + 10))"
		kill -9 $! 2> /dev/null || :
		wait $! 2> /dev/null || :
		rc=0
		limit 10 cat "$m2/.cell/status" > /dev/null 2> "$work/why" || rc=$?
		if [ $rc = 0 ]; then
			served=$((served + 1))
			continue
		fi
		grep -q "not connected" "$work/why"
		umount -l "$m2"
		mount_second 2> /dev/null
	done
	say "$served of 20 times the mount was served" >&3
	heir ready "$m2"
	wait_until "nobody serves" is_dead "$m2"
	umount -l "$m2"
}

case_the_last_one_unmounts_in_order() {
	local last
	last=$(serves "$m")
	down
	gone "$last"
	not mountpoint -q "$m"
	is "$(echo /run/lsfs/*"$last"*)" '/run/lsfs/*'"$last"'*'
}

exec 3>&1 # past the log of a case
run_cases
