"""Locks and scripts of a Python client: scripts.py MODULE PORT, where MODULE is redis or valkey."""
import importlib
import sys
import threading
import time

module = importlib.import_module(sys.argv[1])
errors = importlib.import_module(sys.argv[1] + ".exceptions")
Client = getattr(module, "Redis", None) or module.Valkey


def refuses(wanted, action):
    try:
        action()
    except wanted as error:
        return str(error)
    raise AssertionError(f"{wanted.__name__} was expected")


def exercise(port, protocol):
    client = Client(host="127.0.0.1", port=port, protocol=protocol)
    client.flushall()
    client.script_flush()
    client.function_flush()

    # A lock: contention, more time, an owner that is none any more.
    lock = client.lock("lock", timeout=10)
    assert lock.acquire() and lock.owned() and lock.locked()
    other = client.lock("lock", timeout=10, blocking=False)
    assert other.acquire() is False and not other.owned()
    refuses(errors.LockError, other.release)
    assert lock.extend(5) and 10 < client.ttl("lock") <= 15
    assert lock.extend(20, replace_ttl=True) and 15 < client.ttl("lock") <= 20
    assert lock.reacquire() and 5 < client.ttl("lock") <= 10
    waiting = []
    thread = threading.Thread(target=lambda: waiting.append(client.lock("lock", timeout=5, sleep=0.01).acquire(blocking_timeout=20)))
    thread.start()
    time.sleep(0.05)
    assert waiting == []
    lock.release()
    thread.join()
    assert waiting == [True]
    client.delete("lock")
    brief = client.lock("lock", timeout=0.05)
    assert brief.acquire()
    time.sleep(0.1)
    taken = client.lock("lock", timeout=10)
    assert taken.acquire()
    refuses(errors.LockNotOwnedError, brief.release)
    refuses(errors.LockNotOwnedError, lambda: taken.__class__(client, "none").do_release(b"x"))
    assert taken.owned()
    taken.release()
    # Twenty threads, one counter that is no atomic one.
    def add():
        with client.lock("guard", timeout=20, sleep=0.002):
            client.set("sum", int(client.get("sum") or 0) + 1)
    threads = [threading.Thread(target=add) for _ in range(20)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert client.get("sum") == b"20"

    # A script that the server has forgotten is loaded again, alone and in a pipeline.
    script = client.register_script("return {redis.call('INCRBY', KEYS[1], ARGV[1]), ARGV[2]}")
    assert script(keys=["n"], args=[5, "x"]) == [5, b"x"]
    client.script_flush()
    assert client.script_exists(script.sha) == [False]
    assert script(keys=["n"], args=[5, "x"]) == [10, b"x"]
    client.script_flush()
    pipe = client.pipeline()
    script(keys=["n"], args=[1, "a"], client=pipe)
    script(keys=["n"], args=[1, "b"], client=pipe)
    assert pipe.execute() == [[11, b"a"], [12, b"b"]]
    assert client.script_exists(script.sha) == [True]
    refuses(errors.NoScriptError, lambda: client.evalsha("0" * 40, 0))
    assert "my error" in refuses(errors.ResponseError, lambda: client.eval("return redis.error_reply('my error')", 0))
    assert client.eval_ro("return redis.call('GET', KEYS[1])", 1, "n") == b"12"
    refuses(errors.ResponseError, lambda: client.eval_ro("return redis.call('SET', KEYS[1], 1)", 1, "n"))

    # A library: loaded, called, listed, dumped and restored.
    code = "#!lua name=lib\nredis.register_function('twice', function(keys, args) return args[1] * 2 end)"
    assert client.function_load(code) == b"lib"
    refuses(errors.ResponseError, lambda: client.function_load(code))
    assert client.fcall("twice", 0, 21) == 42
    payload = client.function_dump()
    assert client.function_delete("lib")
    refuses(errors.ResponseError, lambda: client.fcall("twice", 0, 21))
    assert client.function_restore(payload) and client.fcall("twice", 0, 4) == 8
    assert len(client.function_list()) == 1

    # One that goes on and on is killed by another client.
    client.config_set("busy-reply-threshold", 20)
    ended = []
    endless = threading.Thread(target=lambda: ended.append(refuses(errors.ResponseError, lambda: Client(port=port).eval("while true do end", 0))))
    endless.start()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            client.script_kill()
            break
        except errors.ResponseError as error:
            assert "NOTBUSY" in str(error) or "No scripts" in str(error), error
    endless.join()
    assert "killed" in ended[0], ended
    client.config_set("busy-reply-threshold", 5000)
    client.close()


for version in (2, 3):
    exercise(int(sys.argv[2]), version)
print(f"{sys.argv[1]} {module.__version__}: locks and scripts work")
