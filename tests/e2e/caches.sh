#!/bin/bash
# Coherent caches: two mounts of one cell answer from what they remember, and never say anything
# older than what a writer on the other one was told.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# A program for both mounts. In Python, because a process for each call would be slow.
both_mounts() { limit 60 python3 - "$m" "$m2"; }

case_up() {
	up_of_three cache_lease=2s
	mount_second
}

# Each change is made on one mount, and looked for on the other at once; then the other way round.
case_nothing_old_is_seen() {
	both_mounts <<-'P'
		import os, sys
		mounts = sys.argv[1:3]
		os.mkdir(mounts[0] + "/seen")
		for i in range(100):
		    here, there = (m + "/seen" for m in (mounts[i % 2], mounts[1 - i % 2]))
		    text = b"x" * (i % 7 + 1) + b"%d" % i
		    for change in "made", "changed":
		        with open(here + "/f", "wb") as f:
		            f.write(text)
		        assert os.stat(there + "/f").st_size == len(text)
		        assert open(there + "/f", "rb").read() == text
		        text += b"again"
		    assert os.listdir(there) == ["f"]
		    os.rename(here + "/f", here + "/g")
		    assert not os.path.exists(there + "/f")
		    assert os.stat(there + "/g").st_size == len(text) - 5
		    assert os.listdir(there) == ["g"]
		    os.unlink(here + "/g")
		    assert not os.path.exists(there + "/g")
		    assert os.listdir(there) == []
	P
}

# The kernel never looks up the root, and keeps its attributes.
case_nor_of_the_root() {
	both_mounts <<-'P'
		import os, sys
		here, there = sys.argv[1:3]
		for i in range(5):
		    before = os.stat(here).st_size
		    os.mkdir(there + "/r%d" % i)
		    assert os.stat(here).st_size == before + 1
	P
}

# A reader on one mount keeps everything warm, and never sees less than the writer on the other one
# was told before: attributes, contents, names, absent names and listings.
#
# never_behind SECONDS CHANGES
never_behind() {
	cat > "$work/behind.py" <<-'P'
		import multiprocessing, os, sys, time
		there, here = sys.argv[1:3]
		done, over = multiprocessing.Value("i", 0), multiprocessing.Value("i", 0)
		def write():
		    end, i = time.monotonic() + int(sys.argv[3]), 0
		    while time.monotonic() < end:
		        i += 1
		        with open(there + "/f", "w") as f:
		            f.write("x" * i)
		        if i % 2:
		            os.mkdir(there + "/%d" % i)
		        else:
		            open(there + "/%d" % i, "w").close()
		        if i > 1:
		            (os.unlink if i % 2 else os.rmdir)(there + "/%d" % (i - 1))
		        done.value = i
		    over.value = 1
		def exists(i):
		    return os.path.exists(here + "/%d" % i)
		writer = multiprocessing.Process(target=write)
		writer.start()
		rounds = 0
		while not over.value and writer.is_alive():
		    rounds += 1
		    i = done.value
		    if i < 2:
		        continue
		    assert os.stat(here + "/f").st_size >= i
		    i = done.value
		    assert len(open(here + "/f").read()) >= i
		    i = done.value
		    assert max(int(n) for n in os.listdir(here) if n != "f") >= i
		    i = done.value
		    assert not exists(i - 1)
		    assert exists(i) or exists(i + 1) or done.value > i
		    with os.scandir(here) as names:
		        assert all(n.name == "f" or int(n.name) >= i for n in names)
		writer.join()
		assert writer.exitcode == 0
		print(done.value, "changes,", rounds, "rounds")
		assert done.value > int(sys.argv[4]) and rounds > int(sys.argv[4])
	P
	limit 60 python3 "$work/behind.py" "$d" "${d/$m/$m2}" "$@"
}

case_a_reader_is_never_behind() { never_behind 3 5; }

# Nor when the reader's daemon is stopped, in whatever it does, until its lease is over.
case_nor_behind_a_stopped_daemon() {
	local frozen reader
	frozen=$(daemon_of "$m2")
	never_behind 6 5 &
	reader=$!
	pause_s 1
	kill -STOP "$frozen"
	pause_s 3
	kill -CONT "$frozen"
	wait $reader
}

# The kernel keeps its pages when the descriptor is closed through which they were read.
case_what_is_sent_is_of_one_version() {
	both_mounts <<-'P'
		import mmap, os, sys
		here, there = (m + "/sent" for m in sys.argv[1:3])
		size = 200000
		out = os.memfd_create("out")
		def sent(fd, count):
		    at = os.lseek(out, 0, os.SEEK_END)
		    return set(os.pread(out, os.sendfile(out, fd, 0, count), at))
		open(there, "wb").write(b"a" * size)
		first, second, idle = (os.open(here, os.O_RDONLY) for _ in range(3))
		assert sent(first, 4096) == {ord("a")}
		os.close(first)
		open(there, "wb").write(b"b" * size)
		assert len(sent(second, size)) == 1, sent(second, size)
		os.close(second)
		third = os.open(here, os.O_RDONLY)
		assert sent(third, size) == {ord("b")}
		os.close(third)
		os.close(idle)
		# An open drops them, also of mappings: no other descriptor keeps them.
		mapped = os.open(here, os.O_RDONLY)
		pages = mmap.mmap(mapped, size, mmap.MAP_PRIVATE)
		assert pages[0] == ord("b")
		open(there, "wb").write(b"c" * size)
		late = os.open(here, os.O_RDONLY)
		os.close(mapped)
		pages.close()
		assert sent(late, size) == {ord("c")}
	P
}

# A name that leads to a file on one mount, and then to a directory, and back again. The other one's
# kernel may take the directory for what it was, until it looks the name up again.
case_a_name_changes_its_kind() {
	both_mounts <<-'P'
		import os, sys
		there, here = (m + "/kind" for m in sys.argv[1:3])
		def listed():
		    while True:
		        try:
		            return os.listdir(here)
		        except NotADirectoryError:
		            pass
		for i in range(5):
		    open(there, "w").close()
		    for _ in range(3):
		        os.stat(here)
		    os.unlink(there)
		    os.mkdir(there)
		    assert os.path.isdir(here)
		    open(there + "/f", "w").close()
		    assert listed() == ["f"]
		    os.stat(here + "/f")
		    os.unlink(there + "/f")
		    os.rmdir(there)
		    open(there, "w").close()
		    assert os.path.isfile(here)
		    os.unlink(here)
	P
}

# Its descriptors see what it was, and its name leads to what it is, though the kernel has had both.
# As long as the kernel may have the name, fstat(2) of them fails.
case_an_open_file_is_deleted_elsewhere() {
	both_mounts <<-'P'
		import errno, os, sys, time
		there, here = (m + "/open" for m in sys.argv[1:3])
		for i in range(4):
		    with open(there, "w") as f:
		        f.write("old")
		    with open(here) as f:
		        assert os.stat(here).st_size == os.fstat(f.fileno()).st_size == 3
		        os.unlink(there)
		        if i % 2:
		            with open(there, "w") as new:
		                new.write("newer")
		            assert os.stat(here).st_size == 5
		        while True:
		            try:
		                assert os.fstat(f.fileno()).st_nlink == 0
		                break
		            except OSError as e:
		                assert e.errno == errno.ESTALE, e
		                time.sleep(0.05)
		        for _ in range(2):
		            assert os.stat(f.fileno()).st_size == 3
		            assert os.lseek(f.fileno(), 0, os.SEEK_END) == 3
		            f.seek(0)
		            assert f.read() == "old"
		            assert os.path.exists(here) == bool(i % 2)
	P
}

# What a process sees on its own mount follows its own changes, warm as everything is.
case_a_mount_sees_its_own_changes() {
	cat > "$work/own.py" <<-'P'
		import os, sys
		os.chdir(sys.argv[1])
		def size(path, n):
		    assert os.stat(path).st_size == os.stat(path).st_size == n, (path, n)
		for i in range(10):
		    with open("f", "w") as f:
		        f.write("x" * (i + 2))
		    size("f", i + 2)
		    with open("f", "a") as f:
		        f.write("y")
		    size("f", i + 3)
		    with open("f", "r+") as f:
		        f.seek(i + 9)
		        f.write("z")
		        f.flush()
		        size("f", i + 10) # as the writer sees it
		        os.fsync(f.fileno())
		    os.truncate("f", i + 1)
		    size("f", i + 1)
		    os.utime("f", (5, 5))
		    assert os.stat("f").st_mtime == 5
		    open("g", "w").close()
		    size("g", 0)
		    g = os.stat("g").st_ino
		    with open("f") as f:
		        os.rename("f", "g")
		        assert os.stat("g").st_ino == os.fstat(f.fileno()).st_ino == g
		        size("g", i + 1)
		        assert not os.path.exists("f")
		        os.unlink("g")
		        assert os.fstat(f.fileno()).st_nlink == 0
		    os.mkdir("d")
		    assert os.stat("d").st_nlink == 2
		    os.mkdir("d/e")
		    assert os.stat("d").st_nlink == 2 and os.listdir("d") == ["e"]
		    os.rmdir("d/e")
		    os.rmdir("d")
		    assert not os.path.exists("d")
	P
	limit 60 python3 "$work/own.py" "$d"
}

# Each process of both mounts changes one directory as fast as it can: every call ends, and both
# mounts see the same in the end.
case_everything_at_once_in_one_directory() {
	mkdir "$m/crowd"
	both_mounts <<-'P'
		import errno, multiprocessing, os, random, sys, time
		mounts = [m + "/crowd" for m in sys.argv[1:3]]
		def work(directory, seed, calls):
		    pick, end = random.Random(seed), time.monotonic() + 3
		    name = lambda: "%s/%d" % (directory, pick.randrange(6))
		    def through(f, call, *arguments): # its file may be gone, or another version
		        try:
		            call(f, *arguments)
		        except OSError as e:
		            assert e.errno in (errno.ESTALE, errno.ECANCELED), e
		    def write():
		        f = os.open(name(), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
		        through(f, os.write, b"x" * pick.randrange(99))
		        through(f, os.close)
		    def read():
		        f = os.open(name(), os.O_RDONLY)
		        os.read(f, 99)
		        os.close(f)
		    deeds = [write, lambda: os.unlink(name()), lambda: os.rename(name(), name()),
		             lambda: os.stat(name()), read,
		             lambda: os.listdir(directory), lambda: os.mkdir(directory + "/d"),
		             lambda: os.rmdir(directory + "/d")]
		    while time.monotonic() < end:
		        try:
		            pick.choice(deeds)()
		        except OSError as e: # another process was faster
		            assert e.errno in (errno.ENOENT, errno.EEXIST), e
		        with calls.get_lock():
		            calls.value += 1
		calls = multiprocessing.Value("i", 0)
		workers = [multiprocessing.Process(target=work, args=(mounts[i % 2], i, calls))
		           for i in range(6)]
		for w in workers:
		    w.start()
		for w in workers:
		    w.join(30)
		assert [w.exitcode for w in workers] == [0] * 6, [w.exitcode for w in workers]
		print(calls.value, "calls")
		assert calls.value > 500
		seen = [{f: os.stat(m + "/" + f).st_size for f in os.listdir(m)} for m in mounts]
		assert seen[0] == seen[1], seen
	P
}

# Calls by paths, while the other mount deletes and makes the directories above: each finds its file
# or none. The names that the kernel remembers are those of former directories.
case_directories_are_made_anew() {
	both_mounts <<-'P'
		import collections, contextlib, errno, multiprocessing, os, random, sys, time
		from shutil import rmtree
		there, here = (m + "/anew" for m in sys.argv[1:3])
		os.mkdir(there)
		end = time.monotonic() + 4
		def make():
		    plan = ((os.mkdir, "/d"), (os.mkdir, "/d/e"), (os.mknod, "/d/e/f"),
		            (os.mknod, "/d/f"), (rmtree, "/d"), (os.unlink, "/d"))
		    while time.monotonic() < end:
		        for call, name in plan:
		            with contextlib.suppress(OSError): # another kind was made here
		                call(there + name)
		def opens(flags):
		    def opened(path):
		        f = os.open(path, flags)
		        try:
		            os.close(f)
		        except OSError as e: # the truncation of a file that is gone
		            assert e.errno == errno.ESTALE, e
		    return opened
		calls = [os.stat, os.utime, os.listxattr, os.rmdir,
		         opens(os.O_RDONLY), opens(os.O_WRONLY), opens(os.O_WRONLY | os.O_TRUNC),
		         opens(os.O_PATH), lambda path: os.truncate(path, 3),
		         lambda path: os.chmod(path, 0o777), lambda path: os.rename(path, path),
		         lambda path: os.unlink(path + "/none"), os.statvfs,
		         lambda path: os.getxattr(path, "user.ls.instance"),
		         lambda path: os.setxattr(path, "user.ls.acl.read", b"everyone"),
		         lambda path: opens(os.O_WRONLY | os.O_CREAT)(path + "/none/none")]
		makes = [os.mkdir, os.mknod, opens(os.O_WRONLY | os.O_CREAT | os.O_EXCL),
		         lambda path: os.symlink("x", path),
		         lambda path: os.link(here + "/x", path)]
		open(there + "/x", "w").close()
		def use(seed, found):
		    pick, seen = random.Random(seed), collections.Counter()
		    while time.monotonic() < end:
		        name = pick.choice(["/d", "/d/e", "/d/f", "/d/e/f", "/d/none/none"])
		        call = pick.choice(makes if seed % 2 else calls)
		        try:
		            call(here + name)
		            found.value += 1
		        except OSError as e:
		            seen[errno.errorcode[e.errno]] += 1
		            known = [errno.ENOENT, errno.EISDIR, errno.ENOTDIR, errno.EXDEV] + (
		                [errno.EEXIST, errno.EPERM] if call in makes else [errno.ENOTEMPTY])
		            assert e.errno in known, (call, name, e)
		    print("makes" if seed % 2 else "uses", dict(seen))
		found = multiprocessing.Value("i", 0)
		workers = [multiprocessing.Process(target=make)] + [
		    multiprocessing.Process(target=use, args=(i, found)) for i in range(4)]
		for w in workers:
		    w.start()
		for w in workers:
		    w.join(30)
		assert [w.exitcode for w in workers] == [0] * 5, [w.exitcode for w in workers]
		print(found.value, "found")
		assert found.value > 100
	P
}

case_down() {
	umount "$m2"
	down
}

run_cases
