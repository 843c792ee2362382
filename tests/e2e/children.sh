#!/bin/bash
# Programs that start others, or become others, while they have written files open. The kernel
# closes such a file in the middle of execve(2), and holds a lock of the task meanwhile, for which
# whoever reads certain files of /proc waits. A mount that reads them stops for ever, and with it
# every ps of the machine.
. "$(dirname "$0")/lib.sh"
. "$(dirname "$0")/loopback.sh"

spawner=$TOOLS/spawner
control=$work/control
mkdir "$control" && mount -t fusectl none "$control" || exit 1

# Ends every call of the mount, whatever its daemon does. Nothing may ask the mount for its number.
abort() {
	say "the mount had to be aborted"
	awk -v m="$m" '$5 == m { split($3, device, ":"); print device[2] }' /proc/self/mountinfo |
		while read -r number; do echo 1 > "$control/$number/abort"; done
	return 1
}

# has_ended_well PID: within some seconds, with 0.
has_ended_well() {
	patience=6 wait_until "process $1 has ended" gone "$1" || abort
	wait "$1"
}

ends() {
	"$@" &
	has_ended_well $!
}

# waits_for_the_cell COMMAND...: the cell is silent from when the program has written its file, and
# halted, until after it goes on: the program waits in its execve; the mount does not.
waits_for_the_cell() {
	local program silenced
	silenced=$(replica 1)
	HALT=yes "$@" &
	program=$!
	wait_until "it has written" halted $program
	kill -STOP "$silenced"
	kill -CONT $program
	pause_s 0.3
	limit 5 grep -q '^state: safe' "$m/.cell/status" || abort
	if gone $program; then
		say "it did not wait"
		return 1
	fi
	kill -CONT "$silenced"
	has_ended_well $program
}
halted() { grep -q '^State:.T' "/proc/$1/status"; }

# each_way COMMAND...: runs it with each way to start another program, and looks at what it wrote.
each_way() {
	local way
	for way in posix_spawn system fork clone exec; do
		"$@" "$spawner" $way "$d/f"
		is "$(limit 5 cat "$d/f")" xy
		rm "$d/f"
	done
	for way in holder exec_holder; do
		"$@" "$spawner" $way "$d/f"
		is "$(limit 5 cat "$d/f")" xyz
		rm "$d/f"
	done
}

case_a_cell_that_can_be_silenced() {
	"$LSCTL" cell create dc1 --dir "$cell" --replica "127.0.0.1:$(free_port)" > /dev/null
	start_replica 1
	limit 30 "$LSFS" -o "key=$cell/admin.key" "$cell/dc1.conf" "$m"
}
case_children_of_c() { each_way ends; }

case_children_of_c_while_the_cell_is_silent() { each_way waits_for_the_cell; }

cat > "$work/children.py" <<- 'P'
	import fcntl, os, signal, subprocess, sys
	def spawn():
	    os.waitpid(os.posix_spawn("/bin/true", ["true"], os.environ), 0)
	ways = {
	    "system": lambda: os.system("true"),
	    "run_all_open": lambda: subprocess.run(["true"], close_fds=False),
	    "run": lambda: subprocess.run(["true"]),
	    "posix_spawn": spawn,
	    "popen": lambda: os.popen("true").read(),
	    "exec": lambda: os.execvp("true", ["true"]),
	}
	path, way, locked = sys.argv[1:]
	f = open(path, "w")
	f.write("x")
	f.flush()
	if locked == "locked":
	    fcntl.lockf(f, fcntl.LOCK_EX)
	if "HALT" in os.environ:
	    os.kill(os.getpid(), signal.SIGSTOP)
	ways[way]()
	f.write("y")
	f.close()
P

# each_way_of_python COMMAND...
each_way_of_python() {
	local way locked
	for locked in locked free; do
		for way in system run_all_open run posix_spawn popen; do
			"$@" python3 "$work/children.py" "$d/f" $way $locked
			is "$(limit 5 cat "$d/f")" xy
		done
		"$@" python3 "$work/children.py" "$d/f" exec $locked
		is "$(limit 5 cat "$d/f")" x
	done
}
case_children_of_python() { each_way_of_python ends; }
case_children_of_python_while_the_cell_is_silent() { each_way_of_python waits_for_the_cell; }

case_children_of_go_while_the_cell_is_silent() {
	build_go
	waits_for_the_cell "$work/go/program" children "$d/log"
	is "$(limit 5 grep -c '^child [0-9]* of 10$' "$d/log")" 10
}

# traced SELECTION COMMAND...: the mount's system calls meanwhile, into $work/traced.
traced() {
	local tracer
	strace -f -q -e "trace=$1" -o "$work/traced" -p "$(daemon_of "$m")" &
	tracer=$!
	wait_until "it is traced" grep -q '^TracerPid:.[1-9]' "/proc/$(daemon_of "$m")/status"
	"${@:2}"
	kill "$tracer"
	wait "$tracer" || :
}

# looked_at COMMAND...: the files of processes that the mount opens meanwhile, without numbers.
looked_at() {
	traced openat,open "$@"
	grep -o '"/proc/[0-9][^"]*"' "$work/traced" | tr -d '"' | sed 's/[0-9]\+/N/g'
}

writes_often() {
	python3 - "$d/f" <<-'P'
		import sys
		for i in range(100):
		    with open(sys.argv[1], "w") as f:
		        f.write(str(i))
		for i in range(100):
		    with open(sys.argv[1], "a") as f:
		        f.write(str(i))
	P
}
redirects() {
	bash -c 'echo x > "$1"; : > "$1"; /bin/echo y >> "$1"' - "$d/f"
	python3 -c 'import sys; f = open(sys.argv[1], "w"); f.write("z"); f.flush()' "$d/f"
}

writes_in_threads() {
	python3 - "$d/f" <<-'P'
		import sys, threading
		def write():
		    for i in range(100):
		        with open(sys.argv[1], "w") as f:
		            f.write(str(i))
		threads = [threading.Thread(target=write) for _ in range(2)]
		for t in threads: t.start()
		for t in threads: t.join()
	P
}

# Not one file for a process that opens, writes and closes, in whatever thread, where the kernel
# tells without.
case_looks_into_proc() {
	local opened
	opened=$(looked_at writes_often | grep -c . || :)
	opened=$((opened + $(looked_at writes_in_threads | grep -c . || :)))
	if printf '6.16\n%s\n' "$(uname -r)" | sort -CV; then is "$opened" 0; fi
	[ "$opened" -le 600 ]
	looked_at redirects > "$work/files"
	grep -q '^/proc/N/fdinfo/N$' "$work/files"
	not grep -vE '^/proc/N/(status|fdinfo|fdinfo/N|mountinfo)$' "$work/files"
}

# times TEXT: a hundred times, with a file and its descriptor.
times() {
	python3 - "$d/f" "$1" <<-'P'
		import fcntl, os, sys
		path, text = sys.argv[1], compile(sys.argv[2], "text", "exec")
		lock = os.open(path, os.O_RDWR)
		for i in range(100):
		    exec(text)
	P
}
write='fd = os.open(path, os.O_WRONLY | os.O_TRUNC); os.write(fd, b"x"); os.close(fd)'
read='fd = os.open(path, os.O_RDONLY); os.read(fd, 99); os.read(fd, 99); os.close(fd)'
lock='fcntl.flock(lock, fcntl.LOCK_EX); fcntl.flock(lock, fcntl.LOCK_UN)'

# costs TEXT CALLS SENT ENTRIES: at most so many system calls of the mount for each, of which so
# many write to the cell, and as many entries of the log. A tenth more is for KeepAlives and the
# like.
costs() {
	local before entries calls sent
	before=$(log_end)
	traced all times "$1"
	entries=$(($(log_end) - before)) calls=$(grep -vc resumed "$work/traced")
	sent=$(grep -c ' write(' "$work/traced" || :)
	say "$calls system calls, $sent messages, $entries entries: 100 times $1"
	[ "$calls" -le $(($2 * 110)) ] && [ "$sent" -le $(($3 * 100 + 10)) ]
	[ "$entries" -le $(($4 * 100 + 10)) ]
}
log_end() {
	"$LSCTL" status --json "$m" | python3 -c 'import json, sys
print(max(r.get("applied", 0) for r in json.load(sys.stdin)["replicas"]))'
}

# The kernel makes five requests for a small write, each with a read and a write: OPEN, GETXATTR,
# WRITE, FLUSH, RELEASE.
case_costs_of_calls() {
	echo x > "$d/f"
	costs "$write" 17 1 1
	costs "$read" 10 0 0
	costs "$lock" 15 2 2
}

# It waits no longer than the grace period.
case_a_cell_that_stays_silent() {
	local silenced
	silenced=$(replica 1)
	leases 1s 1s
	mount_second grace=1
	cat > "$work/silencer.py" <<-'P'
		import os, signal, sys
		f = open(sys.argv[1], "w")
		f.write("x")
		f.flush()
		os.kill(int(sys.argv[2]), signal.SIGSTOP)
		os.execvp("true", ["true"])
	P
	ends python3 "$work/silencer.py" "$m2/lost" "$silenced"
	kill -CONT "$silenced"
	umount "$m2"
}

run_cases
