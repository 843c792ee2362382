#!/bin/bash
# lsctl with a cell of three replicas: up, down, status; what they leave alone, what they refuse.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"


up() { limit 60 "$LSCTL" up --dir "$cell" --mount "$m" "$@" dc1; }
status() { limit 20 "$LSCTL" status --cell "$conf" "$@"; }

# Of the JSON that `status` printed into $work/status: a Python expression over it, named s.
told() { python3 -c 'import json, sys; s = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' \
	"$work/status" "$1"; }

running() { pgrep -f -- "lscell $cell/[0-9]\$" | sort | tr '\n' ' '; }

has_master() { status > /dev/null; }

case_up() {
	up --replicas 3 > "$work/out"
	is "$(tail -n 1 "$work/out")" "$m"
	is "$(wc -w <<< "$(running)")" 3
	echo x > "$m/f"
	is "$(stat -c %a "$cell/1" "$cell/3/replica.key" "$cell/admin.key" | xargs)" "700 600 600"
	is "$(grep -c '^address = 127.0.0.1:' "$conf")" 3
}

case_up_again_changes_nothing() {
	local before
	before=$(running) daemon=$(daemon_of "$m")
	is "$(up | tail -n 1)" "$m"
	is "$(up --replicas 3 | tail -n 1)" "$m"
	is "$(running)" "$before"
	is "$(daemon_of "$m")" "$daemon"
	is "$(cat "$m/f")" x
}

case_status() {
	status --json > "$work/status"
	is "$(told 's["cell"], s["problems"], s["sessions"]')" "('dc1', [], 1)"
	is "$(told '[r["role"] for r in s["replicas"]].count("follower")')" 2
	is "$(told '[r["id"] for r in s["replicas"] if r["role"] == "master"]')" \
		"[$(told 's["master"]')]"
	is "$(told 's["replicas"][0]["chosen"] >= s["replicas"][0]["applied"] > 0')" True
	told 's["master_since"]' | grep -qE "^$(date -u +%Y)-..-..T..:..:..Z$"
	status > "$work/table"
	is "$(grep -cE '^[123] +127.0.0.1:[0-9]+ +(master|follower)( +[0-9.]+){3} *$' \
		"$work/table")" 3
	exec 9<> "$m/f"
	flock 9
	status --json > "$work/status"
	is "$(told 's["locks_held"]')" 1
	exec 9>&-
	"$LSCTL" status --json "$m" > "$work/status"
	is "$(told 's["state"], len(s["replicas"])')" "('safe', 3)"
	"$LSCTL" cell show --cell dc1 | grep -qx "file         $conf"
}

both_name() {
	local said="replica $1 at [^ ]+ is master of epoch [0-9]+, "
	[ "$(grep -lE "$said" "$cell"/[123]/log | wc -l)" = 3 ]
}

# The new master stands in the logs of the others; the one before was named in them, too.
case_the_master_in_the_logs() {
	local old new
	old=$(status --json > "$work/status"; told 's["master"]')
	new=$("$LSCTL" --cell "$conf" master transfer | grep -oE '[0-9]+')
	[ "$new" != "$old" ]
	wait_until "the others say so" both_name "$new"
	one_line 1 "refused: there is no replica 99" "$LSCTL" --cell "$conf" master transfer 99
}

# verdict CODE TEXT: this is all that `status --check` says.
verdict() { [ "$(exits "$1" status --check && echo "exits $1")" = "$2"$'\n'"exits $1" ]; }

case_verdict_and_limits() {
	local used
	verdict 0 good
	is "$("$LSCTL" status --check "$m")" good
	is "$(status --check --json | tr -d ' \n')" '{"verdict":"good","reasons":[]}'
	status --limits > "$work/out"
	grep -qE '^sessions +the cell +1 +200000 count +0\.0$' "$work/out"
	grep -qE '^quota_nodes +the cell +[0-9]+ +1000000 ' "$work/out"
	is "$(grep -cE '^clients +replica [123] +[0-9]+ +[0-9]+ ' "$work/out")" 3
	is "$(grep -cE '^unfinished +replica [123] +[0-9]+ +134217728 bytes ' "$work/out")" 3
	is "$(grep -cE '^log_bytes +replica [123] ' "$work/out")" 3
	is "$(grep -cE '^disk +replica [123] +[1-9][0-9]* +[1-9][0-9]* bytes ' "$work/out")" 3
	grep -qE '^sessions +principal admin +1 +1024 count +0\.1$' "$work/out"
	grep -qE '^connections +principal admin +[1-9] +3072 count +0\.[0-3]$' "$work/out"
	grep -qE '^waiters +any principal +0 +65536 count +0\.0$' "$work/out"
	exec 9<> "$m/f"
	flock 9
	status --limits > "$work/out"
	exec 9>&-
	grep -qE '^lock_holders +/f +1 +4096 ' "$work/out"
	grep -qE '^lock_waiters +any lock +0 +16384 ' "$work/out"
	used=$(sed -nE 's/^quota_nodes +the cell +([0-9]+) .*/\1/p' "$work/out")
	cell_ctl cell set quota_nodes="$used" > /dev/null
	verdict 1 "degraded: the cell: a limit is near: quota_nodes, $used of $used count"
	cell_ctl cell set quota_nodes=1000000 > /dev/null
	verdict 0 good
}

case_one_replica_less() {
	local before few
	before=$(running)
	kill_replica 2
	wait_until "there is a master" has_master
	status | grep -qE '^problem +replica 2 .* cannot be reached: connection refused$'
	status | grep -qE '^2 .*unreachable$'
	few="dc1: one more failure would stop it: 2 of 3 replicas work, and 2 are needed"
	wait_until "the master misses it, too" verdict 1 "degraded: $few"
	is "$(up | tail -n 1)" "$m"
	is "$(wc -w <<< "$(running)")" 3
	is "$(comm -12 <(tr ' ' '\n' <<< "$before") <(running | tr ' ' '\n') | grep -c .)" 2
	wait_until "the master has it back" verdict 0 good
	status --json > "$work/status"
	is "$(told 's["problems"]')" "[]"
}

case_no_majority() {
	kill_replica 1
	kill -STOP "$(replica 3)"
	wait_until "the lease of the master has run out" no_master
	exits 1 status --limits > "$work/out"
	exits 1 status > "$work/out"
	verdict 2 "down: dc1: has no master: 1 of 3 replicas can be reached, 2 are needed"
	grep -qE '^problem +dc1: has no master: 1 of 3 replicas can be reached, 2 are needed$' \
		"$work/out"
	grep -qE '^problem +replica 1 .*: connection refused$' "$work/out"
	grep -qE '^problem +replica 3 .*: no answer in time$' "$work/out"
	rc=0
	exits 1 "$LSCTL" status "$m" > "$work/out"
	grep -q 'no master: 1 of 3' "$work/out"
	kill -CONT "$(replica 3)"
	up > /dev/null
	has_master
	is "$(cat "$m/f")" x
}

no_master() { ! status > /dev/null; }

case_killed_mount() {
	daemon=$(daemon_of "$m")
	kill -9 "$daemon"
	wait_until "it is dead" gone "$daemon"
	is "$(up | tail -n 1)" "$m"
	is "$(cat "$m/f")" x
}

case_who_may_ask() {
	"$LSCTL" key generate "$work/stranger" eve > /dev/null
	one_line 1 "the cell does not know this key" \
		"$LSCTL" status --cell "$conf" --key "$work/stranger"
	refused "a replica key where a principal key is needed" \
		"$LSCTL" status --cell "$conf" --key "$cell/1/replica.key"
	# The right addresses, and the keys of another cell.
	"$LSCTL" cell create dc1 --dir "$work/other" \
		$(sed -n 's/^address = /--replica /p' "$conf") > /dev/null
	one_line 1 "it is of another cell" "$LSCTL" status --cell "$work/other/dc1.conf"
}

case_wrong_use() {
	refused "holds a cell of 3 replicas, not 5" "$LSCTL" up --replicas 5 --dir "$cell" dc1
	refused "holds a cell of 3 replicas, not 1" "$LSCTL" up --replicas 1 --dir "$cell" dc1
	for n in 0 2 4 x 3x ''; do
		refused "not 1, 3, 5 or 7" "$LSCTL" up --replicas "$n" --dir "$work/w" dc1
	done
	[ ! -e "$work/w" ]
	refused "holds the cell dc1, not other" \
		"$LSCTL" up --replicas 3 --dir "$cell" --mount "$m2" other
	refused "holds the cell dc1, not other" "$LSCTL" down --dir "$cell" other
	refused "in use: it is mounted on $m" "$LSCTL" up --dir "$cell" --mount "$m2" dc1
	is "$(wc -w <<< "$(running)")" 3
}

# One more mount of the cell on this machine, by a copy of the cell file: `up` brings its own one
# back, `down` ends both, or the replicas stay.
case_another_mount_of_the_cell() {
	cp "$conf" "$work/copy.conf"
	mkdir "$work/more"
	limit 20 "$LSFS" -o key="$cell/admin.key" "$conf" "$m2"
	limit 20 "$LSFS" -o key="$cell/admin.key" "$work/copy.conf" "$work/more"
	limit 10 umount "$m"
	is "$(limit 60 "$LSCTL" up --dir "$cell" dc1 | tail -n 1)" "$m"
	is "$(cat "$m/f")" x
	exec 9< "$work/more/f"
	refused "$work/more: cannot unmount: busy" "$LSCTL" down --dir "$cell" dc1
	is "$(wc -w <<< "$(running)")" 3
	is "$(cat "$work/more/f")" x
	exec 9<&-
	down
	is "$(running)" ""
	is "$(grep -c fuse.lsfs /proc/self/mounts || :)" 0
	up > /dev/null
}

case_down() {
	exec 9< "$m/f"
	refused "busy" "$LSCTL" down --dir "$cell" dc1
	is "$(wc -w <<< "$(running)")" 3
	exec 9<&-
	down
	if mountpoint -q "$m"; then return 1; fi
	is "$(running)" ""
	down
	exits 1 status > "$work/out"
	grep -q 'no master: 0 of 3 replicas can be reached' "$work/out"
}

case_port_in_use() {
	local port
	port=$(sed -n 's/^address = 127.0.0.1://p' "$conf" | sed -n 2p)
	python3 -c "
import socket, sys
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(('127.0.0.1', $port))
s.listen()
open('$work/bound', 'w').close()
sys.stdin.read()" < <(tail -f /dev/null) &
	local holder=$! out rc=0
	wait_until "the port is taken" test -e "$work/bound"
	out=$(up 2>&1) || rc=$?
	kill $holder
	is $rc 1
	is "$(wc -l <<< "$out")" 1
	[[ $out == *"replica 2 has ended: "*"in use"* ]]
	is "$(running)" ""
	wait $holder || :
}

case_the_data_stays() {
	is "$(up | tail -n 1)" "$m"
	is "$(cat "$m/f")" x
	kill -STOP "$(replica 1)" # a frozen one is ended, too
	down
	is "$(running)" ""
}

ctl() { limit 20 "$LSCTL" --cell "$conf" "$@"; }
has_vote() { ctl replica list | grep -qE "^$1 .* voter +voting "; }
lacks_replica_5() { ! grep -qx '\[replica 5\]' "$1"; }
known_to() { grep -qx '\[replica 4\]' "$1" && ! grep -qx '\[replica 2\]' "$1"; }

# Each replica keeps the list of members in its directory up to date: `up` goes by the newest.
case_members_that_came_and_went() {
	local i
	up > /dev/null
	ctl replica add "127.0.0.1:$(free_port)" --dir "$cell/4" > /dev/null
	is "$(up 2> "$work/out" | tail -n 1)" "$m"
	is "$(cat "$work/out")" ""
	wait_until "the new one has a vote" has_vote 4
	ctl replica remove 2 > /dev/null
	wait_until "the other one has ended" has_ended 2
	for i in 1 3 4; do wait_until "$i knows" known_to "$cell/$i/cell.conf"; done
	known_to "$conf" && return 1 # it was made for the clients, and no replica has it
	echo y > "$m/f"
	down
	# Where the cell file cannot be written, clients use it as it is.
	mkdir "$work/shared"
	mount -t tmpfs shared "$work/shared"
	mv "$conf" "$work/shared"
	mount -o remount,ro "$work/shared"
	ln -s "$work/shared/dc1.conf" "$conf"
	is "$(up 2> "$work/out" | tail -n 1)" "$m"
	grep -qx "lsctl: $conf: Read-only file system: the cell file stays as it is" \
		"$work/out"
	is "$(cat "$m/f")" y
	down
	mount -o remount,rw "$work/shared"
	mv "$work/shared/dc1.conf" "$conf"
	umount "$work/shared"
	echo "# ours" >> "$conf"
	up > /dev/null 2> "$work/out"
	is "$(cat "$work/out")" "lsctl: $cell/2: replica 2 was removed from the cell: not started"
	is "$(running | wc -w)" 3
	is "$(replica 2)" ""
	is "$(cat "$m/f")" y
	known_to "$conf"
	grep -qx "# ours" "$conf"
	refused "holds a cell of 3 replicas, not 5" "$LSCTL" up --replicas 5 --dir "$cell" dc1
	down
	mv "$cell/3" "$work/elsewhere"
	up > /dev/null 2> "$work/out"
	grep -qx "lsctl: $cell/3: there is no such directory: replica 3 is not started" "$work/out"
	is "$(cat "$m/f")" y
	down 2> /dev/null
	mv "$work/elsewhere" "$cell/3"
}

# One makes the directory, the others leave it alone, and nobody advises to remove the new replica.
case_adds_at_once_with_one_directory() {
	local i port adding=()
	up > /dev/null 2> "$work/out"
	port=$(free_port)
	for i in 1 2 3; do
		ctl replica add "127.0.0.1:$port" --dir "$work/new" > "$work/add-$i" 2>&1 &
		adding+=($!)
	done
	wait "${adding[@]}" || :
	is "$(cat "$work"/add-* | grep -c "^$work/new is the data directory of replica 5 ")" 1
	is "$(cat "$work"/add-* | grep -cE "^lsctl: $work/new: (another lsctl|exists already)")" 2
	is "$(grep -c '^lsctl' "$work"/add-* | cut -d : -f 2 | sort | xargs)" "0 1 1"
	[ -s "$work/new/cell.conf" ]
	ctl replica remove 5 > /dev/null
	for i in 1 3 4; do wait_until "$i knows" lacks_replica_5 "$cell/$i/cell.conf"; done
	down 2> "$work/out"
}

case_nothing_runs_that_cannot_be_mounted() {
	touch "$work/file"
	refused "$work/file" "$LSCTL" up --replicas 3 --dir "$cell" --mount "$work/file" dc1
	is "$(running)" ""
}

case_in_one_process_stays_so() {
	start
	stop
	refused "holds a cell of 1 replica, not 3" \
		"$LSCTL" up --replicas 3 --dir "$data" --mount "$m" local
	refused "holds the cell local, not dc1" "$LSCTL" up --dir "$data" --mount "$m" dc1
}

run_cases
