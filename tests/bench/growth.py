#!/usr/bin/env python3
"""How the cost of a cell grows.

growth.py BUILD PROGRAMS [--short]: starts cells in $BENCH_DIR (./bench.tmp), of three replicas where nothing else is
said, and measures each curve once: prints its points, and writes growth.json, of which tables.py makes text.
"""
import argparse
import json
import os
import subprocess
import sys
import threading
import time

from bench import Cell, cpu_and_switches, memory

SECONDS = 2


class Growth:
    def __init__(self, build, programs, directory):
        self.build, self.programs, self.directory = build, programs, directory
        self.cells, self.curves = 0, {}

    def cell(self, replicas=3):
        """A fresh one."""
        self.cells += 1
        directory = os.path.join(self.directory, f"growth.{self.cells}")
        os.makedirs(directory)
        cell = Cell(self.build, self.programs, directory)
        cell.lsctl("up", "--replicas", str(replicas), "--mount", cell.mount, *cell.places)
        return cell

    def load(self, workload, threads, *places):
        """Operations a second."""
        said = subprocess.run([os.path.join(self.programs, "load"), workload, str(threads), str(SECONDS), *places],
                              check=True, text=True, stdout=subprocess.PIPE).stdout
        return int(said.split()[0])

    def client(self, cell, program, *words):
        """A program that is a client without a mount."""
        # pylint: disable-next=consider-using-with
        return subprocess.Popen([os.path.join(self.build, "tests", "e2e", program), cell.file("bench.conf"),
                                 cell.file("admin.key"), *words], text=True, stdout=subprocess.PIPE)

    def point(self, curve, **values):
        self.curves.setdefault(curve, []).append(values)
        print(curve, " ".join(f"{k} {v}" for k, v in values.items()), flush=True)

    def nodes(self, counts):
        """All of them in one directory."""
        for count in counts:
            cell = self.cell()
            fresh = memory(cell.processes("lscell"))
            creator = self.client(cell, "writers", "64", str(max(count, 64)), "64", "list")
            while len(os.listdir(cell.mount)) < count:
                time.sleep(0.2)
            creator.terminate()
            creator.communicate()
            own = os.path.join(cell.mount, "own")
            os.mkdir(own)
            writes = self.load("write", 1, own)
            grown = memory(cell.processes("lscell"))
            cell.down()
            begun = time.monotonic()
            cell.up()
            started = time.monotonic() - begun
            begun = time.monotonic()
            found = len(os.listdir(cell.mount))
            listed = time.monotonic() - begun
            self.point("nodes", nodes=found, writes_a_second=writes, three_replicas_kib=grown,
                       bytes_a_node=(grown - fresh) * 1024 // 3 // found, start_ms=round(started * 1000),
                       listing_ms=round(listed * 1000))
            cell.down()

    def sessions(self, counts):
        """They all watch one file: what they cost while it does not change, and while it does."""
        for count in counts:
            cell = self.cell()
            path = os.path.join(cell.mount, "watched")
            with open(path, "w", encoding="utf8") as f:
                f.write("x")
            generation = os.getxattr(path, "user.ls.content_generation").decode()
            before = memory([cell.leader()])
            watchers = self.client(cell, "watchers", str(count), str(os.stat(path).st_ino), generation)
            while int(watchers.stdout.readline().split()[0]) < count:
                pass
            drain = threading.Thread(target=watchers.stdout.read)
            drain.start()
            time.sleep(SECONDS)
            master = [cell.leader()]
            cpu = cpu_and_switches(master)[0]
            time.sleep(4 * SECONDS)
            cpu = cpu_and_switches(master)[0] - cpu
            kib = memory(master) - before
            writes, end = 0, time.monotonic() + SECONDS
            while time.monotonic() < end:
                with open(path, "w", encoding="utf8") as f:
                    f.write("x")
                writes += 1
            self.point("sessions", sessions=count, idle_master_us_a_session_and_second=round(cpu / count / 4 / SECONDS, 1),
                       master_bytes_a_session=kib * 1024 // count, writes_a_second=writes // SECONDS)
            watchers.terminate()
            drain.join()
            watchers.wait()
            cell.down()

    def sizes(self, counts):
        cell = self.cell()
        for count in counts:
            contents, times = b"x" * count, []
            end = time.monotonic() + SECONDS
            while time.monotonic() < end:
                begun = time.monotonic()
                with open(os.path.join(cell.mount, "sized"), "wb") as f:
                    f.write(contents)
                times.append(time.monotonic() - begun)
            self.point("sizes", bytes=count, median_us=round(sorted(times)[len(times) // 2] * 1e6),
                       mb_a_second=round(count * len(times) / SECONDS / 1e6, 2))
        cell.down()

    def waiters(self, counts):
        cell = self.cell()
        for count in counts:
            self.point("waiters", threads=count, hand_overs_a_second=self.load("handoff", count, cell.mount))
        cell.down()

    def mounts(self, counts):
        cell = self.cell()
        for count in counts:
            while len(cell.mounts) < count:
                cell.add_mount()
            self.point("mounts", mounts=count, writes_a_second=self.load("write", count, *cell.mounts))
        cell.down()

    def replicas(self, counts):
        for count in counts:
            cell = self.cell(count)
            fresh = memory(cell.processes("lscell" if count > 1 else "lsfs"))
            self.point("replicas", replicas=count, fresh_kib=fresh, **{
                f"writes_a_second_of_{n}": self.load("write", n, cell.mount) for n in (1, 8, 64)})
            cell.down()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("programs")
    parser.add_argument("--short", action="store_true")
    args = parser.parse_args()
    directory = os.path.abspath(os.environ.get("BENCH_DIR", "bench.tmp"))
    growth = Growth(os.path.abspath(args.build), args.programs, directory)
    most = 2 if args.short else None
    growth.replicas([1, 3, 5][:most])
    growth.sizes([64, 4096, 65536, 262144][:most])
    growth.waiters([1, 8, 64][:most])
    growth.mounts([1, 4, 16, 64][:most])
    growth.sessions([1, 100, 1000][:most])  # a principal has 1,024 at most
    growth.nodes([100, 1000, 10000, 100000][:most])
    with open("growth.json", "w", encoding="utf8") as f:
        json.dump(growth.curves, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
