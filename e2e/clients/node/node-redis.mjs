// What a Node.js program does with a server through node-redis: node node-redis.mjs PORT
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { createClient } from "redis";

const port = Number(process.argv[2]);
// The port is one of TLS where the authority's file is named.
const authority = process.env.SLUICE_TLS_CA;
const tls = authority ? { tls: true, ca: readFileSync(authority), servername: "localhost" } : {};

async function open(RESP, database = 0) {
  const client = createClient({ RESP, database, socket: { host: "127.0.0.1", port, ...tls, reconnectStrategy: () => 20 } });
  client.on("error", () => {}); // the connection that is killed below reports it here
  await client.connect();
  return client;
}

async function exercise(RESP) {
  const client = await open(RESP);
  assert.equal(await client.ping(), "PONG");
  await client.flushAll();

  assert.equal(await client.set("a", "1"), "OK");
  assert.equal(await client.get("a"), "1");
  assert.equal(await client.get("missing"), null);
  assert.equal(await client.set("a", "2", { condition: "NX" }), null);
  assert.equal(await client.expire("a", 1000), 1);
  const ttl = await client.ttl("a");
  assert.ok(ttl > 990 && ttl <= 1000);

  const names = Array.from({ length: 500 }, (_, index) => `key:${index}`);
  await Promise.all(names.map((name) => client.set(name, name))); // sent as one pipeline
  const values = await Promise.all(names.map((name) => client.get(name)));
  assert.deepEqual(values, names);
  const found = new Set();
  for await (const keys of client.scanIterator({ MATCH: "key:*", COUNT: 50 })) for (const key of keys) found.add(key);
  assert.deepEqual([...found].sort(), [...names].sort());
  await assert.rejects(client.incr("key:1"), /not an integer/);

  const other = await open(RESP, 1);
  assert.equal(await other.dbSize(), 0);
  const id = await other.clientId();
  assert.equal(await client.sendCommand(["CLIENT", "KILL", "ID", String(id)]), 1);
  for (let left = 250; left > 0; left--) {
    const now = await other.clientId().catch(() => id);
    if (now !== id) break;
    assert.ok(left > 1, "a killed connection is opened again");
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(await other.dbSize(), 0);
  other.destroy();
  await client.close();
}

for (const version of [2, 3]) await exercise(version);
const { version } = createRequire(import.meta.url)("redis/package.json");
console.log(`node-redis ${version}: RESP2 and RESP3 work`);
