#!/usr/bin/env python3
"""What a cell costs beside what the machine allows, and beside ZooKeeper and etcd.

bench.py BUILD PROGRAMS [--short] [--against FILE]: starts a cell of three replicas on loopback and its mounts in
$BENCH_DIR (./bench.tmp), and three servers each of ZooKeeper and etcd (peers.py). It runs each workload on them in
turn, in rounds, each time beside the limit that it is compared with: absolute figures hold for one machine and one
hour. Prints a table of medians, with the spread between the rounds and where the time went, and writes bench.json and
bench.svg. --against: fails where the ratio of a row to its limit is a fifth below that in an earlier bench.json. A goal
that is missed is told, and is no failure. --short, or PEERS=no in the environment: the cell alone.
"""
import argparse
import json
import os
import select
import shutil
import signal
import statistics
import subprocess
import sys
import time

from peers import peers

# The workload, its threads, its limit, and its goal: the least ratio that is wanted, to the limit or to ZooKeeper. The
# limit `quorum` is a replicated commit of SQLite (limit.c).
ROWS = [
    ("write", 1, "quorum", ("zookeeper", 1.0)), ("write", 8, "quorum", ("zookeeper", 1.2)),
    ("write", 64, "quorum", ("zookeeper", 1.5)),
    # By clients without a mount (tests/e2e/writers).
    ("native-write", 1, "quorum", ("zookeeper", 1.6)), ("native-write", 8, "quorum", None),
    ("native-write", 64, "quorum", ("zookeeper", 2.5)),
    ("append", 8, "quorum", None),
    ("lock", 1, "quorum", ("zookeeper", 1.4)), ("lock", 8, "quorum", ("zookeeper", 2.0)),
    ("lock", 64, "quorum", ("zookeeper", 3.0)),
    # Both have eight threads that want one lock, the second has them on two mounts.
    ("handoff", 8, "quorum", None), ("handoff-between", 8, "quorum", ("zookeeper", 2.5)),
    ("create", 1, "quorum", None), ("create", 8, "quorum", None), ("create-apart", 8, "quorum", None),
    ("read", 1, "fuse", ("fuse", 0.95)), ("read", 8, "fuse", ("fuse", 0.95)), ("stat", 1, "disk", ("disk", 0.8)),
    ("list", 1, "disk", None),
    ("large", 1, "quorum", None),  # the last: its traces are cleared away for seconds
]
# Those that the peers' clients have, too.
BESIDE = {"write", "lock", "handoff", "read", "large"}
FALLEN = 0.8
SECTOR = 512


class Cell:
    """Three replicas and a mount, as `lsctl up` starts them, and further mounts."""
    name = "lsfs"

    def __init__(self, build, programs, directory):
        self.build, self.programs, self.directory = build, programs, directory
        self.mount = os.path.join(directory, "mnt")
        self.mounts = [self.mount]
        self.places = ["--dir", os.path.join(directory, "cell"), "bench"]
        os.environ["PATH"] = ":".join(os.path.join(build, d) for d in ("cell", "fs", "ctl")) + ":" + os.environ["PATH"]

    def lsctl(self, *words):
        return subprocess.run([os.path.join(self.build, "ctl", "lsctl"), *words], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def clear(self):
        """Ends and removes what an earlier run may have left."""
        subprocess.run(["lsctl", "down", *self.places], check=False, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        shutil.rmtree(os.path.join(self.directory, "cell"), ignore_errors=True)

    def up(self):
        self.lsctl("up", "--replicas", "3", "--mount", self.mount, *self.places)

    def file(self, name):
        return os.path.join(self.directory, "cell", name)

    def add_mount(self):
        self.mounts.append(os.path.join(self.directory, f"mnt.{len(self.mounts)}"))
        os.makedirs(self.mounts[-1], exist_ok=True)
        subprocess.run(["lsfs", "-o", "key=" + self.file("admin.key"), self.file("bench.conf"), self.mounts[-1]],
                       check=True)

    def down(self):
        while len(self.mounts) > 1:
            subprocess.run(["umount", self.mounts.pop()], check=True)
        self.lsctl("down", *self.places)

    def command(self, workload, threads, seconds, *places):
        return [os.path.join(self.programs, "load"), workload, str(threads), str(seconds), *(places or [self.mount])]

    def processes(self, program):
        """Those of this cell: their command lines name its directory."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", encoding="utf8") as f:
                    words = f.read().split("\0")
            except OSError:
                continue
            if os.path.basename(words[0]) == program and any(w.startswith(self.directory + "/") for w in words):
                found.append(int(pid))
        return found

    def pids(self):
        return self.processes("lscell")

    def leader(self):
        status = json.loads(self.lsctl("--json", "status", self.mount))
        place = os.path.join(self.directory, "cell", str(status["master"]))
        for pid in self.processes("lscell"):
            with open(f"/proc/{pid}/cmdline", encoding="utf8") as f:
                if place in f.read().split("\0"):
                    return pid
        sys.exit("bench: the master is not found")


def cpu_and_switches(pids):
    """Processor time in us, and voluntary switches, of all their threads."""
    ticks = switches = 0
    for pid in pids:
        with open(f"/proc/{pid}/stat", encoding="utf8") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status", encoding="utf8") as f:
                switches += sum(int(line.split()[1]) for line in f if line.startswith("voluntary"))
    return ticks * 1_000_000 // os.sysconf("SC_CLK_TCK"), switches


def memory(pids):
    """Resident KiB."""
    total = 0
    for pid in pids:
        with open(f"/proc/{pid}/status", encoding="utf8") as f:
            total += sum(int(line.split()[1]) for line in f if line.startswith("VmRSS"))
    return total


def written(directory):
    """Bytes that the block device of the directory was given, by everyone; None: it has none."""
    device = os.stat(directory).st_dev
    try:
        with open(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}/stat", encoding="utf8") as f:
            return int(f.read().split()[6]) * SECTOR
    except OSError:
        return None


class Nothing:
    """A FUSE filesystem that does nothing (nothing.c)."""

    def __init__(self, programs, directory):
        self.mount = os.path.join(directory, "nothing")
        os.makedirs(self.mount, exist_ok=True)
        # pylint: disable-next=consider-using-with
        self.process = subprocess.Popen([os.path.join(programs, "nothing"), self.mount])
        while not os.path.ismount(self.mount) and self.process.poll() is None:
            time.sleep(0.01)

    def end(self):
        subprocess.run(["umount", self.mount], check=True)
        self.process.wait()


def run(command):
    """The numbers that it says."""
    return [int(n) for n in subprocess.run(command, check=True, text=True, stdout=subprocess.PIPE).stdout.split()]


def first_commit(system):
    """Starts it; in ms."""
    begun = time.monotonic()
    system.up()
    run(system.command("write", 1, 0))
    return (time.monotonic() - begun) * 1000


def warm(system, seconds):
    """Java is slow until it has compiled what it runs often: loads, until one is not a tenth faster than the best."""
    best, rate = 0, 1
    while rate > 1.1 * best:
        best, rate = max(best, rate), run(system.command("write", 8, seconds))[0]


def fail_over(system, how):
    """The longest pause of a writer, in ms, when the leader is killed or stopped a second after its begin."""
    # pylint: disable-next=consider-using-with
    writer = subprocess.Popen(system.command("write", 1, 4), text=True, stdout=subprocess.PIPE)
    time.sleep(1)
    victim = os.pidfd_open(system.leader())
    signal.pidfd_send_signal(victim, how)
    longest = int(writer.communicate()[0].split()[3])
    if not select.select([victim], [], [], 0)[0]:
        signal.pidfd_send_signal(victim, signal.SIGKILL)
    select.select([victim], [], [])  # until it is gone
    os.close(victim)
    system.up()
    return longest / 1000


class Bench:
    def __init__(self, programs, cell, others, seconds, nothing):
        self.programs, self.cell, self.others, self.seconds, self.nothing = programs, cell, others, seconds, nothing
        self.total = 0  # writes of the last load without a mount, with its first second, which is not measured
        self.disk = os.path.join(cell.directory, "disk")
        os.makedirs(self.disk, exist_ok=True)

    def native(self, threads):
        """Small writes by as many clients that share a session, without a mount: as load() has them."""
        # pylint: disable-next=consider-using-with
        writers = subprocess.Popen([os.path.join(self.cell.build, "tests", "e2e", "writers"), self.cell.file("bench.conf"),
                                    self.cell.file("admin.key"), str(threads), str(threads), "64", "even"],
                                   text=True, stdout=subprocess.PIPE)
        lines = [[int(n) for n in writers.stdout.readline().split()] for _ in range(self.seconds + 1)]
        writers.terminate()
        writers.communicate()
        self.total = lines[-1][1]
        return [(lines[-1][1] - lines[0][1]) // self.seconds, lines[-1][3], lines[-1][4]]

    def load(self, workload, threads, place):
        if workload == "native-write":
            return self.native(threads)
        places = [place]
        if workload.endswith("-between"):
            places = self.cell.mounts
        if workload.endswith("-apart"):
            places = [os.path.join(place, f"apart.{i}") for i in range(threads)]
        for p in places:
            os.makedirs(p, exist_ok=True)
        return run(self.cell.command(workload.split("-")[0], threads, self.seconds, *places))[:3]

    def limit(self, name, workload, threads):
        if name in ("disk", "fuse"):
            self.load(workload, threads, self.cell.mount)  # until the mount has leave to cache
            return self.load(workload, threads, self.disk if name == "disk" else self.nothing.mount)[0]
        return run([os.path.join(self.programs, "limit"), name, str(threads), str(self.seconds), self.disk])[0]

    def beside(self, workload, threads, rate):
        """The same by the others, and the ratio of this rate to theirs. A round in which one of them fails is told, and
        is without it."""
        plain = workload.removeprefix("native-").removesuffix("-between")
        told = {}
        for other in self.others if plain in BESIDE else []:
            try:
                theirs, median, p99, _ = run(other.command(plain, threads, self.seconds))
            except subprocess.CalledProcessError as e:
                print(f"bench: {other.name}: {workload} {threads}: {e}", file=sys.stderr)
                other.up()
                continue
            told[other.name] = {"ops": theirs, "ratio": rate / max(theirs, 1), "p50_us": median, "p99_us": p99}
        return told

    def clear_native(self):
        for name in os.listdir(self.cell.mount):
            if name.startswith("file-"):
                os.unlink(os.path.join(self.cell.mount, name))

    def measure(self, workload, threads, limit):
        self.clear_native()
        replicas, mounts = self.cell.processes("lscell"), self.cell.processes("lsfs")
        allowed = self.limit(limit, workload, threads)
        os.sync()
        before = cpu_and_switches(replicas), cpu_and_switches(mounts), written(self.cell.directory)
        rate, median, p99 = self.load(workload, threads, self.cell.mount)
        os.sync()
        after = cpu_and_switches(replicas), cpu_and_switches(mounts), written(self.cell.directory)
        n = self.total if workload == "native-write" else rate * self.seconds
        return {"ops": rate, "ratio": rate / allowed, "limit": allowed, "p50_us": median, "p99_us": p99,
                "cell_us": (after[0][0] - before[0][0]) / n, "mount_us": (after[1][0] - before[1][0]) / n,
                "switches": (after[0][1] - before[0][1] + after[1][1] - before[1][1]) / n,
                "device_bytes": (after[2] - before[2]) / n if before[2] is not None else None,
                "beside": self.beside(workload, threads, rate)}


def spread(values):
    return (max(values) - min(values)) / 2 / statistics.median(values) if statistics.median(values) else 0


def medians(rounds):
    return {k: None if rounds[0][k] is None else statistics.median(r[k] for r in rounds)
            for k in rounds[0] if k != "beside"}


def summarize(rounds):
    return {**medians(rounds), "spread": spread([r["ratio"] for r in rounds]),
            "beside": {name: medians([r["beside"][name] for r in rounds if name in r["beside"]])
                       for name in sorted({name for r in rounds for name in r["beside"]})}}


def reached(row):
    """The ratio that its goal is about; None: it has none, or that peer is not here."""
    base = row["goal"] and row["goal"][0]
    return row["ratio"] if base == row["limited_by"] else row["beside"].get(base, {}).get("ratio")


def verdict(row):
    return "" if reached(row) is None else "PASS" if reached(row) >= row["goal"][1] else "FAIL"


def print_row(row, others):
    kilobytes = "" if row["device_bytes"] is None else f"{row['device_bytes'] / 1000:.1f}"
    goal = "" if row["goal"] is None else "{1:.2f} of {0}".format(*row["goal"])
    theirs = " ".join(f"{row['beside'][o]['ops']:7.0f} ×{row['beside'][o]['ratio']:6.2f}"
                      if o in row["beside"] else " " * 15 for o in others)
    print(f"{row['workload']:15} {row['threads']:2} {row['ops']:9.0f} {row['p50_us']:7.0f} {row['p99_us']:7.0f}  "
          f"{row['ratio']:7.3f} ±{row['spread'] * 100:3.0f}% of {row['limited_by']:6} {theirs} "
          f"{goal:17} {verdict(row):4} {row['cell_us']:6.0f} {row['mount_us']:6.0f} {row['switches']:6.1f} "
          f"{kilobytes:>8}", flush=True)


def draw(rows, path):
    """A bar for each row: its ratio to the limit, with a line where its goal is reached."""
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{20 * len(rows) + 10}" '
             'font-family="sans-serif" font-size="12">']
    for i, row in enumerate(rows):
        y, width = 20 * i + 5, 400 * min(row["ratio"], 1)
        colour = {"PASS": "#4a4", "FAIL": "#c44", "": "#88a"}[verdict(row)]
        lines.append(f'<text x="0" y="{y + 12}">{row["workload"]} {row["threads"]}</text>'
                     f'<rect x="130" y="{y}" width="{width:.0f}" height="15" fill="{colour}"/>'
                     f'<text x="{135 + width:.0f}" y="{y + 12}">{row["ratio"]:.3f} of {row["limited_by"]}</text>')
        if reached(row):
            goal = row["ratio"] / reached(row) * row["goal"][1]
            lines.append(f'<rect x="{130 + 400 * min(goal, 1):.0f}" y="{y - 1}" width="2" height="17"/>')
    with open(path, "w", encoding="utf8") as f:
        f.write("\n".join(lines + ["</svg>\n"]))


def fallen(rows, path):
    """Prints the rows that are a fifth below those of an earlier run; how many there are."""
    with open(path, encoding="utf8") as f:
        earlier = {(r["workload"], r["threads"]): r["ratio"] for r in json.load(f)["rows"]}
    worse = [r for r in rows if r["ratio"] < FALLEN * earlier.get((r["workload"], r["threads"]), 0)]
    for r in worse:
        print(f"bench: {r['workload']} {r['threads']}: {r['ratio']:.3f} of {r['limited_by']}, "
              f"was {earlier[r['workload'], r['threads']]:.3f}")
    return len(worse)


def tell(results):
    others = [s["name"] for s in results["systems"][1:]]
    print("workload       threads  op/s  p50 us  p99 us    ratio to its limit       "
          + "".join(f"{o}, ×".rjust(15) + " " for o in others)
          + "goal                   CPU us cell, mount  switches  KB at the device")
    for row in results["rows"]:
        print_row(row, others)
    for system in results["systems"]:
        print(system["name"], " ".join(f"{k} {v:.0f}" for k, v in system.items() if k != "name"))
    with open("bench.json", "w", encoding="utf8") as f:
        json.dump(results, f, indent=1)
    draw(results["rows"], "bench.svg")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("programs")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("--against")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # so that all of them are ended
    directory = os.path.abspath(os.environ.get("BENCH_DIR", "bench.tmp"))
    cell = Cell(os.path.abspath(args.build), args.programs, directory)
    others = [] if args.short or os.environ.get("PEERS") == "no" else peers(args.programs, directory)
    bench = Bench(args.programs, cell, others, 1 if args.short else 2, Nothing(args.programs, directory))
    systems, results = [cell, *others], {"systems": []}
    cell.clear()
    try:
        for system in systems:
            results["systems"].append({"name": system.name, "start_ms": first_commit(system),
                                       "fresh_kib": memory(system.pids())})
        for other in others:
            warm(other, bench.seconds)
        cell.add_mount()
        rounds = [[bench.measure(w, n, limit) for w, n, limit, _ in ROWS] for _ in range(3 if args.short else 5)]
        results["rows"] = [{"workload": w, "threads": n, "limited_by": limit, "goal": goal,
                            **summarize([r[i] for r in rounds])} for i, (w, n, limit, goal) in enumerate(ROWS)]
        time.sleep(2)  # a replica gives back what it has freed each second
        for system, told in zip(systems, results["systems"]):
            told["loaded_kib"] = memory(system.pids())
        for system, told in zip(systems, results["systems"]) if not args.short else ():
            for how in signal.SIGKILL, signal.SIGSTOP:
                told[f"{how.name.lower()}_ms"] = statistics.median(fail_over(system, how) for _ in range(3))
        tell(results)
    finally:
        for other in others:
            other.down()
        cell.down()
        bench.nothing.end()
    return 1 if args.against and fallen(results["rows"], args.against) else 0


if __name__ == "__main__":
    sys.exit(main())
