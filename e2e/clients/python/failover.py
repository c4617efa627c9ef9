"""A Python client that asks for maintenance notifications lives through FAILOVERs of a pair, and its application sees no error.

failover.py MODULE SERVER: MODULE is redis, SERVER the server under test. Two servers listen at the same port of 127.0.0.1 and
127.0.0.2, since redis-py takes the host of a MOVING and keeps its port. Threads write without a pause while the role is handed over.
The replica is stopped meanwhile, so that a failover takes longer than the client's timeout.

Of the client's options, two are not the default: `enabled=True` has a server without notifications be an error, and `retry_on_error`
has a write that has waited, and is refused because the server is a replica by now, be sent again.
"""
import importlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback

module = importlib.import_module(sys.argv[1])
maintenance = importlib.import_module(sys.argv[1] + ".maint_notifications")
server = sys.argv[2]
HOSTS = ("127.0.0.1", "127.0.0.2")
WRITERS = 4
TIMEOUT_S = 0.5
STOPPED_S = 1.5


def free_port():
    with socket.socket() as first, socket.socket() as second:
        first.bind((HOSTS[0], 0))
        second.bind((HOSTS[1], first.getsockname()[1]))
        return first.getsockname()[1]


def until(what, ask, seconds=30):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            if answer := ask():
                return answer
        except (module.ConnectionError, module.TimeoutError):
            pass
        time.sleep(0.02)
    raise AssertionError(f"waited {seconds} s for {what}")


class Server:
    def __init__(self, work, host, port):
        self.host, self.port = host, port
        folder = os.path.join(work, host)
        os.makedirs(folder)
        words = ["--port", str(port), "--bind", host, "--replica-announce-ip", host, "--dir", folder, "--save", ""]
        words += ["--repl-diskless-sync-delay", "0"]
        self.process = subprocess.Popen([server, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        # Whoever steers a server wants its answers, and not those of the next primary.
        off = maintenance.MaintNotificationsConfig(enabled=False)
        self.client = module.Redis(host=host, port=port, maint_notifications_config=off)
        until(host, self.client.ping)

    def info(self, field):
        return self.client.info("replication").get(field)


class Writer(threading.Thread):
    """Counts in a key of its own until it is told to stop, or an error reaches it."""

    def __init__(self, client, number, stop):
        super().__init__()
        self.client, self.key, self.stop = client, f"count:{number}", stop
        self.written, self.slowest, self.error = 0, 0.0, None

    def run(self):
        try:
            while not self.stop.is_set():
                began = time.monotonic()
                self.written += 1
                assert self.client.incr(self.key) == self.written
                self.slowest = max(self.slowest, time.monotonic() - began)
        except Exception as error:  # noqa: BLE001, whatever it is, the application would see it
            self.error = error


def places(server):
    """How many connections of the client a server has: those that have its name."""
    return sum(client["name"] == "app" for client in server.client.client_list())


def errors(writers):
    return [repr(writer.error) for writer in writers if writer.error]


def until_all_write(what, writers):
    before = [writer.written for writer in writers]
    until(what, lambda: errors(writers) or all(w.written > b + 1 for w, b in zip(writers, before)))
    assert not errors(writers), errors(writers)


def hand_over(primary, replica, writers):
    """One FAILOVER while the replica is stopped; every writer has to go on at the other server."""
    until("the replica", lambda: primary.info("connected_slaves") == 1 and replica.info("master_link_status") == "up")
    until_all_write("writes", writers)
    os.kill(replica.process.pid, signal.SIGSTOP)
    until_all_write("writes that the replica lacks", writers)
    primary.client.execute_command("FAILOVER", "TO", replica.host, replica.port)
    time.sleep(STOPPED_S)
    assert primary.info("master_failover_state") == "waiting-for-sync"
    os.kill(replica.process.pid, signal.SIGCONT)
    until("the end", lambda: primary.info("master_failover_state") == "no-failover")
    until_all_write("writes at the next primary", writers)
    until("the writers' connections there", lambda: places(primary) == 0)


def main():
    try:
        port = free_port()
    except OSError as error:
        print(f"skipped: this machine has no second address on its loopback interface ({error})")
        return
    with tempfile.TemporaryDirectory() as work:
        pair = [Server(work, host, port) for host in HOSTS]
        try:
            pair[1].client.replicaof(HOSTS[0], port)
            client = module.Redis(
                host=HOSTS[0],
                port=port,
                client_name="app",
                socket_timeout=TIMEOUT_S,
                retry_on_error=[module.ReadOnlyError],
                maint_notifications_config=maintenance.MaintNotificationsConfig(enabled=True),
            )
            stop = threading.Event()
            writers = [Writer(client, number, stop) for number in range(WRITERS)]
            for writer in writers:
                writer.start()
            try:
                hand_over(pair[0], pair[1], writers)
                hand_over(pair[1], pair[0], writers)
            finally:
                stop.set()
                for writer in writers:
                    writer.join()
            assert not errors(writers), errors(writers)
            for writer in writers:
                assert int(pair[0].client.get(writer.key)) == writer.written
            # It has waited behind a failover, and longer than it would have without a word.
            slowest = min(writer.slowest for writer in writers)
            assert slowest > TIMEOUT_S, slowest
            total = sum(writer.written for writer in writers)
            print(f"two failovers among {total} writes without an error; the slowest took {max(w.slowest for w in writers):.2f} s")
        finally:
            for each in pair:
                each.process.send_signal(signal.SIGCONT)
                each.process.kill()
                each.process.wait()


try:
    main()
except AssertionError:
    traceback.print_exc()
    code = 1
else:
    code = 0
# The client's timers, which end the time of a MOVING, would keep the program waiting for it.
sys.stdout.flush()
sys.stderr.flush()
os._exit(code)
