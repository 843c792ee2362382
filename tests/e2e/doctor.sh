#!/bin/bash
# lsctl doctor: it finds nothing where all is well, and what was broken on purpose.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# Where it looks for data directories, too.
mkdir -p /var/lib/lsfs && mount -t tmpfs apart /var/lib/lsfs || exit 1

doctor() { limit 30 "$LSCTL" doctor "$@"; }

# finds TEXT [ARGUMENT...]: this is all that it finds, up to what to do about it.
finds() {
	local text=$1
	shift
	is "$(exits 1 doctor "$@" | sed -n "s|^lsctl: \(.*\): [^:]*\$|\1|p")" "$text"
}

# mount_at DIRECTORY OPTIONS
mount_at() { limit 20 "$LSFS" -o "key=$cell/admin.key,$2" "$cell/dc1.conf" "$1"; }

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
	finds "$cell/admin.key: others may read or write this key: mode 0644" --key "$work/none" \
		2> "$work/out"
	chmod 600 "$cell/admin.key"
	chmod 755 "$cell/2"
	chmod 640 "$cell/2/replica.key"
	finds "$cell/2: others have access to this data directory: mode 0755
$cell/2/replica.key: others may read or write this key: mode 0640"
	doctor --json > "$work/out" && return 1
	python3 -c '
import json, sys
found = json.load(open(sys.argv[1]))
keys = ["condition", "do", "object", "severity", "what"]
assert [sorted(f) for f in found] == [keys] * 2, found' "$work/out"
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
	finds "$d/sub: this directory is locked for this machine only: by process $locker" "$m"
	kill $locker
	wait $locker || :
	well "$m"
}

case_a_lease_for_this_machine_only() {
	echo x > "$d/f"
	python3 -c '
import fcntl, os, sys, time
fd = os.open(sys.argv[1], os.O_RDONLY)
fcntl.fcntl(fd, fcntl.F_SETLEASE, fcntl.F_RDLCK)
open(sys.argv[2], "w").close()
time.sleep(60)' "$d/f" "$work/leased" &
	local holder=$!
	wait_until "it has a lease" test -e "$work/leased"
	finds "$d/f: this file has a lease, which only this machine knows of: by process $holder" \
		"$m"
	kill $holder
	wait $holder || :
	well "$m"
}

case_an_acl_file_is_missing() {
	local missing="this ACL file is named and not there: nobody has the right"
	echo admin > "$m/acl/team"
	setfattr -n user.ls.acl.write -v team "$m/acl/everyone"
	setfattr -n user.ls.acl.read -v team "$d"
	well "$m"
	rm "$m/acl/team"
	finds "$m/acl/team: $missing: by $d" "$m"
	echo admin > "$m/acl/team"
	setfattr -n user.ls.acl.read -v everyone "$d"
	well "$m"
	rm "$m/acl/team"
	finds "$m/acl/team: $missing: by $m/acl/everyone" "$m"
	setfattr -n user.ls.acl.write -v admin "$m/acl/everyone"
	well "$m"
}

# Once by the same user and with the same key; a bind mount is no second mount.
case_a_cell_is_mounted_twice() {
	mkdir "$work/again" "$work/bound"
	mount --bind "$m" "$work/bound"
	well
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$work/again"
	exits 1 doctor > "$work/out"
	is "$(grep -c "its cell is mounted a second time, with the same key: the first is " \
		"$work/out")" 1
	well "$m"
	limit 10 umount "$work/again" "$work/bound"
	well
}

case_a_replica_less() {
	kill_replica 2
	wait_until "there is a master" cell_ctl status > "$work/out"
	exits 1 doctor > "$work/out"
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
	grep -q "^lsctl: $m: its lsfs does not answer: process $daemon: " "$work/out"
	exits 2 "$LSCTL" status --check "$m" > "$work/out"
	is "$(cat "$work/out")" "down: $m: its lsfs does not answer: process $daemon"
	kill -CONT "$daemon"
	wait_until "it is well again" well "$m"
	kill -9 "$daemon"
	wait_until "it is dead" gone "$daemon"
	exits 1 doctor "$m/sub" > "$work/out"
	is "$(head -n 1 "$work/out")" \
		"lsctl: $m: $dead: mount it again, or remove it with umount"
	exits 1 doctor --cell "$cell/dc1.conf" > "$work/out"
	grep -q "^lsctl: $m: $dead: " "$work/out"
	is "$(exits 2 "$LSCTL" status --check "$m" 2> "$work/out")" "down: $m: $dead"
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
	not grep -q 'replica 4' "$work/old.conf"
	limit 20 "$LSCTL" cell refresh --cell "$work/old.conf" --key "$cell/admin.key" \
		| grep -q 'old.conf: up to date'
	cell_ctl cell refresh > /dev/null
	well
}

case_without_a_key() {
	cp "$cell/dc1.conf" "$work/alone.conf"
	exits 2 doctor --cell "$work/alone.conf" 2> "$work/out"
	grep -q 'no key: the replicas are not asked' "$work/out"
}

# The mount's own key is in its run record.
case_the_key_of_the_mount() {
	mkdir "$work/apart" "$work/apart/mnt"
	cp "$cell/dc1.conf" "$work/apart/dc1.conf"
	cp "$cell/admin.key" "$work/apart/mine"
	(cd "$work/apart" && limit 20 "$LSFS" -o key=mine dc1.conf mnt)
	well "$work/apart/mnt"
	chown 4711 "$work/apart/mine"
	finds "$work/apart/mine: this key belongs to another user: its id is 4711" "$work/apart/mnt"
	is "$(exits 1 "$LSCTL" status --check "$work/apart/mnt")" \
		"degraded: $work/apart/mine: this key belongs to another user: its id is 4711"
	limit 10 umount "$work/apart/mnt"
}

case_udp_is_blocked() {
	nft add table inet blocked
	nft add chain inet blocked input '{ type filter hook input priority 0; }'
	nft add rule inet blocked input meta l4proto udp drop
	doctor > "$work/out" || :
	is "$(sed -n 's/^lsctl: replica \([0-9]*\) .*: \(answers[^:]*\): .*/\1 \2/p' "$work/out" |
		sort -u | xargs)" "$(for i in 1 2 3; do echo $i answers over TCP, but not over UDP
		done | xargs)"
	nft delete table inet blocked
	well
}

# A day and two hours later, for lsctl.
case_no_backup_for_a_day() {
	cell_ctl backup "$work/backup" > "$work/out"
	cell_ctl status --json | grep -q '"last_backup": "20'
	well
	python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack("=qq", 0, 26 * 3600 * 10**9))' > "$work/clock"
	# ours stands before the sanitizer's
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 CLOCK_SHIM=$work/clock \
		LD_PRELOAD=$TOOLS/clock_shim.so doctor > "$work/out" || :
	grep -q '^lsctl: dc1: its last backup is older than a day: 26 hours: make one' "$work/out"
}

case_everybody_on_the_machine() {
	mkdir "$work/open"
	mount_at "$work/open" allow_other
	finds "$work/open: allow_other lets every user of this machine write: by acl/everyone" \
		"$work/open"
	printf '@people\n' > "$m/acl/team"
	setfattr -n user.ls.acl.write -v team "$m"
	echo '@team' > "$m/acl/people"
	well "$work/open"
	for line in '* # all' ' *' '*'; do
		printf '%s' "$line" > "$m/acl/people"
		finds "$work/open: allow_other lets every user of this machine write: by acl/team" \
			"$work/open"
	done
	setfattr -n user.ls.acl.write -v admin "$m"
	well "$work/open"
	setfattr -n user.ls.acl.write -v everyone "$m"
	rm "$m/acl/team" "$m/acl/people"
	limit 10 umount "$work/open"
}

# Where the packages have them.
case_a_data_directory_of_this_machine() {
	cp -r "$cell/1" /var/lib/lsfs/dc1
	chmod 750 /var/lib/lsfs/dc1
	finds "/var/lib/lsfs/dc1: others have access to this data directory: mode 0750"
	chmod 700 /var/lib/lsfs/dc1
	chown -R 4711 /var/lib/lsfs/dc1
	well
	chown 4712 /var/lib/lsfs/dc1/replica.key
	finds "/var/lib/lsfs/dc1/replica.key: this key belongs to another user: its id is 4712"
	rm -r /var/lib/lsfs/dc1
	well
}

# In place of the mount, a lock is a lock of this machine.
case_a_mount_of_fstab_is_missing() {
	local locker bare=$work/bare
	mkdir "$bare"
	echo "$cell/dc1.conf $bare lsfs key=$cell/admin.key,_netdev 0 0
$cell/dc1.conf $work/other lsfs noauto 0 0" > "$work/fstab"
	[ -e /etc/fstab ] || touch /etc/fstab
	mount --bind "$work/fstab" /etc/fstab
	finds "$bare: is in /etc/fstab and not mounted: $cell/dc1.conf"
	flock "$bare/f" sh -c "touch '$work/held'; exec sleep 60" &
	locker=$!
	wait_until "it is locked" test -e "$work/held"
	finds "$bare: is in /etc/fstab and not mounted: $cell/dc1.conf
$bare/f: is locked for this machine only, where a cell should be mounted: by process $locker"
	kill $locker
	wait $locker || :
	exits 1 "$LSCTL" status --check --cell "$cell/dc1.conf" > "$work/out"
	is "$(cat "$work/out")" "degraded: $bare: is in /etc/fstab and not mounted: $cell/dc1.conf"
	exits 2 "$LSCTL" status --check "$bare" > "$work/out" 2>&1
	mkdir "$work/second"
	limit 20 "$LSFS" --standalone "$data" "$work/second"
	exits 3 "$LSCTL" status --check > "$work/out" 2>&1
	limit 10 umount "$work/second"
	umount /etc/fstab
	well
}

case_a_newer_signing_key() {
	cp "$cell/dc1.conf" "$work/late.conf"
	cell_ctl cell rotate-key > /dev/null
	finds "$work/late.conf: lacks the newest signing key: sequencers are not verified" \
		--cell "$work/late.conf" --key "$cell/admin.key"
}

# told TEXT [ARGUMENT...]: among other findings. Waits until it is.
told() {
	local text=$1
	shift
	doctor "$@" > "$work/out" 2>&1 || :
	grep -qF -- "$text" "$work/out"
}

case_a_disk_at_98_percent() {
	kill_replica 2
	mkdir "$work/small"
	mount -t tmpfs -o size=64m small "$work/small"
	cp -a "$cell/2/." "$work/small"
	chmod 700 "$work/small"
	mount --bind "$work/small" "$cell/2"
	head -c $(($(df --output=avail -B1 "$cell/2" | tail -n 1) - 1200000)) /dev/zero \
		> "$work/small/filler"
	start_replica 2
	wait_until "it is near" told "replica 2: a limit is near: disk, "
	wait_until "nothing else is wrong" one_line 1 \
		"degraded: replica 2: a limit is near: disk, " "$LSCTL" status --check "$m"
	rm "$work/small/filler"
	wait_until "there is room" well
}

case_a_clock_that_is_off() {
	kill_replica 2
	python3 -c 'import struct, sys
sys.stdout.buffer.write(struct.pack("=qq", 0, 90 * 10**9))' > "$work/clock"
	ASAN_OPTIONS=${ASAN_OPTIONS:-}:verify_asan_link_order=0 CLOCK_SHIM=$work/clock \
		LD_PRELOAD=$TOOLS/clock_shim.so "$LSCELL" "$cell/2" 2>> "$work/lscell-2.log" &
	wait_until "it is seen" told "its time of day differs from that of this machine: 90."
	kill_replica 2 TERM
	start_replica 2
	wait_until "it is right again" well
}

case_a_quota_that_is_used_up() {
	cell_ctl cell set quota_bytes=262144 > "$work/out"
	head -c 250000 /dev/zero > "$d/f"
	told "the cell: a limit is near: quota_bytes, "
	rm "$d/f"
	cell_ctl cell set quota_bytes=1073741824 > "$work/out"
	well
}

case_a_cell_file_of_nothing() {
	echo nonsense > "$work/broken.conf"
	told "broken.conf:1: not " --cell "$work/broken.conf" --key "$cell/admin.key"
}

# A replica on an emptied disk has forgotten what it promised.
# By a principal with all rights: the ACL files that the root and acl/ name stay.
case_all_is_deleted() {
	echo admin > "$m/acl/gone"
	setfattr -n user.ls.acl.write -v gone "$m"
	rm -rf "${m:?}"/* 2> "$work/err" || :
	grep -q "acl/everyone.*busy" "$work/err"
	grep -q "acl/gone.*busy" "$work/err"
	is "$(cd "$m"; echo * acl/*)" "acl acl/admin acl/everyone acl/gone"
	well "$m"
}

case_an_emptied_disk() {
	kill_replica 2
	rm "$cell"/2/log.db* "$cell"/2/state.db*
	start_replica 2
	wait_until "it is seen" told "has an older state than it has acknowledged"
	cell_ctl replica remove 2 > "$work/out"
	wait_until "it has ended" has_ended 2
	cell_ctl replica add "127.0.0.1:$(free_port)" --dir "$cell/5" > "$work/out"
	start_replica 5
	wait_until "it votes" is_voting 5
	cell_ctl cell refresh > "$work/out"
	wait_until "all is well" well
}

case_no_majority() {
	kill_replica 3
	kill_replica 5
	# Also while the session is still safe, and calls on the mount wait.
	wait_until "it is seen" told "dc1: has no master: 1 of "
	wait_until "the mount is in jeopardy" told "$m: its session is not safe"
	start_replica 3
	start_replica 5
	patience=60 wait_until "all is well" well
}

case_down() {
	down
	exits 2 doctor > "$work/out" 2>&1
	grep -q "nothing to look at: " "$work/out"
	exits 3 "$LSCTL" status --check > "$work/out" 2>&1
	is "$(tail -n 1 "$work/out")" unknown
	refused "$cell/dc1.conf: no replica answers" "$LSCTL" cell refresh --cell "$cell/dc1.conf"
}

run_cases
