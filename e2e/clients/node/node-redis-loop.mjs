// Reads and writes of a Node.js program while its cluster changes, through node-redis: node node-redis-loop.mjs MODE PORT...
import { createRequire } from "node:module";
import { createCluster } from "redis";
import { loop, mode, ports } from "./loop-common.mjs";

const more = mode === "quiet" ? { defaults: { maintNotifications: "disabled" } } : {};
const client = createCluster({ rootNodes: ports.map((port) => ({ url: `redis://127.0.0.1:${port}` })), ...more });
// Without a listener an error of a connection ends the process.
client.on("error", () => {});
await client.connect();
await loop(client, "node-redis", createRequire(import.meta.url)("redis/package.json").version);
