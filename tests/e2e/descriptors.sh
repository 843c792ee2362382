#!/bin/bash
# What <lsfs.h> offers for open files and directories, on two mounts, while masters are killed.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three cache_lease=1s session_lease=2s
	mount_second
}

is_queued() { [ "$(attribute lock_waiters "$1" 2> "$work/none" | grep -c .)" -ge "$2" ]; }
is_locked() { [ "$(attribute lock "$1")" = "$2" ]; }

# The lock of a directory has an owner that dies, also while there is no master.
case_the_lock_of_a_killed_lsctl() {
	local theirs=$m2/${d##*/} old holder waiter
	mkdir "$d/dir"
	mkfifo "$work/end"
	"$LSCTL" lock "$d/dir" -- sh -c 'echo $$ > "$1"; exec cat "$2"' sh "$work/pid" "$work/end" &
	holder=$!
	wait_until "the command runs" test -s "$work/pid"
	is_locked "$theirs/dir" exclusive
	exits 1 "$LSCTL" lock -n "$theirs/dir" -- true
	exits 1 "$LSCTL" lock -w 0.3 "$theirs/dir" -- true
	limit 60 "$LSCTL" lock "$theirs/dir" -- echo next > "$work/out" &
	waiter=$!
	wait_until "another mount waits" is_queued "$d/dir" 1
	old=$(master)
	kill_replica "$old"
	kill -9 $holder "$(cat "$work/pid")"
	wait $waiter
	is "$(cat "$work/out")" next
	start_replica "$old"
	wait_until "the lock is free" is_locked "$d/dir" free
}

case_directories_in_turn() {
	local i pids=()
	mkdir "$d/dir"
	for i in 1 2 3 4; do
		local at=$d
		[ $((i % 2)) = 0 ] || at=$m2/${d##*/}
		limit 60 "$LSCTL" lock "$at/dir" -- sh -c \
			'mkdir "$1" && echo x > "$2" && rmdir "$1"' sh "$work/alone" "$at/f" &
		pids+=($!)
	done
	wait "${pids[@]}"
	limit 20 "$LSCTL" lock -s "$d/dir" -- "$LSCTL" lock -s -n "$m2/${d##*/}/dir" -- true
}

# Another thread waits for the lock while the descriptor is poisoned. A lock that is held is given
# back by the close.
case_a_poisoned_descriptor() {
	limit 30 python3 - "$d/f" "$m2/${d##*/}/f" <<-'P'
		import errno, fcntl, os, select, sys, threading, time
		POISON = 0x4c04
		def fails(call):
		    try:
		        call()
		    except OSError as e:
		        assert e.errno == errno.ESTALE, e
		    else:
		        raise AssertionError("done")
		def waits(path):
		    try:
		        return os.getxattr(path, "user.ls.lock_waiters")
		    except OSError as e:
		        assert e.errno == errno.ENODATA, e
		here = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
		there = os.open(sys.argv[2], os.O_RDWR)
		fcntl.flock(there, fcntl.LOCK_EX)
		waiter = threading.Thread(target=fails,
		                          args=(lambda: fcntl.flock(here, fcntl.LOCK_EX),))
		waiter.start()
		while not waits(sys.argv[2]):
		    time.sleep(0.01)
		os.pwrite(here, b"lost", 0)
		fcntl.ioctl(here, POISON)
		waiter.join(5)
		assert not waiter.is_alive()
		for call in (lambda: os.pread(here, 1, 0), lambda: os.pwrite(here, b"x", 0),
		             lambda: os.fsync(here), lambda: fcntl.flock(here, fcntl.LOCK_EX)):
		    fails(call)
		told = select.poll()
		told.register(here, 0)
		assert told.poll(0) == [(here, select.POLLERR | select.POLLHUP)]
		fcntl.ioctl(there, POISON)
		again = os.open(sys.argv[1], os.O_RDWR)
		try:
		    fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
		    raise AssertionError("free before the close")
		except BlockingIOError:
		    pass
		os.close(there)
		fcntl.flock(again, fcntl.LOCK_EX)
		assert os.pread(again, 9, 0) == b""
	P
}

# From the other mount, while there is no master.
case_a_file_that_is_deleted_elsewhere() {
	limit 60 python3 - "$d/f" "$m2/${d##*/}/f" "$(replica "$(master)")" <<-'P'
		import os, select, signal, sys
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
		told = select.poll()
		told.register(fd, 0)
		assert told.poll(0) == []
		os.kill(int(sys.argv[3]), signal.SIGKILL)
		os.unlink(sys.argv[2])
		assert told.poll(30000) == [(fd, select.POLLERR | select.POLLHUP)]
	P
	start_missing
}

# What is attached and what is poisoned stays so behind the fail-over, and can be detached there.
case_sequencers_and_poison_over_a_fail_over() {
	touch "$d/l"
	exec 9< "$d/l"
	flock 9
	limit 60 python3 - "$m2/${d##*/}" "$(attribute sequencer "$d/l")" \
		"$(replica "$(master)")" <<-'P'
		import errno, fcntl, os, signal, sys
		d, sequencer, replica = sys.argv[1:]
		def attach(fd, sequencer):
		    text = sequencer.encode() + b"\0"
		    fcntl.ioctl(fd, 0x40004c01 | len(text) << 16, text)
		def stale(call):
		    try:
		        call()
		    except OSError as e:
		        assert e.errno == errno.ESTALE, e
		    else:
		        raise AssertionError("done")
		guarded, detached, poisoned = (
		    os.open(d + "/" + name, os.O_RDWR | os.O_CREAT) for name in "abc")
		attach(guarded, sequencer)
		attach(detached, sequencer)
		fcntl.ioctl(poisoned, 0x4c04)
		os.kill(int(replica), signal.SIGKILL)
		os.pwrite(guarded, b"held", 0)
		os.fsync(guarded)
		fcntl.flock(9, fcntl.LOCK_UN)
		for fd in guarded, detached:
		    os.pwrite(fd, b"free", 0)
		stale(lambda: os.fsync(guarded))
		attach(detached, "")
		os.fsync(detached)
		stale(lambda: os.pread(poisoned, 1, 0))
	P
	exec 9<&-
	start_missing
	is "$(cat "$d/a") $(cat "$d/b")" "held free"
}

# By the attribute, no session releases what another one holds.
case_only_a_holder_releases() {
	local theirs=$m2/${d##*/} old
	touch "$d/f"
	setfattr -n user.ls.lock -v exclusive "$d/f"
	refused "Operation not permitted" setfattr -x user.ls.lock "$theirs/f"
	old=$(master)
	kill_replica "$old"
	refused "Operation not permitted" setfattr -n user.ls.lock -v free "$theirs/f"
	is_locked "$theirs/f" exclusive
	setfattr -n user.ls.lock -v free "$d/f"
	is_locked "$theirs/f" free
	start_replica "$old"
}

case_down() { down; }

run_cases
