#!/usr/bin/env python3
"""How far does one call go through the code?

walk.py [-v]: in a build directory whose lsfs was compiled with -finstrument-functions (make walk): mounts a
cell in one process, makes some calls, and prints for each, and for each request of the kernel in it, how many
functions were entered and how often the next one was in another file. Functions of cell/base, and inline
ones of headers, are the vocabulary of all others and are not counted. With -v: every function of the last write, in order.
"""
import os
import statistics
import struct
import subprocess
import sys
import tempfile
import time

REPEATS = 21
SETTLE_S = 5  # a loop that never rests is told of
COMMIT_CHANGES_MAX = 300  # of file, in the commit of a small write: docs/testing.md


class Walk:
    """The calls of a running lsfs, as walk.c notes them."""

    def __init__(self, path, program):
        self.file = open(path, "rb", buffering=0)
        self.program = program
        self.names = {}

    def count(self):
        self.file.seek(0)
        return struct.unpack("<Q", self.file.read(8))[0]

    def settled(self):
        """The count when it does not grow any more: what an answer leaves behind is done, too."""
        end, last = time.monotonic() + SETTLE_S, self.count()
        while time.monotonic() < end:
            time.sleep(0.02)
            now = self.count()
            if now == last:
                return now
            last = now
        sys.exit("walk: lsfs never rests")

    def calls(self, begin, end):
        self.file.seek(8 + 4 * begin)
        addresses = struct.unpack(f"<{end - begin}I", self.file.read(4 * (end - begin)))
        self.resolve(set(addresses) - set(self.names))
        named = [self.names[a] for a in addresses]
        return [(file, function) for file, function in named
                if "cell/base/" not in file and not file.endswith(".h")]

    def resolve(self, addresses):
        addresses = sorted(addresses)
        said = subprocess.run(["addr2line", "-f", "-e", self.program], text=True, check=True,
                              input="".join(f"{a:#x}\n" for a in addresses), stdout=subprocess.PIPE)
        lines = said.stdout.splitlines()
        for address, function, place in zip(addresses, lines[::2], lines[1::2]):
            self.names[address] = (os.path.normpath(place.split(":")[0]), function)


def requests(calls):
    """The calls from each request of the kernel to the next one, by the function that takes it."""
    begins = [i for i, (file, function) in enumerate(calls)
              if "/fs/fuse/ops" in file and function.startswith("op_")]
    for begin, end in zip(begins, begins[1:] + [len(calls)]):
        yield calls[begin][1], calls[begin:end]


def changes(calls):
    return sum(a[0] != b[0] for a, b in zip(calls, calls[1:]))


def measure(walk, action):
    """The calls of each time, the first one left out."""
    times = []
    for i in range(REPEATS):
        begin = walk.settled()
        action(i)
        times.append(walk.calls(begin, walk.settled()))
    return times[1:]


def tell(name, times):
    functions = statistics.median(len(calls) for calls in times)
    changed = statistics.median(map(changes, times))
    print(f"{name:<24}{functions:>10.0f}{changed:>17.0f}")
    return changed


def write(mount):
    def action(i):
        with open(f"{mount}/f", "w") as f:
            f.write(f"{i}\n")
    return action


def lock(mount):
    return lambda _: subprocess.run(["flock", f"{mount}/l", "true"], check=True)


def stat(mount):
    return lambda _: os.stat(f"{mount}/f")


def main():
    verbose = "-v" in sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="walk.") as work:
        mount, noted = f"{work}/mount", f"{work}/calls"
        os.mkdir(mount)
        environment = dict(os.environ, LD_PRELOAD=os.path.abspath("tests/walk/walk.so"), WALK_FILE=noted)
        daemon = subprocess.Popen(["fs/lsfs", "-f", "--standalone", f"{work}/data", mount], env=environment)
        while not os.path.ismount(mount):
            if daemon.poll() is not None:
                sys.exit("walk: lsfs has ended")
            time.sleep(0.02)
        walk = Walk(noted, "fs/lsfs")
        open(f"{mount}/l", "w").close()
        print(f"{'call':<24}{'functions':>10}{'changes of file':>17}")
        for name, action in (("echo x > f", write(mount)), ("flock l true", lock(mount)),
                             ("stat f", stat(mount))):
            times = measure(walk, action)
            tell(name, times)
            if verbose and name.startswith("echo"):
                print("".join(f"{file}: {function}\n" for file, function in times[-1]), end="")
            for taken in dict.fromkeys(taken for taken, _ in requests(times[-1])):
                changed = tell(f"  {taken}", [calls for one in times
                                              for request, calls in requests(one) if request == taken])
                if taken == "op_flush" and name.startswith("echo"):
                    commit = changed
        subprocess.run(["umount", mount], check=True)
        daemon.wait(timeout=60)
    if commit > COMMIT_CHANGES_MAX:
        sys.exit(f"walk: the commit of a write changes the file {commit:.0f} times")


if __name__ == "__main__":
    main()
