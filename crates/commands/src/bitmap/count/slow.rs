//! BITCOUNT and BITPOS of large strings, produced by another thread.

use crate::bitmap::count::scan::{count_in, position_in};
use crate::production::{Production, Progress, SlowRead, root_of};
use sluice_keyspace::{Str, ValueRef};
use sluice_resp::Reply;
use sluice_value::Value;
use std::ops::Range;

/// The count of the bits that are set.
#[derive(Debug)]
struct Count {
    /// Bits not counted yet.
    left: Range<usize>,
    count: u64,
}

/// The search for the first bit with the value `wanted`.
#[derive(Debug)]
struct Search {
    /// Bits that were not searched yet.
    left: Range<usize>,
    wanted: bool,
    /// The reply if there is no such bit.
    not_found: i64,
}

pub(super) fn bitcount(text: Str<'_>, bits: Range<usize>) -> SlowRead {
    SlowRead::new(vec![root_of(ValueRef::Str(text))], Count { left: bits, count: 0 })
}

pub(super) fn bitpos(text: Str<'_>, bits: Range<usize>, wanted: bool, not_found: i64) -> SlowRead {
    SlowRead::new(vec![root_of(ValueRef::Str(text))], Search { left: bits, wanted, not_found })
}

impl Production for Count {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        self.count += count_in(text_of(roots), next_step(&mut self.left));
        if !self.left.is_empty() {
            return Progress::More;
        }
        reply.int(self.count as i64);
        Progress::End
    }
}

impl Production for Search {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        let found = position_in(text_of(roots), next_step(&mut self.left), self.wanted);
        if found.is_none() && !self.left.is_empty() {
            return Progress::More;
        }
        reply.int(found.map_or(self.not_found, |at| at as i64));
        Progress::End
    }
}

/// Removes the first step's bits from `left` and returns them.
fn next_step(left: &mut Range<usize>) -> Range<usize> {
    let end = left.end.min(left.start.saturating_add(STEP_BITS));
    let step = left.start..end;
    left.start = end;
    step
}

/// The string to be read.
fn text_of(roots: &[Value]) -> Str<'_> {
    match roots {
        [Value::Str(bytes)] => Str::Shared(bytes),
        [Value::Pages(pages)] => Str::Pages(pages),
        _ => Str::Inline(b""),
    }
}

/// Number of bits (4 MiB of the string) that are processed between two checks whether the client is still
/// connected.
const STEP_BITS: usize = 32 << 20;
