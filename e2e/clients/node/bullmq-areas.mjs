// The rest of BullMQ's steps, by area, as its own tests group them: node bullmq-areas.mjs PORT
// (Its tests are in no package; each area here is written for what the library documents.)
import assert from "node:assert/strict";
import { setTimeout as sleep } from "node:timers/promises";
import { DelayedError, FlowProducer, Queue, QueueEvents, RateLimitError, UnrecoverableError, WaitingChildrenError, Worker } from "bullmq";
import { Redis } from "ioredis";

const port = Number(process.argv[2]);
const client = new Redis({ host: "127.0.0.1", port, maxRetriesPerRequest: null });
await client.flushall();
const connection = { host: "127.0.0.1", port, maxRetriesPerRequest: null };
const options = { connection };

/** Runs an area with a queue and its events of its own, which it leaves empty. */
async function area(name, body) {
  const queue = new Queue(name, options);
  const events = new QueueEvents(name, options);
  await events.waitUntilReady();
  const workers = [];
  const work = (job, more = {}) => {
    const worker = new Worker(name, job, { ...options, ...more });
    worker.on("error", () => {});
    workers.push(worker);
    return worker;
  };
  await body(queue, events, work);
  for (const worker of workers) await worker.close();
  await events.close();
  await queue.obliterate({ force: true });
  assert.deepEqual(await client.keys(`bull:${name}:*`), [], `${name} leaves nothing`);
  await queue.close();
}
/** Waits until a condition holds; 10 s at most. */
async function until(what, holds) {
  for (let tries = 0; tries < 1000; tries++) {
    if (await holds()) return;
    await sleep(10);
  }
  assert.fail(`${what} does not come about`);
}

await area("order", async (queue, events, work) => {
  await queue.pause();
  await queue.addBulk([1, 2, 3].map((n) => ({ name: `fifo${n}`, data: {} })));
  await queue.add("lifo", {}, { lifo: true });
  await queue.add("low", {}, { priority: 10 });
  const raised = await queue.add("raised", {}, { priority: 20 });
  await raised.changePriority({ priority: 5 });
  assert.deepEqual(await queue.getCountsPerPriority([0, 5, 10, 20]), { 0: 4, 5: 1, 10: 1, 20: 0 });
  assert.deepEqual((await queue.getPrioritized()).map((job) => job.name), ["raised", "low"]);
  await queue.resume();
  const seen = [];
  work(async (job) => void seen.push(job.name));
  await until("all done", async () => seen.length === 6);
  assert.deepEqual(seen, ["lifo", "fifo1", "fifo2", "fifo3", "raised", "low"]);
});

await area("delays", async (queue, events, work) => {
  const late = await queue.add("late", {}, { delay: 3_600_000 });
  const changed = await queue.add("changed", {}, { delay: 3_600_000 });
  assert.equal(await queue.getDelayedCount(), 2);
  await changed.changeDelay(50);
  await late.promote();
  await assert.rejects(late.promote(), /not in the delayed state/);
  const seen = [];
  work(async (job, token) => {
    if (job.name === "late" && job.attemptsStarted === 1) {
      await job.moveToDelayed(Date.now() + 30, token);
      throw new DelayedError();
    }
    seen.push(job.name);
  });
  await until("both done", async () => seen.length === 2);
  assert.deepEqual(seen.sort(), ["changed", "late"]);
});

await area("failures", async (queue, events, work) => {
  const tries = {};
  work(async (job) => {
    tries[job.id] = (tries[job.id] ?? 0) + 1;
    await job.log(`try ${tries[job.id]}`);
    if (job.name === "never") throw new UnrecoverableError("no use");
    if (tries[job.id] < 3) throw new Error("again");
    return "fine";
  });
  const kept = await queue.add("kept", {}, { attempts: 5, backoff: { type: "exponential", delay: 5 } });
  assert.equal(await kept.waitUntilFinished(events, 10000), "fine");
  assert.deepEqual((await queue.getJobLogs(kept.id)).logs, ["try 1", "try 2", "try 3"]);
  const never = await queue.add("never", {}, { attempts: 5 });
  await assert.rejects(never.waitUntilFinished(events, 10000), /no use/);
  assert.equal(tries[never.id], 1);
  const one = await queue.add("one", {}, { attempts: 1 });
  await assert.rejects(one.waitUntilFinished(events, 10000), /again/);
  assert.equal(await queue.getFailedCount(), 2);
  await (await queue.getJob(one.id)).retry("failed");
  await until("failed again", async () => tries[one.id] === 2 && (await queue.getFailedCount()) === 2);
  await queue.retryJobs({ state: "failed", count: 1000 });
  await until("retried", async () => (await queue.getCompletedCount()) === 2 && (await queue.getFailedCount()) === 1);
  assert.deepEqual((await queue.clean(0, 100, "failed")).length, 1);
  assert.equal((await queue.clean(0, 1, "completed")).length, 1);
});

await area("retention", async (queue, events, work) => {
  work(async (job) => job.data);
  const options = { removeOnComplete: { count: 3 } };
  const jobs = [];
  for (let n = 0; n < 8; n++) jobs.push(await queue.add("n", n, options));
  await until("three are kept", async () => (await queue.getCompletedCount()) === 3 && (await queue.count()) === 0);
  const gone = await queue.add("gone", 1, { removeOnComplete: true });
  await gone.waitUntilFinished(events, 10000).catch(() => {});
  await until("it is gone", async () => (await queue.getJob(gone.id)) === undefined);
});

await area("limits", async (queue, events, work) => {
  const times = [];
  const worker = work(async () => void times.push(Date.now()), { limiter: { max: 2, duration: 300 }, concurrency: 5 });
  await queue.addBulk(Array.from({ length: 6 }, () => ({ name: "limited", data: {} })));
  await until("all done", async () => times.length === 6);
  assert.ok(times[5] - times[0] >= 550, `two in each 300 ms: ${times.map((time) => time - times[0])}`);
  await worker.close();
  let first = true;
  work(async (job) => {
    if (first) {
      first = false;
      await queue.rateLimit(100);
      throw new RateLimitError();
    }
    return "later";
  });
  const job = await queue.add("told", {});
  assert.equal(await job.waitUntilFinished(events, 10000), "later");
  assert.equal((await queue.getJob(job.id)).attemptsMade, 1);
  await queue.setGlobalConcurrency(1);
  assert.equal(await queue.getGlobalConcurrency(), 1);
});

await area("schedulers", async (queue, events, work) => {
  const seen = [];
  work(async (job) => void seen.push(job.name));
  await queue.upsertJobScheduler("often", { every: 40, limit: 4 }, { name: "tick", data: { a: 1 } });
  await until("four ticks", async () => seen.length >= 4);
  await queue.upsertJobScheduler("rare", { pattern: "0 0 3 * * *" }, { name: "night" });
  const known = await queue.getJobSchedulers();
  assert.ok(known.some((scheduler) => scheduler.key === "rare"));
  assert.equal(await queue.removeJobScheduler("rare"), true);
  assert.equal(await queue.removeJobScheduler("rare"), false);
  await queue.removeJobScheduler("often");
});

await area("stalled", async (queue, events, work) => {
  // A worker that takes a job and dies: another one finds the lock gone.
  const lost = new Worker("stalled", null, options);
  lost.on("error", () => {});
  const job = await queue.add("slow", {});
  const taken = await lost.getNextJob("token-of-the-dead");
  assert.equal(taken.id, job.id);
  await client.del(`bull:stalled:${job.id}:lock`);
  await lost.close();
  let stalls = 0;
  events.on("stalled", () => stalls++);
  const worker = work(async () => "saved", { stalledInterval: 50, maxStalledCount: 1 });
  assert.equal(await job.waitUntilFinished(events, 10000), "saved");
  assert.ok(stalls >= 1);
  await worker.close();
});

await area("by-hand", async (queue, events) => {
  const hands = new Worker("by-hand", null, options);
  await queue.add("a", { x: 1 });
  await queue.add("b", { x: 2 });
  const a = await hands.getNextJob("t");
  await a.updateData({ x: 9 });
  await a.extendLock("t", 5000);
  await assert.rejects(a.moveToCompleted("r", "wrong", false), /lock/i);
  const next = await a.moveToCompleted("r", "t", true);
  assert.equal(next[0].name, "b");
  const b = await queue.getJob(next[1]);
  assert.equal(await b.getState(), "active");
  await b.moveToFailed(new Error("by hand"), "t", false);
  assert.equal(await b.isFailed(), true);
  assert.deepEqual((await queue.getJob(a.id)).data, { x: 9 });
  assert.equal((await queue.getJob(a.id)).returnvalue, "r");
  await b.remove();
  assert.equal(await queue.getJob(b.id), undefined);
  await hands.close();
});

await area("dedup", async (queue, events, work) => {
  const options = { deduplication: { id: "one", ttl: 60000 } };
  const first = await queue.add("x", { n: 1 }, options);
  const second = await queue.add("x", { n: 2 }, options);
  assert.equal(first.id, second.id);
  assert.equal(await queue.getDeduplicationJobId("one"), first.id);
  await queue.removeDeduplicationKey("one");
  assert.notEqual((await queue.add("x", { n: 3 }, options)).id, first.id);
  await queue.drain();
  assert.equal(await queue.count(), 0);
});

await area("trees", async (queue, events, work) => {
  const flow = new FlowProducer(options);
  const deep = (level) => ({
    name: `level${level}`,
    queueName: "trees",
    data: { level },
    opts: { failParentOnFailure: true },
    children: level < 3 ? [deep(level + 1), deep(level + 1)] : [],
  });
  const tree = await flow.add(deep(0));
  const order = [];
  work(async (job) => {
    order.push(job.data.level ?? job.name);
    if (job.name === "bad") throw new Error("a child fails");
    if (job.name === "asks" && !job.data.asked) {
      await job.updateData({ asked: true });
      await queue.add("child", {}, { parent: { id: job.id, queue: job.queueQualifiedName } });
      if (await job.moveToWaitingChildren(job.token)) throw new WaitingChildrenError();
    }
    return order.length;
  });
  await tree.job.waitUntilFinished(events, 10000);
  assert.equal(order.length, 15);
  assert.equal(order.at(-1), 0, "the root is last");
  assert.equal(Object.keys(await tree.job.getChildrenValues()).length, 2);
  const failing = await flow.add({
    name: "parent",
    queueName: "trees",
    children: [{ name: "bad", queueName: "trees", opts: { failParentOnFailure: true } }],
  });
  await assert.rejects(failing.job.waitUntilFinished(events, 10000));
  const ignoring = await flow.add({
    name: "parent",
    queueName: "trees",
    children: [{ name: "bad", queueName: "trees", opts: { ignoreDependencyOnFailure: true } }],
  });
  await ignoring.job.waitUntilFinished(events, 10000);
  const asks = await queue.add("asks", {});
  await asks.waitUntilFinished(events, 10000);
  const { processed, unprocessed } = await (await queue.getJob(asks.id)).getDependencies();
  assert.deepEqual([Object.keys(processed).length, unprocessed.length], [1, 0]);
  await flow.close();
});

await area("getters", async (queue, events, work) => {
  await queue.pause();
  await queue.addBulk(Array.from({ length: 30 }, (_, n) => ({ name: `j${n}`, data: { n } })));
  assert.equal((await queue.getWaiting(0, 9)).length, 10);
  assert.deepEqual((await queue.getJobs(["waiting", "paused"], 0, 2, true)).map((job) => job.data.n), [0, 1, 2]);
  assert.equal(await queue.isPaused(), true);
  const counts = await queue.getJobCounts("paused", "waiting");
  assert.equal((counts.paused ?? 0) + (counts.waiting ?? 0), 30);
  await queue.resume();
  work(async () => {}, { metrics: { maxDataPoints: 10 } });
  await until("all done", async () => (await queue.getCompletedCount()) === 30);
  assert.equal((await queue.getMetrics("completed")).meta.count, 30);
  assert.equal((await queue.getWorkers()).length >= 1, true);
  assert.match(await queue.exportPrometheusMetrics(), /completed/);
  await queue.trimEvents(0);
});

client.disconnect();
console.log("bullmq, by area: works");
process.exit(0);
