//! LRANGE of many elements, produced by another thread.

use crate::element::reply_item;
use crate::production::{Production, Progress, SlowRead, is_piece, root_of};
use sluice_keyspace::ValueRef;
use sluice_resp::Reply;
use sluice_value::{ListRef, Value};
use std::ops::Range;

/// The reply of LRANGE: the elements of a range. This code writes the reply on the main thread as well as on
/// another thread.
#[derive(Debug)]
pub(super) struct ListElements {
    /// Positions of the elements still to be written.
    left: Range<usize>,
    has_begun: bool,
}

pub(super) fn lrange(list: ListRef<'_>, range: Range<usize>) -> SlowRead {
    SlowRead::new(vec![root_of(ValueRef::List(list))], ListElements::of(range))
}

impl ListElements {
    pub(super) fn of(range: Range<usize>) -> ListElements {
        ListElements { left: range, has_begun: false }
    }

    /// Writes elements until `is_enough` is true for the reply.
    #[inline]
    pub(super) fn write(
        &mut self,
        list: ListRef<'_>,
        reply: &mut Reply<'_>,
        is_enough: impl Fn(&mut Reply<'_>) -> bool,
    ) -> Progress {
        if !std::mem::replace(&mut self.has_begun, true) {
            reply.array(self.left.len());
        }
        let mut iter = list.iter(self.left.clone());
        while !is_enough(reply) {
            let Some(item) = iter.next() else { return Progress::End };
            reply_item(reply, item);
            self.left.start += 1;
        }
        Progress::More
    }
}

impl Production for ListElements {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        let [Value::List(list)] = &roots[..] else { return Progress::End };
        self.write(list.view(), reply, is_piece)
    }
}
