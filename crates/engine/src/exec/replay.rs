//! Replaying an append-only file: its commands run again as when they were appended. The engine that runs
//! them is not the server's, but a second one on the thread of the load (`loading/aof.rs`).
//!
//! Invariants: (1) the gate refuses no command, and none is deferred, counted or propagated, because all this
//! was decided when the command was appended; (2) a key past its expiry time exists until the log deletes it,
//! because later commands of the log may have used the key while it was alive; (3) a transaction runs when
//! its EXEC is read, and does not run if the file ends before that, or DISCARD has ended it; (4) besides the
//! keyspace, a replay holds in memory one piece of the file, one record and one transaction.

use crate::engine::Engine;
use crate::exec::finish::{CommandEnding, Ended};
use crate::exec::standing::Standing;
use crate::persistence::loading::aof::replay::ReplayProcess;
use crate::upkeep::detached::DetachedSteps;
use sluice_base::LogLevel;
use sluice_base::SessionKey;
use sluice_base::{ClientId, Now};
use sluice_command::specs::{connection, scripting, transactions};
use sluice_command::{Flags, Named, Spec};
use sluice_commands::{Args, CmdError, DataHandler, Hashing, PreparedBatch, Preparer};
use sluice_config::choice::RdbVersionCheck;
use sluice_config::param;
use sluice_control::ctx::Handler;
use sluice_control::persistence::loading::aof::AofEnd;
use sluice_control::process::{AofPart, Process, ProcessClock};
use sluice_control::unknown::{unknown_command, unknown_subcommand};
use sluice_persist::aof::{LogError, LogItem, LogOptions, LogProgress, LogReader};
use sluice_persist::rdb::{ReadOptions, Unknown};
use sluice_resp::Request;
use sluice_scripts::library::{beyond_memory, is_out_of_memory, library_head};
use sluice_scripts::state::machine_limits;
use sluice_session::identity::Identity;
use sluice_session::transaction::Transaction;
use sluice_session::{ClientAddress, ClientKind, Medium, Session};
use sluice_snapshot::{LoadCounts, NotLoaded, PreambleLoad, keep_dropped, piece_bytes, under_way_line};
use std::sync::Arc;

/// A replay under way.
struct Replay {
    session: Session,
    transaction: Option<Transaction>,
    /// Prepares requests by the original names of commands, for commands that `rename-command` has renamed.
    original: Preparer,
    batch: PreparedBatch,
    preamble: PreambleLoad,
    /// Number of commands read so far.
    commands: u64,
    /// Number of commands that replied with an error.
    failed: u64,
}

/// A file that is being replayed.
struct ReplayedFile<'a> {
    name: &'a str,
    is_old_style: bool,
    /// Whether it was logged that the snapshot at the file's beginning is being read.
    has_named_preamble: bool,
}

/// Why a request cannot be replayed, as a log line.
struct CannotReplay(String);

/// Whether a command loads function libraries.
fn loads_libraries(spec: &Spec) -> bool {
    spec.id == scripting::FUNCTION_LOAD.id || spec.id == scripting::FUNCTION_RESTORE.id
}

impl Engine {
    /// Replays an opened file of an append-only file into the keyspace; `before` is the size in bytes of
    /// the files before it. Returns how the file ended. Errors: a part of the data is loaded; the reason is
    /// logged already, unless the load was stopped. Cost: O(file).
    pub(crate) fn replay_aof(
        &mut self,
        part: &mut AofPart,
        before: u64,
        process: &mut ReplayProcess<'_, '_>,
    ) -> Result<AofEnd, NotLoaded> {
        let size = part.source.open().ok().flatten().unwrap_or(0);
        let mut replay = Replay::new(self, process.now(), size);
        let result = self.replay_file(&mut replay, part, before, process);
        let Replay { mut preamble, failed, .. } = replay;
        let counts = &mut preamble.brought().counts;
        if result.is_ok() {
            keep_dropped(part.source.as_mut(), counts, process.out);
        }
        let counts = *counts;
        if failed > 0 {
            let text = format!(
                "{failed} commands of the append only file {} failed when they were replayed",
                part.name
            );
            process.log(LogLevel::Warning, &text);
        }
        if counts != LoadCounts::default() {
            self.core.control.persistence.last_load = counts;
        }
        result
    }

    fn replay_file(
        &mut self,
        replay: &mut Replay,
        part: &mut AofPart,
        before: u64,
        process: &mut ReplayProcess<'_, '_>,
    ) -> Result<AofEnd, NotLoaded> {
        let AofPart { name, is_old_style, source, .. } = part;
        let mut file = ReplayedFile { name, is_old_style: *is_old_style, has_named_preamble: false };
        let mut reader = LogReader::new(self.log_options());
        let mut piece = vec![0; piece_bytes(&self.core.control.config)];
        let mut read = 0u64;
        loop {
            let len = source.read(&mut piece).map_err(|reason| {
                let text = format!("Unrecoverable error reading the append only file {name}: {reason}");
                process.log(LogLevel::Warning, &text);
                NotLoaded::Failed
            })?;
            if len == 0 {
                return file.end(read, &reader, process);
            }
            read += len as u64;
            reader.feed(&piece[..len]);
            self.replay_fed(replay, &mut reader, &mut file, process)?;
            // Values left to be freed later, or by another thread, are freed here.
            let now = process.now();
            DetachedSteps::of(&mut self.core).free_all(now);
            self.core.actions.clear();
            let LoadCounts { loaded, expired, .. } = replay.preamble.brought().counts;
            process.publish(before + read, (loaded, expired), &self.core.keyspace);
        }
    }

    /// Replays the records in the bytes that the reader was given.
    fn replay_fed(
        &mut self,
        replay: &mut Replay,
        reader: &mut LogReader,
        file: &mut ReplayedFile<'_>,
        process: &mut ReplayProcess<'_, '_>,
    ) -> Result<(), NotLoaded> {
        loop {
            if process.out.is_stopped() {
                return Err(NotLoaded::Stopped);
            }
            let item = match reader.next() {
                Ok(LogProgress::Item(item)) => item,
                Ok(LogProgress::More) => return Ok(()),
                Err(error) => return Err(file.is_wrong(&error, reader, process)),
            };
            let replayed = match item {
                LogItem::Preamble(item) => {
                    file.enter_preamble(process);
                    let loaded = replay.preamble.item(item, &mut self.core.keyspace, process.out);
                    loaded.map_err(CannotReplay)
                }
                LogItem::PreambleEnd => {
                    if let Err(line) = replay.preamble.finish(&mut self.core.keyspace, process.out) {
                        process.log(LogLevel::Warning, &line);
                        return Err(file.preamble_failed(process));
                    }
                    // The libraries are loaded before the commands after the snapshot run, because these
                    // commands may replace libraries.
                    let libraries = std::mem::take(&mut replay.preamble.brought().libraries);
                    if let Err(line) = self.load_libraries(libraries, process) {
                        process.log(LogLevel::Warning, &line);
                        return Err(file.preamble_failed(process));
                    }
                    file.leave_preamble(replay.preamble.brought().counts, process);
                    process.history = std::mem::take(&mut replay.preamble.brought().history);
                    Ok(())
                }
                LogItem::Timestamp(_) | LogItem::Annotation(None) => Ok(()),
                LogItem::Annotation(Some(note)) => {
                    process.history.note(note);
                    Ok(())
                }
                LogItem::Command(request) => {
                    process.history.note_change();
                    let replayed = self.replay_request(replay, &request, file.name, process);
                    replay.commands += 1;
                    process.out.delay(replay.commands);
                    replayed
                }
            };
            if let Err(CannotReplay(line)) = replayed {
                process.log(LogLevel::Warning, &line);
                return Err(NotLoaded::Failed);
            }
        }
    }

    /// Loads the function libraries of a base.
    fn load_libraries(
        &mut self,
        codes: Vec<Arc<[u8]>>,
        process: &mut ReplayProcess<'_, '_>,
    ) -> Result<(), String> {
        let limits = machine_limits(&self.core.control.config).of_file();
        for code in codes {
            let loaded = self.core.control.functions.load(code, limits, process);
            loaded.map_err(|error| format!("Failed loading library, {}", String::from_utf8_lossy(&error)))?;
        }
        Ok(())
    }

    fn log_options(&self) -> LogOptions {
        let config = &self.core.control.config;
        let relaxed = config.choice::<RdbVersionCheck>(param::RDB_VERSION_CHECK) == RdbVersionCheck::Relaxed;
        let preamble = ReadOptions {
            unknown: if relaxed { Unknown::Skip } else { Unknown::Refuse },
            checksum: config.bool(param::RDBCHECKSUM) && !self.core.control.debug.skip_checksum,
            list: self.core.control.limits.list,
            hash: self.core.control.limits.hash,
            zset: self.core.control.limits.zset,
            member_seed: self.core.keyspace.hasher().seed(),
            set: self.core.control.limits.set,
        };
        // No configured limit on the sizes of arguments applies, because the log may be older than the
        // limit, and its commands were acknowledged. The size of the file bounds the arguments.
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
        self.preparing.preparer.prepare(request, &mut batch);
        if !matches!(batch.items()[0].named, Named::Command(_)) {
            batch.clear();
            replay.original.prepare(request, &mut batch);
        }
        let item = batch.items()[0];
        let result = match item.named {
            Named::Command(spec) if !spec.arity.accepts(request.spans().len()) => {
                Err(refused(name, &CmdError::Arity(spec.full_name)))
            }
            Named::Command(spec) if spec.id == transactions::MULTI.id => {
                replay.transaction = Some(Transaction::default());
                Ok(())
            }
            // No server writes an EXEC with conditions to a log.
            Named::Command(spec) if spec.id == transactions::EXEC.id && request.spans().len() > 1 => {
                Err(refused(name, &CmdError::Arity(spec.full_name)))
            }
            Named::Command(spec) if spec.id == transactions::EXEC.id => {
                self.replay_transaction(replay, process)
            }
            // No server writes a DISCARD. The transaction ends there, and the commands after it are run.
            Named::Command(spec) if spec.id == transactions::DISCARD.id => {
                replay.transaction = None;
                Ok(())
            }
            Named::Command(spec) => match &mut replay.transaction {
                Some(transaction) => {
                    transaction.push(spec.flags, item, request);
                    Ok(())
                }
                None => {
                    let args = Args::new(request, &item, &batch.hashing);
                    self.replay_command(replay, spec, args, process)
                }
            },
            Named::UnknownSubcommand(container) => {
                Err(refused(name, &unknown_subcommand(container, Args::new(request, &item, &batch.hashing))))
            }
            Named::Unknown => Err(refused(name, &unknown_command(Args::new(request, &item, &batch.hashing)))),
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
        let hashing = Hashing { hasher: self.core.keyspace.hasher(), hashes: Vec::new() };
        for (i, prepared) in transaction.prepared.iter().enumerate() {
            let request = transaction.requests.at(i);
            if let Named::Command(spec) = prepared.named {
                self.replay_command(replay, spec, Args::new(&request, prepared, &hashing), process)?;
            }
        }
        Ok(())
    }

    /// Runs a command that changes data, hides keys, or selects a database. Other commands are in no log
    /// that a server wrote, and are skipped.
    fn replay_command(
        &mut self,
        replay: &mut Replay,
        spec: &'static Spec,
        args: Args<'_>,
        process: &mut dyn Process,
    ) -> Result<(), CannotReplay> {
        let is_select = spec.id == connection::SELECT.id;
        // The flags of a script command do not show whether it writes, and files of earlier versions
        // contain EVAL itself in place of the commands that the script has called. Imports of slots hide
        // keys and change none.
        let may_change = matches!(
            self.preparing.handlers[spec.id.0 as usize],
            Handler::Data(DataHandler::Keeping(_)) | Handler::Script(_) | Handler::Imports(_)
        );
        if !spec.flags.has(Flags::WRITE) && !may_change && !is_select {
            return Ok(());
        }
        let session = &mut replay.session;
        let mut now = process.recent();
        self.core.refresh_derived();
        let mut unit = self.core.begin_unit(now);
        unit.standing = Standing::Replay;
        let Some(permit) = self.core.gate.pass(spec, session, unit.standing) else { return Ok(()) };
        let (db, mark) = (session.caller.db, session.outbox.mark());
        let result = self.dispatch(&mut unit, permit, session, spec, args, &mut now, process);
        let ended = Ended::new(&mut unit, spec, args, db, 0, mark);
        self.core.end_command(CommandEnding::Replayed, ended, session, &mut now, process);
        self.core.close_unit(unit, session, spec);
        session.outbox.clear();
        match result {
            Ok(_) => {}
            Err(error) if is_select => {
                let number = args.at(1).escape_ascii();
                let reason = String::from_utf8_lossy(&error.wire()).into_owned();
                let remedy = remedy(self.core.control.limits.databases);
                return Err(CannotReplay(format!(
                    "The append only file selects database {number}: {reason}. {remedy}"
                )));
            }
            // MOVE, COPY or SWAPDB names a database that does not exist here. The replay fails, because keys
            // would be lost, or be in the wrong database.
            Err(CmdError::DbIndex) => {
                let (command, remedy) = (spec.full_name, remedy(self.core.control.limits.databases));
                return Err(CannotReplay(format!(
                    "The append only file has a '{command}' with a database that does not exist. {remedy}"
                )));
            }
            Err(error) if loads_libraries(spec) && is_out_of_memory(&error.wire()) => {
                let head = (spec.id == scripting::FUNCTION_LOAD.id)
                    .then(|| library_head(args.at(args.len() - 1)).ok())
                    .flatten();
                let bytes = machine_limits(&self.core.control.config).of_file().bytes;
                let text = beyond_memory(head.as_ref().map(|head| &*head.name), bytes);
                return Err(CannotReplay(format!("Failed loading library, {text}")));
            }
            Err(_) => replay.failed += 1,
        }
        Ok(())
    }
}

impl Replay {
    fn new(engine: &Engine, now: Now, size: u64) -> Replay {
        let key = SessionKey { slot: u32::MAX, generation: 0 };
        let connection = ClientAddress {
            addr: String::new(),
            laddr: "".into(),
            fd: -1,
            medium: Medium::Tcp,
            has_priority: false,
        };
        let mut session = Session::new(
            key,
            ClientId(u64::MAX),
            connection,
            0,
            Identity::of_newcomer(engine.core.control.clients.users.users()),
        );
        session.caller.kind = ClientKind::Log;
        Replay {
            session,
            transaction: None,
            original: Preparer::new(engine.core.keyspace.hasher(), &Arc::default()),
            batch: PreparedBatch::default(),
            preamble: PreambleLoad::new(now, engine.core.control.limits.lfu, size),
            commands: 0,
            failed: 0,
        }
    }
}

impl ReplayedFile<'_> {
    /// Logs once that the snapshot at the file's beginning is being read.
    fn enter_preamble(&mut self, process: &mut ReplayProcess<'_, '_>) {
        if !std::mem::replace(&mut self.has_named_preamble, true) {
            let text = match self.is_old_style {
                true => "Reading RDB preamble from AOF file...",
                false => "Reading RDB base file on AOF loading...",
            };
            process.log(LogLevel::Notice, text);
        }
    }

    fn leave_preamble(&mut self, counts: LoadCounts, process: &mut ReplayProcess<'_, '_>) {
        let LoadCounts { loaded, expired, .. } = counts;
        let text = format!(
            "Done loading RDB, keys loaded: {loaded}, keys expired: {expired}, all fields expired hashes: 0."
        );
        process.log(LogLevel::Notice, &text);
        if self.is_old_style {
            process.log(LogLevel::Notice, "Reading the remaining AOF tail...");
        }
    }

    fn preamble_failed(&self, process: &mut ReplayProcess<'_, '_>) -> NotLoaded {
        let name = self.name;
        let text = match self.is_old_style {
            true => format!("Error reading the RDB preamble of the AOF file {name}, AOF loading aborted"),
            false => format!("Error reading the RDB base file {name}, AOF loading aborted"),
        };
        process.log(LogLevel::Warning, &text);
        NotLoaded::Failed
    }

    /// Logs that the bytes at this place are no record of a log. The file is left as it is, because its
    /// correct contents are unknown.
    fn is_wrong(
        &self,
        error: &LogError,
        reader: &LogReader,
        process: &mut ReplayProcess<'_, '_>,
    ) -> NotLoaded {
        process.log(LogLevel::Warning, &format!("AOF {}: {error}", self.name));
        if reader.is_in_preamble() {
            if let Some(line) = under_way_line(reader.under_way_in_preamble(), None) {
                process.log(LogLevel::Warning, &line);
            }
            return self.preamble_failed(process);
        }
        process.log(LogLevel::Warning, &bad_format(self.name));
        NotLoaded::Failed
    }

    /// Ends the replay at the end of the file, which is whole or cut within a record or a transaction. A file
    /// that ends within its snapshot is an error.
    fn end(
        &self,
        read: u64,
        reader: &LogReader,
        process: &mut ReplayProcess<'_, '_>,
    ) -> Result<AofEnd, NotLoaded> {
        if reader.is_in_preamble() {
            let text = format!(
                "AOF {}: the file ends at byte {read}, within its RDB part: the item at byte {} is incomplete",
                self.name,
                reader.preamble_at()
            );
            process.log(LogLevel::Warning, &text);
            return Err(self.preamble_failed(process));
        }
        let tail = match reader.end() {
            Ok(tail) => tail,
            Err(error) => return Err(self.is_wrong(&error, reader, process)),
        };
        if tail.is_complete() {
            return Ok(AofEnd::Whole);
        }
        if tail.transaction.is_some() {
            let text = format!("Revert incomplete MULTI/EXEC transaction in AOF file {}", self.name);
            process.log(LogLevel::Warning, &text);
        }
        Ok(AofEnd::Truncated(tail.valid_up_to))
    }
}

/// The error of a command that no server would have appended.
fn refused(name: &str, error: &CmdError) -> CannotReplay {
    let wire = error.wire();
    let text = String::from_utf8_lossy(wire.strip_prefix(b"ERR ").unwrap_or(&wire)).into_owned();
    CannotReplay(format!("Error reading the append only file {name}, error: {text}"))
}

/// Advice for a file that uses more databases than are configured.
fn remedy(databases: usize) -> String {
    format!(
        "This server has {databases} databases: set databases, for a node of a cluster \
         cluster-databases, to the number of the server that wrote the file"
    )
}

fn bad_format(name: &str) -> String {
    format!(
        "Bad file format reading the append only file {name}: make a backup of your AOF file, then use \
         sluice-check-aof --fix <filename.manifest>"
    )
}

/// Maximum bytes of an argument of a command in a log.
const ARG_BYTES_MAX: u64 = 1 << 40;
