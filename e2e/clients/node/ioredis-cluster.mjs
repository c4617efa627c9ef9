// What a Node.js program does with a cluster through ioredis: node ioredis-cluster.mjs PORT...
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { Cluster, Redis } from "ioredis";
import { Nodes, names, ports, primaries, replicas, until } from "./cluster-common.mjs";

const plain = new Map(ports.map((port) => [port, new Redis({ host: "127.0.0.1", port })]));
const nodes = new Nodes((port, ...words) => plain.get(port).call(...words));
await nodes.flush();
const open = (more) => new Cluster([{ host: "127.0.0.1", port: ports[0] }], { shardedSubscribers: true, ...more });
const client = open();
await until("a client that is ready", () => client.status === "ready");
const known = (role) => client.nodes(role).map((node) => node.options.port).sort();
assert.deepEqual(known("master"), [...primaries].sort());
assert.deepEqual(known("slave"), [...replicas].sort());

await Promise.all(names.map((name) => client.set(name, name)));
assert.deepEqual(await Promise.all(names.map((name) => client.get(name))), names);
for (const port of primaries) assert.ok((await nodes.ask(port, "DBSIZE")) > 50);
await client.mset("{tag}:1", "a", "{tag}:2", "b");
assert.deepEqual(await client.mget("{tag}:1", "missing{tag}", "{tag}:2"), ["a", null, "b"]);
await assert.rejects(client.mget("key:1", "key:2"), /CROSSSLOT/);
// Its pipelines stay with the slots of one node.
const tags = Array.from({ length: 100 }, (_, index) => `{pipe}:${index}`);
const pipeline = client.pipeline();
for (const tag of tags) pipeline.set(tag, tag).append(tag, "+");
assert.deepEqual(await pipeline.exec(), tags.flatMap((tag) => [[null, "OK"], [null, tag.length + 1]]));
client.defineCommand("add", { numberOfKeys: 2, lua: "return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('incr', KEYS[2])}" });
for (const sum of [5, 10]) assert.deepEqual(await client.add("{s}:1", "{s}:2", 5), [sum, sum / 5]);

const got = new Map();
client.on("smessage", (channel, message) => got.set(channel, message));
const channels = Array.from({ length: 6 }, (_, index) => `channel:${index}`);
for (const channel of channels) await client.ssubscribe(channel);
for (const channel of channels) assert.equal(await client.spublish(channel, "of " + channel), 1);
await until("messages", () => got.size === channels.length);
for (const channel of channels) assert.equal(got.get(channel), "of " + channel);

await nodes.followed();
const spread = open({ scaleReads: "slave" });
const before = await nodes.reads();
assert.deepEqual(await Promise.all(names.map((name) => spread.get(name))), names);
assert.equal((await nodes.reads()) - before, names.length);
spread.disconnect();

await nodes.moveSlot((key) => client.get(key), (key, value) => client.set(key, value));
const slots = await client.cluster("SLOTS");
assert.equal(slots.reduce((sum, [first, last]) => sum + last - first + 1, 0), 16384);
assert.equal((await client.cluster("SHARDS")).length, 3);
client.disconnect();
for (const node of plain.values()) node.disconnect();
const { version } = createRequire(import.meta.url)("ioredis/package.json");
console.log(`ioredis ${version}: a cluster works`);
