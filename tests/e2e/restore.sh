#!/bin/bash
# A new cell from what is left of an old one: from a backup, from a data directory whose process was
# killed, from the only replica that is left of three. What was in it is there; whatever the new
# cell counts is greater than anything that the old one has given out, and nobody takes one for the
# other.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

old=$work/old # a cell of three

restore() { limit 60 "$LSCTL" restore "$@"; }
backup() { limit 60 "$LSCTL" backup --cell "$data/cell.conf" "$@"; }
mount_other() { limit 20 "$LSFS" "$@" "$m2"; }
umount_other() {
	local second
	second=$(daemon_of "$m2")
	limit 10 umount "$m2"
	wait_until "the second mount has left" gone "$second"
}

# The numbers of a file, of a lock taken now, and of the cell: one a line, NAME VALUE.
numbers() {
	local f=$1/$2 name
	for name in instance content_generation lock_generation acl_generation; do
		echo "$name $(attribute $name "$f")"
	done
	setfattr -n user.ls.lock -v exclusive "$f"
	echo "fence $(attribute fence "$f")"
	echo "held_generation $(attribute lock_generation "$f")"
	setfattr -n user.ls.lock -v free "$f"
	echo "epoch $(session_says epoch "$1")"
}

# all_greater OLD NEW: files that `numbers` wrote; all but the instance, which stays the node's.
all_greater() {
	local name before after
	while read -r name before; do
		after=$(sed -n "s/^$name //p" "$2")
		case $name in
		instance) is "$after" "$before" ;;
		*) [ "$after" -gt "$before" ] || { say "$name: $before, then $after"; return 1; } ;;
		esac
	done < "$1"
}

case_wrong_use() {
	one_line 2 "FILE|DATADIR: needed" "$LSCTL" restore
	one_line 2 "--dir: needed" "$LSCTL" restore x
	one_line 2 "unexpected" "$LSCTL" restore x y --dir "$work/r"
	one_line 2 "nowhere: not HOST:PORT" "$LSCTL" restore x --dir "$work/r" --replica nowhere
	one_line 2 "given twice" "$LSCTL" restore x --dir "$work/r" --replica a:1 --replica a:1
	one_line 1 "x: No such file" "$LSCTL" restore x --dir "$work/r"
	one_line 1 "/dev/null: neither a backup nor a data directory" \
		"$LSCTL" restore /dev/null --dir "$work/r"
	one_line 1 "$work/no/r: No such file" "$LSCTL" restore x --dir "$work/no/r"
	[ ! -e "$work/r" ]
}

case_of_a_killed_cell_nothing_is_lost() {
	start
	mkdir "$m/d" "$m/d/e"
	local i
	for i in 1 2 3 4 5 6 7 8 9; do echo "text $i" > "$m/d/f$i"; done
	one_line 1 "in use by process $daemon" "$LSCTL" restore "$data" --dir "$work/r"
	[ ! -e "$work/r" ]
	head -c 250000 /dev/urandom > "$m/d/e/large"
	cp -r "$m/d" "$work/d"
	echo last > "$m/d/f9"
	kill -9 "$daemon"
	umount -l "$m"
	echo last > "$work/d/f9"
	cp -a "$data" "$work/untouched"
	restore "$data" --dir "$work/r" > "$work/out"
	grep -qE '^cell +local$' "$work/out"
	grep -qE '^log index +[0-9]+( \(the last [0-9]+ entries from the log\))?$' "$work/out"
	grep -qE '^nodes +16,' "$work/out"
	grep -qE '^sessions ended +1$' "$work/out"
	diff -r --exclude lock "$data" "$work/untouched"
	is "$(find "$work/r" -mindepth 1 -printf '%m %f\n' | sort)" \
		"$(printf '%s\n' '600 signing.key' '600 state.db' '644 cell.conf')"
	mount_other --standalone "$work/r"
	diff -r "$m2/d" "$work/d"
	umount_other
	rm -r "$work/r"
}

case_every_number_is_greater() {
	start
	mkdir -p "$d"
	echo one > "$d/f"
	numbers "$m" "${d#"$m"/}/f" > /dev/null
	backup "$work/b" > /dev/null
	# The old cell goes on: none of this is in the backup.
	local i
	for i in 1 2 3 4 5; do
		echo "$i" > "$d/f"
		numbers "$m" "${d#"$m"/}/f" > "$work/before"
	done
	setfattr -n user.ls.acl.read -v admin "$d/f"
	for i in 1 2 3; do
		daemon=$(daemon_of "$m")
		stop
		start
	done
	numbers "$m" "${d#"$m"/}/f" > "$work/before"
	touch "$d/new"
	local instance
	instance=$(attribute instance "$d/new")
	restore "$work/b" --dir "$work/r" > "$work/out"
	mount_other --standalone "$work/r"
	is "$(cat "$m2/${d#"$m"/}/f")" one
	numbers "$m2" "${d#"$m"/}/f" > "$work/after"
	all_greater "$work/before" "$work/after"
	[ ! -e "$m2/${d#"$m"/}/new" ]
	touch "$m2/${d#"$m"/}/newer"
	[ "$(attribute instance "$m2/${d#"$m"/}/newer")" -gt "$instance" ]
	# And once more: a copy of the copy.
	umount_other
	restore "$work/r" --dir "$work/r2" > "$work/out"
	mount_other --standalone "$work/r2"
	mv "$work/after" "$work/before"
	numbers "$m2" "${d#"$m"/}/f" > "$work/after"
	all_greater "$work/before" "$work/after"
	umount_other
	rm -r "$work/r" "$work/r2"
}

case_old_sequencers_are_not_of_the_new_cell() {
	mkdir -p "$d"
	touch "$d/f"
	setfattr -n user.ls.lock -v exclusive "$d/f"
	local before after
	before=$(attribute sequencer "$d/f")
	backup "$work/b" > /dev/null
	restore "$work/b" --dir "$work/r" > "$work/out"
	mount_other -o lock_delay=0 --standalone "$work/r"
	local f=$m2/${d#"$m"/}/f
	is "$(attribute lock "$f" | cut -d' ' -f1)" delayed # whoever held it may live still
	touch "$m2/g"
	setfattr -n user.ls.lock -v exclusive "$m2/g"
	after=$(attribute sequencer "$m2/g")
	"$LSCTL" verify --cell "$data/cell.conf" "$before"
	"$LSCTL" verify --cell "$work/r/cell.conf" "$after"
	one_line 1 "not signed by cell local" "$LSCTL" verify --cell "$work/r/cell.conf" "$before"
	one_line 1 "not signed by cell local" "$LSCTL" verify --cell "$data/cell.conf" "$after"
	umount_other
	rm -r "$work/r"
	setfattr -n user.ls.lock -v free "$d/f"
}

case_sessions_are_over() {
	mkdir -p "$d"
	exec 9> "$d/e" 8> "$d/l"
	setfattr -n user.ls.ephemeral -v 1 "$d/e"
	flock 8
	setfattr -n user.ls.lock_delay -v 1 "$d/l"
	flock -u 8
	flock 8
	backup "$work/b" > /dev/null
	exec 9>&- 8>&-
	restore "$work/b" --dir "$work/r" > "$work/out"
	grep -qE '^sessions ended +1$' "$work/out"
	mount_other --standalone "$work/r"
	[ ! -e "$m2/${d#"$m"/}/e" ]
	limit 10 flock "$m2/${d#"$m"/}/l" true # behind its delay
	umount_other
	rm -r "$work/r"
}

# What is damaged is refused with one line, and nothing is made.
case_damaged() {
	mkdir -p "$d"
	local i
	for i in $(seq 40); do head -c 20000 /dev/urandom > "$d/f$i"; done
	backup "$work/b" > /dev/null
	local size endless
	size=$(stat -c %s "$work/b")
	for i in 1 100 4096 50000 $((size / 2)) $((size - 1)); do
		head -c "$i" "$work/b" > "$work/bad"
		one_line 1 "$work/bad: " "$LSCTL" restore "$work/bad" --dir "$work/r"
		[ ! -e "$work/r" ]
	done
	for i in 0 4096 $((size / 3)) $((size / 2)) $((size / 3 * 2)); do
		cp "$work/b" "$work/bad"
		printf 'damage' | dd of="$work/bad" bs=1 seek=$((i + 300)) conv=notrunc status=none
		if restore "$work/bad" --dir "$work/r" > "$work/out" 2>&1; then
			# A byte that nothing stands in: then all else is there.
			is "$(sqlite3 "$work/r/state.db" 'SELECT count(*) FROM nodes')" \
				"$(sqlite3 "$work/b" 'SELECT count(*) FROM nodes')"
			rm -r "$work/r"
		else
			is "$(wc -l < "$work/out")" 1
			[ ! -e "$work/r" ]
		fi
	done
	sqlite3 "$work/bad" 'UPDATE nodes SET acl_generation = 7 WHERE node = 1' 2> /dev/null || :
	cp "$work/b" "$work/bad"
	sqlite3 "$work/bad" 'UPDATE nodes SET acl_generation = 7 WHERE node = 1'
	one_line 1 "nodes row 1: checksum" "$LSCTL" restore "$work/bad" --dir "$work/r"
	: > "$work/bad"
	one_line 1 "not a backup" "$LSCTL" restore "$work/bad" --dir "$work/r"
	echo text > "$work/bad"
	one_line 1 "not an SQLite database" "$LSCTL" restore "$work/bad" --dir "$work/r"
	rm "$work/bad"
	sqlite3 "$work/bad" 'CREATE TABLE t (x)'
	one_line 1 "a database of another program" "$LSCTL" restore "$work/bad" --dir "$work/r"
	cp "$work/b" "$work/bad"
	sqlite3 "$work/bad" 'PRAGMA user_version = 99'
	one_line 1 "has format 99; this program reads format" \
		"$LSCTL" restore "$work/bad" --dir "$work/r"
	# What would do its work later, in the new cell; what would never come to an end.
	cp "$work/b" "$work/bad"
	sqlite3 "$work/bad" 'CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM nodes; END'
	one_line 1 "trigger t" "$LSCTL" restore "$work/bad" --dir "$work/r"
	cp "$work/b" "$work/bad"
	endless=$(sqlite3 "$work/b" "SELECT group_concat('a AS ' || name) FROM \
		pragma_table_info('openers')")
	sqlite3 "$work/bad" "DROP TABLE openers; CREATE VIEW openers AS
		WITH RECURSIVE x(a) AS (SELECT 1 UNION ALL SELECT a FROM x) SELECT $endless FROM x"
	one_line 1 "view openers" "$LSCTL" restore "$work/bad" --dir "$work/r"
	one_line 1 "give its directory" "$LSCTL" restore "$data/state.db" --dir "$work/r"
	mkdir "$work/bad.d"
	one_line 1 "$work/bad.d/cell.conf: No such file" \
		"$LSCTL" restore "$work/bad.d" --dir "$work/r"
	[ ! -e "$work/r" ]
}

case_overwrites_nothing() {
	mkdir "$work/r"
	echo precious > "$work/r/file"
	one_line 1 "$work/r: not empty: file" "$LSCTL" restore "$work/b" --dir "$work/r"
	one_line 1 "$data: not empty" "$LSCTL" restore "$work/b" --dir "$data"
	mkdir "$work/r/2"
	one_line 1 "$work/r/2: exists already" "$LSCTL" restore "$work/b" --dir "$work/r" \
		--replica a:1 --replica b:1 --replica c:1
	is "$(cd "$work/r" && find . | sort | tr '\n' ' ')" ". ./2 ./file "
	rm -r "$work/r"
}

# No room for a part of it: nothing is left.
case_a_full_disk() {
	mkdir "$work/small"
	local size
	size=$(stat -c %s "$work/b")
	for part in 50 110 250; do
		mount -t tmpfs -o size=$((size * part / 100 / 1024))k small "$work/small"
		refused "lsctl: $work/small/r/" "$LSCTL" restore "$work/b" --dir "$work/small/r" \
			--replica a:1 --replica b:1 --replica c:1
		is "$(ls -A "$work/small")" ""
		umount "$work/small"
	done
}

# whole DIR: what a restore that was stopped somewhere has made is all of it, or nothing that runs:
# where one cell file is, all have the same state.
whole() {
	local i
	[ -e "$1/local.conf" ] || [ -e "$1/1/cell.conf" ] || return 0
	is "$(sqlite3 "$1/1/state.db" 'SELECT applied FROM meta')" \
		"$(sqlite3 "$work/r0/1/state.db" 'SELECT applied FROM meta')"
	for i in 2 3; do cmp "$1/1/state.db" "$1/$i/state.db"; done
}

case_killed_in_the_middle() {
	local at three=(--replica a:1 --replica b:1 --replica c:1) rc
	restore "$work/b" --dir "$work/r0" "${three[@]}" > /dev/null
	for at in . restore.unfinished restore.unfinished/state.db 1 1/state.db 2/state.db \
		3/signing.key admin.key 1/cell.conf; do
		"$LSCTL" restore "$work/b" --dir "$work/r" "${three[@]}" > /dev/null 2>&1 &
		until [ -e "$work/r/$at" ] || gone $!; do :; done
		kill -9 $! 2> /dev/null || :
		wait $! || :
		whole "$work/r"
		rm -rf "$work/r"
	done
	# Interrupted, it cleans up. (Or it was finished.)
	for at in restore.unfinished restore.unfinished/state.db 1; do
		"$LSCTL" restore "$work/b" --dir "$work/r" "${three[@]}" > /dev/null 2>&1 &
		until [ -e "$work/r/$at" ] || gone $!; do :; done
		kill -TERM $! 2> /dev/null || :
		rc=0
		wait $! || rc=$?
		if [ $rc -ne 0 ] && [ ! -e "$work/r/local.conf" ]; then
			[ ! -e "$work/r" ]
		fi
		rm -rf "$work/r"
	done
	# What a kill has left of the work is in nobody's way.
	mkdir -p "$work/r/restore.unfinished"
	echo rest > "$work/r/restore.unfinished/state.db"
	restore "$work/b" --dir "$work/r" > /dev/null
	[ ! -e "$work/r/restore.unfinished" ]
	rm -r "$work/r" "$work/r0"
	daemon=$(daemon_of "$m")
	stop
}

case_a_damaged_state() {
	cp -a "$data" "$work/bad.data"
	sqlite3 "$work/bad.data/state.db" 'UPDATE nodes SET acl_generation = 7 WHERE node = 1'
	one_line 1 "$work/bad.data: state.db is damaged: nodes row 1: checksum" \
		"$LSCTL" restore "$work/bad.data" --dir "$work/r"
	[ ! -e "$work/r" ]
}

# ---- several replicas ----

up_in() { limit 60 "$LSCTL" up --replicas 3 --dir "$1" --mount "$2" dc1 > /dev/null; }
replica_of() { pgrep -f -- "lscell .*$1/$2\$" | head -n 1; }
positions() {
	limit 10 "$LSCTL" status --json --cell "$old/dc1.conf" --key "$old/admin.key" | python3 -c '
import json, sys
print(len({r.get("applied") for r in json.load(sys.stdin)["replicas"]}))'
}
level() { [ "$(positions)" = 1 ]; }
addresses() { sed -n 's/^address = /--replica=/p' "$1"; }

# answering CONF KEY: how many replicas of that cell let the holder of that key in.
answering() {
	(limit 10 "$LSCTL" status --json --cell "$1" --key "$2" || :) | python3 -c '
import json, sys
print(sum(r["reachable"] for r in json.load(sys.stdin)["replicas"]))'
}

# The old mount, with the old keys, finds other replicas at the old addresses: it is let in by none,
# and what it has cached ends with its lease.
old_clients_stay_outside() {
	local rc=0 at
	at=$(addresses "$old/dc1.conf" | sed -n 2p)
	wait_until "its lease is over" eval "! is_in_state '$m' safe"
	timeout -s INT 3 cat "$d/f1" > "$work/out" 2>&1 || rc=$?
	[ $rc -ne 0 ]
	is "$(cat "$work/out" | grep -c text)" 0
	umount -l "$m"
	one_line 1 "it is of another cell" \
		"$LSCTL" status --cell "$old/dc1.conf" --key "$old/admin.key"
	one_line 1 "the cell does not know this key" \
		"$LSCTL" status --cell "$work/new/dc1.conf" --key "$old/admin.key"
	is "$(answering "$work/new/dc1.conf" "$work/new/admin.key")" 3
	limit 20 "$LSFS" -o "key=$work/new/admin.key" "$work/new/dc1.conf" "$m"
	is "$(cat "$m/${d#"$m"/}/f1")" "text 1"
	# And the old replica, in the place of a new one, is nobody's.
	kill -9 "$(replica_of "$work/new" 2)"
	wait_until "its address is free" gone "$(replica_of "$work/new" 2)"
	"$LSCELL" "$old/2" 2> "$work/old-2.log" &
	local stray=$!
	wait_until "it listens" listens "${at##*:}"
	echo on > "$m/on"
	is "$(cat "$m2/on")" on
	is "$(answering "$work/new/dc1.conf" "$work/new/admin.key")" 2
	kill $stray
	wait $stray
	umount "$m"
	limit 30 "$LSCTL" down --dir "$work/new" dc1
}

case_the_only_replica_that_is_left() {
	up_in "$old" "$m"
	mkdir -p "$d"
	for i in 1 2 3 4 5; do echo "text $i" > "$d/f$i"; done
	numbers "$m" "${d#"$m"/}/f1" > "$work/before"
	wait_until "all have everything" level
	for i in 1 2 3; do kill -9 "$(replica_of "$old" $i)"; done
	rm -r "$old/1" "$old/3"
	# On the same machines, at the same addresses.
	local at
	mapfile -t at < <(addresses "$old/dc1.conf")
	restore "$old/2" --dir "$work/new" "${at[@]}" > "$work/out"
	grep -qE '^cell +dc1$' "$work/out"
	up_in "$work/new" "$m2"
	for i in 1 2 3 4 5; do is "$(cat "$m2/${d#"$m"/}/f$i")" "text $i"; done
	numbers "$m2" "${d#"$m"/}/f1" > "$work/after"
	all_greater "$work/before" "$work/after"
	old_clients_stay_outside
}

# The log of the new cell begins far from 1, and is no damaged one for that.
case_started_again() {
	restore "$work/new/1" --dir "$work/again" > "$work/out"
	for i in 1 2 3; do
		mount_other --standalone "$work/again"
		echo "text $i" > "$m2/text"
		umount_other
	done
	is "$(echo "$work/again"/*.damaged*)" "$work/again/*.damaged*"
}

run_cases
