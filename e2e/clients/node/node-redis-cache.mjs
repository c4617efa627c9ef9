// The client-side cache of node-redis: node-redis-cache.mjs PORT. Another client writes, deletes and flushes; no stale value
// stays. (Those of redis-py and Jedis refuse servers of Valkey, and valkey-py has none.)
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { createClient } from "redis";

const port = Number(process.argv[2]);
const socket = { host: "127.0.0.1", port };
const reader = createClient({ RESP: 3, clientSideCache: { ttl: 0, maxEntries: 0, evictPolicy: "LRU" }, socket });
const writer = createClient({ RESP: 3, socket });
await reader.connect();
await writer.connect();
await writer.flushAll();

let rounds = 0;
const end = Date.now() + 1000 * Number(process.env.SLUICE_CACHE_SECONDS ?? 4);
while (Date.now() < end) {
  const key = `cached:${rounds % 20}`;
  // In the cache, with the value of before.
  await reader.get(key);
  let expected = null;
  if (rounds % 7 === 5) await writer.del(key);
  else if (rounds % 7 === 6) await writer.flushAll();
  else {
    expected = String(rounds);
    await writer.set(key, expected);
  }
  const until = Date.now() + 10_000;
  while ((await reader.get(key)) !== expected) assert.ok(Date.now() < until, `${key} is stale`);
  rounds += 1;
}

// A cached key is read without a word to the server.
const commands = async () => Number(/total_commands_processed:(\d+)/.exec(await writer.info("stats"))[1]);
await writer.set("quiet", "1");
await reader.get("quiet");
const before = await commands();
for (let i = 0; i < 100; i += 1) assert.equal(await reader.get("quiet"), "1");
assert.ok((await commands()) - before < 20, "a cached key is not asked for");
assert.match(await writer.info("clients"), /tracking_clients:1/);
reader.destroy();
writer.destroy();
const { version } = createRequire(import.meta.url)("redis/package.json");
console.log(`node-redis ${version}: its cache is never stale, ${rounds} changes`);
