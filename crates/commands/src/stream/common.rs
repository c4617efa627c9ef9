//! Arguments, look-ups and replies shared by the files of this family.

use crate::args::Args;
use crate::error::CmdError;
use sluice_base::num::IntBuffer;
use sluice_keyspace::Entry;
use sluice_resp::Reply;
use sluice_value::stream::{Element, EntryRef, Stream, StreamId};

pub(crate) const INVALID_ID: CmdError =
    CmdError::text("ERR Invalid stream ID specified as stream command argument");

/// Parses an id; milliseconds without a sequence number get `seq`.
pub(crate) fn id_at(text: &[u8], seq: u64) -> Result<StreamId, CmdError> {
    StreamId::parse(text, seq).ok_or(INVALID_ID)
}

/// Parses an id of a range: `-` is the smallest one, `+` the largest, and milliseconds without a
/// sequence number get `seq`.
pub(crate) fn id_or_end(text: &[u8], seq: u64) -> Result<StreamId, CmdError> {
    match crate::error::until_zero(text) {
        b"-" => Ok(StreamId::MIN),
        b"+" => Ok(StreamId::MAX),
        _ => id_at(text, seq),
    }
}

/// The first id of an interval: a leading `(` excludes the id itself.
pub(crate) fn interval_start(text: &[u8]) -> Result<StreamId, CmdError> {
    match text.split_first() {
        Some((b'(', excluded)) if !excluded.is_empty() => {
            let next = id_at(excluded, 0)?.next();
            next.ok_or(const { CmdError::text("ERR invalid start ID for the interval") })
        }
        _ => id_or_end(text, 0),
    }
}

/// The last id of an interval: a leading `(` excludes the id itself.
pub(crate) fn interval_end(text: &[u8]) -> Result<StreamId, CmdError> {
    match text.split_first() {
        Some((b'(', excluded)) if !excluded.is_empty() => {
            let previous = id_at(excluded, u64::MAX)?.previous();
            previous.ok_or(const { CmdError::text("ERR invalid end ID for the interval") })
        }
        _ => id_or_end(text, u64::MAX),
    }
}

pub(crate) fn no_group(key: &[u8], group: &[u8]) -> CmdError {
    let mut text = b"NOGROUP No such key '".to_vec();
    text.extend_from_slice(crate::error::until_zero(key));
    text.extend_from_slice(b"' or consumer group '");
    text.extend_from_slice(crate::error::until_zero(group));
    text.push(b'\'');
    CmdError::owned(text)
}

/// The error for a subcommand with unknown or too many arguments.
pub(crate) fn wrong_subcommand(container: &str, args: Args<'_>) -> CmdError {
    let mut text = b"ERR unknown subcommand or wrong number of arguments for '".to_vec();
    text.extend_from_slice(crate::error::shown(args.at(1), 128));
    text.extend_from_slice(format!("'. Try {container} HELP.").as_bytes());
    CmdError::owned(text)
}

/// The stream of an entry; an error for another type.
pub(crate) fn stream_of(entry: Entry<'_>) -> Result<&Stream, CmdError> {
    Ok(entry.as_stream()?)
}

pub(crate) fn reply_id(reply: &mut Reply<'_>, id: StreamId) {
    let mut buffer = [IntText::new(), IntText::new()];
    let mut text = [0; StreamId::TEXT_MAX];
    let mut len = 0;
    let mut push = |bytes: &[u8]| {
        text[len..len + bytes.len()].copy_from_slice(bytes);
        len += bytes.len();
    };
    let [ms, seq] = &mut buffer;
    push(ms.format(id.ms));
    push(b"-");
    push(seq.format(id.seq));
    reply.bulk(&text[..len]);
}

/// A buffer for the decimal digits of an unsigned number.
struct IntText {
    digits: [u8; 20],
}

impl IntText {
    fn new() -> IntText {
        IntText { digits: [0; 20] }
    }

    fn format(&mut self, mut number: u64) -> &[u8] {
        let mut at = self.digits.len();
        loop {
            at -= 1;
            self.digits[at] = b'0' + (number % 10) as u8;
            number /= 10;
            if number == 0 {
                return &self.digits[at..];
            }
        }
    }
}

#[inline]
fn reply_element(reply: &mut Reply<'_>, element: Element<'_>) {
    match element {
        Element::Int(number) => reply.bulk(IntBuffer::new().format(number)),
        Element::Bytes(bytes) => reply.bulk(bytes),
    }
}

/// Writes an entry: its id, and an array of its fields and values.
pub(crate) fn reply_entry(reply: &mut Reply<'_>, entry: EntryRef<'_>) {
    reply.array(2);
    reply_id(reply, entry.id());
    reply.array(2 * entry.len());
    for (field, value) in entry.pairs() {
        reply_element(reply, field);
        reply_element(reply, value);
    }
}

/// Writes at most `count` entries; the result is their number.
pub(crate) fn reply_entries<'a>(
    reply: &mut Reply<'_>,
    entries: impl Iterator<Item = EntryRef<'a>>,
    count: usize,
) -> usize {
    let deferred = reply.defer();
    let mut len = 0;
    for entry in entries.take(count) {
        reply_entry(reply, entry);
        len += 1;
    }
    reply.end_array(deferred, len);
    len
}
