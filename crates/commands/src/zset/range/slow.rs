//! Ranges of many elements, produced by another thread.

use crate::production::{Production, Progress, SlowRead, is_piece, root_of};
use crate::zset::common::{ElementsShown, reply_count, reply_element};
use sluice_keyspace::ValueRef;
use sluice_resp::Reply;
use sluice_value::{Direction, Value, ZsetRef};
use std::ops::Range;

/// A reply with the elements of a range of ranks.
#[derive(Debug)]
struct RangeElements {
    /// Ranks of the elements still to be written.
    left: Range<usize>,
    direction: Direction,
    shown: ElementsShown,
    has_begun: bool,
}

pub(super) fn range(
    zset: ZsetRef<'_>,
    ranks: Range<usize>,
    direction: Direction,
    shown: ElementsShown,
) -> SlowRead {
    let elements = RangeElements { left: ranks, direction, shown, has_begun: false };
    SlowRead::new(vec![root_of(ValueRef::Zset(zset))], elements)
}

impl Production for RangeElements {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        let [Value::Zset(zset)] = &roots[..] else { return Progress::End };
        if !std::mem::replace(&mut self.has_begun, true) {
            self.shown = reply_count(reply, self.left.len(), self.shown);
        }
        let mut elements = zset.view().iter(self.left.clone(), self.direction);
        while !is_piece(reply) {
            let Some(element) = elements.next() else { return Progress::End };
            reply_element(reply, element, self.shown);
            match self.direction {
                Direction::Up => self.left.start += 1,
                Direction::Down => self.left.end -= 1,
            }
        }
        Progress::More
    }
}
