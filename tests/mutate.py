#!/usr/bin/env python3
"""Do the tests bite on mistakes that nobody planted?

mutate.py N SEED [SEEDS] [FOLDER...]: draws N random small mistakes in the sources of the cell, builds the
project with each, and prints which of them the unit tests find, and which the simulator alone, within
SEEDS seeds. Called by `make mutate N=200 SEED=1`, in the build directory; works on a copy of the sources.
A mistake that the compiler refuses, or that leaves the machine code as it is, is drawn again.
"""
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

FOLDERS = ("paxos", "tree", "master", "replica", "server", "store", "client")
TIMES_SLOWER = 10  # than without a mistake: a test that takes so long hangs
AT_LEAST_S = 20


# ---- where a mistake can be made ----

def code_only(text):
    """The text with comments, strings and characters blanked: places stay what they are."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m.group()), text, flags=re.S)


def closing(code, opening):
    """The index of the parenthesis that closes the one at `opening`; -1: there is none."""
    depth = 0
    for i in range(opening, len(code)):
        depth += {"(": 1, ")": -1}.get(code[i], 0)
        if depth == 0:
            return i
    return -1


def split(code, begin, end, separator):
    """The parts of code[begin:end] between separators that stand in no parentheses, as (begin, end)."""
    parts, depth, last, i = [], 0, begin, begin
    while i < end:
        depth += {"(": 1, "{": 1, "[": 1, ")": -1, "}": -1, "]": -1}.get(code[i], 0)
        if depth == 0 and code.startswith(separator, i):
            parts.append((last, i))
            last = i = i + len(separator)
            continue
        i += 1
    return parts + [(last, end)]


def conditions(code):
    for m in re.finditer(r"\b(?:if|while) \(", code):
        end = closing(code, m.end() - 1)
        if end > 0:
            yield m.end(), end


def negated(code):
    for begin, end in conditions(code):
        yield "a condition negated", begin, end, lambda text: f"!({text})"


def weakened(code):
    for begin, end in conditions(code):
        for operator in ("&&", "||"):
            parts = split(code, begin, end, operator)
            for k, (from_, to) in enumerate(parts if len(parts) > 1 else ()):
                neutral = "true" if operator == "&&" else "false"
                yield f"a part of a condition dropped ({operator})", from_, to, \
                    lambda text, n=neutral: re.sub(r"\S(?:.*\S)?", n, text, flags=re.S)


def ignored(code):
    """An error that is not looked at: the call stays."""
    for m in re.finditer(r"\bif \(((?:!\w+\(|rc < 0|\w+\([^;{}]*\) < 0))", code):
        end = closing(code, m.start() + 3)
        if end > 0:
            yield "an error ignored", m.start() + 4, end, lambda text: f"({text}) && false"


def shifted(code):
    shifts = {"<": ("<=",), "<=": ("<",), ">": (">=",), ">=": (">",), "==": ("!=",), "!=": ("==",)}
    for m in re.finditer(r" (<=|>=|==|!=|<|>) ", code):
        for other in shifts[m.group(1)]:
            yield "a comparison shifted", m.start(1), m.end(1), lambda _, o=other: o


def counted(code):
    for m in re.finditer(r" ([+-]) 1\b", code):
        yield "one more or less dropped", m.start(), m.end(), lambda _: ""
    for m in re.finditer(r"(\+\+|--)", code):
        yield "counted the other way", m.start(), m.end(), lambda text: "--" if text == "++" else "++"


def dropped(code):
    """A whole statement on a line of its own: a call or an assignment, but no declaration."""
    statement = r"^\t+((?:[\w.>\-\[\]*&]+(?: [|&+\-]?= |\())[^;{}]*;)$"
    for m in re.finditer(statement, code, flags=re.M):
        before = code[:m.start()].rstrip()
        if before and before[-1] in ";{}" and not m.group(1).startswith(("return", "must")):
            yield "a statement dropped", m.start(1), m.end(1), lambda text: re.sub(r"[^\n]", "", text)


def unguarded(code):
    for m in re.finditer(r"^\t+if \(", code, flags=re.M):
        end = closing(code, m.end() - 1)
        guard = re.match(r"\)\n\t+(?:return\b[^;]*|continue|break|goto \w+);\n", code[end:])
        if end > 0 and guard and not re.match(r"\t+else", code[end + guard.end():]):
            yield "a guard dropped", m.start(), end + guard.end(), \
                lambda text: re.sub(r"[^\n]", "", text)


def swapped(code):
    for m in re.finditer(r"\b(?!if|while|for|switch|return|sizeof|must)\w+\(", code):
        end = closing(code, m.end() - 1)
        parts = split(code, m.end(), end, ",") if end > 0 else []
        for (a, b), (c, d) in zip(parts, parts[1:]):
            yield "two arguments swapped", a, d, \
                lambda text, cut=b - a, rest=c - a: f"{text[rest:].strip()}, {text[:cut].strip()}"


KINDS = (negated, weakened, ignored, shifted, counted, dropped, unguarded, swapped)


# ---- the project with a mistake ----

class Project:
    """A copy of the sources and a build of it, where one file at a time is wrong."""

    def __init__(self, source, work, log):
        self.root = work / "project"
        self.log = log
        shutil.copytree(source, self.root, symlinks=True, ignore=lambda _, names: [
            n for n in names if n in (".git", "autom4te.cache", "b") or
            (n.startswith("build") and n != "build-aux")])
        self.build = self.root / "b"
        self.build.mkdir()
        self.call(["../configure", "--quiet", "--enable-werror", "CFLAGS=-O2"])

    def call(self, command):
        subprocess.run(command, cwd=self.build, stdout=self.log, stderr=self.log, check=True)

    def make(self, *targets):
        return subprocess.run(["make", "-s", f"-j{os.cpu_count()}", *targets], cwd=self.build,
                              stdout=self.log, stderr=self.log, check=False).returncode == 0

    def object(self, file):
        return (self.build / file.relative_to(self.root)).with_suffix(".o")

    def same_code(self, file, good):
        return self.object(file).read_bytes() == good


def unit_tests(build):
    return sorted(p for p in (build / "tests" / "unit").glob("test_*")
                  if p.suffix == "" and os.access(p, os.X_OK))


def run_test(program, build, limit):
    """How long it took; None: it failed, or hung."""
    began = time.monotonic()
    environment = dict(os.environ, srcdir="..", LSFS_BUILD=str(build))
    process = subprocess.Popen([program], cwd=build, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        ended = process.wait(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        ended = process.wait()
    return time.monotonic() - began if ended in (0, 77) else None


def found_by_unit_tests(project, times):
    """The name of the first test that fails, quick ones first; None: all pass."""
    found = []

    def attempt(name):
        limit = max(AT_LEAST_S, TIMES_SLOWER * times[name])
        if not found and run_test(project.build / "tests" / "unit" / name, project.build, limit) is None:
            found.append(name)

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(attempt, sorted(times, key=times.get)))
    return found[0] if found else None


def found_by_simulator(project, seeds):
    """The seed that fails and what saw it; None: all pass."""
    for replicas in (3, 5):
        run = subprocess.run(["tests/sim/sim", "--seeds", str(seeds // 2), "--from", "1",
                              "--replicas", str(replicas)], cwd=project.build, check=False,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        if run.returncode != 0:
            seed = re.search(r"--seed (\d+)", run.stdout)
            return f"{replicas}:{seed.group(1) if seed else '?'}"
    return None


# ---- the mistakes ----

def draw(project, chance, folders):
    """A mistake that compiles and changes the machine code: (file, line, kind, old, new), and the
    good text, to be put back."""
    while True:
        folder = project.root / "cell" / chance.choice(folders)
        file = chance.choice(sorted(folder.glob("*.c")))
        text = file.read_text()
        places = list(chance.choice(KINDS)(code_only(text)))
        if not places:
            continue
        kind, begin, end, change = chance.choice(places)
        new = change(text[begin:end])
        if new == text[begin:end]:
            continue
        if not project.make(str(project.object(file).relative_to(project.build))):
            sys.exit("mutate: the sources do not compile without a mistake")
        good = project.object(file).read_bytes()
        file.write_text(text[:begin] + new + text[end:])
        if project.make(str(project.object(file).relative_to(project.build))) and \
                not project.same_code(file, good):
            line = text.count("\n", 0, begin) + 1
            return file, line, kind, text[begin:end], new, text
        file.write_text(text)


def short(text):
    return re.sub(r"\s+", " ", text).strip()[:60]


def percent(part, whole):
    return f"{100 * part // whole if whole else 100:3d} %"


def report(tally):
    print(f"{'folder':<10}{'mistakes':>9}{'unit tests':>12}{'simulator':>12}{'either':>9}")
    total = [0, 0, 0, 0]
    for folder in sorted(tally):
        row = tally[folder]
        total = [a + b for a, b in zip(total, row)]
        print(f"{folder:<10}{row[0]:>9}{percent(row[1], row[0]):>12}{percent(row[2], row[0]):>12}"
              f"{percent(row[3], row[0]):>9}")
    print(f"{'all':<10}{total[0]:>9}{percent(total[1], total[0]):>12}{percent(total[2], total[0]):>12}"
          f"{percent(total[3], total[0]):>9}")


def attempt_one(project, chance, folders, seeds, times, tally):
    file, line, kind, old, new, text = draw(project, chance, folders)
    folder = file.parent.name
    row = tally.setdefault(folder, [0, 0, 0, 0])
    built = project.make("all") and project.make("check-programs")
    if not built:
        sys.exit(f"mutate: {file}:{line}: does not link")
    unit = found_by_unit_tests(project, times)
    simulated = found_by_simulator(project, seeds)
    file.write_text(text)
    row[0] += 1
    row[1] += unit is not None
    row[2] += simulated is not None
    row[3] += unit is not None or simulated is not None
    verdict = f"{unit or '-':<26} {simulated or '-':<8}"
    if not unit and not simulated:
        verdict += " SURVIVES"
    print(f"cell/{folder}/{file.name}:{line}: {kind}\n    {short(old)}  ->  {short(new) or 'nothing'}\n"
          f"    {verdict}", flush=True)


def main(arguments):
    if len(arguments) < 2 or not all(a.isdigit() for a in arguments[:3]):
        sys.exit("usage: mutate.py N SEED [SEEDS [FOLDER...]]")
    n, seed = int(arguments[0]), int(arguments[1])
    seeds = int(arguments[2]) if len(arguments) > 2 else 2000
    folders = arguments[3:] or FOLDERS
    source = Path(os.environ.get("srcdir", ".")).resolve()
    chance = random.Random(seed)
    tally = {}
    with tempfile.TemporaryDirectory(prefix="mutate.") as work, open(os.devnull, "w") as log:
        project = Project(source, Path(work), log)
        if not project.make("all") or not project.make("check-programs"):
            sys.exit("mutate: the sources do not build")
        times = {p.name: run_test(p, project.build, 600) for p in unit_tests(project.build)}
        failing = [name for name in times if times[name] is None]
        if failing:
            sys.exit(f"mutate: fails without any mistake: {' '.join(failing)}")
        for _ in range(n):
            attempt_one(project, chance, folders, seeds, times, tally)
    report(tally)


if __name__ == "__main__":
    main(sys.argv[1:])
