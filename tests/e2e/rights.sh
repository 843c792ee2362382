#!/bin/bash
# The rights by ACL of two principals and their local users: rights.py has the table. The second
# mount is an ordinary user's, made by fusermount3.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# over FILE: what is written to it is seen by this test only.
over() {
	cp -a "$1" "$work/${1##*/}"
	mount --bind "$work/${1##*/}" "$1"
}
as_ann() { limit 30 setpriv --reuid 4003 --regid 4003 --clear-groups "$@"; }

# A process with a key leaves no core, and belongs to root in /proc.
hides() { is "$(stat -c %u "/proc/$1/mem")" 0; }

case_up() {
	chmod 711 "$work"
	over /etc/passwd
	over /etc/fuse.conf
	over /dev/fuse
	chmod 666 /dev/fuse
	echo user_allow_other >> /etc/fuse.conf
	printf '%s:x:%d:4001::/:/bin/sh\n' alice 4001 bob 4002 ann 4003 >> /etc/passwd
	mkdir "$cell"
	chmod 711 "$cell"
	"$LSCTL" cell create dc1 --dir "$cell/dc1" --replica "127.0.0.1:$(free_port)" > /dev/null
	"$LSCELL" "$cell/dc1/1" 2> "$work/lscell.log" &
	limit 30 "$LSFS" -o "allow_other,key=$cell/dc1/admin.key" "$cell/dc1/dc1.conf" "$m"
}

# Without a capability, without memory that it may lock, and with a key that nobody else can read.
case_an_ordinary_user_mounts() {
	local theirs=$work/theirs
	mkdir -m 700 "$theirs" "$theirs/mnt" "$theirs/run"
	chown -R 4003:4003 "$theirs"
	chmod 711 "$theirs" "$cell/dc1"
	as_ann "$LSCTL" key generate "$theirs/key" ann > "$work/ann.pub"
	limit 20 "$LSCTL" --cell "$cell/dc1/dc1.conf" --key "$cell/dc1/admin.key" \
		principal add ann "$(cat "$work/ann.pub")"
	as_ann prlimit --memlock=0:0 env "XDG_RUNTIME_DIR=$theirs/run" "$LSFS" \
		-o "allow_other,key=$theirs/key" "$cell/dc1/dc1.conf" "$theirs/mnt"
	is "$(findmnt -n -o FSTYPE "$theirs/mnt")" fuse.lsfs
	is "$(stat -c %u "$theirs/mnt")" 4003
	daemon=$(daemon_of "$theirs/mnt")
	is "$(sed -n 's/^CapEff:\t//p' "/proc/$daemon/status")" 0000000000000000
	is "$(sed -n 's/^Uid:\t//p' "/proc/$daemon/status" | xargs)" "4003 4003 4003 4003"
	is_sanitized || hides "$daemon"
	is_sanitized || hides "$(daemon_of "$m")"
}

case_matrix() { limit 200 python3 "${script%.sh}.py" "$m" "$work/theirs/mnt"; }

case_the_user_unmounts() {
	daemon=$(daemon_of "$work/theirs/mnt")
	as_ann fusermount3 -u "$work/theirs/mnt"
	wait_until "the daemon has left" gone "$daemon"
	is "$(ls -A "$work/theirs/run/lsfs")" ""
}

case_down() {
	daemon=$(daemon_of "$m")
	stop
	kill "$(pgrep -f -- "lscell .*$cell/dc1/1\$")"
}

run_cases
