//! A bench for handlers: a keyspace, limits and a clock that tests advance, without a session.
//!
//! A request is processed like a request of the engine, as far as this crate goes: [`Preparer`]
//! finds the command and hashes keys, the number of arguments is checked, the route's handler runs
//! in the context of its kind, and keys that a read has found expired are deleted. Requests of a
//! handler to the engine are carried out at once (a slow read is produced completely), counted
//! ([`Counts`]) or recorded ([`Bench::wait`]).
//!
//! Some lines are handled by the bench, so that a table of calls can change the state of a session or a
//! server: SELECT, HELLO, CONFIG SET, and of DEBUG the digests and SET-SKIP-CHECKSUM-VALIDATION. Any
//! other command that is not a data command fails the test.

use sluice_base::quote::{Dialect, split_args};
use sluice_base::{HashSeed, Now, Rng, hex};
use sluice_command::{Named, Spec};
use sluice_commands::{
    Args, CmdError, CommandEntries, DataHandler, Limits, Outcome, PreparedBatch, Preparer, Progress, ReadCtx,
    ReplyMode, Run, SlowRead, SlowReadAsk, SlowReads, StaticCtx, WaitFor, WriteCtx, digest, digest_of,
    routes,
};
use sluice_config::{Config, ParamId};
use sluice_keyspace::{Access, AccessUpdate, CLOCK_MASK, Effects, ExpiryMode, KeyHasher, Keyspace, Layout};
use sluice_resp::{ArgumentList, Outbox, Protocol, Reply};
use sluice_testbase::render;
use std::collections::HashMap;
use std::sync::Arc;

/// The data, and the state that handlers of data commands need.
pub(crate) struct Bench {
    /// The databases on which requests run.
    pub keyspace: Keyspace,
    /// Time of the next request.
    pub now: Now,
    /// Number of the next request's database.
    pub db: usize,
    /// Protocol version of the next reply.
    pub proto: Protocol,
    /// Treatment of expired keys.
    pub expiry: ExpiryMode,
    /// Whether requests may wait; requests in a transaction may not.
    pub may_wait: bool,
    /// Counts of the requests so far.
    pub counts: Counts,
    /// The event for which the last request waits, if any.
    pub wait: Option<WaitFor>,
    /// Lengths of the pieces of the last reply that was produced in pieces.
    pub pieces: Vec<usize>,
    config: Config,
    limits: Limits,
    preparer: Preparer,
    effects: Effects,
    rng: Rng,
    reads: SlowReads,
    entries: CommandEntries,
    handlers: HashMap<u16, DataHandler>,
}

/// Counts of the requests so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Look-ups that found a key.
    pub hits: u64,
    /// Look-ups that found no key.
    pub misses: u64,
    /// Changes of data, as the effects count them.
    pub changes: u64,
    /// Keys deleted because they had expired.
    pub expired_keys: usize,
    /// Reads whose reply another thread would have produced.
    pub slow_reads: usize,
}

impl Bench {
    /// An empty bench with the default configuration.
    pub(crate) fn new() -> Bench {
        Bench::with(&[])
    }

    /// An empty bench with these directives in addition to the defaults.
    pub(crate) fn with(directives: &[(&str, &str)]) -> Bench {
        let mut none = |path: &[u8]| Err(format!("no include here: {path:?}"));
        let config = sluice_config::parse_file(b"", "test", b"", &mut none).unwrap();
        let hasher = KeyHasher::new(SEED, Layout::One);
        let limits = limits_of(&config);
        let mut bench = Bench {
            keyspace: Keyspace::new(limits.databases, hasher),
            now: Now { mono_ns: 1_000_000_000, unix_us: 1_700_000_000_000_000 },
            db: 0,
            proto: Protocol::Resp2,
            expiry: ExpiryMode::Delete,
            may_wait: true,
            counts: Counts::default(),
            wait: None,
            pieces: Vec::new(),
            config,
            limits,
            preparer: Preparer::new(hasher, &Arc::default()),
            effects: Effects::default(),
            rng: Rng::new(3),
            reads: SlowReads { threads: 1, ..SlowReads::default() },
            entries: CommandEntries::default(),
            handlers: routes().map(|route| (route.spec.id.0, route.handler)).collect(),
        };
        directives.iter().for_each(|(name, value)| bench.configure(name, value));
        bench
    }

    /// Sets a directive of the configuration.
    fn configure(&mut self, name: &str, value: &str) {
        let id = ParamId::find(name.as_bytes()).unwrap_or_else(|| panic!("no directive is called {name}"));
        self.config.assign(id, &[value.as_bytes()]).unwrap();
        let skip_checksum = self.limits.skip_checksum;
        self.limits = limits_of(&self.config);
        self.limits.skip_checksum = skip_checksum;
    }

    /// Advances the clock by `ms` milliseconds.
    pub(crate) fn pass_ms(&mut self, ms: u64) {
        self.now.mono_ns += ms * 1_000_000;
        self.now.unix_us += ms as i64 * 1000;
    }

    /// Runs a line, with words quoted as in the reference's CLI; returns the rendered reply.
    pub(crate) fn run(&mut self, line: &str) -> String {
        let words = split_args(line.as_bytes(), Dialect::Config).unwrap();
        let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        self.own_line(&words).unwrap_or_else(|| render(&self.argv(&words)))
    }

    /// Runs a line and compares its rendered reply.
    #[track_caller]
    pub(crate) fn check(&mut self, line: &str, expected: &str) {
        let got = self.run(line);
        assert_eq!(got, expected, "reply of: {line}");
    }

    /// Runs a command given as arguments; returns the bytes of its reply, none if it waits.
    pub(crate) fn argv(&mut self, argv: &[&[u8]]) -> Vec<u8> {
        self.argv_unread(argv).flatten()
    }

    /// Runs a command given as arguments; returns its reply, which may share values with the data.
    pub(crate) fn argv_unread(&mut self, argv: &[&[u8]]) -> Outbox {
        let mut list = ArgumentList::default();
        argv.iter().for_each(|word| list.push(word));
        let (request, mut batch) = (list.request(), PreparedBatch::default());
        self.preparer.prepare(&request, &mut batch);
        let prepared = batch.items()[0];
        let args = Args::new(&request, &prepared, &batch.hashing);
        let Named::Command(spec) = prepared.named else { panic!("no command: {}", argv[0].escape_ascii()) };
        let mut outbox = Outbox::new();
        let result = match spec.arity.accepts(args.len()) {
            true => self.call(spec, args, &mut outbox),
            false => Err(CmdError::Arity(spec.full_name)),
        };
        self.wait = None;
        match result {
            Ok(Outcome::Done) => {}
            Ok(Outcome::Produce(read)) => outbox = self.produce(*read),
            Ok(Outcome::Wait(on) | Outcome::WaitSince(on, _)) => self.wait = Some(*on),
            Ok(outcome) => panic!("no command about data alone ends like this: {outcome:?}"),
            Err(error) => {
                outbox = Outbox::new();
                Reply::new(&mut outbox, self.proto).error(&error.wire());
            }
        }
        self.settle();
        outbox
    }

    /// Runs the handler of a command in the context of its kind.
    fn call(&mut self, spec: &'static Spec, args: Args<'_>, outbox: &mut Outbox) -> Run {
        let handler = self.handlers.get(&spec.id.0);
        let handler = *handler.unwrap_or_else(|| panic!("{} is not about data", spec.full_name));
        let access = self.access();
        let Bench { keyspace, effects, limits, rng, reads, entries, .. } = self;
        let (reply, may_wait, reads_any_key) = (Reply::new(outbox, self.proto), self.may_wait, true);
        let slow =
            SlowReadAsk { reads, elements_max: limits.slow_read_elements, mode: ReplyMode::On, may_wait };
        match handler {
            DataHandler::Static(run) => run(&mut StaticCtx { now: self.now, entries, reply }, args),
            DataHandler::Read(run) => {
                let db = keyspace.read(self.db, access, effects);
                run(&mut ReadCtx { db, limits, rng, slow, reply, may_wait, reads_any_key }, args)
            }
            DataHandler::Write(run) | DataHandler::Keeping(run) => {
                let db = keyspace.write(self.db, access, effects);
                run(&mut WriteCtx { db, limits, reply, rng, slow, spec, may_wait, reads_any_key }, args)
            }
        }
    }

    fn access(&self) -> Access {
        let touch = match self.limits.lfu {
            false => AccessUpdate::Lru(self.now.unix_s() as u32 & CLOCK_MASK),
            true => AccessUpdate::Lfu {
                minutes: (self.now.unix_s() / 60) as u16,
                decay: self.limits.lfu_decay,
                factor: self.limits.lfu_factor,
                dice: 0,
            },
        };
        Access { now: self.now, touch, expiry: self.expiry, must_obey: false }
    }

    /// Produces the whole reply of a slow read.
    fn produce(&mut self, mut read: SlowRead) -> Outbox {
        self.counts.slow_reads += 1;
        self.pieces.clear();
        let mut whole = Outbox::new();
        read.proto = self.proto;
        loop {
            let (mut piece, progress) = read.next_piece();
            self.pieces.push(piece.len());
            whole.append(&mut piece);
            if progress == Progress::End {
                return whole;
            }
        }
    }

    /// Deletes keys that a read has found expired, takes the effects of a request, and checks the
    /// invariants of small databases.
    fn settle(&mut self) {
        let access = self.access();
        for (db, name) in self.effects.take_expired_by_read() {
            let key = self.keyspace.key(&name);
            self.keyspace.write(db, access, &mut self.effects).delete_if_expired(key);
        }
        let effects = &mut self.effects;
        let (hits, misses) = effects.take_lookups();
        self.counts.hits += hits;
        self.counts.misses += misses;
        self.counts.changes += effects.take_changes();
        self.counts.expired_keys += effects.expired_by_write().len();
        effects.take_recorded();
        effects.clear_expired_by_write();
        effects.reset_propagation();
        effects.drain_garbage();
        effects.drain_garbage_dbs().for_each(drop);
        for (number, db) in self.keyspace.iter() {
            match db.len() {
                0 => assert_eq!(db.entry_bytes(), 0, "database {number} is empty"),
                1..=CHECKED_KEYS_MAX => db.check(),
                _ => {}
            }
        }
    }

    /// Runs a line that the bench handles itself; returns the rendered reply, `None` for any other line.
    fn own_line(&mut self, words: &[&[u8]]) -> Option<String> {
        let text = |word: &&[u8]| String::from_utf8_lossy(word).into_owned();
        let first: Vec<String> = words.iter().take(2).map(text).collect();
        match (first[0].as_str(), first.get(1).map_or("", String::as_str)) {
            ("SELECT", number) => self.db = number.parse().unwrap(),
            ("HELLO", "3") => self.proto = Protocol::Resp3,
            ("CONFIG", "SET") => {
                for pair in words[2..].chunks(2) {
                    self.configure(&text(&pair[0]), &text(&pair[1]));
                }
            }
            ("DEBUG", "SET-SKIP-CHECKSUM-VALIDATION") => self.limits.skip_checksum = words[2] == b"1",
            ("DEBUG", "DIGEST") => return Some(format!("+{}", hex(&digest(&self.keyspace, self.now)))),
            ("DEBUG", "DIGEST-VALUE") => {
                let digests: Vec<String> = words[2..].iter().map(|key| self.digest_of_key(key)).collect();
                return Some(format!("[{}]", digests.join(", ")));
            }
            _ => return None,
        }
        Some("+OK".to_owned())
    }

    fn digest_of_key(&self, key: &[u8]) -> String {
        let db = self.keyspace.db(self.db);
        let found = db.find(self.keyspace.key(key));
        let digest = found.map_or([0; 20], |found| digest_of(db.entry(found.handle), self.now));
        format!("+{}", hex(&digest))
    }
}

/// Runs the lines in order on one new bench and compares the rendered replies: `(line, expected)`.
#[track_caller]
pub(crate) fn check(script: &[(&str, &str)]) {
    let mut bench = Bench::new();
    for (line, expected) in script {
        bench.check(line, expected);
    }
}

/// Runs [`check`] with RESP3.
#[track_caller]
pub(crate) fn check_resp3(script: &[(&str, &str)]) {
    let mut bench = Bench::new();
    bench.proto = Protocol::Resp3;
    for (line, expected) in script {
        bench.check(line, expected);
    }
}

/// The limits of a configuration, with the seed of hash tables.
fn limits_of(config: &Config) -> Limits {
    let mut limits = Limits::new(config);
    (limits.hash.seed, limits.set.seed) = (SEED, SEED);
    limits
}

/// The seed of all hashes.
const SEED: HashSeed = HashSeed { k0: 1, k1: 2 };

/// Number of keys above which a database is not checked after each request.
const CHECKED_KEYS_MAX: usize = 64;
