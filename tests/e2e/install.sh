#!/bin/bash
# What `make install` puts where, and what mount(8) makes of it: helpers, fstab, the mount table.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# over DIRECTORY: what is changed there from here on is seen by nobody else.
over() {
	mkdir -p "$work/over$1/upper" "$work/over$1/work"
	mount -t overlay over -o "lowerdir=$1,upperdir=$work/over$1/upper" \
		-o "workdir=$work/over$1/work" "$1" || skip_all "cannot mount an overlay"
}
work_type=$(stat -f -c %T "$work")
if [ "$work_type" = overlayfs ]; then skip_all "no overlay upon an overlay"; fi
over /usr/local
over /usr/sbin
over /etc
[ -L /sbin ] || over /sbin

shown() { findmnt -n -o SOURCE "$m"; }
unmount() {
	daemon=$(pgrep -f -- " $m( -o.*)?\$" | head -n 1)
	stop
}
is_there() { mountpoint -q "$m" && [ "$(cat "$m/f")" = "$1" ]; }

case_install() {
	make -s -C "$build" install prefix=/usr/local sbindir=/usr/local/sbin mountdir=/sbin \
		> "$work/out" 2>&1 || { cat "$work/out"; return 1; }
	is "$(/usr/local/bin/lsctl --version)" "$("$LSCTL" --version)"
	/sbin/mount.lsfs --version | grep -q '^lsfs '
	MANPATH=/usr/local/share/man man -w lsfs lscell lsctl lsfs.conf > /dev/null ||
		[ -e /usr/local/share/man/man8/lsfs.8 ]
	[ -e /usr/local/share/doc/lsfs/semantics.md ]
	[ -e /usr/local/share/bash-completion/completions/lsctl ]
	[ -e /usr/local/share/zsh/site-functions/_lsctl ]
	{
		echo '#include <lsfs.h>'
		echo '_Static_assert(LSFS_SET_SEQUENCER(2) == 0x40024c01, "as users have it");'
		echo 'int main(void) { return lsfs_set_sequencer(0, "") == 0; }'
	} > "$work/user.c"
	cc -Werror -Wall -Wextra -I/usr/local/include -o "$work/user" "$work/user.c"
	"$work/user" < /dev/null
	export LSFS=/usr/local/sbin/lsfs LSCTL=/usr/local/bin/lsctl
}

case_mount_a_data_directory() {
	limit 20 mount -t lsfs -o standalone,noexec "$data" "$m"
	is "$(shown)" "$data"
	is "$(df --output=source "$m" | tail -n 1)" "$data"
	findmnt -n -o OPTIONS "$m" | grep -q noexec
	echo standalone > "$m/f"
	unmount
}

case_mount_a_cell() {
	up_of_three
	echo dc1 > "$m/f"
	is "$(shown)" "$cell/dc1.conf"
	limit 5 umount "$m"
	mkdir -p /etc/lsfs
	cp "$cell/dc1.conf" /etc/lsfs/
	cp "$cell/admin.key" /etc/lsfs/key
	limit 20 mount -t lsfs dc1 "$m"
	is_there dc1
	is "$(shown)" dc1
	is "$(df --output=source "$m" | tail -n 1)" dc1
	unmount
	limit 20 mount -t fuse.lsfs dc1 "$m"
	is "$(shown)" dc1
	unmount
}

# A name is never taken for what stands beside it; a path has a slash.
case_a_directory_of_that_name() {
	mkdir "$work/here" "$work/here/dc1"
	cd "$work/here"
	limit 20 "$LSFS" dc1 "$m"
	is "$(shown)" dc1
	unmount
	limit 20 mount -t lsfs dc1 "$m"
	is "$(shown)" dc1
	unmount
	refused "dc1" "$LSFS" ./dc1 "$m"
	rmdir dc1
	touch dc1
	limit 20 mount -t lsfs dc1 "$m"
	is "$(shown)" dc1
	refused "option remount: a mount of lsfs keeps its options" mount -o remount,ro "$m"
	unmount
	cp /etc/lsfs/dc1.conf dc1
	limit 20 mount -t lsfs dc1 "$m"
	is "$(shown)" "$work/here/dc1"
	unmount
	"$LSCTL" cell show --cell dc1 | grep -qx "file         /etc/lsfs/dc1.conf"
}

# The machine's key is root's alone: another user has an own one.
case_the_key_of_a_user() {
	mkdir -p "$work/home/.config/lsfs"
	cp "$cell/admin.key" "$work/home/.config/lsfs/key"
	chown -R 4711 "$work/home"
	chmod 711 "$work"
	setpriv --reuid 4711 --clear-groups env HOME="$work/home" \
		"$LSCTL" status --cell dc1 > "$work/out"
	grep -q '^master ' "$work/out"
	rm "$work/home/.config/lsfs/key"
	refused "no key" setpriv --reuid 4711 --clear-groups env HOME="$work/home" \
		"$LSCTL" status --cell dc1
}

case_fstab() {
	cat > /etc/fstab <<-F
		dc1    $m     lsfs  _netdev,nofail     0  0
		$data  $work/data,mnt  lsfs  standalone,nofail  0  0
	F
	mkdir "$work/data,mnt"
	limit 40 mount -a
	is_there dc1
	is "$(cat "$work/data,mnt/f")" standalone
	limit 10 mount -a
	is "$(findmnt -n -o SOURCE -t fuse.lsfs | sort | xargs)" "$data dc1"
	umount "$work/data,mnt"
	unmount
	limit 20 mount "$m"
	is_there dc1
	"$LSCTL" down dc1
	not mountpoint -q "$m"
}

# The words of the command line stay as they were given, for ps and for who looks for them.
case_the_command_line_stays() {
	limit 20 "$LSFS" -o "key=$cell/admin.key,lock_delay=3,quiet" "$cell/dc1.conf" "$m"
	is "$(tr '\0' ' ' < "/proc/$(daemon_of "$m")/cmdline")" \
		"$LSFS -o key=$cell/admin.key,lock_delay=3,quiet $cell/dc1.conf $m "
	unmount
}

# A cell that answers late holds no boot up.
case_in_the_background() {
	"$LSCTL" down --dir "$cell" dc1 > /dev/null
	limit 10 mount -t lsfs -o bg dc1 "$m"
	not mountpoint -q "$m" || { say "no replica runs"; return 1; }
	start_replica 1
	start_replica 2
	wait_until "it is mounted" mountpoint -q "$m"
	is_there dc1
	unmount
}

case_uninstall() {
	make -s -C "$build" uninstall prefix=/usr/local sbindir=/usr/local/sbin mountdir=/sbin
	[ ! -e /sbin/mount.lsfs ] && [ ! -L /sbin/mount.lsfs ]
	[ ! -e /usr/local/sbin/lsfs ]
}

run_cases
