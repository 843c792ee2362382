#!/bin/bash
# A day in the life of real programs, on one mount, and on two: what they do through the first is
# looked at through the second. Each is watched: no process may stay for 5 s in a call that nothing
# interrupts (state D).
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

here=$(dirname "$script")
control=$work/control
mkdir "$control" && mount -t fusectl none "$control" || exit 1
watch() { exec python3 "$here/watchdog.py" "$control" "$@"; }
watch "$work/stuck" 5 2> "$work/watchdog-errors" &
watchdog=$!
disown $watchdog

# on_one_and_two PROGRAM: calls PROGRAM A B with two empty directories, which are the same; through
# A and B once the same mount leads to them, and once two.
on_one_and_two() {
	mkdir "$d/one" "$d/two"
	"$1" "$d/one" "$d/one"
	"$1" "$d/two" "$m2/${d##*/}/two"
	[ ! -s "$work/stuck" ] || { cat "$work/stuck"; return 1; }
}

# day COMMAND...: with an end.
day() { limit 30 "$@"; }

case_up() {
	"$LSCTL" cell create dc1 --dir "$cell" --replica "127.0.0.1:$(free_port)" > /dev/null
	start_replica 1
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
	mount_second 2> "$work/second"
}

c() {
	local way
	for way in posix_spawn system fork clone exec holder exec_holder; do
		day "$TOOLS/spawner" $way "$1/$way"
		[[ $(cat "$2/$way") == xy* ]]
	done
}
case_c() { on_one_and_two c; }

# A read of more than there is gets the contents once.
ring() {
	local rc=0
	day "$TOOLS/ring" write "$1/ring" one two three || rc=$?
	[ $rc != 77 ] || return 0
	is $rc 0
	is "$(cat "$2/ring")" onetwothree
	is "$(day "$TOOLS/ring" read "$2/ring")" onetwothree
	is "$(day "$TOOLS/ring" read "$1/ring")" onetwothree
}
case_io_uring() { on_one_and_two ring; }

# Children and a log that stays open; a counter that two programs raise, as cmd/go locks its files.
go_programs() {
	local i
	day "$work/go/program" children "$1/log"
	is "$(grep -c '^child [0-9]* of 10$' "$2/log")" 10
	echo 0 > "$1/count"
	for i in 1 2; do
		day "$work/go/program" count "$1/count" &
		day "$work/go/program" count "$2/count" &
	done
	wait
	is "$(cat "$1/count")" 40
	is "$(cat "$2/count")" 40
}
case_go() {
	build_go
	on_one_and_two go_programs
}

python() { day python3 "$here/programs.py" "$1" "$2"; }
case_python() { on_one_and_two python; }

# A file that is open while a child is started; a child that writes into the log of its parent.
node_server() {
	day node "$here/server.js" "$1"
	is "$(tr '\n' , < "$2/log")" "begins,answered 1,from a child,answered 2,from a child,"
	is "$(cat "$2/state")" '{"requests":2}'
}
case_node() { on_one_and_two node_server; }

git_work() {
	(
		cd "$1"
		day git clone -q "$work/origin" clone
		cd clone
		echo more >> file-1
		day git commit -q -a -m more
		day git checkout -q -b branch HEAD~1
		rm file-2
		day git commit -q -a -m less
		day git gc -q
		day git fsck --strict
	)
	cd "$2/clone"
	is "$(git status --porcelain)" ""
	is "$(git log --format=%s --all | sort | tr '\n' ' ')" "files less more "
	day git merge -q -m both master
	day git fsck --strict
	cd "$1/clone"
	is "$(git log -1 --format=%s)" both
	is "$(cat file-1)" "$(printf '1\nmore')"
	cd "$m"
}
case_git() {
	local i
	export HOME=$work GIT_CONFIG_NOSYSTEM=1
	git config --global user.name ann
	git config --global user.email ann@localhost
	git config --global init.defaultBranch master
	git init -q "$work/origin"
	for i in $(seq 30); do echo "$i" > "$work/origin/file-$i"; done
	git -C "$work/origin" add .
	git -C "$work/origin" commit -q -m files
	on_one_and_two git_work
}

# A long here-document is a file that bash has deleted; /dev/stdin opens it once more.
case_a_here_document() {
	local TMPDIR=$d
	is "$(cat /dev/stdin <<< "$(seq 20000)" | tail -n 1)" 20000
	is "$(ls -A "$d")" ""
}

# A test beside this one neither sees nor aborts its mounts.
case_mounts_of_others() {
	cat > "$work/other.sh" <<-T
		#!/bin/bash
		. $here/lib.sh
		case_none() { ! grep -q ' - fuse.lsfs ' /proc/self/mountinfo; }
		run_cases
	T
	chmod +x "$work/other.sh"
	limit 30 env -u LSFS_APART "$work/other.sh"
}

# Among others a program that has its log open; it is signalled, and opens the next one.
tools() {
	day rsync -a "$work/tree/" "$1/tree/"
	diff -r "$work/tree" "$2/tree"
	day tar -C "$2" -cf "$work/tree.tar" tree
	mkdir "$1/out"
	day tar -C "$1/out" -xf "$work/tree.tar"
	diff -r "$work/tree" "$2/out/tree"
	day vim.tiny -u NONE -es -c '%s/2/two/' -c wq "$1/tree/2"
	is "$(cat "$2/tree/2")" two
	day flock "$1/cron.pid" bash -c '
		echo $$ > "$1"; is=$(cat "$2"); [ "$is" = $$ ] && ! flock -n "$2" true' \
		cron "$1/cron.pid" "$2/cron.pid"
	rotated "$1" "$2"
}

rotated() {
	local logger
	echo first >> "$1/log"
	printf '%s/log {\n rotate 3\n create 0644 root root\n postrotate\n %s\n endscript\n}\n' \
		"$1" "kill -HUP \$(cat $work/logger.pid); touch $work/told" > "$work/rotate.conf"
	python3 -u -c '
import os, signal, sys
def opened(*_):
    global log
    log = open(sys.argv[1], "a", 1)
    print("again" if len(_) else "begin", file=log)
    log.flush()
    os.fsync(log.fileno())
opened()
signal.signal(signal.SIGHUP, opened)
open(sys.argv[2], "w").write(str(os.getpid()))
signal.pause()' "$1/log" "$work/logger.pid" &
	logger=$!
	wait_until "the log is open" test -s "$work/logger.pid"
	chmod 644 "$work/rotate.conf"
	day logrotate -f -s "$work/rotate.state" "$work/rotate.conf"
	[ -e "$work/told" ]
	wait $logger
	rm "$work/told" "$work/logger.pid"
	is "$(cat "$2/log.1")" "$(printf 'first\nbegin')"
	is "$(cat "$2/log")" again
}
case_tools() {
	local i
	mkdir "$work/tree"
	for i in $(seq 20); do echo "$i" > "$work/tree/$i"; done
	on_one_and_two tools
}

# A daemon that keeps its pid file open and locked, as cron does: what it has written is committed
# by each write if the mount says so, and else not as long as it runs.
keeps_pid_file() {
	python3 -c 'import fcntl, os, signal, sys
f = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)
os.write(f, b"%d" % os.getpid())
open(sys.argv[2], "w").close()
signal.pause()' "$1" "$work/keeps" &
	wait_until "it keeps the file" test -e "$work/keeps"
	rm "$work/keeps"
}
case_a_pid_file_that_stays_open() {
	umount "$m2"
	mount_second commit=write 2> "$work/second"
	keeps_pid_file "$d/pid"
	is "$(cat "$m2/${d##*/}/pid")" ""
	exits 1 flock -n "$m2/${d##*/}/pid" true
	kill $!
	keeps_pid_file "$m2/${d##*/}/other"
	is "$(cat "$d/other")" $!
	exits 1 flock -n "$d/other" true
	kill $!
}

# Programs that insist on private files, with the option that shows them so.
case_private_files() {
	umount "$m2"
	mount_second umask=077 2> "$work/second"
	mkdir "$m2/private"
	echo x > "$m2/private/log"
	is "$(stat -c %a "$m2/private" "$m2/private/log" | xargs)" "700 600"
	chmod 600 "$m2/private/log"
	install -m 600 "$m2/private/log" "$m2/private/key"
	rsync -a "$m2/private/" "$work/private/"
	rsync -a "$work/private/" "$m2/private/"
	is "$(cat "$m/private/key")" x
}

case_nobody_was_stuck() {
	kill -0 $watchdog
	[ ! -s "$work/stuck" ]
}

# A process that was killed cannot end before a stopped mount has answered its close.
case_the_watchdog_sees_who_is_stuck() {
	local holder
	watch "$work/found" 1 &
	python3 -c 'import signal, sys
f = open(sys.argv[1], "w", 1)
print("x", file=f)
open(sys.argv[2], "w").close()
signal.pause()' "$d/held" "$work/written" &
	holder=$!
	wait_until "it has written" test -e "$work/written"
	daemon=$(daemon_of "$m")
	kill -STOP "$daemon"
	kill -9 $holder
	wait_until "it is found" grep -q "stuck in state D: $holder (python3)" "$work/found"
	kill -CONT "$daemon"
	exits 137 wait $holder
}

run_cases
