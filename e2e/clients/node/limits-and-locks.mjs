// Rate limits and locks of Node.js libraries, which are scripts: node limits-and-locks.mjs PORT
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { Redis } from "ioredis";
import { RateLimiterRedis } from "rate-limiter-flexible";
import Redlock from "redlock";

const require = createRequire(import.meta.url);
const client = new Redis({ host: "127.0.0.1", port: Number(process.argv[2]) });
await client.flushall();

const limiter = new RateLimiterRedis({ storeClient: client, points: 5, duration: 1, keyPrefix: "limit" });
const asked = await Promise.allSettled(Array.from({ length: 20 }, () => limiter.consume("somebody")));
assert.equal(asked.filter((one) => one.status === "fulfilled").length, 5);
const refused = asked.find((one) => one.status === "rejected").reason;
assert.ok(refused.msBeforeNext > 0 && refused.msBeforeNext <= 1000 && refused.remainingPoints === 0);
await limiter.consume("somebody else");
await new Promise((resolve) => setTimeout(resolve, refused.msBeforeNext + 50));
assert.equal((await limiter.consume("somebody")).remainingPoints, 4);
const blocking = new RateLimiterRedis({ storeClient: client, points: 1, duration: 1, blockDuration: 30, keyPrefix: "block" });
await blocking.consume("somebody");
await assert.rejects(blocking.consume("somebody"), (reason) => reason.msBeforeNext > 1000);

const redlock = new Redlock([client], { retryCount: 0 });
const lock = await redlock.lock("locks:thing", 1000);
await assert.rejects(redlock.lock("locks:thing", 1000), { name: "LockError" });
const longer = await lock.extend(5000);
const left = await client.pttl("locks:thing");
assert.ok(left > 3000 && left <= 5000);
await longer.unlock();
assert.equal(await client.exists("locks:thing"), 0);
await assert.rejects(longer.unlock(), { name: "LockError" });
const brief = await redlock.lock("locks:thing", 50);
await new Promise((resolve) => setTimeout(resolve, 80));
await (await redlock.lock("locks:thing", 1000)).unlock();
await assert.rejects(brief.extend(1000), { name: "LockError" });

client.disconnect();
const version = (name) => require(`${name}/package.json`).version;
console.log(`rate-limiter-flexible ${version("rate-limiter-flexible")}, redlock ${version("redlock")}: work`);
