#!/bin/bash
# What a cache saves: requests, and calls of the daemon; and what it costs others when its mount
# does not answer: one cache lease.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# requests MOUNT: that its session has sent to the cell, so far.
requests() { session_says requests "$1"; }

# costs N MOUNT COMMAND...: that many requests of this mount.
costs() {
	local n=$1 at=$2 before
	before=$(requests "$at")
	shift 2
	limit 10 "$@" > /dev/null
	is "$(($(requests "$at") - before)) for $*" "$n for $*"
}

case_up() {
	up_of_three
	mount_second
}

# Mounts without a past: one that was late with an acknowledgement gets no leave to cache for a
# while, which is longer each time.
anew() {
	limit 10 umount "$m" "$m2"
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
	mount_second
}

# caches MOUNT FILE: it has leave to cache.
caches() {
	local before
	cat "$2" > "$work/out"
	before=$(requests "$1")
	cat "$2" > "$work/out"
	[ "$(requests "$1")" = "$before" ]
}

case_round_trips() {
	mkdir -p "$m/a/b/c"
	echo x > "$m/a/b/c/f"
	echo x > "$m/a/b/c/other"
	anew # of a name that it made itself the kernel asks the mount only a second later
	wait_until "the second mount caches" caches "$m2" "$m2/a/b/c/f"
	costs 0 "$m2" stat "$m2/a/b/c/f"
	wait_until "the first mount caches" caches "$m" "$m/a/b/c/f"
	costs 1 "$m2" sh -c "echo y > '$m2/a/b/c/f'"
	costs 0 "$m2" cat "$m2/a/b/c/f"
	wait_until "the first mount caches" caches "$m" "$m/a/b/c/other"
	costs 1 "$m" stat "$m/a/b/c/f"
	costs 1 "$m" cat "$m/a/b/c/f" # the contents
	is "$(cat "$m/a/b/c/f")" y
	costs 0 "$m" stat "$m/a/b/c/f"
	echo z > "$m2/a/b/c/f"
	wait_until "the first mount caches" caches "$m" "$m/a/b/c/other"
	costs 1 "$m" stat "$m/a/b/c/f"
	costs 1 "$m" sh -c "! stat '$m/a/b/c/none'"
	costs 0 "$m" sh -c "! stat '$m/a/b/c/none'"
	stat "$m/a/b/c" # as the kernel may have its name, and the cache nothing more of it
	costs 1 "$m" ls "$m/a/b/c"
	costs 0 "$m" ls "$m/a/b/c"
}

# The calls of the kernel that the daemon of $m2 has read, and some others.
reads() { sed -n 's/^syscr: //p' "/proc/$(daemon_of "$m2")/io"; }

# Of a thousand calls the daemon sees those of the moment in which the kernel has forgotten.
case_a_warm_stat_is_the_kernels() {
	local before
	mkdir -p "$m/warm/a/b"
	echo x > "$m/warm/a/b/f"
	wait_until "the second mount caches" caches "$m2" "$m2/warm/a/b/f"
	before=$(reads)
	costs 0 "$m2" python3 -c "import os
for i in range(1000):
    os.stat('$m2/warm/a/b/f')"
	before=$(($(reads) - before))
	say "the daemon has read $before times"
	[ $before -lt 200 ]
}

# without_daemon FILE [SECONDS]: says its size, though the daemon has been stopped, for so long.
without_daemon() {
	local frozen rc=0
	frozen=$(daemon_of "$m2")
	stat "$1" > "$work/out"
	kill -STOP "$frozen"
	[ $# -eq 1 ] || pause_s "$2"
	limit 0.5 stat -c %s "$1" || rc=$?
	kill -CONT "$frozen"
	return $rc
}

case_a_stopped_daemon_is_not_missed() {
	echo x > "$d/f"
	wait_until "the kernel answers" without_daemon "${d/$m/$m2}/f"
}

# After a second the kernel asks the daemon.
case_a_stopped_daemon_is_missed_after_a_second() {
	echo x > "$d/f"
	wait_until "the kernel answers" without_daemon "${d/$m/$m2}/f"
	exits 124 without_daemon "${d/$m/$m2}/f" 1.1
}

# nothing_old FILE: a writer on the other mount waits for the lease of a stopped daemon. Then the
# kernel of that one answers nothing any more.
nothing_old() {
	local f=${1/$m/$m2} frozen
	frozen=$(daemon_of "$m2")
	wait_until "the second mount caches" caches "$m2" "$f"
	stat "$f"
	kill -STOP "$frozen"
	limit 20 sh -c "echo longer > '$1'"
	exits 124 limit 0.5 stat -c %s "$f"
	kill -CONT "$frozen"
	is "$(limit 20 stat -c %s "$f")" 7
}

# When the lease is short, so is the time for which the kernel keeps anything.
case_nothing_old_from_a_stopped_daemon() {
	echo x > "$d/f"
	nothing_old "$d/f"
	cell_ctl cell set cache_lease=1s
	anew
	echo x > "$d/g"
	nothing_old "$d/g"
	cell_ctl cell set cache_lease=3s
	anew
}

metric() { sed -n "s/^lsfs_$1 //p" "$m/.cell/metrics"; }

case_hits_are_counted() {
	local hits
	echo x > "$d/f"
	wait_until "the first mount caches" caches "$m" "$d/f"
	hits=$(metric cache_hits_total)
	cat "$d/f" > /dev/null
	[ "$(metric cache_hits_total)" -gt "$hits" ]
	is "$(metric 'session_state{state="safe"}')" 1
	[ "$(metric cached_nodes)" -gt 0 ]
	[ "$(metric 'calls_total{call="open",outcome="done"}')" -gt 0 ]
	[ "$(metric 'requests_total{operation="create",result="OK"}')" -gt 0 ]
	cp "$m/.cell/metrics" "$work/copied"
	tail -n 1 "$work/copied" | grep -q ^lsfs_
}

# waited_ms COMMAND...: how long it takes, in $took_ms.
waited_ms() {
	local begin=${EPOCHREALTIME/./}
	limit 30 "$@"
	took_ms=$(((${EPOCHREALTIME/./} - begin) / 1000))
}

# What is left of the leave to cache, in $left_us; 0: there is none.
leave_left() {
	local left
	left=$(session_says cache_left "$1")
	left_us=$((10#${left/./}000))
}
has_much_leave() { leave_left "$1" && [ $left_us -gt 1500000 ]; }

# A mount that does not answer costs the others one cache lease (3 s), and nothing from then on.
case_a_frozen_mount_delays_others_once() {
	local frozen
	frozen=$(daemon_of "$m2")
	for f in 1 2 3; do echo x > "$d/$f"; done
	wait_until "the second mount has much leave" has_much_leave "$m2"
	cat "${d/$m/$m2}"/[123] > "$work/out"
	kill -STOP "$frozen"
	waited_ms sh -c "echo y > '$d/1'"
	say "the first write took $took_ms ms"
	[ "$took_ms" -gt 500 ]
	[ "$took_ms" -lt 6000 ]
	waited_ms sh -c "echo y > '$d/2'; echo y > '$d/3'"
	say "the next two took $took_ms ms"
	[ "$took_ms" -lt 1000 ]
	kill -CONT "$frozen"
	is "$(limit 20 cat "${d/$m/$m2}"/[123] | tr -d '\n')" yyy
}

# caches_all MOUNT FILE: also the names, which the kernel asks for after a second.
caches_all() {
	local before end=$((SECONDS + 3))
	caches "$1" "$2" || return 1
	before=$(requests "$1")
	while [ $SECONDS -lt $end ]; do cat "$2" > "$work/out"; done
	[ "$(requests "$1")" = "$before" ]
}

# Without the cell a mount reads on until its leave is over, and no longer: a read that begins then
# waits for the cell.
case_reads_go_on_without_the_cell() {
	local pids from now end last
	echo x > "$d/f"
	wait_until "it caches" caches_all "$m" "$d/f"
	pids="$(replica 1) $(replica 2) $(replica 3)"
	wait_until "it has much leave" has_much_leave "$m"
	# shellcheck disable=SC2086 # words
	kill -9 $pids # at once: with another master there would be another connection
	from=${EPOCHREALTIME/./}
	leave_left "$m"
	end=$((${EPOCHREALTIME/./} + left_us))
	last=$from
	now=$from
	while [ $now -lt $end ]; do
		now=${EPOCHREALTIME/./}
		if limit 1 cat "$d/f" > "$work/out" 2> /dev/null; then last=$now; fi
	done
	say "reads went on for $(((last - from) / 1000)) ms, of $((left_us / 1000)) ms of leave"
	[ $left_us -gt 0 ]
	[ $last -lt $end ]
	[ $((last - from)) -gt $((left_us / 2)) ]
	for i in 1 2 3; do start_replica $i; done
	is "$(limit 20 cat "$d/f")" x
}

# cachers SESSIONS NAME: clients that cache and write all of $nodes; a line each second.
cachers() {
	# shellcheck disable=SC2086 # words
	"$TOOLS/cachers" "$cell/dc1.conf" "$cell/admin.key" "$1" $nodes \
		> "$work/$2" 2> "$work/$2.log" &
}
# all_cache N NAME: so many sessions do nothing else but write.
all_cache() {
	tail -n 1 "$work/$2" | awk -v n="$1" '{ ok = $4 == n && $3 > 40 * n } END { exit !ok }'
}
# A second ago at most it had leave for as many milliseconds.
has_leave() { all_cache 1 one && tail -n 1 "$work/one" | awk -v ms="$1" '{ exit $5 < ms }'; }
lines() { wc -l < "$work/$1"; }
has_lines() { [ "$(lines "$1")" -ge "$2" ]; }
# seconds N NAME: the sum of the writes and the longest of the next N lines, in $writes and $took.
seconds() {
	local from
	from=$(($(lines "$2") + 2)) # the second that has begun is not counted
	wait_until "$1 seconds are over" has_lines "$2" $((from + $1 - 1))
	read -r writes took < <(tail -n +$from "$work/$2" | head -n "$1" |
		awk '{ n += $1; if (max < $2) max = $2 } END { print n, max }')
}
# In 19 sessions there are 38 writes a second.
wait_no_more() { has_lines others "$1" && tail -n 1 "$work/others" | awk '{ exit $1 < 30 }'; }
writes_again() { has_lines one "$1" && tail -n 1 "$work/one" | awk '{ exit $1 < 1 }'; }

# Of twenty clients that cache the same files one is frozen: for a cache lease the others wait, and
# from then on they write as before.
case_one_of_twenty_is_frozen() {
	local i nodes='' one others before waited
	leases 4s 12s
	for i in 1 2 3 4 5; do
		echo x > "$d/$i"
		nodes+=" $(stat -c %i "$d/$i")"
	done
	cachers 1 one
	one=$!
	cachers 19 others
	others=$!
	wait_until "one caches" all_cache 1 one
	wait_until "the others cache" all_cache 19 others
	seconds 3 others
	before=$((writes < 114 ? writes : 114)) # more were late ones
	wait_until "one has leave for a while" has_leave 2500
	kill -STOP $one
	i=$(lines others)
	wait_until "they wait no more" wait_no_more $((i + 3))
	waited=$(tail -n +$i "$work/others" | awk '$2 > max { max = $2 } END { print max }')
	seconds 3 others
	say "$before writes in 3 s; one is frozen: a wait of $waited ms, then $writes writes"
	[ "$waited" -gt 500 ] # of the leave that it had, a second ago at most
	[ "$waited" -lt 8000 ]
	[ $((writes * 100)) -ge $((before * 95)) ]
	[ "$took" -lt 1000 ] # nobody waits for a lease any more
	i=$(lines one)
	kill -CONT $one
	wait_until "it writes again" writes_again $((i + 1))
	kill $one $others
	wait $one $others
	is "$(cat "$work/one.log" "$work/others.log")" ""
}

# The end of a session waits for the cache lease of its mount, and its operator for that. When the
# master that has the command stands still it is sent to the next one.
case_an_operator_waits() {
	local frozen ends still destroys patience=40
	leases 5s 12s
	anew
	echo x > "$d/f"
	frozen=$(daemon_of "$m2")
	ends=$(session "$m2")
	wait_until "it caches" caches "$m2" "${d/$m/$m2}/f"
	kill -STOP "$frozen"
	cell_ctl session destroy "$ends" 2> "$work/err" &
	destroys=$!
	pause_s 1
	not gone $destroys
	still=$(replica "$(master)")
	kill -STOP "$still"
	wait_until "it is done" gone $destroys
	kill -CONT "$still" "$frozen"
	cat "$work/err"
	wait $destroys
	wait_until "there is a new session" is_in_state "$m2" safe
}

case_down() {
	limit 10 umount "$m" "$m2"
	down
}

run_cases
