//! Snapshots: the keyspace as an RDB file, piece by piece. Slices between commands come with saving in the background.

use crate::version;
use sluice_base::{Bytes, Now};
use sluice_config::choice::EvictionPolicy;
use sluice_config::{Config, param};
use sluice_keyspace::{CLOCK_MASK, Db, Keyspace, Str, ValueRef};
use sluice_persist::rdb::{Text, Usage, Version, WriteOptions, Writer};
use std::ops::ControlFlow;

/// What a snapshot says about itself beside the data.
pub(crate) struct RdbAux<'a> {
    /// When it was made.
    pub now: Now,
    /// Bytes of memory in use then.
    pub used_memory: usize,
    /// Whether an append-only file goes on behind it.
    pub is_aof_base: bool,
    /// The point of the stream it stands at, when it is for a replica.
    pub stream: Option<StreamPoint<'a>>,
}

/// A point of the propagation stream.
pub(crate) struct StreamPoint<'a> {
    /// Database that the stream has selected.
    pub db: usize,
    /// Id of the history.
    pub replid: &'a str,
    /// Bytes of the history before it.
    pub offset: u64,
}

/// The file's options as the configuration has them, for a reader of that version.
pub(crate) fn options(config: &Config, version: Version) -> WriteOptions {
    WriteOptions {
        version,
        compression: config.bool(param::RDBCOMPRESSION),
        checksum: config.bool(param::RDBCHECKSUM),
    }
}

/// What a snapshot holds beside the databases: records of other servers that have no use here, and are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kept {
    /// Libraries of functions: their code.
    pub libraries: Vec<Vec<u8>>,
    /// Fields about the file whose names mean nothing here: name and value.
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Kept {
    /// Takes what another file held, each record once.
    pub(crate) fn merge(&mut self, other: Kept) {
        for code in other.libraries {
            if !self.libraries.contains(&code) {
                self.libraries.push(code);
            }
        }
        for field in other.fields {
            self.fields.retain(|(name, _)| *name != field.0);
            self.fields.push(field);
        }
    }
}

/// A file of all databases, or of none, in pieces of about [`PIECE_BYTES`]. Cost: O(size of the data), in memory too; but
/// pages of strings, and of long elements of lists, are shared where they are not compressed.
pub(crate) fn pieces(
    keyspace: Option<&Keyspace>,
    config: &Config,
    options: WriteOptions,
    about: &RdbAux<'_>,
    kept: &Kept,
) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    write(keyspace, config, options, about, kept, &mut |piece| {
        pieces.push(piece);
        ControlFlow::Continue(())
    });
    pieces
}

/// Gives a file of all databases, or of none, away in pieces of about [`PIECE_BYTES`], until that is broken off. Memory: one
/// piece, and of a string that is compressed the whole compressed string.
pub(crate) fn write(
    keyspace: Option<&Keyspace>,
    config: &Config,
    options: WriteOptions,
    about: &RdbAux<'_>,
    kept: &Kept,
    give: &mut dyn FnMut(Bytes) -> ControlFlow<()>,
) {
    let mut writer = Writer::new(options);
    write_fields(&mut writer, about, kept);
    let saving = Saving {
        usage: UsageField::by(config),
        now: about.now,
        max_listpack_size: config.int(param::LIST_MAX_LISTPACK_SIZE) as i32,
    };
    for (number, db) in keyspace.into_iter().flat_map(Keyspace::iter).filter(|(_, db)| !db.is_empty()) {
        writer.db(number, db.len(), db.expires_len());
        if write_keys(&mut writer, db, saving, give).is_break() {
            return;
        }
    }
    // Nothing comes behind the end: whether more is wanted does not matter.
    let _ = give(Bytes::from_vec(writer.finish()));
}

fn write_fields(writer: &mut Writer, about: &RdbAux<'_>, kept: &Kept) {
    writer.aux("valkey-ver", Text::Bytes(version::COMPATIBLE.as_bytes()));
    writer.aux("redis-bits", Text::Int(i64::from(usize::BITS)));
    writer.aux("ctime", Text::Int(about.now.unix_s()));
    writer.aux("used-mem", Text::Int(about.used_memory as i64));
    if let Some(point) = &about.stream {
        writer.aux("repl-stream-db", Text::Int(point.db as i64));
        writer.aux("repl-id", Text::Bytes(point.replid.as_bytes()));
        writer.aux("repl-offset", Text::Int(point.offset as i64));
    }
    writer.aux("aof-base", Text::Int(i64::from(about.is_aof_base)));
    for (name, value) in &kept.fields {
        writer.aux_of(name, Text::Bytes(value));
    }
    for code in &kept.libraries {
        writer.function(code);
    }
}

/// Bytes of a piece of a file, but for one value that is longer.
const PIECE_BYTES: usize = 256 * 1024;

/// What writing keys needs to know.
#[derive(Clone, Copy)]
struct Saving {
    usage: UsageField,
    now: Now,
    /// Setting `list-max-listpack-size`.
    max_listpack_size: i32,
}

fn write_keys(
    writer: &mut Writer,
    db: &Db,
    saving: Saving,
    give: &mut dyn FnMut(Bytes) -> ControlFlow<()>,
) -> ControlFlow<()> {
    for handle in db.iter() {
        if writer.pending() >= PIECE_BYTES {
            give(Bytes::from_vec(writer.take()))?;
        }
        let entry = db.entry(handle);
        let usage = saving.usage_of(entry.clock());
        // A value of many pieces cannot be broken off: its rest is dropped instead.
        let mut going = ControlFlow::Continue(());
        let mut give = |piece| {
            if going.is_continue() {
                going = give(piece);
            }
        };
        match entry.value() {
            ValueRef::Str(text) => {
                let text = match text {
                    Str::Int(number) => Text::Int(number),
                    Str::Inline(bytes) => Text::Bytes(bytes),
                    Str::Shared(bytes) => Text::Bytes(bytes),
                    Str::Pages(long) => {
                        writer.pages(entry.key(), long, entry.expiry(), usage, &mut give);
                        going?;
                        continue;
                    }
                };
                writer.string(entry.key(), text, entry.expiry(), usage);
            }
            ValueRef::List(list) => {
                let size = saving.max_listpack_size;
                writer.list(entry.key(), list, size, entry.expiry(), usage, &mut give);
                going?;
            }
        }
    }
    ControlFlow::Continue(())
}

impl Saving {
    /// The field about the last use of an entry with this access clock.
    fn usage_of(self, clock: u32) -> Usage {
        match self.usage {
            UsageField::None => Usage::Unsaid,
            UsageField::Idle => {
                Usage::Idle(u64::from((self.now.unix_s() as u32).wrapping_sub(clock) & CLOCK_MASK))
            }
            UsageField::Freq => Usage::Frequency((clock & 255) as u8),
        }
    }
}

/// Which field about the last use of a key a snapshot has: the one that the eviction policy asks for.
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
