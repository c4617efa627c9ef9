//! Writes values as the commands that recreate them: for the base of an append-only file, and for a cluster
//! node that is given a slot.
//!
//! Writing may stop between commands and within the bytes of a long string, and resume later at the
//! [`ValuePosition`]. The value must not change between the two calls; a captured value does not change.

use sluice_base::num::{IntBuffer, push_f64};
use sluice_keyspace::{Str, ValueRef};
use sluice_resp::command::push_command;
use sluice_value::stream::{ConsumerGroup, Element, Stream, StreamConsumer, StreamId};
use sluice_value::{Direction, HashRef, ListItem, ListRef, SetRef, ZsetEncoding, ZsetRef};
use std::io::Write;
use std::ops::ControlFlow;

/// Maximum number of elements of a collection in one command, as in the reference.
const ELEMENTS_PER_COMMAND: usize = 64;
/// A string is written in steps of this many bytes, and `stop` is called after each step.
const STRING_STEP: usize = 64 << 10;

/// The position in a value at which writing has stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValuePosition(ValueStage);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueStage {
    /// This many elements of a collection, or bytes of a string, are written.
    Elements(usize),
    /// The entries of a stream up to and including this id are written. `MIN` stands for none, because no
    /// entry has that id.
    Entries(StreamId),
    /// This many groups of a stream are written completely, and of the next group the part that `in_group`
    /// describes.
    Groups { done: usize, in_group: Option<GroupPosition> },
    /// Only the expiry is left.
    Expiry,
}

/// How much of a group is written after its XGROUP CREATE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct GroupPosition {
    /// This many consumers are written, together with their pending entries.
    consumers: usize,
    /// `Some` if the next consumer itself is written, and of its pending entries those up to this id.
    pending: Option<StreamId>,
}

impl ValuePosition {
    /// The beginning of a value.
    pub const START: ValuePosition = ValuePosition(ValueStage::Elements(0));
}

/// Writes a value from position `from` on into `out`. `stop` is called after one or a few commands, and after
/// each 64 KiB of a string; it may take `out`, and it decides whether writing stops there. Returns the
/// position reached, or `None` when the value is complete.
pub fn write_commands(
    key: &[u8],
    value: ValueRef<'_>,
    expiry: Option<i64>,
    from: ValuePosition,
    out: &mut Vec<u8>,
    stop: &mut dyn FnMut(&mut Vec<u8>) -> bool,
) -> Option<ValuePosition> {
    CommandWriter { key, out, stop }.value(value, expiry, from.0).break_value().map(ValuePosition)
}

/// The key of the value that is written, the buffer of the commands, and the closure that may stop the
/// writing.
struct CommandWriter<'w> {
    key: &'w [u8],
    out: &'w mut Vec<u8>,
    stop: &'w mut dyn FnMut(&mut Vec<u8>) -> bool,
}

impl CommandWriter<'_> {
    /// Calls `stop`, and stops the writing at `at` if the closure returns `true`.
    fn pause(&mut self, at: ValueStage) -> ControlFlow<ValueStage> {
        match (self.stop)(self.out) {
            true => ControlFlow::Break(at),
            false => ControlFlow::Continue(()),
        }
    }

    fn command<const WORDS: usize>(&mut self, words: [&[u8]; WORDS]) {
        push_command(self.out, words.into_iter());
    }

    fn command_of(&mut self, words: &[Vec<u8>]) {
        push_command(self.out, words.iter().map(Vec::as_slice));
    }

    fn value(
        &mut self,
        value: ValueRef<'_>,
        expiry: Option<i64>,
        from: ValueStage,
    ) -> ControlFlow<ValueStage> {
        let done = if let ValueStage::Elements(done) = from { done } else { 0 };
        if from != ValueStage::Expiry {
            match value {
                ValueRef::Str(text) => self.string(text, done)?,
                ValueRef::List(list) => self.list(list, done)?,
                ValueRef::Hash(hash) => self.hash(hash, done)?,
                ValueRef::Stream(stream) => self.stream(stream, from)?,
                ValueRef::Set(set) => self.set(set, done)?,
                ValueRef::Zset(zset) => self.zset(zset, done)?,
            }
        }
        if let Some(at_ms) = expiry {
            self.command([b"PEXPIREAT", self.key, at_ms.to_string().as_bytes()]);
        }
        // The value is complete, so the answer of `stop` does not matter.
        let _ = self.pause(ValueStage::Expiry);
        ControlFlow::Continue(())
    }

    /// Writes one SET. The last bytes of the string are written together with the end of the command, so if
    /// writing stops within the string, some bytes are always left to write.
    fn string(&mut self, text: Str<'_>, done: usize) -> ControlFlow<ValueStage> {
        match text {
            Str::Int(_) => {
                self.command([b"SET", self.key, &text.to_vec()]);
                ControlFlow::Continue(())
            }
            Str::Inline(bytes) => self.bytes(bytes.len(), done, steps_from(bytes, done)),
            Str::Shared(bytes) => self.bytes(bytes.len(), done, steps_from(bytes, done)),
            Str::Pages(pages) => self.bytes(pages.len(), done, pages.slices(done..pages.len())),
        }
    }

    fn bytes<'b>(
        &mut self,
        len: usize,
        mut done: usize,
        slices: impl Iterator<Item = &'b [u8]>,
    ) -> ControlFlow<ValueStage> {
        if done == 0 {
            self.out.extend_from_slice(b"*3\r\n$3\r\nSET\r\n");
            for part in [Some(self.key), None] {
                let len = part.map_or(len, <[u8]>::len);
                // Writing to memory does not fail.
                let _ = write!(self.out, "${len}\r\n");
                if let Some(key) = part {
                    self.out.extend_from_slice(key);
                    self.out.extend_from_slice(b"\r\n");
                }
            }
        }
        let mut asked_at = done;
        for slice in slices {
            self.out.extend_from_slice(slice);
            done += slice.len();
            if done < len && done - asked_at >= STRING_STEP {
                asked_at = done;
                self.pause(ValueStage::Elements(done))?;
            }
        }
        self.out.extend_from_slice(b"\r\n");
        ControlFlow::Continue(())
    }

    fn list(&mut self, list: ListRef<'_>, mut done: usize) -> ControlFlow<ValueStage> {
        let mut elements = list.iter(done.min(list.len())..list.len());
        while done < list.len() {
            let mut argv = vec![b"RPUSH".to_vec(), self.key.to_vec()];
            for _ in done..list.len().min(done + ELEMENTS_PER_COMMAND) {
                argv.extend(elements.next().map(text_of));
            }
            done += ELEMENTS_PER_COMMAND;
            self.command_of(&argv);
            self.pause(ValueStage::Elements(done))?;
        }
        ControlFlow::Continue(())
    }

    fn set(&mut self, set: SetRef<'_>, mut done: usize) -> ControlFlow<ValueStage> {
        let mut members = set.iter_from(done).peekable();
        while members.peek().is_some() {
            let mut argv = vec![b"SADD".to_vec(), self.key.to_vec()];
            argv.extend(members.by_ref().take(ELEMENTS_PER_COMMAND).map(text_of));
            done += argv.len() - 2;
            self.command_of(&argv);
            self.pause(ValueStage::Elements(done))?;
        }
        ControlFlow::Continue(())
    }

    fn zset(&mut self, zset: ZsetRef<'_>, mut done: usize) -> ControlFlow<ValueStage> {
        // As in the reference, a large set is written from the highest score down.
        let mut elements = match zset.encoding() {
            ZsetEncoding::Listpack => zset.iter(done..zset.len(), Direction::Up),
            ZsetEncoding::Skiplist => zset.iter(0..zset.len().saturating_sub(done), Direction::Down),
        }
        .peekable();
        while elements.peek().is_some() {
            let mut argv = vec![b"ZADD".to_vec(), self.key.to_vec()];
            for (member, score) in elements.by_ref().take(ELEMENTS_PER_COMMAND) {
                let mut text = Vec::new();
                push_f64(&mut text, score);
                argv.extend([text, member.to_vec()]);
            }
            done += argv.len() / 2 - 1;
            self.command_of(&argv);
            self.pause(ValueStage::Elements(done))?;
        }
        ControlFlow::Continue(())
    }

    /// Writes many fields without an expiry in one command, and each field with an expiry in a command of its
    /// own.
    fn hash(&mut self, hash: HashRef<'_>, mut done: usize) -> ControlFlow<ValueStage> {
        let (mut argv, mut behind) = (Vec::new(), 0);
        for field in hash.iter_from(done) {
            done += 1;
            let pair = [text_of(field.name), text_of(field.value)];
            if let Some(at) = field.expiry {
                let at = at.to_string();
                let [name, value] = &pair;
                self.command([b"HSETEX", self.key, b"PXAT", at.as_bytes(), b"FIELDS", b"1", name, value]);
                // Fields that were gathered for a command have to be written before a stop.
                behind += usize::from(!argv.is_empty());
                if argv.is_empty() {
                    self.pause(ValueStage::Elements(done))?;
                }
            } else {
                if argv.is_empty() {
                    argv.extend([b"HMSET".to_vec(), self.key.to_vec()]);
                }
                argv.extend(pair);
            }
            if argv.len() == 2 + 2 * ELEMENTS_PER_COMMAND || behind == ELEMENTS_PER_COMMAND {
                self.command_of(&argv);
                argv.clear();
                behind = 0;
                self.pause(ValueStage::Elements(done))?;
            }
        }
        if !argv.is_empty() {
            self.command_of(&argv);
        }
        ControlFlow::Continue(())
    }

    /// Writes a stream: entries, ids, and groups with their consumers and pending entries.
    fn stream(&mut self, stream: &Stream, from: ValueStage) -> ControlFlow<ValueStage> {
        let (done, in_group) = match from {
            ValueStage::Groups { done, in_group } => (done, in_group),
            ValueStage::Entries(last) => {
                self.entries(stream, last)?;
                (0, None)
            }
            ValueStage::Elements(_) | ValueStage::Expiry => {
                self.entries(stream, StreamId::MIN)?;
                (0, None)
            }
        };
        let mut in_group = in_group;
        for (done, group) in stream.groups().enumerate().skip(done) {
            self.group(group, done, in_group.take())?;
        }
        ControlFlow::Continue(())
    }

    /// Writes the entries after `last`, and then the ids.
    fn entries(&mut self, stream: &Stream, last: StreamId) -> ControlFlow<ValueStage> {
        let log = stream.log();
        for entry in log.iter(last, StreamId::MAX).filter(|entry| entry.id() != last) {
            let mut argv = vec![b"XADD".to_vec(), self.key.to_vec(), entry.id().to_text()];
            for element in entry.pairs().flat_map(|(field, value)| [field, value]) {
                argv.push(match element {
                    Element::Int(number) => number.to_string().into_bytes(),
                    Element::Bytes(bytes) => bytes.to_vec(),
                });
            }
            self.command_of(&argv);
            self.pause(ValueStage::Entries(entry.id()))?;
        }
        let (last, deleted) = (log.last_id().to_text(), log.max_deleted_id().to_text());
        let added = log.entries_added().to_string();
        if log.len() == 0 {
            // A stream without entries is created by adding an entry that is trimmed at once. The added entry
            // gets the stream's last id; only if that is 0-0, an id that no entry can have, the entry gets
            // 0-1.
            let id = if log.last_id() == StreamId::MIN { b"0-1".to_vec() } else { last.clone() };
            self.command([b"XADD", self.key, b"MAXLEN", b"0", &id, b"x", b"y"]);
        }
        let added = added.as_bytes();
        self.command([b"XSETID", self.key, &last, b"ENTRIESADDED", added, b"MAXDELETEDID", &deleted]);
        self.pause(ValueStage::Groups { done: 0, in_group: None })
    }

    /// Writes the group at index `done`, from the position `in_group` on.
    fn group(
        &mut self,
        group: &ConsumerGroup,
        done: usize,
        from: Option<GroupPosition>,
    ) -> ControlFlow<ValueStage> {
        let mut at = from.unwrap_or_else(|| {
            let read = group.entries_read().map_or_else(|| "-1".to_owned(), |read| read.to_string());
            let last = group.last_id().to_text();
            let read = read.as_bytes();
            self.command([b"XGROUP", b"CREATE", self.key, group.name(), &last, b"ENTRIESREAD", read]);
            GroupPosition { consumers: 0, pending: None }
        });
        for consumer in group.consumers().skip(at.consumers) {
            self.consumer(group, consumer, done, at)?;
            at = GroupPosition { consumers: at.consumers + 1, pending: None };
            self.pause(ValueStage::Groups { done, in_group: Some(at) })?;
        }
        self.pause(ValueStage::Groups { done: done + 1, in_group: None })
    }

    /// Writes a consumer, unless `at` says that it is written already, and its pending entries after those
    /// that `at` names.
    fn consumer(
        &mut self,
        group: &ConsumerGroup,
        consumer: &StreamConsumer,
        done: usize,
        at: GroupPosition,
    ) -> ControlFlow<ValueStage> {
        let last = at.pending.unwrap_or_else(|| {
            self.command([b"XGROUP", b"CREATECONSUMER", self.key, group.name(), consumer.name()]);
            StreamId::MIN
        });
        let behind = consumer.pending_from(last).filter(|id| *id != last || *id == StreamId::MIN);
        for entry in behind.filter_map(|id| group.pending(id)) {
            let (id, at_ms) = (entry.id.to_text(), entry.delivered_ms.to_string());
            let (count, name) = (entry.deliveries.to_string(), group.name());
            let words = [&b"XCLAIM"[..], self.key, name, consumer.name(), b"0", &id, b"TIME"];
            let options = [at_ms.as_bytes(), b"RETRYCOUNT", count.as_bytes(), b"JUSTID", b"FORCE"];
            push_command(self.out, [&words[..], &options[..]].concat().into_iter());
            let at = GroupPosition { pending: Some(entry.id), ..at };
            self.pause(ValueStage::Groups { done, in_group: Some(at) })?;
        }
        ControlFlow::Continue(())
    }
}

/// The bytes from `done` on, in steps of `STRING_STEP`.
fn steps_from(bytes: &[u8], done: usize) -> impl Iterator<Item = &[u8]> {
    bytes.get(done..).unwrap_or_default().chunks(STRING_STEP)
}

fn text_of(item: ListItem<'_>) -> Vec<u8> {
    item.bytes(&mut IntBuffer::new()).to_vec()
}
