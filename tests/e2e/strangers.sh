#!/bin/bash
# Who is let in to a replica and who is not, and a replica that cannot run: one clear line each, and
# a cell that goes on.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

port=7001 # of replica 1

mount_cell() { limit 40 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"; }
not_mounted_with() { one_line 1 "$2" "$LSFS" -o "key=$1" "$cell/dc1.conf" "$m"; }
works() { echo "$1" > "$m/works" && [ "$(cat "$m/works")" = "$1" ]; }

case_usage() {
	one_line 2 "lscell: " "$LSCELL"
	one_line 2 "lscell: " "$LSCELL" --no-such-option
	one_line 2 "lscell: extra" "$LSCELL" "$work/a" extra
	"$LSCELL" --help | grep -q DATADIR
	"$LSCELL" --version | grep -q '^lscell '
	one_line 1 "$work/a" "$LSCELL" "$work/a"
	[ ! -e "$work/a" ]
	touch "$work/b"
	one_line 1 "$work/b: Not a directory" "$LSCELL" "$work/b"
}

case_mounts() {
	create_of_three
	local i
	for i in 1 2 3; do start_replica $i; done
	mount_cell
	works first
}

status_of() { sed -n "s/^$2:\t//p" "/proc/$(replica "$1")/status"; }

# A replica that root starts keeps nothing of root's rights; where the data directory is another
# user's, it runs as that user.
case_confined() {
	is "$(status_of 1 CapEff) $(status_of 1 CapPrm)" "0000000000000000 0000000000000000"
	is "$(status_of 1 NoNewPrivs) $(status_of 1 Seccomp)" "1 2"
	kill_replica 3 TERM
	chmod 755 "$work" "$cell"
	chown -R nobody "$cell/3"
	start_replica 3
	wait_until "replica 3 runs as nobody" runs_as_nobody 3
	kill_replica 2
	works without_two
	kill_replica 3 TERM
	chown -R root "$cell/3"
	start_replica 2
	start_replica 3
}
runs_as_nobody() { [[ $(status_of "$1" Uid 2> /dev/null) == "$(id -u nobody)"* ]]; }

case_a_strangers_key() {
	limit 5 umount "$m"
	"$LSCTL" key generate "$work/stranger.key" > /dev/null
	not_mounted_with "$work/stranger.key" "the cell does not know this key"
	not_mounted_with "$cell/1/replica.key" "replica key"
	# A replica's key, called a principal's.
	cp -a "$cell/1/replica.key" "$work/replica.key"
	sed -i 's/^replica /principal admin /' "$work/replica.key"
	not_mounted_with "$work/replica.key" "the cell does not know this key"
	not_mounted_with "$work/missing" "$work/missing"
	cp "$cell/admin.key" "$work/open.key"
	chmod 644 "$work/open.key"
	not_mounted_with "$work/open.key" "others may read"
	not mountpoint -q "$m"
	cat "$work"/lscell-?.log | grep -q "refused: its key is not welcome"
	mount_cell
	works strangers
}

# A tool that the cell does not let in knows nothing of the cell's state.
case_a_strangers_key_in_a_tool() {
	local command
	for command in status "status --limits" locks "replica list" "cell refresh" \
		"top -n 1" "session list" "principal list" "master transfer" "backup $work/copy"; do
		# shellcheck disable=SC2086 # words
		one_line 1 "the cell does not know this key" "$LSCTL" $command \
			--cell "$cell/dc1.conf" --key "$work/stranger.key"
	done
	one_line 2 "the cell does not know this key" "$LSCTL" doctor --cell "$cell/dc1.conf" \
		--key "$work/stranger.key"
	exits 3 "$LSCTL" status --check --cell "$cell/dc1.conf" --key "$work/stranger.key" \
		> "$work/out" 2>&1
	grep -q "the cell does not know this key" "$work/out"
	one_line 2 "$work/missing" "$LSCTL" doctor --cell "$cell/dc1.conf" --key "$work/missing"
	[ ! -e "$work/copy" ]
}

case_another_cell() {
	limit 5 umount "$m"
	"$LSCTL" cell create other --dir "$work/other" --replica "127.0.0.1:$port" > /dev/null
	wait_until "replica 1 says so, too" comes_from_another_cell
	one_line 1 "it is of another cell" "$LSCTL" --cell "$work/other/other.conf" session list
	not mountpoint -q "$m"
	mount_cell
}
# The log of the replica does not have each one.
comes_from_another_cell() {
	one_line 1 "it is of another cell" "$LSFS" \
		-o "key=$work/other/admin.key" "$work/other/other.conf" "$m" &&
		said 1 "refused: it is of another cell"
}

# Where one of several addresses has gone to another cell the others count.
case_one_address_of_another_cell() {
	limit 5 umount "$m"
	kill_replica 1
	cp -a "$work/other/1" "$work/runs"
	start_other "$work/runs"
	mount_cell
	works others
	limit 5 umount "$m"
	kill_replica 2 TERM
	kill_replica 3 TERM
	not_mounted_with "$cell/admin.key" "it is of another cell"
	kill "$other"
	wait_until "the other cell has ended" gone "$other"
	local i
	for i in 1 2 3; do start_replica $i; done
	mount_cell
}
start_other() {
	"$LSCELL" "$1" 2> "$work/other.log" &
	other=$!
	wait_until "it listens" listens "$port"
}

# Nobody answers: that is said, and goes on; who does not want to wait ends it, and nothing is left.
case_nobody_answers() {
	local i pid
	limit 5 umount "$m"
	for i in 1 2 3; do kill_replica $i TERM; done
	"$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m" 2> "$work/waits" &
	pid=$!
	wait_until "it says so" grep -q "connection refused: trying again" "$work/waits"
	is "$(wc -l < "$work/waits")" 1
	kill -TERM $pid
	exits 143 wait $pid
	wait_until "nothing is left of it" eval "! pgrep -f -- 'lsfs .* $m\$'"

	"$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m" 2> "$work/waits" &
	pid=$!
	wait_until "it says so" grep -q "connection refused: trying again" "$work/waits"
	for i in 1 2 3; do start_replica $i; done
	wait $pid
	works again
}

# Debian gives a machine's own name an address that no other machine reaches.
case_a_name_that_only_this_machine_reaches() {
	local port
	port=$(free_port)
	echo "127.0.1.1 node.example" > "$work/hosts"
	mount --bind "$work/hosts" /etc/hosts
	"$LSCTL" cell create own --dir "$work/own" --replica "node.example:$port" > /dev/null
	"$LSCELL" "$work/own/1" 2> "$work/own.log" &
	wait_until "it listens" grep -q "replica 1 listens on 127.0.1.1:$port" "$work/own.log"
	grep -q "node.example:$port is 127.0.1.1:$port here: no other machine" "$work/own.log"
	kill $!
	wait $!
	sed -i "s/^name = .*/&\nlisten = 0.0.0.0:$port/" "$work/own/1/cell.conf"
	"$LSCELL" "$work/own/1" 2> "$work/own.log" &
	wait_until "it listens" grep -q "replica 1 listens on 0.0.0.0:$port" "$work/own.log"
	not grep -q "no other machine" "$work/own.log"
	kill $!
	wait $!
	umount /etc/hosts
}

# Each line of noise is a connection of its own; half of them begin well.
case_random_bytes() {
	local i
	for i in $(seq 60); do
		{
			exec 9<> "/dev/tcp/127.0.0.1/$port"
			[ $((i % 2)) = 0 ] || printf 'lsfs\1\1\0\0' >&9
			head -c $((i * 37)) /dev/urandom >&9
			exec 9>&-
		} 2> /dev/null || :
	done
	works noise
	said 1 "is refused: "
	[ "$(grep -c "is refused" "$work/lscell-1.log")" -lt 20 ]
}

# The reader of a replica's messages has stopped, the pipe is full; strangers make it speak.
case_nobody_reads_its_messages() {
	local i pid
	mkfifo "$work/pipe"
	exec 8<> "$work/pipe"
	kill_replica 1 TERM
	"$LSCELL" "$cell/1" 2> "$work/pipe" &
	pid=$!
	dd if=/dev/zero of="$work/pipe" bs=1 oflag=nonblock 2> /dev/null || : # until it is full
	wait_until "it listens" listens "$port"
	for i in $(seq 5); do
		printf 'nonsense, and more' > "/dev/tcp/127.0.0.1/$port"
	done
	kill_replica 2 TERM # it is needed now
	works stuck
	[ "$(awk '{ print $3 }' "/proc/$pid/stat")" != D ]
	timeout 2 cat "$work/pipe" > "$work/read" || : # its reader goes on
	printf nonsense > "/dev/tcp/127.0.0.1/$port"
	wait_until "it tells what was lost" eval 'timeout 1 cat "$work/pipe" >> "$work/read" || :
		printf nonsense > "/dev/tcp/127.0.0.1/$port"
		grep -aq "messages were lost" "$work/read"'
	exec 8>&-
	kill "$pid"
	wait_until "it has ended" gone "$pid"
	start_replica 1
	start_replica 2
	works read_again
}

case_a_replica_that_cannot_run() {
	one_line 1 "in use by process $(replica 1)" "$LSCELL" "$cell/1"
	mkdir "$work/fresh"
	cp -a "$cell"/1/{cell.conf,replica.key,signing.key} "$work/fresh"
	one_line 1 "127.0.0.1:$port: can't listen there: address already in use" \
		"$LSCELL" "$work/fresh"
	kill_replica 3 TERM
	local file copy=$work/copy
	cp -a "$cell/3" "$copy"

	cp "$cell/1/replica.key" "$copy/replica.key"
	one_line 1 "log.db belongs to replica 3" "$LSCELL" "$copy"
	cp "$work/other/1/replica.key" "$copy/replica.key"
	one_line 1 "the key of none of the replicas" "$LSCELL" "$copy"
	chmod 644 "$copy/replica.key"
	one_line 1 "replica.key: others may read" "$LSCELL" "$copy"
	rm "$copy/replica.key"
	one_line 1 "replica.key" "$LSCELL" "$copy"
	cp -a "$cell/3/replica.key" "$copy"

	cp "$work/other/1/cell.conf" "$copy/cell.conf"
	one_line 1 "the key of none of the replicas" "$LSCELL" "$copy"
	cp -a "$work/other/1/." "$copy"
	one_line 1 "of cell dc1, not to replica 1 of cell other" "$LSCELL" "$copy"
	cp -a "$cell/3/." "$copy"
	for file in cell.conf replica.key signing.key lock health log.db state.db; do
		rm "$copy/$file"
		mkfifo "$copy/$file"
		one_line 1 "$file: " "$LSCELL" "$copy"
		rm "$copy/$file"
		cp -a "$cell/3/$file" "$copy"
	done
	sed -i 's/^address.*/address = nonsense/' "$copy/cell.conf"
	one_line 1 "cell.conf:" "$LSCELL" "$copy"
	rm "$copy/cell.conf"
	one_line 1 "cell.conf" "$LSCELL" "$copy"
	works two_of_three
	start_replica 3
}

# Moments of a start: the process is there, it has opened its log, it listens.
runs() { [ "$(cat "/proc/$1/comm")" = lscell ]; }
has_opened() { find "/proc/$1/fd" -lname "*/$2" 2> /dev/null | grep -q .; }

# end_at SIGNAL MOMENT...: replica 3 starts, and is told to end at that moment; it does.
end_at() {
	local signal=$1 rc=0 pid
	shift
	start_replica 3
	pid=$!
	wait_until "it is time" "${@/PID/$pid}"
	kill -"$signal" $pid
	wait_until "it has ended" gone $pid
	wait $pid || rc=$?
	[ $rc -eq 0 ] || is $rc $((128 + $(kill -l "$signal")))
}

case_ended_while_it_starts() {
	local signal at
	at=$(sed -n 's/^address = .*://p' "$cell/dc1.conf" | sed -n 3p)
	kill_replica 3 TERM
	for signal in TERM KILL; do
		end_at $signal runs PID
		end_at $signal has_opened PID log.db
		end_at $signal has_opened PID state.db
		end_at $signal listens "$at"
		works "$signal"
	done
	start_replica 3
	kill_replica 2
	wait_until "replica 3 is needed, and there" works three
	start_replica 2
	not grep -qE "damaged|failed|must" "$work/lscell-3.log"
}

case_ends_in_good_order() {
	local i
	limit 5 umount "$m"
	for i in 1 2 3; do
		kill_replica $i TERM
		said $i "stops on signal 15"
	done
	# alone it never becomes master, and ends as well
	start_replica 1
	local alone=$!
	wait_until "replica 1 listens" listens "$port"
	kill $alone
	wait $alone
	not grep -qE "must|Sanitizer|leak" "$work"/lscell-*.log
}

run_cases
