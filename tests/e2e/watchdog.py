# watchdog.py FUSECTL STUCK SECONDS: watches the processes of its mount namespace as long as its
# parent lives. One that is in state D for so long is named in the file STUCK, and the mounts of lsfs
# are aborted, so that it ends. (Those of other namespaces belong to other tests, which freeze what
# they like.)
#
# It reads only files of /proc that wait for no lock. A child of it reads the others, of all
# processes, as ps does: where one of them is stuck with its lock, so is the child.
import os
import sys
import time

control, stuck, limit = sys.argv[1:]
own = os.readlink("/proc/self/ns/mnt")


def read_all():
    while True:
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/stat" % pid) as f:
                    f.read()
            except OSError:
                pass
        time.sleep(0.2)


def waiting():
    """The threads of ours that are in state D, with their names, and how often each has slept: one
    that does much with a slow disk sleeps anew each time."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if os.readlink("/proc/%s/ns/mnt" % pid) != own:
                continue
            for thread in os.listdir("/proc/%s/task" % pid):
                with open("/proc/%s/task/%s/status" % (pid, thread)) as f:
                    told = dict(line.split(":\t", 1) for line in f if ":\t" in line)
                if told["State"].startswith("D"):
                    name = "%s (%s)" % (thread, told["Name"].strip())
                    yield name, told["voluntary_ctxt_switches"]
        except OSError:
            pass  # it has ended


def abort():
    for line in open("/proc/self/mountinfo"):
        if " - fuse.lsfs " in line:
            with open("%s/%s/abort" % (control, line.split()[2].split(":")[1]), "w") as f:
                f.write("1")


reader = os.fork()
if reader == 0:
    read_all()
since = {}
parent = os.getppid()
while os.getppid() == parent:
    now = time.monotonic()
    since = {sleep: since.get(sleep, now) for sleep in waiting()}
    late = [name for (name, _), when in since.items() if now - when >= float(limit)]
    if late:
        with open(stuck, "a") as f:
            f.write("stuck in state D: %s\n" % ", ".join(late))
        abort()
        since = {}
    time.sleep(0.2)
os.kill(reader, 9)
