#!/bin/bash
# Replicas whose data directories are on small filesystems that fill up: a follower's, the master's,
# one that is started there, all. The cell goes on as long as a majority has room; without one what
# frees something still works; all is well again when there is room, and nothing that was
# acknowledged is lost.
MOUNTS=1
ON_DISK=yes
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"
needs_small_disks

m1=$work/m1

# What was written last is there.
ends_well() {
	end_writer
	is "$(cat "$m1/steady")" "$(tail -n 1 "$work/steady.done" | cut -d ' ' -f 2)"
}

# More has been written than a full replica could keep in what was reserved for it.
goes_on() { writes_go_on 300; }

# Nobody says that its disk is full any more, and all have the same.
well() { in_step && ! operate status | grep -q 'no room on its disk'; }

# full N: replica N says so, and goes on in what it had reserved.
full() { operate status | grep -q "replica $1 .* no room on its disk"; }

# For a monitor the cell is down.
stopped() {
	operate status --check 2>&1 | grep -q '^down: .*: no majority of its replicas works: '
}

case_up() {
	local i
	make_network
	make_cell
	for i in 1 2 3; do
		small_disk $i 48
		start_replica $i
	done
	wait_until "there is a master" has_master
	start_mount 1 grace=30
}

case_a_full_follower() {
	local follower=$(($(master) % 3 + 1))
	steadily "$m1"
	fill_disk $follower
	goes_on
	wait_until "it says that it is full" full $follower
	goes_on
	empty_disk $follower
	goes_on
	ends_well
	wait_until "all is well" well
}

case_the_masters_disk_is_full() {
	local old
	old=$(master)
	steadily "$m1"
	fill_disk "$old"
	goes_on
	wait_until "it says that it is full" full "$old"
	is_not_master "$old"
	goes_on
	empty_disk "$old"
	goes_on
	ends_well
	wait_until "all is well" well
}

# Killed on its full disk, and started there.
case_a_restart_on_a_full_disk() {
	local old
	old=$(master)
	steadily "$m1"
	fill_disk "$old"
	kill_replica "$old"
	start_replica "$old"
	goes_on
	empty_disk "$old"
	goes_on
	ends_well
	gone "$(pid_of "r$old")" && start_replica "$old"
	wait_until "all is well" well
}

is_not_master() { [ "$(master)" != "$1" ]; }

# What frees something works: the reserve of each replica is for that.
case_all_disks_are_full() {
	local i rc=0
	echo kept > "$m1/kept"
	head -c 200000 /dev/urandom > "$m1/large"
	mkdir "$m1/many"
	for i in $(seq 20); do echo "$i" > "$m1/many/$i"; done
	exec 9<> "$m1/lock"
	flock 9
	for i in 1 2 3; do fill_disk $i; done
	wait_until "it refuses what grows" no_room
	wait_until "a monitor hears of it" stopped
	is "$(exits 1 "$LSCTL" txn <<< "create /new")" \
		"nothing: the disks of most replicas are full"
	is "$(limit 5 cat "$m1/kept")" kept
	limit 10 rm "$m1/large"
	for i in $(seq 20); do limit 10 rm "$m1/many/$i"; done
	limit 10 flock -u 9
	limit 10 flock -n "$m1/lock" true
	is "$(limit 5 ls "$m1/many")" ""
	for i in 1 2 3; do empty_disk $i; done
	wait_until "there is room again" room
	is "$(cat "$m1/kept")" kept
	echo more > "$m1/kept"
	is "$(cat "$m1/kept")" more
	[ ! -e "$m1/large" ]
	exec 9>&-
	wait_until "all is well" well
}

# A new file of 100 kB: could it be written?
room() { limit 3 dd if=/dev/zero of="$m1/new.$RANDOM" bs=100k count=1 conv=fsync 2> "$work/err"; }
no_room() {
	if room; then return 1; fi
	grep -q 'No space left' "$work/err"
}

case_the_states_are_equal() {
	stop_mount 1
	same_everywhere
}

run_cases
