#!/bin/bash
# Four hosts under systemd: the packages installed, replicas on a, b and c, a mount on each.
. "$(dirname "$0")/bare_debian.sh"
. "$(dirname "$0")/../e2e/lib.sh"
. "$(dirname "$0")/debs.sh"
. "$(dirname "$0")/machines.sh"
patience=120
hosts="a b c d"
address() { printf '10.79.0.%d' "'$1"; }

# A service of the hosts that uses the mount: it notes the kind of directory that it saw.
user_service() {
	cat <<-'U'
		[Unit]
		Requires=lsfs@dc1.service
		After=lsfs@dc1.service
		[Service]
		Type=oneshot
		RemainAfterExit=yes
		ExecStart=/bin/sh -c 'stat -f -c %%T /ls/dc1 >> /root/seen'
		[Install]
		WantedBy=multi-user.target
	U
}
seen() { cat "$work/$1/root/seen" 2> /dev/null; }
has_seen() { [ "$(seen "$1" | wc -l)" -ge "$2" ]; }
all_fuse() { [ -z "$(seen "$1" | grep -vx fuseblk\\\|fuse)" ] || { seen "$1"; return 1; }; }
# A new process of a unit.
another() { [ "$(main_of "$1" "$2")" != "$3" ] && is_active "$1" "$2"; }
is_mounted() { on "$1" mountpoint -q /ls/dc1; }

case_install() {
	build_debs
	copy_debs "$work/debs"
	overlaid "$bare" golden
	cp -r "$work/debs" "$work/golden/debs"
	mount -t proc proc "$work/golden/proc"
	limit 300 chroot "$work/golden" sh -c 'dpkg -i /debs/lsfs_*.deb /debs/lscell_*.deb' \
		> "$work/out" 2>&1 || { cat "$work/out"; return 1; }
	umount "$work/golden/proc"
}

case_hosts() {
	local host i=0
	make_bridge
	# shellcheck disable=SC2046 # words
	"$LSCTL" cell create dc1 --dir "$work/cell" \
		$(for host in a b c; do echo --replica "$(address $host):7000"; done) > /dev/null
	for host in $hosts; do
		make_machine $host "$work/golden"
		cp "$work/cell/dc1.conf" "$work/$host/etc/lsfs/"
		cp "$work/cell/admin.key" "$work/$host/etc/lsfs/key"
		user_service > "$work/$host/etc/systemd/system/user.service"
		chroot "$work/$host" systemctl --quiet enable lsfs@dc1 user
		i=$((i + 1))
		[ $i -le 3 ] || continue
		mv "$work/cell/$i" "$work/$host/var/lib/lsfs/dc1"
		chroot "$work/$host" systemctl --quiet enable lscell@dc1
	done
}

# All boot at once: b and c without an address, so that nobody has a majority for 20 seconds.
case_late_address() {
	local host
	give_address a "$(address a)"
	give_address d "$(address d)"
	for host in $hosts; do boot $host; done
	for host in $hosts; do
		wait_until "$host is up" on $host systemctl --quiet is-active dbus
	done
	pause_s 20
	for host in $hosts; do is "$(seen $host)" ""; done
	is "$(on d systemctl is-active lsfs@dc1 || :)" activating
	# Nobody takes the bare directory for the cell.
	exits 1 on d touch /ls/dc1/local 2> /dev/null
	give_address b "$(address b)"
	give_address c "$(address c)"
	for host in $hosts; do
		wait_until "the cell is used on $host" has_seen $host 1
		wait_until "$host is done" is_up $host
		all_fuse $host
	done
	on a sh -c 'echo one > /ls/dc1/f'
	is "$(on d cat /ls/dc1/f)" one
	is "$(on a systemctl is-system-running)" running
}

# The cell answers long after the host is up.
case_late_cell() {
	local host
	for host in $hosts; do power_off $host; done
	boot d
	wait_until "d tries" on d systemctl --quiet is-active dbus
	pause_s 30
	is "$(on d systemctl is-active lsfs@dc1 || :)" activating
	is "$(seen d | wc -l)" 1
	for host in a b; do boot $host; done
	wait_until "the cell is used on d" has_seen d 2
	all_fuse d
	is "$(on d cat /ls/dc1/f)" one
	boot c
	wait_until "the cell is used on c" has_seen c 2
}

case_killed() {
	local replica mount
	replica=$(main_of a lscell@dc1) mount=$(main_of a lsfs@dc1)
	on a kill -9 "$replica" "$mount"
	wait_until "the replica is back" another a lscell@dc1 "$replica"
	wait_until "the mount is back" another a lsfs@dc1 "$mount"
	is "$(on a cat /ls/dc1/f)" one
}

# Frozen, it is killed and started again.
case_watchdog() {
	local mount
	on d mkdir -p /etc/systemd/system/lsfs@dc1.service.d
	printf '[Service]\nWatchdogSec=4\n' |
		on d tee /etc/systemd/system/lsfs@dc1.service.d/watchdog.conf > /dev/null
	on d systemctl daemon-reload
	on d systemctl restart lsfs@dc1
	mount=$(main_of d lsfs@dc1)
	pause_s 6
	is "$(main_of d lsfs@dc1)" "$mount"
	on d kill -STOP "$mount"
	wait_until "the mount is started again" another d lsfs@dc1 "$mount"
	on d journalctl -b -u lsfs@dc1 | grep -q 'Watchdog timeout'
	is "$(on d cat /ls/dc1/f)" one
}

# The program that is installed goes on with the mount; it is the same service, watchdog and all.
case_reloaded() {
	local mount next
	mount=$(main_of d lsfs@dc1)
	on d systemctl reload lsfs@dc1
	wait_until "another process is the main one" another d lsfs@dc1 "$mount"
	next=$(main_of d lsfs@dc1)
	pause_s 6
	is "$(main_of d lsfs@dc1)" "$next"
	on d systemctl reload lsfs@dc1
	wait_until "a third one is" another d lsfs@dc1 "$next"
	not grep -q 'not our child' <(on d journalctl -b -u lsfs@dc1)
	is "$(on d cat /ls/dc1/f)" one
}

# Unmounted by hand, it stays so, and the directory is the bare one.
case_unmounted() {
	on d umount /ls/dc1
	wait_until "the unit has ended" eval '! is_active d lsfs@dc1'
	pause_s 4
	exits 32 is_mounted d
	exits 1 on d touch /ls/dc1/local 2> /dev/null
	on d systemctl start lsfs@dc1
	is_mounted d
}

case_security() {
	local unit
	on a systemd-analyze security --threshold=25 lscell@dc1 > "$work/out" || {
		cat "$work/out"
		return 1
	}
	tail -n 1 "$work/out"
}

# As at midnight.
case_backup() {
	on a mkdir -p /etc/systemd/system/lsctl-backup@dc1.timer.d
	printf '[Timer]\nOnCalendar=\nOnActiveSec=1\nRandomizedDelaySec=0\n' |
		on a tee /etc/systemd/system/lsctl-backup@dc1.timer.d/now.conf > /dev/null
	on a systemctl daemon-reload
	on a systemctl start lsctl-backup@dc1.timer
	wait_until "a backup is there" \
		eval 'on a sh -c "ls /var/backups/lsfs/dc1-???" 2> "$work/no"'
	on a sh -c 'lsctl backup show /var/backups/lsfs/dc1-???' | grep -q dc1
	is "$(on a systemctl show --value -p Result lsctl-backup@dc1.service)" success
}

# Replicas go on as they are, mounts with the new program and in the same session.
case_upgrade() {
	local replica mount session host
	later_debs "$work/later" 0.99
	for host in a b c; do
		cp -r "$work/later" "$work/$host/later"
		replica=$(main_of $host lscell@dc1) mount=$(main_of $host lsfs@dc1)
		session=$(on $host sed -n 's/^session: //p' /ls/dc1/.cell/status)
		on $host sh -c 'dpkg -i /later/lsfs_*.deb /later/lscell_*.deb' > "$work/out" 2>&1 ||
			{ cat "$work/out"; return 1; }
		wait_until "the new program has the mount" another $host lsfs@dc1 "$mount"
		is "$(main_of $host lscell@dc1)" "$replica"
		is "$(on $host sed -n 's/^session: //p' /ls/dc1/.cell/status)" "$session"
		on $host systemctl restart lscell@dc1
		is "$(on $host cat /ls/dc1/f)" one
	done
	on a systemctl restart lsfs@dc1
	is "$(on a cat /ls/dc1/f)" one
}

case_remove() {
	on c dpkg -r lsfs lscell > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
	exits 32 is_mounted c
	is "$(on c pgrep -x 'lsfs|lscell' || :)" ""
	on c test -e /var/lib/lsfs/dc1/log.db
	on a sh -c 'echo two > /ls/dc1/f'
}

# Its data serve again, after a purge.
case_purge() {
	on c dpkg -P lsfs lscell > "$work/out" 2>&1 || { cat "$work/out"; return 1; }
	on c test -e /var/lib/lsfs/dc1/log.db
	on c test -e /etc/lsfs/key
	on c sh -c 'dpkg -i /debs/lsfs_*.deb /debs/lscell_*.deb' > "$work/out" 2>&1 ||
		{ cat "$work/out"; return 1; }
	on c systemctl daemon-reload
	on c systemctl enable --quiet --now lscell@dc1 lsfs@dc1
	is "$(on c cat /ls/dc1/f)" two
}

run_cases
