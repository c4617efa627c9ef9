// Queues of BullMQ, whose every step is a script: node bullmq.mjs PORT
import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { FlowProducer, Queue, QueueEvents, Worker } from "bullmq";
import { Redis } from "ioredis";

const port = Number(process.argv[2]);
const client = new Redis({ host: "127.0.0.1", port, maxRetriesPerRequest: null });
await client.flushall();
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const queue = new Queue("work", { connection });
const events = new QueueEvents("work", { connection });
await events.waitUntilReady();

// A hundred jobs at once, with priorities, a delay and a repeated failure, are each done once.
const seen = [];
const tries = new Map();
const worker = new Worker(
  "work",
  async (job) => {
    const count = (tries.get(job.id) ?? 0) + 1;
    tries.set(job.id, count);
    if (job.name === "fails twice" && count < 3) throw new Error(`try ${count}`);
    await job.updateProgress(50);
    seen.push(job.name);
    return { squared: job.data.number ** 2 };
  },
  { connection, concurrency: 4 },
);
const jobs = await queue.addBulk(
  Array.from({ length: 100 }, (_, number) => ({ name: "square", data: { number }, opts: { priority: 1 + (number % 3) } })),
);
const late = await queue.add("late", { number: 7 }, { delay: 200 });
const stubborn = await queue.add("fails twice", { number: 3 }, { attempts: 3, backoff: { type: "fixed", delay: 20 } });
const hopeless = await queue.add("fails twice", { number: 3 }, { attempts: 1 });
await assert.rejects(hopeless.waitUntilFinished(events, 20000), /try 1/);
for (const job of jobs) assert.deepEqual(await job.waitUntilFinished(events, 20000), { squared: job.data.number ** 2 });
assert.deepEqual(await late.waitUntilFinished(events, 20000), { squared: 49 });
assert.deepEqual(await stubborn.waitUntilFinished(events, 20000), { squared: 9 });
assert.equal(tries.get(stubborn.id), 3);
assert.equal(seen.length, 102);
const counts = await queue.getJobCounts("completed", "failed", "waiting", "active", "delayed");
assert.deepEqual(counts, { completed: 102, failed: 1, waiting: 0, active: 0, delayed: 0 });

// The same id is the same job; a paused queue gives none away; what was removed is gone.
await queue.pause();
const first = await queue.add("square", { number: 1 }, { jobId: "once" });
await queue.add("square", { number: 2 }, { jobId: "once" });
assert.equal((await queue.getJob("once")).data.number, 1);
assert.equal(await queue.count(), 1);
await first.remove();
assert.equal(await queue.count(), 0);
await queue.resume();

// A parent waits for its children.
const flow = new FlowProducer({ connection });
const tree = await flow.add({
  name: "square",
  queueName: "work",
  data: { number: 5 },
  children: [1, 2, 3].map((number) => ({ name: "square", queueName: "work", data: { number } })),
});
assert.deepEqual(await tree.job.waitUntilFinished(events, 20000), { squared: 25 });
const values = Object.values(await tree.job.getChildrenValues()).map((value) => value.squared);
assert.deepEqual(values.sort(), [1, 4, 9]);

await worker.close();
await flow.close();
await events.close();
await queue.obliterate({ force: true });
assert.deepEqual(await client.keys("bull:work:*"), []);
await queue.close();
client.disconnect();
const { version } = createRequire(import.meta.url)("bullmq/package.json");
console.log(`bullmq ${version}: works`);
process.exit(0);
