#!/bin/bash
# The members of a cell come and go while it works: added, caught up, removed, replaced one after
# the other; disks that were emptied; the mastership handed over; sessions ended by an operator.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

refused_ctl() {
	local text=$1
	shift
	refused "$text" "$LSCTL" --cell "$conf" --key "$cell/admin.key" "$@"
}

master() {
	told_of_replicas '[i for i in r if r[i].get("role") == "master"][0]' 2> /dev/null || echo 0
}
there_is_a_master() { [ "$(master)" != 0 ]; }

# add_replica: a new one, started; its id is in $new.
add_replica() {
	rm -rf "$cell/new"
	cell_ctl replica add "127.0.0.1:$(free_port)" --dir "$cell/new" > "$work/added"
	new=$(sed -n 's/.* is the data directory of replica \([0-9]*\) .*/\1/p' "$work/added")
	mv "$cell/new" "$cell/$new"
	start_replica "$new"
}

# A writer that knows what it was promised: each number is appended to a file, and noted when that
# has succeeded.
begin_load() {
	rm -f "$work/stop" "$work/acked"
	: > "$m/numbers"
	touch "$work/acked"
	(
		i=0
		while [ -d "$work" ] && [ ! -e "$work/stop" ]; do
			i=$((i + 1))
			if echo $i >> "$m/numbers"; then echo $i >> "$work/acked"; fi
		done
	) &
	load=$!
}
goes_on() { [ "$(tail -n 1 "$work/acked")" -gt "$1" ]; }
load_goes_on() { wait_until "the writer goes on" goes_on "$(($(tail -n 1 "$work/acked") + 3))"; }
end_load() {
	touch "$work/stop"
	wait $load
	is "$(sort -n "$m/numbers" | uniq -d)" ""
	is "$(comm -23 <(sort "$work/acked") <(sort "$m/numbers"))" ""
	[ "$(wc -l < "$work/acked")" -gt 10 ]
}

# More than the log keeps for anybody: 64 MiB, and no faster than the state is saved: nothing that
# is not saved is trimmed.
write_much() {
	local i
	head -c 262144 /dev/urandom > "$work/big"
	for i in $(seq 280); do cp "$work/big" "$m/big"; done
}

case_start() {
	create_of_three --set session_lease=15s
	local i
	for i in 1 2 3; do start_replica $i; done
	limit 30 "$LSFS" -o "key=$cell/admin.key,commit=write" "$conf" "$m"
	wait_until "all have a vote" is_told 'sorted(r) == [1, 2, 3] and
		all(x["voter"] and x["condition"] == "voting" for x in r.values())'
	cell_ctl replica list > "$work/out"
	is "$(grep -cE '^[123] +127.0.0.1:[0-9]+ +voter +voting +[0-9]+ +[0-9]+' "$work/out")" 3
	is "$(grep -c ' master$' "$work/out")" 1
	echo kept > "$m/kept"
}

case_settings() {
	cell_ctl cell show > "$work/out"
	grep -qE '^session_lease +15s ' "$work/out"
	grep -qE '^master_lease +500ms ' "$work/out"
	cell_ctl cell set session_lease=20s
	cell_ctl cell show | grep -qE '^session_lease +20s .*default 12s$'
	cell_ctl cell set session_lease=18s
	cell_ctl --json cell show | python3 -c 'import json, sys
lease = json.load(sys.stdin)["settings"]["session_lease"]
assert lease["value"] == 18000 and lease["longest"] == 20000, lease'
	refused_ctl "session_lease: from 1s to 1m" cell set session_lease=2m
	refused_ctl "cache_lease: not longer than session_lease" cell set cache_lease=19s
	one_line 2 "colour=1: no such setting" "$LSCTL" --cell "$conf" cell set colour=1
	one_line 2 "not NAME=VALUE" "$LSCTL" --cell "$conf" cell set colour
	one_line 2 "heartbeat=100: not a number above 0 with ms, s or m" \
		"$LSCTL" --cell "$conf" cell set heartbeat=100
}

# 256 writes of 256 KiB are under way when the master stands still: what is sent again is no more
# than a connection takes, and the session lives.
case_a_burst_at_a_failover() {
	local old session
	old=$(replica "$(master)")
	mount_second
	session=$(session "$m2")
	limit 60 python3 - "$m2" "$old" <<-'E'
		import os, signal, sys, threading
		mount, master = sys.argv[1], int(sys.argv[2])
		os.mkdir(mount + "/burst")
		files = [open(f"{mount}/burst/{i}", "wb", buffering=0) for i in range(256)]
		for f in files:
		    f.write(bytes(262144))
		os.kill(master, signal.SIGSTOP)
		failed = []
		def commit(f):
		    try:
		        f.close()
		    except OSError as e:
		        failed.append(e)
		threads = [threading.Thread(target=commit, args=(f,)) for f in files]
		for t in threads:
		    t.start()
		for t in threads:
		    t.join()
		os.kill(master, signal.SIGCONT)
		assert not failed, {str(e) for e in failed}
		assert all(os.path.getsize(f"{mount}/burst/{i}") == 262144 for i in range(256))
	E
	is "$(session "$m2")" "$session"
	limit 10 umount "$m2"
}

case_a_new_one_catches_up_and_gets_a_vote() {
	write_much
	begin_load
	add_replica
	is "$new" 4
	[ ! -e "$cell/new" ]
	is "$(stat -c %a "$cell/4" "$cell/4/replica.key" | xargs)" "700 600"
	wait_until "it has a vote" is_voting 4
	said 4 "asks the other replicas for the cell's signing key"
	said 4 "the state of replica . is here"
	said 4 "replica 4 has a vote"
	is "$(stat -c %a "$cell/4/signing.key")" 600
	cmp "$cell/1/signing.key" "$cell/4/signing.key"
	load_goes_on
	end_load
}

case_the_same_address_or_a_directory_in_use_is_refused() {
	local taken
	taken=$(told_of_replicas 'r[2]["address"]')
	refused_ctl "refused: " replica add "$taken" --dir "$cell/new"
	[ ! -e "$cell/new" ]
	mkdir "$cell/theirs"
	refused_ctl "refused: " replica add "$taken" --dir "$cell/theirs"
	rmdir "$cell/theirs"
	refused_ctl "exists already" replica add "127.0.0.1:$(free_port)" --dir "$cell/1"
	is "$(told_of_replicas 'sorted(r)')" "[1, 2, 3, 4]"
	mkdir "$cell/full"
	touch "$cell/full/replica.key" "$cell/full/more"
	refused_ctl "exists already" replica add "127.0.0.1:$(free_port)" --dir "$cell/full"
	is "$(ls "$cell/full" | xargs)" "more replica.key"
	refused_ctl "not HOST:PORT" replica add nowhere --dir "$cell/new"
	refused_ctl "not a replica's id" replica remove 0
	refused_ctl "there is no replica 99" replica remove 99
}

case_who_is_removed_ends() {
	local pid
	pid=$(replica 4)
	cell_ctl replica remove 4 | grep -q 'replica 4 is no longer a member of cell dc1'
	wait_until "it has ended" gone "$pid"
	said 4 "not a member of this cell any more"
	exits 1 limit 20 "$LSCELL" "$cell/4" 2>> "$work/lscell-4.log"
	is "$(told_of_replicas 'sorted(r)')" "[1, 2, 3]"
	cell_ctl replica remove 4 # again: it is done
	echo on > "$m/kept"
}

case_no_change_loses_the_quorum() {
	[ "$(master)" != 3 ] || cell_ctl master transfer
	kill_replica 3
	wait_until "its silence is noticed" is_told 'r[3].get("heard_ms", 0) > 5000'
	refused_ctl "replica 3 has not answered for" replica remove 2
	refused_ctl "1 of 2 voters would remain" replica remove "$(master)"
	is "$(told_of_replicas 'sorted(r)')" "[1, 2, 3]"
	is "$(cell_ctl replica list | grep -cE '^3 .* unreachable +[0-9]+ heard [0-9]+ s ago$')" 1
	begin_load
	cell_ctl replica remove 3 # the dead one: that loses nothing
	is "$(told_of_replicas 'sorted(r)')" "[1, 2]"
	add_replica
	is "$new" 5
	wait_until "it has a vote" is_voting 5
	load_goes_on
	end_load
}

case_an_emptied_disk_has_no_vote() {
	kill_replica 5
	rm "$cell"/5/*.db* "$cell/5/marks"
	start_replica 5
	wait_until "it is found out" is_told 'r[5]["condition"] == "lost"'
	said 5 "older state than it has acknowledged"
	cell_ctl status | grep -q "^problem .*replica 5 .* older state than it has acknowledged"
	is "$(grep -c 'older state than' "$work/lscell-5.log")" 1
	# It counts in the quorum and does not help to reach it.
	local other=1
	[ "$(master)" = 1 ] && other=2
	kill_replica $other
	wait_until "nobody is master" is_told 'not [i for i in r if r[i].get("role") == "master"]'
	start_replica $other
	wait_until "there is a master" there_is_a_master
	other=$(replica 5)
	cell_ctl replica remove 5
	wait_until "it has ended" gone "$other"
	add_replica
	is "$new" 6
	wait_until "the new one has a vote" is_voting 6
	is "$(cat "$m/kept")" on
}

case_away_for_long() {
	local away=1
	[ "$(master)" = 1 ] && away=2
	begin_load
	kill_replica $away
	write_much
	: > "$work/lscell-$away.log"
	start_replica $away
	wait_until "it is back" is_voting $away
	said $away "the state of replica . is here"
	load_goes_on
	end_load
}

# A state that is sound by itself, and not what the others have: it is compared by and by.
case_a_state_that_differs_is_replaced() {
	local other=1
	[ "$(master)" = 1 ] && other=2
	kill_replica $other TERM
	forge_digest "$cell/$other/state.db"
	: > "$work/lscell-$other.log"
	start_replica $other
	begin_load
	wait_until "enough was written to compare" goes_on 1100
	wait_until "it is found out" said $other "the state differs from that of the other replicas"
	wait_until "it is back" is_voting $other
	said $other "the state of replica . is here"
	[ -e "$cell/$other/state.db.damaged" ]
	load_goes_on
	end_load
}

# The digest of what was applied gets another bit, and its row the right checksum.
forge_digest() {
	python3 - "$1" << 'END'
import sqlite3, struct, subprocess, sys
db = sqlite3.connect(sys.argv[1])
rows = db.execute("SELECT * FROM meta")
names = [column[0] for column in rows.description]
row = dict(zip(names, rows.fetchone()))
def checksum(row):
	values = [0] + [row[name] for name in names if name != "row_checksum"]
	data = b"".join(struct.pack("<q", value) for value in values)
	sum = subprocess.run(["xxh64sum"], input=data, capture_output=True).stdout.split()[0]
	return struct.unpack(">q", bytes.fromhex(sum.decode()))[0]
assert checksum(row) == row["row_checksum"]
row["digest"] ^= 1
db.execute("UPDATE meta SET digest = ?, row_checksum = ?", (row["digest"], checksum(row)))
db.commit()
END
}

case_the_mastership_is_handed_over() {
	local before after
	before=$(master)
	begin_load
	after=$(cell_ctl master transfer | sed -n 's/replica \([0-9]*\) is master/\1/p')
	[ "$after" != "$before" ]
	is "$(master)" "$after"
	is "$(cell_ctl master transfer "$before")" "replica $before is master"
	is "$(cell_ctl master transfer "$before")" "replica $before is master" # it is already
	refused_ctl "refused: " master transfer 99
	refused_ctl "not a replica's id" master transfer x
	load_goes_on
	end_load
}

case_operators_only() {
	"$LSCTL" key generate "$work/stranger" eve > /dev/null
	local command
	for command in "replica remove 1" "master transfer" "session list" \
		"replica add 127.0.0.1:$(free_port) --dir $cell/new"; do
		# shellcheck disable=SC2086 # words
		refused "the cell does not know this key" \
			"$LSCTL" --cell "$conf" --key "$work/stranger" $command
	done
}

case_sessions() {
	mount_second lock_delay=30
	cell_ctl session list --json > "$work/sessions"
	local id
	id=$(session "$m2")
	[ -n "$id" ]
	exec 9<> "$m2/lock"
	flock 9
	is "$(cell_ctl session list | grep -cE "^$id +admin +[^ ]+ +1 +[0-9.]+ s ago$")" 1
	is "$(cell_ctl locks | grep -cE "^/lock +holds +exclusive +[0-9]+ $id +admin ")" 1
	is "$(cell_ctl locks --json | sed -E 's/("seconds": )[0-9]+/\1/')" \
		"$("$LSCTL" locks "$m" --json | sed -E 's/("seconds": )[0-9]+/\1/')"
	cell_ctl top -n 1 --json > "$work/top"
	python3 - "$work/top" "$id" <<-'P'
		import json, sys
		all, id = json.load(open(sys.argv[1])), int(sys.argv[2])
		assert len(all["status"]["replicas"]) == 3
		assert id in [s["session"] for s in all["sessions"]]
		assert all["locks"][0]["holders"][0]["session"] == id
	P
	cell_ctl session destroy "$id"
	limit 5 flock "$m/lock" true # at once: no lock-delay
	is "$(cell_ctl session list | grep -c "^$id ")" 0
	exec 9>&-
	refused_ctl "no such session" session destroy "$id"

	wait_until "it has another session" has_other_session "$id"
	id=$(session "$m2")
	exec 9<> "$m2/lock"
	flock 9
	cell_ctl session destroy "$id" --keep-delay
	[[ $(attribute lock "$m/lock") == delayed* ]]
	is "$(cell_ctl locks | grep -cE "^/lock +delayed +[0-9]+$")" 1
	exec 9>&-
	limit 10 umount "$m2"
}

# Who comes back knows neither the newcomer nor its key, and the newcomer is the master.
case_away_while_another_was_replaced() {
	local away=6
	[ "$(master)" != 6 ] || cell_ctl master transfer
	kill_replica $away
	begin_load
	add_replica
	is "$new" 7
	wait_until "it has a vote" is_voting 7
	cell_ctl replica remove 2
	cell_ctl master transfer 7
	wait_until "the newcomer is the master" is_told 'r[7].get("role") == "master"'
	start_replica $away
	wait_until "it is back" is_voting $away
	load_goes_on
	end_load
	is "$(told_of_replicas 'sorted(r)')" "[1, 6, 7]"
}

has_other_session() {
	local id
	id=$(session "$m2")
	[ -n "$id" ] && [ "$id" != "$1" ] && [ "$id" != 0 ] && is_in_state "$m2" safe
}

# All three, one after the other, while somebody writes: nothing is lost, and the mount stays,
# although its cell file names nobody any more. Beside data directories it is still good for new
# mounts and commands.
case_all_are_replaced() {
	local old
	begin_load
	for old in $(told_of_replicas '" ".join(map(str, sorted(r)))'); do
		add_replica
		wait_until "replica $new has a vote" is_voting "$new"
		cell_ctl replica remove "$old"
		wait_until "replica $old has ended" has_ended "$old"
		conf=$cell/$new/cell.conf
	done
	is "$(told_of_replicas 'sorted(r)')" "[8, 9, 10]"
	load_goes_on
	end_load
	is "$(cat "$m/kept")" on
	mkdir "$work/elsewhere"
	cp "$cell/dc1.conf" "$work/elsewhere"
	conf=$work/elsewhere/dc1.conf
	refused_ctl "" replica list
	refused_ctl "the cell does not answer" session list
	conf=$cell/dc1.conf
	is "$(told_of_replicas 'sorted(r)')" "[8, 9, 10]"
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$conf" "$m2"
	is "$(cat "$m2/kept")" on
	limit 10 umount "$m2"
}

# The last ones stand on their own disks.
case_all_start_again() {
	local i
	conf=$cell/10/cell.conf
	for i in 8 9 10; do kill_replica $i TERM; done
	for i in 8 9 10; do start_replica $i; done
	wait_until "all have a vote" is_told 'all(x["voter"] and x["condition"] == "voting"
		for x in r.values())'
	is "$(limit 40 cat "$m/kept")" on
	wait_until "all have the same state" is_told 'len({x["digest"] for x in r.values()}) == 1'
}

case_who_is_removed_before_its_first_start_ends() {
	local id new=$cell/'a "new" one'
	cell_ctl replica add --json "127.0.0.1:$(free_port)" --dir "$new" > "$work/added"
	id=$(python3 -c 'import json, sys
added = json.load(open(sys.argv[1]))
assert added["directory"] == sys.argv[2]
print(added["id"])' "$work/added" "$new")
	cell_ctl replica remove "$id" > /dev/null
	exits 1 limit 20 "$LSCELL" "$new" 2>> "$work/lscell-new.log"
	said new "not a member of this cell any more"
	[ ! -e "$new/signing.key" ]
}

# cut_off N: adds the replica again, and makes only the first N connections.
cut_off() {
	rm -f "$cell/cut/cell.conf"
	strace -f -q -o "$work/traced" -e trace=connect \
		-e inject=connect:error=ECONNREFUSED:when=$(($1 + 1))+ \
		"$LSCTL" --cell "$conf" --key "$cell/admin.key" \
		replica add "$at" --dir "$cell/cut" > "$work/added" 2> "$work/err"
}

# After the cell has added it, lsctl asks for what a cell file needs.
case_an_add_that_is_cut_off() {
	local n at id="" added="was added, but no replica answers for its cell file: repeat"
	at=127.0.0.1:$(free_port)
	n=7 # less are not enough to add it
	until cut_off $n; do
		[ -s "$work/err" ]
		if grep -q "$added the same command\$" "$work/err"; then id=seen; fi
		n=$((n + 1))
		[ $n -lt 30 ]
	done
	is "$id" seen
	id=$(sed -n 's/.* of replica \([0-9]*\) at .*/\1/p' "$work/added")
	cell_ctl replica remove "$id" > /dev/null
}

# Ended while it wrote the cell file, or the key.
case_an_add_that_was_interrupted_is_repeated() {
	local at new=$cell/new begun=$cell/begun
	at=127.0.0.1:$(free_port)
	cell_ctl replica add "$at" --dir "$new" > "$work/added"
	mv "$new/cell.conf" "$new/cell.conf.new"
	cell_ctl replica add "$at" --dir "$new" | cmp - "$work/added"
	is "$(ls "$new" | xargs)" "cell.conf replica.key"
	mkdir -m 700 "$begun"
	touch "$begun/replica.key.new"
	cell_ctl replica add "127.0.0.1:$(free_port)" --dir "$begun" > /dev/null
	is "$(ls "$begun" | xargs)" "cell.conf replica.key"
	rm "$new/cell.conf"
	refused_ctl "$new/replica.key: kept" replica add "127.0.0.1:$(free_port)" --dir "$new"
	is "$(ls "$new")" replica.key
	cell_ctl replica add "$at" --dir "$new" | cmp - "$work/added"
	local id
	for id in $(sed -n 's/.* of replica \([0-9]*\) at .*/\1/p' "$work/added"); do
		cell_ctl replica remove "$id" > /dev/null
	done
}

run_cases
