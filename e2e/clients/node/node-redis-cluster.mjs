// What a Node.js program does with a cluster through node-redis: node node-redis-cluster.mjs PORT...
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createClient, createCluster } from "redis";
import { Nodes, names, ports, primaries, replicas, until } from "./cluster-common.mjs";

const plain = new Map();
for (const port of ports) plain.set(port, await createClient({ RESP: 2, socket: { host: "127.0.0.1", port } }).connect());
const nodes = new Nodes((port, ...words) => plain.get(port).sendCommand(words));

async function open(RESP, more) {
  const client = createCluster({ RESP, rootNodes: [{ url: `redis://127.0.0.1:${ports[0]}` }], ...more });
  client.on("error", (error) => assert.fail(error));
  await client.connect();
  return client;
}

async function exercise(RESP) {
  await nodes.flush();
  const client = await open(RESP);
  assert.deepEqual(client.masters.map((node) => node.port).sort(), [...primaries].sort());

  await Promise.all(names.map((name) => client.set(name, name))); // sent as one pipeline to each node
  assert.deepEqual(await Promise.all(names.map((name) => client.get(name))), names);
  for (const port of primaries) assert.ok((await nodes.ask(port, "DBSIZE")) > 50);
  await client.mSet({ "{tag}:1": "a", "{tag}:2": "b" });
  assert.deepEqual(await client.mGet(["{tag}:1", "missing{tag}", "{tag}:2"]), ["a", null, "b"]);
  assert.deepEqual(await client.mGet(["key:1", "key:2"]), ["key:1", "key:2"]); // it asks for each slot apart
  assert.deepEqual(await client.multi().set("{m}:1", "1").incr("{m}:1").get("{m}:1").exec(), ["OK", 2, "2"]);
  const script = "return {redis.call('incrby', KEYS[1], ARGV[1]), redis.call('incr', KEYS[2])}";
  assert.deepEqual(await client.eval(script, { keys: ["{s}:1", "{s}:2"], arguments: ["5"] }), [5, 1]);

  const got = new Map();
  const channels = Array.from({ length: 6 }, (_, index) => `channel:${index}`);
  for (const channel of channels) await client.sSubscribe(channel, (message) => got.set(channel, message));
  for (const channel of channels) assert.equal(await client.sPublish(channel, "of " + channel), 1);
  await until("messages", () => got.size === channels.length);
  for (const channel of channels) assert.equal(got.get(channel), "of " + channel);
  for (const channel of channels) await client.sUnsubscribe(channel);

  await nodes.followed();
  const spread = await open(RESP, { useReplicas: true });
  assert.deepEqual(spread.replicas.map((node) => node.port).sort(), [...replicas].sort());
  const before = await nodes.reads();
  assert.deepEqual(await Promise.all(names.map((name) => spread.get(name))), names);
  assert.ok((await nodes.reads()) - before > 50);
  await spread.close();

  await nodes.moveSlot((key) => client.get(key), (key, value) => client.set(key, value));
  await client.close();
}

// Slots that leave by MIGRATESLOTS: the node that they leave tells the client, which asks the next owner without a redirect.
async function hearsOfMoves() {
  const client = await open(3, { defaults: { maintNotifications: "enabled" } });
  const [one, other] = primaries;
  const [tag, slot] = await nodes.tagOf(one);
  const owner = () => client.slots[slot].master.port;
  const key = names[(await Promise.all(names.map((name) => nodes.ask(one, "CLUSTER", "KEYSLOT", name)))).findIndex((slot) => slot < 5461)];
  const redirects = async () => {
    let sum = 0;
    for (const port of primaries) sum += Number(/errorstat_MOVED:count=(\d+)/.exec(await nodes.ask(port, "INFO", "errorstats"))?.[1] ?? 0);
    return sum;
  };
  await client.set(`${tag}:heard`, "1");
  for (const [source, target] of [[one, other], [other, one]]) {
    const before = await redirects();
    assert.equal(owner(), source);
    await client.get(key);
    const id = await nodes.ask(target, "CLUSTER", "MYID");
    await nodes.ask(source, "CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", String(slot), String(slot), "NODE", id);
    await until("the notification", () => owner() === target);
    assert.equal(await client.get(`${tag}:heard`), "1");
    assert.equal(await redirects(), before);
  }
  await client.close();
}

for (const version of [2, 3]) await exercise(version);
await hearsOfMoves();
for (const node of plain.values()) await node.close();
const { version } = createRequire(import.meta.url)("redis/package.json");
console.log(`node-redis ${version}: a cluster by RESP2 and RESP3 works`);
