#!/bin/bash
# What replicas and mounts report to a service manager, on a socket in its place.
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/../e2e/loopback.sh"

# manager NAME: writes every report to $work/NAME.reports, a line each.
manager() {
	python3 -c 'import socket, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
while True:
	print(s.recv(4096).decode(), file=open(sys.argv[2], "a"), flush=True)' \
		"$work/$1.socket" "$work/$1.reports" &
	wait_until "the manager listens" test -S "$work/$1.socket"
	touch "$work/$1.reports"
}
reported() { [ "$(grep -cx "$2" "$work/$1.reports")" -ge "${3:-1}" ]; }
mount_says() { grep -q "$1" "$work/mount.log"; }

# The mount and the replica of this case begin before a majority is there.
case_ready_with_a_majority() {
	create_of_three
	manager replica
	manager mount
	NOTIFY_SOCKET=$work/replica.socket "$LSCELL" "$cell/1" 2>> "$work/lscell-1.log" &
	wait_until "replica 1 listens" said 1 "listens on"
	NOTIFY_SOCKET=$work/mount.socket WATCHDOG_USEC=300000 "$LSFS" -f \
		-o "key=$cell/admin.key" "$conf" "$m2" 2> "$work/mount.log" &
	wait_until "the mount tries again" mount_says "trying again"
	is "$(cat "$work/replica.reports" "$work/mount.reports")" ""
	start_replica 2
	wait_until "the replica is ready" reported replica READY=1
	wait_until "the mount is ready" reported mount READY=1
	mountpoint -q "$m2"
	echo x > "$m2/f"
	wait_until "the mount reports that it works" reported mount WATCHDOG=1 3
	is "$(grep -cx READY=1 "$work/mount.reports")" 1
	is "$(cat "$work/replica.reports")" READY=1
}

# A report of another process than the one that systemd has started is not wanted.
case_none_from_the_background() {
	limit 5 umount "$m2"
	manager background
	NOTIFY_SOCKET=$work/background.socket mount_second
	echo y > "$m2/f"
	limit 5 umount "$m2"
	is "$(cat "$work/background.reports")" ""
}

run_cases
