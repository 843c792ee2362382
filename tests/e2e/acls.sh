#!/bin/bash
# Access by ACL: every call of the filesystem, by the principal of the mount and by other local
# users, with each right granted or not, from the cell and from the cache.
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
	printf 'admin\nadmin/*\n' > "$m/acl/locals"
}

# as USER COMMAND...
as() {
	local uid
	uid=$(id -u "$1") || uid=$1
	shift
	limit 20 setpriv --reuid "$uid" --regid 4001 --clear-groups "$@"
}

# Each call needs these rights on the node (r, w, c), and fails with EACCES without them; each is
# made twice, by all users one after the other, so that one's answers are cached for the other.
case_matrix() {
	python3 - "$m" <<-'P'
		import errno, fcntl, itertools, os, sys
		mount = sys.argv[1]
		top = mount + "/matrix"
		USERS = {"admin": 0, "alice": 4001, "bob": 4002, "nobody": 4999}
		RIGHTS = {"r": "read", "w": "write", "c": "change"}

		def opened(flags):
		    return lambda n: os.close(os.open(n + "/f", flags))
		def locked(n):
		    fd = os.open(n + "/f", os.O_RDONLY)
		    try:
		        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
		        fcntl.flock(fd, fcntl.LOCK_UN)
		    finally:
		        os.close(fd)
		def written(n):
		    with open(n + "/f", "w") as f:
		        f.write("x")
		def created(n):
		    os.close(os.open(n + "/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
		    os.unlink(n + "/new")
		def made(n):
		    os.mkdir(n + "/newdir")
		    os.rmdir(n + "/newdir")
		def set_acl(n):
		    name = os.getxattr(n + "/f", "user.ls.acl.change")
		    os.setxattr(n + "/f", "user.ls.acl.change", name)
		def lock_attribute(n):
		    os.setxattr(n + "/f", "user.ls.lock", b"exclusive")
		    os.setxattr(n + "/f", "user.ls.lock", b"free")
		def accessed(mode):
		    def call(n):
		        if not os.access(n + "/f", mode):
		            raise OSError(errno.EACCES, "access")
		    return call
		CALLS = [
		    ("", "stat", lambda n: os.stat(n + "/f")),
		    ("", "getxattr", lambda n: os.getxattr(n + "/f", "user.ls.instance")),
		    ("r", "open to read", opened(os.O_RDONLY)),
		    ("w", "open to write", opened(os.O_WRONLY)),
		    ("rw", "open for both", opened(os.O_RDWR)),
		    ("w", "open to truncate", opened(os.O_WRONLY | os.O_TRUNC)),
		    ("w", "write", written),
		    ("w", "truncate", lambda n: os.truncate(n + "/f", 0)),
		    ("w", "utime", lambda n: os.utime(n + "/f", ns=(1, 1))),
		    ("r", "access R_OK", accessed(os.R_OK)),
		    ("w", "access W_OK", accessed(os.W_OK)),
		    ("r", "list", lambda n: os.listdir(n)),
		    ("rw", "flock", locked),
		    ("w", "lock by attribute", lock_attribute),
		    ("c", "set an ACL name", set_acl),
		    ("w", "create and unlink", created),
		    ("w", "mkdir and rmdir", made),
		]

		def set_names(n, names):
		    for right, name in zip(("read", "write", "change"), names):
		        for node in n + "/f", n:
		            os.setxattr(node, "user.ls.acl." + right, name.encode())

		# The errno, or 0, of each call in turn, made by that user.
		def outcomes(uid, n):
		    r, w = os.pipe()
		    pid = os.fork()
		    if pid == 0:
		        got = []
		        if uid:
		            os.setgroups([]); os.setgid(uid); os.setuid(uid)
		        for _, _, call in CALLS:
		            try:
		                call(n)
		                got.append(0)
		            except OSError as e:
		                got.append(e.errno)
		        os.write(w, repr(got).encode())
		        os._exit(0)
		    os.close(w)
		    text = b""
		    while piece := os.read(r, 65536):
		        text += piece
		    os.close(r)
		    os.waitpid(pid, 0)
		    return eval(text)

		os.mkdir(top)
		wrong = 0
		lists = list(itertools.product(("only-admin", "only-alice"), repeat=3))
		lists.append(("locals",) * 3)
		holders = {"only-admin": ["admin"], "only-alice": ["alice"], "locals": USERS}
		for number, names in enumerate(lists):
		    n = top + "/%d" % number
		    os.mkdir(n)
		    open(n + "/f", "w").close()
		    has = {u: {k for k, name in zip("rwc", names) if u in holders[name]}
		           for u in USERS}
		    set_names(n, names)
		    for cycle in range(2):
		        for user in sorted(USERS, reverse=cycle == 1):
		            for (needs, what, _), got in zip(CALLS, outcomes(USERS[user], n)):
		                want = 0 if set(needs) <= has[user] else errno.EACCES
		                if got != want:
		                    wrong += 1
		                    print(names, user, what, "got", got, "expected", want)
		assert wrong == 0, wrong
	P
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
	grep -qx "lsfs: /ls/[^/]*/d/f: open $who write" "$log"
	grep -qx "lsfs: /ls/[^/]*/d: create $who write" "$log"
	grep -qx "lsfs: /ls/[^/]*/d: opendir $who read" "$log"
	local _
	for _ in $(seq 40); do denied 4001 "ls '$m/d'"; done
	is "$(grep -c "is refused" "$log")" 10
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
