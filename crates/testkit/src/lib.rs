//! For tests: an engine without a process, driven by lines of text, with a clock that the test moves.
//!
//! ```text
//! let mut rig = sluice_testkit::Rig::new();
//! rig.check("SET k v", "+OK");
//! rig.check("GET k", "\"v\"");
//! rig.pass_ms(1000);
//! ```
#![forbid(unsafe_code)]
#![allow(clippy::unwrap_used, clippy::missing_panics_doc)]

mod fuzz;
mod link;
mod open_metrics;
mod process;

pub use fuzz::{fuzz_cluster_words, fuzz_replica, fuzz_restored};
pub use link::{RigLink, request_of};
pub use open_metrics::{MetricSamples, check_open_metrics};
pub use process::{FakeProcess, Snapshots};
pub use sluice_testbase::{FOREIGN_RDB_FILES, ForeignRdb, content, foreign_rdb, render};

use sluice_base::SessionKey;
use sluice_base::{HashSeed, Now};
use sluice_cluster::{ClusterInput, SavedCluster};
use sluice_commands::{Migration, Progress, SlowRead};
use sluice_config::Config;
use sluice_control::action::Action;
use sluice_control::cluster::order::BusOrder;
use sluice_control::persistence::background::Slice;
use sluice_control::persistence::loading::{LoadEnded, LoadJob};
use sluice_control::process::ProcessClock;
use sluice_control::users::load::JudgedUsers;
use sluice_engine::{Engine, Seeds};
use sluice_resp::{AuthState, ParseLimits, Parser, Requests, State, Value, decode};
use sluice_session::{ClientAddress, Closing, Medium};
use sluice_snapshot::LoadThread;

/// An engine and its fake process, with one client connected.
pub struct Rig {
    /// The engine under test.
    pub engine: Engine,
    /// The fake process of the engine.
    pub process: FakeProcess,
    /// The client that [`Rig::run`] uses.
    pub client: SessionKey,
    /// Actions that the engine has requested so far, except those that have a field of their own below.
    pub actions: Vec<Action>,
    /// Whether loads are left in [`Rig::loads`] until [`Rig::finish_loads`]; otherwise each is run at once.
    pub holds_loads: bool,
    /// Loads that have not run yet.
    pub loads: Vec<LoadJob>,
    /// Migrations that have begun and that the test must end.
    pub migrations: Vec<Migration>,
    /// Whether slow reads are kept in [`Rig::reads`] until [`Rig::produce`]; otherwise each is
    /// produced at once.
    pub holds_reads: bool,
    /// Whether user files that were read and judged are kept in [`Rig::user_loads`] until
    /// [`Rig::finish_user_loads`]; otherwise the engine applies each at once. The files are read at the time
    /// of the request in both cases.
    pub holds_user_loads: bool,
    /// User files that were read and judged.
    pub user_loads: Vec<JudgedUsers>,
    /// Slow reads that have begun, with their clients.
    pub reads: Vec<(SessionKey, Box<SlowRead>)>,
    /// Microseconds that loads have slept.
    pub slept_us: u64,
    /// Whether writes of `nodes.conf` are kept in [`Rig::orders`]; otherwise each succeeds at once.
    pub holds_saves: bool,
    /// Requests of a cluster node to the process, without writes that have succeeded.
    pub orders: Vec<BusOrder>,
    /// The number of the link's attempt that has requested a connection to the primary, if this connection is
    /// not made yet.
    link_asked: Option<u64>,
}

/// The environment of a load that runs on the calling thread: a counter of the microseconds slept, and the
/// time.
struct Here<'a>(&'a mut u64, Now);

impl LoadThread for Here<'_> {
    fn wake(&mut self) {}
    fn sleep(&mut self, microseconds: u64) {
        *self.0 += microseconds;
    }
    fn now(&mut self) -> Now {
        self.1
    }
}

impl Default for Rig {
    fn default() -> Rig {
        Rig::new()
    }
}

impl Rig {
    /// An engine with the default configuration, with DEBUG allowed.
    pub fn new() -> Rig {
        Rig::with(&[])
    }

    /// An engine with these directives in addition to the defaults.
    pub fn with(directives: &[(&str, &str)]) -> Rig {
        Rig::seeded(Seeds { hash: HashSeed { k0: 1, k1: 2 }, rng: 3 }, directives)
    }

    /// An engine with these seeds, and directives in addition to the defaults.
    pub fn seeded(seeds: Seeds, directives: &[(&str, &str)]) -> Rig {
        let mut text = String::from(
            "enable-debug-command yes\nenable-protected-configs yes\nrepl-diskless-sync-delay 0\n",
        );
        for (name, value) in directives {
            text.push_str(&format!("{name} {value}\n"));
        }
        let mut none = |path: &[u8]| Err(format!("no include here: {path:?}"));
        let config: Config = sluice_config::parse_file(text.as_bytes(), "test", b"", &mut none).unwrap();
        let mut process = FakeProcess::default();
        let mut engine = Engine::new(config, seeds, &mut process);
        let client = engine.connect(connection(1), &mut process);
        Rig {
            engine,
            process,
            client,
            actions: Vec::new(),
            holds_loads: false,
            loads: Vec::new(),
            holds_reads: false,
            holds_user_loads: false,
            user_loads: Vec::new(),
            reads: Vec::new(),
            migrations: Vec::new(),
            slept_us: 0,
            holds_saves: false,
            orders: Vec::new(),
            link_asked: None,
        }
    }

    /// A cluster node with the state of this file, or a new node, with these directives in addition to the
    /// defaults.
    pub fn node(saved: Option<&SavedCluster>, directives: &[(&str, &str)]) -> Rig {
        // The seed depends on the directives, so that nodes with other directives have other ids.
        let rng =
            directives.iter().flat_map(|(_, value)| value.bytes()).fold(3, |sum, byte| sum + u64::from(byte));
        let seeds = Seeds { hash: HashSeed { k0: 1, k1: 2 }, rng };
        let mut rig = Rig::seeded(seeds, &[&[("cluster-enabled", "yes")], directives].concat());
        rig.engine.begin_cluster(saved, &[], &mut rig.process);
        rig.end_iteration();
        rig
    }

    /// Passes an event to the cluster node.
    pub fn step_cluster(&mut self, input: &ClusterInput<'_>) {
        self.engine.step_cluster(input, &mut self.process);
        self.end_iteration();
    }

    /// Takes the cluster node's requests to the process; writes of `nodes.conf` succeed at once unless
    /// `holds_saves` is set.
    fn take_orders(&mut self) {
        while let Some(order) = self.engine.next_bus_order() {
            match order {
                BusOrder::Persist { generation, .. } if !self.holds_saves => {
                    self.engine.step_cluster(&ClusterInput::Saved { generation }, &mut self.process);
                }
                other => self.orders.push(other),
            }
        }
    }

    /// Connects another client; returns its session.
    pub fn connect(&mut self) -> SessionKey {
        self.engine.connect(connection(2), &mut self.process)
    }

    /// Moves the clock forward, in milliseconds.
    pub fn pass_ms(&mut self, ms: u64) {
        self.process.pass_us(ms * 1000);
    }

    /// Runs the cron once, and then the expire cycle until it pauses.
    pub fn cron(&mut self) {
        self.engine.cron(&mut self.process);
        while self.engine.expire_slice(&mut self.process) {}
        self.collect();
    }

    /// Runs a line as the first client; returns the rendered reply.
    pub fn run(&mut self, line: &str) -> String {
        self.run_as(self.client, line)
    }

    /// Runs a line as a client, with words quoted as in the reference's cli; returns the rendered
    /// replies, one per line.
    pub fn run_as(&mut self, client: SessionKey, line: &str) -> String {
        let words =
            sluice_base::quote::split_args(line.as_bytes(), sluice_base::quote::Dialect::Config).unwrap();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        render(&self.argv(client, &words))
    }

    /// Runs a command given as arguments; returns the raw output to the client.
    pub fn argv(&mut self, client: SessionKey, argv: &[&[u8]]) -> Vec<u8> {
        let mut request = format!("*{}\r\n", argv.len()).into_bytes();
        for arg in argv {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.bytes(client, &request)
    }

    /// Runs a command given as arguments, and leaves the output to the client unread.
    pub fn argv_unread(&mut self, client: SessionKey, argv: &[&[u8]]) {
        let mut request = format!("*{}\r\n", argv.len()).into_bytes();
        for arg in argv {
            request.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
            request.extend_from_slice(arg);
            request.extend_from_slice(b"\r\n");
        }
        self.submit(client, &request);
    }

    /// Ends an iteration of the event loop, so that replicas receive their pending output.
    pub fn end_iteration(&mut self) {
        self.engine.end_iteration(&mut self.process);
        // A snapshot for replicas is made at once, as far as the process has room for it.
        while self.engine.makes_full_sync()
            && self.engine.save_slice(1_000_000, &mut self.process) == Slice::More
        {}
        if self.engine.makes_full_sync() {
            self.engine.save_slice(0, &mut self.process);
        }
        self.engine.walk_exports(&mut self.process);
        self.engine.end_iteration(&mut self.process);
        self.take_orders();
        self.collect();
    }

    /// Sends complete requests as bytes; returns the output to the client.
    pub fn bytes(&mut self, client: SessionKey, input: &[u8]) -> Vec<u8> {
        self.submit(client, input);
        self.output(client)
    }

    fn submit(&mut self, client: SessionKey, input: &[u8]) {
        let (mut parser, mut requests) = (Parser::new(), Requests::new());
        let limits = ParseLimits::new(AuthState::Authenticated, 512 << 20, 1024);
        let mut rest = input;
        while !rest.is_empty() {
            requests.clear();
            let progress = parser.parse(rest, &limits, &mut requests);
            self.engine.submit(client, rest, &requests, &mut self.process);
            if let State::Failed(error) = progress.state {
                let broken = &rest[progress.consumed..];
                self.engine.protocol_error(client, &error.message(), broken, &mut self.process);
                break;
            }
            assert!(progress.consumed > 0, "the input is complete requests");
            rest = &rest[progress.consumed..];
        }
        self.collect();
        self.check_databases();
    }

    /// Checks the invariants of every database that is small enough to be checked after each request. For
    /// an empty database the counters suffice, unless detached values are still to be freed.
    fn check_databases(&self) {
        let frees = self.engine.keyspace().has_detached();
        for (number, db) in self.engine.keyspace().iter() {
            match db.len() {
                0 if frees => db.check(),
                0 => assert_eq!(db.entry_bytes(), 0, "database {number} is empty"),
                1..=CHECKED_KEYS_MAX => db.check(),
                _ => {}
            }
        }
    }

    /// The output to a client since the last call.
    pub fn output(&mut self, client: SessionKey) -> Vec<u8> {
        self.end_iteration();
        self.engine.take_ready(&mut Vec::new());
        let Some((outbox, _)) = self.engine.take_output_up_to(client, u64::MAX) else { return Vec::new() };
        self.engine.sent(client, outbox.len(), self.process.now());
        let bytes = outbox.flatten();
        self.engine.recycle(outbox);
        bytes
    }

    /// Connects a replica that already has the data.
    pub fn replica(&mut self) -> SessionKey {
        let key = self.connect();
        self.engine.feed(key);
        key
    }

    /// The commands that a replica has received since the last call: words separated by spaces, commands
    /// by semicolons. SELECT of database 0 is left out.
    pub fn fed(&mut self, replica: SessionKey) -> String {
        let bytes = self.output(replica);
        let mut rest = &bytes[..];
        let mut commands = Vec::new();
        while let Ok(Some((Value::Array(words), len))) = decode(rest) {
            rest = &rest[len..];
            let words = words.iter().map(|word| match word {
                Value::Bulk(text) if text.is_empty() => "\"\"".into(),
                Value::Bulk(text) => text.escape_ascii().to_string(),
                other => panic!("the stream is bulk strings: {other:?}"),
            });
            commands.push(words.collect::<Vec<_>>().join(" "));
        }
        assert!(rest.is_empty(), "the stream is whole commands");
        commands.retain(|command| command != "SELECT 0");
        commands.join("; ")
    }

    /// The text that was appended to the append-only file since the last call, with spaces for line ends.
    /// Annotations about replication are left out.
    pub fn appended(&mut self) -> String {
        let mut bytes = Vec::new();
        self.engine.take_aof(&mut bytes);
        let text = bytes.escape_ascii().to_string().replace("\\r\\n", " ");
        // The lengths of commands and words are left out, because they are redundant.
        let is_shown =
            |word: &&str| !word.is_empty() && !word.starts_with(['*', '$']) && !word.starts_with("#REPL-");
        let words = text.split(' ').filter(is_shown);
        words.collect::<Vec<_>>().join(" ")
    }

    /// Whether a client's connection is to be closed, or is gone already.
    pub fn is_closing(&self, client: SessionKey) -> bool {
        self.engine.session(client).is_none_or(|s| s.caller.closing != Closing::No)
    }

    /// Runs a line and compares its rendered reply.
    #[track_caller]
    pub fn check(&mut self, line: &str, expected: &str) {
        let got = self.run(line);
        assert_eq!(got, expected, "reply of: {line}");
    }

    /// Runs a line as a client and compares the reply.
    #[track_caller]
    pub fn check_as(&mut self, client: SessionKey, line: &str, expected: &str) {
        let got = self.run_as(client, line);
        assert_eq!(got, expected, "reply of: {line}");
    }

    /// Runs the loads that were held, and passes their results to the engine.
    pub fn finish_loads(&mut self) -> Option<LoadEnded> {
        for job in std::mem::take(&mut self.loads) {
            job.run(&mut Here(&mut self.slept_us, self.process.now));
        }
        let ended = self.engine.advance_load(&mut self.process);
        self.collect();
        ended
    }

    /// Passes the judged user files to the engine; returns their number.
    pub fn finish_user_loads(&mut self) -> usize {
        let judged = std::mem::take(&mut self.user_loads);
        let count = judged.len();
        for users in judged {
            self.engine.end_user_load(users, &mut self.process);
        }
        if count > 0 {
            self.collect();
        }
        count
    }

    fn collect(&mut self) {
        let mut actions = Vec::new();
        self.engine.take_actions(&mut actions);
        for action in actions {
            match action {
                Action::Load(job) => self.loads.push(*job),
                Action::Migrate(migration) => self.migrations.push(*migration),
                Action::LoadUsers(load) => {
                    // The file is read now, as on the server's thread, and the result may be applied later.
                    let judged = load.run(&mut self.process);
                    self.user_loads.push(judged);
                }
                Action::Produce(client, read) => self.reads.push((client, read)),
                action => self.actions.push(action),
            }
        }
        if !self.loads.is_empty() && !self.holds_loads {
            self.finish_loads();
        }
        if !self.holds_user_loads {
            self.finish_user_loads();
        }
        while !self.holds_reads && !self.reads.is_empty() {
            self.finish_read();
        }
    }

    /// Produces the next piece of the oldest slow read, whether the client has room for it or not;
    /// returns whether another piece follows.
    pub fn produce(&mut self) -> Progress {
        let Some((client, read)) = self.reads.first_mut() else { return Progress::End };
        let (piece, progress) = read.next_piece();
        self.engine.take_piece(*client, piece, &mut self.process);
        progress
    }

    /// Produces the rest of the oldest slow read and ends it; one millisecond counts as its time on another
    /// thread. Then the next slow read begins.
    pub fn finish_read(&mut self) {
        while self.produce() == Progress::More {}
        let (client, _) = self.reads.remove(0);
        self.engine.end_slow_read(client, 1_000_000, &mut self.process);
        self.engine.slow_thread_is_free(&mut self.process);
        self.collect();
    }
}

/// Runs the lines in order on one fresh engine and compares the rendered replies: `(line, expected)`.
#[track_caller]
pub fn check(script: &[(&str, &str)]) {
    let mut rig = Rig::new();
    for (line, expected) in script {
        rig.check(line, expected);
    }
}

fn connection(n: u16) -> ClientAddress {
    ClientAddress {
        addr: format!("127.0.0.1:{}", 5000 + n),
        laddr: "127.0.0.1:6379".into(),
        fd: 8 + i32::from(n),
        medium: Medium::Tcp,
        has_priority: false,
    }
}

/// Maximum keys of a database that is checked after each request.
const CHECKED_KEYS_MAX: usize = 64;

#[cfg(test)]
mod tests {
    use super::Rig;

    #[test]
    fn the_example_of_the_module_holds() {
        let mut rig = Rig::new();
        rig.check("SET k v", "+OK");
        rig.check("GET k", "\"v\"");
        rig.pass_ms(1000);
    }
}
