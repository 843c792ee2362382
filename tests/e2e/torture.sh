#!/bin/bash
# torture.sh: workers on three mounts use a cell of three in all ways while replicas, mounts, disks
# and the network fail at random; then the history of all their calls is checked.
#
#   MINUTES=n   how long (default: half a minute)
#   SEED=n      which faults, in which order (default: a random one, which is printed)
#   FAULTS="fault_A fault_B"   only these (default: all below)
#   KEEP=DIR    where the history of a failure is left (default: the current directory)
MOUNTS=3
ON_DISK=yes
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"
needs_small_disks

seconds=$((${MINUTES:-0} * 60))
[ $seconds -gt 0 ] || seconds=30
seed=${SEED:-$((RANDOM * 32768 + RANDOM))}
RANDOM=$seed
history=$work/history
options=(- grace=3,lock_delay=2 lock_delay=1 grace=10,lock_delay=0)
leases=("5s 12s" "2s 6s" "1s 4s") # of caches and of sessions
problems=0 rounds=0 fault='' r='' c=''

problem() {
	say "PROBLEM: $*"
	problems=$((problems + 1))
}

# Random choices are left in variables: a subshell's random numbers could not be repeated.
pick_replica() { r=r$((RANDOM % replicas + 1)); }
pick_mount() { c=c$((RANDOM % mounts + 1)); }
# The master, or some replica when there is none.
pick_master() {
	pick_replica
	master > "$work/master" && r=r$(cat "$work/master")
}
pick_fault() { fault=${faults[$((RANDOM % ${#faults[@]}))]}; }

replicas_but() { others "$@" | tr ' ' '\n' | grep ^r | xargs; }

# pause TENTHS: nothing happens but the load.
pause() { pause_s "$(($1 / 10)).$(($1 % 10))"; }

# ---- faults; what they break, mend repairs ----

strike() { gone "$(pid_of "$1")" || kill -9 "$(pid_of "$1")"; }
stun() { gone "$(pid_of "$1")" || freeze "$1"; }

fault_kill_replica() { pick_replica && strike $r; }
fault_kill_master() { pick_master && strike $r; }
fault_kill_all_replicas() { for i in $(seq "$replicas"); do strike "r$i"; done; }
fault_transfer_master() { pick_replica && operate master transfer ${r#r} > /dev/null 2>&1; }
fault_freeze_replica() { pick_replica && stun $r; }
fault_freeze_master() { pick_master && stun $r; }
fault_freeze_mount() { pick_mount && stun $c; }
# Again and again, for less than the shortest lease: it goes on with what it has cached.
fault_stutter_mount() {
	local i
	pick_mount
	for i in $(seq $((3 + RANDOM % 6))); do
		stun $c
		pause $((1 + RANDOM % 8))
		gone "$(pid_of $c)" || thaw $c
		pause 1
	done
}
fault_kill_mount() { pick_mount && strike $c; }
fault_isolate_replica() { pick_replica && isolate $r; }
fault_isolate_replica_with_mount() { pick_replica && pick_mount && isolate $r $c; }
fault_isolate_master_with_mount() { pick_master && pick_mount && isolate $r $c; }
fault_isolate_mount() { pick_mount && isolate $c; }
fault_mount_without_tcp() { pick_mount && only_datagrams $c; }
fault_cut_master_from_replicas() { pick_master && part $r "$(replicas_but $r)"; }
fault_replica_receives_nothing() { pick_replica && lose "$(others $r)" $r; }
fault_bridge() { pick_replica && part $r "r$((${r#r} % replicas + 1))"; }
fault_full_disk() { pick_replica && fill_disk ${r#r}; }
# shellcheck disable=SC2046 # words
fault_master_sends_nothing() { pick_master && lose $r $(others $r); }
# shellcheck disable=SC2046 # words
fault_poor_network() { poor $(machines); }

read -r -a faults <<< "${FAULTS:-$(declare -F | grep -o 'fault_.*' | xargs)}"

# Notes it with the time, on the clock of the history.
troubled() { echo "$(cut -d ' ' -f 1 /proc/uptime) $*" >> "$work/trouble.log"; }

# What went on in the longest time without a success.
show_pause() {
	sed -n 's/^longest time without a success: \(.*\) s from \([0-9.]*\).*/\1 \2/p' \
		"$work/verdict" > "$work/pause"
	awk 'NR == FNR { begin = $2 - 5; end = $2 + $1; next }
		$1 > begin && $1 < end { print "# then: " $0 }' \
		"$work/pause" "$work/trouble.log"
}

# Nothing ends by itself but a mount that finds no cell; what was killed has the status 137.
bury() {
	local rc=0
	wait "$(pid_of "$1")" || rc=$?
	case $1:$rc in
	*:137 | c*:1) ;;
	*) problem "$1 ended by itself, with status $rc" ;;
	esac
}

# Everything runs and is connected.
mend() {
	local i
	troubled mend
	heal
	for i in $(machines); do gone "$(pid_of "$i")" || thaw "$i"; done
	for i in $(seq "$replicas"); do
		empty_disk "$i"
		gone "$(pid_of "r$i")" && bury "r$i" && start_replica "$i"
	done
	for i in $(seq "$mounts"); do
		gone "$(pid_of "c$i")" && bury "c$i" && mount_cell "$i" "${options[$i]}"
	done
}

# A mount that was late with an acknowledgement gets no leave to cache for a while, which is soon
# longer than this test takes. So now and then a mount is made anew: it has no such past.
make_anew() {
	local i patience=60
	for i in $(seq "$mounts"); do
		[ $((RANDOM % 8)) -eq 0 ] || continue
		troubled "anew c$i"
		strike "c$i"
		bury "c$i"
		mount_cell "$i" "${options[$i]}"
		wait_until "mount $i works" usable "$i" || problem "mount $i is not there again"
	done
}

# One round: one or two faults, a while, and mostly the repair.
round() {
	local n twice=$((RANDOM % 10 < 3))
	for n in $(seq $((1 + twice))); do
		pick_fault
		echo "${fault#fault_}" >> "$work/faults"
		$fault
		troubled "${fault#fault_} $r $c"
	done
	if [ $((RANDOM % 4)) -gt 0 ]; then
		pause $((5 + RANDOM % 30))
	else # the leases of caches and sessions run out, too
		pause $((60 + RANDOM % longest))
	fi
	if [ $((RANDOM % 6)) -gt 0 ]; then
		mend
		make_anew
		pause $((5 + RANDOM % 20))
	fi
	rounds=$((rounds + 1))
}

# ---- the run ----

usable() { limit 10 test -d "$work/m$1/t"; }
# Nobody reads: each mount has given its leave back.
no_leave() {
	local i
	for i in $(seq "$mounts"); do [ -z "$(told "$work/m$i" cache_left)" ] || return 1; done
}
no_ephemeral_left() { [ -z "$(limit 10 ls "$work/m1/t/e")" ]; }
# The workers of each mount leave their status in a file: this shell starts so many processes that
# one may get the number of workers that have ended, whose status would be lost.
no_worker() {
	local i
	for ((i = 1; i <= mounts; i++)); do [ -s "$work/worker-$i" ] || return 1; done
}

# set_leases CACHE SESSION
set_leases() {
	say "a cache lease of $1, a session lease of $2"
	operate cell set cache_lease="$1" > /dev/null &&
		operate cell set session_lease="$2" > /dev/null
}

begin_run() {
	local i
	make_network && make_cell || return 1
	for i in $(seq "$replicas"); do
		small_disk "$i" 256 || return 1
		start_replica "$i"
	done
	wait_until "there is a master" has_master || return 1
	# shellcheck disable=SC2086 # words
	set_leases ${leases[RANDOM % 3]} || return 1
	for i in $(seq "$mounts"); do start_mount "$i" "${options[$i]}" || return 1; done
	"$TOOLS/torture" begin "$work/m1" "$history" 198 || return 1
	touch "$work/running"
	for i in $(seq "$mounts"); do
		("$TOOLS/torture" run "$work/m$i" "$history" $((i * 100)) 8 "$seed" "$work/running"
			echo $? > "$work/worker-$i") &
	done
}

trouble() {
	local end=$((SECONDS + seconds)) next=$((SECONDS + 10))
	[ $seconds -gt 60 ] && longest=120 || longest=20
	while [ $SECONDS -lt $end ]; do
		round
		if [ $SECONDS -ge $next ]; then
			say "$((end - SECONDS)) s to go, $rounds rounds," \
				"$(wc -l < "$history") lines of history"
			next=$((SECONDS + 10))
		fi
	done
}

# Everything is repaired; now it has to make progress, and to be the same everywhere.
end_run() {
	local i
	mend
	patience=90
	wait_until "there is a master" has_master || return 1
	for i in $(seq "$mounts"); do
		gone "$(pid_of "c$i")" && bury "c$i" && mount_cell "$i" "${options[$i]}"
		wait_until "mount $i works" usable "$i" || return 1
	done
	rm "$work/running"
	wait_until "all workers have ended" no_worker || return 1
	for i in $(seq "$mounts"); do
		[ "$(cat "$work/worker-$i")" = 0 ] || problem "a worker of mount $i failed"
	done
	wait_until "no ephemeral file is left" no_ephemeral_left || return 1
	wait_until "no mount has leave to cache any more" no_leave || return 1
	for i in $(seq "$mounts"); do
		limit 60 "$TOOLS/torture" final "$work/m$i" "$history" $((i * 100 + 99)) || return 1
	done
	for i in $(seq "$mounts"); do stop_mount "$i" || return 1; done
	same_everywhere || problem "the replicas' states differ"
}

say "seed $seed, $seconds seconds"
if begin_run; then
	trouble
	end_run || problem "it did not come to its end"
else
	problem "it did not start"
fi
sort "$work/faults" 2> /dev/null | uniq -c | sort -rn | sed 's/^/# fault /'
"$TOOLS/history" "$history" > "$work/verdict" || problem "the history can't be explained"
sed 's/^/# /' "$work/verdict"
show_pause
echo 1..1
if [ $problems -eq 0 ]; then
	echo "ok 1 - torture"
	exit 0
fi
echo "not ok 1 - torture"
kept=$(realpath "${KEEP:-.}")/torture-$seed
mkdir -p "$kept"
cp "$history" "$work"/*.log "$work/faults" "$kept"
say "history and logs are in $kept"
say "again: make torture MINUTES=${MINUTES:-0} SEED=$seed"
exit 1
