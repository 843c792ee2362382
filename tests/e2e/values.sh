#!/bin/bash
# lsctl get and put, on two mounts of a cell of three: a value is changed without a lock, also while
# the master dies.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three
	mount_second
}

generation() { attribute content_generation "$1"; }
put() { "$LSCTL" put "$@"; }
# field NAME: of the JSON that is read.
field() { python3 -c 'import json, sys; print(json.load(sys.stdin)[sys.argv[1]])' "$1"; }

case_one_version() {
	head -c 5000 /dev/urandom > "$work/bytes"
	put "$d/f" < "$work/bytes"
	"$LSCTL" get "$m2/${d##*/}/f" | cmp - "$work/bytes"
	"$LSCTL" --json get "$d/f" | python3 -c 'import base64, json, sys
v = json.load(sys.stdin)
assert base64.b64decode(v["contents_base64"]) == open(sys.argv[1], "rb").read()' "$work/bytes"
	printf 'a\n"b"\n' | put "$d/f"
	"$LSCTL" --json get "$d/f" > "$work/out"
	is "$(field contents < "$work/out")" "$(printf 'a\n"b"\n')"
	is "$(field content_generation < "$work/out")" "$(generation "$d/f")"
	is "$(field instance < "$work/out")" "$(attribute instance "$d/f")"
	is "$(ls -A "$d")" f
}

case_a_name_that_is_not_utf8() {
	echo x > "$d/$(printf 'n\xff')"
	is "$("$LSCTL" --json get "$d/$(printf 'n\xff')" | field path)" "$d/n\xff"
}

case_if_generation() {
	echo a > "$d/f"
	local before
	before=$(generation "$d/f")
	echo b | put --if-generation "$before" "$m2/${d##*/}/f"
	is "$(cat "$d/f")" b
	echo c > "$work/c"
	one_line 1 "f: it has another generation" "$LSCTL" put --if-generation "$before" \
		"$d/f" < "$work/c"
	is "$(cat "$d/f")" b
	one_line 1 "none: No such file" "$LSCTL" put --if-generation 1 "$d/none" < "$work/c"
}

# count_to FILE TIMES: adds one so many times; a put that fails is tried again from the get.
count_to() {
	python3 - "$LSCTL" "$@" <<-'P'
		import json, subprocess, sys
		lsctl, path, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
		while left > 0:
		    v = json.loads(subprocess.check_output([lsctl, "--json", "get", path]))
		    put = [lsctl, "put", "--if-generation", str(v["content_generation"]), path]
		    left -= subprocess.run(put, input=str(int(v["contents"]) + 1), text=True,
		                           stderr=subprocess.DEVNULL).returncode == 0
	P
}

case_nothing_is_lost_in_a_race() {
	local other=$m2/${d##*/} old counters
	echo 0 > "$d/f"
	count_to "$d/f" 20 &
	counters=$!
	count_to "$other/f" 20 &
	counters="$counters $!"
	count_to "$other/f" 20 &
	counters="$counters $!"
	wait_until "they count" sh -c '[ "$(cat "$1")" -gt 2 ]' - "$d/f"
	old=$(master)
	kill_replica "$old"
	# shellcheck disable=SC2086 # process ids
	wait $counters
	start_replica "$old"
	is "$(cat "$d/f")" 60
}

# Of those who have seen one version, one replaces it, whoever the master is by then.
case_one_wins_over_a_fail_over() {
	local other=$m2/${d##*/} old i before pids=() won=()
	echo old > "$d/f"
	before=$(generation "$d/f")
	old=$(master)
	kill_replica "$old"
	for i in 1 2 3 4; do
		local at=$d
		[ $((i % 2)) = 0 ] || at=$other
		echo "$i" | put --if-generation "$before" "$at/f" 2> "$work/err-$i" &
		pids[i]=$!
	done
	for i in 1 2 3 4; do ! wait "${pids[i]}" || won+=("$i"); done
	start_replica "$old"
	is "${#won[@]} $(cat "$d/f")" "1 ${won[*]}"
	is "$(cat "$work"/err-* | grep -c "another generation")" 3
}

case_if_absent() {
	local other=$m2/${d##*/} i pids= old
	old=$(master)
	(
		until [ -e "$work/done" ]; do
			[ ! -e "$d/new" ] || [ -s "$d/new" ] || echo empty >> "$work/empty"
		done
	) &
	kill_replica "$old"
	for i in 1 2 3 4 5 6; do
		echo $i | put --if-absent "$( ((i % 2)) && echo "$d" || echo "$other")/new" \
			2>> "$work/exists" && echo $i >> "$work/won" &
		pids="$pids $!"
	done
	# shellcheck disable=SC2086 # process ids
	for i in $pids; do wait $i || true; done
	touch "$work/done"
	wait
	start_replica "$old"
	is "$(cat "$d/new")" "$(cat "$work/won")"
	is "$(wc -l < "$work/won")" 1
	is "$(grep -c 'new: File exists' "$work/exists")" 5
	is "$(ls -A "$d")" new
	[ ! -e "$work/empty" ]
}

# What it had made by then is not left behind, but a silent cell does not hold it up.
case_a_signal_ends_it() {
	local i pids=() ended
	for i in ftruncate pwrite64 fsync; do
		exits 143 limit 20 strace -q -o "$work/traced" -e trace=$i \
			-e inject=$i:signal=TERM "$LSCTL" put --if-absent "$d/new" <<< x
		is "$(ls -A "$d")" ""
	done
	for i in 1 2 3; do pids+=("$(replica $i)"); done
	kill -STOP "${pids[@]}"
	"$LSCTL" put --if-absent "$d/new" <<< x &
	ended=$!
	pause_s 0.5
	kill $ended
	wait_until "it has ended" gone $ended
	kill -CONT "${pids[@]}"
	exits 143 wait $ended
}

# Its write took effect, at the close; or nobody knows, as another one may have written the same.
case_an_answer_that_is_lost() {
	local error before
	for error in ESTALE EIO ECONNABORTED; do
		echo a > "$d/f"
		before=$(generation "$d/f")
		one_line 3 "f: it is not known whether it was written" strace -qq \
			-o "$work/traced" -e trace=fsync -e inject=fsync:error=$error \
			"$LSCTL" put --if-generation "$before" "$d/f" <<< b
		is "$(cat "$d/f")" b
	done
	one_line 3 "new: it is not known" strace -qq -o "$work/traced" -e trace=renameat2 \
		-e inject=renameat2:error=EIO "$LSCTL" put --if-absent "$d/new" <<< x
	is "$(ls -A "$d")" f
	one_line 1 "new: Input/output error" strace -qq -o "$work/traced" -e trace=ftruncate \
		-e inject=ftruncate:error=EIO "$LSCTL" put --if-absent "$d/new" <<< x
}

case_refused() {
	one_line 1 "here: not in a mounted cell" "$LSCTL" put "$work/here" < /dev/null
	[ ! -e "$work/here" ]
	one_line 2 "one of them" "$LSCTL" put --if-absent --if-generation 3 "$d/f" < /dev/null
	one_line 2 "not a generation" "$LSCTL" put --if-generation x "$d/f" < /dev/null
	echo kept > "$d/f"
	head -c 262145 /dev/zero > "$work/large"
	one_line 1 "f: File too large" "$LSCTL" put "$d/f" < "$work/large"
	one_line 1 "standard input: Is a directory" "$LSCTL" put "$d/f" < "$work"
	one_line 1 "standard input: Bad file descriptor" \
		bash -c '"$0" put "$1" <&-' "$LSCTL" "$d/f"
	is "$(cat "$d/f")" kept
	one_line 1 "none: No such file" "$LSCTL" get "$d/none"
	one_line 1 "Is a directory" "$LSCTL" get "$d"
}

run_cases
