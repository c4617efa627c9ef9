// Reads and writes of a Node.js program while its cluster changes, through ioredis: node ioredis-loop.mjs MODE PORT...
import { createRequire } from "node:module";
import { Cluster } from "ioredis";
import { loop, ports } from "./loop-common.mjs";

const client = new Cluster(ports.map((port) => ({ host: "127.0.0.1", port })));
// Without a listener it prints each of them.
client.on("error", () => {});
await loop(client, "ioredis", createRequire(import.meta.url)("ioredis/package.json").version);
