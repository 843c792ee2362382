# programs.py A B: what programs in Python do in the directory A, looked at in B, which is the same.
import logging
import logging.handlers
import multiprocessing
import os
import sqlite3
import subprocess
import sys

a, b = sys.argv[1:]


def shown(name):
    with open(os.path.join(b, name)) as f:
        return f.read()


def children():
    with open(a + "/file", "w") as f:
        for line, start in (
            ("system\n", lambda: os.system("true")),
            ("run\n", lambda: subprocess.run(["true"], check=True)),
            ("inherited\n", lambda: subprocess.run(["true"], close_fds=False, check=True)),
            ("popen\n", lambda: os.popen("true").close()),
        ):
            f.write(line)
            f.flush()
            start()
        subprocess.run(["echo", "by a child"], stdout=f, check=True)
    assert shown("file") == "system\nrun\ninherited\npopen\nby a child\n", shown("file")


def append(n):
    with open(a + "/appended", "a") as f:
        f.write("%d\n" % n)
    return n


def processes():
    """Workers by fork and by spawn, beside a file that is open and written."""
    with open(a + "/beside", "w") as f:
        f.write("x")
        f.flush()
        for way in ("fork", "spawn"):
            with multiprocessing.get_context(way).Pool(3) as pool:
                assert sum(pool.map(append, range(10))) == 45
    assert sorted(map(int, shown("appended").split())) == sorted(2 * list(range(10)))


def database():
    """Its locks are ranges of bytes: a dot file stands for them."""
    for directory, n in ((a, 1), (b, 2), (a, 3)):
        db = sqlite3.connect("file:%s/db?vfs=unix-dotfile" % directory, uri=True)
        db.execute("create table if not exists t(n)")
        db.execute("insert into t values(?)", (n,))
        db.commit()
        assert db.execute("select count(*) from t").fetchone() == (n,)
        db.close()


def rotation():
    handler = logging.handlers.RotatingFileHandler(a + "/log", maxBytes=1000, backupCount=5)
    log = logging.getLogger("rotation")
    log.addHandler(handler)
    for i in range(100):
        log.warning("message %03d of one hundred", i)
        if i % 25 == 0:
            subprocess.run(["true"], check=True)
    handler.close()
    names = sorted(n for n in os.listdir(b) if n.startswith("log"))
    assert names == ["log", "log.1", "log.2"], names
    lines = "".join(map(shown, reversed(names))).splitlines()
    assert lines == ["message %03d of one hundred" % i for i in range(100)]


if __name__ == "__main__":
    children()
    processes()
    database()
    rotation()
