#!/bin/bash
# Coherent caches: two mounts of one cell answer from what they remember, and never say anything
# older than what a writer on the other one was told.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

# requests MOUNT: that its session has sent to the cell, so far.
requests() { sed -n 's/^requests: //p' "$1/.cell/status"; }

# costs N MOUNT COMMAND...: that many requests of this mount.
costs() {
	local n=$1 at=$2 before
	before=$(requests "$at")
	shift 2
	limit 10 "$@" > /dev/null
	is "$(($(requests "$at") - before)) for $*" "$n for $*"
}

# A program for both mounts. In Python, because a process for each call would be slow.
both_mounts() { limit 60 python3 - "$m" "$m2"; }

case_up() {
	up_of_three
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

case_a_reader_is_never_behind() { never_behind 6 5; }

# Nor when the reader's daemon is stopped, in whatever it does, until its lease is over.
case_nor_behind_a_stopped_daemon() {
	local frozen reader
	frozen=$(daemon_of "$m2")
	never_behind 12 5 &
	reader=$!
	pause_s 2
	kill -STOP "$frozen"
	pause_s 6
	kill -CONT "$frozen"
	wait $reader
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
case_an_open_file_is_deleted_elsewhere() {
	both_mounts <<-'P'
		import os, sys
		there, here = (m + "/open" for m in sys.argv[1:3])
		for i in range(20):
		    with open(there, "w") as f:
		        f.write("old")
		    with open(here) as f:
		        assert os.stat(here).st_size == os.fstat(f.fileno()).st_size == 3
		        os.unlink(there)
		        if i % 2:
		            with open(there, "w") as new:
		                new.write("newer")
		            assert os.stat(here).st_size == 5
		        for _ in range(2):
		            assert os.fstat(f.fileno()).st_nlink == 0
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
		    pick, end = random.Random(seed), time.monotonic() + 5
		    name = lambda: "%s/%d" % (directory, pick.randrange(6))
		    def write():
		        with open(name(), "w") as f:
		            f.write("x" * pick.randrange(99))
		    deeds = [write, lambda: os.unlink(name()), lambda: os.rename(name(), name()),
		             lambda: os.stat(name()), lambda: open(name()).read(),
		             lambda: os.listdir(directory), lambda: os.mkdir(directory + "/d"),
		             lambda: os.rmdir(directory + "/d")]
		    while time.monotonic() < end:
		        try:
		            pick.choice(deeds)()
		        except OSError as e: # another process was faster
		            assert e.errno in (errno.ENOENT, errno.EEXIST, errno.ESTALE,
		                               errno.ECANCELED), e
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

# caches MOUNT FILE: it has leave to cache, of which a late acknowledgement costs it ten seconds.
caches() {
	local before
	cat "$2" > "$work/out"
	before=$(requests "$1")
	cat "$2" > "$work/out"
	[ "$(requests "$1")" = "$before" ]
}

case_round_trips() {
	mkdir -p "$m/a/b/c"
	echo x > "$m/a/b/c/f"
	echo x > "$m/a/b/c/other"
	wait_until "the second mount caches" caches "$m2" "$m2/a/b/c/f"
	costs 0 "$m2" stat "$m2/a/b/c/f"
	wait_until "the first mount caches" caches "$m" "$m/a/b/c/f"
	costs 1 "$m2" sh -c "echo y > '$m2/a/b/c/f'"
	costs 0 "$m2" cat "$m2/a/b/c/f"
	wait_until "the first mount caches" caches "$m" "$m/a/b/c/other"
	costs 1 "$m" stat "$m/a/b/c/f"
	costs 1 "$m" cat "$m/a/b/c/f" # the contents
	is "$(cat "$m/a/b/c/f")" y
	costs 0 "$m" stat "$m/a/b/c/f"
	echo z > "$m2/a/b/c/f"
	wait_until "the first mount caches" caches "$m" "$m/a/b/c/other"
	costs 1 "$m" stat "$m/a/b/c/f"
	! costs 1 "$m" stat "$m/a/b/c/none"
	costs 0 "$m" sh -c "! stat '$m/a/b/c/none'"
	stat "$m/a/b/c" # as the kernel may have its name, and the cache nothing more of it
	costs 1 "$m" ls "$m/a/b/c"
	costs 0 "$m" ls "$m/a/b/c"
}

# The calls of the kernel that the daemon of $m2 has read, and some others.
reads() { sed -n 's/^syscr: //p' "/proc/$(daemon_of "$m2")/io"; }

# Of a thousand calls the daemon sees those of the moment in which the kernel has forgotten.
case_a_warm_stat_is_the_kernels() {
	local before
	mkdir -p "$m/warm/a/b"
	echo x > "$m/warm/a/b/f"
	wait_until "the second mount caches" caches "$m2" "$m2/warm/a/b/f"
	before=$(reads)
	costs 0 "$m2" python3 -c "import os
for i in range(1000):
    os.stat('$m2/warm/a/b/f')"
	before=$(($(reads) - before))
	say "the daemon has read $before times"
	[ $before -lt 200 ]
}

# without_daemon FILE [SECONDS]: says its size, though the daemon has been stopped, for so long.
without_daemon() {
	local frozen rc=0
	frozen=$(daemon_of "$m2")
	stat "$1" > "$work/out"
	kill -STOP "$frozen"
	[ $# -eq 1 ] || pause_s "$2"
	limit 0.5 stat -c %s "$1" || rc=$?
	kill -CONT "$frozen"
	return $rc
}

case_a_stopped_daemon_is_not_missed() {
	echo x > "$d/f"
	wait_until "the kernel answers" without_daemon "${d/$m/$m2}/f"
}

# After a second the kernel asks the daemon.
case_a_stopped_daemon_is_missed_after_a_second() {
	echo x > "$d/f"
	wait_until "the kernel answers" without_daemon "${d/$m/$m2}/f"
	exits 124 without_daemon "${d/$m/$m2}/f" 1.1
}

# nothing_old FILE: a writer on the other mount waits for the lease of a stopped daemon. Then the
# kernel of that one answers nothing any more.
nothing_old() {
	local f=${1/$m/$m2} frozen
	frozen=$(daemon_of "$m2")
	wait_until "the second mount caches" caches "$m2" "$f"
	stat "$f"
	kill -STOP "$frozen"
	limit 20 sh -c "echo longer > '$1'"
	exits 124 limit 0.5 stat -c %s "$f"
	kill -CONT "$frozen"
	is "$(limit 20 stat -c %s "$f")" 7
}

# When the lease is short, so is the time for which the kernel keeps anything.
case_nothing_old_from_a_stopped_daemon() {
	echo x > "$d/f"
	nothing_old "$d/f"
	cell_ctl cell set cache_lease=1s
	pause_s 6 # the last leave of the old length is over
	echo x > "$d/g"
	nothing_old "$d/g"
	cell_ctl cell set cache_lease=5s
}

metric() { sed -n "s/^lsfs_$1 //p" "$m/.cell/metrics"; }

case_hits_are_counted() {
	local hits
	echo x > "$d/f"
	wait_until "the first mount caches" caches "$m" "$d/f"
	hits=$(metric cache_hits_total)
	cat "$d/f" > /dev/null
	[ "$(metric cache_hits_total)" -gt "$hits" ]
	is "$(metric 'session_state{state="safe"}')" 1
	[ "$(metric cached_nodes)" -gt 0 ]
	[ "$(metric 'calls_total{call="open",outcome="done"}')" -gt 0 ]
	[ "$(metric 'requests_total{operation="create",result="OK"}')" -gt 0 ]
	cp "$m/.cell/metrics" "$work/copied"
	tail -n 1 "$work/copied" | grep -q ^lsfs_
}

# waited_ms COMMAND...: how long it takes, in $took_ms.
waited_ms() {
	local begin=${EPOCHREALTIME/./}
	limit 30 "$@"
	took_ms=$(((${EPOCHREALTIME/./} - begin) / 1000))
}

# A mount that does not answer costs the others one cache lease (5 s), and nothing from then on.
case_a_frozen_mount_delays_others_once() {
	local frozen
	frozen=$(daemon_of "$m2")
	for f in 1 2 3; do echo x > "$d/$f"; done
	cat "${d/$m/$m2}"/[123] > "$work/out"
	kill -STOP "$frozen"
	waited_ms sh -c "echo y > '$d/1'"
	say "the first write took $took_ms ms"
	[ "$took_ms" -lt 6000 ]
	waited_ms sh -c "echo y > '$d/2'; echo y > '$d/3'"
	say "the next two took $took_ms ms"
	[ "$took_ms" -lt 1000 ]
	kill -CONT "$frozen"
	is "$(limit 20 cat "${d/$m/$m2}"/[123] | tr -d '\n')" yyy
}

# What is left of the leave to cache, in $left_us; 0: there is none.
leave_left() {
	local left
	left=$(sed -n 's/^cache_left: //p' "$1/.cell/status")
	left_us=$((10#${left/./}000))
}
has_much_leave() { leave_left "$1" && [ $left_us -gt 3000000 ]; }

# caches_all MOUNT FILE: also the names, which the kernel asks for after a second.
caches_all() {
	local before end=$((SECONDS + 3))
	caches "$1" "$2" || return 1
	before=$(requests "$1")
	while [ $SECONDS -lt $end ]; do cat "$2" > "$work/out"; done
	[ "$(requests "$1")" = "$before" ]
}

# Without the cell a mount reads on until its leave is over, and no longer: a read that begins then
# waits for the cell.
case_reads_go_on_without_the_cell() {
	local pids from now end last
	echo x > "$d/f"
	wait_until "it caches" caches_all "$m" "$d/f"
	pids="$(replica 1) $(replica 2) $(replica 3)"
	wait_until "it has much leave" has_much_leave "$m"
	# shellcheck disable=SC2086 # words
	kill -9 $pids # at once: with another master there would be another connection
	from=${EPOCHREALTIME/./}
	leave_left "$m"
	end=$((${EPOCHREALTIME/./} + left_us))
	last=$from
	now=$from
	while [ $now -lt $end ]; do
		now=${EPOCHREALTIME/./}
		if limit 1 cat "$d/f" > "$work/out" 2> /dev/null; then last=$now; fi
	done
	say "reads went on for $(((last - from) / 1000)) ms, of $((left_us / 1000)) ms of leave"
	[ $left_us -gt 0 ]
	[ $last -lt $end ]
	[ $((last - from)) -gt $((left_us / 2)) ]
	for i in 1 2 3; do start_replica $i; done
	is "$(limit 20 cat "$d/f")" x
}

# cachers SESSIONS NAME: clients that cache and write all of $nodes; a line each second.
cachers() {
	# shellcheck disable=SC2086 # words
	"$TOOLS/cachers" "$cell/dc1.conf" "$cell/admin.key" "$1" $nodes \
		> "$work/$2" 2> "$work/$2.log" &
}
# all_cache N NAME: so many sessions do nothing else but write.
all_cache() {
	tail -n 1 "$work/$2" | awk -v n="$1" '{ ok = $4 == n && $3 > 40 * n } END { exit !ok }'
}
# A second ago at most it had leave for as many milliseconds.
has_leave() { all_cache 1 one && tail -n 1 "$work/one" | awk -v ms="$1" '{ exit $5 < ms }'; }
lines() { wc -l < "$work/$1"; }
has_lines() { [ "$(lines "$1")" -ge "$2" ]; }
# seconds N NAME: the sum of the writes and the longest of the next N lines, in $writes and $took.
seconds() {
	local from
	from=$(($(lines "$2") + 2)) # the second that has begun is not counted
	wait_until "$1 seconds are over" has_lines "$2" $((from + $1 - 1))
	read -r writes took < <(tail -n +$from "$work/$2" | head -n "$1" |
		awk '{ n += $1; if (max < $2) max = $2 } END { print n, max }')
}
# In 19 sessions there are 38 writes a second.
wait_no_more() { has_lines others "$1" && tail -n 1 "$work/others" | awk '{ exit $1 < 30 }'; }
writes_again() { has_lines one "$1" && tail -n 1 "$work/one" | awk '{ exit $1 < 1 }'; }

# Of twenty clients that cache the same files one is frozen: for a cache lease the others wait, and
# from then on they write as before.
case_one_of_twenty_is_frozen() {
	local i nodes='' one others before waited
	leases 4s 12s
	for i in 1 2 3 4 5; do
		echo x > "$d/$i"
		nodes+=" $(stat -c %i "$d/$i")"
	done
	cachers 1 one
	one=$!
	cachers 19 others
	others=$!
	wait_until "one caches" all_cache 1 one
	wait_until "the others cache" all_cache 19 others
	seconds 3 others
	before=$((writes < 114 ? writes : 114)) # more were late ones
	wait_until "one has leave for a while" has_leave 2500
	kill -STOP $one
	i=$(lines others)
	wait_until "they wait no more" wait_no_more $((i + 3))
	waited=$(tail -n +$i "$work/others" | awk '$2 > max { max = $2 } END { print max }')
	seconds 3 others
	say "$before writes in 3 s; one is frozen: a wait of $waited ms, then $writes writes"
	[ "$waited" -gt 500 ] # of the leave that it had, a second ago at most
	[ "$waited" -lt 8000 ]
	[ $((writes * 100)) -ge $((before * 95)) ]
	[ "$took" -lt 1000 ] # nobody waits for a lease any more
	i=$(lines one)
	kill -CONT $one
	wait_until "it writes again" writes_again $((i + 1))
	kill $one $others
	wait $one $others
	is "$(cat "$work/one.log" "$work/others.log")" ""
}

case_down() {
	umount "$m2"
	down
}

run_cases
