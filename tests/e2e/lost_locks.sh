#!/bin/bash
# lsctl lock, when the lock is lost: its exit status says so, and all that the command has started
# is dead before somebody else has the lock.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# A command with offspring that is hard to find: in the background, in a session of its own, and one
# that cares for no signal and whose parents have ended. Each writes its process id into $1.
cat > "$work/command" <<'C'
#!/bin/bash
report() { echo "${BASHPID}" >> "$pids"; }
pids=$1 never=$2
trap 'echo told >> "$pids.told"' TERM
(report; exec tail -f /dev/null) &
(setsid bash -c 'echo $$ >> "$0"; exec tail -f /dev/null' "$pids" &) &
(trap '' TERM HUP; (report; while :; do read -r -t 0.05 <> "$never"; done) &) &
report
while :; do read -r -t 0.05 <> "$never"; done
C
chmod +x "$work/command"

# hold NAME MOUNT [OPTION...]: the command runs under the lock of MOUNT/NAME. Its exit status will
# be in $work/NAME.code.
hold() {
	local name=$1 at=$2
	shift 2
	(
		rc=0
		"$LSCTL" lock "$@" "$at/$name" -- "$work/command" "$work/$name.pids" \
			"$work/never" 2> "$work/$name.err" || rc=$?
		echo $rc > "$work/$name.code"
	) &
	wait_until "the command runs" four "$work/$name.pids"
}
four() { [ "$(cat "$1" 2> /dev/null | wc -l)" = 4 ]; }
ended() { [ -s "$work/$1.code" ]; }

# living FILE: how many of the processes listed there still execute something. One that is exiting
# may wait for a frozen mount to close its files.
cat > "$work/living" <<'L'
#!/bin/bash
n=0
for pid in $(cat "$1"); do
	stat=$(cat "/proc/$pid/stat" 2> /dev/null) || continue
	read -r state _ _ _ _ _ flags _ <<< "${stat##*) }"
	[[ $state == [ZX] ]] || ((flags & 4)) || n=$((n + 1))
done
echo $n
L
chmod +x "$work/living"

# next NAME MOUNT: waits there for the lock; when it comes, says how many of the command live.
next() { flock "$2/$1" "$work/living" "$work/$1.pids" > "$work/$1.next" & }
came() { [ -s "$work/$1.next" ]; }

lost() {
	wait_until "lsctl has ended" ended "$1"
	is "$(cat "$work/$1.code")" 75
	is "$("$work/living" "$work/$1.pids")" 0
	is "$(grep -c "the lock was lost" "$work/$1.err")" 1
}

case_up() {
	up_of_three cache_lease=1s session_lease=2s
	mount_second
}

case_session_destroyed() {
	hold destroyed "$m"
	next destroyed "$m2"
	"$LSCTL" --cell "$cell/dc1.conf" session destroy "$(session "$m")"
	lost destroyed
	wait_until "it has the lock" came destroyed
	wait_until "there is a new session" is_in_state "$m" safe
}

# ends_with COMMAND...: under the lock. Its holder stands still until it has the order to release.
cat > "$work/ends_with" <<'C'
#!/bin/bash
never=$1 holder=$(pgrep -P $PPID -x lsctl)
shift
kill -STOP "$holder"
"$@"
(while [ -e /proc/$$ ]; do read -r -t 0.05 <> "$never"; done; kill -CONT "$holder") &> /dev/null &
C
chmod +x "$work/ends_with"

# Nobody has noticed it before there is something to write and to release.
case_lost_when_the_command_ends() {
	local how
	for how in lock "elect --clear" "once --every 1h"; do
		# shellcheck disable=SC2086 # words
		one_line 75 "its session is over" "$LSCTL" $how "$m/ends" -- "$work/ends_with" \
			"$work/never" "$LSCTL" --cell "$conf" session destroy "$(session "$m")"
		wait_until "there is a new session" is_in_state "$m" safe
		rm "$m/ends"
		# shellcheck disable=SC2086 # words
		one_line 75 "the file was deleted" "$LSCTL" $how "$m/ends" -- "$work/ends_with" \
			"$work/never" rm "$m/ends"
		# shellcheck disable=SC2086 # words
		one_line 75 "an operator has released it" "$LSCTL" $how "$m/ends" -- \
			"$work/ends_with" "$work/never" "$LSCTL" --cell "$conf" \
			--key "$cell/admin.key" unlock "$m/ends"
		rm "$m/ends"
	done
}

# becomes NAME [OPTION...]: the command becomes another user under the lock of $m3/NAME.
becomes() {
	local name=$1
	shift
	(
		rc=0
		setpriv --reuid=65534 --regid=65534 --clear-groups \
			"$LSCTL" lock "$@" "$m3/$name" -- "$work/become" --reuid=0 sh -c '
			echo $$ > "$0"; exec sleep 60' "$work/$name.pid" \
			2> "$work/$name.err" || rc=$?
		echo $rc > "$work/$name.code"
	) &
	wait_until "the command runs" test -s "$work/$name.pid"
}
messages() { sed "s,^lsctl: $m3/$1: ,,; s/in [0-9]* s/in N s/" "$work/$1.err"; }

# The command has become another user, as with sudo(8), and lsctl may not kill it.
case_a_command_of_another_user() {
	local m3=$work/mnt3 i name pids=() patience=40
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	mkdir -p "$m3"
	chmod 711 "$work"
	install -m 4755 "$(command -v setpriv)" "$work/become"
	limit 30 "$LSFS" -o "key=$cell/admin.key,allow_other" "$conf" "$m3"
	becomes theirs --lock-delay 60
	becomes told --lock-delay 7 --jeopardy=ignore
	kill -STOP "${pids[@]}"
	wait_until "it is told" grep -q "is frozen" "$work/theirs.err"
	wait_until "the other one has lost its lock" ended told
	kill -CONT "${pids[@]}"
	wait_until "it goes on" grep -q "answers again" "$work/theirs.err"
	cell_ctl session destroy "$(session "$m3")"
	for name in theirs told; do
		wait_until "lsctl has ended" ended $name
		is "$(cat "$work/$name.code")" 75
		kill "$(cat "$work/$name.pid")"
	done
	is "$(messages theirs)" "the cell can't be reached: the command is frozen, but for 1\
 processes of another user; it goes on when the cell answers, or is killed in N seconds
the cell answers again: the command goes on
1 processes of the command belong to another user and can't be killed
the lock was lost: its session is over"
	is "$(messages told)" "the cell can't be reached: the lock is lost in N seconds; SIGTERM\
 was sent to the command, but for 1 processes of another user
1 processes of the command belong to another user and can't be killed
the lock was lost: the cell can't be reached, and the session's lease has ended"

	# A check that fails does not end it either, and that is said once.
	becomes checked --check-every 2s --check-fails 1 --check "[ ! -s $work/checked.pid ]"
	wait_until "it cannot be killed" grep -q "can't be killed" "$work/checked.err"
	pause_s 3
	is "$(attribute lock "$m3/checked")" exclusive
	kill "$(cat "$work/checked.pid")"
	wait_until "lsctl has ended" ended checked
	is "$(cat "$work/checked.code")" 76
	is "$(messages checked)" "the lock is given up: the check has failed (1 in a row); SIGTERM\
 was sent to the command, but for 1 processes of another user
1 processes of the command belong to another user and can't be killed
the lock is kept until the command ends"
	umount "$m3"
	rmdir "$m3"
}

# Its children close their copies of the descriptor first.
case_a_writer_is_told_that_its_session_is_lost() {
	python3 - "$LSCTL" "$cell/dc1.conf" "$(session "$m")" "$m/lost" <<-'P'
		import errno, os, select, subprocess, sys
		lsctl, conf, session, path = sys.argv[1:]
		fd = os.open(path, os.O_RDWR | os.O_CREAT)
		os.write(fd, b"lost")
		subprocess.run([lsctl, "--cell", conf, "session", "destroy", session], check=True)
		ended = select.poll()
		ended.register(fd, 0)
		assert ended.poll(20000), "the descriptor is alive"
		if os.fork() == 0:
		    os._exit(0)
		assert os.wait()[1] == 0
		subprocess.run(["true"], check=True)
		try:
		    os.close(fd)
		    sys.exit("the writer was not told")
		except OSError as e:
		    assert e.errno == errno.ESTALE, e
	P
	wait_until "there is a new session" is_in_state "$m" safe
	is "$(cat "$m/lost")" ""
}

# Whoever may delete the file breaks the lock: the command ends at once, not when it likes to.
case_its_file_goes() {
	local name
	for name in rm_here rm_there mv_here mv_there rmdir_there; do
		[ $name != rmdir_there ] || mkdir "$m/$name"
		hold $name "$m"
	done
	rm "$m/rm_here" "$m2/rm_there"
	mv "$m/mv_here" "$m/mv_here.old"
	mv "$m2/mv_there" "$m2/mv_there.old"
	rmdir "$m2/rmdir_there"
	for name in rm_here rm_there mv_here mv_there rmdir_there; do
		lost $name
		grep -q "the file was deleted or renamed; the command was killed" "$work/$name.err"
	done
}

# The processes of the command are killed: what they have half written is not committed.
case_nothing_half_written_is_committed() {
	local i
	for i in 1 2 3 4; do echo before > "$m/half.$i"; done
	(
		rc=0
		"$LSCTL" lock "$m/half" -- python3 -c '
import os, sys, time
for i in range(1, 5):
    if i == 4 or os.fork() == 0:
        f = open("%s.%d" % (sys.argv[1], i), "w")
        f.write("half")
        f.flush()
        open("%s.%d" % (sys.argv[2], i), "w").close()
        time.sleep(60)' "$m/half" "$work/half" 2> "$work/half.err" || rc=$?
		echo $rc > "$work/half.code"
	) &
	for i in 1 2 3 4; do wait_until "it has written" test -e "$work/half.$i"; done
	rm "$m/half"
	wait_until "lsctl has ended" ended half
	is "$(cat "$work/half.code")" 75
	for i in 1 2 3 4; do is "$(cat "$m/half.$i")" before; done
}

# What is written into the file, or renamed over it, or who waits for its lock, ends no command.
case_its_file_stays() {
	hold stays "$m"
	echo changed > "$m2/stays"
	next stays "$m2"
	echo new > "$m2/stays.new"
	mv "$m2/stays.new" "$m2/stays"
	pause_s 0.5
	is "$("$work/living" "$work/stays.pids")" 4
	is "$(cat "$m/stays")" new
	xargs kill -9 < "$work/stays.pids"
	wait_until "lsctl has ended" ended stays
	is "$(cat "$work/stays.code")" 137
	wait_until "the next one has the lock" came stays
}

case_only_operators_take_it_away() {
	local m3=$work/mnt3
	mkdir "$m3"
	"$LSCTL" key generate "$work/guest.key" guest > "$work/guest.pub"
	cell_ctl principal add guest "$(cat "$work/guest.pub")"
	limit 30 "$LSFS" -o "key=$work/guest.key" "$cell/dc1.conf" "$m3"
	hold kept "$m"
	refused "Device or resource busy" rm "$m3/kept"
	refused "Device or resource busy" mv "$m3/kept" "$m3/kept.old"
	is "$("$work/living" "$work/kept.pids")" 4
	rm "$m2/kept"
	lost kept
	umount "$m3"
}

# What an ended session held: a permanent file is unlocked, an ephemeral one is deleted.
case_released_or_deleted() {
	local before
	before=$(session "$m")
	python3 - "$m" "$work" <<-'P' &
		import fcntl, os, stat, sys, time
		mount, work = sys.argv[1:]
		held = []
		for name, mode in (("released", 0o644), ("deleted", 0o644 | stat.S_ISVTX)):
		    held.append(os.open(mount + "/" + name, os.O_RDWR | os.O_CREAT, mode))
		    fcntl.flock(held[-1], fcntl.LOCK_EX)
		    os.write(held[-1], b"kept")
		    os.fsync(held[-1])
		open(work + "/both", "w").close()
		os.read(os.open(work + "/never", os.O_RDWR), 1)
	P
	wait_until "both are locked" test -e "$work/both"
	is "$(attribute lock "$m2/deleted")" exclusive
	cell_ctl session destroy "$before"
	limit 5 flock -n "$m2/released" true
	is "$(cat "$m2/released")" kept
	[ ! -e "$m2/deleted" ]
	kill %%
	wait_until "there is a new session" is_in_state "$m" safe
}

# ticking NAME [OPTION...]: the command is a shell whose descendant writes a line into
# $work/NAME.ticks again and again, until $work/NAME.end exists.
ticking() {
	local name=$1
	shift
	(
		rc=0
		"$LSCTL" lock "$@" "$m/$name" -- bash -c '
			(setsid bash -c "while :; do
				echo >> $0.ticks
				read -r -t 0.01 <> $1
			done" &)
			until [ -e "$0.end" ]; do read -r -t 0.05 <> "$1"; done
			pkill -f "$0[.]ticks"
			exit 9' "$work/$name" "$work/never" 2> "$work/$name.err" || rc=$?
		echo $rc > "$work/$name.code"
	) &
	wait_until "it ticks" ticks "$name" 0
}
# ticks NAME NUMBER: there are more than that.
ticks() { [ "$(count_ticks "$1")" -gt "$2" ]; }
count_ticks() { cat "$work/$1.ticks" 2> /dev/null | wc -l; }
is_frozen() { grep -q "the command is frozen" "$work/$1.err"; }

# does_not_tick NAME: neither now nor later.
does_not_tick() {
	local ticks
	ticks=$(count_ticks "$1")
	pause_s 0.5
	is "$(count_ticks "$1")" "$ticks"
}

# A frozen command loses nothing, and its status is its own; another one does not care.
# freeze_and_thaw NAME [FUNCTION]: which is called with the name before that.
freeze_and_thaw() {
	local i pids=() name=$1 lsctl patience=40
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	ticking "$name"
	ticking "$name.ignore" --jeopardy=ignore
	[ $# -eq 1 ] || "$2" "$name"
	kill -STOP "${pids[@]}"
	wait_until "the command is frozen" is_frozen "$name"
	lsctl=$(lsctl_of "$name")
	is "$(cgroup_of "$lsctl" | wc -l)" "$(cgroups | wc -l)"
	is_in_state "$m" jeopardy
	does_not_tick "$name"
	wait_until "the other ticks" ticks "$name.ignore" "$(count_ticks "$name.ignore")"
	kill -CONT "${pids[@]}"
	wait_until "it ticks again" ticks "$name" "$(count_ticks "$name")"
	touch "$work/$name.end" "$work/$name.ignore.end"
	wait_until "lsctl has ended" ended "$name"
	is "$(cat "$work/$name.code")" 9
	wait_until "lsctl has ended" ended "$name.ignore"
	is "$(cat "$work/$name.ignore.code")" 9
	[ ! -s "$work/$name.ignore.err" ]
	is "$(cgroup_of "$lsctl")" ""
}

lsctl_of() { pgrep -o -f "^$LSCTL lock $m/$1( |\$)"; }
cgroups() { awk '/ - cgroup2 / { print $5 }' /proc/self/mountinfo; }
# The cgroup for the command of this process.
cgroup_of() {
	local at
	for at in $(cgroups); do find "$at" -name "lsctl.$1.*"; done
}

# Its descendant leaves the cgroup, as su(1) does where a login has one of its own.
stray() {
	local at
	for at in $(cgroup_of "$(lsctl_of "$1")"); do
		pgrep -f "$work/$1[.]ticks" > "$at/../cgroup.procs"
	done
}

case_frozen_in_jeopardy() {
	freeze_and_thaw cgroup
	freeze_and_thaw strayed stray
}

# Each is process 1 of a container, and their cgroup is the same.
case_two_of_one_number() {
	local name
	[ -n "$(cgroups)" ] || return 0
	for name in one other; do
		unshare --fork --pid --mount-proc --kill-child "$LSCTL" lock "$m/$name" -- \
			sh -c '
			grep "^0::" /proc/self/cgroup > "$0.new"
			mv "$0.new" "$0.in"
			exec sleep 60' "$work/$name" &
		wait_until "it runs" test -s "$work/$name.in"
	done
	is "$(sort "$work/one.in" "$work/other.in" | grep -o '/lsctl\.1.*' | uniq | wc -l)" 2
	kill $(jobs -p)
}

# Nobody could thaw it, so the lock's next holder would wait for ever. A process in a call on the
# mount dies, too, while the cell is away.
killed_while_its_command_is_frozen() {
	local i pids=() name=$1 patience=40
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	mkdir "$m/$name.d"
	ticking "$name"
	"$LSCTL" lock "$m/$name.busy" -- "$TOOLS/stress" busy "$m/$name.d" 4 "$work/$name.end" \
		2> "$work/$name.busy.err" &
	wait_until "it works" is_at_work "$m/$name.d"
	kill -STOP "${pids[@]}"
	wait_until "the command is frozen" is_frozen "$name"
	wait_until "the command is frozen" is_frozen "$name.busy"
	kill -9 "$(lsctl_of "$name")" "$(lsctl_of "$name.busy")"
	wait_until "nothing of it lives" eval "! pgrep -f '$work/$name[.]ticks'"
	wait_until "nothing of it lives" eval "! pgrep -f 'stress busy $m/$name.d'"
	kill -CONT "${pids[@]}"
	limit 20 flock "$m/$name" true
}

case_lsctl_killed_while_its_command_is_frozen() {
	killed_while_its_command_is_frozen orphan
}

# No signal comes to a frozen command, so none of its calls fails, and a lock that it waits for is
# still waited for.
calls_while_frozen() {
	local i pids=() name=$1 round patience=40
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	mkdir "$m/$name.d"
	flock "$m/$name.other" bash -c '
		until [ -e "$0.end" ]; do read -r -t 0.05 <> "$1"; done' \
		"$work/$name" "$work/never" &
	wait_until "it is locked" is_locked "$m/$name.other"
	(
		rc=0
		"$LSCTL" lock "$m/$name" -- bash -c '
			"$1" busy "$2.d" 4 "$0.end" &
			"$1" waits "$2.other" || exit 8
			wait $!' "$work/$name" "$TOOLS/stress" "$m/$name" 2> "$work/$name.err" ||
			rc=$?
		echo $rc > "$work/$name.code"
	) &
	for round in 1 2; do
		wait_until "it works" is_at_work "$m/$name.d"
		wait_until "it waits" is_awaited "$m/$name.other"
		kill -STOP "${pids[@]}"
		wait_until "the command is frozen" froze "$name" "$round"
		pause_s 0.$((3 * round))
		kill -CONT "${pids[@]}"
		wait_until "the command goes on" thawed "$name" "$round"
	done
	touch "$work/$name.end"
	wait_until "lsctl has ended" ended "$name"
	[ "$(cat "$work/$name.code")" = 0 ] || { cat "$work/$name.err"; return 1; }
}
froze() { [ "$(grep -c "the command is frozen" "$work/$1.err")" -ge "$2" ]; }
thawed() { [ "$(grep -c "the command goes on" "$work/$1.err")" -ge "$2" ]; }
is_at_work() { [ -n "$(ls "$1")" ]; }
is_locked() { [ "$(attribute lock "$1")" = exclusive ]; }
is_awaited() { [ -n "$(attribute lock_waiters "$1" 2> /dev/null)" ]; }

case_calls_while_frozen() { calls_while_frozen busy; }

# Where no cgroup can be made the processes are stopped one by one.
case_stopped_in_jeopardy() {
	local at
	for at in $(cgroups); do umount -l "$at"; done
	freeze_and_thaw stopped
	killed_while_its_command_is_frozen stopped_orphan
	calls_while_frozen stopped_busy
}

# The command goes on through a jeopardy that ends well, and its status is its own.
case_jeopardy_that_ends() {
	local i pids=()
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	"$LSCTL" lock --lock-delay 7 "$m/jeopardy" -- bash -c '
		echo > "$0.runs"
		until [ -e "$0.back" ]; do read -r -t 0.05 <> "$1"; done
		exit 9' "$work/jeopardy" "$work/never" &
	wait_until "the command runs" test -e "$work/jeopardy.runs"
	kill -STOP "${pids[@]}"
	wait_until "the session is in jeopardy" is_in_state "$m" jeopardy
	kill -CONT "${pids[@]}"
	wait_until "the session is safe" is_in_state "$m" safe
	touch "$work/jeopardy.back"
	exits 9 wait $!
}

# Job control stops lsctl, or its holder, too. When it goes on it has old reports only.
case_stopped_for_longer_than_the_lease() {
	local lsctl holder
	ticking job --lock-delay 0
	lsctl=$(pgrep -o -f "^$LSCTL lock .*$m/job ")
	holder=$(pgrep -P "$lsctl" -f "^$LSCTL lock")
	kill -STOP "$lsctl"
	pause_s 3
	kill -CONT "$lsctl"
	pause_s 1
	kill -STOP "$lsctl" "$holder"
	pause_s 3
	kill -CONT "$holder" "$lsctl"
	wait_until "it ticks" ticks job "$(count_ticks job)"
	touch "$work/job.end"
	wait_until "lsctl has ended" ended job
	is "$(cat "$work/job.code")" 9
}

# With the daemon frozen nothing on the mount answers, and the master lets the session expire.
case_frozen_mount() {
	local daemon patience=40
	hold frozen "$m" --lock-delay 7
	hold told "$m" --lock-delay 7 --jeopardy=ignore
	hold undelayed "$m" --lock-delay 0
	next frozen "$m2"
	next told "$m2"
	next undelayed "$m2"
	daemon=$(daemon_of "$m")
	kill -STOP "$daemon"
	wait_until "the next one has the lock" came undelayed
	is "$(cat "$work/undelayed.next")" 0
	lost undelayed
	[ ! -e "$work/undelayed.pids.told" ]
	wait_until "the next one has the lock" came frozen
	grep -q "/frozen: the lock is delayed for 7 s" "$cell"/[123]/log
	is "$(cat "$work/frozen.next")" 0
	lost frozen
	[ ! -e "$work/frozen.pids.told" ]
	wait_until "the next one has the lock" came told
	is "$(cat "$work/told.next")" 0
	lost told
	is "$(cat "$work/told.pids.told")" told
	kill -CONT "$daemon"
	wait_until "there is a new session" is_in_state "$m" safe
}

# Each who comes may set the lock-delay: it is fixed when the lock is acquired, and a later one is
# not what others wait for.
case_a_lock_delay_that_changes() {
	local daemon holder patience=40
	touch "$m/changing"
	setfattr -n user.ls.lock_delay -v 10 "$m/changing"
	exec 8<> "$m2/changing"
	flock 8
	hold changing "$m" --jeopardy=ignore &
	wait_until "it waits" awaited "$m2/changing"
	holder=$(pgrep -P "$(pgrep -o -f "^$LSCTL lock .*$m/changing ")")
	setfattr -n user.ls.lock_delay -v 0 "$m/changing"
	strace -q -o "$work/reads" -e trace=fgetxattr -e inject=fgetxattr:delay_exit=3s:when=5 \
		-p "$holder" &
	wait_until "it is traced" grep -q '^TracerPid:.[1-9]' "/proc/$holder/status"
	flock -u 8
	wait_until "the lock-delay is read" grep -q lock_delay "$work/reads"
	setfattr -n user.ls.lock_delay -v 60 "$m/changing"
	wait_until "the command runs" four "$work/changing.pids"
	next changing "$m2"
	daemon=$(daemon_of "$m")
	kill -STOP "$daemon"
	wait_until "the next one has the lock" came changing
	is "$(cat "$work/changing.next")" 0
	lost changing
	kill -CONT "$daemon"
	wait_until "there is a new session" is_in_state "$m" safe
	exec 8>&-
}
awaited() { [ -n "$(attribute lock_waiters "$1" 2> "$work/no")" ]; }

# Nobody reads what lsctl says, and there is no room for more: the command ends in time.
case_messages_that_nobody_reads() {
	local i pids=() daemon line patience=40
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	mkfifo "$work/mute.err"
	exec 8<> "$work/mute.err"
	hold mute "$m" --lock-delay 7
	next mute "$m2"
	kill -STOP "${pids[@]}"
	read -r -t 20 line <&8
	[[ $line == *"the command is frozen"* ]]
	dd if=/dev/zero of="$work/mute.err" oflag=nonblock bs=4096 2> "$work/no" || :
	kill -CONT "${pids[@]}"
	wait_until "the session is safe" is_in_state "$m" safe
	pause_s 0.5 # it is said that the command goes on
	daemon=$(daemon_of "$m")
	kill -STOP "$daemon"
	wait_until "the next one has the lock" came mute
	is "$(cat "$work/mute.next")" 0
	wait_until "lsctl has ended" ended mute
	is "$(cat "$work/mute.code")" 75
	kill -CONT "$daemon"
	exec 8<&-
	wait_until "there is a new session" is_in_state "$m" safe
}

# A new daemon ends the session of a killed one at once, as expired: earlier than its lease would.
case_killed_mount() {
	local patience=40
	hold killed "$m" --lock-delay 4
	next killed "$m2"
	kill -9 "$(daemon_of "$m")"
	wait_until "the mount is dead" eval "! ls '$m' 2> /dev/null"
	limit 20 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
	wait_until "the next one has the lock" came killed
	is "$(cat "$work/killed.next")" 0
	lost killed
}

# The number of the holder, which has ended before the deadline, is that of another process by then.
case_a_number_that_is_used_again() {
	local m3=$work/mnt3 daemon
	mkdir -p "$m3"
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$conf" "$m3"
	cat > "$work/used_again" <<-'S'
		pause() { read -r -t 0.05 <> "$never"; }
		never=$4
		"$1" lock --lock-delay 7 "$2" -- sh -c 'echo > "$0"; exec sleep 60' "$3.runs" &
		lsctl=$!
		until [ -e "$3.runs" ]; do pause; done
		holder=$(pgrep -P $lsctl -x lsctl)
		echo > "$3.ready"
		while [ -e "/proc/$holder" ]; do pause; done
		for i in {1..20}; do # another process may come first
			echo $((holder - 1)) > /proc/sys/kernel/ns_last_pid
			sleep 60 &
			[ $! != "$holder" ] || break
			kill $!
		done
		[ $! = "$holder" ] || exit 3
		wait $lsctl
		[ $? = 75 ] || exit 4
		kill "$holder"
		wait "$holder"
	S
	unshare --fork --pid --mount-proc --kill-child bash "$work/used_again" "$LSCTL" \
		"$m3/again" "$work/again" "$work/never" 2> "$work/again.err" &
	wait_until "the command runs" test -e "$work/again.ready"
	daemon=$(daemon_of "$m3")
	kill -9 "$daemon"
	exits 143 wait %%
	grep -q "the lock was lost" "$work/again.err"
	wait_until "the daemon has ended" gone "$daemon"
	umount -l "$m3"
	rmdir "$m3"
}

case_released_when_the_cell_is_away() {
	local i pids=() patience=40
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	(
		rc=0
		"$LSCTL" lock --lock-delay 0 "$m/away" -- bash -c '
			echo > "$0.runs"
			until [ -e "$0.end" ]; do read -r -t 0.05 <> "$1"; done' \
			"$work/away" "$work/never" 2> "$work/away.err" || rc=$?
		echo $rc > "$work/away.code"
	) &
	wait_until "the command runs" test -e "$work/away.runs"
	kill -STOP "${pids[@]}"
	touch "$work/away.end"
	wait_until "lsctl has ended" ended away
	is "$(cat "$work/away.code")" 75
	kill -CONT "${pids[@]}"
}

run_cases
