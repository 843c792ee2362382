#!/bin/bash
# Three replicas on slow cables, and a client that writes far more at once than these carry: nobody
# else becomes master for that, and if the master dies just then there soon is another one.
MOUNTS=1
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"

command -v tc > /dev/null || skip_all "needs tc"

# slow RATE: what each machine sends leaves at that rate, behind a queue of at most 200 ms.
slow() {
	local machine
	for machine in $(machines); do
		tc -n "$machine" qdisc replace dev eth root tbf \
			rate "$1" burst 16kb latency 200ms || return 1
	done
}

epoch() { status | python3 -c 'import json, sys; print(json.load(sys.stdin)["epoch"])'; }

# One session with 64 writes of up to 64 KiB, and some of 256, under way all the time.
write_much() {
	run_on c1 "$work/writers.log" "$TOOLS/writers" "$conf" "$cell/admin.key" 64 64 65536 \
		> "$work/written"
	bytes=0
	wait_written 1
}
# wait_written BYTES: so many more.
wait_written() {
	bytes=$((bytes + $1))
	patience=180 wait_until "$bytes bytes are written" has_written $bytes
}
has_written() { [ "$(tail -n 1 "$work/written" | awk '{ print $3 + 0 }')" -ge "$1" ]; }
# No write has failed, was lost or was done twice.
end_writing() {
	kill -TERM "$(pid_of c1)"
	patience=60 wait_until "the writers have ended" gone "$(pid_of c1)"
	is "$(cat "$work/writers.log")" ""
}

case_up() {
	make_network && make_cell
	local i
	for i in 1 2 3; do start_replica $i; done
	wait_until "there is a master" has_master
}

under_load_at() {
	local before
	slow "$1"
	before=$(epoch)
	write_much
	wait_written "$2"
	end_writing
	is "$(epoch)" "$before"
}
case_load_at_20_mbit() { under_load_at 20mbit 6000000; }

# A KeepAlive waits neither for 4 MiB of the client's own requests, nor its answer for theirs.
case_a_short_session_at_5_mbit() {
	operate cell set cache_lease=3s
	operate cell set session_lease=3s
	under_load_at 5mbit 2000000
}

an_election_under_load_at() {
	local old begin took
	slow "$1"
	old=$(master)
	write_much
	wait_written 1000000
	begin=$(date +%s%N)
	kill_replica "$old"
	wait_until "another master" new_master "$old"
	took=$((($(date +%s%N) - begin) / 1000000))
	say "another master after $took ms"
	[ $took -le 9000 ] # three times what is promised
	wait_written 1000000
	end_writing
	start_replica "$old"
	wait_until "all are in step" in_step
}
case_an_election_under_load_at_20_mbit() { an_election_under_load_at 20mbit; }
case_an_election_under_load_at_5_mbit() { an_election_under_load_at 5mbit; }

case_the_states_are_equal() { same_everywhere; }

run_cases
