"""A Python client with Sentinel support follows a failover under load.

sentinel.py MODULE SERVER TOOLS: MODULE is redis or valkey, SERVER the server under test, TOOLS a folder with the reference's
valkey-sentinel. Two replicas and three Sentinels watch a primary; the primary is killed while a client writes. No write that WAIT has
confirmed may be lost.
"""
import importlib
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time

module = importlib.import_module(sys.argv[1])
sentinel_module = importlib.import_module(sys.argv[1] + ".sentinel")
server, tools = sys.argv[2:4]
Client = getattr(module, "Redis", None) or module.Valkey
NAME = "ours"
ERRORS = (module.ConnectionError, module.TimeoutError, module.ResponseError, sentinel_module.MasterNotFoundError)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, ask, seconds=50):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if answer := ask():
                return answer
        except ERRORS:
            pass
        time.sleep(0.05)
    raise AssertionError(f"waited {seconds} s for {what}")


class Process:
    def __init__(self, work, binary, name, lines):
        self.port = free_port()
        folder = os.path.join(work, name)
        os.makedirs(folder)
        conf = os.path.join(folder, "server.conf")
        with open(conf, "w") as file:
            file.write(f"port {self.port}\nbind 127.0.0.1\ndir {folder}\nlogfile log\n{lines}\n")
        self.process = subprocess.Popen([binary, conf], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.client = Client(host="127.0.0.1", port=self.port)
        until(name, self.client.ping)


def write(watch, confirmed, stop):
    """Writes to whomever Sentinel names; a pipeline keeps SET and WAIT on one connection."""
    primary = watch.master_for(NAME, socket_timeout=2)
    number = 0
    while not stop.is_set():
        number += 1
        try:
            pipe = primary.pipeline(transaction=False)
            pipe.set(f"key:{number}", number)
            pipe.execute_command("WAIT", 1, 1000)
            done, replicas = pipe.execute()
            if done and replicas >= 1:
                confirmed.append(number)
        except ERRORS:
            time.sleep(0.05)


def exercise(work, processes):
    def start(*arguments):
        processes.append(Process(work, *arguments))
        return processes[-1]

    nodes = [start(server, f"node{i}", 'save ""\nrepl-diskless-sync-delay 0') for i in range(3)]
    for node in nodes[1:]:
        node.client.execute_command("REPLICAOF", "127.0.0.1", nodes[0].port)
    until("two replicas", lambda: all(n.client.info("replication").get("master_link_status") == "up" for n in nodes[1:]))
    lines = (
        f"sentinel monitor {NAME} 127.0.0.1 {nodes[0].port} 2\nsentinel down-after-milliseconds {NAME} 3000\n"
        f"sentinel failover-timeout {NAME} 15000"
    )
    sentinels = [start(os.path.join(tools, "valkey-sentinel"), f"sentinel{i}", lines) for i in range(3)]
    watch = sentinel_module.Sentinel([("127.0.0.1", s.port) for s in sentinels], socket_timeout=2)
    def knows(s):
        known = s.client.info("sentinel")["master0"]
        return (known["slaves"], known["sentinels"]) == (2, 3)

    until("Sentinels to know all", lambda: all(knows(s) for s in sentinels))
    assert watch.discover_master(NAME)[1] == nodes[0].port
    assert sorted(port for _, port in watch.discover_slaves(NAME)) == sorted(node.port for node in nodes[1:])

    confirmed, stop = [], threading.Event()
    writer = threading.Thread(target=write, args=(watch, confirmed, stop))
    writer.start()
    try:
        until("confirmed writes", lambda: len(confirmed) > 200)
        nodes[0].process.kill()
        nodes[0].process.wait()
        until("another primary", lambda: watch.discover_master(NAME)[1] != nodes[0].port)
        before = len(confirmed)
        until("writes to the new primary", lambda: len(confirmed) > before + 200)
    finally:
        stop.set()
        writer.join()
    primary = watch.master_for(NAME, socket_timeout=2)
    assert primary.info("replication")["role"] == "master"
    for number in confirmed:
        assert primary.get(f"key:{number}") == str(number).encode(), f"key:{number} is lost"
    replica = watch.slave_for(NAME, socket_timeout=2)
    last = confirmed[-1]
    until("a replica to read from", lambda: replica.get(f"key:{last}") == str(last).encode())
    return len(confirmed)


processes = []
with tempfile.TemporaryDirectory() as work:
    try:
        count = exercise(work, processes)
    finally:
        for process in processes:
            process.process.kill()
            process.process.wait()
print(f"{module.__name__} {module.__version__}: followed Sentinel, {count} confirmed writes kept")
