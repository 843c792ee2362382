#!/bin/bash
# How much one principal that floods a cell slows another one: make flood [ROUNDS=10]. A native
# client writes a small file, one write after the other, and is alone and beside the flood in turn,
# for 4 s each; SESSIONS=10 sessions of the other principal have as many writes and reads under way
# as they may (tests/hostile/hostile.c); with MANNER=parking they wait for locks, with
# MANNER=pulsing they send KeepAlives, with MANNER=knocking they prove their key and come anew. The
# cell is three processes on this machine, the flood has the lowest priority for its processors.
# Prints the writes of each round with the time that each took, and the medians over all rounds. A
# machine that has other things to do shows these, too.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

ROUNDS=${ROUNDS:-10}
PHASE=4 # seconds, behind one more, in which what was begun before comes to an end

writes() { tail -n 1 "$work/writers" | cut -d ' ' -f 2; }

# phase SIGNAL: with the flood stopped or going on, the writes a second, and the time of one in us:
# the median, and what 99 of 100 take at most, each on the average of the seconds.
phase() {
	local from lines
	kill -"$1" "$flood"
	pause_s 1
	from=$(writes)
	lines=$(wc -l < "$work/writers")
	pause_s $PHASE
	tail -n "+$((lines + 1))" "$work/writers" |
		awk -v from="$from" '{ n = $2; m += $4; p += $5 }
		END { printf "%d %d %d\n", (n - from) / NR, m / NR, p / NR }'
}

# median EXPRESSION: of this one over the rounds.
median() {
	awk "{ print $1 }" "$work/rounds" | sort -g |
		awk '{ at[NR] = $1 } END { printf "%.1f", at[int((NR + 1) / 2)] }'
}

case_flood() {
	local nodes writers alone beside
	up_of_three master_lease=3s
	"$LSCTL" key generate "$work/mallory.key" mallory > "$work/mallory.pub"
	cell_ctl principal add mallory "$(cat "$work/mallory.pub")" > /dev/null
	: > "$m/ground"
	nodes=$(stat -c %i "$m/ground")
	"$TOOLS/writers" "$cell/dc1.conf" "$cell/admin.key" 1 1 100 > "$work/writers" &
	writers=$!
	HALF=0 SESSIONS=${SESSIONS:-10} MANNER=${MANNER:-flooding} nice -n 19 \
		"$build/tests/hostile/hostile" "$cell/dc1.conf" "$work/mallory.key" \
		$((ROUNDS * 2 * (PHASE + 1) + 60)) - "$(master)" "$nodes" > "$work/said" &
	flood=$!
	wait_until "there are writes" eval '[ "0$(writes)" -gt 0 ]'
	for _ in $(seq "$ROUNDS"); do
		alone=$(phase STOP)
		beside=$(phase CONT)
		echo "$alone $beside" >> "$work/rounds"
		echo "# writes a second, p50 and p99 in us: $alone alone, $beside beside it" >&3
	done
	kill $writers
	kill -9 "$flood"
	echo "# slower by $(median '($1 - $4) * 100 / $1') %, one write by" \
		"$(median '$5 / $2') times (p50), $(median '$6 / $3') times (p99)" >&3
	down
}

exec 3>&1
run_cases
