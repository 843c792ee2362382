#!/bin/bash
# lsctl doctor: it finds nothing where all is well, and what was broken on purpose.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

doctor() { limit 30 "$LSCTL" doctor "$@"; }

# finds TEXT [ARGUMENT...]: this is all that it finds, up to what to do about it.
finds() {
	local text=$1
	shift
	is "$(exits 1 doctor "$@" | sed -n "s|^lsctl: \(.*\): [^:]*\$|\1|p")" "$text"
}

# well [ARGUMENT...]
well() { is "$(doctor "$@" 2>&1)" "nothing found"; }

case_all_is_well() {
	up_of_three
	well
	well "$m"
	well --cell "$cell/dc1.conf"
	is "$(doctor --json)" "[]"
	refused "in no mount of lsfs" "$LSCTL" doctor "$work"
	exits 2 doctor a b 2> "$work/out"
}

case_keys_of_everybody() {
	chmod 644 "$cell/admin.key"
	finds "$cell/admin.key: others may read or write this key (mode 0644)" --key "$work/none" \
		2> "$work/out"
	chmod 600 "$cell/admin.key"
	chmod 755 "$cell/2"
	chmod 640 "$cell/2/replica.key"
	finds "$cell/2: others have access to this data directory (mode 0755)
$cell/2/replica.key: others may read or write this key (mode 0640)"
	doctor --json > "$work/out" && return 1
	python3 -c '
import json, sys
found = json.load(open(sys.argv[1]))
assert [sorted(f) for f in found] == [["do", "object", "what"]] * 2, found' "$work/out"
	chmod 700 "$cell/2"
	chmod 600 "$cell/2/replica.key"
	well
}

case_a_directory_locked_for_this_machine_only() {
	mkdir "$d/sub"
	python3 -c '
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.flock(fd, fcntl.LOCK_EX)
open(sys.argv[2], "w").close()
time.sleep(60)' "$d/sub" "$work/locked" &
	local locker=$!
	wait_until "it is locked" test -e "$work/locked"
	finds "$d/sub: process $locker has locked the directory for this machine only" "$m"
	kill $locker
	wait $locker || :
	well "$m"
}

case_a_replica_less() {
	kill_replica 2
	wait_until "there is a master" cell_ctl status > "$work/out"
	exits 1 doctor > "$work/out"
	is "$(wc -l < "$work/out")" 1
	grep -qE '^lsctl: replica 2 \(127.0.0.1:[0-9]+\): cannot be reached: connection refused: ' \
		"$work/out"
	start_replica 2
	wait_until "it is back" well
}

case_a_stopped_and_a_dead_mount() {
	local dead="a dead mount: its lsfs was killed"
	daemon=$(daemon_of "$m")
	kill -STOP "$daemon"
	exits 1 doctor "$m" > "$work/out"
	grep -q "^lsctl: $m: its lsfs, process $daemon, does not answer: " "$work/out"
	kill -CONT "$daemon"
	wait_until "it is well again" well "$m"
	kill -9 "$daemon"
	wait_until "it is dead" gone "$daemon"
	exits 1 doctor "$m/sub" > "$work/out"
	is "$(head -n 1 "$work/out")" \
		"lsctl: $m: $dead: mount it again, or remove it with umount"
	umount "$m"
	up_of_three
	well
}

case_an_old_cell_file() {
	cp "$cell/dc1.conf" "$work/old.conf"
	cell_ctl replica add "127.0.0.1:$(free_port)" --dir "$cell/4" > /dev/null
	exits 1 doctor --cell "$work/old.conf" --key "$cell/admin.key" > "$work/out"
	grep -qE "^lsctl: $work/old.conf: older than the cell's list .*: lsctl cell refresh$" \
		"$work/out"
	chmod 640 "$work/old.conf"
	sed -i 's/^\[replica 1\]/# the first\n&/' "$work/old.conf"
	limit 20 "$LSCTL" cell refresh --cell "$work/old.conf" --key "$cell/admin.key" \
		> "$work/out"
	grep -qE "^$work/old.conf: brought up to date: version [0-9]+, replicas 1 2 3 4$" \
		"$work/out"
	is "$(stat -c %a "$work/old.conf")" 640
	grep -qx '# the first' "$work/old.conf"
	cell_ctl replica remove 4 > /dev/null
	ln -s old.conf "$work/link.conf"
	limit 20 "$LSCTL" cell refresh --json --cell "$work/link.conf" --key "$cell/admin.key" \
		| grep -q '"changed": true'
	[ -L "$work/link.conf" ]
	! grep -q 'replica 4' "$work/old.conf"
	limit 20 "$LSCTL" cell refresh --cell "$work/old.conf" --key "$cell/admin.key" \
		| grep -q 'old.conf: up to date'
}

case_without_a_key() {
	cp "$cell/dc1.conf" "$work/alone.conf"
	is "$(doctor --cell "$work/alone.conf" 2> "$work/out")" "nothing found"
	grep -q 'no key: the replicas are not asked' "$work/out"
}

case_down() {
	down
	refused "$cell/dc1.conf: no replica answers" "$LSCTL" cell refresh --cell "$cell/dc1.conf"
}

run_cases
