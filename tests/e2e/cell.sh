#!/bin/bash
# Three replicas that agree: two mounts, a master that is killed and frozen, sessions that survive.
ON_DISK=yes
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_two_mounts() {
	up_of_three
	mount_second 2> "$work/second"
	mkdir "$m/d"
	echo one > "$m/d/f"
	is "$(cat "$m2/d/f")" one
	echo two > "$m2/d/f"
	is "$(cat "$m/d/f")" two
	exec 9<> "$m/d/f"
	flock 9
	exits 1 limit 5 flock -n "$m2/d/f" true
	exec 9>&-
	limit 5 flock "$m2/d/f" true # a close does not wait for the cell
}

# Tools see two files, where a bind mount shows them one.
case_the_second_mount_is_warned_of() {
	is "$(wc -l < "$work/second")" 1
	mkdir "$work/bound"
	eval "$(sed -n "s|.*elsewhere: \(.*\) $m2\$|\1 $work/bound|p" "$work/second")"
	refused "are the same file" mv "$m/d/f" "$work/bound/d/f"
	is "$(cat "$m/d/f")" two
	umount "$work/bound"
}

case_read_first_after_a_deletion_elsewhere() {
	echo kept > "$m2/gone"
	local line
	exec 9< "$m/gone"
	rm "$m2/gone"
	read -r line <&9
	is "$line" kept
	exec 9>&-
	[ ! -e "$m/gone" ]
}

# The write that exceeds the quota fails, not the close: on the mount that has used it up, and on
# the other one; all is as before then.
case_the_write_that_exceeds_the_quota() {
	local used
	used=$(cell_ctl status --limits |
		sed -nE 's/^quota_bytes +the cell +([0-9]+) .*/\1/p')
	mkdir "$m/q"
	echo before > "$m2/q/kept"
	cell_ctl cell set quota_bytes=$((used + 1000000)) > /dev/null
	wait_until "both know it" python3 - "$m/q" "$m2/q" <<-'P'
		import errno, os, sys
		told = 0
		for directory in sys.argv[1:]:
		    for n in range(100):
		        f = os.open("%s/%d" % (directory, n), os.O_WRONLY | os.O_CREAT)
		        try:
		            os.write(f, b"x" * 100000)
		        except OSError as e:
		            assert e.errno == errno.ENOSPC, e
		            told += 1
		            os.close(f)
		            break
		        try:
		            os.close(f)
		        except OSError as e:
		            assert e.errno == errno.ENOSPC, e
		            break
		    for name in os.listdir(directory):
		        if name != "kept":
		            os.unlink(directory + "/" + name)
		sys.exit(told < 2)
	P
	(
		for i in 1 2 3 4; do head -c 240000 /dev/zero > "$m2/q/$i"; done
		exits 1 sh -c 'head -c 240000 /dev/zero > "$1"' - "$m2/q/kept" 2> "$work/err"
		grep -q "No space left" "$work/err"
	)
	is "$(cat "$m/q/kept")" before
	cell_ctl cell set quota_bytes=1G > /dev/null
	rm -r "$m/q"
}

# The last close ends an ephemeral file, whatever another mount has called it since.
case_an_ephemeral_file_is_renamed_elsewhere() {
	exec 9> "$m/e"
	setfattr -n user.ls.ephemeral -v 1 "$m/e"
	exec 8> "$m/over"
	setfattr -n user.ls.ephemeral -v 1 "$m/over"
	mv "$m2/e" "$m2/e2"
	mv "$m2/e2" "$m2/over"
	exec 8>&-
	limit 5 ls "$m2/over"
	exec 9>&-
	wait_until "it is gone" test ! -e "$m2/over"
	exec 9> "$m/e"
	setfattr -n user.ls.ephemeral -v 1 "$m/e"
	exec 8< "$m2/e"
	mv "$m/e" "$m/e2"
	exec 9>&-
	limit 5 ls "$m2/e2"
	exec 8<&-
	wait_until "it is gone" test ! -e "$m/e2"
}

# It stays for the mount that marks it, and for all that open it later; who opened it before
# elsewhere holds a deleted file.
case_a_file_that_two_mounts_have_open_becomes_ephemeral() {
	local line
	exec 9> "$m/both"
	setfattr -n user.ls.ephemeral -v 1 "$m/both"
	is "$(attribute ephemeral "$m2/both")" 1
	exec 8< "$m2/both"
	exec 9>&-
	limit 5 ls "$m2/both"
	exec 8<&-
	wait_until "it is gone" test ! -e "$m/both"
	echo x > "$m/both"
	exec 9<> "$m/both"
	exec 8< "$m2/both"
	setfattr -n user.ls.ephemeral -v 1 "$m/both"
	exec 9>&-
	wait_until "it is gone" test ! -e "$m/both"
	read -r line <&8
	is "$line" x
	exec 8<&-
}

case_count_on_two_mounts_while_the_master_dies() {
	echo 0 > "$m/count"
	"$TOOLS/stress" count "$m/count" 4 100 &
	local one=$! two
	"$TOOLS/stress" count "$m2/count" 4 100 &
	two=$!
	local victim round
	for round in 1 2; do
		victim=$(master)
		kill_replica "$victim"
		wait_until "another master" another_master "$victim"
		start_replica "$victim"
	done
	wait $one
	wait $two
	is "$(cat "$m2/count")" 800
}

case_a_process_killed_frees_at_once() {
	rm -f "$work/held"
	bash -c "exec 9<> '$m/l'; flock 9; touch '$work/held'; exec tail -f /dev/null" &
	local holder=$!
	wait_until "it holds the lock" test -e "$work/held"
	kill -9 $holder
	limit 5 flock "$m2/l" true
}

case_a_mount_killed_leaves_its_locks_delayed() {
	local second
	second=$(daemon_of "$m2")
	umount "$m2"
	wait_until "the second mount has left" gone "$second"
	leases 2s 4s
	mount_second lock_delay=2
	second=$(daemon_of "$m2")
	exec 9<> "$m2/l2"
	flock 9
	exec 8> "$m2/e"
	setfattr -n user.ls.ephemeral -v 1 "$m2/e"
	exec 7> "$m/marked"
	setfattr -n user.ls.ephemeral -v 1 "$m/marked"
	exec 6< "$m2/marked"
	exec 7>&-
	limit 5 ls "$m/marked"
	kill -9 "$second"
	exec 6<&- 8>&- 9>&-
	is "$(attribute lock "$m/l2")" exclusive
	limit 5 ls "$m/marked"
	wait_until "its session has expired" session_expired
	wait_until "its file is gone" eval "[ ! -e '$m/e' ]"
	wait_until "so is one that was marked here" eval "[ ! -e '$m/marked' ]"
	limit 20 flock "$m/l2" true
	umount -l "$m2"
}

session_expired() { [[ $(attribute lock "$m/l2") == delayed* ]]; }

case_without_a_majority_calls_wait() {
	local i others=
	echo kept > "$m/kept"
	for i in 1 2 3; do [ "$i" = "$(master)" ] || others="$others $i"; done
	for i in $others; do kill -STOP "$(replica "$i")"; done
	bash -c "echo late > '$m/late'" &
	local writer=$!
	wait_until "the session is in jeopardy" grep -q jeopardy "$m/.cell/status"
	not timeout -s INT 2 cat "$m/kept" || return 1
	exits 1 limit 20 "$LSCTL" status --cell "$cell/dc1.conf" --key "$cell/admin.key"
	for i in $others; do kill -CONT "$(replica "$i")"; done
	wait $writer
	is "$(cat "$m/late")" late
	cell_ctl cell set session_lease=12s > /dev/null
}

case_all_killed_at_once() {
	local i
	for i in 1 2 3; do kill -9 "$(replica $i)"; done
	for i in 1 2 3; do start_replica $i; done
	is "$(limit 40 cat "$m/kept")" kept
}

lists() { [ "$(tail -n 1 "$work/listers" | cut -d ' ' -f 2)" -gt "$1" ]; }

# A session with 128 listings of thousands of names in flight is in nobody's way: another one has
# its turn, its KeepAlives are answered in time, and so are heartbeats, or there were another epoch.
case_listings_cost_no_mastership() {
	local before rest i
	cell_ctl cell set master_lease=2s > /dev/null # the machine may have other things to do
	"$TOOLS/writers" "$cell/dc1.conf" "$cell/admin.key" 128 4000 1 list \
		> "$work/listers" 2> "$work/listers.log" &
	local listers=$!
	wait_until "pages are read" lists 300
	before=$(epoch)
	rest=$(cut -d ' ' -f 2 "$work/listers" | tail -n 1)
	for i in $(seq 20); do
		limit 10 bash -c "echo $i > '$m/kept'"
		keepalives_are_in_time
		is "$(epoch)" "$before"
	done
	wait_until "more pages are read" lists $((rest + 1500))
	is "$(epoch)" "$before"
	kill $listers
	wait $listers
	is "$(cat "$work/listers.log")" ""
	# shellcheck disable=SC2012 # names are counted
	[ "$(ls -f "$m" | wc -l)" -gt 4000 ]
	steps_are_short
	cell_ctl cell set master_lease=500ms > /dev/null
	echo kept > "$m/kept"
}

case_status_and_down() {
	limit 20 "$LSCTL" status --cell "$cell/dc1.conf" --key "$cell/admin.key" | grep -q master
	down
	not mountpoint -q "$m"
	local i
	for i in 1 2 3; do has_ended $i; done
	up_of_three
	is "$(cat "$m/kept")" kept
	down
}

run_cases
