//! LRANGE of many elements, produced by another thread.

use crate::list::common::reply_item;
use crate::production::{Production, Progress, SlowRead, is_piece, root_of};
use sluice_keyspace::ValueRef;
use sluice_resp::Reply;
use sluice_value::{ListRef, Value};
use std::ops::Range;

/// The elements of a range.
#[derive(Debug)]
struct ListElements {
    /// Those that are left.
    left: Range<usize>,
    has_begun: bool,
}

pub(super) fn lrange(list: ListRef<'_>, range: Range<usize>) -> SlowRead {
    SlowRead::new(vec![root_of(ValueRef::List(list))], ListElements { left: range, has_begun: false })
}

impl Production for ListElements {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        let [Value::List(list)] = &roots[..] else { return Progress::End };
        if !std::mem::replace(&mut self.has_begun, true) {
            reply.array(self.left.len());
        }
        let mut iter = list.view().iter(self.left.clone());
        while !is_piece(reply) {
            let Some(item) = iter.next() else { return Progress::End };
            reply_item(reply, item);
            self.left.start += 1;
        }
        Progress::More
    }
}
