#!/bin/bash
# The cell's signing key is rotated while a lock is held: what both keys have signed stays valid; a
# replica that was away and a new one get the keys; no backup holds one.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

verify() { "$LSCTL" verify --cell "$1" "$2"; }
# forged FILE NAME: the sequencer of that name is not signed by a key that the cell file names.
forged() {
	one_line 1 "not signed by cell dc1 with a key that $1 names" \
		"$LSCTL" verify --cell "$1" "$(cat "$work/$2")"
}
check() { [ "$(limit 10 "$LSCTL" check "$1")" = valid ]; }
keys_in() { sed -n 's/^\(former_\)\?signing_key = //p' "$1" | xargs; }
has_two_keys() { [ "$(wc -l < "$cell/$1/signing.key")" -ge 2 ]; }
has_conf_of() { [ "$(keys_in "$conf")" = "$(keys_in "$cell/$1/cell.conf")" ]; }

case_rotated_under_a_lock() {
	up_of_three
	cp "$conf" "$work/old.conf"
	touch "$m/held"
	setfattr -n user.ls.lock -v exclusive "$m/held"
	attribute sequencer "$m/held" > "$work/before"
	exec 9<> "$m/open"
	echo one >&9
	cell_ctl cell rotate-key > "$work/said"
	grep -q "dc1.conf: brought up to date" "$work/said"
	attribute sequencer "$m/held" > "$work/after"
	[ "$(cat "$work/before")" != "$(cat "$work/after")" ]
	check "$(cat "$work/before")"
	check "$(cat "$work/after")"
	verify "$conf" "$(cat "$work/before")"
	verify "$conf" "$(cat "$work/after")"
	verify "$work/old.conf" "$(cat "$work/before")"
	forged "$work/old.conf" after
	echo two >&9
	exec 9>&-
	is "$(cat "$m/open")" "$(printf 'one\ntwo')"
}

case_every_replica_has_both() {
	local i
	for i in 1 2 3; do
		wait_until "replica $i names both keys" has_conf_of $i
		is "$(stat -c %a "$cell/$i/signing.key")" 600
		is "$(sort "$cell/$i/signing.key")" "$(sort "$cell/1/signing.key")"
	done
	cell_ctl cell show | grep -q "^former_signing_key"
	cell_ctl --json cell show | grep -q '"former_signing_key"'
}

# An old cell file leads to the cell, and is brought up to date.
case_an_old_cell_file() {
	ctl_old() { limit 20 "$LSCTL" --cell "$work/old.conf" --key "$cell/admin.key" "$@"; }
	ctl_old status > /dev/null
	ctl_old cell refresh | grep -q "old.conf: brought up to date"
	verify "$work/old.conf" "$(cat "$work/before")"
	verify "$work/old.conf" "$(cat "$work/after")"
	ctl_old cell refresh | grep -q "old.conf: up to date"
}

# Every master signs with the new key, and accepts what the last one has given.
case_after_a_fail_over() {
	local victim
	exec 9<> "$m/kept"
	victim=$(master)
	kill_replica "$victim"
	wait_until "another master" another_master "$victim"
	is "$(attribute sequencer "$m/held")" "$(cat "$work/after")"
	check "$(cat "$work/before")"
	setfattr -n user.ls.acl.read -v admin "$m/kept"
	limit 10 /bin/echo x >&9
	exec 9>&-
	start_replica "$victim"
}

# It gets the key from the others when it is back, and could be their master.
case_a_replica_that_was_away() {
	local away=3 i
	[ "$(master)" != 3 ] || away=2
	cp "$conf" "$work/older.conf"
	kill_replica $away
	cell_ctl cell rotate-key > /dev/null
	start_replica $away
	wait_until "it has the new keys" has_conf_of $away
	is "$(sort "$cell/$away/signing.key")" "$(sort "$cell/$(master)/signing.key")"
	attribute sequencer "$m/held" > "$work/third"
	forged "$work/older.conf" third
	forged "$conf" before
	verify "$conf" "$(cat "$work/after")"
	i=$(master)
	kill_replica "$i"
	wait_until "another master" another_master "$i"
	is "$(attribute sequencer "$m/held")" "$(cat "$work/third")"
	start_replica "$i"
}

voting() { cell_ctl replica list --json | python3 -c 'import json, sys
r = [x for x in json.load(sys.stdin) if x["id"] == int(sys.argv[1])]
sys.exit(not (r and r[0]["voter"] and r[0]["condition"] == "voting"))' "$1"; }

# By an old cell file, too, as long as it names one of both keys.
case_a_new_replica() {
	limit 60 "$LSCTL" --cell "$work/older.conf" --key "$cell/admin.key" replica add \
		"127.0.0.1:$(free_port)" --dir "$cell/4" > /dev/null
	start_replica 4
	wait_until "it votes" voting 4
	wait_until "it has both keys" has_two_keys 4
	has_conf_of 4
}

# Two rotations behind, and alone, it answers with keys that are older than those of the cell file.
case_a_replica_far_behind() {
	local behind=3 i
	[ "$(master)" != 3 ] || behind=2
	kill_replica $behind
	cell_ctl cell rotate-key > /dev/null
	cell_ctl cell rotate-key > /dev/null
	cp "$conf" "$work/newest.conf"
	for i in 1 2 3 4; do
		[ $i = $behind ] || kill_replica $i
	done
	start_replica $behind
	wait_until "it answers" eval 'cell_ctl cell refresh > "$work/said" 2> "$work/err"'
	grep -q "dc1.conf: up to date" "$work/said"
	is "$(keys_in "$conf")" "$(keys_in "$work/newest.conf")"
	for i in 1 2 3 4; do
		[ $i = $behind ] || start_replica $i
	done
	wait_until "it has the newest keys" has_conf_of $behind
}

# No replica has the newest key, which the log names: its disks are those of before the rotation.
case_the_newest_key_is_lost() {
	local file i
	for i in 1 2 3 4; do
		for file in signing.key cell.conf; do cp -p "$cell/$i/$file" "$work/$i.$file"; done
	done
	cell_ctl cell rotate-key > /dev/null
	attribute sequencer "$m/held" > "$work/lost"
	for i in 1 2 3 4; do kill_replica $i; done
	for i in 1 2 3 4; do
		for file in signing.key cell.conf; do cp -p "$work/$i.$file" "$cell/$i/$file"; done
		start_replica $i
	done
	wait_until "another key is in force" eval 'cell_ctl cell rotate-key > "$work/said" 2>&1'
	attribute sequencer "$m/held" > "$work/found"
	verify "$conf" "$(cat "$work/found")"
	check "$(cat "$work/found")"
	forged "$conf" lost
	not check "$(cat "$work/lost")" 2> /dev/null
	echo three > "$m/open"
	for i in 1 2 3 4; do wait_until "replica $i names both keys" has_conf_of $i; done
}

# The key is new all the same: who repeats the command would take the former one from all others.
case_a_cell_file_that_cannot_be_written() {
	local before=$("$LSCTL" key show "$cell/1/signing.key")
	mkdir "$work/fixed"
	cp "$conf" "$work/fixed"
	mount --bind "$work/fixed" "$work/fixed"
	mount -o remount,ro,bind "$work/fixed"
	refused "the cell has a new signing key" \
		"$LSCTL" --cell "$work/fixed/dc1.conf" --key "$cell/admin.key" cell rotate-key
	wait_until "it is new" eval '[ "$("$LSCTL" key show "$cell/1/signing.key")" != "$before" ]'
	umount "$work/fixed"
}

# A restored cell has a key of its own, and accepts nothing that the old one has signed.
case_a_backup_has_no_key() {
	local key
	cell_ctl backup "$work/backup" > /dev/null
	for key in $(sed 's/^signing //' "$cell/1/signing.key"); do
		not grep -q "$key" "$work/backup"
	done
	limit 60 "$LSCTL" restore "$work/backup" --dir "$work/new" > /dev/null
	forged "$work/new/cell.conf" third
	not grep -q former "$work/new/cell.conf"
	down
	limit 20 "$LSFS" --standalone "$work/new" "$m"
	touch "$m/new"
	setfattr -n user.ls.lock -v exclusive "$m/new"
	verify "$work/new/cell.conf" "$(attribute sequencer "$m/new")"
	limit 10 umount "$m"
}

case_refused() {
	one_line 2 "unexpected" "$LSCTL" --cell "$conf" cell rotate-key x
	one_line 1 "needs a cell of lscell processes" \
		"$LSCTL" --cell "$work/new/cell.conf" cell rotate-key
}

run_cases
