#!/bin/bash
# Data directories as programs of each level (WIRE_MINOR) have left them, killed in the middle of
# their work: tests/golden/level-N, with what they hold in `holds`. A level that this program speaks
# is read as it was meant; a later one is refused with a sentence, and left alone.
# For a new level: LSFS_BUILD=BUILD tests/e2e/golden.sh --write tests/golden/level-N
. "$(dirname "$0")/lib.sh"

golden=$(dirname "$script")/../golden

# What a mount shows: kinds, names, attributes that never change, contents.
tell() {
	(cd "$m" && find . -printf '%y %P\n' | sort
	find . -type f -print0 | sort -z | xargs -0r sha256sum
	getfattr -R -d -m 'user.ls.(instance|.*_generation|acl|checksum|lock_delay|lock_slots)' .)
}

level_is() {
	[ "$(sqlite3 "$data/state.db" "SELECT sum(value * (name LIKE 'minor%')) FROM settings")" \
		= "$1" ]
}

write() {
	local to=$1
	start
	mkdir -p "$m/dir/sub" "$m/empty"
	echo one > "$m/a"
	echo two >> "$m/a"
	head -c 3000 /dev/zero | tr '\0' x > "$m/dir/large"
	echo gone > "$m/dir/gone"
	mv "$m/dir/gone" "$m/dir/sub/moved"
	rm "$m/dir/large"
	seq 400 > "$m/dir/large"
	echo admin > "$m/acl/team"
	setfattr -n user.ls.acl.write -v team "$m/dir"
	setfattr -n user.ls.lock_delay -v 7 "$m/a"
	setfattr -n user.ls.lock_slots -v 3 "$m/dir/large"
	wait_until "its level is in the state" level_is "${to##*-}"
	flock "$m/a" true # in the log only
	tell > "$work/holds"
	kill -9 "$daemon"
	wait_until "it has ended" gone "$daemon"
	umount -l "$m"
	mkdir -p "$to"
	cp "$work/holds" "$data/cell.conf" "$data/signing.key" "$data/marks" "$to"
	for db in log state; do
		sqlite3 "$data/$db.db" "pragma wal_checkpoint(truncate)" > "$work/out"
		cp "$data/$db.db" "$to"
	done
}

# take LEVEL: its directory becomes $data.
take() {
	mkdir -m 700 "$data"
	cp "$golden/$1"/* "$data"
	rm "$data/holds"
	chmod 600 "$data"/*
}

case_this_level() {
	take level-0
	start
	is "$(attribute lock_generation "$m/a")" 1
	tell > "$work/holds" # no child ends while the next line waits for the dead session's cache
	diff "$work/holds" "$golden/level-0/holds"
	echo three >> "$m/a"
	is "$(tail -n 1 "$m/a")" three
	stop
}

case_a_later_level() {
	local before
	rm -r "$data"
	take level-1
	before=$(sqlite3 "$data/state.db" .dump | sha256sum)
	limit 20 "$LSFS" -f --standalone "$data" "$m" > "$work/out" 2>&1 && return 1
	grep -q "speaks an earlier minor version than the log is written in: install a newer" \
		"$work/out" || { cat "$work/out"; return 1; }
	not grep -i 'damaged\|must(' "$work/out"
	is "$(sqlite3 "$data/state.db" .dump | sha256sum)" "$before"
}

if [ "${1:-}" = --write ]; then
	write "$(realpath -m "$2")"
else
	run_cases
fi
