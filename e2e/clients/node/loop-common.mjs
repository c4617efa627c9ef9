// What the loops of Node's clients share; the head of xtask/src/loops.rs says what a loop does and prints.
import { createInterface } from "node:readline";

const TAGS = [[3, 7, 10, 11], [1, 2, 5, 6], [0, 4, 8, 13]];
const KEYS = 64;

export const mode = process.argv[2];
export const ports = process.argv.slice(3).map(Number);

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const tell = (...words) => process.stdout.write(words.join(" ") + "\n");

class Worker {
  constructor(client, name, group) {
    Object.assign(this, { client, group, acknowledged: new Map(), unknown: new Map(), writes: 0, reads: 0, gap: 0, gapAt: Date.now(), last: Date.now() });
    this.keys = Array.from({ length: KEYS }, (_, at) => `{${TAGS[group][at % 4]}}:${name}:${at}`);
  }

  succeeded(what) {
    this[what]++;
    this.look();
    this.last = Date.now();
  }

  look() {
    if (Date.now() - this.last > this.gap) [this.gap, this.gapAt] = [Date.now() - this.last, this.last];
  }

  failed(what, error) {
    const text = `${error?.constructor?.name}: ${error?.message} ${error?.lastNodeError?.message ?? ""}`.replace(/\s+/g, " ");
    tell("error", Date.now(), this.group, what, text.slice(0, 200));
  }

  async run() {
    for (let count = 1; ; count++) {
      const key = this.keys[count % KEYS];
      try {
        await this.client.set(key, `${key}#${count}`);
        this.acknowledged.set(key, count);
        this.succeeded("writes");
      } catch (error) {
        if (!this.unknown.has(key)) this.unknown.set(key, new Set());
        this.unknown.get(key).add(count);
        this.failed("SET", error);
      }
      const other = this.keys[(count + KEYS / 2) % KEYS];
      try {
        const found = await this.client.get(other);
        this.succeeded("reads");
        this.judge(other, found);
      } catch (error) {
        this.failed("GET", error);
      }
      await pause(2);
    }
  }

  judge(key, found) {
    const number = found === null ? 0 : found.startsWith(key + "#") ? Number(found.slice(key.length + 1)) : NaN;
    const expected = this.acknowledged.get(key) ?? 0;
    if (Number.isNaN(number)) return tell("wrong", Date.now(), this.group, key, found);
    if (number === expected || this.unknown.get(key)?.has(number)) return;
    tell("lost", Date.now(), this.group, key, `${number} in place of ${expected}`);
    this.acknowledged.set(key, number);
  }
}

// Runs until the input ends.
export async function loop(client, name, version) {
  const workers = [0, 1, 2].map((group) => new Worker(client, name, group));
  for (const worker of workers) for (const key of worker.keys) await client.del(key);
  for (const worker of workers) worker.run();
  tell("ready", version);
  for await (const _ of createInterface({ input: process.stdin })) {
    let [writes, reads, gap, gapAt] = [0, 0, -1, 0];
    for (const worker of workers) {
      worker.look();
      writes += worker.writes;
      reads += worker.reads;
      if (worker.gap > gap) [gap, gapAt] = [worker.gap, worker.gapAt];
      worker.writes = worker.reads = worker.gap = 0;
    }
    tell("report", writes, reads, gap, gapAt);
  }
  process.exit(0);
}
