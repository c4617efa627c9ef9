"""What a Python program does with a server: smoke.py MODULE PORT, where MODULE is redis or valkey."""
import functools
import importlib
import os
import sys
import threading

module = importlib.import_module(sys.argv[1])
Client = getattr(module, "Redis", None) or module.Valkey
# The port is one of TLS where the authority's file is named.
if "SLUICE_TLS_CA" in os.environ:
    Client = functools.partial(Client, ssl=True, ssl_ca_certs=os.environ["SLUICE_TLS_CA"])


def exercise(port, protocol):
    client = Client(host="127.0.0.1", port=port, protocol=protocol)
    assert client.ping() is True
    client.flushall()

    binary = bytes(range(256))
    assert client.set(b"bin\x00key", binary) is True
    assert client.get(b"bin\x00key") == binary
    assert client.get("missing") is None
    assert client.set("once", 1, nx=True) is True
    assert client.set("once", 2, nx=True) is None
    assert client.getset("once", "3") == b"1"
    assert client.incrbyfloat("float", 0.5) == 0.5

    client.set("mortal", "x", ex=1000)
    assert 990 < client.ttl("mortal") <= 1000
    assert client.expire("mortal", 2000, gt=True)
    assert client.persist("mortal")
    assert client.ttl("mortal") == -1 and client.ttl("missing") == -2
    client.expireat("mortal", 1)
    assert client.exists("mortal") == 0

    pipe = client.pipeline(transaction=False)
    for index in range(1000):
        pipe.set(f"key:{index}", index)
    for index in range(1000):
        pipe.get(f"key:{index}")
    replies = pipe.execute()
    assert replies[:1000] == [True] * 1000
    assert replies[1000:] == [str(index).encode() for index in range(1000)]
    assert set(client.scan_iter(match="key:*", count=50)) == {f"key:{index}".encode() for index in range(1000)}
    assert client.mget("key:1", "missing", "key:2") == [b"1", None, b"2"]

    with client.pipeline() as transaction:
        transaction.watch("watched")
        transaction.multi()
        transaction.set("watched", 1)
        transaction.incr("watched")
        assert transaction.execute() == [True, 2]
        transaction.watch("watched")
        client.set("watched", 3)
        transaction.multi()
        transaction.set("watched", 4)
        try:
            transaction.execute()
            raise AssertionError("EXEC passed although a watched key had changed")
        except module.WatchError:
            assert client.get("watched") == b"3"

    assert client.rpush("list", "a", "b", 3) == 3
    assert client.lrange("list", 0, -1) == [b"a", b"b", b"3"]
    assert client.blpop(["none", "list"], timeout=1) == ((b"list", b"a") if protocol == 2 else [b"list", b"a"])
    assert client.lmove("list", "other", "LEFT", "RIGHT") == b"b" and client.lpos("other", "b") == 0
    assert client.blpop(["none"], timeout=0.05) is None
    waiting = threading.Thread(target=lambda: results.append(Client(host="127.0.0.1", port=port).brpop("late", timeout=20)))
    results = []
    waiting.start()
    while client.info("clients")["blocked_clients"] == 0:
        pass
    client.lpush("late", "value")
    waiting.join()
    assert list(results[0]) == [b"late", b"value"]

    listener = client.pubsub()
    listener.subscribe("news")
    listener.psubscribe("n*")
    listener.ssubscribe("shard")

    def next_message(kind):
        while True:
            message = listener.get_sharded_message(timeout=20) if kind == "smessage" else listener.get_message(timeout=20)
            assert message is not None, f"no {kind}"
            if message["type"] == kind:
                return message["channel"], message["data"]

    assert next_message("ssubscribe") == (b"shard", 1)
    assert client.publish("news", "hello") == 2
    assert next_message("message") == (b"news", b"hello")
    assert next_message("pmessage") == (b"news", b"hello")
    assert client.spublish("shard", binary) == 1
    assert next_message("smessage") == (b"shard", binary)
    assert client.pubsub_channels() == [b"news"] and client.pubsub_numsub("news") == [(b"news", 1)]
    assert client.pubsub_numpat() == 1
    client.config_set("notify-keyspace-events", "Kl")
    listener.psubscribe("__keyspace@0__:*")
    assert next_message("psubscribe") == (b"__keyspace@0__:*", 3)
    client.rpush("noted", "x")
    assert next_message("pmessage") == (b"__keyspace@0__:noted", b"rpush")
    client.config_set("notify-keyspace-events", "")
    listener.unsubscribe()
    assert next_message("unsubscribe") == (b"news", 2)
    listener.close()

    try:
        client.incr("bin\x00key")
        raise AssertionError("INCR of a text passed")
    except module.ResponseError as error:
        assert "not an integer" in str(error)

    other = Client(host="127.0.0.1", port=port, db=1, protocol=protocol, decode_responses=True)
    assert other.dbsize() == 0 and other.client_setname("smoke") and other.client_getname() == "smoke"
    assert any(entry["name"] == "smoke" for entry in client.client_list())
    victim = other.client_id()
    assert client.client_kill_filter(_id=victim) == 1
    assert other.ping() is True, "a killed connection is opened again"
    assert other.client_id() != victim

    assert "SLUICE_TLS_CA" in os.environ or client.info("server")["tcp_port"] == port
    assert client.config_get("databases") == {"databases": "16"}
    assert client.type("once") in (b"string", "string")
    other.close()
    client.close()


for version in (2, 3):
    exercise(int(sys.argv[2]), version)
print(f"{sys.argv[1]} {module.__version__}: RESP2 and RESP3 work")
