#!/bin/bash
# Transactions, by lsctl and by descriptors of .cell/txn, on two mounts, while the master is killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three cache_lease=1s session_lease=2s
	mount_second
}

base64_of() { printf %s "$1" | base64 -w 0; }
generation() { attribute content_generation "$1"; }
# txn: what standard input says, by lsctl, through the second mount too, which has no other way.
txn() { limit 20 "$LSCTL" --cell dc1 txn "$@"; }

case_done_or_not() {
	local other=$m2/${d##*/} p=/${d##*/} answer
	echo old > "$d/a"
	cat "$other/a" > "$work/cached"
	printf 'contents of a file' > "$work/contents"
	answer=$(txn <<-T
		# A comment, and an empty line.

		if $p/a generation $(generation "$d/a")
		if $p/dir absent
		set $p/a $(base64_of new)
		mkdir $p/dir
		create $p/dir/f
		set $p/dir/f @$work/contents
		append $p/dir/f $(base64_of ', and more')
		rename $p/dir/f $p/dir/g
		setattr $p/dir/g user.ls.acl.write admin
	T
	)
	is "$(head -n 1 <<< "$answer" | cut -d ' ' -f 1)" "done"
	is "$(sed -n 's/^5 set //p' <<< "$answer")" "$p/a generation $(generation "$d/a")"
	is "$(cat "$other/a")" new
	is "$(cat "$other/dir/g")" "contents of a file, and more"
	is "$(attribute acl.write "$other/dir/g")" admin
	[ ! -e "$d/dir/f" ]
}

# Each mount sees what one operation could do only because of the one before it.
case_a_rename_to_a_new_directory() {
	local other=$m2/${d##*/} p=/${d##*/}
	mkdir "$d/p"
	touch "$d/p/f"
	is "$(ls "$other/p")" f
	exec 7<> "$m/.cell/txn"
	printf 'mkdir %s/new\nrename %s/p/f %s/new/f\n' "$p" "$p" "$p" >&7
	is "$(head -n 1 <&7 | cut -d ' ' -f 1)" "done"
	exec 7>&-
	is "$(ls "$other/p")" ""
	is "$(ls "$other/new")" f
}

case_the_first_condition_that_failed() {
	local p=/${d##*/} answer
	echo 1 > "$d/a"
	exits 1 txn > "$work/answer" <<-T
		if $p/b absent
		if $p/a absent
		if $p/a generation 77
		delete $p/a
		else
		set $p/a $(base64_of otherwise)
	T
	is "$(sed 's/ [0-9]*$//; s/ generation .*//' "$work/answer" | head -n 2)" \
		"else"$'\n'"2 if $p/a: does not hold"
	is "$(cat "$d/a")" otherwise
	exits 1 txn > "$work/answer" <<< "if $p/a absent"
	is "$(tail -n +2 "$work/answer")" "1 if $p/a: does not hold"
}

case_nothing_of_it_stays() {
	local p=/${d##*/} before
	echo kept > "$d/a"
	before=$(stat -c '%i %y %z' "$d/a")
	exits 1 txn > "$work/answer" <<-T
		set $p/a $(base64_of lost)
		create $p/b
		rename $p/a $p/c
		delete $p/c
		set $p/nowhere $(base64_of x)
	T
	is "$(cat "$work/answer" | tail -n +2)" "5 set $p/nowhere: no such node"
	is "$(ls "$d")" a
	is "$(cat "$d/a")" kept
	is "$(stat -c '%i %y %z' "$d/a")" "$before"
}

case_wrong_lines() {
	local line
	one_line 2 "line 2 needs a path" "$LSCTL" --cell dc1 txn <<< $'create /x\nset x'
	one_line 2 "line 1 is no condition" "$LSCTL" --cell dc1 txn <<< "frob /x"
	one_line 2 "needs base64" "$LSCTL" --cell dc1 txn <<< "set /x a"
	one_line 2 "line 2 is a condition" "$LSCTL" --cell dc1 txn <<< $'create /x\nif /y absent'
	one_line 2 "line 2 is a condition" "$LSCTL" --cell dc1 txn <<< $'else\nif /y absent'
	one_line 2 "line 3 comes a second time" "$LSCTL" --cell dc1 txn <<< $'else\ncreate /x\nelse'
	for line in "create /.cell:status" "mkdir /a/.cell:txn" "rename /x /.cell:locks"; do
		one_line 2 "line 1 makes a reserved name" "$LSCTL" --cell dc1 txn <<< "$line"
	done
	for line in "create /x//y" "create //x" "create /x/" "create x"; do
		one_line 2 "line 1 needs a path" "$LSCTL" --cell dc1 txn <<< "$line"
	done
	for line in "create /x y" "create \"/x\" y" "set /x YQ== YQ==" "rename /x /y z" \
		"if /x generation 1 2" "acquire /x exclusive now" "else create /x"; do
		one_line 2 "line 1 has too many words" "$LSCTL" --cell dc1 txn <<< "$line"
	done
	[ ! -e "$m/x" ]
}

# Between quotation marks it is a part of the path.
case_an_at_in_a_path() {
	local p=/${d##*/}
	printf 'of a file' > "$work/contents"
	txn > "$work/answer" <<-T
		mkdir "$p/one @two"
		create "$p/one @two/f"
		set "$p/one @two/f" @$work/contents
		rename "$p/one @two/f" "$p/one @two/three @four"
	T
	is "$(cat "$d/one @two/three @four")" "of a file"
}

# What is beyond the limits of a transaction is refused, and that is known.
case_too_large() {
	local i p=/${d##*/}
	for i in {1..65}; do echo "create $p/$i"; done > "$work/many"
	one_line 2 "txn: refused: " "$LSCTL" --cell dc1 txn "$work/many"
	head -c 200000 /dev/zero > "$work/contents"
	one_line 2 "txn: refused: " "$LSCTL" --cell dc1 txn <<-T
		set $p/f @$work/contents
		set $p/g @$work/contents
	T
	one_line 2 "the transaction is longer than 1048576 bytes" \
		"$LSCTL" --cell dc1 txn < <(head -c 1100000 /dev/zero | tr '\0' '#')
	head -c 300000 /dev/zero > "$work/contents"
	one_line 2 "$work/contents: File too large" \
		"$LSCTL" --cell dc1 txn <<< "set $p/f @$work/contents"
	one_line 1 "$work/none: No such file or directory" \
		"$LSCTL" --cell dc1 txn <<< "set $p/f @$work/none"
	is "$(ls "$d")" ""
}

case_of_nothing() {
	[[ $(txn < /dev/null) == "done "* ]]
	[[ $(LSFS_CELL=$conf "$LSCTL" txn < /dev/null) == "done "* ]]
	[[ $(txn <<< "# a comment") == "done "* ]]
	one_line 1 "standard input: Bad file descriptor" \
		bash -c '"$0" --cell dc1 txn <&-' "$LSCTL"
}

# Through one descriptor, with nothing but a shell.
case_a_descriptor() {
	local p=/${d##*/}
	exec 7<> "$m2/.cell/txn"
	printf 'create %s/by_shell\n' "$p" >&7
	is "$(head -n 1 <&7 | cut -d ' ' -f 1)" "done"
	printf 'create %s/by_shell\n' "$p" >&7
	is "$(tail -n 1 <&7)" "1 create $p/by_shell: the node exists"
	exec 7>&-
	[ -e "$d/by_shell" ]
}

# What was written before the error is not done either, whether it is read, closed or synced.
case_more_than_there_is_room_for() {
	local p=/${d##*/}
	exec 7<> "$m/.cell/txn"
	{
		printf 'create %s/part\n' "$p"
		not tr '\0' '\n' < /dev/zero 2> "$work/out"
	} >&7
	grep -q "File too large" "$work/out"
	is "$(cat <&7)" "refused: more than 1048576 bytes"
	printf 'create %s/next\n' "$p" >&7
	is "$(head -n 1 <&7 | cut -d ' ' -f 1)" "done"
	exec 7>&-
	is "$(ls "$d")" next
	python3 -c '
import errno, os, sys
def error(call, *args):
    try:
        call(*args)
    except OSError as e:
        return errno.errorcode[e.errno]
for end in os.fsync, os.close:
    fd = os.open(sys.argv[1], os.O_RDWR)
    os.write(fd, b"create %s/part\n" % sys.argv[2].encode())
    while not error(os.write, fd, b"\n" * 65536):
        pass
    assert error(end, fd) == "EFBIG"' "$m/.cell/txn" "$p"
	is "$(ls "$d")" next
}

case_a_lock_and_its_sequencer() {
	local p=/${d##*/} other=$m2/${d##*/} sequencer
	touch "$d/l"
	txn > "$work/answer" <<-T
		acquire $p/l exclusive
		set $p/l $(base64_of me)
	T
	is "$(sed -n 's/^1 acquire //p' "$work/answer")" \
		"$p/l generation 1 fence $(attribute fence "$d/l")"
	is "$(attribute lock "$other/l")" exclusive
	sequencer=$(attribute sequencer "$d/l")
	txn > "$work/answer" <<< "if $p/l held $sequencer"
	exits 1 txn > "$work/answer" <<< "acquire $p/l exclusive"
	is "$(tail -n 1 "$work/answer")" "1 acquire $p/l: the lock is held or delayed"
	setfattr -n user.ls.lock -v free "$d/l"
	exits 1 txn > "$work/answer" <<< "if $p/l held $sequencer"
	is "$(tail -n 1 "$work/answer")" "1 if $p/l: does not hold"
}

# Two counters, one on each mount's transactions, always have the same sum, and no step is lost.
count() {
	local p=/${d##*/} at=$1 i a b of_a of_b
	for i in {1..20}; do
		while :; do
			of_a=$(generation "$at/a") of_b=$(generation "$at/b")
			a=$(cat "$at/a") b=$(cat "$at/b")
			exec 7<> "$2/.cell/txn"
			printf '%s %s\n' "if $p/a generation" "$of_a" "if $p/b generation" "$of_b" \
				"set $p/a" "$(base64_of $((a + 1)))" \
				"set $p/b" "$(base64_of $((b - 1)))" >&7
			case $(cat <&7) in done*) break ;; esac
		done
		exec 7>&-
	done
}

case_a_fail_over_in_the_middle() {
	local other=$m2/${d##*/} old one two
	echo 0 > "$d/a"
	echo 0 > "$d/b"
	count "$d" "$m" &
	one=$!
	count "$other" "$m2" &
	two=$!
	wait_until "they have begun" test_count 5
	old=$(master)
	kill_replica "$old"
	start_replica "$old"
	wait $one $two
	is "$(cat "$d/a") $(cat "$d/b")" "40 -40"
}
test_count() { [ "$(cat "$d/a")" -ge "$1" ]; }

case_down() { down; }

run_cases
