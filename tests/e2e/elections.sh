#!/bin/bash
# Elections by lsctl elect on two mounts, while the master is killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

scratch="starts err"

case_up() {
	up_of_three cache_lease=1s session_lease=2s
	mount_second
}

elect() { limit 60 "$LSCTL" elect "$@"; }
nobody() { exits 1 elect --show "$1" > "$work/shown" 2> "$work/err" && [ ! -s "$work/shown" ]; }
someone() { elect --show "$1" > "$work/shown" 2> "$work/err"; }

case_the_primary_is_shown_while_there_is_one() {
	local theirs=$m2/${d##*/}
	nobody "$d/primary"
	is "$(elect "$d/primary" db1 -- "$LSCTL" elect --show "$theirs/primary")" db1
	is "$(cat "$theirs/primary")" db1
	nobody "$theirs/primary"
	exits 2 elect --show "$d/primary" -- true 2> "$work/err"
	exits 1 elect --show "$work" 2> "$work/err"
}

# Between its lock and its name the new primary has the file of the former one.
case_the_former_one_is_not_shown() {
	local theirs=$m2/${d##*/}
	elect "$d/primary" former -- true
	limit 20 flock "$d/primary" "$LSCTL" elect --show "$theirs/primary" > "$work/shown" \
		2> "$work/err" && return 1
	is "$(cat "$work/shown")" ""
	is "$(limit 20 flock "$d/primary" sh -c \
		'echo next > "$1" && "$2" elect --show "$3"' sh "$d/primary" "$LSCTL" \
		"$theirs/primary")" next
}

case_the_name_is_cleared() {
	elect --clear "$d/primary" db1 -- grep -q db1 "$d/primary"
	is "$(stat -c %s "$m2/${d##*/}/primary")" 0
	exits 7 elect --clear "$d/primary" db1 -- sh -c 'exit 7'
	is "$(stat -c %s "$m2/${d##*/}/primary")" 0
}

case_a_fail_over_in_the_middle() {
	local theirs=$m2/${d##*/} old one two
	mkfifo "$work/resigns"
	"$LSCTL" elect "$d/primary" one -- cat "$work/resigns" &
	one=$!
	wait_until "there is a primary" someone "$theirs/primary"
	"$LSCTL" elect "$theirs/primary" two -- sleep 60 &
	two=$!
	old=$(master)
	kill_replica "$old"
	is "$(elect --show "$theirs/primary")" one
	start_replica "$old"
	: > "$work/resigns"
	wait $one
	wait_until "there is the next one" shows_two "$d/primary"
	kill $two
	wait $two || :
}
shows_two() { [ "$(elect --show "$1" 2> "$work/err")" = two ]; }

# Held up between its lock and its name, it is deposed: the name of the next primary stays.
case_one_that_is_deposed_before_it_writes() {
	local theirs=$m2/${d##*/} deposed holder tracer
	touch "$d/primary"
	exec 9<> "$theirs/primary"
	flock 9
	"$LSCTL" elect "$d/primary" deposed -- true 2> "$work/err" &
	deposed=$!
	wait_until "it waits" has_waiter "$theirs/primary"
	holder=$(pgrep -P $deposed)
	strace -q -o "$work/traced" -e inject=ioctl:delay_enter=60s:when=1 -p "$holder" &
	tracer=$!
	wait_until "it is traced" grep -q '^TracerPid:.[1-9]' "/proc/$holder/status"
	flock -u 9
	wait_until "it has the file open to write" has_open_twice "$holder" "$d/primary"
	cell_ctl unlock "$d/primary"
	elect "$theirs/primary" next -- true
	kill $tracer
	exits 1 wait $deposed
	grep -q "cannot write the name" "$work/err"
	is "$(cat "$theirs/primary")" next
}
has_waiter() { [ -n "$(attribute lock_waiters "$1" 2> "$work/none")" ]; }
has_open_twice() { [ "$(readlink "/proc/$1/fd/"* | grep -cxF "$2")" = 2 ]; }

# The check of the primary fails behind a fail-over: it resigns, and the other mount has the next.
case_a_check_that_fails() {
	local theirs=$m2/${d##*/} old one two
	touch "$work/healthy"
	"$LSCTL" elect --check "test -e $work/healthy" --check-every 0.5 --check-fails 2 \
		"$d/primary" one -- sleep 60 2> "$work/err" &
	one=$!
	wait_until "there is a primary" someone "$theirs/primary"
	"$LSCTL" elect "$theirs/primary" two -- sleep 60 &
	two=$!
	old=$(master)
	kill_replica "$old"
	rm "$work/healthy"
	exits 76 wait $one
	grep -q "the check has failed" "$work/err"
	wait_until "there is the next one" shows_two "$d/primary"
	start_replica "$old"
	kill $two
	wait $two || :
}

# An operator ends the session: the command is killed, and started again when the lock is had again.
case_a_command_that_is_started_again() {
	local session restarted
	session=$(sed -n 's/^session: //p' "$m/.cell/status")
	"$LSCTL" elect --restart --lock-delay 1 "$d/primary" one -- \
		sh -c 'echo >> "$1"; exec sleep 60' sh "$work/starts" 2> "$work/err" &
	restarted=$!
	wait_until "it runs" has_started 1
	cell_ctl session destroy "$session"
	wait_until "it runs again" has_started 2
	is "$(elect --show "$m2/${d##*/}/primary")" one
	kill $restarted
	wait $restarted || :
	grep -q "the lock was lost" "$work/err"
}

# What has become another user outlives the lock: the next one waits for its end, and a signal does
# not.
case_a_former_command_of_another_user() {
	local m3=$work/mnt3 restarted
	mkdir "$m3"
	chmod 711 "$work"
	install -m 4755 "$(command -v setpriv)" "$work/become"
	limit 30 "$LSFS" -o "key=$cell/admin.key,allow_other" "$conf" "$m3"
	setpriv --reuid=65534 --regid=65534 --clear-groups \
		"$LSCTL" elect --restart --lock-delay 1 "$m3/${d##*/}/primary" one -- \
		"$work/become" --reuid=0 sh -c 'echo $$ >> "$0"; exec sleep 60' "$work/starts" \
		2> "$work/err" &
	restarted=$!
	wait_until "it runs" has_started 1
	cell_ctl session destroy "$(session "$m3")"
	wait_until "the lock is lost" grep -q "the lock was lost" "$work/err"
	pause_s 3
	has_started 1
	kill "$(cat "$work/starts")"
	wait_until "it runs again" has_started 2
	cell_ctl session destroy "$(session "$m3")"
	wait_until "it waits again" says_twice "not started again"
	kill $restarted
	wait_until "it has ended" gone $restarted
	exits 143 wait $restarted
	kill "$(tail -n 1 "$work/starts")"
	umount "$m3"
	rmdir "$m3"
}
says_twice() { [ "$(grep -c "$1" "$work/err")" = 2 ]; }

# A hangup that it takes for an order to read its configuration again does not end it; one that does
# ends the election.
case_a_hangup_that_is_survived() {
	local restarted
	"$LSCTL" elect --restart --lock-delay 1 "$d/primary" one -- bash -c '
		trap "echo > \"\$0.reloaded\"" HUP
		echo >> "$0"
		while :; do read -r -t 0.05 <> "$1"; done' "$work/starts" "$work/never" &
	restarted=$!
	wait_until "it runs" has_started 1
	kill -HUP $restarted
	wait_until "it has reloaded" test -e "$work/starts.reloaded"
	cell_ctl session destroy "$(session "$m")"
	wait_until "it runs again" has_started 2
	kill $restarted
	exits 143 wait $restarted
	"$LSCTL" elect --restart "$d/primary" two -- sleep 60 &
	restarted=$!
	wait_until "there is the next one" shows_two "$d/primary"
	kill -HUP $restarted
	exits 129 wait $restarted
}

# So that one host after the other has its turn.
case_a_command_that_ends_is_started_again() {
	local one two
	"$LSCTL" elect --restart "$d/primary" one -- \
		sh -c 'echo one >> "$1"; exit 3' sh "$work/starts" &
	one=$!
	"$LSCTL" elect --restart --lock-delay 1 "$m2/${d##*/}/primary" two -- \
		sh -c 'echo two >> "$1"' sh "$work/starts" &
	two=$!
	wait_until "each has run twice" have_had_turns
	kill $one $two
	wait $one || :
	wait $two || :
	exits 127 elect --restart "$d/primary" -- /no/such/program 2> "$work/err"
}
have_had_turns() {
	[ "$(grep -c one "$work/starts")" -ge 2 ] && [ "$(grep -c two "$work/starts")" -ge 2 ]
}

# stands_by: two waits behind one, which resigns when two is to go on.
stands_by() {
	[ -p "$work/resigns" ] || mkfifo "$work/resigns"
	"$LSCTL" elect "$d/primary" one -- cat "$work/resigns" &
	one=$!
	wait_until "there is a primary" someone "$d/primary"
	"$LSCTL" elect --restart "$m2/${d##*/}/primary" two -- sleep 60 2> "$work/err" &
	two=$!
	wait_until "it waits" has_waiter "$d/primary"
}
follows() {
	wait_until "it waits again" has_waiter "$d/primary"
	: > "$work/resigns"
	wait $one
	wait_until "there is the next one" shows_two "$d/primary"
	kill $two
	exits 143 wait $two
}
tells() { wait_until "it tells: $1" grep -q "$1; tries again" "$work/err"; }

case_no_file_is_made_where_no_cell_is_mounted() {
	mkdir "$work/bare"
	is "$("$LSCTL" elect "$work/bare/primary" one -- true 2>&1 || echo "exit $?")" \
		"lsctl: $work/bare/primary: not on a mounted cell
exit 1"
	is "$(ls -A "$work/bare")" ""
}

case_a_standby_whose_session_ends() {
	local one two
	stands_by
	cell_ctl session destroy "$(session "$m2")"
	tells "cannot lock: Stale file handle"
	follows
}

case_a_standby_whose_mount_ends() {
	local one two daemon
	stands_by
	daemon=$(daemon_of "$m2")
	kill -9 "$daemon"
	tells "cannot lock: .*"
	wait_until "the daemon has ended" gone "$daemon"
	umount -l "$m2"
	tells "not on a mounted cell"
	is "$(ls -A "$m2")" ""
	mount_second grace=1
	follows
}

# The last look at the session, before the command is run, finds no daemon.
case_a_mount_that_ends_under_a_new_primary() {
	local theirs=$m2/${d##*/} daemon holder tracer waits
	exec 9<> "$d/primary"
	flock 9
	"$LSCTL" elect "$theirs/primary" two -- touch "$work/ran" 2> "$work/err" &
	waits=$!
	wait_until "it waits" has_waiter "$d/primary"
	holder=$(pgrep -P $waits)
	strace -q -o "$work/traced" -e trace=fgetxattr \
		-e inject=fgetxattr:delay_enter=60s:when=6 -p "$holder" &
	tracer=$!
	wait_until "it is traced" grep -q '^TracerPid:.[1-9]' "/proc/$holder/status"
	flock -u 9
	wait_until "it looks" grep -q "user.ls.status" "$work/traced"
	daemon=$(daemon_of "$m2")
	kill -9 "$daemon"
	wait_until "the daemon has ended" gone "$daemon"
	kill $tracer
	wait_until "it gives up" gone $waits
	exits 75 wait $waits
	not test -e "$work/ran"
	umount -l "$m2"
	mount_second grace=1
}

# As the first process of a container, whom the kernel spares the default action of signals.
case_a_standby_that_is_process_1() {
	local standby signal
	exec 9<> "$d/primary"
	flock 9
	for signal in TERM HUP; do
		unshare --fork --pid --kill-child "$LSCTL" elect --restart "$d/primary" -- true &
		standby=$!
		wait_until "it waits" has_waiter "$d/primary"
		kill -WINCH "$(pgrep -P $standby)"
		kill -$signal "$(pgrep -P $standby)"
		wait_until "it has ended" gone $standby
		exits $((128 + $(kill -l $signal))) wait $standby
		wait_until "it waits no more" not has_waiter "$d/primary"
	done
}

# It is longer than the grace period of the mount.
case_an_outage() {
	local primary r
	"$LSCTL" elect --restart --lock-delay 1 "$m2/${d##*/}/primary" two -- \
		sh -c 'echo >> "$1"; exec sleep 60' sh "$work/starts" 2> "$work/err" &
	primary=$!
	wait_until "it runs" has_started 1
	for r in 1 2 3; do kill_replica $r; done
	tells "Input/output error"
	is "$(grep -c "tries again" "$work/err")" 1
	start_missing
	wait_until "it runs again" has_started 2
	kill $primary
	exits 143 wait $primary
}

# As nohup starts it: the hangup ends neither.
case_a_hangup_that_is_ignored() {
	local ignores
	mkfifo "$work/hangs"
	(
		trap "" HUP
		exec "$LSCTL" elect --restart "$d/primary" -- \
			sh -c 'echo >> "$1"; read -r line < "$2"' sh "$work/starts" "$work/hangs"
	) &
	ignores=$!
	wait_until "it runs" has_started 1
	kill -HUP $ignores
	limit 10 sh -c 'echo > "$1"' sh "$work/hangs"
	wait_until "it runs again" has_started 2
	kill $ignores
	exits 143 wait $ignores
}

has_started() { [ "$(wc -l < "$work/starts")" = "$1" ]; }

case_down() { down; }

run_cases
