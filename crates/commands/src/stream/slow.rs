//! XRANGE and XREVRANGE of many entries, produced by another thread.

use crate::production::{Production, Progress, SlowRead, is_piece, root_of};
use crate::slow_reads::SlowReadAsk;
use crate::stream::common::reply_entry;
use sluice_keyspace::ValueRef;
use sluice_resp::Reply;
use sluice_value::stream::{EntryLog, EntryRef, Stream, StreamId};
use sluice_value::{Direction, Value};

/// A range of entries between two ids.
#[derive(Debug)]
struct EntryRange {
    /// First and last id of the requested range, both included.
    all: (StreamId, StreamId),
    /// First and last id of the part that is not passed yet, both included; `None` if nothing is left.
    left: Option<(StreamId, StreamId)>,
    /// Largest number of entries in the reply.
    count: usize,
    direction: Direction,
    stage: EntryStage,
}

#[derive(Debug)]
enum EntryStage {
    /// Entries are being counted; the number is the count so far.
    Counting(usize),
    /// Number of entries still to be written.
    Writing(usize),
}

/// Whether reading a range is slow; a short range of a large stream is not.
pub(super) fn suits(
    ask: &mut SlowReadAsk<'_>,
    stream: &Stream,
    (start, end): (StreamId, StreamId),
    count: usize,
) -> bool {
    let (log, max) = (stream.log(), ask.elements_max());
    let at_most = usize::try_from(log.len()).unwrap_or(usize::MAX).min(count);
    at_most > max && ask.suits(log.iter(start, end).take(at_most.min(max.saturating_add(1))).count())
}

pub(super) fn range(
    stream: &Stream,
    ids: (StreamId, StreamId),
    count: usize,
    direction: Direction,
) -> SlowRead {
    let entries = EntryRange { all: ids, left: Some(ids), count, direction, stage: EntryStage::Counting(0) };
    SlowRead::new(vec![root_of(ValueRef::Stream(stream))], entries)
}

impl Production for EntryRange {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        let [Value::Stream(stream)] = &roots[..] else { return Progress::End };
        match self.stage {
            EntryStage::Counting(counted) => self.count(stream.log(), counted, reply),
            EntryStage::Writing(left) => self.write(stream.log(), left, reply),
        }
    }
}

impl EntryRange {
    fn count(&mut self, log: &EntryLog, before: usize, reply: &mut Reply<'_>) -> Progress {
        let mut counted = before;
        let mut steps = 0;
        self.visit(log, |_| {
            (counted, steps) = (counted + 1, steps + 1);
            steps < STEP_ENTRIES
        });
        if self.left.is_some() && counted < self.count {
            self.stage = EntryStage::Counting(counted);
            return Progress::More;
        }
        let count = counted.min(self.count);
        reply.array(count);
        (self.left, self.stage) = (Some(self.all), EntryStage::Writing(count));
        if count == 0 { Progress::End } else { Progress::More }
    }

    fn write(&mut self, log: &EntryLog, wanted: usize, reply: &mut Reply<'_>) -> Progress {
        let mut left = wanted;
        self.visit(log, |entry| {
            reply_entry(reply, entry);
            left -= 1;
            left > 0 && !is_piece(reply)
        });
        self.stage = EntryStage::Writing(left);
        if left == 0 || self.left.is_none() { Progress::End } else { Progress::More }
    }

    /// Calls `visit` for the entries that are left, until it returns `false`.
    fn visit(&mut self, log: &EntryLog, mut visit: impl FnMut(EntryRef<'_>) -> bool) {
        let Some((start, end)) = self.left else { return };
        let mut passed = None;
        let mut note = |entry: EntryRef<'_>| {
            let (id, goes_on) = (entry.id(), visit(entry));
            passed = (!goes_on).then_some(id);
            !goes_on
        };
        match self.direction {
            Direction::Up => drop(log.iter(start, end).any(&mut note)),
            Direction::Down => drop(log.iter_rev(start, end).any(&mut note)),
        }
        self.left = match (passed, self.direction) {
            (None, _) => None,
            (Some(id), Direction::Up) => id.next().map(|next| (next, end)),
            (Some(id), Direction::Down) => id.previous().map(|previous| (start, previous)),
        };
    }
}

/// Number of entries that are counted between two checks whether the client is still connected.
const STEP_ENTRIES: usize = 1 << 14;
