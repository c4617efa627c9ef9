//! Replaying an append-only file: its commands run as they ran when they were appended.
//!
//! Invariants: (1) no command is refused, deferred, counted or propagated: that was decided when it was appended; (2) a key past its
//! expiry is there until the log deletes it: what came behind may have met it alive; (3) a transaction runs when its EXEC is there,
//! and not at all without: the file ends within it, or DISCARD has ended it; (4) memory beside the keyspace: one piece of the file,
//! one record, one transaction.

use crate::args::Args;
use crate::engine::Engine;
use crate::loading::{LoadCounts, NotLoaded, PreambleLoad, progress_line};
use crate::prepare::{Hashing, PreparedBatch, Preparer};
use crate::process::{LogLevel, Process, SnapshotSource};
use crate::saving::SAID_EVERY_NS;
use crate::session::{Connection, Session};
use crate::session_key::SessionKey;
use crate::transaction::Transaction;
use sluice_base::{ClientId, Now};
use sluice_command::specs::{connection, transactions};
use sluice_command::{Flags, Named, Spec};
use sluice_config::choice::RdbVersionCheck;
use sluice_config::param;
use sluice_persist::aof::{LogItem, LogOptions, LogProgress, LogReader};
use sluice_persist::rdb::{ReadOptions, Unknown};
use sluice_resp::Request;
use std::sync::Arc;

/// A file of an append-only file that is to be replayed.
pub struct AofPart<'a> {
    /// Its name, for the log.
    pub name: &'a str,
    /// Its bytes.
    pub source: &'a mut dyn SnapshotSource,
    /// Whether it is the only file there is, as versions before 7.0 wrote it.
    pub is_old_style: bool,
}

/// How a file ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AofEnd {
    /// With a record.
    Whole,
    /// Within a record or a transaction; so many bytes are in order.
    Truncated(u64),
}

/// A replay under way.
struct Replay {
    session: Session,
    transaction: Option<Transaction>,
    /// Prepares requests by their names of old, where a name was given another meaning since.
    original: Preparer,
    batch: PreparedBatch,
    preamble: PreambleLoad,
    /// Commands that answered an error.
    failed: u64,
}

/// Why a request cannot be replayed: a line for the log.
struct CannotReplay(String);

/// Bytes that are read at once.
const PIECE_BYTES: usize = 256 * 1024;

impl Engine {
    /// Replays the files of an append-only file in order into the keyspace. `go_on` is asked between two pieces. How each file
    /// ended is given to `end`, which says whether the next may follow. Errors: the log has said why, and the data are a part
    /// of what was there. To be called before the first client is served. Cost: O(files).
    pub fn replay_aof(
        &mut self,
        part: AofPart<'_>,
        process: &mut dyn Process,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<AofEnd, NotLoaded> {
        let (hits, misses, expired) = (self.stats.hits, self.stats.misses, self.stats.expired_keys);
        let name = part.name.to_owned();
        let opened = part.source.open().and_then(|size| size.ok_or("No such file or directory".to_owned()));
        let size = opened.map_err(|reason| {
            let text = format!("Fatal error: can't open the append log file {name} for reading: {reason}");
            process.log(LogLevel::Warning, &text);
            NotLoaded::Failed
        })?;
        let limits = self.control.limits.clone();
        // An import source sees keys past their expiry.
        Arc::make_mut(&mut self.control.limits).import_mode = true;
        self.refresh_access();
        let mut replay = Replay::new(self, process.now(), size);
        let result = self.replay_file(&mut replay, part, process, go_on);
        self.control.limits = limits;
        self.refresh_access();
        (self.stats.hits, self.stats.misses, self.stats.expired_keys) = (hits, misses, expired);
        self.control.dirty = 0;
        let Replay { preamble, failed, .. } = replay;
        if failed > 0 {
            let text = format!(
                "{failed} commands of the append only file {name} answered an error when they were replayed"
            );
            process.log(LogLevel::Warning, &text);
        }
        self.control.kept.merge(preamble.kept);
        if preamble.counts != LoadCounts::default() {
            self.control.note_loaded(preamble.counts);
        }
        result
    }

    fn replay_file(
        &mut self,
        replay: &mut Replay,
        part: AofPart<'_>,
        process: &mut dyn Process,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Result<AofEnd, NotLoaded> {
        let AofPart { name, source, is_old_style } = part;
        let size = replay.preamble.size();
        let mut reader = LogReader::new(self.log_options());
        let mut piece = vec![0; PIECE_BYTES];
        let start_ns = process.now().mono_ns;
        let (mut read, mut said_ns, mut in_preamble) = (0u64, start_ns, false);
        loop {
            if !go_on() {
                return Err(NotLoaded::Stopped);
            }
            let len = source.read(&mut piece).map_err(|reason| {
                let text = format!("Unrecoverable error reading the append only file {name}: {reason}");
                process.log(LogLevel::Warning, &text);
                NotLoaded::Failed
            })?;
            if len == 0 {
                return match in_preamble {
                    true => Err(preamble_failed(name, is_old_style, process)),
                    false if reader.tail().is_complete() => Ok(AofEnd::Whole),
                    false => {
                        if reader.tail().transaction.is_some() {
                            let text = format!("Revert incomplete MULTI/EXEC transaction in AOF file {name}");
                            process.log(LogLevel::Warning, &text);
                        }
                        Ok(AofEnd::Truncated(reader.tail().valid_up_to))
                    }
                };
            }
            if read == 0 && [&b"REDIS"[..], b"VALKEY"].iter().any(|magic| piece[..len].starts_with(magic)) {
                in_preamble = true;
                let text = match is_old_style {
                    true => "Reading RDB preamble from AOF file...",
                    false => "Reading RDB base file on AOF loading...",
                };
                process.log(LogLevel::Notice, text);
            }
            read += len as u64;
            reader.feed(&piece[..len]);
            self.replay_fed(replay, &mut reader, name, &mut in_preamble, is_old_style, process)?;
            // What a command left to be freed elsewhere is freed here.
            self.actions.clear();
            let now_ns = process.now().mono_ns;
            if now_ns.saturating_sub(said_ns) >= SAID_EVERY_NS {
                said_ns = now_ns;
                process.log(LogLevel::Notice, &progress_line(read, size, now_ns.saturating_sub(start_ns)));
            }
        }
    }

    /// Replays what was fed.
    fn replay_fed(
        &mut self,
        replay: &mut Replay,
        reader: &mut LogReader,
        name: &str,
        in_preamble: &mut bool,
        is_old_style: bool,
        process: &mut dyn Process,
    ) -> Result<(), NotLoaded> {
        loop {
            let item = match reader.next() {
                Ok(LogProgress::Item(item)) => item,
                Ok(LogProgress::More) => return Ok(()),
                Err(error) => {
                    process.log(LogLevel::Warning, &format!("AOF {name}: {error}"));
                    if *in_preamble {
                        return Err(preamble_failed(name, is_old_style, process));
                    }
                    process.log(LogLevel::Warning, &bad_format(name));
                    return Err(NotLoaded::Failed);
                }
            };
            let replayed = match item {
                LogItem::Preamble(item) => {
                    let mut log = |level, line: &str| process.log(level, line);
                    let loaded = replay.preamble.item(item, &mut self.keyspace, &mut log);
                    loaded.map_err(CannotReplay)
                }
                LogItem::PreambleEnd => {
                    *in_preamble = false;
                    if let Err(line) = replay.preamble.finish(&mut self.keyspace) {
                        process.log(LogLevel::Warning, &line);
                        return Err(preamble_failed(name, is_old_style, process));
                    }
                    let LoadCounts { loaded, expired, .. } = replay.preamble.counts;
                    let text = format!(
                        "Done loading RDB, keys loaded: {loaded}, keys expired: {expired}, all fields expired hashes: 0."
                    );
                    process.log(LogLevel::Notice, &text);
                    if is_old_style {
                        process.log(LogLevel::Notice, "Reading the remaining AOF tail...");
                    }
                    Ok(())
                }
                LogItem::Timestamp(_) | LogItem::Annotation => Ok(()),
                LogItem::Command(request) => self.replay_request(replay, &request, name, process),
            };
            if let Err(CannotReplay(line)) = replayed {
                process.log(LogLevel::Warning, &line);
                return Err(NotLoaded::Failed);
            }
        }
    }

    fn log_options(&self) -> LogOptions {
        let config = &self.control.config;
        let relaxed = config.choice::<RdbVersionCheck>(param::RDB_VERSION_CHECK) == RdbVersionCheck::Relaxed;
        let preamble = ReadOptions {
            unknown: if relaxed { Unknown::Skip } else { Unknown::Refuse },
            checksum: config.bool(param::RDBCHECKSUM) && !self.control.skip_checksum,
            list: self.control.limits.list,
        };
        // A log may be older than a limit on what clients send: what it holds was acknowledged. The file bounds it.
        LogOptions { preamble, arg_bytes_max: ARG_BYTES_MAX }
    }

    /// Replays a record: a command, or a part of a transaction.
    fn replay_request(
        &mut self,
        replay: &mut Replay,
        request: &Request<'_>,
        name: &str,
        process: &mut dyn Process,
    ) -> Result<(), CannotReplay> {
        let mut batch = std::mem::take(&mut replay.batch);
        batch.clear();
        self.preparer.prepare(request, &mut batch);
        if !matches!(batch.items()[0].named, Named::Command(_)) {
            batch.clear();
            replay.original.prepare(request, &mut batch);
        }
        let item = batch.items()[0];
        let result = match item.named {
            Named::Command(spec) if !spec.arity.accepts(request.spans().len()) => {
                Err(CannotReplay(bad_format(name)))
            }
            Named::Command(spec) if spec.id == transactions::MULTI.id => {
                replay.transaction = Some(Transaction::default());
                Ok(())
            }
            Named::Command(spec) if spec.id == transactions::EXEC.id => {
                self.replay_transaction(replay, process)
            }
            // No server writes one. Its transaction ends there, and what comes behind is run.
            Named::Command(spec) if spec.id == transactions::DISCARD.id => {
                replay.transaction = None;
                Ok(())
            }
            Named::Command(spec) => match &mut replay.transaction {
                Some(transaction) => {
                    transaction.push(spec, item, request);
                    Ok(())
                }
                None => {
                    let args = Args::new(request, &item, &batch.hashing);
                    self.replay_command(replay, spec, args, process)
                }
            },
            Named::UnknownSubcommand(_) | Named::Unknown => Err(CannotReplay(format!(
                "Unknown command '{}' reading the append only file {name}",
                request.arg(0).escape_ascii()
            ))),
        };
        replay.batch = batch;
        result
    }

    fn replay_transaction(
        &mut self,
        replay: &mut Replay,
        process: &mut dyn Process,
    ) -> Result<(), CannotReplay> {
        let Some(transaction) = replay.transaction.take() else { return Ok(()) };
        let hashing = Hashing { hasher: self.keyspace.hasher(), hashes: Vec::new() };
        for (i, prepared) in transaction.prepared.iter().enumerate() {
            let request = transaction.requests.at(i);
            if let Named::Command(spec) = prepared.named {
                self.replay_command(replay, spec, Args::new(&request, prepared, &hashing), process)?;
            }
        }
        Ok(())
    }

    /// Runs a command that changes data, or selects a database. Others are in no log that a server wrote, and are passed over.
    fn replay_command(
        &mut self,
        replay: &mut Replay,
        spec: &'static Spec,
        args: Args<'_>,
        process: &mut dyn Process,
    ) -> Result<(), CannotReplay> {
        let is_select = spec.id == connection::SELECT.id;
        if !spec.flags.has(Flags::WRITE) && !is_select {
            return Ok(());
        }
        let session = &mut replay.session;
        let mut now = process.recent();
        let mut unit = self.open_unit(now);
        let db = session.caller.db;
        let result = self.dispatch(&mut unit, session, spec, args, &mut now, process);
        self.commit_command(db, args, unit.now, session.caller.proto);
        self.close_unit(unit, session, spec);
        session.outbox.clear();
        match result {
            Ok(_) => {}
            Err(error) if is_select => {
                let number = args.at(1).escape_ascii();
                let reason = String::from_utf8_lossy(&error.wire()).into_owned();
                return Err(CannotReplay(format!(
                    "The append only file selects database {number}: {reason}"
                )));
            }
            Err(_) => replay.failed += 1,
        }
        Ok(())
    }
}

impl Replay {
    fn new(engine: &Engine, now: Now, size: u64) -> Replay {
        let key = SessionKey { slot: u32::MAX, generation: 0 };
        let connection = Connection { addr: String::new(), laddr: "".into(), fd: -1, unix: false };
        let mut session = Session::new(key, ClientId(u64::MAX), connection, 0, true);
        session.caller.flags.import_source = true;
        Replay {
            session,
            transaction: None,
            original: Preparer::new(engine.keyspace.hasher(), &Arc::default()),
            batch: PreparedBatch::default(),
            preamble: PreambleLoad::new(now, engine.control.limits.lfu, size),
            failed: 0,
        }
    }
}

fn preamble_failed(name: &str, is_old_style: bool, process: &mut dyn Process) -> NotLoaded {
    let text = match is_old_style {
        true => format!("Error reading the RDB preamble of the AOF file {name}, AOF loading aborted"),
        false => format!("Error reading the RDB base file {name}, AOF loading aborted"),
    };
    process.log(LogLevel::Warning, &text);
    NotLoaded::Failed
}

fn bad_format(name: &str) -> String {
    format!(
        "Bad file format reading the append only file {name}: make a backup of your AOF file, then use \
         ./valkey-check-aof --fix <filename.manifest>"
    )
}

/// Bytes of the longest argument of a command in a log.
const ARG_BYTES_MAX: u64 = 1 << 40;
