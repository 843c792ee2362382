#!/usr/bin/env python3
"""Do the tests bite on mistakes that nobody planted?

mutate.py N SEED [SEEDS] [FOLDER...]: draws N random small mistakes in the sources of the cell, as many in
each folder, and builds the project with each. Prints which of them the simulator alone finds, within SEEDS
seeds, and which of the others the unit and crash tests find. Called by `make mutate N=200 SEED=1`, in the
build directory; works on a copy of the sources. A mistake that the compiler refuses, or that leaves the
machine code as it is, is drawn again. What nothing finds is left as a patch in ./mistakes.
"""
import difflib
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
HANGS_S = 300  # a test that takes so long
CORES = len(os.sched_getaffinity(0))
took = {}  # the longest time of each test so far: the quick ones are first


# ---- where a mistake can be made ----

def blanked(match):
    return re.sub(r"[^\n]", " ", match.group())


# Calls whose only effect is text that a person reads, and conditions on which only such a call depends.
WORD = (r"\t+(?:\w*TRACE|NOTICE|trace_\w+|snprintf|buffer_printf|clock_io_log|log_warn|say|print_line|"
        r"say_silent|corruption_log|store_log|note)\([^;]*;")
WORDS = re.compile("^" + WORD, re.M)
TO_SAY = re.compile(r"^\t+if \([^;{}]*\)\n(?=" + WORD + r"\n(?!\t+else))", re.M)


# A weaker assertion changes nothing, a stronger one is found at once.
ASSERTIONS = re.compile(r"\bmust\([^;]*;")


def code_only(text):
    """The text with comments, strings, characters, messages and assertions blanked: places stay what
    they are."""
    pattern = r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    code = re.sub(pattern, blanked, text, flags=re.S)
    return ASSERTIONS.sub(blanked, WORDS.sub(blanked, TO_SAY.sub(blanked, code)))


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


# The greater or the less of two: where both are equal either is right.
GREATER = re.compile(r"([\w.>\[\]-]+) (<=|>=|<|>) ([\w.>\[\]-]+)"
                     r"(?: \? (?:\1 : \3|\3 : \1)|\)\n\t+(?:\1 = \3|\3 = \1);)")


def shifted(code):
    harmless = {m.start(2) for m in GREATER.finditer(code)}
    shifts = {"<": ("<=",), "<=": ("<",), ">": (">=",), ">=": (">",), "==": ("!=",), "!=": ("==",)}
    for m in re.finditer(r" (<=|>=|==|!=|<|>) ", code):
        if m.start(1) in harmless:
            continue
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
    keyword, symmetric = r"if|while|for|switch|return|sizeof|must", r"\w*_equal|\w+_min|\w+_max|same_\w+"
    for m in re.finditer(rf"\b(?!(?:{keyword}|{symmetric})\()\w+\(", code):
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
            n for n in names if n in (".git", "autom4te.cache", "b", "mistakes") or
            (n.startswith("build") and n != "build-aux")])
        self.build = self.root / "b"
        self.good = work / "good"  # the programs without a mistake
        self.build.mkdir()
        subprocess.run(["../configure", "--quiet", "--enable-werror", "CFLAGS=-O2"], cwd=self.build,
                       stdout=log, stderr=log, check=True)
        if not self.make("all") or not self.make("check-programs"):
            sys.exit("mutate: the sources do not build")
        shutil.copytree(self.build / "tests", self.good, ignore=shutil.ignore_patterns("*.o"))

    def make(self, *targets):
        return subprocess.run(["make", "-s", f"-j{CORES}", *targets], cwd=self.build,
                              stdout=self.log, stderr=self.log, check=False).returncode == 0

    def compile(self, file):
        """The object of a source; None: the compiler refuses it."""
        object_file = (self.build / file.relative_to(self.root)).with_suffix(".o")
        return object_file.read_bytes() if self.make(str(object_file.relative_to(self.build))) else None

    def differs(self, program):
        """Whether the mistake is in it."""
        return (self.build / "tests" / program).read_bytes() != (self.good / program).read_bytes()


def passes(program, build):
    environment = dict(os.environ, srcdir="..", LSFS_BUILD=str(build))
    process = subprocess.Popen([program], cwd=build, env=environment, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)
    try:
        return process.wait(timeout=HANGS_S) in (0, 77)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return False


def found_by_tests(project):
    """The name of a test that fails with the mistake, and not without it; None: all pass."""
    if not project.make("check-programs"):
        sys.exit("mutate: a test does not link")
    found = []

    def attempt(path):
        program = path.relative_to(project.good)
        began = time.monotonic()
        if not found and project.differs(program) and \
                not passes(project.build / "tests" / program, project.build) and \
                passes(path, project.build):
            found.append(path.name)
        took[path] = max(took.get(path, 0), time.monotonic() - began)

    tests = [path for folder, names in (("transcripts", "*_player"), ("unit", "test_*"), ("crash", "test_*"))
             for path in sorted((project.good / folder).glob(names))]
    with ThreadPoolExecutor(2 * CORES) as pool:  # they wait much
        list(pool.map(attempt, sorted(filter(Path.is_file, tests), key=lambda p: took.get(p, 0))))
    return found[0] if found else None


def failing_seed(simulator, build, first, seeds):
    """The first seed that fails, and the last line that tells why; None: all pass."""
    run = subprocess.run([simulator, "--seeds", str(seeds), "--from", str(first), "--jobs", str(CORES)],
                         cwd=build, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                         text=True, errors="replace")
    seed = re.search(r"--seed (\d+)", run.stderr)
    if run.returncode == 0 or not seed:
        return None
    why = [line for line in run.stderr.splitlines() if "rerun:" not in line and "an hour" not in line]
    return int(seed.group(1)), re.sub(r"^sim: at [\d.]+ s: ", "", why[-1] if why else "?")


def found_by_simulator(project, seeds):
    """A seed that fails with the mistake, and not without it, and why; None: all pass, or the
    simulator does not contain it."""
    if not project.make("tests/sim/sim"):
        sys.exit("mutate: the simulator does not link")
    first = 1
    while project.differs("sim/sim") and first <= seeds:
        failed = failing_seed("tests/sim/sim", project.build, first, seeds - first + 1)
        if failed is None or passes_alone(project, failed[0]):
            return failed
        first = failed[0] + 1
    return None


def passes_alone(project, seed):
    return failing_seed(project.good / "sim" / "sim", project.build, seed, 1) is None


# ---- the mistakes ----

def places(folder):
    """All mistakes that can be made in a folder: for each kind (file, text, kind, begin, end, new)."""
    found = {kind: [] for kind in KINDS}
    for file in sorted(folder.glob("*.c")):
        text = file.read_text()
        code = code_only(text)
        for kind in KINDS:
            found[kind] += [(file, text, name, begin, end, change(text[begin:end]))
                            for name, begin, end, change in kind(code)
                            if text[begin:end] != change(text[begin:end])]
    return [drawn for drawn in found.values() if drawn]


def draw(project, chance, possible):
    """One that compiles and changes the machine code; the file has it."""
    while True:
        kind = chance.choice(possible)
        file, text, name, begin, end, new = kind.pop(chance.randrange(len(kind)))
        if not kind:
            possible.remove(kind)
        good = project.compile(file)
        file.write_text(text[:begin] + new + text[end:])
        bad = project.compile(file)
        if bad is not None and bad != good:
            return file, text, name, begin, end, new
        file.write_text(text)


def short(text):
    return re.sub(r"\s+", " ", text).strip()[:60]


def keep(project, file, text, number):
    """The mistake as a patch in ./mistakes."""
    name = str(file.relative_to(project.root))
    patch = difflib.unified_diff(text.splitlines(True), file.read_text().splitlines(True),
                                 f"a/{name}", f"b/{name}")
    Path("mistakes").mkdir(exist_ok=True)
    Path(f"mistakes/{number:03d}.patch").write_text("".join(patch))


def attempt_one(project, number, drawn, seeds, row):
    file, text, kind, begin, end, new = drawn
    simulated = found_by_simulator(project, seeds)
    tested = None if simulated else found_by_tests(project)
    row["drawn"] += 1
    row["simulator"] += simulated is not None
    row["together"] += simulated is not None or tested is not None
    verdict = f"seed {simulated[0]}: {simulated[1][:80]}" if simulated else tested
    print(f"{number:03d} {file.relative_to(project.root)}:{text.count(chr(10), 0, begin) + 1}: {kind}\n"
          f"    {short(text[begin:end])}  ->  {short(new) or 'nothing'}\n    {verdict or 'SURVIVES'}",
          flush=True)
    if verdict is None:
        keep(project, file, text, number)
    file.write_text(text)


def percent(part, whole):
    return f"{100 * part // whole if whole else 100} %"


def report(tally):
    print(f"{'folder':<10}{'mistakes':>10}{'simulator':>12}{'together':>12}{'left':>7}")
    every = {key: sum(row[key] for row in tally.values()) for key in ("drawn", "simulator", "together")}
    for folder, row in [*tally.items(), ("all", every)]:
        print(f"{folder:<10}{row['drawn']:>10}{percent(row['simulator'], row['drawn']):>12}"
              f"{percent(row['together'], row['drawn']):>12}{row['drawn'] - row['together']:>7}")


def main(arguments):
    if len(arguments) < 2 or not all(a.isdigit() for a in arguments[:3]):
        sys.exit("usage: mutate.py N SEED [SEEDS [FOLDER...]]")
    n, seed = int(arguments[0]), int(arguments[1])
    seeds = int(arguments[2]) if len(arguments) > 2 else 2000
    folders = arguments[3:] or FOLDERS
    source = Path(os.environ.get("srcdir", ".")).resolve()
    with tempfile.TemporaryDirectory(prefix="mutate.") as work, open(os.devnull, "w") as log:
        project = Project(source, Path(work), log)
        chance = {f: random.Random(f"{seed} {f}") for f in folders}
        possible = {f: places(project.root / "cell" / f) for f in folders}
        tally = {f: {"drawn": 0, "simulator": 0, "together": 0} for f in folders}
        for number in range(n):
            folder = folders[number % len(folders)]
            drawn = draw(project, chance[folder], possible[folder])
            attempt_one(project, number, drawn, seeds, tally[folder])
    report(tally)


if __name__ == "__main__":
    main(sys.argv[1:])
