#!/usr/bin/env python3
"""Full load for a long time: no fail-over, and no growth of memory.

steady.py BUILD PROGRAMS MINUTES: a cell of three replicas in $BENCH_DIR (./bench.tmp), and 64 threads on its mount that
write small files, a minute after the other. A line for each minute. Fails when the epoch changes, or when a process has
grown by a tenth since the first quarter, in which the history of changes becomes full.
"""
import json
import os
import sys

from bench import Cell, memory, run

THREADS = 64


def epoch(cell):
    return json.loads(cell.lsctl("--json", "status", cell.mount))["epoch"]


def main():
    build, programs, minutes = sys.argv[1], sys.argv[2], int(sys.argv[3])
    cell = Cell(os.path.abspath(build), programs, os.path.abspath(os.environ.get("BENCH_DIR", "bench.tmp")))
    cell.clear()
    cell.up()
    pids = {f"replica {i + 1}": [p] for i, p in enumerate(sorted(cell.pids()))} | {"mount": cell.processes("lsfs")}
    begun, most, failed = epoch(cell), {}, False
    try:
        for minute in range(1, minutes + 1):
            rate, median, p99, longest = run(cell.command("write", THREADS, 60))
            now = {name: memory(p) for name, p in pids.items()}
            print(f"minute {minute}: {rate} writes a second, median {median} us, p99 {p99} us, longest {longest} us; KiB: "
                  + ", ".join(f"{name} {kib}" for name, kib in now.items()), flush=True)
            if epoch(cell) != begun:
                print(f"steady: the epoch was {begun}, and is {epoch(cell)}")
                begun, failed = epoch(cell), True
            if minute <= max(minutes // 4, 1):
                most = {name: max(kib, most.get(name, 0)) for name, kib in now.items()}
        for name, kib in now.items():
            if kib > 1.1 * most[name]:
                print(f"steady: {name} has grown from {most[name]} to {kib} KiB")
                failed = True
    finally:
        cell.down()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
