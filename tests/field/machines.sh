# shellcheck shell=bash
# Machines that boot a bare Debian with systemd of their own, in containers of systemd-nspawn on one
# bridge. Sourced behind tests/e2e/lib.sh.

for tool in systemd-nspawn debootstrap nsenter; do
	command -v $tool > /dev/null || skip_all "needs $tool"
done
bare_is_made || skip_all "cannot fetch a Debian: $(tail -n 1 "$bare.log")"

# systemd wants the one tree of control groups; what all machines run is under one group of it.
groups=/sys/fs/cgroup/lsfs-field-$$
umount -l /sys/fs/cgroup && mount -t cgroup2 apart /sys/fs/cgroup && mkdir "$groups" ||
	skip_all "needs cgroup2"
trap 'end_machines; cleanup' EXIT

# overlaid LOWER NAME: the directory $work/NAME, which begins as a copy of LOWER.
overlaid() {
	mkdir "$work/$2" "$work/$2.upper" "$work/$2.work"
	mount -t overlay over \
		-o "lowerdir=$1,upperdir=$work/$2.upper,workdir=$work/$2.work" "$work/$2"
}

make_bridge() { ip link add switch type bridge && ip link set switch up; }

# make_machine NAME ROOT: not started, and without an address.
make_machine() {
	overlaid "$2" "$1"
	: > "$work/$1/etc/machine-id"
	echo "$1" > "$work/$1/etc/hostname"
	ip netns add "$1"
	ip link add "port-$1" type veth peer name eth netns "$1"
	ip link set "port-$1" master switch up
}

# give_address NAME ADDRESS
give_address() {
	ip -n "$1" address add "$2/24" dev eth
	ip -n "$1" link set eth up
	ip -n "$1" link set lo up
}

# boot NAME: does not wait for it. The kernel's filesystem daemon interface is the machine's.
boot() {
	mkdir -p "$groups/$1"
	(
		echo "$BASHPID" > "$groups/$1/cgroup.procs"
		exec systemd-nspawn --quiet --boot --register=no --keep-unit --console=pipe \
			--directory="$work/$1" --machine="$1" --bind=/dev/fuse \
			--network-namespace-path="/run/netns/$1" < /dev/null > "$work/$1.log" 2>&1
	) &
	echo $! > "$work/$1.nspawn"
}

# The first process of the machine.
init_of() {
	[ ! -s "$work/$1.nspawn" ] || pgrep -P "$(cat "$work/$1.nspawn")" | head -n 1
}

# on NAME COMMAND...: as root there.
on() {
	local init
	init=$(init_of "$1") && [ -n "$init" ] || return 1
	shift
	limit 60 nsenter -a -t "$init" -- env -i PATH=/usr/sbin:/usr/bin \
		SYSTEMD_COLORS=0 SYSTEMD_PAGER= "$@"
}
is_up() { on "$1" systemctl is-system-running 2> /dev/null | grep -qx 'running\|degraded'; }
is_active() { on "$1" systemctl --quiet is-active "$2"; }
main_of() { on "$1" systemctl show --value -p MainPID "$2"; }

power_off() {
	local pid
	pid=$(cat "$work/$1.nspawn")
	kill -9 "$(init_of "$1")"
	wait_until "$1 is off" gone "$pid"
}

end_machines() {
	local name
	for name in "$work"/*.nspawn; do
		[ ! -e "$name" ] || kill -9 "$(init_of "$(basename "$name" .nspawn)")" 2> /dev/null
	done
	pause_s 1
	find "$groups" -depth -type d -exec rmdir {} \; 2> /dev/null
}
