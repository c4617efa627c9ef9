//! Snapshots: the keyspace as an RDB file, in memory and in one piece. Slices and sinks come with persistence.

use crate::version;
use sluice_base::{Bytes, Now};
use sluice_config::choice::EvictionPolicy;
use sluice_config::{Config, param};
use sluice_keyspace::{CLOCK_MASK, Db, Keyspace, Str, ValueRef};
use sluice_persist::rdb::{Text, Usage, Version, WriteOptions, Writer};

/// What a snapshot says about itself beside the data.
pub(crate) struct RdbAux<'a> {
    /// When it was made.
    pub now: Now,
    /// Bytes of memory in use then.
    pub used_memory: usize,
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

/// A file of all databases, or of none, in pieces of about [`PIECE_BYTES`]. Cost: O(size of the data), in memory too; but
/// pages of strings, and of long elements of lists, are shared where they are not compressed.
pub(crate) fn pieces(
    keyspace: Option<&Keyspace>,
    config: &Config,
    options: WriteOptions,
    about: &RdbAux<'_>,
) -> Vec<Bytes> {
    let mut pieces = Vec::new();
    let mut writer = Writer::new(options);
    writer.aux("valkey-ver", Text::Bytes(version::COMPATIBLE.as_bytes()));
    writer.aux("redis-bits", Text::Int(i64::from(usize::BITS)));
    writer.aux("ctime", Text::Int(about.now.unix_s()));
    writer.aux("used-mem", Text::Int(about.used_memory as i64));
    if let Some(point) = &about.stream {
        writer.aux("repl-stream-db", Text::Int(point.db as i64));
        writer.aux("repl-id", Text::Bytes(point.replid.as_bytes()));
        writer.aux("repl-offset", Text::Int(point.offset as i64));
    }
    writer.aux("aof-base", Text::Int(0));
    let saving = Saving {
        usage: UsageField::by(config),
        now: about.now,
        max_listpack_size: config.int(param::LIST_MAX_LISTPACK_SIZE) as i32,
    };
    for (number, db) in keyspace.into_iter().flat_map(Keyspace::iter).filter(|(_, db)| !db.is_empty()) {
        writer.db(number, db.len(), db.expires_len());
        write_keys(&mut writer, db, saving, &mut pieces);
    }
    pieces.push(Bytes::from_vec(writer.finish()));
    pieces
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

fn write_keys(writer: &mut Writer, db: &Db, saving: Saving, pieces: &mut Vec<Bytes>) {
    for handle in db.iter() {
        if writer.pending() >= PIECE_BYTES {
            pieces.push(Bytes::from_vec(writer.take()));
        }
        let entry = db.entry(handle);
        let clock = entry.clock();
        let usage = match saving.usage {
            UsageField::None => Usage::Unsaid,
            UsageField::Idle => {
                Usage::Idle(u64::from((saving.now.unix_s() as u32).wrapping_sub(clock) & CLOCK_MASK))
            }
            UsageField::Freq => Usage::Frequency((clock & 255) as u8),
        };
        let mut give = |piece| pieces.push(piece);
        match entry.value() {
            ValueRef::Str(text) => {
                let text = match text {
                    Str::Int(number) => Text::Int(number),
                    Str::Inline(bytes) => Text::Bytes(bytes),
                    Str::Shared(bytes) => Text::Bytes(bytes),
                    Str::Pages(long) => {
                        writer.pages(entry.key(), long, entry.expiry(), usage, &mut give);
                        continue;
                    }
                };
                writer.string(entry.key(), text, entry.expiry(), usage);
            }
            ValueRef::List(list) => {
                let size = saving.max_listpack_size;
                writer.list(entry.key(), list, size, entry.expiry(), usage, &mut give);
            }
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
