#!/bin/bash
# Files with a time to live, on two mounts of a cell of three, over a fail-over.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three
	mount_second
}

live() { setfattr -n user.ls.ttl -v "$1" "$2"; }
is_gone() { ! stat "$1" > /dev/null 2>&1; }

# kept FILE SECONDS COMMAND...: the command each second keeps the file.
kept() {
	local file=$1 seconds=$2
	shift 2
	for ((; seconds > 0; seconds--)); do
		"$@"
		sleep 1
		stat "$file" > "$work/out"
	done
}

case_it_goes() {
	local other=$m2/${d##*/}
	echo alive > "$d/f"
	live 2 "$d/f"
	is "$(attribute ttl "$other/f")" 2
	cat "$other/f"
	not is_gone "$other/f"
	wait_until "it has expired" is_gone "$d/f"
	wait_until "and is gone elsewhere" is_gone "$other/f"
	is "$(ls "$other")" ""
}

case_it_is_renewed() {
	local other=$m2/${d##*/} left
	touch "$d/f"
	live 2 "$d/f"
	kept "$d/f" 4 touch "$other/f"
	# shellcheck disable=SC2016
	kept "$other/f" 4 bash -c 'echo beat >> "$1"' - "$d/f"
	left=$(attribute ttl_left "$other/f")
	[ "$left" -ge 1 ] && [ "$left" -le 2 ]
	setfattr -x user.ls.ttl "$d/f"
	touch "$d/later"
	live 2 "$d/later"
	wait_until "one that began later is gone" is_gone "$d/later"
	is "$(grep -c beat "$d/f")" 4
	not getfattr -n user.ls.ttl "$other/f" 2> "$work/out"
	not getfattr -n user.ls.ttl_left "$other/f" 2> "$work/out"
	rm "$d/f"
}

# A new master counts the whole time anew.
case_over_a_fail_over() {
	local other=$m2/${d##*/} killed
	touch "$d/f"
	live 6 "$d/f"
	sleep 4 # of its six seconds
	kill_replica "$(master)"
	touch "$d/marker"
	killed=$EPOCHREALTIME
	sleep 4 # more than were left
	not is_gone "$other/f"
	wait_until "it has expired" is_gone "$other/f"
	[ $((${EPOCHREALTIME/./} - ${killed/./})) -gt 5000000 ]
	start_missing
}

# The file that somebody works with is dead, as when somebody else has deleted it.
case_open_and_locked() {
	local other=$m2/${d##*/}
	touch "$d/f"
	exec {fd}< "$other/f"
	flock -x "$fd"
	live 1 "$d/f"
	wait_until "it has expired" is_gone "$other/f"
	exec {fd}<&-
	touch "$d/f"
	flock -n "$d/f" true
	rm "$d/f"
}

case_refusals() {
	touch "$d/f"
	refused "Numerical result" setfattr -n user.ls.ttl -v 31622401 "$d/f"
	refused "Numerical result" setfattr -n user.ls.ttl -v -1 "$d/f"
	refused "Invalid argument" setfattr -n user.ls.ttl -v soon "$d/f"
	refused "Is a directory" setfattr -n user.ls.ttl -v 5 "$d"
	refused "Operation not permitted" setfattr -n user.ls.ttl_left -v 5 "$d/f"
	refused "busy" setfattr -n user.ls.ttl -v 5 "$m/acl/admin"
}

run_cases
