// What the programs of clusters share: plain connections to the nodes, and a slot that moves.
import assert from "node:assert/strict";

export async function until(what, holds) {
  for (const end = Date.now() + 20_000; !(await holds()); ) {
    assert.ok(Date.now() < end, what);
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
}

// The ports are those of three primaries and of their replicas.
export const ports = process.argv.slice(2).map(Number);
export const primaries = ports.slice(0, 3);
export const replicas = ports.slice(3);
export const names = Array.from({ length: 300 }, (_, index) => `key:${index}`);

// `ask` sends a command, given as words, to the node of a port.
export class Nodes {
  constructor(ask) {
    this.ask = ask;
  }

  async flush() {
    for (const port of primaries) await this.ask(port, "FLUSHALL");
  }

  // Replicas have what their primaries have.
  async followed() {
    await until("replicas", async () => {
      for (const at of [0, 1, 2]) if ((await this.ask(primaries[at], "DBSIZE")) !== (await this.ask(replicas[at], "DBSIZE"))) return false;
      return true;
    });
  }

  // How many GETs the replicas have served.
  async reads() {
    let sum = 0;
    for (const port of replicas) sum += Number(/cmdstat_get:calls=(\d+)/.exec(await this.ask(port, "INFO", "commandstats"))?.[1] ?? 0);
    return sum;
  }

  async open(slot, source, target) {
    const [from, to] = [await this.ask(source, "CLUSTER", "MYID"), await this.ask(target, "CLUSTER", "MYID")];
    await this.ask(target, "CLUSTER", "SETSLOT", String(slot), "IMPORTING", from);
    await this.ask(source, "CLUSTER", "SETSLOT", String(slot), "MIGRATING", to);
  }

  async migrate(source, target, keys) {
    await this.ask(source, "MIGRATE", "127.0.0.1", String(target), "", "0", "5000", "KEYS", ...keys);
  }

  async close(slot, source, target) {
    const keys = await this.ask(source, "CLUSTER", "GETKEYSINSLOT", String(slot), "100");
    if (keys.length > 0) await this.migrate(source, target, keys);
    const to = await this.ask(target, "CLUSTER", "MYID");
    for (const port of [target, source]) assert.equal(await this.ask(port, "CLUSTER", "SETSLOT", String(slot), "NODE", to), "OK");
  }

  // A slot of the first primary on its way to the second and back; `get` and `set` are the client's. What has gone is found by ASK, then
  // by MOVED.
  async moveSlot(get, set) {
    const [source, target] = primaries;
    const [tag, slot] = await this.tagOf(source);
    await set(`${tag}:here`, "1");
    await set(`${tag}:gone`, "2");
    await this.open(slot, source, target);
    await this.migrate(source, target, [`${tag}:gone`]);
    await set(`${tag}:new`, "3");
    assert.equal(await this.ask(target, "CLUSTER", "COUNTKEYSINSLOT", String(slot)), 2);
    const look = async () => {
      for (const [name, value] of [["here", "1"], ["gone", "2"], ["new", "3"]]) assert.equal(await get(`${tag}:${name}`), value);
    };
    await look();
    await this.close(slot, source, target);
    await look();
    await this.open(slot, target, source);
    await look();
    await this.close(slot, target, source);
    await look();
  }

  // A hash tag whose slot a primary has.
  async tagOf(port) {
    for (let number = 0; ; number++) {
      const slot = await this.ask(port, "CLUSTER", "KEYSLOT", `{${number}}`);
      if (slot < 5461) return [`{${number}}`, slot];
    }
  }
}
