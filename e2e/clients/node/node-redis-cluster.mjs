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

for (const version of [2, 3]) await exercise(version);
for (const node of plain.values()) await node.close();
const { version } = createRequire(import.meta.url)("redis/package.json");
console.log(`node-redis ${version}: a cluster by RESP2 and RESP3 works`);
