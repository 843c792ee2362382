"""Every call of the filesystem x who calls x which ACL gives which right, with an empty cache and
with a warm one. Two mounts of one cell, of two principals; each is used by its owner and by other
local users. A table says which rights a call needs; all else is generated.

rights.py MOUNT_OF_ADMIN MOUNT_OF_ANN"""

import errno
import fcntl
import itertools
import os
import sys

ADMIN, ANN = sys.argv[1:]

# Who calls: the subject by which ACLs name it, on which mount, as which local user.
ACTORS = [
    ("admin", ADMIN, 0),
    ("admin/alice", ADMIN, 4001),
    ("admin/bob", ADMIN, 4002),
    ("admin/nobody", ADMIN, 4999),
    ("ann", ANN, 4003),
    ("ann/alice", ANN, 4001),
    ("ann/root", ANN, 0),
]
# What an ACL file names.
NAMED = ["admin", "admin/alice", "admin/*", "ann", "ann/root", "ann/*", "*"]
RIGHTS = {"r": "read", "w": "write", "c": "change"}


def names(line, actor):
    user = actor.partition("/")[2]
    return line in ("*", actor) or (user != "" and line == actor.partition("/")[0] + "/*")


# ---- the calls: each gets the directory with the ACLs that are tried, and one that is open to all


def opened(flags, lock=None):
    def call(d, o):
        fd = os.open(d + "/f", flags)
        try:
            if lock:
                lock(fd)
        finally:
            os.close(fd)
    return call


def flock(how):
    def lock(fd):
        fcntl.flock(fd, how | fcntl.LOCK_NB)
        fcntl.flock(fd, fcntl.LOCK_UN)
    return lock


def record_lock(how):
    def lock(fd):
        fcntl.lockf(fd, how | fcntl.LOCK_NB)
        fcntl.lockf(fd, fcntl.LOCK_UN)
    return lock


def accessed(name, mode):
    def call(d, o):
        if not os.access(d + name, mode):
            raise OSError(errno.EACCES, "access")
    return call


def written(flags):
    def call(d, o):
        fd = os.open(d + "/f", os.O_WRONLY | flags)
        try:
            os.write(fd, b"x")
        finally:
            os.close(fd)
    return call


def lock_attribute(name, mode):
    def call(d, o):
        os.setxattr(d + name, "user.ls.lock", mode)
        if mode == b"exclusive":
            os.getxattr(d + name, "user.ls.sequencer")
        os.setxattr(d + name, "user.ls.lock", b"free")
    return call


def same_attribute(name, attribute):
    def call(d, o):
        os.setxattr(d + name, attribute, os.getxattr(d + name, attribute))
    return call


def created(d, o):
    os.close(os.open(d + "/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY))
    os.unlink(d + "/new")


def created_ephemeral(d, o):
    os.close(os.open(d + "/new", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o1644))


def made(d, o):
    os.mkdir(d + "/new")
    os.rmdir(d + "/new")


# A node in the directory that is open to all, of which `d` has the ACL for writing.
def guarded(make, remove, act):
    def call(d, o):
        node = o + "/node"
        make(node)
        os.setxattr(node, "user.ls.acl.write", os.getxattr(d, "user.ls.acl.write"))
        try:
            act(node, o)
        finally:
            if os.path.exists(node):
                os.setxattr(node, "user.ls.acl.write", b"all")
                remove(node)
    return call


def file_at(path):
    os.close(os.open(path, os.O_CREAT | os.O_WRONLY))


def renamed_and_back(node, o):
    os.rename(node, o + "/other")
    os.rename(o + "/other", node)


def replaced(node, o):
    file_at(o + "/source")
    try:
        os.rename(o + "/source", node)
    except OSError:
        os.unlink(o + "/source")
        raise


# The other file may be read by all; the source by those whom its own ACL names.
def shown(same):
    def act(node, o):
        file_at(o + "/other")
        os.setxattr(node, "user.ls.acl.read", os.getxattr(act.directory, "user.ls.acl.read"))
        if same:
            os.setxattr(o + "/other", "user.ls.acl.read", os.getxattr(node, "user.ls.acl.read"))
        try:
            os.rename(node, o + "/other")
        finally:
            os.unlink(o + "/other")

    def call(d, o):
        act.directory = d
        guarded(file_at, os.unlink, act)(d, o)
    return call


def renamed_into(d, o):
    file_at(o + "/source")
    try:
        os.rename(o + "/source", d + "/target")
    except OSError:
        os.unlink(o + "/source")
        raise
    os.unlink(d + "/target")


def whole(path):
    def call(d, o):
        with open(d[:d.index("/rights")] + path, "rb") as f:
            f.read()
    return call


def checked(d, o):
    fd = os.open(d[:d.index("/rights")] + "/.cell/check", os.O_RDWR)
    try:
        os.write(fd, b"nonsense")
        assert os.pread(fd, 100, 0).startswith(b"stale")
    finally:
        os.close(fd)


def made_ephemeral(node, o):
    fd = os.open(node, os.O_RDONLY)
    try:
        os.setxattr(node, "user.ls.ephemeral", b"1")
    finally:
        os.close(fd)


def no_lock_delay(d, o):
    os.removexattr(d + "/f", "user.ls.lock_delay")


def refused(error, act):
    def call(d, o):
        try:
            act(d)
        except OSError as e:
            if e.errno == error:
                return
            raise
        raise OSError(0, "not refused")
    return call


def attribute(name, missing=None):
    def call(d, o):
        try:
            os.getxattr(d + "/f", "user.ls." + name)
        except OSError as e:
            if e.errno != missing:
                raise
    return call


CALLS = [
    # needs, what; without a right it is EACCES
    ("", "stat", lambda d, o: os.stat(d + "/f")),
    ("", "stat of a directory", lambda d, o: os.stat(d)),
    ("", "statvfs", lambda d, o: os.statvfs(d)),
    ("", "listxattr", lambda d, o: os.listxattr(d + "/f")),
    ("", "instance", attribute("instance")),
    ("", "ACL name", attribute("acl.read")),
    ("", "lock", attribute("lock")),
    ("", "lock holders", attribute("lock_holders", errno.ENODATA)),
    ("", "lock waiters", attribute("lock_waiters", errno.ENODATA)),
    ("", "sequencer of no lock", attribute("sequencer", errno.ENODATA)),
    ("r", "open to read", opened(os.O_RDONLY)),
    ("w", "open to write", opened(os.O_WRONLY)),
    ("rw", "open for both", opened(os.O_RDWR)),
    ("w", "open to truncate", opened(os.O_WRONLY | os.O_TRUNC)),
    ("rw", "open to read, truncated", opened(os.O_RDONLY | os.O_TRUNC)),
    ("w", "open of what exists, O_CREAT", opened(os.O_WRONLY | os.O_CREAT)),
    ("r", "open of what exists to read, O_CREAT", opened(os.O_RDONLY | os.O_CREAT)),
    ("rw", "write into contents", written(0)),
    ("w", "write over all", written(os.O_TRUNC)),
    ("w", "append", written(os.O_APPEND)),
    ("w", "truncate", lambda d, o: os.truncate(d + "/f", 0)),
    ("w", "utime", lambda d, o: os.utime(d + "/f", ns=(1, 1))),
    ("r", "access R_OK", accessed("/f", os.R_OK)),
    ("w", "access W_OK", accessed("/f", os.W_OK)),
    ("w", "access W_OK of a directory", accessed("", os.W_OK)),
    ("", "access X_OK of a directory", accessed("", os.X_OK)),
    ("r", "list", lambda d, o: os.listdir(d)),
    ("rw", "flock", opened(os.O_RDONLY, flock(fcntl.LOCK_EX))),
    ("rw", "flock, shared", opened(os.O_RDONLY, flock(fcntl.LOCK_SH))),
    ("w", "flock to write", opened(os.O_WRONLY, flock(fcntl.LOCK_EX))),
    ("w", "fcntl", opened(os.O_WRONLY, record_lock(fcntl.LOCK_EX))),
    ("rw", "fcntl, shared", opened(os.O_RDONLY, record_lock(fcntl.LOCK_SH))),
    ("w", "lock by attribute", lock_attribute("/f", b"exclusive")),
    ("w", "shared lock by attribute", lock_attribute("/f", b"shared")),
    ("w", "lock of a directory", lock_attribute("", b"exclusive")),
    ("w", "lock-delay", lambda d, o: os.setxattr(d + "/f", "user.ls.lock_delay", b"7")),
    ("w", "no lock-delay", no_lock_delay),
    ("c", "name for read", same_attribute("/f", "user.ls.acl.read")),
    ("c", "name for write", same_attribute("/f", "user.ls.acl.write")),
    ("c", "name for change", same_attribute("/f", "user.ls.acl.change")),
    ("c", "name of a directory", same_attribute("", "user.ls.acl.read")),
    ("w", "create and unlink", created),
    ("w", "create an ephemeral file", created_ephemeral),
    ("w", "make ephemeral", guarded(file_at, os.unlink, made_ephemeral)),
    ("w", "mkdir and rmdir", made),
    ("w", "unlink", guarded(file_at, os.unlink, lambda n, o: os.unlink(n))),
    ("w", "rmdir", guarded(os.mkdir, os.rmdir, lambda n, o: os.rmdir(n))),
    ("w", "rename", guarded(file_at, os.unlink, renamed_and_back)),
    ("w", "rename over", guarded(file_at, os.unlink, replaced)),
    ("rw", "rename over a file of other readers", shown(same=False)),
    ("w", "rename over a file of the same readers", shown(same=True)),
    ("w", "rename into", renamed_into),
    ("", "link", refused(errno.EPERM, lambda d: os.link(d + "/f", d + "/l"))),
    ("", "symlink", refused(errno.EPERM, lambda d: os.symlink("f", d + "/l"))),
    ("", "mkfifo", refused(errno.EPERM, lambda d: os.mkfifo(d + "/l"))),
    ("", "exec", refused(errno.EACCES, lambda d: os.execv(d + "/f", ["f"]))),
    ("", ".cell/status", whole("/.cell/status")),
    ("", ".cell/metrics", whole("/.cell/metrics")),
    ("", ".cell/locks", whole("/.cell/locks")),
    ("", ".cell/check", checked),
]


# ---- the trials


def call(mount, uid, number):
    """The errno, or 0, of each call in turn, made by that user."""
    r, w = os.pipe()
    pid = os.fork()
    if pid == 0:
        got = []
        if uid:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
        for _, _, act in CALLS:
            try:
                act("%s/rights/%d" % (mount, number), mount + "/rights/open")
                got.append(0)
            except OSError as e:
                got.append(e.errno)
            except AssertionError:
                got.append(-1)
        os.write(w, repr(got).encode())
        os._exit(0)
    os.close(w)
    with os.fdopen(r) as f:
        text = f.read()
    os.waitpid(pid, 0)
    return eval(text)


def write(path, text):
    with open(path, "w") as f:
        f.write(text)


def directory(path, acl):
    """With a file in it; the ACL names are set by those who still may."""
    os.mkdir(path)
    write(path + "/f", "")
    for right, name in acl.items():
        for node in path + "/f", path:
            os.setxattr(node, "user.ls.acl." + right, name.encode())


def trials():
    """Which line the ACL file has, and which rights it gives; none gives the others. For a user and
    for a principal each set of rights is tried, for other lines none and all."""
    for line in NAMED:
        for n in range(len(RIGHTS) + 1):
            for given in itertools.combinations(RIGHTS, n):
                if n in (0, len(RIGHTS)) or line in ("admin/alice", "ann"):
                    yield line, given


def make(all_trials):
    write(ADMIN + "/acl/all", "*\n")
    write(ADMIN + "/acl/none", "# nobody\n")
    os.setxattr(ADMIN + "/acl/none", "user.ls.acl.write", b"all")
    for number, line in enumerate(NAMED):
        write(ADMIN + "/acl/list%d" % number, "# a comment\n%s\n" % line)
    os.mkdir(ADMIN + "/rights")
    for right in RIGHTS.values():
        os.setxattr(ADMIN + "/rights", "user.ls.acl." + right, b"all")
    os.mkdir(ADMIN + "/rights/open")
    for number, (line, given) in enumerate(all_trials):
        acl = {RIGHTS[k]: "list%d" % NAMED.index(line) if k in given else "none" for k in "rwc"}
        directory(ADMIN + "/rights/%d" % number, acl)


def judge(mount, number, line, given, warm):
    """The number of calls that are not answered as they should be."""
    wrong = 0
    actors = [a for a in ACTORS if a[1] == mount]
    for actor, _, uid in actors[::-1] if warm else actors:
        has = set(given) if names(line, actor) else set()
        for (needs, what, _), got in zip(CALLS, call(mount, uid, number)):
            want = 0 if set(needs) <= has else errno.EACCES
            if got != want:
                wrong += 1
                print("ACL of", line, "for", given, ":", actor, what, "warm" if warm else "cold",
                      "got", got, "expected", want)
    return wrong


def main():
    all_trials = list(trials())
    make(all_trials)
    wrong = 0
    # One mount after the other: a principal waits for its turn while several send requests.
    for mount in ADMIN, ANN:
        for number, (line, given) in enumerate(all_trials):
            # A change of an ACL file empties the cache of every mount.
            write(mount + "/acl/none", "# nobody\n" * (2 + number % 2))
            wrong += judge(mount, number, line, given, warm=False)
            wrong += judge(mount, number, line, given, warm=True)
    print(2 * len(all_trials) * len(ACTORS) * len(CALLS), "calls,", wrong, "wrong")
    return wrong != 0


sys.exit(main())
