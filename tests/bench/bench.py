#!/usr/bin/env python3
"""What a cell costs beside what the machine allows.

bench.py BUILD PROGRAMS [--short] [--against FILE]: starts a cell of three replicas on loopback and its mount in
$BENCH_DIR (./bench.tmp), and runs each workload on it, in rounds, each time beside the limit that it is compared
with: absolute figures hold for one machine and one hour. Prints a table of medians, with the spread between the
rounds and where the time went, and writes bench.json and bench.svg. --against: fails where the ratio of a row is a
fifth below that in an earlier bench.json. A goal that is missed is told, and is no failure.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import sys
import time

# The workload, its threads, its limit, and the least ratio to it that is wanted. `quorum` is a replicated commit
# of SQLite (limit.c); ZooKeeper 3.8 with native clients reaches 0.53 / 0.24 / 0.09 of it with 1 / 8 / 64 writers
# and 0.23 / 0.10 / 0.03 with pairs of lock and unlock; the goals are 1.0 / 1.2 / 1.5 and 1.4 / 2.0 / 3.0 times that.
ROWS = [
    ("write", 1, "quorum", 0.53), ("write", 8, "quorum", 0.29), ("write", 64, "quorum", 0.14),
    # By clients without a mount (tests/e2e/writers); the goals are 1.6 and 2.5 times ZooKeeper's, or what a log of
    # SQLite allows.
    ("native-write", 1, "quorum", 0.60), ("native-write", 8, "quorum", None), ("native-write", 64, "quorum", 0.22),
    ("append", 8, "quorum", None),
    ("lock", 1, "quorum", 0.33), ("lock", 8, "quorum", 0.20), ("lock", 64, "quorum", 0.10),
    ("handoff", 8, "quorum", None),
    ("create", 1, "quorum", None), ("create", 8, "quorum", None), ("create-apart", 8, "quorum", None),
    ("read", 1, "fuse", 0.95), ("read", 8, "fuse", 0.95), ("stat", 1, "disk", 0.8), ("list", 1, "disk", None),
    ("large", 1, "quorum", None),  # the last: its traces are cleared away for seconds
]
FALLEN = 0.8
SECTOR = 512


class Cell:
    """Three replicas and a mount, as `lsctl up` starts them."""

    def __init__(self, build, directory):
        self.build, self.directory = build, directory
        self.mount = os.path.join(directory, "mnt")
        self.places = ["--dir", os.path.join(directory, "cell"), "bench"]
        os.environ["PATH"] = ":".join(os.path.join(build, d) for d in ("cell", "fs", "ctl")) + ":" + os.environ["PATH"]

    def lsctl(self, *words):
        return subprocess.run([os.path.join(self.build, "ctl", "lsctl"), *words], check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def up(self):
        self.lsctl("up", "--replicas", "3", "--mount", self.mount, *self.places)

    def down(self):
        self.lsctl("down", *self.places)

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

    def master(self):
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


class Bench:
    def __init__(self, programs, cell, seconds, nothing):
        self.programs, self.cell, self.seconds, self.nothing = programs, cell, seconds, nothing
        self.total = 0  # writes of the last load without a mount, with its first second, which is not measured
        self.disk = os.path.join(cell.directory, "disk")
        os.makedirs(self.disk, exist_ok=True)

    def run(self, program, *words):
        said = subprocess.run([os.path.join(self.programs, program), *words], check=True, text=True,
                              stdout=subprocess.PIPE).stdout
        return [int(n) for n in said.split()]

    def native(self, threads):
        """Small writes by as many clients that share a session, without a mount: as load() has them."""
        key, cell = (os.path.join(self.cell.directory, "cell", name) for name in ("admin.key", "bench.conf"))
        # pylint: disable-next=consider-using-with
        writers = subprocess.Popen([os.path.join(self.cell.build, "tests", "e2e", "writers"), cell, key, str(threads),
                                    str(threads), "64", "even"], text=True, stdout=subprocess.PIPE)
        lines = [[int(n) for n in writers.stdout.readline().split()] for _ in range(self.seconds + 1)]
        writers.terminate()
        writers.communicate()
        self.total = lines[-1][1]
        return [(lines[-1][1] - lines[0][1]) // self.seconds, lines[-1][3], lines[-1][4]]

    def load(self, workload, threads, place):
        if workload == "native-write":
            return self.native(threads)
        apart = workload.endswith("-apart")
        places = [os.path.join(place, f"apart.{i}") if apart else place for i in range(threads if apart else 1)]
        for p in places:
            os.makedirs(p, exist_ok=True)
        return self.run("load", workload.removesuffix("-apart"), str(threads), str(self.seconds), *places)

    def limit(self, name, workload, threads):
        if name in ("disk", "fuse"):
            self.load(workload, threads, self.cell.mount)  # until the mount has leave to cache
            return self.load(workload, threads, self.disk if name == "disk" else self.nothing.mount)[0]
        return self.run("limit", name, str(threads), str(self.seconds), self.disk)[0]

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
                "device_bytes": (after[2] - before[2]) / n if before[2] is not None else None}

    def fail_over(self, how):
        """The longest pause of a writer, in ms, when the master is killed or stopped."""
        path, longest, victim = os.path.join(self.cell.mount, "failover"), 0, self.cell.master()
        begun = last = time.monotonic()
        while last < begun + 4:
            if how and last > begun + 1:
                os.kill(victim, how)
                how = None
            with open(path, "w", encoding="utf8") as f:
                f.write("x")
            now = time.monotonic()
            longest, last = max(longest, now - last), now
        try:
            os.kill(victim, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.cell.up()
        return longest * 1000


def spread(values):
    return (max(values) - min(values)) / 2 / statistics.median(values) if statistics.median(values) else 0


def summarize(rounds):
    row = {k: None if rounds[0][k] is None else statistics.median(r[k] for r in rounds) for k in rounds[0]}
    row["spread"] = spread([r["ratio"] for r in rounds])
    return row


def verdict(row):
    return "" if row["goal"] is None else "PASS" if row["ratio"] >= row["goal"] else "FAIL"


def print_row(row):
    kilobytes = "" if row["device_bytes"] is None else f"{row['device_bytes'] / 1000:.1f}"
    goal = "" if row["goal"] is None else f"{row['goal']:.2f}"
    print(f"{row['workload']:13} {row['threads']:2} {row['ops']:9.0f} {row['p50_us']:7.0f} {row['p99_us']:7.0f}  "
          f"{row['ratio']:7.3f} ±{row['spread'] * 100:3.0f}% of {row['limited_by']:6} {goal:>5} {verdict(row):4} "
          f"{row['cell_us']:6.0f} {row['mount_us']:6.0f} {row['switches']:6.1f} {kilobytes:>8}", flush=True)


def draw(rows, path):
    """A bar for each row: its ratio to the limit, with a line at the goal."""
    lines = [f'<svg xmlns="http://www.w3.org/2000/svg" width="640" height="{20 * len(rows) + 10}" '
             'font-family="sans-serif" font-size="12">']
    for i, row in enumerate(rows):
        y, width = 20 * i + 5, 400 * min(row["ratio"], 1)
        colour = {"PASS": "#4a4", "FAIL": "#c44", "": "#88a"}[verdict(row)]
        lines.append(f'<text x="0" y="{y + 12}">{row["workload"]} {row["threads"]}</text>'
                     f'<rect x="130" y="{y}" width="{width:.0f}" height="15" fill="{colour}"/>'
                     f'<text x="{135 + width:.0f}" y="{y + 12}">{row["ratio"]:.3f} of {row["limited_by"]}</text>')
        if row["goal"] is not None:
            lines.append(f'<rect x="{130 + 400 * row["goal"]:.0f}" y="{y - 1}" width="2" height="17"/>')
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
    print("workload     threads  op/s  p50 us  p99 us    ratio to its limit       goal      "
          "CPU us cell, mount  switches  KB at the device")
    for row in results["rows"]:
        print_row(row)
    for name, value in results.items():
        if name != "rows":
            print(f"{name} {value:.0f}")
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
    directory = os.path.abspath(os.environ.get("BENCH_DIR", "bench.tmp"))
    cell = Cell(os.path.abspath(args.build), directory)
    bench = Bench(args.programs, cell, 1 if args.short else 2, Nothing(args.programs, directory))
    begun = time.monotonic()
    cell.up()
    results = {"start_ms": (time.monotonic() - begun) * 1000, "fresh_kib": memory(cell.processes("lscell"))}
    try:
        rounds = [[bench.measure(w, n, limit) for w, n, limit, _ in ROWS] for _ in range(3 if args.short else 5)]
        results["rows"] = [{"workload": w, "threads": n, "limited_by": limit, "goal": goal,
                            **summarize([r[i] for r in rounds])} for i, (w, n, limit, goal) in enumerate(ROWS)]
        time.sleep(2)  # a replica gives back what it has freed each second
        results["loaded_kib"] = memory(cell.processes("lscell"))
        if not args.short:
            for name, how in (("killed_ms", signal.SIGKILL), ("stopped_ms", signal.SIGSTOP)):
                results[name] = statistics.median(bench.fail_over(how) for _ in range(3))
        tell(results)
    finally:
        cell.down()
        bench.nothing.end()
    return 1 if args.against and fallen(results["rows"], args.against) else 0


if __name__ == "__main__":
    sys.exit(main())
