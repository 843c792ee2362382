#!/bin/bash
# kills.sh: a random replica is killed KILLS times under load and started again, mostly at once.
# Nothing that was acknowledged is lost, nothing is done twice, and all states are equal at the end.
#
#   KILLS=n     how often (default: 12)
#   SEED=n      which replicas (default: a random one, which is printed)
ON_DISK=yes
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"

kills=${KILLS:-12}
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$seed
history=$work/history
patience=60

size() { stat -c %s "$history"; }
grown() { [ "$(size)" -gt "$1" ]; }
no_worker() {
	local pid
	for pid in $workers; do gone "$pid" || return 1; done
}

work_goes_on() { wait_until "work goes on" grown $(($(size) + 8000 + RANDOM % 24000)); }

# A master that is back at once is the one that may stand first; so one in four stays away until the
# others have gone on without it.
kill_one() {
	local victim=$((RANDOM % replicas + 1))
	kill_replica $victim
	[ $((RANDOM % 4)) -gt 0 ] || work_goes_on
	start_replica $victim
	work_goes_on
}

case_killed_again_and_again() {
	local i
	up
	"$TOOLS/torture" begin "$work/m1" "$history" 198
	touch "$work/running"
	workers=
	for i in 1 2; do
		"$TOOLS/torture" run "$work/m$i" "$history" $((i * 100)) 8 "$seed" "$work/running" &
		workers="$workers $!"
	done
	for i in $(seq "$kills"); do
		kill_one
		[ $((i % 10)) -ne 0 ] || say "$i kills" >&3
	done
	rm "$work/running"
	wait_until "all workers have ended" no_worker
	for i in 1 2; do
		limit 60 "$TOOLS/torture" final "$work/m$i" "$history" $((i * 100 + 99))
	done
}

# No call fails, no outcome is open: what was asked for has happened, once.
case_nothing_is_lost_or_done_twice() {
	local rc=0
	"$TOOLS/history" "$history" > "$work/verdict" || rc=$?
	cat "$work/verdict"
	is $rc 0
	awk '$1 ~ /^(write|rename|append|count|ephemeral)$/ && ($3 != 0 || $4 != 0)' \
		"$work/verdict" > "$work/unexpected"
	is "$(cat "$work/unexpected")" ""
}

case_the_states_are_equal() {
	stop_mount 1
	stop_mount 2
	same_everywhere
}

exec 3>&1 # past the log of a case
say "seed $seed, $kills kills"
(run_cases)
rc=$?
[ -e "$work/verdict" ] && sed 's/^/# /' "$work/verdict"
exit $rc
