#!/bin/bash
# An operator releases a lock whose holder lives on.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three cache_lease=1s session_lease=2s
	mount_second
}

is_locked() { [ "$(attribute lock "$1")" = "$2" ]; }
# is_dead DESCRIPTOR
is_dead() { ! head -c 1 <&"$1" 2> "$work/err" && grep -q "Stale file handle" "$work/err"; }

# Both share it; the other one, and what the first has locked besides, stay.
case_one_of_two_holders() {
	local theirs=$m2/${d##*/} sequencer
	touch "$d/f" "$d/g"
	exec 7<> "$d/f" 8<> "$theirs/f" 9<> "$d/g"
	flock -s 7
	flock -s 8
	flock 9
	sequencer=$(attribute sequencer "$d/f")
	cell_ctl unlock "$d/f" "$(session "$m")"
	is "$(attribute lock "$theirs/f")" "shared 1"
	is "$(attribute lock "$theirs/g")" exclusive
	exits 1 "$LSCTL" check "$sequencer" > "$work/out"
	wait_until "the descriptor is dead" is_dead 7
	flock -u 8
	flock -u 9
	exec 7<&- 8<&- 9<&-
	cell_ctl unlock "$d/f" # nobody has it
	one_line 1 "No such file" "$LSCTL" unlock "$d/nothing"
}

# The cell is the one in which the path lies, whichever others there are: these may have a node of
# that number, too.
case_of_the_cell_of_the_path() {
	"$LSCTL" cell create other --dir "$work/other" --replica 127.0.0.1:7461 > "$work/out"
	exec 9<> "$d/f"
	flock 9
	one_line 1 "$d/f: is in the cell $(session_says cell "$m"), not in other" \
		"$LSCTL" --cell "$work/other/other.conf" --key "$cell/admin.key" unlock "$d/f"
	is "$(attribute lock "$d/f")" exclusive
	"$LSCTL" --key "$cell/admin.key" unlock "$d/f"
	wait_until "the descriptor is dead" is_dead 9
	exec 9<&-
}

case_a_command_is_told() {
	local theirs=$m2/${d##*/} path kind
	mkdir "$d/dir"
	for kind in file dir; do
		path=$d/$kind
		"$LSCTL" lock "$path" -- sleep 60 2> "$work/err-$kind" &
		local runs=$!
		wait_until "it has the lock" is_locked "$theirs/$kind" exclusive
		limit 60 "$LSCTL" lock "$theirs/$kind" -- echo next > "$work/out-$kind" &
		local waits=$!
		wait_until "another one waits" is_queued "$path" 1
		cell_ctl unlock "$path"
		exits 75 wait $runs
		wait $waits
		is "$(cat "$work/out-$kind")" next
		grep -q "an operator has released it" "$work/err-$kind"
	done
}
is_queued() { [ "$(attribute lock_waiters "$1" 2> "$work/none" | grep -c .)" -ge "$2" ]; }

case_the_delay_is_kept() {
	exec 9<> "$d/f"
	setfattr -n user.ls.lock_delay -v 2 "$d/f"
	flock 9
	cell_ctl unlock --keep-delay "$d/f"
	is "$(attribute lock "$d/f" | cut -d ' ' -f 1)" delayed
	exec 9<&-
	limit 20 flock "$m2/${d##*/}/f" true
}

# The mount is frozen while it is told, and there is another master when it goes on.
case_told_by_the_next_master() {
	local holder second old
	cell_ctl cell set session_lease=20s > "$work/out"
	second=$(pgrep -f -- "lsfs .*$m2\$" | head -n 1)
	python3 - "$m2/${d##*/}/f" "$work/held" "$work/go" <<-'P' &
		import errno, fcntl, os, sys, time
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
		fcntl.flock(fd, fcntl.LOCK_EX)
		open(sys.argv[2], "w").close()
		while not os.path.exists(sys.argv[3]):
		    time.sleep(0.05)
		for _ in range(400):
		    try:
		        os.pread(fd, 1, 0)
		    except OSError as e:
		        sys.exit(e.errno != errno.ESTALE)
		    time.sleep(0.05)
		sys.exit("not told")
	P
	holder=$!
	wait_until "the lock is held" test -e "$work/held"
	kill -STOP "$second"
	cell_ctl unlock "$d/f"
	old=$(master)
	kill_replica "$old"
	limit 30 flock "$d/f" true
	kill -CONT "$second"
	touch "$work/go"
	wait $holder
	start_replica "$old"
}

case_down() { down; }

run_cases
