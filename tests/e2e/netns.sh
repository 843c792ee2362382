# shellcheck shell=bash
# A cell whose replicas and mounts stand on machines of their own: network namespaces on one bridge,
# where any packet can be lost in any direction. Sourced behind lib.sh.
#
# Machines are called r1, r2, ... (replicas), c1, c2, ... (mounts) and o, the operator's, which no
# fault touches. Mount N is on "$work/mN"; the filesystem lies in the one mount namespace that we
# all share, only the daemon's packets leave from its machine. SETTINGS of the cell: NAME=VALUE...

cell=$work/cell
conf=$cell/net.conf
replicas=${REPLICAS:-3} mounts=${MOUNTS:-2}
mkdir "$work/pid"

for tool in ip ss nft nsenter; do
	command -v $tool > /dev/null || skip_all "needs $tool"
done

# on MACHINE COMMAND...
on() {
	local machine=$1
	shift
	nsenter --net="/run/netns/$machine" -- "$@"
}

machines() {
	local i
	for i in $(seq "$replicas"); do echo "r$i"; done
	for i in $(seq "$mounts"); do echo "c$i"; done
}

# address MACHINE
address() {
	case $1 in
	o) echo 10.77.0.254 ;;
	r*) echo "10.77.0.${1#r}" ;;
	c*) echo "10.77.0.$((100 + ${1#c}))" ;;
	esac
}

# A machine: a namespace with one cable to the switch. Lost packets are dropped where they arrive:
# the sender is told nothing, as by a broken cable.
make_machine() {
	ip netns add "$1" || return 1
	ip -n "$1" link add eth type veth peer name "$1" netns "switch" &&
		ip -n "$1" address add "$(address "$1")/24" dev eth &&
		ip -n "$1" link set eth up &&
		ip -n "$1" link set lo up &&
		ip -n "switch" link set "$1" master switch up || return 1
	on "$1" nft -f - <<-'E'
		table ip cuts {
			set lost { type ipv4_addr; }
			set poor { type ipv4_addr; flags interval; }
			set broken { type ipv4_addr; }
			set narrow { type ipv4_addr; }
			set datagrams { type ipv4_addr; flags interval; }
			chain input {
				type filter hook input priority 0;
				ip saddr @lost drop
				ip saddr @broken reject with tcp reset
				ip saddr @narrow meta length > 600 drop
				ip saddr @datagrams meta l4proto tcp drop
				ip saddr @poor numgen random mod 100 < 25 drop
			}
		}
	E
}

make_network() {
	local machine
	ip netns add "switch" 2> /dev/null || skip_all "cannot make network namespaces"
	ip -n "switch" link add switch type bridge &&
		ip -n "switch" link set switch up || return 1
	for machine in $(machines) o; do make_machine "$machine" || return 1; done
}

# ---- faults of the network ----

# lose "FROM..." TO...: what those send no longer reaches these.
lose() {
	local from to
	from=$(for from in $1; do address "$from"; done | paste -sd ,)
	shift
	for to in "$@"; do on "$to" nft add element ip cuts lost "{ $from }"; done
}

# part "MACHINE..." "MACHINE...": nothing passes between the two groups.
# shellcheck disable=SC2086 # words
part() { lose "$1" $2 && lose "$2" $1; }

# others MACHINE...: all but these.
others() { machines | grep -vxF "$(printf '%s\n' "$@")" | xargs; }

# isolate MACHINE...: these reach each other and nobody else.
isolate() { part "$*" "$(others "$@")"; }

# poor MACHINE...: a quarter of what reaches these is lost.
poor() {
	local to
	for to in "$@"; do
		on "$to" nft add element ip cuts poor '{ 10.77.0.0/24 }'
	done
}

# only_datagrams MACHINE...: nothing of a TCP connection reaches these.
only_datagrams() {
	local to
	for to in "$@"; do
		on "$to" nft add element ip cuts datagrams '{ 10.77.0.0/24 }'
	done
}

# break_off MACHINE TO...: when it sends something to these, its connections to them break.
break_off() {
	local from to
	from=$(address "$1")
	shift
	for to in "$@"; do on "$to" nft add element ip cuts broken "{ $from }"; done
}

# narrow MACHINE TO...: of what it sends to these, only small packets arrive.
narrow() {
	local from to
	from=$(address "$1")
	shift
	for to in "$@"; do on "$to" nft add element ip cuts narrow "{ $from }"; done
}

# Every cable works again.
heal() {
	local machine
	for machine in $(machines); do
		printf 'flush set ip cuts %s\n' lost poor broken narrow datagrams |
			on "$machine" nft -f -
	done
}

# ---- the cell ----

make_cell() {
	local args=() i
	for i in $(seq "$replicas"); do args+=(--replica "$(address "r$i"):7077"); done
	for i in ${SETTINGS:-}; do args+=(--set "$i"); done
	limit 10 "$LSCTL" cell create net --dir "$cell" "${args[@]}" > /dev/null
}

needs_small_disks() {
	command -v mkfs.ext4 > /dev/null || skip_all "needs mkfs.ext4"
	[ -e /dev/loop-control ] || skip_all "needs loop devices"
}

# small_disk N MEGABYTES: replica N's data directory moves to a filesystem of its own, of that size.
small_disk() {
	local at=$work/disk/$1
	mkdir -p "$at"
	truncate -s "$2M" "$at.image"
	mkfs.ext4 -q -m 0 "$at.image" && mount -o loop "$at.image" "$at" || return 1
	mv "$cell/$1" "$at/data" && ln -s "$at/data" "$cell/$1"
}

# fill_disk N: to the last block, with a plain file; empty_disk takes that away.
fill_disk() {
	local size
	for size in 1M 1k; do # each until there is no room for another one
		dd if=/dev/zero of="$work/disk/$1/filler" bs=$size oflag=append conv=notrunc \
			2> /dev/null || :
	done
	sync -f "$work/disk/$1"
}
empty_disk() { rm -f "$work/disk/$1/filler"; }

pid_of() { cat "$work/pid/$1" 2> /dev/null; }
alive() { ! gone "$(pid_of "$1")"; }

# run_on MACHINE LOG COMMAND...: in the background; the machine's process from now on. $CLOCKS is a
# library that gives it the clocks of its machine (clock_shim.c).
run_on() {
	local machine=$1 log=$2
	shift 2
	[ -z "${CLOCKS:-}" ] ||
		set -- env LD_PRELOAD="$CLOCKS" CLOCK_SHIM="$work/clock-$machine" "$@"
	(exec nsenter --net="/run/netns/$machine" -- "$@" 2>> "$log") &
	echo $! > "$work/pid/$machine"
}

start_replica() { run_on "r$1" "$work/lscell-$1.log" "$LSCELL" "$cell/$1"; }

# kill_replica N...: power off.
kill_replica() {
	local i
	for i in "$@"; do kill -9 "$(pid_of "r$i")"; done
	for i in "$@"; do wait_until "replica $i is dead" gone "$(pid_of "r$i")" || return 1; done
}

# stop_replica N: in good order.
stop_replica() {
	kill -TERM "$(pid_of "r$1")"
	wait_until "replica $1 has stopped" gone "$(pid_of "r$1")"
}

# freeze MACHINE: its process; has happened when this returns.
freeze() {
	kill -STOP "$(pid_of "$1")"
	wait_until "$1 is frozen" grep -q '^State:.T' "/proc/$(pid_of "$1")/status"
}
thaw() { kill -CONT "$(pid_of "$1")"; }

# mount_cell N [OPTIONS]: does not wait for it.
mount_cell() {
	[ -d "$work/m$1" ] || mkdir "$work/m$1" 2> /dev/null # a dead mount is there, too
	run_on "c$1" "$work/lsfs-$1.log" \
		"$LSFS" -f -o "key=$cell/admin.key${2:+,$2}" "$conf" "$work/m$1"
}

# Without asking the filesystem: a dead mount's daemon could not answer.
mounted() { grep -qF " $work/m$1 " /proc/self/mountinfo; }

# start_mount N [OPTIONS]: returns when it answers.
start_mount() {
	mount_cell "$@"
	wait_until "mount $1 is there" mounted "$1" && limit 30 ls "$work/m$1" > /dev/null
}

stop_mount() {
	limit 10 umount "$work/m$1" && wait_until "mount $1 has left" gone "$(pid_of "c$1")"
}

# What mount N says of its session: field NAME of its status.
told() { session_says "$2" "$work/m$1"; }

# operate COMMAND...: lsctl at the operator's machine. A replica that is cut off costs it patience.
operate() { on o timeout -k 1 20 "$LSCTL" --cell "$conf" --key "$cell/admin.key" "$@"; }
# What the operator is told, in JSON.
status() { operate status --json; }

# The number of the master; fails when there is none.
master() { status | sed -n 's/^  "master": \([0-9]*\),$/\1/p' | grep .; }
has_master() { master > /dev/null; }

# new_master OLD: somebody else is.
new_master() {
	local now
	now=$(master) && [ "$now" != "$1" ]
}

# Every replica of the cell is there, and knows and has applied the same entries.
in_step() {
	[ "$(status | grep -E '"(chosen|applied)":' | sort | uniq -c | awk '{ print $1 }' |
		xargs)" = "$replicas $replicas" ]
}

# No machine waits to send again what a cut has lost: TCP does so after a pause that grew with the
# cut, and the cable is of no use before.
nothing_is_repeated() {
	local machine
	for machine in $(machines); do
		if on "$machine" ss -tni state established | grep -q ' backoff:'; then return 1; fi
	done
}

# All have applied nearly the same while writes go on, and each hears the others again.
in_step_under_load() {
	nothing_is_repeated || return 1
	status | sed -n 's/^ *"applied": \([0-9]*\),$/\1/p' | sort -n |
		awk 'NR == 1 { least = $1 } END { exit NR < 3 || $1 - least > 100 }'
}

# The applied entry and the digest of the state there, as the stopped replica N has them on disk.
digest() { sqlite3 "$cell/$1/state.db" 'SELECT applied, digest FROM meta'; }

# ---- a writer that no fault may fail ----

# steadily MOUNT: its log is $work/steady.
steadily() {
	"$TOOLS/stress" steady "$1/steady" "$work/steady" &
	writer=$!
	wait_until "it writes" test -s "$work/steady"
}

# writes_go_on N: so many more have succeeded.
writes_go_on() { wait_until "writes go on" longer $(($(wc -l < "$work/steady") + $1)); }
longer() { [ "$(wc -l < "$work/steady")" -gt "$1" ]; }

# Ends it: it has never failed. Its longest pause is in $longest, in milliseconds.
end_writer() {
	mv "$work/steady" "$work/steady.done"
	exits 0 wait $writer
	longest=$("$TOOLS/stress" pauses "$work/steady.done" 1)
	say "the longest pause was $longest ms"
}

# ---- the whole ----

# The cell's state is the same on every disk: stops all replicas.
same_everywhere() {
	local i first
	wait_until "all replicas are in step" in_step || return 1
	for i in $(seq "$replicas"); do freeze "r$i"; done
	for i in $(seq "$replicas"); do kill -TERM "$(pid_of "r$i")"; thaw "r$i"; done
	for i in $(seq "$replicas"); do
		wait_until "replica $i has stopped" gone "$(pid_of "r$i")" || return 1
	done
	first=$(digest 1)
	[ -n "$first" ] || return 1
	for i in $(seq 2 "$replicas"); do is "$(digest "$i")" "$first" || return 1; done
}

# up [OPTIONS]: network, cell, replicas, mounts.
up() {
	local i
	make_network && make_cell || return 1
	for i in $(seq "$replicas"); do start_replica "$i"; done
	wait_until "there is a master" has_master || return 1
	for i in $(seq "$mounts"); do start_mount "$i" "$@" || return 1; done
}
