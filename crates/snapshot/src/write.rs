//! Snapshots: the keyspace is written in pieces, as an RDB file or as commands. The source is the keyspace
//! itself, or captures (copies of the entries as they were at one moment, the cut).

use crate::commands::{ValuePosition, write_commands};
use sluice_base::{Bytes, Now, StreamPosition};
use sluice_config::choice::{EvictionPolicy, RdbCompression};
use sluice_config::{Config, param};
use sluice_keyspace::{CLOCK_MASK, Captured, IMPORT_NAME_LEN, Keyspace, SlotImport, Str, ValueRef};
use sluice_persist::aof::ReplicationNote;
use sluice_persist::rdb::{
    Compression, CompressionMethod, Packer, Text, Usage, Version, WriteOptions, Writer,
};
use sluice_resp::command::push_command;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a snapshot states beside the data.
pub struct RdbAux<'a> {
    /// Time at which the snapshot was made.
    pub now: Now,
    /// Bytes of memory in use at that time.
    pub used_memory: usize,
    /// Whether the snapshot is the base of an append-only file.
    pub is_aof_base: bool,
    /// The snapshot's position in the replication stream; `None` if there is none.
    pub stream: Option<StreamPosition<'a>>,
    /// Open slots of a primary of a cluster, when the snapshot is for a replica.
    pub slot_states: Option<&'a str>,
    /// Slot imports in progress.
    pub imports: &'a [SlotImport],
}

/// The write options that the configuration sets for a file on disk; `version` is the version of the readers.
pub fn options(config: &Config, version: Version) -> WriteOptions {
    let compression = match config.choice(param::RDBCOMPRESSION) {
        RdbCompression::No => Compression::None,
        RdbCompression::Yes | RdbCompression::Lzf => Compression::Strings,
        RdbCompression::Lz4 => Compression::Whole(CompressionMethod::Lz4),
        RdbCompression::Zstd => Compression::Whole(CompressionMethod::Zstd),
    };
    WriteOptions { version, compression, checksum: config.bool(param::RDBCHECKSUM) }
}

/// The write options of a file for replicas that understand `codec`. With `None` the file is not compressed
/// as a whole, and strings are compressed only if the configuration asks for compressed strings.
pub fn options_for_replicas(
    config: &Config,
    version: Version,
    codec: Option<CompressionMethod>,
) -> WriteOptions {
    let of_file = options(config, version);
    let compression = match (codec, of_file.compression) {
        (Some(codec), _) => Compression::Whole(codec),
        (None, Compression::Whole(_)) => Compression::None,
        (None, kept) => kept,
    };
    WriteOptions { compression, ..of_file }
}

/// Source code of the function libraries, shared with the server's registry.
pub type Libraries = Vec<Arc<[u8]>>;

/// A file without databases, in pieces. Cost: O(code of the libraries).
pub fn pieces_without_keys(
    config: &Config,
    options: WriteOptions,
    about: &RdbAux<'_>,
    libraries: Libraries,
) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let file = SnapshotFile::new(config, options, about, libraries, Vec::new());
    let _ = file.finish(&mut |piece| {
        pieces.push(piece);
        ControlFlow::Continue(())
    });
    pieces
}

/// Writes a file of all databases and passes it to `give` in pieces of about `PIECE_BYTES`, until `give`
/// returns `Break`. `each` is called after each entry. Memory: one piece, and of a string that is being
/// compressed the whole compressed form.
pub fn write(
    keyspace: &Keyspace,
    config: &Config,
    options: WriteOptions,
    about: &RdbAux<'_>,
    libraries: Libraries,
    each: &mut dyn FnMut(),
    give: &mut Give<'_>,
) {
    let mut file = SnapshotFile::new(config, options, about, libraries, Vec::new());
    for (number, db) in keyspace.iter().filter(|(_, db)| !db.is_empty()) {
        file.writer.db(number, db.len(), db.expires_len());
        for entry in db.iter().map(|handle| db.entry(handle)) {
            let (value, expiry, clock) = (entry.value(), entry.expiry(), entry.clock());
            if file.entry(entry.key(), value, expiry, clock, give).is_break() {
                return;
            }
            each();
        }
    }
    // Nothing follows the end of the file, so it does not matter whether `give` returns `Break` here.
    let _ = file.finish(give);
}

/// The closure that takes the next bytes of a file; it returns `Break` if no more are wanted.
pub type Give<'a> = dyn FnMut(Bytes) -> ControlFlow<()> + 'a;

/// A snapshot file that is being written, usually from the captures of a cut. It accepts the captured pieces
/// in any order and on any thread.
pub struct SnapshotFile {
    writer: Writer,
    /// The compressor of the whole file, if it is compressed as a whole.
    packer: Option<Packer>,
    saving: KeyWriter,
    /// Sizes of the databases at the cut, until they are written: number of the database, of its keys, and of
    /// its keys with an expiry. A reader uses them as hints.
    sizes: Vec<(usize, usize, usize)>,
    selected: Option<usize>,
    /// Commands that are written in place of a snapshot: the base of an append-only file
    /// under `aof-use-rdb-preamble no`.
    commands: Option<CommandBase>,
    /// Source code of the libraries, in case the file is written as commands.
    libraries: Libraries,
}

impl std::fmt::Debug for SnapshotFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SnapshotFile").field("selected", &self.selected).finish_non_exhaustive()
    }
}

impl SnapshotFile {
    /// Begins a file with the facts about the snapshot.
    pub fn new(
        config: &Config,
        options: WriteOptions,
        about: &RdbAux<'_>,
        libraries: Libraries,
        sizes: Vec<(usize, usize, usize)>,
    ) -> SnapshotFile {
        let (mut writer, packer) = begin(options);
        write_fields(&mut writer, about, &libraries);
        let saving = KeyWriter {
            usage: UsageField::by(config),
            now: about.now,
            max_listpack_size: config.int(param::LIST_MAX_LISTPACK_SIZE) as i32,
        };
        SnapshotFile { writer, packer, saving, sizes, selected: None, commands: None, libraries }
    }

    /// Switches to commands instead of a snapshot; they begin with `imports` and the libraries. With `stamp`,
    /// a timestamp precedes them; with `point`, annotations of this position follow the last command.
    pub fn written_as_commands(
        self,
        stamp: Option<Now>,
        point: Option<StreamPosition<'_>>,
        imports: &[SlotImport],
    ) -> SnapshotFile {
        let mut commands = CommandBase::new(stamp, point);
        imports.iter().for_each(|import| commands.import(import));
        for code in &self.libraries {
            push_command(&mut commands.out, [&b"FUNCTION"[..], b"LOAD", code].into_iter());
        }
        SnapshotFile { commands: Some(commands), packer: None, ..self }
    }

    /// A file without auxiliary fields; for tests.
    #[doc(hidden)]
    pub fn empty() -> SnapshotFile {
        SnapshotFile::bare(false)
    }

    /// A file without auxiliary fields, with values compressed; for tests.
    #[doc(hidden)]
    pub fn compressing() -> SnapshotFile {
        SnapshotFile::bare(true)
    }

    fn bare(compression: bool) -> SnapshotFile {
        let compression = Compression::of_strings(compression);
        let options = WriteOptions { version: Version::Valkey, compression, checksum: true };
        let now = Now { mono_ns: 0, unix_us: 0 };
        let saving = KeyWriter { usage: UsageField::None, now, max_listpack_size: -2 };
        SnapshotFile {
            writer: Writer::new(options),
            packer: None,
            saving,
            sizes: Vec::new(),
            selected: None,
            commands: None,
            libraries: Vec::new(),
        }
    }

    /// Sets whether strings are compressed, if the configuration wants compression at all; a reader
    /// accepts both in one file. A file that is compressed as a whole stays so to its end, which takes
    /// less time than compressing its strings.
    pub fn compress(&mut self, wanted: bool) {
        self.writer.compress(wanted);
    }

    /// Writes the entries of a captured piece; `each` is called after each of them. Stops when
    /// `give` breaks off.
    pub fn piece(
        &mut self,
        piece: &Captured,
        each: &mut dyn FnMut(),
        give: &mut Give<'_>,
    ) -> ControlFlow<()> {
        let number = piece.number();
        if self.selected != Some(number) {
            self.selected = Some(number);
            if let Some(commands) = &mut self.commands {
                commands.select(number);
            }
            match self.sizes.iter().position(|(db, ..)| *db == number) {
                Some(at) => {
                    let (_, keys, expires) = self.sizes.swap_remove(at);
                    self.writer.db(number, keys, expires);
                }
                None => self.writer.select(number),
            }
        }
        for entry in piece.iter() {
            self.entry(entry.key(), entry.value(), entry.expiry(), entry.clock(), give)?;
            each();
        }
        ControlFlow::Continue(())
    }

    /// Writes the end of the file.
    pub fn finish(self, give: &mut Give<'_>) -> ControlFlow<()> {
        let end = match (self.commands, self.packer) {
            (Some(mut commands), _) => {
                commands.out.append(&mut commands.notes);
                commands.out
            }
            (None, Some(mut packer)) => {
                packer.feed(&self.writer.finish());
                packer.finish()
            }
            (None, None) => self.writer.finish(),
        };
        give(Bytes::from_vec(end))
    }

    fn entry(
        &mut self,
        key: &[u8],
        value: ValueRef<'_>,
        expiry: Option<i64>,
        clock: u32,
        give: &mut Give<'_>,
    ) -> ControlFlow<()> {
        let SnapshotFile { writer, packer, saving, commands, .. } = self;
        if let Some(commands) = commands {
            return commands.entry(key, value, expiry, give);
        }
        let mut pack = |piece: Bytes| match packer.as_mut() {
            Some(packer) => {
                packer.feed(&piece);
                match packer.take() {
                    packed if packed.is_empty() => ControlFlow::Continue(()),
                    packed => give(Bytes::from_vec(packed)),
                }
            }
            None => give(piece),
        };
        let give = &mut pack;
        if writer.pending() >= PIECE_BYTES {
            give(Bytes::from_vec(writer.take()))?;
        }
        let usage = saving.usage_of(clock);
        // A value that spans several pieces cannot be interrupted: its remaining pieces are dropped instead.
        let mut going = ControlFlow::Continue(());
        let mut give = |piece| {
            if going.is_continue() {
                going = give(piece);
            }
        };
        match value {
            ValueRef::Str(Str::Int(number)) => writer.string(key, Text::Int(number), expiry, usage),
            ValueRef::Str(Str::Inline(bytes)) => writer.string(key, Text::Bytes(bytes), expiry, usage),
            ValueRef::Str(Str::Shared(bytes)) => writer.string(key, Text::Bytes(bytes), expiry, usage),
            ValueRef::Str(Str::Pages(long)) => writer.pages(key, long, expiry, usage, &mut give),
            ValueRef::List(list) => {
                writer.list(key, list, saving.max_listpack_size, expiry, usage, &mut give);
            }
            ValueRef::Hash(hash) => writer.hash(key, hash, expiry, usage, &mut give),
            ValueRef::Stream(stream) => writer.stream(key, stream, expiry, usage, &mut give),
            ValueRef::Set(set) => writer.set(key, set, expiry, usage, &mut give),
            ValueRef::Zset(zset) => writer.zset(key, zset, expiry, usage, &mut give),
        }
        going
    }
}

/// Begins a file: the writer of its records, and the compressor of the whole file if there is one.
/// Inside a compressed frame the file has no checksum, because the frame has one if the options ask for it.
fn begin(options: WriteOptions) -> (Writer, Option<Packer>) {
    match options.compression {
        Compression::None | Compression::Strings => (Writer::new(options), None),
        Compression::Whole(codec) => {
            let inside = WriteOptions { checksum: false, ..options };
            (Writer::new(inside), Some(Packer::of_file(codec, options.checksum)))
        }
    }
}

fn write_fields(writer: &mut Writer, about: &RdbAux<'_>, libraries: &[Arc<[u8]>]) {
    writer.aux("valkey-ver", Text::Bytes(sluice_base::version::COMPATIBLE.as_bytes()));
    writer.aux("redis-bits", Text::Int(i64::from(usize::BITS)));
    writer.aux("ctime", Text::Int(about.now.unix_s()));
    writer.aux("used-mem", Text::Int(about.used_memory as i64));
    if let Some(point) = &about.stream {
        writer.aux("repl-stream-db", Text::Int(point.db as i64));
        writer.aux("repl-id", Text::Bytes(point.replid.as_bytes()));
        writer.aux("repl-offset", Text::Int(point.offset as i64));
    }
    if let Some(states) = about.slot_states {
        writer.aux("cluster-slot-states", Text::Bytes(states.as_bytes()));
    }
    writer.aux("aof-base", Text::Int(i64::from(about.is_aof_base)));
    for code in libraries {
        writer.function(code);
    }
    for SlotImport { name, ranges, source: _ } in about.imports {
        writer.slot_import(name, ranges);
    }
}

/// The keyspace as commands that recreate its entries.
struct CommandBase {
    out: Vec<u8>,
    /// Annotations that follow all commands: the position of the data in a replication history.
    notes: Vec<u8>,
}

impl CommandBase {
    fn new(stamp: Option<Now>, point: Option<StreamPosition<'_>>) -> CommandBase {
        let stamp = stamp.map_or_else(String::new, |now| format!("#TS:{}\r\n", now.unix_s()));
        let mut notes = Vec::new();
        if let Some(point) = point
            && let Ok(id) = point.replid.as_bytes().try_into()
        {
            ReplicationNote::Id(id).push(&mut notes);
            ReplicationNote::Offset(point.offset).push(&mut notes);
        }
        CommandBase { out: stamp.into_bytes(), notes }
    }

    /// Writes the command that began an import. If the import was loaded from a snapshot, which does not
    /// name the source, the source is 40 zeros; a reader skips this argument.
    fn import(&mut self, import: &SlotImport) {
        let source = import.source.unwrap_or([b'0'; IMPORT_NAME_LEN]);
        let ends = import.ranges.iter().flat_map(|(first, last)| [*first, *last]);
        let ends: Vec<String> = ends.map(|slot| slot.to_string()).collect();
        let mut words = vec![&b"CLUSTER"[..], b"SYNCSLOTS", b"ESTABLISH", b"SOURCE", &source];
        words.extend([&b"NAME"[..], &import.name, b"SLOTSRANGE"]);
        words.extend(ends.iter().map(String::as_bytes));
        push_command(&mut self.out, words.into_iter());
    }

    fn select(&mut self, number: usize) {
        push_command(&mut self.out, [&b"SELECT"[..], number.to_string().as_bytes()].into_iter());
    }

    fn entry(
        &mut self,
        key: &[u8],
        value: ValueRef<'_>,
        expiry: Option<i64>,
        give: &mut Give<'_>,
    ) -> ControlFlow<()> {
        let mut going = ControlFlow::Continue(());
        let mut give_full = |out: &mut Vec<u8>| {
            if out.len() >= PIECE_BYTES {
                going = give(Bytes::from_vec(std::mem::take(out)));
            }
            going.is_break()
        };
        write_commands(key, value, expiry, ValuePosition::START, &mut self.out, &mut give_full);
        going
    }
}

/// A piece is passed on once it has at least this many bytes, before the compression of the whole file.
const PIECE_BYTES: usize = 256 * 1024;

/// Settings for writing keys.
#[derive(Clone, Copy)]
struct KeyWriter {
    usage: UsageField,
    now: Now,
    /// Setting `list-max-listpack-size`, by which lists are cut into nodes.
    max_listpack_size: i32,
}

impl KeyWriter {
    /// The idle time or the LFU counter that the file states for an entry with this access clock, or neither.
    fn usage_of(self, clock: u32) -> Usage {
        match self.usage {
            UsageField::None => Usage::Absent,
            UsageField::Idle => {
                Usage::Idle(u64::from((self.now.unix_s() as u32).wrapping_sub(clock) & CLOCK_MASK))
            }
            UsageField::Freq => Usage::Frequency((clock & 255) as u8),
        }
    }
}

/// What a snapshot states about the use of a key: nothing, the idle time, or the LFU counter. The eviction
/// policy decides.
#[derive(Clone, Copy)]
enum UsageField {
    None,
    Idle,
    Freq,
}

impl UsageField {
    fn by(config: &Config) -> UsageField {
        match config.choice::<EvictionPolicy>(param::MAXMEMORY_POLICY) {
            EvictionPolicy::AllkeysLru | EvictionPolicy::VolatileLru => UsageField::Idle,
            EvictionPolicy::AllkeysLfu | EvictionPolicy::VolatileLfu => UsageField::Freq,
            EvictionPolicy::NoEviction
            | EvictionPolicy::AllkeysRandom
            | EvictionPolicy::VolatileRandom
            | EvictionPolicy::VolatileTtl => UsageField::None,
        }
    }
}
