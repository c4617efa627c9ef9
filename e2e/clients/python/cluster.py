"""What a Python program does with a cluster: cluster.py MODULE PORT..., where MODULE is redis or valkey, and the ports are those of three
primaries and of their replicas. The client is told the first one alone."""
import importlib
import sys
import time

module = importlib.import_module(sys.argv[1])
Plain = getattr(module, "Redis", None) or module.Valkey
Cluster = getattr(module, "RedisCluster", None) or module.ValkeyCluster
ports = [int(port) for port in sys.argv[2:]]
nodes = {port: Plain(host="127.0.0.1", port=port, decode_responses=True) for port in ports}
# redis-py has another name for the option since version 5.3.
if sys.argv[1] == "redis":
    replicas = {"load_balancing_strategy": importlib.import_module("redis.cluster").LoadBalancingStrategy.ROUND_ROBIN}
else:
    replicas = {"read_from_replicas": True}
ids = {port: node.execute_command("CLUSTER MYID") for port, node in nodes.items()}


def until(what, holds):
    end = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < end, what
        time.sleep(0.005)


def asked(port, command):
    return nodes[port].info("commandstats").get("cmdstat_" + command, {"calls": 0})["calls"]


def exercise(protocol):
    client = Cluster(host="127.0.0.1", port=ports[0], protocol=protocol, decode_responses=True)
    assert {node.port for node in client.get_primaries()} == set(ports[:3])
    assert {node.port for node in client.get_replicas()} == set(ports[3:])
    for port in ports[:3]:
        nodes[port].flushall()

    # Keys of every node, one by one, and in one pipeline.
    names = [f"key:{number}" for number in range(300)]
    for name in names:
        assert client.set(name, name) is True
    assert [client.get(name) for name in names] == names
    assert all(nodes[port].dbsize() > 50 for port in ports[:3])
    pipe = client.pipeline()
    for name in names:
        pipe.append(name, "+")
        pipe.get(name)
    assert pipe.execute() == [reply for name in names for reply in (len(name) + 1, name + "+")]
    assert client.mset({"{tag}:1": "a", "{tag}:2": "b"}) is True and client.mget("{tag}:1", "missing{tag}", "{tag}:2") == ["a", None, "b"]
    try:
        client.execute_command("MGET", "key:1", "key:2", target_nodes=client.get_primaries()[0])
        raise AssertionError("MGET of two slots passed")
    except module.ResponseError as error:
        assert "CROSSSLOT" in repr(error) or "same slot" in str(error), repr(error)
    script = "return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('incr', KEYS[2])}"
    assert client.eval(script, 2, "{s}:1", "{s}:2", 5) == [5, 1]
    sha = client.script_load(script)
    assert client.evalsha(sha, 2, "{s}:1", "{s}:2", 5) == [10, 2]
    try:
        client.eval("return redis.call('get', 'elsewhere')", 1, "{s}:1")
        raise AssertionError("a script reached another slot")
    except module.ResponseError as error:
        assert "non local key" in str(error), error

    # Messages of channels of every shard.
    listener = client.pubsub()
    channels = [f"channel:{number}" for number in range(6)]
    for channel in channels:
        listener.ssubscribe(channel)
    got = {}
    def receive():
        for channel in channels:
            message = listener.get_sharded_message(timeout=0.01, target_node=client.get_node_from_key(channel))
            if message and message["type"] == "smessage":
                got[message["channel"]] = message["data"]
        return len(got) == len(channels)
    for channel in channels:
        # The answer to SSUBSCRIBE comes ahead of any message.
        until("a subscription", lambda: client.spublish(channel, "of " + channel) == 1)
    until("messages", receive)
    assert got == {channel: "of " + channel for channel in channels}
    listener.close()

    # Reads go to replicas too, once they have what was written.
    until("replicas", lambda: all(nodes[port].dbsize() == nodes[ports[at]].dbsize() for at, port in enumerate(ports[3:])))
    spread = Cluster(host="127.0.0.1", port=ports[0], protocol=protocol, decode_responses=True, **replicas)
    before = sum(asked(port, "get") for port in ports[3:])
    until("replicas with the data", lambda: [spread.get(name) for name in names] == [name + "+" for name in names])
    assert sum(asked(port, "get") for port in ports[3:]) > before + 50
    spread.close()

    # A slot on its way: what has gone is found by ASK, what has not is answered here.
    slot = client.keyslot("{move}")
    source = next(port for port in ports[:3] if client.get_node_from_key("{move}").port == port)
    target = next(port for port in ports[:3] if port != source)
    client.set("{move}:here", "1")
    client.set("{move}:gone", "2")
    nodes[target].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[source])
    nodes[source].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[target])
    assert nodes[source].migrate("127.0.0.1", target, "{move}:gone", 0, 5000) == "OK"
    assert client.get("{move}:here") == "1" and client.get("{move}:gone") == "2"
    assert client.set("{move}:new", "3") and client.get("{move}:new") == "3"
    assert nodes[target].execute_command("CLUSTER COUNTKEYSINSLOT", slot) == 2
    assert client.get_node_from_key("{move}").port == source

    # And one that has moved: MOVED, here and back.
    def move(source, target):
        keys = nodes[source].execute_command("CLUSTER GETKEYSINSLOT", slot, 100)
        if keys:
            nodes[source].migrate("127.0.0.1", target, keys, 0, 5000)
        for port in (target, source):
            assert nodes[port].execute_command("CLUSTER SETSLOT", slot, "NODE", ids[target]) in ("OK", True)
        for key, value in (("{move}:here", "1"), ("{move}:gone", "2"), ("{move}:new", "3")):
            assert client.get(key) == value
        assert client.get_node_from_key("{move}").port == target
    move(source, target)
    nodes[source].execute_command("CLUSTER SETSLOT", slot, "IMPORTING", ids[target])
    nodes[target].execute_command("CLUSTER SETSLOT", slot, "MIGRATING", ids[source])
    move(target, source)

    # The map as the client's own parsers read it.
    slots = client.cluster_slots()
    assert {range_["primary"][1] for range_ in slots.values()} == set(ports[:3]) and all(range_["replicas"] for range_ in slots.values())
    shards = client.cluster_shards()
    assert len(shards) == 3 and all(len(shard["nodes"]) == 2 for shard in shards), shards
    ends = [shard["slots"] if isinstance(shard["slots"][0], int) else shard["slots"][0] for shard in shards]
    assert sum(last - first + 1 for first, last in ends) == 16384, shards
    assert len(client.cluster_nodes()) == 6 and client.cluster_info()["cluster_state"] == "ok"
    client.close()


def hears_of_moves():
    """The client learns of slots that have left by MIGRATESLOTS from the node that they left, without a redirect."""
    config = importlib.import_module("redis.maint_notifications").MaintNotificationsConfig(enabled=True)
    client = Cluster(host="127.0.0.1", port=ports[0], protocol=3, decode_responses=True, maint_notifications_config=config)
    client.set("{move}:heard", "1")
    slot = client.keyslot("{move}")

    def owner():
        return client.get_node_from_key("{move}").port

    def redirects():
        return sum(nodes[port].info("errorstats").get("errorstat_MOVED", {"count": 0})["count"] for port in ports[:3])

    first = owner()
    target = next(port for port in ports[:3] if port != first)
    for source, target in ((first, target), (target, first)):
        # Another key of the source: what the client reads next on that connection has the notification ahead of it.
        other = next(key for key in (f"other:{number}" for number in range(1000)) if client.get_node_from_key(key).port == source)
        client.set(other, "2")
        before = redirects()
        nodes[source].execute_command("CLUSTER MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", ids[target])
        until("the move", lambda: nodes[source].execute_command("CLUSTER GETSLOTMIGRATIONS")[0]["state"] == "success")
        assert owner() == source
        assert client.get(other) == "2"
        assert owner() == target
        assert client.get("{move}:heard") == "1"
        assert redirects() == before
    client.close()


# By RESP3 valkey-py 6.2 takes ASK and MOVED for errors of the command, whoever sends them.
versions = (2, 3) if sys.argv[1] == "redis" else (2,)
for version in versions:
    exercise(version)
if sys.argv[1] == "redis":
    hears_of_moves()
print(f"{sys.argv[1]} {module.__version__}: a cluster by {' and '.join(f'RESP{version}' for version in versions)} works")
