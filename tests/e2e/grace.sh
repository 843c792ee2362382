#!/bin/bash
# What a cell of three does with a replica's key in a client's hands and with half-open connections,
# and what calls say when it could not be reached for the whole grace period.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

address() { sed -n "/^\[replica $1\]/,/^\$/s/^address = //p" "$cell/dc1.conf"; }

case_up() {
	up_of_three
	echo precious > "$m/f"
}

case_a_replicas_key_as_a_clients() {
	local rc=0
	limit 30 "$LSFS" -o "key=$cell/1/replica.key,grace=2" "$cell/dc1.conf" "$m2" \
		2> "$work/err" || rc=$?
	is $rc 1
	sed 's/^replica /principal admin /' "$cell/1/replica.key" > "$work/disguised.key"
	chmod 600 "$work/disguised.key"
	rc=0
	limit 30 "$LSFS" -o "key=$work/disguised.key,grace=2" "$cell/dc1.conf" "$m2" \
		2> "$work/err" || rc=$?
	is $rc 1
	not mountpoint -q "$m2"
}

# Of too many strangers one, drawn by lot, is closed when another comes: seldom the newcomer.
case_half_open_connections() {
	local before
	before=$(replica 3)
	python3 - "$(address 3)" <<-'P'
		import socket, sys
		host, port = sys.argv[1].rsplit(":", 1)
		held = [socket.create_connection((host, int(port))) for _ in range(400)]
		def is_answered():
		    late = socket.create_connection((host, int(port)))
		    late.settimeout(10)
		    late.sendall(b"lsfs\x09\x01\0\0")
		    answer = b""
		    try:
		        while more := late.recv(8):
		            answer += more
		    except ConnectionResetError:
		        pass
		    assert answer == b"" or answer[:5] == b"lsfs\x01", answer
		    return answer != b""
		assert sum(is_answered() for _ in range(10)) >= 7
	P
	is "$(replica 3)" "$before"
	is "$(limit 10 cat "$m/f")" precious
	limit 10 bash -c "echo still > '$m/g'"
}

# Who floods replicas that may have few files open delays new connections; what stands goes on.
case_few_descriptors() {
	down
	(
		ulimit -n 64
		up_of_three
	)
	python3 - "$m" "$(address 1)" "$(address 2)" "$(address 3)" <<-'P'
		import socket, sys
		mount, addresses = sys.argv[1], [a.rsplit(":", 1) for a in sys.argv[2:]]
		held = [socket.create_connection((h, int(p)))
		        for h, p in addresses for _ in range(100)]
		for i in range(50):
		    with open(mount + "/g", "w") as f: f.write(str(i))
		    assert open(mount + "/g").read() == str(i)
		    assert open(mount + "/f").read() == "precious\n"
	P
	local i
	for i in 1 2 3; do
		[ -n "$(replica $i)" ]
	done
}

is_no_session() { ! cell_ctl session list | grep -q "^$1 "; }

# A mount is stopped until its session has expired: calls that wait meanwhile go on in the next one.
case_calls_outlast_a_session() {
	local daemon id read write
	leases 1s 2s
	mount_second
	daemon=$(daemon_of "$m2")
	id=$(session "$m2")
	kill -STOP "$daemon"
	limit 40 cat "$m2/f" > "$work/read" &
	read=$!
	limit 40 sh -c 'echo written > "$1"' - "$m2/new" &
	write=$!
	wait_until "its session has expired" is_no_session "$id"
	kill -CONT "$daemon"
	wait $read
	wait $write
	is "$(cat "$work/read")" precious
	is "$(cat "$m/new")" written
	[ "$(session "$m2")" != "$id" ]
	umount "$m2"
}

# What people type who look for the reason, and backup programs that pass by: none of them hangs.
case_the_mount_point_while_the_cell_is_silent() {
	local pids=() i
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	mount_second lasting
	limit 10 ls -la "$m2" > "$work/before"
	kill -STOP "${pids[@]}"
	wait_until "it is in jeopardy" is_in_state "$m2" jeopardy
	limit 5 df > "$work/out"
	limit 5 ls -la "$work" > "$work/out"
	limit 5 find "$work" -maxdepth 1 > "$work/out"
	limit 5 stat "$m2" > "$work/out"
	kill -CONT "${pids[@]}"
	wait_until "it is safe" is_in_state "$m2" safe
	limit 10 umount "$m2"
}

# Not only the lock is waited for no longer than that, but all that comes before it.
case_a_bounded_wait_while_the_cell_is_silent() {
	local pids=() i name before
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	: > "$m/lock"
	kill -STOP "${pids[@]}"
	wait_until "it is in jeopardy" is_in_state "$m" jeopardy
	for name in lock new; do
		before=$SECONDS
		exits 9 limit 20 "$LSCTL" lock -w 2 -E 9 "$m/$name" -- true
		[ $((SECONDS - before)) -lt 10 ]
	done
	kill -CONT "${pids[@]}"
	wait_until "it is safe" is_in_state "$m" safe
	exits 0 "$LSCTL" lock -w 2 -E 9 "$m/lock" -- true
}

case_without_a_cell_after_the_grace_period() {
	umount "$m"
	cell_ctl cell set grace=1s
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
	python3 - "$m" "$(replica 1)" "$(replica 2)" <<-'P'
		import errno, os, signal, sys, time
		mount, replicas = sys.argv[1], [int(p) for p in sys.argv[2:]]
		fd = os.open(mount + "/f", os.O_RDWR)
		assert os.read(fd, 100) == b"precious\n"
		size, blocks = os.stat(mount).st_size, os.statvfs(mount).f_blocks
		for pid in replicas: os.kill(pid, signal.SIGSTOP)
		try:
		    os.mkdir(mount + "/never")
		    sys.exit("committed without a majority")
		except OSError as e:
		    assert e.errno == errno.EIO, e
		for call in (lambda: os.pread(fd, 10, 0), lambda: os.write(fd, b"x")):
		    try:
		        call()
		        sys.exit("an old descriptor works")
		    except OSError as e:
		        assert e.errno == errno.ESTALE, e
		assert os.stat(mount).st_size == size # `ls -l` and `df` elsewhere on the machine
		assert os.statvfs(mount).f_blocks == blocks > 0
		assert "state: expired" in open(mount + "/.cell/status").read()
		begin = time.monotonic() # nothing is waited for again
		for i in range(10):
		    try:
		        os.stat(mount + "/f%d" % i)
		        sys.exit("answered without a cell")
		    except OSError as e:
		        assert e.errno == errno.EIO, e
		assert time.monotonic() - begin < 5
		for pid in replicas: os.kill(pid, signal.SIGCONT)
		os.close(fd)
	P
	wait_until "there is a new session" is_in_state "$m" safe
	is "$(limit 20 cat "$m/f")" precious
	umount "$m"
}

# What could not be opened after the end of the session was not gone.
case_a_watch_over_the_end_of_a_session() {
	local watcher pids
	pids=("$(replica 1)" "$(replica 2)")
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
	"$LSCTL" watch "$m/f" "$m/comes" > "$work/events" 2> "$work/err" &
	watcher=$!
	wait_until "it watches" sh -c 'echo 1 > "$1" && [ -s "$2" ]' - "$m/f" "$work/events"
	kill -STOP "${pids[@]}"
	wait_until "its session has expired" grep -q '"expired"' "$work/events"
	wait_until "it cannot be opened" grep -q "f: Input/output error" "$work/err"
	kill -CONT "${pids[@]}"
	wait_until "there is a new session" is_in_state "$m" safe
	touch "$m/comes"
	wait_until "another has come" grep -q '"created", "path": "/ls/dc1/comes"' "$work/events"
	not grep '"created", "path": "/ls/dc1/f"' "$work/events"
	rm "$m/f"
	echo 2 > "$m/f"
	wait_until "it is another" grep -q '"created", "path": "/ls/dc1/f"' "$work/events"
	kill $watcher
	wait $watcher || :
	umount "$m"
}

run_cases
