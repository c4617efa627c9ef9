// The page of the metrics endpoint in headless Chromium: node e2e/page/run.mjs SERVER CHROMIUM [--screenshots FOLDER]
//
// Starts servers in the states that the page knows, opens the page, and compares each number that the page names
// after a metric with the field of INFO that docs/fields.md names for it. With --screenshots, pictures of a busy
// server are written for the documentation. No package is needed: Chromium is driven through the pipe of its
// DevTools protocol.
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync, mkdirSync } from 'node:fs';
import { createConnection, createServer } from 'node:net';
import { dirname, join } from 'node:path';
import { tmpdir } from 'node:os';
import { fileURLToPath } from 'node:url';

const [binary, chromium] = process.argv.slice(2);
const at = process.argv.indexOf('--screenshots');
const pictures = at > 0 ? process.argv[at + 1] : null;
const root = join(dirname(fileURLToPath(import.meta.url)), '..', '..');
const DEADLINE_MS = 20000;

let faults = 0, checks = 0;
function check(what, holds, more = '') {
  checks++;
  if (!holds) { faults++; console.log(`page: FAILED: ${what} ${more}`); }
}
const pause = ms => new Promise(done => setTimeout(done, ms));
async function until(what, ask) {
  const end = Date.now() + DEADLINE_MS;
  for (;;) {
    const answer = await ask();
    if (answer) return answer;
    if (Date.now() > end) { check(what, false, 'not within 20 s'); return null; }
    await pause(50);
  }
}

// --- A server, and a client of it.

const freePort = () => new Promise(done => { const s = createServer().listen(0, '127.0.0.1', () => { const { port } = s.address(); s.close(() => done(port)); }); });

class Client {
  constructor(port) {
    this.socket = createConnection(port, '127.0.0.1');
    this.bytes = Buffer.alloc(0);
    this.waiting = [];
    this.socket.on('error', () => {});
    this.socket.on('data', data => { this.bytes = Buffer.concat([this.bytes, data]); this.read(); });
  }
  read() {
    for (;;) {
      const found = parse(this.bytes, 0);
      if (!found) return;
      this.bytes = this.bytes.subarray(found.end);
      this.waiting.shift()?.(found.value);
    }
  }
  run(...words) {
    const request = `*${words.length}\r\n` + words.map(word => `$${Buffer.byteLength(String(word))}\r\n${word}\r\n`).join('');
    return new Promise(done => { this.waiting.push(done); this.socket.write(request); });
  }
  async info() {
    const text = await this.run('INFO', 'everything');
    return Object.fromEntries(text.split('\r\n').filter(line => line.includes(':')).map(line => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 1)]));
  }
  end() { this.socket.destroy(); }
}
// One reply of RESP2 from `from` on.
function parse(bytes, from) {
  const line = bytes.indexOf('\r\n', from);
  if (line < 0) return null;
  const text = bytes.toString('utf8', from + 1, line), end = line + 2;
  switch (String.fromCharCode(bytes[from])) {
    case '$': {
      const length = Number(text);
      if (length < 0) return { value: null, end };
      return bytes.length < end + length + 2 ? null : { value: bytes.toString('utf8', end, end + length), end: end + length + 2 };
    }
    case '*': {
      const list = [];
      let next = end;
      for (let i = 0; i < Number(text); i++) {
        const found = parse(bytes, next);
        if (!found) return null;
        list.push(found.value);
        next = found.end;
      }
      return { value: list, end: next };
    }
    default: return { value: text, end };
  }
}

const folders = [];
async function start(...options) {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-page-'));
  folders.push(folder);
  return startIn(folder, ...options);
}
async function startIn(folder, ...options) {
  const named = options.indexOf('--metrics-port');
  const [port, page] = [await freePort(), named < 0 ? await freePort() : options[named + 1]];
  const child = spawn(binary, ['--port', port, ...(named < 0 ? ['--metrics-port', page] : []), '--dir', folder, '--enable-debug-command', 'yes', ...options].map(String), { stdio: 'ignore' });
  await until('the server listens', () => new Promise(done => { const s = createConnection(page, '127.0.0.1', () => { s.destroy(); done(true); }); s.on('error', () => done(false)); }));
  const server = { port, page, folder, child, client: new Client(port), ended: new Promise(done => child.on('exit', done)) };
  server.stop = async () => { server.client.end(); child.kill('SIGCONT'); child.kill('SIGKILL'); await server.ended; };
  return server;
}

// --- A browser.

class Browser {
  constructor() {
    this.folder = mkdtempSync(join(tmpdir(), 'sluice-chromium-'));
    this.child = spawn(chromium, ['--headless', '--no-sandbox', '--disable-gpu', '--remote-debugging-pipe', '--hide-scrollbars', `--user-data-dir=${this.folder}`, 'about:blank'], { stdio: ['ignore', 'ignore', 'ignore', 'pipe', 'pipe'] });
    this.next = 1;
    this.waiting = new Map();
    this.complaints = [];
    let text = '';
    this.child.stdio[4].on('data', data => {
      text += data;
      const parts = text.split('\0');
      text = parts.pop();
      parts.map(JSON.parse).forEach(message => this.take(message));
    });
  }
  take(message) {
    if (message.id) return this.waiting.get(message.id)?.(message);
    const entry = message.params?.entry;
    if (message.method === 'Log.entryAdded' && entry.source !== 'network') this.complaints.push(`${entry.level}: ${entry.text}`);
    if (message.method === 'Runtime.exceptionThrown') this.complaints.push(message.params.exceptionDetails.exception?.description || message.params.exceptionDetails.text);
    if (message.method === 'Runtime.consoleAPICalled') this.complaints.push(JSON.stringify(message.params.args));
  }
  send(method, params = {}) {
    const id = this.next++;
    const message = { id, method, params, ...(this.session ? { sessionId: this.session } : {}) };
    this.child.stdio[3].write(JSON.stringify(message) + '\0');
    return new Promise((done, fail) => this.waiting.set(id, reply => reply.error ? fail(new Error(`${method}: ${reply.error.message}`)) : done(reply.result)));
  }
  async open(server) {
    this.session = null;
    const { targetId } = await this.send('Target.createTarget', { url: 'about:blank' });
    this.session = (await this.send('Target.attachToTarget', { targetId, flatten: true })).sessionId;
    for (const domain of ['Page', 'Runtime', 'Log']) await this.send(`${domain}.enable`);
    await this.size(1300, 900);
    await this.send('Page.navigate', { url: `http://127.0.0.1:${server.page}/` });
    await this.wait('the page is loaded', `document.readyState === 'complete' && document.querySelector('footer') !== null`);
  }
  size(width, height) { return this.send('Emulation.setDeviceMetricsOverride', { width, height, deviceScaleFactor: 1, mobile: width < 600 }); }
  scheme(value) { return this.send('Emulation.setEmulatedMedia', { features: [{ name: 'prefers-color-scheme', value }] }); }
  async ask(expression) {
    const { result, exceptionDetails } = await this.send('Runtime.evaluate', { expression, returnByValue: true, awaitPromise: true });
    if (exceptionDetails) throw new Error(exceptionDetails.exception?.description || exceptionDetails.text);
    return result.value;
  }
  wait(what, expression) { return until(what, () => this.ask(expression)); }
  text(selector) { return this.ask(`document.querySelector(${JSON.stringify(selector)})?.textContent`); }
  has(what, selector, words) { return this.wait(what, `(document.querySelector(${JSON.stringify(selector)})?.textContent || '').includes(${JSON.stringify(words)})`); }
  async key(key, code) {
    const text = key === 'Enter' ? '\r' : undefined;
    await this.send('Input.dispatchKeyEvent', { type: 'keyDown', key, code: key, windowsVirtualKeyCode: code, text });
    await this.send('Input.dispatchKeyEvent', { type: 'keyUp', key, code: key, windowsVirtualKeyCode: code });
  }
  async picture(name, height) {
    if (!pictures) return;
    mkdirSync(pictures, { recursive: true });
    const { data } = await this.send('Page.captureScreenshot', { format: 'webp', quality: 80, captureBeyondViewport: true, ...(height ? { clip: { x: 0, y: 0, width: 1300, height, scale: 1 } } : {}) });
    writeFileSync(join(pictures, name), Buffer.from(data, 'base64'));
  }
  silent(what) { check(`${what}: the browser has nothing to complain of`, this.complaints.length === 0, this.complaints.join('; ')); this.complaints = []; }
  async end() { this.child.kill('SIGKILL'); await new Promise(done => this.child.on('exit', done)); rmSync(this.folder, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }); }
}

// --- What the page says beside what INFO says.

// Metrics by their field, out of the table of docs/fields.md.
const fieldOf = new Map(readFileSync(join(root, 'docs/fields.md'), 'utf8').split('\n').map(line => line.match(/^\| `(\w+)`[^|]*\|[^|]*\|[^|]*\|[^|]*\| `(\w+)` \|/)).filter(Boolean).map(([, field, metric]) => [metric, field]));
// What INFO itself, or the look at it, changes.
const MOVING = /^(used_memory|mem_clients_normal|total_commands_processed|instantaneous_ops_per_sec|mem_total)/;

async function compare(what, browser, server, least) {
  // A look that has begun behind the last command of anybody else.
  const seen = await browser.ask('now && now.at');
  await browser.wait('the page looks again', `now && now.at > ${seen || 0}`);
  await browser.ask('paused = true');
  const info = await server.client.info();
  const shown = await browser.ask(`[...document.querySelectorAll('[data-field]')].map(one => [one.dataset.field, Number(one.dataset.value), one.textContent])`);
  await browser.ask('paused = false');
  let compared = 0;
  for (const [metric, value, text] of shown) {
    if (metric === 'redis_db_keys') {
      const keys = Object.entries(info).filter(([name]) => /^db\d+$/.test(name)).reduce((sum, [, of]) => sum + Number(of.match(/keys=(\d+)/)[1]), 0);
      check(`${what}: keys`, value === keys, `${value}, INFO ${keys}`);
      continue;
    }
    const field = fieldOf.get(metric);
    check(`${what}: ${metric} is in the table of docs/fields.md`, field);
    const wanted = Number(info[field]);
    const may = !MOVING.test(field) ? 0 : /mem/.test(field) ? Math.max(65536, 0.05 * wanted) : Math.max(20, 0.05 * wanted);
    check(`${what}: ${field}`, Math.abs(value - wanted) <= may, `page ${value} (${text}), INFO ${info[field]}`);
    compared++;
  }
  check(`${what}: numbers compared`, compared >= least, `${compared}`);
  console.log(`page: ${what}: ${compared} numbers are INFO's`);
}

async function fits(what, browser) {
  for (const width of [360, 768, 1300]) {
    await browser.size(width, 800);
    const wide = await browser.ask('document.documentElement.scrollWidth');
    check(`${what}: nothing is wider than a screen of ${width}`, wide <= width, `${wide}`);
  }
}

const browser = new Browser();
const rendered = () => browser.wait('the page is drawn', `document.querySelector('#tiles b') !== null`);

async function empty() {
  const server = await start('--save', '');
  await browser.open(server);
  await rendered();
  await browser.has('an empty server has no keys', '#databases', 'No keys.');
  await browser.has('and no slow commands', '#log', 'None.');
  check('and no cluster', await browser.ask(`document.querySelector('#cluster').hidden`));
  await browser.has('and is a primary without replicas', '#replication', 'A primary without replicas.');
  check('nothing is under way', await browser.ask(`document.querySelector('#progress').hidden`));
  await compare('empty', browser, server, 20);
  await fits('empty', browser);
  browser.silent('empty');
  await server.stop();
}

async function busy() {
  const server = await start('--save', '', '--slowlog-log-slower-than', '1000', '--maxmemory', '1gb', '--maxmemory-policy', 'allkeys-lru');
  const { client } = server;
  for (let i = 0; i < 20000; i++) client.run('SET', `session:${i}`, 'x'.repeat(100), 'EX', 3600);
  for (let i = 0; i < 400; i++) client.run('RPUSH', 'queue:mail', ...Array(100).fill('a job'));
  for (let i = 0; i < 100; i++) client.run('ZADD', 'board', ...Array.from({ length: 200 }, (_, j) => [i * 200 + j, `player:${i}:${j}`]).flat());
  await client.run('SELECT', '2');
  await client.run('SET', 'other', '1');
  await client.run('SELECT', '0');
  const blocked = new Client(server.port);
  blocked.run('CLIENT', 'SETNAME', '<b>worker</b>');
  blocked.run('BLPOP', 'queue:none', '0');
  // One that asks for much and takes none of it.
  const slow = new Client(server.port);
  slow.run('CLIENT', 'SETNAME', 'report');
  await pause(100);
  slow.socket.pause();
  for (let i = 0; i < 100; i++) slow.run('LRANGE', 'queue:mail', '0', '-1');
  const replica = await start('--save', '', '--replicaof', `127.0.0.1 ${server.port}`);
  await browser.open(server);
  await rendered();
  await browser.has('the replica is shown', '#replication table', 'online');
  await browser.has('and is up to date', '#replication', 'The replica is up to date.');
  await browser.has('the blocked client is shown', '#clients', 'blocked in BLPOP');
  await browser.has('by its name, as text', '#clients', '<b>worker</b>');
  check('and no markup of a client', await browser.ask(`document.querySelector('#clients b') === null`));
  await browser.has('the slow reader is shown', '#clients', 'slow reader:');
  await browser.has('with its memory', '#clients tbody tr:first-child', 'report');
  // The largest keys, without names at first.
  await browser.ask(`document.querySelector('#look').click()`);
  await browser.has('the largest keys are found', '#keys', 'All keys were scanned');
  await browser.has('without their names', '#large table', '(hidden)');
  check('no name is anywhere', !(await browser.ask('document.body.textContent')).includes('queue:mail'));
  const sees = async (user, password, words) => {
    await browser.ask(`document.querySelector('#user').value = ${JSON.stringify(user)}; document.querySelector('#password').value = ${JSON.stringify(password)}; document.querySelector('#user-form button').click()`);
    await browser.has(`names for ${user}`, '#keys', words);
  };
  await client.run('ACL', 'SETUSER', 'some', 'on', '>right', '~session:*', '+@all');
  await client.run('ACL', 'SETUSER', 'all', 'on', '>right', '~*', '+@all');
  await sees('nobody', 'right', 'wrong user or password');
  await sees('some', 'right', 'this user may not GET every key');
  await sees('all', 'right', 'queue:mail');
  slow.end();
  await until('the slow reader is gone', async () => (await client.info()).connected_clients === '2');
  await compare('busy', browser, server, 30);
  // Numbers move: requests of the last minute, for the pictures as well.
  const load = new Client(server.port);
  const end = Date.now() + (pictures ? 75000 : 12000);
  let ends = false;
  const loaded = (async () => { for (let round = 0; !ends; round++) {
    const burst = 200 + 150 * Math.sin(round / 25) + (round % 40 === 0 ? 800 : 0);
    for (let i = 0; i < burst; i++) { load.run('GET', `session:${(i * 7919 + round) % 22000}`); if (i % 4 === 0) load.run('SET', `session:${(i * 31 + round) % 20000}`, 'y'.repeat(100), 'EX', 3600); }
    if (round % 50 === 0) load.run('SORT', 'queue:mail', 'ALPHA', 'LIMIT', '0', '1');
    await load.run('PING');
    await pause(40);
  } })();
  await pause(end - Date.now());
  await browser.has('requests are drawn', '#requests figcaption', '/s');
  check('as a line', (await browser.ask(`document.querySelector('#requests path.c0').getAttribute('d')`)).includes('L'));
  check('percentiles as well', (await browser.text('#latency figcaption')).match(/ (µs|ms)/));
  await browser.has('the hottest keys are counted', '#hot table', 'session:');
  await browser.has('a slow command is logged with its words', '#log', 'SORT queue:mail');
  await browser.size(1300, 900);
  await browser.scheme('light');
  await pause(2500);
  await browser.picture('page-light.webp');
  await browser.picture('page-top.webp', 560);
  await browser.scheme('dark');
  await browser.picture('page-dark.webp');
  await browser.size(390, 844);
  await browser.picture('page-phone.webp');
  ends = true;
  await loaded;
  await fits('busy', browser);
  await browser.size(1300, 900);
  // By keyboard: the button, and another moment of a drawing.
  await browser.ask(`document.activeElement.blur()`);
  await browser.key('Tab', 9);
  check('the first stop of the keyboard is the pause', await browser.ask(`document.activeElement.id`) === 'pause', await browser.ask(`document.activeElement.id`));
  await browser.key('Enter', 13);
  check('which Enter presses', await browser.ask(`document.querySelector('#pause').getAttribute('aria-pressed')`) === 'true');
  await browser.ask(`document.querySelector('#requests svg[tabindex]').focus()`);
  for (let i = 0; i < 4; i++) await browser.key('ArrowLeft', 37);
  check('arrow keys read another moment', (await browser.text('#requests figcaption')).includes('at '));
  check('and the drawing stays in focus', await browser.ask(`document.activeElement === document.querySelector('#requests svg[tabindex]')`));
  browser.silent('busy');
  // The replica's own page.
  await browser.open(replica);
  await rendered();
  await browser.has('a replica says so', '#replication', 'the link is up');
  await browser.has('in its head too', '#what', 'replica');
  await compare('replica', browser, replica, 20);
  await server.stop();
  await browser.has('and says that the link is down', '#alert', 'the link to the primary is down');
  browser.silent('replica');
  [blocked, load].forEach(one => one.end());
  await replica.stop();
}

async function cluster() {
  const options = ['--save', '', '--cluster-enabled', 'yes', '--cluster-node-timeout', '1000', '--cluster-require-full-coverage', 'no'];
  const [one, two] = [await start(...options), await start(...options, '--cluster-announce-human-nodename', 'second')];
  await one.client.run('CLUSTER', 'ADDSLOTSRANGE', '0', '8191');
  await two.client.run('CLUSTER', 'ADDSLOTSRANGE', '8192', '16383');
  await one.client.run('CLUSTER', 'MEET', '127.0.0.1', String(two.port));
  await until('the cluster is well', async () => (await one.client.run('CLUSTER', 'INFO')).includes('cluster_slots_ok:16384'));
  await browser.open(one);
  await rendered();
  await browser.has('the cluster is shown', '#cluster', 'State: ok');
  await browser.has('with this node', '#cluster table', '(this node)');
  await browser.has('and the other by its name', '#cluster table', 'second');
  await browser.wait('each with its slots', `[...document.querySelectorAll('#cluster tbody tr')].every(row => row.children[3].textContent === '8,192')`);
  await compare('cluster', browser, one, 25);
  await fits('cluster', browser);
  await browser.size(1300, 900);
  await browser.picture('page-cluster.webp', 900);
  two.child.kill('SIGSTOP');
  await browser.wait('a node that does not answer is shown', `[...document.querySelectorAll('#cluster tbody tr')].some(row => row.children[4].textContent === 'PFAIL')`);
  await browser.has('and its slots count', '#cluster dl b', '8,192');
  two.child.kill('SIGCONT');
  await browser.wait('until it answers', `!document.querySelector('#cluster').textContent.includes('DISCONNECTED') && ![...document.querySelectorAll('#cluster tbody tr')].some(row => row.children[4].textContent !== 'ok')`);
  browser.silent('cluster');
  await two.stop();
  await one.stop();
}

async function crowd() {
  const server = await start('--save', '', '--maxclients', '11000');
  const max = Number((await server.client.run('CONFIG', 'GET', 'maxclients'))[1]);
  const wanted = Math.min(10000, max - 100);
  const all = Array.from({ length: wanted }, () => new Client(server.port));
  await until('all clients are there', async () => Number((await server.client.info()).connected_clients) > wanted);
  for (let i = 0; i < 30; i++) await all[i * 300].run('CLIENT', 'SETNAME', `number-${i}`);
  await browser.open(server);
  await rendered();
  await browser.wait('twenty of them are shown', `document.querySelectorAll('#clients tbody tr').length === 20`);
  await compare(`${wanted} clients`, browser, server, 20);
  browser.silent('crowd');
  all.forEach(one => one.end());
  await server.stop();
}

async function longWork() {
  const server = await start('--save', '');
  for (let i = 0; i < 2000; i++) server.client.run('SET', `key:${i}`, 'x'.repeat(200));
  await server.client.run('CONFIG', 'SET', 'rdb-key-save-delay', '5000');
  await server.client.run('BGSAVE');
  await browser.open(server);
  await rendered();
  await browser.has('a save is under way', '#progress', 'Saving');
  await browser.wait('and its bar moves', `document.querySelector('#progress progress')?.value > 0`);
  await server.client.run('CONFIG', 'SET', 'rdb-key-save-delay', '0');
  await browser.wait('the save ends', `document.querySelector('#progress').hidden`);
  // A script that stands, and a main thread that does.
  server.client.run('CONFIG', 'SET', 'busy-reply-threshold', '100');
  server.client.run('EVAL', 'while true do end', '0');
  await browser.has('a script is shown', '#running', 'A script has been running for');
  const other = new Client(server.port);
  await other.run('SCRIPT', 'KILL');
  other.run('DEBUG', 'SLEEP', '9');
  await browser.has('the main thread stands still', '#alert', 'The main thread has not answered');
  await browser.wait('and comes back', `document.querySelector('#alert').hidden`);
  server.child.kill('SIGSTOP');
  await browser.has('a server that says nothing', '#alert', 'No answer since');
  server.child.kill('SIGCONT');
  await browser.wait('and comes back', `document.querySelector('#alert').hidden`);
  await other.run('SAVE');
  other.end();
  await server.stop();
  await browser.has('a server that is gone', '#alert', 'No answer since');
  browser.complaints = [];
  // A server that was started anew, at once: its drawings are its own.
  const anew = await startIn(server.folder, '--metrics-port', server.page);
  await browser.wait('it is shown without a word', `document.querySelector('#alert').hidden`);
  await browser.ask(`lastId = 1000`);
  await browser.wait('its points are drawn', `points.length > 0 && points[points.length - 1][1] > Date.now() - 8000`);
  await anew.stop();
  browser.complaints = [];
  const loading = await startIn(server.folder, '--key-load-delay', '20000', '--loading-process-events-interval-bytes', '1024');
  await browser.open(loading);
  await rendered();
  await browser.has('a load is under way', '#progress', 'Loading');
  await browser.has('and the server says that it is not ready', '#alert', 'loading');
  await loading.stop();
  browser.complaints = [];
}

async function token() {
  const server = await start('--save', '', '--metrics-token', 'secret');
  await browser.open(server);
  await browser.wait('the token is asked for', `!document.querySelector('#gate').hidden && document.querySelector('#page').hidden`);
  await browser.ask(`document.querySelector('#token').value = 'secret'; document.querySelector('#token-form button').click()`);
  await rendered();
  check('the page is there', await browser.ask(`document.querySelector('#gate').hidden && !document.querySelector('#page').hidden`));
  await server.stop();
  browser.complaints = [];
}

const began = Date.now();
try {
  for (const one of [empty, busy, cluster, crowd, longWork, token]) await one();
} finally {
  await browser.end();
  folders.forEach(folder => rmSync(folder, { recursive: true, force: true }));
}
console.log(`page: ${checks} checks, ${faults} failed, ${((Date.now() - began) / 1000).toFixed(0)} s`);
process.exit(faults ? 1 : 0);
