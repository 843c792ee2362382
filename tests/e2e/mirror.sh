#!/bin/bash
# lsctl mirror: a directory of one cell in another, whatever happens to the cells and the processes.
. "$(dirname "$0")/lib.sh"

n=$work/mnt2
mkdir "$n"
from=$m/tree
to=$n/copy

start_second() { limit 20 "$LSFS" --standalone "$work/data2" "$n"; }
# mirror NAME: in the background; its messages are in $work/NAME.
mirror() { "$LSCTL" mirror "$from" "$to" 2>> "$work/$1" & }
# end_mirror PID [SIGNAL]
end_mirror() { kill -"${2:-TERM}" "$1"; wait "$1" || :; }
# The worker that copies, under the lock.
worker() { pgrep -f -- "mirror --under-lock $from" | head -n 1; }

# All that is mirrored: kinds, names, contents, ACL names.
tell() {
	(cd "$1" && find . -mindepth 1 ! -path './.mirror*' ! -perm -1000 -printf '%y %P\n' | sort
	find . -type f ! -path './.mirror*' ! -perm -1000 -print0 | sort -z | xargs -0r sha256sum)
}
is_level() { [ "$(tell "$from" 2> "$work/errors")" = "$(tell "$to" 2>> "$work/errors")" ]; }
level() { wait_until "it is level" is_level || not_level; }
not_level() {
	diff <(tell "$from") <(tell "$to") | head -5
	return 1
}
# lose MOUNTPOINT: its daemon is killed. lsctl has files open there, so it is not just unmounted.
lose() {
	local pid
	pid=$(daemon_of "$1")
	kill -9 "$pid"
	wait_until "it has ended" gone "$pid"
	umount -l "$1"
}

case_set_up() {
	start
	start_second
	mkdir "$from" "$to"
	mkdir -p "$from/a/b" "$from/empty"
	echo one > "$from/a/one"
	echo two > "$from/a/b/two"
	head -c 262144 /dev/urandom > "$from/large"
	: > "$from/nothing"
	touch "$to/foreign"
	mkdir -p "$to/a/old/older"
	echo x > "$to/a/old/older/x"
	mirror first
	echo $! > "$work/pid"
	level
	grep -q "level with $from" "$work/first"
	[ ! -e "$to/foreign" ] && [ ! -e "$to/a/old" ]
}

case_changes() {
	local i
	echo three > "$from/a/one"
	mkdir "$from/a/new"
	echo x > "$from/a/new/x"
	rm "$from/nothing"
	mv "$from/large" "$from/a/renamed"
	level
	is "$(cat "$to/a/new/x")" x
	# A directory that is deleted and made anew, and one that becomes a file.
	rm -r "$from/a/b"
	mkdir "$from/a/b"
	echo again > "$from/a/b/again"
	rmdir "$from/empty"
	echo file > "$from/empty"
	level
	for i in 1 2 3; do
		rm -r "$from/a/b"
		mkdir -p "$from/a/b/c"
		echo $i > "$from/a/b/c/f"
	done
	level
	touch "$from/"$'odd \xff name' "$from/\"quoted\\"
	level
	rm "$from/"$'odd \xff name'
	level
}

# A reader sees whole versions, and none after a newer one.
case_versions() {
	limit 30 python3 - "$from/versions" "$to/versions" <<- 'EOP'
		import sys, threading, time
		source, copy = sys.argv[1:]
		def text(i): return f"{i}\n" * 5000
		open(source, "w").write(text(0))
		deadline = time.monotonic() + 10
		while True: # the source's was empty at first
		    try:
		        if open(copy).read(): break
		    except FileNotFoundError: pass
		    assert time.monotonic() < deadline
		done = False
		def write():
		    global done
		    for i in range(1, 150):
		        with open(source, "w") as f: f.write(text(i))
		        time.sleep(0.01)
		    done = True
		t = threading.Thread(target=write)
		t.start()
		last = -1
		seen = set()
		deadline = time.monotonic() + 20
		while last < 149:
		    lines = open(copy).read().splitlines()
		    assert len(lines) == 5000 and len(set(lines)) == 1, (len(lines), set(lines))
		    assert int(lines[0]) >= last, (lines[0], last)
		    last = int(lines[0])
		    seen.add(last)
		    assert time.monotonic() < deadline, last
		t.join()
		assert len(seen) > 5, seen
	EOP
}

case_names_of_acls() {
	echo '*' > "$m/acl/both"
	echo '*' > "$n/acl/both"
	echo '*' > "$m/acl/here"
	touch "$from/guarded" "$from/inherits"
	setfattr -n user.ls.acl.read -v both "$from/guarded"
	setfattr -n user.ls.acl.write -v here "$from/inherits"
	is_given() { [ "$(attribute acl.read "$to/guarded")" = both ]; }
	wait_until "the name is there" is_given
	wait_until "the other file is there" test -e "$to/inherits"
	is "$(attribute acl.write "$to/inherits")" everyone
	setfattr -n user.ls.acl.read -v everyone "$from/guarded"
	is_taken() { [ "$(attribute acl.read "$to/guarded")" = everyone ]; }
	wait_until "the name is there" is_taken
}

# Also where only a part of the cell is mounted, in which its ACL files are not.
case_names_of_acls_in_a_part() {
	local pid
	mkdir "$m/parted" "$n/apart" "$work/part"
	touch "$m/parted/guarded" "$m/parted/inherits"
	setfattr -n user.ls.acl.read -v both "$m/parted/guarded"
	setfattr -n user.ls.acl.write -v here "$m/parted/inherits"
	mount --bind "$n/apart" "$work/part"
	"$LSCTL" mirror "$m/parted" "$work/part" 2> "$work/parted" &
	pid=$!
	wait_until "it is level" grep -q "level with" "$work/parted"
	is "$(attribute acl.read "$n/apart/guarded")" both
	is "$(attribute acl.write "$n/apart/inherits")" everyone
	# Both at once, where one of the names is not known there.
	setfattr -n user.ls.acl.read -v both "$m/parted/inherits"
	echo new > "$m/parted/inherits"
	wait_until "it is copied" grep -qx new "$n/apart/inherits"
	is "$(attribute acl.read "$n/apart/inherits")" both
	is "$(attribute acl.write "$n/apart/inherits")" everyone
	end_mirror "$pid"
	wait_until "its worker has ended" not pgrep -f -- "mirror --under-lock $m/parted"
	umount "$work/part"
}

# What only a few may read is changed, and then shown to all, while the mirror makes a copy of it.
case_a_source_that_is_opened_to_all() {
	local worker tracer
	echo '*' > "$m/acl/few"
	echo '*' > "$n/acl/few"
	level
	worker=$(worker)
	kill -STOP "$worker"
	echo secret > "$from/opened"
	setfattr -n user.ls.acl.read -v few "$from/opened"
	strace -f -q -o "$work/opens" -e trace=openat,renameat -e inject=openat:delay_enter=2s \
		-e inject=renameat:delay_exit=2s -p "$worker" 2> "$work/strace" &
	tracer=$!
	wait_until "it is traced" grep -q "^TracerPid:.[1-9]" "/proc/$worker/status"
	kill -CONT "$worker"
	wait_until "it was read" grep -q '"\.mirror\.new' "$work/opens"
	echo public > "$from/opened"
	setfattr -n user.ls.acl.read -v everyone "$from/opened"
	while ! is_level; do
		not grep -qs secret "$to/opened"
	done
	kill "$tracer"
	wait "$tracer" || :
}

# What a copy has, and who may read it, change together: in neither direction are contents, old or
# new, there under an ACL that is not theirs. So also in a file that stands in no transaction.
case_a_copy_that_is_opened_to_all_and_closed() {
	local worker tracer name wanted
	acl() { attribute acl.read "$to/$name"; }
	is_copied() { grep -qx "$wanted" "$to/$name" 2> "$work/no"; }
	is_few() { [ "$(acl)" = few ]; }
	for name in shown "of a \"name"; do
		worker=$(worker)
		echo secret > "$from/$name"
		setfattr -n user.ls.acl.read -v few "$from/$name"
		level
		wait_until "the name is there" is_few

		kill -STOP "$worker"
		: > "$work/strace"
		strace -f -q -o "$work/sets" -e trace=setxattr \
			-e inject=setxattr:delay_exit=500ms -p "$worker" 2> "$work/strace" &
		tracer=$!
		wait_until "it is traced" grep -q "^TracerPid:.[1-9]" "/proc/$worker/status"
		echo public > "$from/$name"
		setfattr -n user.ls.acl.read -v everyone "$from/$name"
		kill -CONT "$worker"
		wanted=public
		while ! is_copied; do
			if [ "$(acl 2> "$work/no")" = everyone ]; then
				not grep -qs secret "$to/$name"
			fi
		done
		echo secret > "$from/$name"
		setfattr -n user.ls.acl.read -v few "$from/$name"
		wanted=secret
		wait_until "it is copied" is_copied
		wait_until "the name is there" is_few
		kill "$tracer"
		wait "$tracer" || :
	done
}

# Contents do not come without their ACLs: nobody reads there what may not be read here.
case_an_acl_that_is_refused() {
	local pid at
	echo nobody/x > "$n/acl/none"
	mkdir "$m/strict" "$n/kept" "$m/strict/sub"
	setfattr -n user.ls.acl.change -v none "$n/kept"
	echo before > "$n/kept/old"
	echo after > "$m/strict/old"
	echo x > "$m/strict/new"
	echo x > "$m/strict/sub/below"
	for at in old new sub; do setfattr -n user.ls.acl.read -v both "$m/strict/$at"; done
	"$LSCTL" mirror "$m/strict" "$n/kept" 2> "$work/strict" &
	pid=$!
	for at in old new sub; do
		wait_until "it is said" grep -q "kept/$at: Permission denied" "$work/strict"
	done
	end_mirror "$pid"
	wait_until "its worker has ended" not pgrep -f -- "mirror --under-lock $m/strict"
	is "$(ls -A "$n/kept")" "$(printf '.mirror\nold')"
	is "$(cat "$n/kept/old")" before
}

# Nor when it cannot be learned who may read them. The first three questions are for the checksum
# and the version of the ACL names.
case_an_acl_that_cannot_be_read() {
	local pid root tracer
	pid=$(worker)
	root=$(cd "/proc/$pid/fd" && find . -lname "$from" -printf '%P\n' | sort -n | head -1)
	strace -q -f -o "$work/traced" -P "/proc/self/fd/$root/secret" -e trace=getxattr \
		-e inject=getxattr:error=EIO:when=4+ -p "$pid" &
	tracer=$!
	wait_until "it is traced" grep -q '^TracerPid:.[1-9]' "/proc/$pid/status"
	echo secret > "$m/secret"
	setfattr -n user.ls.acl.read -v both "$m/secret"
	mv "$m/secret" "$from/secret"
	wait_until "it is asked" grep -q acl.read "$work/traced"
	wait_until "it is tried again" grep -q "Input/output error; tries again" "$work/first"
	[ ! -e "$to/secret" ]
	kill $tracer
	wait $tracer || :
	level
	is "$(attribute acl.read "$to/secret")" both
}

# They are not mirrored, and those of the destination are left alone.
case_locks_and_ephemeral_files() {
	python3 - "$from/alive" "$to/theirs" "$work/go" <<- 'EOP' &
		import os, stat, sys, time
		mode = 0o666 | stat.S_ISVTX
		fds = [os.open(path, os.O_CREAT | os.O_RDWR, mode) for path in sys.argv[1:3]]
		while not os.path.exists(sys.argv[3]): time.sleep(0.05)
	EOP
	wait_until "they are there" test -e "$to/theirs"
	echo x > "$from/after"
	level
	[ ! -e "$to/alive" ] && [ -e "$to/theirs" ]
	touch "$work/go"
	wait $!
	flock "$from/after" sleep 2 &
	echo y > "$from/other"
	level
	is "$(attribute lock "$to/after")" free
	wait $!
}

case_thousands_of_files_and_a_killed_worker() {
	local i victim
	mkdir "$from/many"
	(cd "$from/many" && for i in $(seq 2000); do echo "$i" > "f$i"; done)
	end_mirror "$(cat "$work/pid")" KILL
	wait_until "its worker has ended" eval '[ -z "$(worker)" ]'
	(cd "$from/many" && for i in $(seq 1 7 2000); do rm "f$i"; done && echo new > f2)
	mirror second
	echo $! > "$work/pid"
	for i in 1 2 3; do
		wait_until "a worker runs" eval '[ -n "$(worker)" ]'
		echo $i > "$from/many/f2"
		victim=$(worker)
		kill -9 "$victim"
		wait_until "it has ended" gone "$victim"
	done
	patience=60 level
	is "$(find "$to" -name '.mirror.new*' | wc -l)" 0
}

# One of them copies; when it ends, the other.
case_two_at_once() {
	local other
	mirror third
	other=$!
	echo a > "$from/two"
	level
	is "$(pgrep -cf -- "mirror --under-lock $from")" 1
	end_mirror "$(cat "$work/pid")"
	echo b > "$from/two"
	level
	is "$(pgrep -cf -- "mirror --under-lock $from")" 1
	grep -q "level with" "$work/third"
	echo $other > "$work/pid"
}

# A source that is away is not an empty one.
case_source_away() {
	local before
	before=$(tell "$to")
	lose "$m"
	echo bare > "$m/bare"
	mkdir "$m/tree"
	pause_s 3
	is "$(tell "$to")" "$before"
	rm -r "$m/tree" "$m/bare"
	start
	echo back > "$from/back"
	level
	rm "$from/many/f3"
	level
	is "$(grep -c "tries again" "$work/third")" 1
}

case_destination_away() {
	lose "$n"
	echo c > "$from/two"
	pause_s 2
	is "$(find "$n" | wc -l)" 1
	start_second
	patience=60 level
}

# As nohup starts it: the hangup does not end it.
case_a_hangup_that_is_ignored() {
	local ignores
	(
		trap "" HUP
		exec "$LSCTL" mirror "$from" "$to" 2>> "$work/fourth"
	) &
	ignores=$!
	end_mirror "$(cat "$work/pid")"
	echo $ignores > "$work/pid"
	wait_until "it copies" grep -q "level with" "$work/fourth"
	kill -HUP $ignores
	echo d > "$from/two"
	level
	not gone $ignores
}

# A signal that comes while the process begins which is to copy ends both.
case_an_early_signal() {
	local tracer lsctl
	mkdir "$m/early" "$n/soon"
	strace -f -q -o "$work/traced" -e trace=rt_sigaction \
		-e inject=rt_sigaction:delay_enter=2s:when=1 \
		"$LSCTL" mirror "$m/early" "$n/soon" 2> "$work/early" &
	tracer=$!
	# strace tries before it
	wait_until "it begins" pgrep -x lsctl -P $tracer > "$work/lsctl"
	lsctl=$(cat "$work/lsctl")
	wait_until "the process begins" pgrep -P "$lsctl" > "$work/child"
	kill -HUP "$lsctl"
	wait_until "it has ended" gone "$lsctl"
	wait_until "the process has ended" gone "$(cat "$work/child")"
	wait $tracer
}

case_the_end() {
	local pid
	pid=$(cat "$work/pid")
	kill "$pid"
	wait_until "it has ended" gone "$pid"
	wait_until "its worker, too" eval '[ -z "$(worker)" ]'
	one_line 1 "No such file" "$LSCTL" mirror "$m/none" "$to"
	one_line 1 "not in a mounted cell" "$LSCTL" mirror "$work" "$to"
	one_line 1 "one lies in the other" "$LSCTL" mirror "$from" "$from/a"
	exits 2 "$LSCTL" mirror "$from" 2> "$work/out"
}

run_cases
