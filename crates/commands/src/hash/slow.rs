//! HGETALL, HKEYS and HVALS of many fields, produced by another thread.

use crate::element::reply_item;
use crate::hash::common::FieldClock;
use crate::production::{Production, Progress, SlowRead, is_piece, root_of};
use sluice_keyspace::ValueRef;
use sluice_resp::Reply;
use sluice_value::{HashRef, Value};

/// The parts of each field in the reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldParts {
    Pairs,
    Names,
    Values,
}

/// The fields that had not expired at the time of the read.
#[derive(Debug)]
struct Fields {
    shown: FieldParts,
    clock: FieldClock,
    /// Number of fields passed so far: in the first pass, which counts, and again in the second, which
    /// writes.
    passed: usize,
    stage: FieldStage,
}

#[derive(Debug)]
enum FieldStage {
    /// Live fields are being counted; the number is the count so far.
    Counting(usize),
    Writing,
}

pub(super) fn read(hash: HashRef<'_>, clock: FieldClock, shown: FieldParts) -> SlowRead {
    let fields = Fields { shown, clock, passed: 0, stage: FieldStage::Counting(0) };
    SlowRead::new(vec![root_of(ValueRef::Hash(hash))], fields)
}

impl Production for Fields {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        let [Value::Hash(hash)] = &roots[..] else { return Progress::End };
        match self.stage {
            FieldStage::Counting(count) => self.count(hash.view(), count, reply),
            FieldStage::Writing => self.write(hash.view(), reply),
        }
    }
}

impl Fields {
    fn count(&mut self, hash: HashRef<'_>, before: usize, reply: &mut Reply<'_>) -> Progress {
        let end = if self.clock.all_live(hash) { 0 } else { hash.len() };
        let step = hash.iter_from(self.passed).take(end.saturating_sub(self.passed).min(STEP_FIELDS));
        let count = before + step.filter(|field| self.clock.is_live(field)).count();
        self.passed += STEP_FIELDS;
        if self.passed < end {
            self.stage = FieldStage::Counting(count);
            return Progress::More;
        }
        let count = if end == 0 { hash.len() } else { count };
        match self.shown {
            FieldParts::Pairs => reply.map(count),
            FieldParts::Names | FieldParts::Values => reply.array(count),
        }
        (self.passed, self.stage) = (0, FieldStage::Writing);
        self.write(hash, reply)
    }

    fn write(&mut self, hash: HashRef<'_>, reply: &mut Reply<'_>) -> Progress {
        let mut fields = hash.iter_from(self.passed);
        while !is_piece(reply) {
            let Some(field) = fields.next() else { return Progress::End };
            self.passed += 1;
            if !self.clock.is_live(&field) {
                continue;
            }
            if self.shown != FieldParts::Values {
                reply_item(reply, field.name);
            }
            if self.shown != FieldParts::Names {
                reply_item(reply, field.value);
            }
        }
        Progress::More
    }
}

/// Number of fields that are counted between two checks whether the client is still connected.
const STEP_FIELDS: usize = 1 << 16;
