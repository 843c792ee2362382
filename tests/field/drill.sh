#!/bin/bash
# What an operator does once in a while, as docs/operations.md prints it: a dead replica replaced,
# a backup taken and looked at, keys rotated, two of three replicas lost for good and the cell
# restored from the remaining directory. Nothing is said on stderr.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/loopback.sh"

book=$(dirname "$script")/../../docs/operations.md
mkdir -p /etc/lsfs && mount -t tmpfs apart /etc/lsfs || exit 1
port=0 # of the next replica
mkdir "$work/desk" "$work/backup"
PATH=$build/ctl:$build/fs:$build/cell:$PATH

# book TEXT: the command of the book that begins so, with its further lines. Its addresses and
# places are ours.
book() {
	awk -v text="$1" '/^```/ { code = !code } code && index($0, text) == 1 { on = 1 }
		on { print; if (!/\\$/) exit }' "$book" |
		sed "s|HOST:PORT|127.0.0.1:$port|; s|[abc]\.example:7000|127.0.0.1:@|g
			s|/backup/|$work/backup/|; s|/var/lib/lsfs/dc1|$cell/1|" |
		while IFS= read -r line; do
			while [[ $line == *@* ]]; do line=${line/@/$(free_port)}; done
			echo "$line"
		done
}

# does TEXT: runs it at the operator's desk; it says nothing on stderr.
does() {
	local command
	command=$(book "$1")
	[ -n "$command" ] || { say "not in the book: $1"; return 1; }
	say "$command"
	(cd "$work/desk" && limit 60 bash -ec "$command") > "$work/said" 2> "$work/errors" || {
		cat "$work/said" "$work/errors"
		return 1
	}
	is "$(cat "$work/errors")" ""
}

case_create_and_mount() {
	up_of_three
	cp "$cell/dc1.conf" /etc/lsfs/dc1.conf
	cp "$cell/admin.key" /etc/lsfs/key
	echo kept > "$m/f"
	does "lsctl status --check --cell dc1"
	is "$(cat "$work/said")" good
}

case_replace_a_dead_replica() {
	kill_replica 3
	rm -r "$cell/3"
	port=$(free_port)
	does "lsctl replica remove 3 --cell dc1"
	does "lsctl replica add HOST:PORT --dir ./new --cell dc1"
	mv "$work/desk/new" "$cell/4"
	start_replica 4
	wait_until "the new one votes" is_voting 4
	does "lsctl replica list --cell dc1"
	grep -q '^4 .*voter' "$work/said"
}

case_back_up() {
	does 'lsctl backup "/backup/'
	lsctl backup show "$work"/backup/dc1-* | grep -q dc1
}

case_rotate() {
	lsctl cell rotate-key --cell dc1 > "$work/said"
	lsctl cell refresh --cell dc1 > "$work/said"
	does "lsctl doctor --cell dc1"
	is "$(cat "$work/said")" "nothing found"
}

case_restore_two_of_three() {
	local i
	limit 10 umount "$m"
	for i in 2 4; do kill_replica $i; rm -r "${cell:?}/$i"; done
	kill -TERM "$(replica 1)"
	wait_until "the last one has stopped" has_ended 1
	does "lsctl restore /var/lib/lsfs/dc1 --dir ./dc1"
	cell=$work/desk/dc1
	for i in 1 2 3; do start_replica $i; done
	limit 60 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
	is "$(cat "$m/f")" kept
	echo new > "$m/f"
	limit 10 umount "$m"
	for i in 1 2 3; do kill_replica $i TERM; done
}

run_cases
