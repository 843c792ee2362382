#!/usr/bin/env python3
"""The results of make bench as text for docs/performance.md.

tables.py [bench.json [growth.json]]: prints the table of workloads, and a line each about start, fail-over and memory;
behind it a table of each curve of growth.json. With --into FILE these replace what stands between the lines
`<!-- bench -->` and `<!-- end -->` of FILE.
"""
import argparse
import json

BEGIN, END = "<!-- bench -->\n", "<!-- end -->\n"


def verdict(row):
    if row["goal"] is None:
        return ""
    return f"{row['goal']:.2f} {'PASS' if row['ratio'] >= row['goal'] else 'FAIL'}"


def workloads(rows):
    yield ("| workload, threads | operations a second | ratio to its limit | goal | p99 ÷ median "
           "| CPU time, cell; mount | switches | bytes |")
    yield "|---|---|---|---|---|---|---|---|"
    for r in rows:
        size = "" if r["device_bytes"] is None else f"{r['device_bytes'] / 1000:.1f} KB"
        yield (f"| {r['workload']}, {r['threads']} | {r['ops']:,.0f} "
               f"| {r['ratio']:.2f} ± {r['spread'] * 100:.0f} % of {r['limited_by']} | {verdict(r)} "
               f"| {r['p99_us'] / max(r['p50_us'], 1):.1f} | {r['cell_us']:.0f}; {r['mount_us']:.0f} us "
               f"| {r['switches']:.1f} | {size} |")


def sentences(results):
    rate = {(r["workload"], r["threads"]): r["ops"] for r in results["rows"]}
    yield (f"A cell of three replicas is there, with its mount, after {results['start_ms'] / 1000:.2f} s. The replicas "
           f"have {results['fresh_kib'] / 1024:.0f} MB resident when fresh, and {results['loaded_kib'] / 1024:.0f} MB "
           "right behind the large writes.")
    if "killed_ms" in results:
        yield (f"A writer pauses for {results['killed_ms'] / 1000:.2f} s when the master is killed, and for "
               f"{results['stopped_ms'] / 1000:.2f} s when it is stopped.")
    yield (f"Eight threads create and delete {rate['create', 8] / rate['create', 1]:.1f} times as much as one in one "
           f"directory, and {rate['create-apart', 8] / rate['create', 1]:.1f} times as much in one each.")


def curve(name, points):
    columns = list(points[0])
    yield f"| {name}: {columns[0]} | " + " | ".join(columns[1:]) + " |"
    yield "|---" * len(columns) + "|"
    for p in points:
        yield "| " + " | ".join("" if p[c] is None else f"{p[c]:,}" for c in columns) + " |"


def text(bench, growth):
    parts = [workloads(bench["rows"]), sentences(bench)] + [curve(n, p) for n, p in growth.items()]
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
