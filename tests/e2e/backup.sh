#!/bin/bash
# Backups of a cell that works on: each is the cell at one moment, whole, or there is none. Of a
# cell in one process, and of three replicas with two mounts.
ON_DISK=yes
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# What the file NAME holds in the backup FILE.
held() {
	sqlite3 "$1" "SELECT cast(contents AS text) FROM nodes WHERE name = '$2'"
}

# Nothing half made lies beside the backups.
tidy() { ! compgen -G "$work/*.unfinished"; }
has_part() { [ -e "$work/b.unfinished/state.db" ]; }

# chain DIR...: counts in x and y, y behind x, each count through the next one of the directories,
# until $work/enough is there. In each moment y is what x is, or one less.
chain() {
	local i=0
	while [ -d "$work" ] && [ ! -e "$work/enough" ]; do
		i=$((i + 1))
		echo $i > "$1/x"
		echo $i > "$2/y"
	done
}

# A prefix of what a chain wrote, and no shorter than what had been written before.
is_prefix() {
	local x y
	x=$(held "$1" x)
	y=$(held "$1" y)
	[ "$y" -ge "$2" ] || { say "$2 was written before, y is $y"; return 1; }
	[ "$x" -eq "$y" ] || [ "$x" -eq $((y + 1)) ] || { say "x is $x, y is $y"; return 1; }
}

backups_under_load() {
	local before i
	rm -f "$work/enough"
	echo 0 > "$1/x"
	echo 0 > "$2/y"
	chain "$1" "$2" &
	for i in 1 2 3 4 5 6; do
		before=$(cat "$2/y")
		limit 30 "$LSCTL" backup --cell "$3" "$work/b" > "$work/out" || {
			touch "$work/enough"
			grep -s copy "$cell"/*/log
			return 1
		}
		grep -qE '^[^ ]+/b: cell [a-z0-9]+ at log index [0-9]+, [0-9]+ nodes,' "$work/out"
		is "$(stat -c %a "$work/b")" 600
		is_prefix "$work/b" "${before:-0}"
	done
	touch "$work/enough"
	wait
	tidy
}

case_wrong_use() {
	one_line 2 "FILE: needed" "$LSCTL" backup
	one_line 2 "b: unexpected argument" "$LSCTL" backup a b
	one_line 1 "no-such-cell: no such cell" "$LSCTL" backup --cell no-such-cell "$work/b"
	[ ! -e "$work/b" ]
}

# shows_backup FILE CELL NODES SESSIONS
shows_backup() {
	limit 30 "$LSCTL" backup show --json "$1" > "$work/shown"
	python3 -c '
import json, os, sys, time
b = json.load(open(sys.argv[1]))
assert [b["cell"], b["nodes"], b["sessions"]] == [sys.argv[2], *map(int, sys.argv[3:])], b
assert b["written"].startswith(time.strftime("%Y-", time.gmtime())), b
assert b["size"] == os.stat(b["file"]).st_size and b["log_index"] > 1 and b["epoch"] > 0, b
assert b["replicas"][0]["id"] == 1, b' "$work/shown" "$2" "$3" "$4"
	limit 30 "$LSCTL" backup show "$1" > "$work/shown"
	grep -qE '^written +.*Z, [0-9]+ (seconds|minutes) ago$' "$work/shown"
}

# full_disk TEXT CELL: a backup to a full disk fails, says so with that text, and leaves nothing.
full_disk() {
	mkdir "$work/small"
	mount -t tmpfs -o size=16k small "$work/small"
	one_line 1 "$1" "$LSCTL" backup --cell "$2" "$work/small/b"
	is "$(ls -A "$work/small")" ""
	umount "$work/small"
	rmdir "$work/small"
}

case_of_a_cell_in_one_process() {
	start
	mkdir "$m/d"
	backups_under_load "$m/d" "$m/d" "$data/cell.conf"
	echo last > "$m/d/last"
	limit 30 "$LSCTL" backup --cell "$data/cell.conf" --json "$work/b" > "$work/out"
	python3 -c '
import json, os, sys
b = json.load(sys.stdin)
assert b["cell"] == "local" and b["nodes"] == 8 and b["log_index"] > 10, b
assert b["size"] == os.stat(b["file"]).st_size, b' < "$work/out"
	is "$(held "$work/b" last)" last
	shows_backup "$work/b" local 8 1
	full_disk "lsctl: $data/log.db: cannot be copied to $work/small/b" "$data/cell.conf"
	daemon=$(daemon_of "$m")
	stop
	full_disk "lsctl: $work/small/b.unfinished/" "$data/cell.conf"
	limit 30 "$LSCTL" backup --cell "$data/cell.conf" "$work/b2" > /dev/null
	is "$(held "$work/b2" last)" last
	limit 30 "$LSCTL" restore "$work/b2" --dir "$work/r" > /dev/null
	limit 20 "$LSFS" --standalone "$work/r" "$m"
	is "$(cat "$m/d/last")" last
	daemon=$(daemon_of "$m")
	stop
}

# ---- three replicas ----

backup() { limit 60 "$LSCTL" backup --cell "$cell/dc1.conf" "$@"; }
# answering N: so many replicas do.
answering() {
	limit 10 "$LSCTL" status --json --cell "$cell/dc1.conf" | python3 -c '
import json, sys
answering = sum(r["reachable"] for r in json.load(sys.stdin)["replicas"])
sys.exit(answering != int(sys.argv[1]))' "$1"
}

case_under_the_load_of_two_mounts() {
	up_of_three
	mount_second
	mkdir "$m/d"
	backups_under_load "$m/d" "$m2/d" "$cell/dc1.conf"
}

case_refusals() {
	mkdir "$work/directory"
	one_line 1 "Is a directory" "$LSCTL" backup --cell "$cell/dc1.conf" "$work/directory"
	one_line 1 "/dev/null: not a file" "$LSCTL" backup --cell "$cell/dc1.conf" /dev/null
	one_line 1 "$work/no/b: No such file" "$LSCTL" backup --cell "$cell/dc1.conf" "$work/no/b"
	touch "$work/b.unfinished"
	one_line 1 "b.unfinished: Not a directory" "$LSCTL" backup --cell "$cell/dc1.conf" "$work/b"
	rm "$work/b.unfinished"
	full_disk "cannot be written here: No space left" "$cell/dc1.conf"
}

# Where files may be put, but none be seen.
case_in_a_directory_that_may_not_be_read() {
	local drop=$work/drop
	local as=(setpriv --bounding-set -dac_override,-dac_read_search)
	mkdir -m 300 "$drop"
	refused "Permission denied" "${as[@]}" ls "$drop"
	limit 30 "${as[@]}" "$LSCTL" backup --cell "$cell/dc1.conf" "$drop/b" > /dev/null
	limit 30 "$LSCTL" backup show "$drop/b" > /dev/null
	limit 30 "${as[@]}" "$LSCTL" key generate "$drop/key" > /dev/null
	is "$(ls "$drop")" "$(printf 'b\nkey')"
}

# A backup takes the place of the one before only when it is whole.
case_the_old_one_stays_until_the_new_one_is_whole() {
	local i pid rc
	backup "$work/b" > /dev/null
	for i in $(seq 100); do head -c 250000 /dev/urandom > "$m/d/large$i"; done
	backup "$work/b" > /dev/null
	cp "$work/b" "$work/b.copy"
	echo changed > "$m/d/x"
	for i in TERM INT HUP KILL; do
		# Bash has its background processes ignore SIGINT.
		env --default-signal=INT "$LSCTL" backup --cell "$cell/dc1.conf" "$work/b" \
			> /dev/null 2>&1 &
		pid=$!
		wait_until "it has begun" has_part
		kill -$i $pid
		rc=0
		wait $pid || rc=$?
		is $rc $((128 + $(kill -l $i)))
		cmp "$work/b" "$work/b.copy"
		[ $i = KILL ] || tidy
	done
	backup "$work/b" > /dev/null # takes over what the killed one has left
	tidy
	cp "$work/b.copy" "$work/b"
	ln "$work/b" "$work/same"
	# As nohup starts it: the hangup does not end it.
	env --ignore-signal=HUP "$LSCTL" backup --cell "$cell/dc1.conf" "$work/b" > /dev/null &
	pid=$!
	wait_until "it has begun" has_part
	kill -STOP $pid
	one_line 1 "another lsctl backup makes it" "$LSCTL" backup --cell "$cell/dc1.conf" "$work/b"
	kill -CONT $pid
	kill -HUP $pid
	wait $pid
	is "$(held "$work/b" x)" changed
	cmp "$work/same" "$work/b.copy" # it was replaced, not written over
	tidy
}

case_shown_and_damaged() {
	shows_backup "$work/b" dc1 "$(find "$m" ! -path "$d" | wc -l)" 2
	grep -qE '^replica 3 +127.0.0.1:[0-9]+$' "$work/shown"
	head -c 100000 "$work/b" > "$work/short"
	refused "$work/short" "$LSCTL" backup show "$work/short"
	python3 -c '
import sys
b = bytearray(open(sys.argv[1], "rb").read())
b[len(b) // 2] ^= 1
open(sys.argv[2], "wb").write(b)' "$work/b" "$work/flipped"
	refused "$work/flipped" "$LSCTL" backup show "$work/flipped"
	refused "$work/none" "$LSCTL" backup show "$work/none"
	refused "neither a backup" "$LSCTL" backup show "$work"
	mkdir "$work/sealed"
	cp "$work/b" "$work/sealed/b?%41#"
	mount --bind "$work/sealed" "$work/sealed"
	mount -o remount,bind,ro "$work/sealed"
	TMPDIR=$work/sealed limit 30 "$LSCTL" backup show "$work/sealed/b?%41#" > "$work/shown"
	grep -q '^cell  *dc1$' "$work/shown"
	umount "$work/sealed"
}

case_restored() {
	limit 60 "$LSCTL" restore "$work/b" --dir "$work/r3" > "$work/out"
	grep -qE '^sessions ended +2$' "$work/out"
	cp -r "$m/d" "$work/d"
	umount "$m2"
	limit 20 "$LSFS" --standalone "$work/r3" "$m2"
	diff -r "$m2/d" "$work/d"
	umount "$m2"
}

is_without_master() { exits 2 cell_ctl status --check > "$work/out" 2>&1; }

# Without a quorum the cell stands still; what one replica has can still be saved.
case_any_replica_will_do() {
	local i
	for i in 1 3; do kill_replica $i; done
	wait_until "one is left" answering 1
	wait_until "its lease is over, if it was the master" is_without_master
	backup "$work/b3" > "$work/out" 2> "$work/errors"
	grep -qE "b3: it is the state of replica 2 at log index [0-9]+: no master answers" \
		"$work/errors"
	is "$(held "$work/b3" x)" changed
	kill_replica 2
	wait_until "none is left" answering 0
	cp "$work/b3" "$work/b.copy"
	refused "replica 3 at" "$LSCTL" backup --cell "$cell/dc1.conf" "$work/b3"
	cmp "$work/b3" "$work/b.copy"
	tidy
	for i in 1 2 3; do start_replica $i; done
	wait_until "all are back" answering 3
}

case_only_for_administrators() {
	"$LSCTL" key generate "$work/ann.key" ann > "$work/ann.pub"
	limit 20 "$LSCTL" --cell "$cell/dc1.conf" principal add ann "$(cat "$work/ann.pub")"
	one_line 1 "only an administrator may" "$LSCTL" backup --cell "$cell/dc1.conf" \
		--key "$work/ann.key" "$work/b4"
	[ ! -e "$work/b4" ]
	tidy
	"$LSCTL" key generate "$work/stranger.key" stranger > /dev/null
	one_line 1 "the cell does not know this key" "$LSCTL" backup --cell "$cell/dc1.conf" \
		--key "$work/stranger.key" "$work/b4"
	[ ! -e "$work/b4" ]
	down
}

run_cases
