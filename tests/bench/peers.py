"""What people would pick instead of a cell: three servers each of ZooKeeper and etcd on loopback, as Debian ships them,
with their own defaults, and so durable."""
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request

SERVERS = range(3)


def draw(count):
    """Ports that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports


class Peer:
    """A kind of them has a name, which is that of its client (zookeeper.c, etcd.go); `needs`, what it is made of; the
    command line of a server; and the role of one: "leader", "follower", or None while it does not serve."""

    def __init__(self, programs, directory):
        self.client = os.path.join(programs, self.name)
        self.directory = os.path.join(directory, self.name)
        shutil.rmtree(self.directory, ignore_errors=True)
        self.ports, self.peer_ports, self.election_ports = (draw(len(SERVERS)) for _ in range(3))
        self.servers = [None for _ in SERVERS]

    def place(self, i):
        return os.path.join(self.directory, str(i))

    def start(self, i):
        os.makedirs(self.place(i), exist_ok=True)
        with open(os.path.join(self.directory, f"{i}.log"), "a", encoding="utf8") as log:
            # pylint: disable-next=consider-using-with
            self.servers[i] = subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *self.server(i)],
                                               stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def up(self):
        """Has all of them serve when it returns."""
        for i in SERVERS:
            if self.servers[i] is None or self.servers[i].poll() is not None:
                self.start(i)
        while sorted(filter(None, map(self.role, SERVERS))) != ["follower", "follower", "leader"]:
            time.sleep(0.01)

    def down(self):
        for s in filter(None, self.servers):
            s.kill()
            s.wait()

    def pids(self):
        return [s.pid for s in self.servers]

    def leader(self):
        return next(self.servers[i].pid for i in SERVERS if self.role(i) == "leader")

    def command(self, workload, threads, seconds):
        return [self.client, workload, str(threads), str(seconds), ",".join(f"127.0.0.1:{p}" for p in self.ports)]


class ZooKeeper(Peer):
    name = "zookeeper"
    needs = "zookeeper, and libzookeeper-mt-dev when configure runs"
    JAR = "/usr/share/java/zookeeper.jar"

    @classmethod
    def installed(cls):
        return shutil.which("java") and os.path.exists(cls.JAR)

    def server(self, i):
        lines = ["tickTime=2000", "initLimit=10", "syncLimit=5", "maxClientCnxns=0", "admin.enableServer=false",
                 "4lw.commands.whitelist=srvr", "clientPortAddress=127.0.0.1", f"clientPort={self.ports[i]}",
                 f"dataDir={self.place(i)}"]
        lines += [f"server.{j + 1}=127.0.0.1:{self.peer_ports[j]}:{self.election_ports[j]}" for j in SERVERS]
        with open(os.path.join(self.place(i), "myid"), "w", encoding="utf8") as f:
            f.write(f"{i + 1}\n")
        with open(os.path.join(self.place(i), "zoo.cfg"), "w", encoding="utf8") as f:
            f.write("\n".join(lines + [""]))
        return ["java", "-cp", f"/etc/zookeeper/conf:{self.JAR}", f"-Dzookeeper.log.dir={self.place(i)}",
                "-Dzookeeper.root.logger=INFO,ROLLINGFILE", "org.apache.zookeeper.server.quorum.QuorumPeerMain", f.name]

    def role(self, i):
        try:
            with socket.create_connection(("127.0.0.1", self.ports[i]), timeout=1) as s:
                s.sendall(b"srvr")
                said = s.makefile().read()
        except OSError:
            return None
        return next((line.split()[1] for line in said.splitlines() if line.startswith("Mode: ")), None)


class Etcd(Peer):
    name = "etcd"
    needs = "etcd-server, and golang-etcd-server-dev and golang-go when configure runs"

    @classmethod
    def installed(cls):
        return shutil.which("etcd")

    def server(self, i):
        def url(ports, j):
            return f"http://127.0.0.1:{ports[j]}"

        return ["etcd", "--name", str(i), "--data-dir", self.place(i),
                "--listen-client-urls", url(self.ports, i), "--advertise-client-urls", url(self.ports, i),
                "--listen-peer-urls", url(self.peer_ports, i), "--initial-advertise-peer-urls", url(self.peer_ports, i),
                "--initial-cluster", ",".join(f"{j}={url(self.peer_ports, j)}" for j in SERVERS)]

    def role(self, i):
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[i]}/v3/maintenance/status", b"{}", 1) as answer:
                status = json.load(answer)
        except OSError:
            return None
        if "leader" not in status:
            return None
        return "leader" if status["leader"] == status["header"]["member_id"] else "follower"


def peers(programs, directory):
    """Those that this machine has; a line about each that it has not."""
    found = []
    for kind in (ZooKeeper, Etcd):
        if kind.installed() and os.path.exists(os.path.join(programs, kind.name)):
            found.append(kind(programs, directory))
        else:
            print(f"bench: without {kind.name}, which needs {kind.needs}")
    return found
