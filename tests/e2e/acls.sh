#!/bin/bash
# Access by ACL on a mount that lets other local users in; rights.sh has every call.
. "$(dirname "$0")/lib.sh"

# Users of this test only.
passwd() {
	cp /etc/passwd "$work/passwd"
	printf 'alice:x:4001:4001::/:/bin/sh\nbob:x:4002:4002::/:/bin/sh\n' >> "$work/passwd"
	mount --bind "$work/passwd" /etc/passwd
}

case_up() {
	passwd
	chmod 711 "$work"
	start -o allow_other
	echo admin > "$m/acl/only-admin"
	printf '# a user of this principal\nadmin/alice\n' > "$m/acl/only-alice"
}

# as USER COMMAND...
as() {
	local uid
	uid=$(id -u "$1") || uid=$1
	shift
	limit 20 setpriv --reuid "$uid" --regid 4001 --clear-groups "$@"
}

# denied USER SCRIPT
denied() {
	if as "$1" sh -c "$2" 2> "$work/err"; then return 1; fi
	grep -q "Permission denied" "$work/err"
}

mode() { as "$1" stat -c %A "$m/shown"; }

case_modes_are_those_of_the_asking_user() {
	echo x > "$m/shown"
	setfattr -n user.ls.acl.write -v only-alice "$m/shown"
	setfattr -n user.ls.acl.read -v only-admin "$m/shown"
	local _
	for _ in 1 2; do
		is "$(mode 4001)" "--w-------"
		is "$(mode 4002)" "----------"
		is "$(stat -c %A "$m/shown")" "-r--r--r--"
	done
}

# What is done through a descriptor is done by the user that opened it.
case_a_descriptor_is_its_openers() {
	touch "$m/handed"
	setfattr -n user.ls.acl.write -v only-admin "$m/handed"
	exec 9>> "$m/handed"
	as 4002 sh -c 'echo from bob >&9; flock 9'
	exec 9>&-
	is "$(cat "$m/handed")" "from bob"
	denied 4002 "echo x >> '$m/handed'"
}

# A descriptor that was opened reads and writes on after the right was taken away; a new open is
# refused. First it has what it reads from the cell, then from the cache.
case_a_descriptor_keeps_its_rights() {
	python3 - "$m" "$d" <<-'P'
		import errno, os, sys
		mount, path = sys.argv[1], sys.argv[2] + "/f"
		with open(path, "w") as f:
		    f.write("one")
		fd = os.open(path, os.O_RDWR)
		reader = os.open(path, os.O_RDONLY)
		appender = os.open(path, os.O_WRONLY | os.O_APPEND)

		def refused():
		    for flags in os.O_RDONLY, os.O_WRONLY, os.O_RDWR, os.O_WRONLY | os.O_TRUNC:
		        try:
		            os.close(os.open(path, flags))
		        except OSError as e:
		            assert e.errno == errno.EACCES, e
		        else:
		            raise AssertionError("opened")

		def goes_on(text):
		    os.ftruncate(fd, 0)
		    os.pwrite(fd, text, 0)
		    os.fsync(fd)
		    for _ in range(3):
		        assert os.pread(reader, 100, 0) == text
		        assert os.pread(fd, 100, 0) == text
		    refused()

		with open(mount + "/acl/leavers", "w") as f:
		    f.write("admin")
		for right in "read", "write":
		    os.setxattr(path, "user.ls.acl." + right, b"leavers")
		os.close(os.open(path, os.O_RDONLY))
		with open(mount + "/acl/leavers", "w") as f:
		    f.write("")
		assert os.pread(reader, 100, 0) == b"one"
		refused()
		goes_on(b"two")
		os.setxattr(path, "user.ls.acl.read", b"only-alice")
		os.setxattr(path, "user.ls.acl.write", b"only-alice")
		goes_on(b"three")
		os.write(appender, b", four")
		os.close(appender)
		assert os.pread(reader, 100, 0) == b"three, four"
		os.close(fd)
		refused()
		assert os.pread(reader, 100, 0) == b"three, four"
	P
	is "$(as 4001 cat "$d/f")" "three, four"
	denied 4002 "cat '$d/f'"
}

# A mount of its own, whose log is a file.
case_the_log_names_what_was_missing() {
	local m=$work/logged log=$work/logged.log daemon
	mkdir "$m"
	"$LSFS" -f -o allow_other --standalone "$work/logged.data" "$m" 2> "$log" &
	daemon=$!
	wait_until "it is mounted" mountpoint -q "$m"
	echo admin > "$m/acl/team"
	mkdir "$m/d"
	touch "$m/d/f"
	setfattr -n user.ls.acl.write -v team "$m/d/f"
	denied 4001 "echo x > '$m/d/f'"
	setfattr -n user.ls.acl.write -v team "$m/d"
	denied 4001 "touch '$m/d/new'"
	setfattr -n user.ls.acl.read -v team "$m/d"
	denied 4001 "ls '$m/d'"
	as 4001 test ! -w "$m/d/f"
	wait_until "all is told" has_lines 3 "$log" "is refused"
	local who="is refused: the ACL team gives admin/alice no right to"
	grep -q "lsfs: /ls/[^/]*/d/f: open $who write$" "$log"
	grep -q "lsfs: /ls/[^/]*/d: create $who write$" "$log"
	grep -q "lsfs: /ls/[^/]*/d: opendir $who read$" "$log"
	local _
	for _ in $(seq 40); do denied 4001 "ls '$m/d'"; done
	is "$(grep -c "is refused" "$log")" 3 # the last one is counted, not repeated
	limit 10 umount "$m"
	wait $daemon
}

# has_lines N FILE TEXT
has_lines() { [ "$(grep -c -- "$3" "$2")" -eq "$1" ]; }

case_a_new_name_counts_at_once() {
	touch "$m/named"
	setfattr -n user.ls.acl.write -v only-alice "$m/named"
	denied 4999 ": >> '$m/named'"
	sed -i 's/^alice:x:4001:/alice:x:4999:/' "$work/passwd" # a new file in its place
	umount /etc/passwd
	mount --bind "$work/passwd" /etc/passwd
	as 4999 sh -c ": >> '$m/named'"
	denied 4001 ": >> '$m/named'"
}

case_down() {
	daemon=$(daemon_of "$m")
	stop
}

run_cases
