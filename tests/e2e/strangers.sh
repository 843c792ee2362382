#!/bin/bash
# Whom a cell does not serve, and how a replica refuses to start.
. "$(dirname "$0")/lib.sh"

LSCELL=$build/cell/lscell
cell=$work/cell

# one_line CODE TEXT COMMAND...: exits with CODE and says one line with TEXT.
one_line() {
	local code=$1 text=$2 out rc=0
	shift 2
	out=$(limit 20 "$@" 2>&1) || rc=$?
	is $rc "$code"
	[[ $out == *"$text"* ]] || { say "said: $out"; return 1; }
	is "$(wc -l <<< "$out")" 1
}

replica() { pgrep -f -- "lscell .*$cell/$1\$" | head -n 1; }
address() { sed -n "/^\[replica $1\]/,/^\$/s/^address = //p" "$cell/dc1.conf"; }

case_up() {
	limit 60 "$LSCTL" up --replicas 3 --dir "$cell" --mount "$m" dc1 > /dev/null
	echo precious > "$m/f"
}

case_a_strangers_key() {
	"$LSCTL" key generate "$work/stranger.key" admin
	mkdir "$work/m2"
	local rc=0
	limit 30 "$LSFS" -o "key=$work/stranger.key,grace=2" "$cell/dc1.conf" "$work/m2" \
		2> "$work/err" || rc=$?
	is $rc 1
	! mountpoint -q "$work/m2"
	rc=0
	limit 20 "$LSCTL" status --cell "$cell/dc1.conf" --key "$work/stranger.key" || rc=$?
	is $rc 1
}

case_a_replicas_key_as_a_clients() {
	local rc=0
	limit 30 "$LSFS" -o "key=$cell/1/replica.key,grace=2" "$cell/dc1.conf" "$work/m2" \
		2> "$work/err" || rc=$?
	is $rc 1
	sed 's/^replica /principal admin /' "$cell/1/replica.key" > "$work/disguised.key"
	chmod 600 "$work/disguised.key"
	rc=0
	limit 30 "$LSFS" -o "key=$work/disguised.key,grace=2" "$cell/dc1.conf" "$work/m2" \
		2> "$work/err" || rc=$?
	is $rc 1
	! mountpoint -q "$work/m2"
}

case_random_bytes() {
	local i before
	before=$(replica 1)
	for i in $(seq 20); do
		head -c $((i * 100)) /dev/urandom > "/dev/tcp/$(address 1 | tr : /)" || :
	done
	{ printf 'lsfs\1\1\0\0'; head -c 96 /dev/urandom; } > "/dev/tcp/$(address 2 | tr : /)" || :
	python3 - "$(address 3)" <<-'P'
		import socket, sys
		host, port = sys.argv[1].rsplit(":", 1)
		held = [socket.create_connection((host, int(port))) for _ in range(400)]
		late = socket.create_connection((host, int(port)))
		late.settimeout(10)
		late.sendall(b"lsfs\x09\x01\0\0")
		answer = b""
		while len(answer) < 8:
		    more = late.recv(8 - len(answer))
		    assert more, "closed without the version"
		    answer += more
		assert answer[:5] == b"lsfs\x01", answer
		assert late.recv(1) == b""
	P
	is "$(replica 1)" "$before"
	is "$(limit 10 cat "$m/f")" precious
	limit 10 bash -c "echo still > '$m/g'"
}

case_a_second_replica_on_the_directory() {
	one_line 1 "in use" "$LSCELL" "$cell/1"
}

case_port_in_use() {
	local pid
	pid=$(replica 3)
	kill "$pid"
	wait_until "replica 3 has left" gone "$pid"
	python3 - "$(address 3)" "$work/bound" <<-'P' &
		import signal, socket, sys
		host, port = sys.argv[1].rsplit(":", 1)
		s = socket.socket()
		s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
		s.bind((host, int(port)))
		s.listen()
		open(sys.argv[2], "w")
		signal.pause()
	P
	local squatter=$!
	wait_until "the port is taken" test -e "$work/bound"
	one_line 1 "in use" "$LSCELL" "$cell/3"
	kill $squatter
}

case_another_cells_directory() {
	"$LSCTL" cell create dc2 --dir "$work/cell2" --replica 127.0.0.1:1 > /dev/null
	cp -a "$cell/3" "$work/mixed"
	cp "$work/cell2/1/cell.conf" "$work/mixed/cell.conf"
	one_line 1 "$work/mixed" "$LSCELL" "$work/mixed"
	cp "$cell/dc1.conf" "$work/mixed/cell.conf"
	cp "$work/cell2/1/replica.key" "$work/mixed/replica.key"
	one_line 1 "replica.key" "$LSCELL" "$work/mixed"
	chmod 644 "$work/mixed/replica.key"
	one_line 1 "replica.key" "$LSCELL" "$work/mixed"
}

case_wrong_cell_files() {
	one_line 1 "$work/nowhere" "$LSCELL" "$work/nowhere"
	one_line 2 "lscell: " "$LSCELL"
	one_line 2 "lscell: " "$LSCELL" --no-such-option
	cp -a "$cell/3" "$work/damaged"
	sed -i 's/^key = ..../key = !!!!/' "$work/damaged/cell.conf"
	one_line 1 "cell.conf" "$LSCELL" "$work/damaged"
	one_line 1 "nowhere.conf" "$LSFS" -o "key=$cell/admin.key" "$work/nowhere.conf" "$work/m2"
	one_line 1 "damaged" "$LSFS" -o "key=$cell/admin.key" "$work/damaged/cell.conf" "$work/m2"
	one_line 1 "nowhere.key" "$LSFS" -o "key=$work/nowhere.key" "$cell/dc1.conf" "$work/m2"
}

case_without_a_cell_after_the_grace_period() {
	umount "$m"
	"$LSCELL" "$cell/3" 2>> "$work/lscell-3.log" &
	limit 30 "$LSFS" -o "key=$cell/admin.key,grace=1" "$cell/dc1.conf" "$m"
	python3 - "$m" "$(replica 1)" "$(replica 2)" <<-'P'
		import errno, os, signal, sys
		mount, replicas = sys.argv[1], [int(p) for p in sys.argv[2:]]
		fd = os.open(mount + "/f", os.O_RDWR)
		assert os.read(fd, 100) == b"precious\n"
		for pid in replicas: os.kill(pid, signal.SIGSTOP)
		try:
		    os.stat(mount + "/f")
		    sys.exit("answered without a majority")
		except OSError as e:
		    assert e.errno == errno.EIO, e
		for call in (lambda: os.pread(fd, 10, 0), lambda: os.write(fd, b"x")):
		    try:
		        call()
		        sys.exit("an old descriptor works")
		    except OSError as e:
		        assert e.errno == errno.ESTALE, e
		assert "state: expired" in open(mount + "/.cell/status").read()
		for pid in replicas: os.kill(pid, signal.SIGCONT)
		os.close(fd)
	P
	wait_until "there is a new session" grep -q '^state: safe' "$m/.cell/status"
	is "$(limit 20 cat "$m/f")" precious
	umount "$m"
}

end_cell() {
	local i pid
	for i in 1 2 3; do
		pid=$(replica $i)
		[ -n "$pid" ] && kill -9 "$pid"
	done
	cleanup
}
trap end_cell EXIT

run_cases
