#!/bin/bash
# When contents are committed, what readers see, and which writes are refused.
. "$(dirname "$0")/lib.sh"
start || exit 1
cd "$m" || exit 1

generation() { attribute content_generation "$1"; }

case_one_commit_for_each_writer() {
	echo 0 > "$d/f"
	local before
	before=$(generation "$d/f")
	echo x > "$d/f"
	is "$(generation "$d/f")" $((before + 1))
	{ echo a; /bin/echo b; } > "$d/f"
	# at the close of each writer what is not committed yet: the last one has nothing left
	is "$(generation "$d/f")" $((before + 2))
	is "$(cat "$d/f")" "$(printf 'a\nb')"
	: > "$d/f"
	is "$(generation "$d/f")" $((before + 3))
	cat "$d/f"
	is "$(generation "$d/f")" $((before + 3))
}

# The kernel goes on with the number of the renamed file, and shows that of the replaced one.
case_one_commit_after_a_rename() {
	echo 0 > "$d/a"
	echo 1 > "$d/b"
	mv "$d/a" "$d/b"
	echo x > "$d/b"
	stat "$d/b" > /dev/null
	local before
	before=$(generation "$d/b")
	echo y > "$d/b"
	is "$(generation "$d/b")" $((before + 1))
}

case_nobody_sees_the_empty_file_of_a_rewrite() {
	echo 0 > "$d/f"
	local i
	(for i in $(seq 200); do echo $i > "$d/f"; done) &
	local writer=$!
	while kill -0 $writer 2> /dev/null; do
		[ -n "$(cat "$d/f")" ] || { say "empty contents seen"; return 1; }
	done
	wait $writer
	is "$(cat "$d/f")" 200
}

case_uncommitted_contents_are_private() {
	python3 - "$d/f" <<-'P'
		import os, sys
		fd = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT)
		os.write(fd, b"12345")
		assert os.fstat(fd).st_size == 5
		assert os.stat(sys.argv[1]).st_size == 5
		pid = os.fork()
		if pid == 0:
		    os.close(fd)
		    os._exit(os.stat(sys.argv[1]).st_size + len(open(sys.argv[1]).read()))
		assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
		os.fsync(fd)
		assert os.stat(sys.argv[1]).st_size == 5
		os.close(fd)
	P
}

case_threads_are_one_process() {
	echo old > "$d/f"
	python3 - "$d" <<-'P'
		import os, sys, threading
		def other(call):
		    told = []
		    t = threading.Thread(target=lambda: told.append(call()))
		    t.start()
		    t.join()
		    return told[0]
		path = sys.argv[1] + "/f"
		fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
		os.write(fd, b"12345")
		assert other(lambda: os.stat(path).st_size) == 5
		assert other(lambda: os.fstat(fd).st_size) == 5
		assert other(lambda: os.write(fd, b"6")) == 1
		assert os.stat(path).st_size == 6
		other(lambda: os.close(fd))
		assert open(path).read() == "123456"
		fd = other(lambda: os.open(path, os.O_WRONLY | os.O_TRUNC))
		assert os.stat(path).st_size == 0
		other(lambda: os.close(fd))
		pid = os.fork()
		if pid == 0:
		    os._exit(os.stat(path).st_size)
		assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
		new = sys.argv[1] + "/new"
		fd = other(lambda: os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
		os.chmod(new, 0o600)
		other(lambda: os.chmod(new, 0o640))
		os.close(fd)
	P
}

case_fsync_commits() {
	python3 - "$d/f" <<-'P'
		import os, sys
		fd = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
		os.write(fd, b"one")
		os.fsync(fd)
		assert open(sys.argv[1]).read() == "one"
		os.write(fd, b"two")
		assert open(sys.argv[1]).read() == "one"
		os.close(fd)
		assert open(sys.argv[1]).read() == "onetwo"
	P
}

case_a_reader_keeps_its_version() {
	head -c 100000 /dev/zero | tr '\0' a > "$d/f"
	exec 9< "$d/f"
	head -c 10 <&9 > /dev/null
	head -c 100000 /dev/zero | tr '\0' b > "$d/f"
	is "$(cat <&9 | tr -d a | wc -c)" 0
	exec 9<&-
	is "$(tr -d b < "$d/f" | wc -c)" 0
}

case_compare_and_swap_loses() {
	echo base > "$d/f"
	python3 - "$d/f" <<-'P'
		import errno, os, sys
		a = os.open(sys.argv[1], os.O_RDWR)
		b = os.open(sys.argv[1], os.O_RDWR)
		os.read(a, 100); os.read(b, 100)
		os.pwrite(a, b"A", 0); os.pwrite(b, b"B", 0)
		os.close(a)
		try:
		    os.close(b)
		    sys.exit("the second writer was not refused")
		except OSError as e:
		    assert e.errno == errno.ECANCELED, e
		assert open(sys.argv[1]).read() == "Aase\n"
	P
}

# A loop of compare-and-swap on one descriptor, as a program that keeps it does.
case_a_repeated_swap_is_applied_once() {
	echo 0 > "$d/f"
	python3 - "$d/f" <<-'P'
		import errno, os, sys
		path = sys.argv[1]
		fd = os.open(path, os.O_RDWR)
		tries = 0
		while True:
		    tries += 1
		    n = int(os.pread(fd, 100, 0))
		    if tries == 1:
		        open(path, "w").write("5\n")
		    copy = os.dup(fd)
		    os.pwrite(copy, b"%d\n" % (n + 1), 0)
		    try:
		        os.close(copy)
		        break
		    except OSError as e:
		        assert e.errno == errno.ECANCELED, e
		assert open(path).read() == "6\n", open(path).read()
		assert tries == 2, tries
		os.close(fd)
	P
}

# Another one renames the file, and hears of it; children close their copies of the descriptor.
case_the_writer_is_told_what_is_lost() {
	python3 - "$d" <<-'P'
		import errno, os, subprocess, sys
		def cancels(call, *args):
		    try:
		        call(*args)
		    except OSError as e:
		        assert e.errno == errno.ECANCELED, e
		    else:
		        raise AssertionError("it did not fail")
		def lose():
		    open(path, "w").write("old")
		    fd = os.open(path, os.O_RDWR)
		    os.read(fd, 100)
		    os.pwrite(fd, b"mine", 0)
		    open(path, "w").write("new")
		    mv = "import os, sys; os.rename(sys.argv[1], sys.argv[1] + '2')"
		    told = subprocess.run(["python3", "-c", mv, path], stderr=subprocess.PIPE,
		                          text=True).stderr
		    assert "Operation canceled" in told, told
		    if os.fork() == 0:
		        os.close(fd)
		        os._exit(0)
		    assert os.wait()[1] == 0
		    subprocess.run(["true"], check=True)
		    assert open(path).read() == "new"
		    return fd
		path = sys.argv[1] + "/f"
		cancels(os.close, lose())
		cancels(os.fsync, lose())
		fd = lose()
		cancels(os.write, fd, b"more")
		os.close(fd)
		assert open(path).read() == "new"
	P
}

# Bash says nothing of an error of its own close.
case_an_unlock_tells_of_a_write_that_was_lost() {
	echo old > "$d/f"
	exec 9<> "$d/f"
	flock 9
	read -r _ <&9
	echo the intruder > "$d/f"
	echo first >&9
	echo second >&9
	refused "Operation canceled" flock -u 9
	flock 9
	flock -u 9
	exec 9>&-
}

case_a_killed_writer_commits_nothing() {
	echo old > "$d/f"
	python3 - "$d/f" <<-'P'
		import os, signal, sys
		pid = os.fork()
		if pid == 0:
		    fd = os.open(sys.argv[1], os.O_WRONLY | os.O_TRUNC)
		    os.write(fd, b"half")
		    os.kill(os.getpid(), signal.SIGKILL)
		os.waitpid(pid, 0)
		assert open(sys.argv[1]).read() == "old\n", open(sys.argv[1]).read()
	P
	is "$(cat "$d/f")" old
}

# A shell opened the file for the command that dies.
case_a_killed_command_commits_nothing() {
	echo old > "$d/f"
	exec 9> "$d/f"
	limit 10 python3 -c 'import os; os.write(9, b"half"); os.kill(os.getpid(), 9)' || true
	exec 9>&-
	is "$(cat "$d/f")" old
}

# The next command goes on where the killed one has stopped, which had more to write.
case_a_command_after_a_killed_one() {
	echo old > "$d/f"
	{ timeout 0.3 bash -c 'echo part; sleep 9' || echo "rc $?"; } > "$d/f"
	is "$(cat "$d/f")" "$(printf 'part\nrc 124')"
	exec 9<> "$d/f"
	limit 10 python3 -c 'import os; os.write(9, b"half"); os.kill(os.getpid(), 9)' || true
	sync "$d/f"
	is "$(limit 10 head -c 4 <&9)" "$(printf '\nrc ')"
	exec 9>&-
	is "$(cat "$d/f")" "$(printf 'part\nrc 124')"
}

case_a_failed_copy_replaces_nothing() {
	echo old > "$d/f"
	head -c 300000 /dev/zero > "$work/large"
	refused "File too large" cp "$work/large" "$d/f"
	is "$(cat "$d/f")" old
	refused "File too large" dd if="$work/large" of="$d/f" bs=300000
	is "$(cat "$d/f")" old
}

case_an_appender_goes_on_after_a_truncation() {
	head -c 262144 /dev/zero > "$d/f"
	exec 9>> "$d/f"
	refused "File too large" bash -c 'echo x >&9'
	: > "$d/f"
	echo x >&9
	exec 9>&-
	is "$(cat "$d/f")" x
}

# A shell that has the file open otherwise, too.
case_a_truncation_beside_other_descriptors() {
	echo old > "$d/f"
	local before
	before=$(generation "$d/f")
	exec 8< "$d/f" 9> "$d/g" 7>> "$d/f"
	: > "$d/f"
	is "$(generation "$d/f")" $((before + 1))
	echo x > "$d/f"
	is "$(generation "$d/f")" $((before + 2))
	exec 7>&- 8<&- 9>&-
	is "$(cat "$d/f")" x
}

case_flags_of_single_writes() {
	python3 - "$d/f" <<-'P'
		import fcntl, os, sys
		path = sys.argv[1]
		fd = os.open(path, os.O_RDWR | os.O_CREAT)
		os.pwritev(fd, [b"one "], 0, os.RWF_DSYNC)
		assert open(path).read() == "one "
		os.pwritev(fd, [b"two "], 4, os.RWF_SYNC)
		assert open(path).read() == "one two "
		fcntl.fcntl(fd, fcntl.F_SETFL, os.O_APPEND)
		open(path, "a").write("between ")
		os.write(fd, b"three ")
		os.fsync(fd)
		assert open(path).read() == "one two between three "
		fcntl.fcntl(fd, fcntl.F_SETFL, 0)
		os.pwritev(fd, [b"four"], 0, os.RWF_APPEND)
		os.close(fd)
		assert open(path).read() == "one two between three four"
	P
}

case_an_unlock_commits_first() {
	echo old > "$d/f"
	exec 9<> "$d/f"
	flock 9
	echo new >&9
	flock -u 9
	is "$(cat "$d/f")" new
	exec 9>&-
}

case_rename_noreplace() {
	echo a > "$d/a"
	echo b > "$d/b"
	mv -n "$d/a" "$d/b"
	is "$(cat "$d/b")" b
	is "$(cat "$d/a")" a
	python3 - "$d" <<-'P'
		import os, sys
		d = sys.argv[1]
		os.rename(d + "/a", d + "/a")
		os.replace(d + "/a", d + "/b")
		assert os.listdir(d) == ["b"]
	P
}

case_a_deleted_file_lives_on_here() {
	echo kept > "$d/f"
	python3 - "$d" <<-'P'
		import errno, fcntl, os, sys, tempfile
		fd = os.open(sys.argv[1] + "/f", os.O_RDWR)
		os.unlink(sys.argv[1] + "/f")
		assert os.read(fd, 100) == b"kept\n"
		assert os.fstat(fd).st_nlink == 0
		for how in (fcntl.LOCK_EX, fcntl.LOCK_UN):
		    try:
		        fcntl.flock(fd, how)
		        sys.exit("not refused")
		    except OSError as e:
		        assert e.errno == errno.ESTALE, e
		assert os.pwrite(fd, b"KE", 0) == 2
		os.fsync(fd)
		assert os.pread(fd, 100, 0) == b"KEpt\n"
		os.ftruncate(fd, 2)
		assert os.fstat(fd).st_size == 2
		os.close(fd)
		with tempfile.TemporaryFile(dir=sys.argv[1]) as f:
		    f.write(b"line\n" * 10000)
		    f.seek(0)
		    assert len(f.readlines()) == 10000
		assert os.listdir(sys.argv[1]) == []
	P
}

case_times_before_1970() {
	touch -d '1969-12-31 23:59:58.25 UTC' "$d/f"
	is "$(stat -c %.2Y "$d/f")" -1.75
	touch -d '1901-12-13 20:45:52 UTC' "$d/f"
	is "$(stat -c %.2Y "$d/f")" -2147483648.00
}

case_checksum_is_that_of_the_contents() {
	echo hello > "$d/f"
	is "$(attribute checksum "$d/f")" "$(xxh64sum < "$d/f" | cut -c 1-16)"
}

case_mmap() {
	echo 0123456789 > "$d/f"
	python3 - "$d/f" <<-'P'
		import errno, mmap, os, sys
		fd = os.open(sys.argv[1], os.O_RDWR)
		for access in (mmap.PROT_READ | mmap.PROT_WRITE, mmap.PROT_READ):
		    try:
		        mmap.mmap(fd, 10, mmap.MAP_SHARED, access)
		        sys.exit("MAP_SHARED was not refused")
		    except OSError as e:
		        assert e.errno == errno.ENODEV, e
		assert mmap.mmap(fd, 10, mmap.MAP_PRIVATE)[:4] == b"0123"
		try:
		    os.posix_fallocate(fd, 0, 100)
		except OSError as e:
		    assert e.errno == errno.EOPNOTSUPP, e
		os.close(fd)
		fd = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECT)
		os.close(fd)
	P
}

case_mappings_show_one_committed_version() {
	head -c 200000 /dev/zero | tr '\0' a > "$d/f"
	python3 - "$d/f" <<-'P'
		import mmap, os, sys
		path, size = sys.argv[1], 200000
		def all_of(m):
		    return {bytes([c]) for c in set(m[:])}
		def mapping(fd):
		    return mmap.mmap(fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
		fd = os.open(path, os.O_RDWR)
		first = mapping(fd)
		assert first[0:1] == b"a"
		os.pwrite(fd, b"x" * size, 0)          # uncommitted
		assert all_of(first) == {b"a"}
		second = mapping(fd)
		assert all_of(second) == {b"a"}
		os.close(fd)                           # commits; the mappings keep the file open
		for round in range(20):
		    if os.fork() == 0:
		        with open(path, "wb") as f: f.write(bytes([98 + round % 2]) * size)
		        other = os.open(path, os.O_RDONLY)
		        os._exit(0 if all_of(mapping(other)) == {b"a"} else 1)
		    assert os.wait()[1] == 0
		    assert all_of(first) == all_of(second) == {b"a"}
		    assert set(open(path, "rb").read()) == {98 + round % 2}
		first.close()
		second.close()
		fd = os.open(path, os.O_RDONLY)
		assert all_of(mapping(fd)) == {b"c"}
		out = os.open(path + ".copy", os.O_WRONLY | os.O_CREAT)
		assert os.sendfile(out, fd, 0, 100) == 100
		os.close(out)
		assert open(path + ".copy").read() == "c" * 100
	P
}

# Their copies in the kernel would go through the pages that the mapping holds on to.
case_copies_are_not_of_what_a_mapping_shows() {
	head -c 5000 /dev/zero | tr '\0' a > "$d/f"
	python3 - "$d/f" <<-'P'
		import mmap, os, subprocess, sys
		path = sys.argv[1]
		fd = os.open(path, os.O_RDONLY)
		m = mmap.mmap(fd, 5000, mmap.MAP_PRIVATE, mmap.PROT_READ)
		assert m[:] == b"a" * 5000
		open(path, "w").write("b" * 5000)
		subprocess.run(["cp", path, path + ".cp"], check=True)
		subprocess.run(["sh", "-c", "cat $0 > $0.cat", path], check=True)
		for copy in (".cp", ".cat"):
		    assert open(path + copy).read() == "b" * 5000, copy
		assert m[:] == b"a" * 5000
	P
}

rss_kb() { awk '/^VmRSS:/ { print $2 }' "/proc/$daemon/status"; }

case_many_readers_share_their_memory() {
	head -c 262144 /dev/urandom > "$d/f"
	local before
	before=$(rss_kb)
	python3 - "$d/f" "$before" "$daemon" <<-'P'
		import os, resource, sys
		resource.setrlimit(resource.RLIMIT_NOFILE, (3000, 3000))
		fds = [os.open(sys.argv[1], os.O_RDONLY) for n in range(2000)]
		for fd in fds: assert len(os.pread(fd, 262144, 0)) == 262144
		status = open("/proc/%s/status" % sys.argv[3]).read()
		now = int(status.split("VmRSS:")[1].split()[0])
		print("KiB: %s, with 2,000 readers %d" % (sys.argv[2], now))
		assert now - int(sys.argv[2]) < 65536 # 512 MiB when each has his own
	P
}

run_cases
