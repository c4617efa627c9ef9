// What a Node.js program does with a server through ioredis: node ioredis.mjs PORT
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { Redis } from "ioredis";

const port = Number(process.argv[2]);
// The port is one of TLS where the authority's file is named.
const authority = process.env.SLUICE_TLS_CA;
const tls = authority ? { tls: { ca: readFileSync(authority), servername: "localhost" } } : {};

function open(db = 0) {
  const client = new Redis({ host: "127.0.0.1", port, db, ...tls, retryStrategy: () => 20 });
  client.on("error", () => {}); // the connection that is killed below reports it here
  return client;
}

const client = open();
assert.equal(await client.ping(), "PONG");
await client.flushall();
const binary = Buffer.from(Array.from({ length: 256 }, (_, index) => index));
await client.set("binary", binary);
assert.deepEqual(await client.getBuffer("binary"), binary);
assert.equal(await client.get("missing"), null);
assert.equal(await client.set("binary", "x", "EX", 1000, "NX"), null);
await client.expire("binary", 1000);
const ttl = await client.ttl("binary");
assert.ok(ttl > 990 && ttl <= 1000);

const pipeline = client.pipeline();
for (let index = 0; index < 500; index++) pipeline.set(`key:${index}`, index).incr(`key:${index}`);
const replies = await pipeline.exec();
replies.forEach(([error, reply], index) => {
  assert.equal(error, null);
  assert.equal(reply, index % 2 === 0 ? "OK" : (index - 1) / 2 + 1);
});
const found = new Set();
for await (const keys of client.scanStream({ match: "key:*", count: 50 })) keys.forEach((key) => found.add(key));
assert.equal(found.size, 500);
await assert.rejects(client.incr("binary"), /not an integer/);

const other = open(1);
assert.equal(await other.dbsize(), 0);
const id = await other.client("ID");
assert.equal(await client.client("KILL", "ID", id), 1);
for (let left = 250; left > 0; left--) {
  const now = await other.client("ID").catch(() => id);
  if (now !== id) break;
  assert.ok(left > 1, "a killed connection is opened again");
  await new Promise((resolve) => setTimeout(resolve, 20));
}
assert.equal(await other.dbsize(), 0);
other.disconnect();
client.disconnect();
const { version } = createRequire(import.meta.url)("ioredis/package.json");
console.log(`ioredis ${version}: works`);
