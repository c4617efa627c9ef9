//! Streams in files.
//!
//! | part | meaning |
//! |---|---|
//! | count, and that many pairs of texts | macro nodes: key (16 bytes, big endian) and listpack |
//! | length, last id | entries; an id is two lengths |
//! | first id, greatest deleted id, entries added | not in the first form |
//! | count, and that many groups | name, last id, entries read (not in the first form), pending, consumers |
//! | count, and that many pending entries | id in 16 bytes, when (8 bytes, little endian), how often |
//! | count, and that many consumers | name, seen, active (third form only), count and ids of pending |
//!
//! Invariant: every command can work on a returned stream: ids ascend and none exceeds the last id, each
//! pending entry has one consumer, and no name occurs twice.

use super::cursor::{InputCursor, ReadStop};
use super::error::Problem;
use super::kind::StreamForm;
use super::writer::Writer;
use super::{Mended, Text, Usage, op};
use sluice_base::Bytes;
use sluice_value::stream::{ConsumerGroup, Stream, StreamId};

/// A stream that is being loaded, part by part.
#[derive(Debug)]
pub(super) struct StreamBuilder {
    form: StreamForm,
    stream: Stream,
    /// Whether macro nodes were read.
    has_nodes: bool,
    next: NextPart,
    /// Number of groups that are not complete, including the present one.
    groups: u64,
    group: Option<ConsumerGroup>,
    /// Number of the group's pending entries that belong to none of the consumers decoded so far.
    unowned: u64,
    /// Number of consumers that are not complete, including the present one.
    consumers: u64,
    mended: Option<Mended>,
}

/// The part of the stream that is decoded next.
#[derive(Clone, Copy, Debug)]
enum NextPart {
    NodeCount,
    Nodes(u64),
    Totals,
    GroupCount,
    Group,
    Pending(u64),
    ConsumerCount,
    Consumer,
    /// This many pending entries of the consumer with this number.
    Owned(u64, u32),
}

impl NextPart {
    /// The error if this part is refused.
    fn problem(self) -> &'static str {
        match self {
            NextPart::NodeCount
            | NextPart::Nodes(_)
            | NextPart::Totals
            | NextPart::GroupCount
            | NextPart::ConsumerCount => "Stream listpack integrity check failed",
            NextPart::Group => "a consumer group occurs twice",
            NextPart::Pending(_) => "Duplicated global PEL entry loading stream consumer group",
            // This text is also used if pending entries are left over after the last consumer.
            NextPart::Consumer => "Duplicate stream consumer detected, or a pending entry without a consumer",
            NextPart::Owned(..) => "Duplicated consumer PEL entry, or one that the group does not have",
        }
    }
}

impl StreamBuilder {
    /// A builder of a stream, before its first part.
    pub(super) fn new(form: StreamForm) -> StreamBuilder {
        StreamBuilder {
            form,
            stream: Stream::new(),
            has_nodes: false,
            next: NextPart::NodeCount,
            groups: 0,
            group: None,
            unowned: 0,
            consumers: 0,
            mended: None,
        }
    }

    /// Decodes the next part. After the last one, returns the stream and the repair made in it.
    pub(super) fn step(
        &mut self,
        cursor: &mut InputCursor<'_>,
    ) -> Result<Option<(Stream, Option<Mended>)>, ReadStop> {
        let offset = cursor.offset();
        let next = match self.next {
            NextPart::NodeCount => Some(NextPart::Nodes(cursor.len()?)),
            NextPart::Nodes(0) => Some(NextPart::Totals),
            NextPart::Nodes(left) => self.node(cursor)?.then_some(NextPart::Nodes(left - 1)),
            NextPart::Totals => self.totals(cursor)?.then_some(NextPart::GroupCount),
            NextPart::GroupCount => {
                self.groups = cursor.len()?;
                Some(NextPart::Group)
            }
            NextPart::Group if self.groups == 0 => {
                return Ok(Some((std::mem::take(&mut self.stream), self.mended)));
            }
            NextPart::Group => self.group(cursor)?,
            NextPart::Pending(0) => Some(NextPart::ConsumerCount),
            NextPart::Pending(left) => self.pending(cursor)?.then_some(NextPart::Pending(left - 1)),
            NextPart::ConsumerCount => {
                self.consumers = cursor.len()?;
                Some(NextPart::Consumer)
            }
            NextPart::Consumer if self.consumers == 0 => self.end_group(),
            NextPart::Consumer => self.consumer(cursor)?,
            NextPart::Owned(0, _) => {
                self.consumers -= 1;
                Some(NextPart::Consumer)
            }
            NextPart::Owned(left, consumer) => {
                self.owned(cursor, consumer)?.then_some(NextPart::Owned(left - 1, consumer))
            }
        };
        match next {
            Some(next) => {
                self.next = next;
                Ok(None)
            }
            None => cursor.bad(offset, Problem::Stream(self.next.problem())),
        }
    }

    fn node(&mut self, cursor: &mut InputCursor<'_>) -> Result<bool, ReadStop> {
        let (key, listpack) = (cursor.text()?, cursor.text()?);
        self.has_nodes = true;
        let Ok(key) = <[u8; 16]>::try_from(&*key) else { return Ok(false) };
        Ok(self.stream.load_listpack(StreamId::from_bytes(key), &listpack).is_ok())
    }

    /// Decodes the fields about all entries. Redis 5 has written wrong lengths, so the length is computed
    /// from the entries. If the last id is below the id of an entry, it is raised to the greatest id of an
    /// entry. A nonzero length is refused if the macro nodes have no live entry, because no server writes
    /// such a stream. The result is then `false`.
    fn totals(&mut self, cursor: &mut InputCursor<'_>) -> Result<bool, ReadStop> {
        let said = cursor.len()?;
        let said_last_id = id(cursor)?;
        if said > 0 && self.has_nodes && self.stream.log().len() == 0 {
            return Ok(false);
        }
        let (len, last_id) = (self.stream.log().len(), said_last_id.max(self.stream.log().last_id()));
        let (mut max_deleted_id, mut entries_added) = (StreamId::MIN, len);
        if self.form >= StreamForm::Counted {
            // The first id is read but not used, because it is the id of the first entry.
            id(cursor)?;
            (max_deleted_id, entries_added) = (id(cursor)?, cursor.len()?);
        }
        // The number is limited to the range of XSETID, because a log of commands stores it as an argument of
        // XSETID.
        let entries_added = entries_added.clamp(len, i64::MAX as u64);
        self.stream.set_ids(last_id, max_deleted_id.min(last_id), entries_added);
        if said != len {
            self.mended = Some(Mended::StreamLength { said, found: len });
        } else if said_last_id != last_id {
            self.mended = Some(Mended::StreamLastId);
        }
        Ok(true)
    }

    fn group(&mut self, cursor: &mut InputCursor<'_>) -> Result<Option<NextPart>, ReadStop> {
        let (name, last_id) = (cursor.text()?, id(cursor)?);
        let entries_read = match self.form {
            StreamForm::Plain => self.stream.log().entries_up_to(last_id),
            StreamForm::Counted | StreamForm::Active => Some(cursor.len()?).filter(|n| *n <= i64::MAX as u64),
        };
        let pending = cursor.len()?;
        if self.stream.group(&name).is_some() {
            return Ok(None);
        }
        self.group = Some(ConsumerGroup::new(&name, last_id, entries_read));
        self.unowned = pending;
        Ok(Some(NextPart::Pending(pending)))
    }

    fn pending(&mut self, cursor: &mut InputCursor<'_>) -> Result<bool, ReadStop> {
        let id = StreamId::from_bytes(cursor.array()?);
        let delivered_ms = i64::from_le_bytes(cursor.array()?);
        // The number of deliveries is limited to the range of XCLAIM.
        let deliveries = cursor.len()?.min(i64::MAX as u64);
        Ok(self.group.as_mut().is_some_and(|group| group.load_pending(id, delivered_ms, deliveries)))
    }

    fn consumer(&mut self, cursor: &mut InputCursor<'_>) -> Result<Option<NextPart>, ReadStop> {
        let name = cursor.text()?;
        let seen_ms = i64::from_le_bytes(cursor.array()?);
        let active_ms = match self.form {
            StreamForm::Plain | StreamForm::Counted => seen_ms,
            StreamForm::Active => i64::from_le_bytes(cursor.array()?),
        };
        let pending = cursor.len()?;
        let Some(group) = &mut self.group else { return Ok(None) };
        let Some(number) = group.add_consumer(&name, seen_ms, &mut 0) else { return Ok(None) };
        group.note_seen(number, seen_ms, Some(active_ms), &mut 0);
        Ok(Some(NextPart::Owned(pending, number)))
    }

    fn owned(&mut self, cursor: &mut InputCursor<'_>, consumer: u32) -> Result<bool, ReadStop> {
        let id = StreamId::from_bytes(cursor.array()?);
        let is_there = self.group.as_mut().is_some_and(|group| group.load_owner(id, consumer));
        self.unowned -= u64::from(is_there);
        Ok(is_there)
    }

    fn end_group(&mut self) -> Option<NextPart> {
        let group = self.group.take()?;
        self.groups -= 1;
        let is_whole = self.unowned == 0 && self.stream.add_group(group, &mut Default::default());
        is_whole.then_some(NextPart::Group)
    }
}

fn id(cursor: &mut InputCursor<'_>) -> Result<StreamId, ReadStop> {
    Ok(StreamId::new(cursor.len()?, cursor.len()?))
}

impl Writer {
    /// Writes a key with a stream. Pieces are passed to `give`; the rest stays pending.
    pub fn stream(
        &mut self,
        key: &[u8],
        stream: &Stream,
        expiry_ms: Option<i64>,
        usage: Usage,
        give: &mut impl FnMut(Bytes),
    ) {
        self.key(op::TYPE_STREAM_3, key, expiry_ms, usage);
        self.value_stream(stream, give);
    }

    /// Writes the value of a stream.
    pub(super) fn value_stream(&mut self, stream: &Stream, give: &mut impl FnMut(Bytes)) {
        let log = stream.log();
        self.len(log.node_count() as u64);
        stream.each_listpack(&mut |master, listpack| {
            self.text(Text::Bytes(&master.to_bytes()));
            self.text(Text::Bytes(listpack));
            self.give_enough(give);
        });
        self.len(log.len());
        for id in [log.last_id(), log.first_id(), log.max_deleted_id()] {
            self.id(id);
        }
        self.len(log.entries_added());
        self.len(stream.groups_len() as u64);
        for group in stream.groups() {
            self.group(group, give);
        }
    }

    fn group(&mut self, group: &ConsumerGroup, give: &mut impl FnMut(Bytes)) {
        self.text(Text::Bytes(group.name()));
        self.id(group.last_id());
        self.len(group.entries_read().unwrap_or(u64::MAX));
        self.len(group.pending_len() as u64);
        for entry in group.pending_from(StreamId::MIN) {
            self.raw(&entry.id.to_bytes());
            self.raw(&entry.delivered_ms.to_le_bytes());
            self.len(entry.deliveries);
            self.give_enough(give);
        }
        self.len(group.consumers_len() as u64);
        for consumer in group.consumers() {
            self.text(Text::Bytes(consumer.name()));
            self.raw(&consumer.seen_ms().to_le_bytes());
            self.raw(&consumer.active_ms().to_le_bytes());
            self.len(consumer.pending_len() as u64);
            for id in consumer.pending_from(StreamId::MIN) {
                self.raw(&id.to_bytes());
                self.give_enough(give);
            }
        }
    }

    fn id(&mut self, id: StreamId) {
        self.len(id.ms);
        self.len(id.seq);
    }
}

/// The contents of a stream, for tests and fuzzing.
pub(super) fn elements(stream: &Stream) -> Vec<Vec<u8>> {
    let log = stream.log();
    let mut all = Vec::new();
    for entry in log.iter(StreamId::MIN, StreamId::MAX) {
        all.push(format!("{:?} {:?}", entry.id(), entry.pairs().collect::<Vec<_>>()).into_bytes());
    }
    let ids = [log.last_id(), log.first_id(), log.max_deleted_id()];
    all.push(format!("{ids:?} {} {}", log.len(), log.entries_added()).into_bytes());
    for group in stream.groups() {
        let pending: Vec<_> = group
            .pending_from(StreamId::MIN)
            .map(|entry| {
                let owner = group.consumer_of(entry.consumer).map(|consumer| consumer.name().to_vec());
                (entry.id, entry.delivered_ms, entry.deliveries, owner)
            })
            .collect();
        let consumers: Vec<_> = group
            .consumers()
            .map(|consumer| {
                let pending: Vec<_> = consumer.pending_from(StreamId::MIN).collect();
                (consumer.name().to_vec(), consumer.seen_ms(), consumer.active_ms(), pending)
            })
            .collect();
        let position = (group.last_id(), group.entries_read());
        all.push(format!("{:?} {position:?} {pending:?} {consumers:?}", group.name()).into_bytes());
    }
    // The listpacks are taken as bytes, because a node must be the same after being written and read.
    stream.each_listpack(&mut |_, listpack| all.push(listpack.to_vec()));
    all
}
