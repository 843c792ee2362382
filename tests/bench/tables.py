#!/usr/bin/env python3
"""The results of make bench as text for docs/performance.md.

tables.py [bench.json [growth.json]]: prints the tables of workloads and of start, memory and fail-over; behind them a
table of each curve of growth.json. With --into FILE these replace what stands between the lines `<!-- bench -->` and
`<!-- end -->` of FILE.
"""
import argparse
import json

from bench import verdict

BEGIN, END = "<!-- bench -->\n", "<!-- end -->\n"


def goal(row):
    return "" if row["goal"] is None else "{1:.2f} of {0} ".format(*row["goal"]) + verdict(row)


def workloads(rows, others):
    columns = ["workload, threads", "operations a second", "ratio to its limit", *(f"{o}; ratio" for o in others),
               "goal", "p99 ÷ median", "CPU time, cell; mount", "switches", "bytes"]
    yield "| " + " | ".join(columns) + " |"
    yield "|---" * len(columns) + "|"
    for r in rows:
        size = "" if r["device_bytes"] is None else f"{r['device_bytes'] / 1000:.1f} KB"
        theirs = [f"{r['beside'][o]['ops']:,.0f}; {r['beside'][o]['ratio']:.2f}" if o in r["beside"] else ""
                  for o in others]
        yield "| " + " | ".join([
            f"{r['workload']}, {r['threads']}", f"{r['ops']:,.0f}",
            f"{r['ratio']:.2f} ± {r['spread'] * 100:.0f} % of {r['limited_by']}", *theirs, goal(r),
            f"{r['p99_us'] / max(r['p50_us'], 1):.1f}", f"{r['cell_us']:.0f}; {r['mount_us']:.0f} us",
            f"{r['switches']:.1f}", size]) + " |"


def systems(told):
    yield "| three servers | start to first commit | memory, fresh | 2 s after load | leader killed | leader stopped |"
    yield "|---|---|---|---|---|---|"
    for s in told:
        pauses = (f"{s[k] / 1000:.2f} s" if k in s else "" for k in ("sigkill_ms", "sigstop_ms"))
        yield (f"| {s['name']} | {s['start_ms'] / 1000:.2f} s | {s['fresh_kib'] / 1024:.0f} MB "
               f"| {s['loaded_kib'] / 1024:.0f} MB | " + " | ".join(pauses) + " |")


def creations(rows):
    rate = {(r["workload"], r["threads"]): r["ops"] for r in rows}
    yield (f"Eight threads create and delete {rate['create', 8] / rate['create', 1]:.1f} times as much as one in one "
           f"directory, and {rate['create-apart', 8] / rate['create', 1]:.1f} times as much in one each.")


def curve(name, points):
    columns = list(points[0])
    yield f"| {name}: {columns[0]} | " + " | ".join(columns[1:]) + " |"
    yield "|---" * len(columns) + "|"
    for p in points:
        yield "| " + " | ".join("" if p[c] is None else f"{p[c]:,}" for c in columns) + " |"


def text(bench, growth):
    others = [s["name"] for s in bench["systems"][1:]]
    parts = [workloads(bench["rows"], others), systems(bench["systems"]), creations(bench["rows"])]
    parts += [curve(n, p) for n, p in growth.items()]
    return "\n\n".join("\n".join(part) for part in parts) + "\n"


def load(path):
    with open(path, encoding="utf8") as f:
        return json.load(f)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("bench", nargs="?", default="bench.json")
    parser.add_argument("growth", nargs="?")
    parser.add_argument("--into")
    args = parser.parse_args()
    made = text(load(args.bench), load(args.growth) if args.growth else {})
    if not args.into:
        print(made, end="")
        return
    with open(args.into, encoding="utf8") as f:
        before, rest = f.read().split(BEGIN)
    with open(args.into, "w", encoding="utf8") as f:
        f.write(before + BEGIN + "\n" + made + "\n" + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
