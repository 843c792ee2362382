#!/bin/bash
# Three replicas and two mounts on machines of their own. The master's machine is lost together with
# a mount that neither caches anything nor waits for a lock: the other one waits for a new master,
# and for nothing else.
MOUNTS=2
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"

m2=$work/m2

case_up() {
	up
	told 1 session > "$work/idle" # nothing else asks the first mount for anything
}

# lose_master_and MOUNT...: while mount 2 writes; how long it could not is in $longest.
lose_master_and() {
	local old
	old=$(master)
	steadily "$m2"
	isolate "r$old" "$@"
	wait_until "another master" new_master "$old"
	writes_go_on 100
	heal
	wait_until "all are in step" in_step_under_load
	end_writer
}

# A new master would not wait for the idle mount.
is_not_awaited() {
	local where
	where="session = $(cat "$work/idle")"
	[ "$(sqlite3 "$cell/1/state.db" "SELECT awaited FROM sessions WHERE $where")" = 0 ]
}

# Half a minute after it was there the cell knows that the mount neither caches nor waits. What its
# loss costs the others is less than half of a cache lease (5 s), and no more than that of the
# master alone costs.
case_it_costs_the_others_nothing() {
	local lost i alone=()
	patience=60 wait_until "nobody awaits it" is_not_awaited
	lose_master_and c1
	is "$(told 1 session)" "$(cat "$work/idle")"
	lost=$longest
	for i in 1 2; do
		lose_master_and
		alone+=("$longest")
	done
	say "the other waited $lost ms; for the master alone ${alone[*]} ms"
	[ "$lost" -lt 2500 ]
	[ "$lost" -le $((2 * $(printf '%s\n' "${alone[@]}" | sort -n | tail -n 1))) ]
}

run_cases
