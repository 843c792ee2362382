#!/bin/bash
# What clients on two mounts of a cell of three keep, and what others wait for, when a mount dies,
# or the master: locks, places in a queue, ephemeral files, descriptors.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

case_up() {
	up_of_three cache_lease=1s session_lease=2s # the sessions of the second mount are soon over
	mount_second lock_delay=0
}

# Locks of the whole file exclude each other between machines, whoever takes them how.
case_record_locks_of_two_mounts() {
	limit 60 python3 - "$d/f" "$m2/${d##*/}/f" <<-'P'
		import errno, fcntl, os, struct, sys, threading
		here, there = (os.open(p, os.O_RDWR | os.O_CREAT) for p in sys.argv[1:3])
		OFD_SETLK, OFD_SETLKW = 37, 38
		def posix(fd, kind, wait=False):
		    fcntl.lockf(fd, kind | (0 if wait or kind == fcntl.LOCK_UN else fcntl.LOCK_NB))
		def ofd(fd, kind, wait=False):
		    kinds = {fcntl.LOCK_EX: fcntl.F_WRLCK, fcntl.LOCK_SH: fcntl.F_RDLCK,
		             fcntl.LOCK_UN: fcntl.F_UNLCK}
		    fcntl.fcntl(fd, OFD_SETLKW if wait else OFD_SETLK,
		                struct.pack("hhqqi4x", kinds[kind], 0, 0, 0, 0))
		def flock(fd, kind, wait=False):
		    fcntl.flock(fd, kind | (0 if wait or kind == fcntl.LOCK_UN else fcntl.LOCK_NB))
		for one in posix, ofd, flock:
		    for other in posix, ofd, flock:
		        one(here, fcntl.LOCK_EX)
		        try:
		            other(there, fcntl.LOCK_SH)
		            sys.exit(f"{one.__name__} and {other.__name__} both have it")
		        except OSError as e:
		            assert e.errno in (errno.EAGAIN, errno.EACCES), e
		        waiter = threading.Thread(target=other, args=(there, fcntl.LOCK_EX, True))
		        waiter.start()
		        waiter.join(0.05)
		        assert waiter.is_alive(), (one, other)
		        one(here, fcntl.LOCK_UN)
		        waiter.join(20)
		        assert not waiter.is_alive(), (one, other)
		        other(there, fcntl.LOCK_UN)
	P
}

# In flock(2), which is call 73; on arm64, 32.
waits() { grep -qE '^(73|32) ' "/proc/$1/syscall"; }

kill_second() {
	local second
	second=$(daemon_of "$m2")
	kill -9 "$second"
	wait_until "the second mount is dead" gone "$second"
}
mount_again() {
	umount -l "$m2"
	mount_second lock_delay=0
}

# The first in the queue is on a machine that dies: the next one gets the lock.
case_a_waiter_whose_mount_dies() {
	local other=$m2/${d##*/} first next waiting
	exec 9<> "$d/f"
	flock 9
	flock "$other/f" touch "$work/wrong" 9>&- &
	first=$!
	wait_until "the first one waits" waits $first
	flock "$d/f" true 9>&- &
	next=$!
	wait_until "the next one waits" waits $next
	waiting=$(attribute lock_waiters "$d/f")
	is "$(wc -l <<< "$waiting")" 2
	kill_second
	exec 9>&-
	wait $next
	not wait $first
	[ ! -e "$work/wrong" ]
	limit 5 flock -n "$d/f" true
	mount_again
}

# A name is taken while the session lives that has the ephemeral file open, also when its machine
# is dead and another one wants it; then it is free.
case_an_ephemeral_file_of_a_dead_mount() {
	limit 30 python3 - "$m2/mine" "$m/mine" "$(daemon_of "$m2")" <<-'P'
		import os, signal, stat, sys, time
		there, here, daemon = sys.argv[1:]
		def make(path):
		    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o644 | stat.S_ISVTX)
		make(there)
		first = os.stat(here).st_ino
		os.kill(int(daemon), signal.SIGKILL)
		taken = 0
		while True:
		    try:
		        os.fstat(make(here))
		        break
		    except FileExistsError:
		        taken += 1
		        time.sleep(0.01)
		assert taken > 0
		assert os.stat(here).st_ino > first
	P
	mount_again
}

# A name and a file of the directory for as long as it is listed; others come and go.
case_a_directory_that_changes_while_it_is_listed() {
	limit 60 python3 - "$d" "$m2/${d##*/}" <<-'P'
		import os, sys, threading
		here, there = sys.argv[1:]
		kept = {"kept-%d" % i for i in range(100)}
		for name in kept:
		    os.close(os.open(here + "/" + name, os.O_CREAT | os.O_WRONLY))
		changed = 0
		def change():
		    global changed
		    for i in range(200):
		        os.close(os.open("%s/%d" % (there, i), os.O_CREAT | os.O_WRONLY))
		        if i >= 20:
		            os.unlink("%s/%d" % (there, i - 20))
		        changed = i
		changer = threading.Thread(target=change)
		changer.start()
		listings = 0
		while changer.is_alive():
		    for d in here, there:
		        names = os.listdir(d)
		        assert len(names) == len(set(names)), "a name twice"
		        assert kept <= set(names), kept - set(names)
		        assert len(names) <= 121, names
		        listings += 1
		changer.join()
		assert changed == 199 and listings > 10, (changed, listings)
		print(listings, "listings")
	P
}

# Through a fail-over descriptors go on, also with what was not committed yet; the lock is held in
# the same generation, and free at once when it is released.
case_a_fail_over_keeps_what_is_open() {
	local old other=$m2/${d##*/}
	old=$(master)
	mkfifo "$work/over"
	echo old > "$d/f"
	limit 60 python3 - "$d" "$other" "$work" <<-'P' &
		import fcntl, os, signal, stat, sys
		here, there, work = sys.argv[1:]
		def attribute(fd, name):
		    return os.getxattr(fd, "user.ls." + name)
		def is_locked():
		    fd = os.open(there + "/f", os.O_RDWR)
		    try:
		        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
		        return False
		    except BlockingIOError:
		        return True
		    finally:
		        os.close(fd)
		fd = os.open(here + "/f", os.O_RDWR)
		fcntl.flock(fd, fcntl.LOCK_EX)
		new = os.O_RDWR | os.O_CREAT | os.O_EXCL
		mine = os.open(here + "/mine", new, 0o644 | stat.S_ISVTX)
		lock = [attribute(fd, name) for name in ("lock_generation", "fence", "sequencer")]
		os.pwrite(fd, b"new", 0)
		open(work + "/ready", "w").close()
		open(work + "/over").read()
		assert is_locked()
		assert os.pread(fd, 10, 0) == b"new\n"
		os.close(fd)
		signal.alarm(10) # the lock-delay is 15 s
		fd = os.open(there + "/f", os.O_RDWR)
		fcntl.flock(fd, fcntl.LOCK_EX) # a close does not wait for the cell
		os.close(fd)
		assert open(there + "/f").read() == "new\n"
		fd = os.open(here + "/f", os.O_RDWR)
		fcntl.flock(fd, fcntl.LOCK_EX)
		later = [attribute(fd, name) for name in ("lock_generation", "fence")]
		assert all(int(a) > int(b) for a, b in zip(later, lock)), (lock, later)
		assert os.path.exists(there + "/mine")
	P
	local user=$!
	wait_until "it has opened all" test -e "$work/ready"
	kill_replica "$old"
	wait_until "another master" another_master "$old"
	limit 10 tee "$work/over" <<< over > "$work/out"
	wait $user
	wait_until "its file is gone" test ! -e "$d/mine"
	start_replica "$old"
}

# The kernel would repeat a rename that is answered ESTALE: the target would be empty.
case_a_rename_of_what_was_lost() {
	local theirs=$m2/${d##*/}
	limit 60 python3 - "$theirs" "$LSCTL" --cell "$conf" --key "$cell/admin.key" \
		session destroy "$(session "$m2")" <<-'P'
		import errno, os, subprocess, sys
		new, target = (f"{sys.argv[1]}/{name}" for name in ("new", "target"))
		with open(target, "w") as f:
		    f.write("old")
		fd = os.open(new, os.O_WRONLY | os.O_CREAT)
		os.write(fd, b"new")
		subprocess.run(sys.argv[2:], check=True)
		try:
		    os.rename(new, target)
		except OSError as e:
		    assert e.errno == errno.EIO, e
		else:
		    raise AssertionError("it is done")
		with open(target) as f:
		    assert f.read() == "old"
		os.rename(new, target)
	P
}

case_down() {
	limit 10 umount "$m2"
	down
}

run_cases
