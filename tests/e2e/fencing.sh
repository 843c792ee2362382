#!/bin/bash
# Sequencers and fencing: what becomes of a holder that was paused, continues, and does not know
# that it has lost its lock.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three cache_lease=1s session_lease=2s
	mount_second
}

# check SEQUENCER VERDICT: by lsctl through the mount, by the cell, and by one descriptor.
check() {
	local code=1 asked
	[ "$2" != valid ] || code=0
	for asked in "" "--cell $cell/dc1.conf --key $cell/admin.key"; do
		local rc=0
		# shellcheck disable=SC2086 # words
		is "$(limit 10 "$LSCTL" $asked check "$1" || echo " $?")" \
			"$2$([ $code = 0 ] || printf '\n %d' $code)"
	done
	exec 7<> "$m2/.cell/check"
	echo "$1" >&7
	is "$(cat <&7)" "$2"
	exec 7>&-
}

is_free() { [ "$(attribute lock "$1")" = free ]; }

case_check() {
	local first second
	exec 9<> "$d/f"
	flock -s 9
	first=$(attribute sequencer "$d/f")
	check "$first" valid
	flock 9
	second=$(attribute sequencer "$d/f")
	check "$first" "stale: the lock was acquired again"
	check "$second" valid
	flock -s 9
	check "$second" "stale: the lock was converted"
	exec 9>&-
	wait_until "the lock is free" is_free "$m2/case_check/f"
	check "$second" "stale: the lock is free"
	check "${second/:exclusive:/:shared:}" "stale: not signed by this cell"
	rm "$d/f"
	check "$second" "stale: the node was deleted"
	one_line 1 "not a sequencer" "$LSCTL" check nonsense
	# A sequencer is of one cell, whatever other one is meant otherwise.
	"$LSCTL" cell create dc2 --dir "$work/dc2" --replica 127.0.0.1:1 > /dev/null
	is "$(LSFS_CELL=$work/dc2/dc2.conf limit 10 "$LSCTL" check "$second" || echo " $?")" \
		"stale: the node was deleted
 1"
	one_line 3 "is of cell dc1, not of dc2" \
		"$LSCTL" --cell "$work/dc2/dc2.conf" check "$second"
	is "$(exec 7<> "$m/.cell/check"; echo nonsense >&7; cat <&7)" "stale: not a sequencer"
	refused "Invalid argument" cat "$m/.cell/check"
}

# attach DESCRIPTOR SEQUENCER: as lsfs_set_sequencer of <lsfs.h> does. Prints the error, if any.
cat > "$work/attach.py" <<'P'
import errno, fcntl, sys
text = sys.argv[2].encode() + b"\0"
try:
    fcntl.ioctl(int(sys.argv[1]), 0x40004c01 | len(text) << 16,
                text if len(text) <= 1024 else bytearray(text))
except OSError as e:
    print(errno.errorcode[e.errno])
P
attach() { python3 "$work/attach.py" "$@"; }

# The lock is that of another file, and of another mount. While it is held the guarded descriptors
# work as any; when it is not, they commit and read nothing.
case_guard() {
	local old new
	exec 9<> "$d/lock"
	flock 9
	old=$(attribute sequencer "$d/lock")
	echo 1 > "$m2/case_guard/data"
	exec 7<> "$m2/case_guard/data" 8< "$m2/case_guard/data"
	is "$(attach 7 "$old")" ""
	is "$(attach 8 "$old")" ""
	is "$(attach 7 nonsense)" EINVAL
	is "$(attach 7 "${old/:exclusive:/:shared:}")" EINVAL
	is "$(attach 0 "$old" < /dev/null)" ENOTTY
	is "$(cat <&8)" 1
	python3 - <<-'P'
		import os
		os.pwrite(7, b"2\n", 0)
		os.fsync(7)
	P
	is "$(cat "$d/data")" 2
	flock -u 9
	flock 9
	new=$(attribute sequencer "$d/lock")
	python3 - <<-'P'
		import errno, os
		def stale(call):
		    try:
		        call()
		    except OSError as e:
		        assert e.errno == errno.ESTALE, e
		    else:
		        raise AssertionError("done")
		os.pwrite(7, b"3\n", 0)
		stale(lambda: os.fsync(7))
		stale(lambda: os.pread(8, 10, 0))
	P
	is "$(cat "$d/data")" 2
	is "$(attach 7 "$old")" ESTALE
	is "$(attach 7 "$new")" ""
	python3 -c 'import os; os.pwrite(7, b"4\n", 0); os.fsync(7)'
	is "$(cat "$d/data")" 4
	flock -u 9
	is "$(attach 7 "$new")" ESTALE
	is "$(attach 7 "")" "" # detaches
	python3 -c 'import os; os.pwrite(7, b"5\n", 0); os.fsync(7)'
	is "$(cat "$d/data")" 5
	exec 7>&- 8>&- 9>&-
}

# What is attached guards the calls through its descriptor, and no other process's rename.
case_a_rename_is_not_guarded() {
	local at=$m2/case_a_rename_is_not_guarded
	exec 9<> "$d/lock"
	flock 9
	echo 1 > "$at/data"
	exec 7<> "$at/data"
	is "$(attach 7 "$(attribute sequencer "$d/lock")")" ""
	flock -u 9
	mv "$at/data" "$at/data2"
	is "$(cat "$d/data2")" 1
	exec 7>&- 9>&-
}

# It is longer than what Python passes without a copy of its own.
case_the_sequencer_of_a_long_path() {
	local dir=$d name sequencer
	name=$(printf 'x%.0s' {1..225})
	dir+=/$name/$name/$name/$name
	mkdir -p "$dir"
	exec 9<> "$dir/l"
	flock 9
	sequencer=$(attribute sequencer "$dir/l")
	[ ${#sequencer} -gt 1024 ]
	exec 7<> "$d/f"
	is "$(attach 7 "$sequencer")" ""
	is "$(attach 7 "$sequencer$sequencer")" EINVAL
	flock -u 9
	is "$(attach 7 "$sequencer")" ESTALE
	exec 7>&- 9>&-
}

case_fence() {
	local state=$work/state rc
	is "$("$LSCTL" fence "$state" 42 -- echo ran)" ran
	is "$("$LSCTL" fence "$state" 42 -- echo again)" again
	is "$(cat "$state")" 42
	"$LSCTL" fence "$state" 43 -- true
	one_line 1 "stale token: 42 is lower than 43" "$LSCTL" fence "$state" 42 -- touch "$work/no"
	[ ! -e "$work/no" ]
	rc=0
	"$LSCTL" fence "$state" 44 -- sh -c 'exit 7' || rc=$?
	is $rc 7
	"$LSCTL" fence "$state" 18446744073709551615 -- true
	one_line 1 "stale token" "$LSCTL" fence "$state" 18446744073709551614 -- true
	one_line 2 "not a fencing token" "$LSCTL" fence "$state" -1 -- true
	one_line 2 "not a fencing token" "$LSCTL" fence "$state" 18446744073709551616 -- true
	one_line 2 "COMMAND: needed" "$LSCTL" fence "$state" 1 --
	echo rubbish > "$state"
	one_line 1 "holds no fencing token" "$LSCTL" fence "$state" 1 -- true
	is "$(cat "$state")" rubbish
	: > "$state"
	"$LSCTL" fence "$state" 1 -- true
	ln -s "$state" "$work/link"
	"$LSCTL" fence "$work/link" 2 -- true
	is "$(cat "$state")" 2
	rm "$state"
	"$LSCTL" fence "$work/link" 3 -- true
	one_line 1 "stale token: 2 is lower than 3" "$LSCTL" fence "$state" 2 -- true
}

# The commands run one after another, and never one after another with a greater token.
case_fence_between_processes() {
	local state=$work/many log=$work/many.log i pids=()
	for i in $(shuf -i 1-60); do
		"$LSCTL" fence "$state" "$i" -- sh -c 'echo begin $1 >> "$0"; echo end $1 >> "$0"' \
			"$log" "$i" 2>> "$work/many.err" &
		pids+=($!)
	done
	for i in "${pids[@]}"; do wait "$i" || :; done
	is "$(cat "$state")" 60
	awk '
		/begin/ { if (open || $2 < last) exit 1; open = 1; last = $2 }
		/end/ { if (!open || $2 != last) exit 1; open = 0 }
		END { if (open || last != 60) exit 1 }' "$log"
	is "$(($(grep -c begin "$log") + $(grep -c stale "$work/many.err")))" 60
}

# A kill at any moment leaves the old token or the new one.
case_fence_killed() {
	local state=$work/killed i token
	echo 1 > "$state"
	for i in $(seq 2 60); do
		"$LSCTL" fence "$state" "$i" -- true &
		pause_s "0.00$((i % 10))"
		kill -9 $! 2> /dev/null || :
		wait $! 2> /dev/null || :
		token=$(cat "$state")
		[ "$token" -ge 1 ] && [ "$token" -le "$i" ]
	done
	"$LSCTL" fence "$state" 100 -- true
	is "$(cat "$state")" 100
	one_line 1 "stale token" "$LSCTL" fence "$state" 99 -- true
}

# merge NAME MOUNT: a job under the lock of a file that writes two lines into the resource
# $resource, by the command $put, and does not care whether it still has the lock.
cat > "$work/merge" <<'S'
#!/bin/bash
name=$1 file=$2
exec 9<> "$file"
flock 9
fence=$(getfattr --only-values --absolute-names -n user.ls.fence "$file")
put() {
	$put "$fence" -- sh -c 'echo "$1" >> "$0"' "$resource" "$1"
}

put "$name begins"
echo > "$resource.$name.begun"
until [ -e "$resource.go" ]; do read -r -t 0.02 <> "$never"; done
put "$name ends"
S
chmod +x "$work/merge"

# The first holder and the mount of its machine are paused until the second one has got the lock,
# and works. Then the first one continues.
pause_the_first() {
	local daemon first patience=40
	export resource=$work/$1 put=$2 never=$work/never
	: > "$resource"
	echo > "$m/$1"
	setfattr -n user.ls.lock_delay -v 1 "$m/$1"
	setsid "$work/merge" first "$m/$1" 2> "$work/$1.err" &
	first=$!
	wait_until "the first one has begun" test -e "$resource.first.begun"
	daemon=$(daemon_of "$m")
	kill -STOP "$daemon" -$first
	"$work/merge" second "$m2/$1" 2> /dev/null &
	wait_until "the second one has begun" test -e "$resource.second.begun"
	kill -CONT -$first "$daemon"
	touch "$resource.go"
	wait $! || :
	wait $first || :
	wait_until "there is a new session" is_in_state "$m" safe
}

unfenced() {
	shift 2
	"$@"
}
export -f unfenced

# Both have worked: the first one's line is behind the second one's, which makes the resource
# worthless.
case_an_incident_without_fencing() {
	pause_the_first unfenced unfenced
	grep -q "first begins" "$work/unfenced"
	grep -q "first ends" "$work/unfenced"
	grep -q "second ends" "$work/unfenced"
	is "$(head -n 2 "$work/unfenced" | tail -n 1)" "second begins"
}

case_an_incident_with_fencing() {
	pause_the_first fenced "$LSCTL fence $work/fenced.state"
	is "$(cat "$work/fenced")" "first begins
second begins
second ends"
	grep -q "stale token" "$work/fenced.err"
}

# Neither valid nor stale: nobody could say.
case_check_without_an_answer() {
	local sequencer i
	limit 10 umount "$m" "$m2"
	mount_second grace=1
	exec 9> "$m2/held"
	flock 9
	sequencer=$(attribute sequencer "$m2/held")
	one_line 3 "$work/none: " \
		"$LSCTL" --cell "$cell/dc1.conf" --key "$work/none" check "$sequencer"
	for i in 1 2 3; do kill_replica $i; done
	one_line 3 ".cell:check: " "$LSCTL" check "$sequencer"
	exits 3 limit 30 "$LSCTL" --cell "$cell/dc1.conf" --key "$cell/admin.key" \
		check "$sequencer" > "$work/out"
	is "$(cat "$work/out")" ""
}

run_cases
