# One process does whatever it likes to a file, by descriptor and by name, here and on a local disk:
# both show the same at every step. same_as_elsewhere.py HERE ELSEWHERE SEED STEPS
import fcntl, mmap, os, random, sys

here, elsewhere, seed, steps = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
random.seed(seed)
LARGEST = 262144
done = []

class File:
    def __init__(self, path):
        self.path, self.fd, self.linked = path, None, False
        self.open(os.O_CREAT)

    def open(self, flags):
        if self.fd is not None:
            os.close(self.fd)
        if not self.linked:
            flags |= os.O_CREAT
        self.fd = os.open(self.path, os.O_RDWR | flags, 0o644)
        self.linked = True

    def write(self, at, data):
        return os.pwrite(self.fd, data, at)

    def append(self, data):
        fcntl.fcntl(self.fd, fcntl.F_SETFL, os.O_APPEND)
        n = os.write(self.fd, data)
        fcntl.fcntl(self.fd, fcntl.F_SETFL, 0)
        return n

    def read(self, at, size):
        return os.pread(self.fd, size, at)

    def truncate(self, size):
        os.ftruncate(self.fd, size)
        return os.fstat(self.fd).st_size

    def truncate_name(self, size):
        if self.linked:
            os.truncate(self.path, size)
        os.pread(self.fd, 1, 0) # without that it goes on in the snapshot that it has
        return os.fstat(self.fd).st_size

    def sync(self):
        os.fsync(self.fd)

    def stat(self):
        s = os.fstat(self.fd)
        return s.st_size, s.st_nlink, self.linked and os.stat(self.path).st_size

    def time(self, ns):
        os.utime(self.fd, ns=(ns, ns))
        return os.fstat(self.fd).st_mtime_ns

    def replace(self, data):
        os.fsync(self.fd) # the file keeps its identity here: what is written later loses
        with open(self.path + ".new", "wb") as f:
            f.write(data)
        os.replace(self.path + ".new", self.path)
        self.linked = True
        self.open(0)

    def rename(self):
        if self.linked:
            os.rename(self.path, self.path + ".moved")
            os.rename(self.path + ".moved", self.path)

    def unlink(self):
        if self.linked:
            os.unlink(self.path)
            self.linked = False

    def mapped(self):
        os.fsync(self.fd)
        self.open(0)
        size = os.fstat(self.fd).st_size
        if size == 0:
            return b""
        m = mmap.mmap(self.fd, size, mmap.MAP_PRIVATE, mmap.PROT_READ)
        try:
            return m[:]
        finally:
            m.close()

def some_bytes():
    return random.randbytes(random.choice((1, 7, 100, 4096, 5000, 60000)))

def some_place():
    return random.choice((0, 1, 4095, 4096, 10000, random.randrange(150000)))

def some_call():
    pick = random.choices(
        ("write", "append", "read", "truncate", "truncate_name", "sync", "stat", "time", "open",
         "replace", "rename", "unlink", "mapped"),
        (20, 6, 20, 4, 4, 4, 10, 2, 3, 1, 1, 1, 2))[0]
    arguments = {
        "write": lambda: (some_place(), some_bytes()), "append": lambda: (some_bytes()[:5000],),
        "read": lambda: (some_place(), len(some_bytes())),
        "truncate": lambda: (some_place(),), "truncate_name": lambda: (some_place(),),
        "time": lambda: (random.randrange(10**18),), "replace": lambda: (some_bytes(),),
        "open": lambda: (random.choice((0, os.O_TRUNC)),)}.get(pick, lambda: ())()
    return pick, arguments

a, b = File(here + "/same"), File(elsewhere + "/same")
for step in range(steps):
    if os.fstat(b.fd).st_size > LARGEST - 70000: # far from the limit, which only one of them has
        for f in (a, b):
            f.truncate(0)
    name, arguments = some_call()
    done.append("%s %s" % (name, [x if isinstance(x, int) else len(x) for x in arguments]))
    try:
        results = [getattr(f, name)(*arguments) for f in (a, b)]
    except OSError as e:
        sys.exit("seed %d, step %d: %s\n%s" % (seed, step, "\n".join(done[-12:]), e))
    if results[0] != results[1] or a.stat() != b.stat():
        shown = [r if not isinstance(r, bytes) else (len(r), r[:20]) for r in results]
        sys.exit("seed %d, step %d: %s\nhere, elsewhere: %s\n%s\n%s" %
                 (seed, step, "\n".join(done[-12:]), shown, a.stat(), b.stat()))
for f in (a, b):
    f.open(0)
assert a.read(0, LARGEST) == b.read(0, LARGEST)
for f in (a, b):
    os.close(f.fd)
    os.unlink(f.path)
