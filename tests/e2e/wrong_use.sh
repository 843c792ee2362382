#!/bin/bash
# Wrong use: one clear line, the right exit code, and nothing changed.
. "$(dirname "$0")/lib.sh"

case_usage() {
	one_line 2 "lsfs: " "$LSFS" --no-such-option
	one_line 2 "lsfs: " "$LSFS"
	one_line 2 "lsfs: " "$LSFS" --standalone "$data"
	one_line 2 "nonsense" "$LSFS" -o nonsense --standalone "$data" "$m"
	one_line 2 "commit" "$LSFS" -o commit=never --standalone "$data" "$m"
	one_line 2 "lock_delay" "$LSFS" -o lock_delay=61 --standalone "$data" "$m"
	one_line 2 "only with --standalone" "$LSFS" --cell name "$data" "$m"
	one_line 2 "lsctl: " "$LSCTL" nonsense
	one_line 2 "lsctl: " "$LSCTL" lock
	[ ! -e "$data" ]
	local number
	for number in 5.5 0x1e 1e1 +5 ' 5' '' 61; do
		one_line 2 "not a whole number" \
			"$LSCTL" lock --lock-delay "$number" "$work/f" -- true
	done
	one_line 2 "2.7: not a whole number" "$LSCTL" lock --slots 2.7 "$work/f" -- true
	one_line 2 "1.9: not a whole number" "$LSCTL" lock -E 1.9 "$work/f" -- true
	one_line 2 "2.5: not a whole number" "$LSCTL" lock --check-fails 2.5 "$work/f" -- true
	[ ! -e "$work/f" ]
	"$LSFS" --help | grep -q -- --standalone
	"$LSFS" --version | grep -q '^lsfs '
	"$LSCTL" --help | grep -q verify
	"$LSCTL" --version | grep -q '^lsctl '
}

# What a program was asked to print is its result.
case_output_that_cannot_be_written() {
	local program
	for program in "$LSFS" "$LSCELL" "$LSCTL"; do
		not_written "$program" --help
		not_written "$program" --version
	done
	not_written "$LSCTL" help lock
	not_written "$LSCTL" key generate "$work/printed.key"
	not_written "$LSCTL" key show --json "$work/printed.key"
	is "$(unread "$LSCTL" help)" 0
}
# unsaid CODE COMMAND...
# shellcheck disable=SC2016 # for another shell
unsaid() {
	local code=$1
	shift
	one_line "$code" "standard output" bash -c '"$@" > /dev/full' bash "$@"
}
not_written() { unsaid 1 "$@"; }
# Its exit status and messages, where nobody reads its output.
unread() {
	{
		(trap '' PIPE && wait_until "nobody reads" pipe_is_closed && "$@") 2>&3 | true
		echo "${PIPESTATUS[0]}"
	} 3>&1
}
pipe_is_closed() { ! echo 2> /dev/null; }

case_mount_point() {
	one_line 1 "$work/nowhere" "$LSFS" --standalone "$data" "$work/nowhere"
	touch "$work/file"
	one_line 1 "$work/file" "$LSFS" --standalone "$data" "$work/file"
	[ ! -e "$data" ]
}

# What it has done, or found out, is not what its exit status says of the contrary.
case_answers_that_cannot_be_written() {
	start
	unsaid 3 "$LSCTL" txn <<< "create /done"
	[ -e "$m/done" ]
	# shellcheck disable=SC2016 # for another shell
	unsaid 3 "$LSCTL" lock "$m/done" -- bash -c '"$1" check "$LS_SEQUENCER"' bash "$LSCTL"
	unsaid 3 "$LSCTL" status --check "$m"
	unsaid 2 "$LSCTL" doctor "$m"
	stop
}

case_data_directory_of_something_else() {
	mkdir "$work/other"
	echo precious > "$work/other/file"
	one_line 1 "$work/other" "$LSFS" --standalone "$work/other" "$m"
	is "$(ls -A "$work/other")" file
	touch "$work/file2"
	one_line 1 "$work/file2" "$LSFS" --standalone "$work/file2" "$m"
}

case_in_use() {
	start
	mkdir "$work/second"
	one_line 1 "in use" "$LSFS" --standalone "$data" "$work/second"
	one_line 1 "$m" "$LSFS" --standalone "$work/data2" "$m"
	[ ! -e "$work/data2" ] || [ -z "$(ls -A "$work/data2")" ] || ! pgrep -f "data2"
	echo alive > "$m/f"
	is "$(cat "$m/f")" alive
	LSFS_CELL="" LSFS_KEY="" "$LSCTL" cell show | grep -q "cell  *local"
	stop
}

case_an_operation_on_a_cell_in_one_process() {
	start
	local words
	for words in "principal list" "session list" "replica list" "cell set quota_nodes=1"; do
		# shellcheck disable=SC2086 # words
		one_line 1 "$data/cell.conf: this needs a cell of lscell processes" \
			"$LSCTL" --cell "$data/cell.conf" $words
	done
	stop
}

case_events_that_cannot_be_written() {
	start
	"$LSCTL" watch "$m" > /dev/full 2> "$work/out" &
	watcher=$!
	wait_until "it ends" ends_at_an_event
	exits 1 wait "$watcher"
	grep -qx 'lsctl: standard output: .*' "$work/out"
	is "$(wc -l < "$work/out")" 1
	not_written "$LSCTL" export "$m"
	stop
}
ends_at_an_event() {
	echo event > "$m/events"
	gone "$watcher"
}

# Nothing that is opened gets one of the numbers into which messages go.
case_closed_descriptors() {
	limit 20 "$LSFS" --standalone "$data" "$m" <&- >&- 2>&-
	daemon=$(daemon_of "$m")
	echo kept > "$m/closed"
	mkdir -p "$work/third"
	one_line 1 "in use" "$LSFS" --standalone "$data" "$work/third"
	for fd in 0 1 2; do is "$(readlink "/proc/$daemon/fd/$fd")" /dev/null; done
	stop
	start
	is "$(cat "$m/closed")" kept
	stop
	limit 20 "$LSFS" -f --standalone "$data" "$m" <&- >&- 2>&- &
	wait_until "it is mounted" mountpoint -q "$m"
	daemon=$(pgrep -f -- "^[^ ]*lsfs -f .*$m\$")
	echo again > "$m/closed"
	one_line 1 "in use" "$LSFS" --standalone "$data" "$work/third"
	stop
	start
	is "$(cat "$m/closed")" again
	stop
	limit 20 "$LSCTL" cell create one --dir "$work/one" --replica 127.0.0.1:7461
	"$LSCELL" "$work/one/1" <&- >&- 2>&- &
	daemon=$!
	wait_until "it has a database" test -e "$work/one/1/log.db"
	for fd in 0 1 2; do is "$(readlink "/proc/$daemon/fd/$fd")" /dev/null; done
	kill $daemon
	wait_until "it has stopped" gone $daemon
	limit 10 "$LSCTL" cell show --cell "$work/one/one.conf" <&- 2> /dev/null | grep -q one
}

# A daemon keeps nothing of its caller's: not the lock under which it was started either.
case_inherited_descriptors() {
	flock "$work/lock" "$LSFS" --standalone "$data" "$m"
	daemon=$(daemon_of "$m")
	flock -n "$work/lock" true
	stop
}

# Somebody else's mount, whose daemon is stopped: whoever looks at it would hang.
case_a_stopped_mount() {
	start
	kill -STOP "$daemon"
	mount -t tmpfs -o mode=700 apart /run/lsfs # no run record tells of it
	one_line 1 "busy" "$LSFS" --standalone "$work/data2" "$m"
	umount /run/lsfs
	kill -CONT "$daemon"
	is "$(cat "$m/f")" alive
	stop
}

case_damaged_files() {
	cp -a "$data" "$work/copy"
	chmod 644 "$work/copy/signing.key"
	one_line 1 "signing.key" "$LSFS" --standalone "$work/copy" "$m"
	rm "$work/copy/signing.key"
	one_line 1 "signing.key" "$LSFS" --standalone "$work/copy" "$m"
	cp -a "$data/signing.key" "$work/copy/"
	echo 'nonsense' >> "$work/copy/cell.conf"
	one_line 1 "cell.conf" "$LSFS" --standalone "$work/copy" "$m"
	cp -a "$data/cell.conf" "$work/copy/"
	head -c 8192 /dev/urandom | dd of="$work/copy/state.db" conv=notrunc status=none
	local before
	before=$(sha256sum "$work/copy/state.db")
	one_line 1 "state.db" "$LSFS" --standalone "$work/copy" "$m"
	is "$(sha256sum "$work/copy/state.db")" "$before"
	cp -a "$data/state.db" "$work/copy/"
	: > "$work/copy/log.db"
	one_line 1 "log.db" "$LSFS" --standalone "$work/copy" "$m"
	not mountpoint -q "$m"
}

run_cases
