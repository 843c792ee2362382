#!/bin/bash
# Three replicas and two mounts on machines of their own, while the network between them is cut in
# every way and processes are frozen: one side goes on, the other waits, nobody sees anything old,
# and nothing that was acknowledged is lost.
MOUNTS=2
SETTINGS="cache_lease=2s session_lease=4s"
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/netns.sh"

m1=$work/m1 m2=$work/m2

# paused MS: the steady writer never waited longer than that.
paused() {
	end_writer
	[ "$longest" -le "$1" ]
}
goes_on() { writes_go_on 100; }

case_up() {
	up grace=2,lock_delay=1
}

# The master's machine is lost together with a mount's, which has cached something: that mount is
# waited for, for a cache lease (2 s).
case_a_lost_cache_costs_a_cache_lease() {
	local old
	echo seen > "$m1/f"
	is "$(cat "$m1/f")" seen
	old=$(master)
	steadily "$m2"
	isolate "r$old" c1
	wait_until "another master" new_master "$old"
	goes_on
	heal
	wait_until "all are in step" in_step_under_load
	paused 6500
	safe 1
}

# An operator's machine that does not reach the master says so, and not that there is none.
case_only_the_operator_does_not_reach_the_master() {
	local old
	old=$(master)
	part "r$old" o
	operate status > "$work/out" || :
	on o nft flush set ip cuts lost
	heal
	grep -q "^problem .*master cannot be reached from here: it is replica $old for 2 of 3" \
		"$work/out"
	is "$(master)" "$old"
}

# says CODE TEXT: so `status --check` says it.
says() {
	local rc=0
	operate status --check > "$work/out" || rc=$?
	[ $rc = "$1" ] && grep -q "^$2" "$work/out"
}

# Two followers that do not reach each other: nothing is wrong yet, and the next failure stops the
# cell.
case_two_followers_do_not_reach_each_other() {
	local old a b pair
	old=$(master)
	a=$((old % 3 + 1)) b=$(((old + 1) % 3 + 1))
	wait_until "all is well" says 0 good
	part r$a r$b
	pair="replicas $((a < b ? a : b)) and $((a < b ? b : a)): do not reach each other"
	patience=40 wait_until "they miss each other" says 1 "degraded: $pair"
	operate doctor > "$work/out" || :
	grep -q "^lsctl: $pair.*: see whether the network" "$work/out"
	is "$(master)" "$old"
	heal
	wait_until "all is well again" says 0 good
}

# connected MACHINE N: it has a connection to replica N.
connected() {
	on "$1" grep -q " $(printf %02X "$2")004D0A:$(printf %04X 7077) 01 " /proc/net/tcp
}

# A mount's idle second connection, on which it hears of a new master, ends without a word.
case_the_standby_falls_silent() {
	local old standby other begin
	old=$(master)
	for standby in 1 2 3; do
		if [ "$standby" != "$old" ] && connected c1 "$standby"; then break; fi
	done
	other=$((6 - old - standby))
	not connected c1 "$other"
	begin=${EPOCHREALTIME/./}
	part "r$standby" c1
	wait_until "another one is connected" connected c1 "$other"
	[ $((${EPOCHREALTIME/./} - begin)) -lt 9000000 ]
	not connected c1 "$standby"
	heal
}

# another_takes_over FAULT...: there is another master, and writes go on.
another_takes_over() {
	local old
	old=$(master)
	steadily "$m1"
	"$@"
	wait_until "another master" new_master "$old"
	goes_on
	heal
	wait_until "all are in step" in_step_under_load
	paused 8000
}

# nothing_stops CHECK FAULT...: writes go on, and the check holds meanwhile.
nothing_stops() {
	steadily "$m1"
	"${@:2}"
	goes_on
	goes_on
	$1
	heal
	wait_until "all are in step" in_step_under_load
	paused 8000
}
is_master() { is "$(master)" "$1"; }

# What sends and does not receive: at most one lease of a master at a time, and it gives up.
case_the_master_receives_nothing() {
	local old
	old=r$(master)
	another_takes_over lose "$(others "$old" c1 c2)" "$old"
}

# What receives and can't send.
case_the_master_is_not_heard() {
	local old
	old=r$(master)
	# shellcheck disable=SC2046 # words
	another_takes_over lose "$old" $(others "$old" c1 c2)
}

# A tunnel that loses large packets, and says nothing: grants of the lease arrive, entries do not.
case_the_masters_large_packets_are_lost() {
	local old writer
	old=$(master)
	steadily "$m1"
	# shellcheck disable=SC2046 # words
	narrow "r$old" $(others "r$old" c1 c2)
	head -c 8000 /dev/zero > "$m2/large" &
	writer=$!
	wait_until "another master" new_master "$old"
	wait $writer
	is "$(stat -c %s "$m2/large")" 8000
	goes_on
	heal
	wait_until "all are in step" in_step_under_load
	paused 20000
}

# A follower that hears nobody stands for election in vain: the others have given their lease.
case_a_follower_receives_nothing() {
	local old follower
	old=$(master)
	follower=r$((old % 3 + 1))
	nothing_stops "is_master $old" lose "$(others "$follower" c1 c2)" "$follower"
}

# Two replicas don't reach each other, the third one both: somebody is master, and goes on.
case_a_bridge_between_two() {
	local old
	old=$(master)
	nothing_stops has_master part "r$old" "r$((old % 3 + 1))"
}

# reads_late: in the background, what the first mount shows sooner or later.
reads_late() {
	: > "$work/read"
	limit 20 cat "$m1/f" >> "$work/read" &
}

# The minority side: no write, no read of what may be old; calls wait and go on when it is healed.
case_a_minority_waits() {
	local old follower reader
	old=$(master)
	follower=$((old % 3 + 1))
	echo old > "$m1/f"
	is "$(cat "$m1/f")" old
	isolate "r$follower" c1
	limit 20 bash -c "echo new > '$m2/f'"
	reads_late
	reader=$!
	steadily "$m2"
	goes_on
	is "$(cat "$work/read")" ""
	heal
	wait $reader
	is "$(cat "$work/read")" new
	paused 8000
}

# A write waits for a client that has the file in its cache and can't be reached, until that
# client's lease is over; what the client asks for meanwhile waits until it is back.
case_a_mount_is_cut_off() {
	local reader
	echo old > "$m1/f"
	is "$(cat "$m1/f")" old
	isolate c1
	limit 15 bash -c "echo new > '$m2/f'"
	reads_late
	reader=$!
	is "$(cat "$m2/f")" new
	is "$(cat "$work/read")" ""
	heal
	wait $reader
	is "$(cat "$work/read")" new
	safe 1
}

not_connected() { ! connected "$@"; }

# A mount's connection breaks again and again as it would be told of a change on it: it goes on with
# nothing that it had cached before.
case_a_mount_is_not_told() {
	local i writer asker now
	now=$(master)
	echo 0 > "$m1/f"
	for i in 1 2 3 4; do
		is "$(limit 20 cat "$m1/f")" $((i - 1))
		break_off c1 r1 r2 r3
		limit 20 test -e "$m1/unknown.$i" &
		asker=$!
		limit 20 bash -c "echo $i > '$m2/f'" &
		writer=$!
		wait_until "it is not connected" not_connected c1 "$now"
		heal
		wait $writer
		is "$(limit 20 cat "$m1/f")" "$i"
		exits 1 wait $asker
	done
	wait_until "it is back" safe 1
}

# Reads of the first word of a file as fast as it goes, until an error ends it, or a minute: a line
# "BEGIN WORD" each, the time in milliseconds, and last the error's name.
reads() {
	python3 - "$1" "$2" <<-'P'
		import errno, os, sys, time
		with open(sys.argv[2], "w") as log:
		    end = time.monotonic() + 60
		    while time.monotonic() < end:
		        begin = time.monotonic_ns() // 1000000
		        try:
		            fd = os.open(sys.argv[1], os.O_RDONLY)
		            word = os.read(fd, 100).decode().strip()
		            os.close(fd)
		        except OSError as e:
		            log.write(f"{begin} {errno.errorcode[e.errno]}\n")
		            break
		        log.write(f"{begin} {word}\n")
	P
}
now_ms() { python3 -c 'import time; print(time.monotonic_ns() // 1000000)'; }

# The master is cut off together with the client that it serves: neither may answer from what they
# still have once the others go on. A lock that is taken there meanwhile has one holder.
case_the_master_isolated_with_its_client() {
	local old reader locker fence
	old=$(master)
	echo old > "$m1/f"
	exec 9<> "$m1/lock"
	flock 9
	fence=$(attribute fence "$m1/lock")
	mkfifo "$work/release"
	limit 60 flock "$m2/lock" bash -c "
		getfattr --only-values --absolute-names -n user.ls.fence '$m2/lock' > '$work/fence'
		touch '$work/held'
		read -r < '$work/release'" &
	locker=$!
	reads "$m1/f" "$work/reads" &
	reader=$!
	wait_until "there are reads" test -s "$work/reads"
	isolate "r$old" c1
	wait_until "another master" new_master "$old"
	limit 30 bash -c "echo new > '$m2/f'"
	local written
	written=$(now_ms)
	bash -c "echo lost > '$m1/f2'" 2> "$work/err" || :
	is "$(limit 10 cat "$m2/f")" new
	wait $reader
	tail -n 1 "$work/reads" | grep -qE " (EIO|ESTALE)$"
	awk -v t="$written" '$1 > t && $2 == "old"' "$work/reads" > "$work/stale"
	is "$(cat "$work/stale")" ""
	wait_until "the lock has moved" test -e "$work/held"
	[ "$(cat "$work/fence")" -gt "$fence" ]
	heal
	wait_until "the first mount is back" safe 1
	is "$(limit 20 cat "$m1/f")" new
	refused "Stale file handle" flock -n 9
	exits 1 limit 5 flock -n "$m1/lock" true
	limit 10 tee "$work/release" <<< go
	wait $locker
	exec 9>&-
	limit 5 flock "$m1/lock" true # a close does not wait for the cell
	wait_until "all replicas are in step" in_step
}
safe() { [ "$(told "$1" state)" = safe ]; }

# A master and a client that it serves are frozen beyond its lease, while the others write. When the
# master awakes it finds what the client has asked for meanwhile: the answer is the new.
case_a_frozen_master_and_its_client() {
	local old reader
	old=r$(master)
	echo old > "$m1/f"
	is "$(cat "$m1/f")" old
	freeze "$old"
	freeze c1
	limit 30 bash -c "echo new > '$m2/f'"
	limit 30 cat "$m1/f" > "$work/read" &
	reader=$!
	thaw c1
	thaw "$old"
	wait $reader
	is "$(cat "$work/read")" new
	wait_until "all replicas are in step" in_step
}

# Takes the lock and notes its token; when it is told to, notes what the descriptor is good for.
hold() {
	python3 - "$m1/guarded" "$work" <<-'P'
		import errno, fcntl, os, sys
		path, work = sys.argv[1:]
		def outcome(call):
		    try: return str(call())
		    except OSError as e: return errno.errorcode[e.errno]
		fd = os.open(path, os.O_RDWR | os.O_CREAT)
		fcntl.flock(fd, fcntl.LOCK_EX)
		with open(work + "/token", "w") as f:
		    f.write(os.getxattr(fd, "user.ls.fence").decode())
		open(work + "/thawed").read()
		calls = (lambda: os.getxattr(fd, "user.ls.fence"), lambda: os.pwrite(fd, b"x", 0),
		         lambda: os.pread(fd, 9, 0), lambda: fcntl.flock(fd, fcntl.LOCK_EX))
		print(*[outcome(call) for call in calls])
	P
}

# The holder's machine is frozen until its lock has moved: its token is the lower one and can't be
# had any more, its writes are refused.
case_a_frozen_holder() {
	local holder later
	mkfifo "$work/thawed"
	hold > "$work/outcomes" &
	holder=$!
	wait_until "it holds the lock" test -s "$work/token"
	freeze "r$(master)"
	freeze c1
	later=$(limit 60 flock "$m2/guarded" \
		getfattr --only-values --absolute-names -n user.ls.fence "$m2/guarded")
	[ "$later" -gt "$(cat "$work/token")" ]
	for i in 1 2 3; do thaw "r$i"; done
	thaw c1
	limit 10 tee "$work/thawed" <<< thawed
	wait $holder
	grep -qxE 'E[A-Z]+ ESTALE ESTALE ESTALE' "$work/outcomes"
	wait_until "all replicas are in step" in_step
}

case_the_states_are_equal() {
	stop_mount 1
	stop_mount 2
	same_everywhere
}

run_cases
