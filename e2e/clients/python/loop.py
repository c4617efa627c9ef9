"""Reads and writes of a Python program while its cluster changes: loop.py MODULE MODE PORT..., where MODULE is redis or valkey, and the ports are
those that the client is told. The head of xtask/src/loops.rs says what a loop does and prints, and which modes there are."""
import importlib
import sys
import threading
import time

module = importlib.import_module(sys.argv[1])
mode = sys.argv[2]
ports = [int(port) for port in sys.argv[3:]]
name = sys.argv[1] + "-py"
TAGS = ((3, 7, 10, 11), (1, 2, 5, 6), (0, 4, 8, 13))
KEYS = 64


def connect():
    cluster = importlib.import_module(sys.argv[1] + ".cluster")
    nodes = [cluster.ClusterNode("127.0.0.1", port) for port in ports]
    more = {}
    if mode == "quiet" and sys.argv[1] == "redis":
        config = importlib.import_module("redis.maint_notifications").MaintNotificationsConfig
        more["maint_notifications_config"] = config(enabled=False)
    Cluster = getattr(module, "RedisCluster", None) or module.ValkeyCluster
    return Cluster(startup_nodes=nodes, decode_responses=True, **more)


def unix_ms():
    return int(time.time() * 1000)


out = threading.Lock()


def tell(*words):
    with out:
        print(*words, flush=True)


class Worker(threading.Thread):
    def __init__(self, client, group):
        super().__init__(daemon=True)
        self.client, self.group = client, group
        self.keys = [f"{{{TAGS[group][at % 4]}}}:{name}:{at}" for at in range(KEYS)]
        self.acknowledged, self.unknown = {}, {}
        self.lock = threading.Lock()
        self.writes, self.reads, self.gap, self.gap_at, self.last = 0, 0, 0, unix_ms(), unix_ms()

    def succeeded(self, reads, writes):
        with self.lock:
            self.writes, self.reads = self.writes + writes, self.reads + reads
            self.look()
            self.last = unix_ms()

    def look(self):
        if unix_ms() - self.last > self.gap:
            self.gap, self.gap_at = unix_ms() - self.last, self.last

    def report(self):
        with self.lock:
            self.look()
            found = self.writes, self.reads, self.gap, self.gap_at
            self.writes, self.reads, self.gap = 0, 0, 0
            return found

    def attempt(self, what, call):
        try:
            return True, call()
        except Exception as error:
            text = " ".join(f"{type(error).__name__}: {error}".split())[:200]
            tell("error", unix_ms(), self.group, what, text)
            return False, None

    def run(self):
        count = 0
        while True:
            count += 1
            key = self.keys[count % KEYS]
            is_done, _ = self.attempt("SET", lambda: self.client.set(key, f"{key}#{count}"))
            if is_done:
                self.acknowledged[key] = count
                self.succeeded(0, 1)
            else:
                self.unknown.setdefault(key, set()).add(count)
            other = self.keys[(count + KEYS // 2) % KEYS]
            is_done, found = self.attempt("GET", lambda: self.client.get(other))
            if is_done:
                self.succeeded(1, 0)
                self.judge(other, found)
            time.sleep(0.002)

    def judge(self, key, found):
        if found is not None and not found.startswith(key + "#"):
            return tell("wrong", unix_ms(), self.group, key, str(found)[:100])
        number, expected = int(found.split("#")[1]) if found else 0, self.acknowledged.get(key, 0)
        if number != expected and number not in self.unknown.get(key, ()):
            tell("lost", unix_ms(), self.group, key, f"{number} in place of {expected}")
            self.acknowledged[key] = number


client = connect()
for group in range(3):
    for tag in TAGS[group]:
        for at in range(KEYS):
            if at % 4 == TAGS[group].index(tag):
                client.delete(f"{{{tag}}}:{name}:{at}")
workers = [Worker(client, group) for group in range(3)]
for worker in workers:
    worker.start()
tell("ready", module.__version__)
for _ in sys.stdin:
    found = [worker.report() for worker in workers]
    gap, gap_at = max((one[2], one[3]) for one in found)
    tell("report", sum(one[0] for one in found), sum(one[1] for one in found), gap, gap_at)
