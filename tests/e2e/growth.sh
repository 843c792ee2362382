#!/bin/bash
# growth.sh: writers at full speed while one of three replicas is away. Logs, write-ahead logs and
# memory stay below their limits (docs/storage.md); then, still under the load, the one that was
# away and a fourth, empty, replica catch up. All states are equal at the end.
#
#   WRITES=n     while it is away (default: 2,800). In an hour at 100 a second: 360,000
#   SIZE=n       bytes of a write: 1 to n, and one in 256 has 256 KiB (default: 65536, so that few
#                writes are more than the log keeps)
#   WRITERS=n    at once (default: 8)
#   FILES=n      that they write (default: as many): the state has so many
ON_DISK=yes
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

writes=${WRITES:-2800}
writers=${WRITERS:-8}

patience=$((60 + writes / 100))

# MiB that they may have at most, with a state of a few MiB.
limit_log=160 limit_log_wal=48 limit_state_wal=48 limit_memory=256

# ---- what grows ----

# Lines "REPLICA FILE BYTES", the largest of each seen until now.
largest() {
	sort -k 1,2 -k 3,3nr "$work/samples" | awk '$1 " " $2 != last { print; last = $1 " " $2 }'
}
sample() {
	local i pid
	for i in "$cell"/[0-9]; do
		stat -c "${i##*/} %n %s" "$i"/{log,state}.db{,-wal} 2> /dev/null |
			awk '{ sub(/.*\//, "", $2); print }'
		pid=$(replica "${i##*/}")
		[ -z "$pid" ] || awk -v id="${i##*/}" '/^VmHWM/ { print id, "memory", $2 * 1024 }' \
			"/proc/$pid/status" 2> /dev/null
	done >> "$work/samples"
}
begin_samples() {
	while [ -d "$work" ] && [ ! -e "$work/enough" ]; do
		sample
		pause_s 0.5
	done 2> /dev/null &
	echo $! > "$work/sampler"
}

mebibytes() { awk -v n="$1" 'BEGIN { printf "%.1f", n / 1048576 }'; }

# below WHAT LIMIT: on no replica it was ever more.
below() {
	local most
	most=$(awk -v what="$1" '$2 == what && $3 > n { n = $3 } END { print n + 0 }' \
		"$work/largest")
	[ "$most" -gt 0 ] && [ "$most" -le $(($2 * 1048576)) ] || {
		say "$1: $(mebibytes "$most") MiB, at most $2 may be"
		return 1
	}
}

# ---- the load ----

written() { tail -n 1 "$work/written" | cut -d ' ' -f 2; }
has_written() { pause_s 0.2 && [ "$(written)" -ge "$1" ] || gone "$load"; }
# The writers go on, as long as they have not ended by themselves.
load_goes_on() {
	wait_until "the writers go on" has_written $(($(written) + 100))
	not gone "$load"
}
seconds_since() { awk -v from="$1" -v to="$EPOCHREALTIME" 'BEGIN { printf "%.1f", to - from }'; }

case_one_is_away() {
	local i
	create_of_three
	for i in 1 2 3; do start_replica $i; done
	wait_until "all have a vote" is_told 'sorted(r) == [1, 2, 3] and
		all(x["condition"] == "voting" for x in r.values())'
	begin_samples
	kill_replica 3
	"$TOOLS/writers" "$conf" "$cell/admin.key" "$writers" "${FILES:-$writers}" \
		"${SIZE:-65536}" \
		> "$work/written" 2> "$work/writers.log" &
	load=$!
	echo $load > "$work/load"
	wait_until "enough is written" has_written "$writes"
	not gone "$load" || { cat "$work/writers.log"; return 1; }
	awk 'END { printf "%d writes of %.0f MiB in %d s, %.0f a second\n", $2, $3 / 1048576, $1,
		$2 / ($1 + ($1 == 0)) }' "$work/written" >> "$work/figures"
}

case_it_catches_up_under_the_load() {
	local begun=$EPOCHREALTIME
	load=$(cat "$work/load")
	start_replica 3
	wait_until "it is back" is_voting 3
	said 3 "the state of replica . is here"
	echo "replica 3, which was away: caught up in $(seconds_since "$begun") s" \
		>> "$work/figures"
	load_goes_on
}

case_an_empty_one_catches_up_under_the_load() {
	local begun=$EPOCHREALTIME
	load=$(cat "$work/load")
	cell_ctl replica add "127.0.0.1:$(free_port)" --dir "$cell/4" > /dev/null
	start_replica 4
	wait_until "it has a vote" is_voting 4
	echo "replica 4, which is new: a vote in $(seconds_since "$begun") s" >> "$work/figures"
	load_goes_on
	said 4 "the state of replica . is here"
}

bytes_written() { tail -n 1 "$work/written" | cut -d ' ' -f 3; }
has_written_bytes() { pause_s 0.2 && [ "$(bytes_written)" -ge "$1" ] || gone "$load"; }

# hold_state ID: until descriptor 9 is closed.
hold_state() {
	rm -f "$work/sql" "$work/began"
	mkfifo "$work/sql"
	sqlite3 "$cell/$1/state.db" < "$work/sql" > "$work/began" 2>&1 &
	exec 9> "$work/sql"
	printf '%s\n' '.timeout 5000' 'BEGIN IMMEDIATE;' 'SELECT "begun";' >&9
	wait_until "the file is held" grep -q begun "$work/began"
}

# Somebody looks into its file with another program, and leaves that open: the replica waits, and
# takes no more of the log meanwhile than it can keep in memory.
case_a_state_that_takes_nothing_costs_no_memory() {
	load=$(cat "$work/load")
	hold_state 4
	wait_until "much is written" has_written_bytes $(($(bytes_written) + (96 << 20)))
	exec 9>&-
	wait_until "it comes back" is_voting 4
	load_goes_on
}

# Requests would wait for its state for ever: another replica is master, and the load goes on.
case_a_master_whose_state_takes_nothing_hands_over() {
	local old
	load=$(cat "$work/load")
	old=$(told_of_replicas '[i for i in r if r[i].get("role") == "master"][0]')
	cell_ctl cell set disk_patience=2s > /dev/null
	hold_state "$old"
	wait_until "another master" is_told \
		"[i for i in r if r[i].get('role') == 'master'] not in ([], [$old])"
	load_goes_on
	exec 9>&-
	cell_ctl cell set disk_patience=5s > /dev/null
	wait_until "it votes" is_voting "$old"
	load_goes_on
}
case_nothing_is_lost() {
	local rc=0
	load=$(cat "$work/load")
	kill "$load"
	wait_until "the writers have ended" gone "$load"
	is "$(cat "$work/writers.log")" ""
	wait_until "all have the same state" is_told 'len({x["digest"] for x in r.values()}) == 1
		and len({x["applied"] for x in r.values()}) == 1 and len(r) == 4'
	awk 'END { printf "%d writes of %.0f MiB in %d s altogether, %.0f a second\n", $2,
		$3 / 1048576, $1, $2 / ($1 + ($1 == 0)) }' "$work/written" >> "$work/figures"
}

case_the_limits_were_kept() {
	touch "$work/enough"
	wait_until "the last sample is taken" gone "$(cat "$work/sampler")"
	largest > "$work/largest"
	local state
	state=$(awk '$2 == "state.db" && $3 > n { n = $3 } END { print int(n / 1048576) }' \
		"$work/largest")
	below log.db $((limit_log * (state > 16 ? 4 : 1)))
	below log.db-wal $limit_log_wal
	below state.db-wal $((limit_state_wal + state))
	is_sanitized || below memory $((limit_memory * (state > 16 ? 2 : 1) + state * 3))
}

tell_figures() {
	sed 's/^/# /' "$work/figures"
	awk '{ most[$2] = $3 > most[$2] ? $3 : most[$2]
			all[$2] = all[$2] sprintf(" %.1f", $3 / 1048576) }
		END { for (what in all) printf "# %-13s at most %.1f MiB; by replica:%s\n", what,
			most[what] / 1048576, all[what] }' "$work/largest" | sort
}

(run_cases)
rc=$?
[ -e "$work/largest" ] && tell_figures
if [ $rc -ne 0 ]; then tail -n 20 "$work"/*.log; fi
exit $rc
