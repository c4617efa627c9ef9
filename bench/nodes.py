"""Clusters of six nodes, ours and the reference's side by side: what the benchmarks of clusters have in common."""
import binascii
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

SLOTS = 16384
ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def words(*args):
    parts = [arg if isinstance(arg, bytes) else str(arg).encode() for arg in args]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)


class Client:
    """RESP2, one request at a time, of replies that are no lists."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), 5)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def ask(self, *args):
        self.socket.sendall(words(*args))
        line = self.file.readline()
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError
        if line[:1] == b"-":
            raise RuntimeError(line[1:-2].decode())
        return self.file.read(int(line[1:]) + 2)[:-2].decode() if line[:1] == b"$" else line[1:-2].decode()

    def close(self):
        self.file.close()
        self.socket.close()


class Node:
    def __init__(self, name, command, port, folder, options):
        self.name, self.port, self.folder, self.client = name, port, folder, None
        self.folder.mkdir()
        self.command = command.split() + ["--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder), "--save", "", "--cluster-enabled", "yes", *options]

    def start(self):
        # A port of the bus may be some connection's own for a moment.
        for _ in range(20):
            with open(self.folder / "log", "ab") as log:
                self.process = subprocess.Popen(self.command, stdout=log, stderr=subprocess.STDOUT)
            while self.process.poll() is None:
                try:
                    return self.ask("PING")
                except (OSError, RuntimeError):
                    time.sleep(0.02)
            time.sleep(0.2)
        sys.exit(f"{self.name} does not start: " + (self.folder / "log").read_text(errors="replace")[-2000:])

    def ask(self, *args):
        try:
            self.client = self.client or Client(self.port)
            return self.client.ask(*args)
        except OSError:
            self.client = None
            raise

    def view(self):
        """What the node says of each node, but for times and for who is itself."""
        rows = []
        for line in self.ask("CLUSTER", "NODES").splitlines():
            fields = line.split(" ")
            rows.append((fields[0], fields[2].replace("myself,", ""), fields[3], fields[6], fields[7], *fields[8:]))
        return sorted(rows)

    def is_in_sync(self):
        text = self.ask("INFO", "replication")
        return "role:master" in text or "master_link_status:up" in text


class Cluster:
    """Six nodes; each command runs every other one, from its place in `commands` on."""

    def __init__(self, name, commands, port, folder, options):
        self.name = name
        folder.mkdir()
        kinds = [commands[at % len(commands)] for at in range(6)]
        self.nodes = [Node(f"node {at} ({kind})", command, port + at, folder / str(at), options) for at, (kind, command) in enumerate(kinds)]

    def start(self):
        for node in self.nodes:
            node.start()
        for at, node in enumerate(self.nodes[:3]):
            node.ask("CLUSTER", "ADDSLOTSRANGE", at * SLOTS // 3, (at + 1) * SLOTS // 3 - 1)
        for node in self.nodes[1:]:
            self.nodes[0].ask("CLUSTER", "MEET", "127.0.0.1", node.port)
        self.until("nodes that know each other", lambda: all(node.ask("CLUSTER", "NODES").count(" connected") == 6 for node in self.nodes))
        ids = [node.ask("CLUSTER", "MYID") for node in self.nodes]
        for at in range(3):
            self.nodes[at + 3].ask("CLUSTER", "REPLICATE", ids[at])
        self.until("a cluster that is well", self.is_well)

    def until(self, what, holds, seconds=180):
        end = time.monotonic() + seconds
        while True:
            try:
                if holds():
                    return
            except (OSError, RuntimeError):
                pass
            if time.monotonic() > end:
                views = "\n".join(f"{node.name}: {node.view()}" for node in self.nodes if node.process.poll() is None)
                sys.exit(f"{self.name}: waited for {what} in vain\n{views}")
            time.sleep(0.05)

    def is_well(self):
        views = [node.view() for node in self.nodes]
        is_whole = len(views[0]) == 6 and all(row[4] == "connected" and row[1] in ("master", "slave") for row in views[0])
        primaries = {row[0] for row in views[0] if row[1] == "master" and row[5:]}
        followed = {row[2] for row in views[0] if row[1] == "slave"}
        return (is_whole and len(primaries) == 3 and primaries == followed and all(view == views[0] for view in views)
            and all("cluster_state:ok" in node.ask("CLUSTER", "INFO") and node.is_in_sync() for node in self.nodes))

    def pair(self, number):
        """The primary whose turn it is, its replica, and keys of its slots."""
        rows = {row[0]: row for row in self.nodes[0].view()}
        ids = {node.ask("CLUSTER", "MYID"): node for node in self.nodes}
        primary = sorted((row for row in rows.values() if row[1] == "master"), key=lambda row: int(row[5].split("-")[0]))[number % 3]
        replica = next(row for row in rows.values() if row[2] == primary[0])
        first, last = map(int, primary[5].split("-"))
        keys = (b"key:%d" % at for at in range(SLOTS))
        return ids[primary[0]], ids[replica[0]], [key for key in keys if first <= binascii.crc_hqx(key, 0) % SLOTS <= last][:1000]

    def stop(self):
        for node in self.nodes:
            if hasattr(node, "process"):
                node.process.kill()
                node.process.wait()


def clusters(options, folder, timeout, *more):
    """The clusters that take turns."""
    kinds = {"ours": [("ours", options.ours)]}
    if options.peer:
        kinds["reference"] = [("reference", options.peer)]
    if options.mixed:
        kinds["mixed"] = kinds["ours"] + kinds["reference"]
    settings = ["--cluster-node-timeout", str(timeout), "--repl-diskless-sync-delay", "0", *more]
    place = pathlib.Path(tempfile.mkdtemp(dir=folder))
    return [Cluster(name, commands, options.port + 100 * at, place / name, settings) for at, (name, commands) in enumerate(kinds.items())]


def in_turn(all_, rounds, measure):
    """What `measure` finds for each cluster by round; the order changes from round to round."""
    found = {cluster.name: [] for cluster in all_}
    try:
        for cluster in all_:
            cluster.start()
        for number in range(rounds):
            for cluster in all_[:: 1 if number % 2 == 0 else -1]:
                cluster.until("a cluster that is well", cluster.is_well)
                found[cluster.name].append(measure(cluster, number))
    finally:
        for cluster in all_:
            cluster.stop()
    return found


def end(*_):
    # A second signal does not keep servers and files from going.
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)
    sys.exit("ended by a signal")


def end_by_signals():
    for number in ENDINGS:
        signal.signal(number, end)
