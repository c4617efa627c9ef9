//! The union, intersection and difference of sets.

use crate::element::reply_item;
use sluice_base::num::IntBuffer;
use sluice_resp::Reply;
use sluice_value::{ListItem, Set, SetContext, SetEncoding, SetFinder, SetLimits, SetRef};

/// Number of members that all sets have in common, counted up to `limit`; a `limit` of 0 means no limit.
pub(super) fn count_common(sets: &[Option<SetRef<'_>>], limit: usize) -> usize {
    let mut found = 0;
    intersect(sets, &mut |_| {
        found += 1;
        found != limit
    });
    found
}

/// An operation on several sets.
#[derive(Clone, Copy, Debug)]
pub(super) enum SetOperation {
    Inter,
    Diff,
    /// The union, with the limits for the set that records visited members.
    Union(SetLimits),
}

impl SetOperation {
    /// Number of members that the operation walks.
    pub(crate) fn visited(self, sets: &[Option<SetRef<'_>>]) -> usize {
        let mut lens = sets.iter().map(|set| set.map_or(0, SetRef::len));
        match self {
            SetOperation::Inter => lens.min().unwrap_or(0),
            SetOperation::Diff => lens.next().unwrap_or(0),
            SetOperation::Union(_) => lens.sum(),
        }
    }

    /// Writes the result as a reply.
    pub(super) fn reply(self, sets: &[Option<SetRef<'_>>], reply: &mut Reply<'_>) {
        let deferred = reply.defer();
        let mut count = 0;
        let visit: Visit<'_> = &mut |member| {
            reply_item(reply, member);
            count += 1;
            true
        };
        match self {
            SetOperation::Inter => intersect(sets, visit),
            SetOperation::Diff => subtract(sets, visit),
            SetOperation::Union(limits) => unite(sets, limits, visit),
        }
        reply.end_set(deferred, count);
    }
}

/// Receives a member; the result is whether the next one is wanted.
pub(crate) type Visit<'v> = &'v mut dyn FnMut(ListItem<'_>) -> bool;

/// Visits the members that are in all sets. Cost: the members of the smallest set, looked up in
/// each other set.
pub(crate) fn intersect(sets: &[Option<SetRef<'_>>], visit: Visit<'_>) {
    let Some(mut sets) = sets.iter().copied().collect::<Option<Vec<SetRef<'_>>>>() else { return };
    sets.sort_by_key(|set| set.len());
    let Some((smallest, others)) = sets.split_first() else { return };
    let mut others: Vec<_> = others.iter().map(|set| set.finder()).collect();
    let mut digits = IntBuffer::new();
    for member in smallest.iter() {
        let bytes = member.bytes(&mut digits);
        if others.iter_mut().all(|set| set.contains(bytes)) && !visit(member) {
            return;
        }
    }
}

/// Visits the members of the first set that are in no other set.
pub(crate) fn subtract(sets: &[Option<SetRef<'_>>], visit: Visit<'_>) {
    let Some((Some(first), others)) = sets.split_first() else { return };
    let mut others: Vec<_> = others.iter().flatten().map(|set| set.finder()).collect();
    let mut digits = IntBuffer::new();
    for member in first.iter() {
        let bytes = member.bytes(&mut digits);
        if !others.iter_mut().any(|set| set.contains(bytes)) && !visit(member) {
            return;
        }
    }
}

/// Visits each member of any set once.
pub(crate) fn unite(sets: &[Option<SetRef<'_>>], limits: SetLimits, visit: Visit<'_>) {
    if is_looked_up(sets) {
        return unite_by_looking_up(sets, visit);
    }
    let (mut seen, mut digits) = (Set::new(SetEncoding::Hashtable, limits), IntBuffer::new());
    let mut context = SetContext { limits, ..SetContext::default() };
    for member in sets.iter().flatten().flat_map(|set| set.iter()) {
        if seen.add(member.bytes(&mut digits), &mut context) && !visit(member) {
            return;
        }
    }
}

/// Whether a union looks up each member in the earlier sets, instead of recording visited members. A look-up
/// takes a fifth of the time of an insertion, if the members are visited in the order of a hash table.
pub(crate) fn is_looked_up(sets: &[Option<SetRef<'_>>]) -> bool {
    let mut before_last = sets.iter().flatten();
    let _last = before_last.next_back();
    let searched: usize = before_last.clone().map(|set| set.searched_len()).sum();
    before_last.count() < LOOKED_UP_MAX && searched <= SEARCHED_LEN_MAX
}

/// A union of at most this many sets looks members up in the earlier sets.
pub(crate) const LOOKED_UP_MAX: usize = 5;

/// A union looks members up only if the sets that are searched member by member (listpacks) have at most this
/// many members in total, because searching more members takes longer than an insertion into a table.
pub(crate) const SEARCHED_LEN_MAX: usize = 128;

/// Visits each member of any set once, in the first set that has it.
pub(crate) fn unite_by_looking_up(sets: &[Option<SetRef<'_>>], visit: Visit<'_>) {
    let mut before: Vec<SetFinder<'_>> = Vec::new();
    let mut digits = IntBuffer::new();
    for set in sets.iter().flatten() {
        for member in set.iter() {
            let bytes = member.bytes(&mut digits);
            if !before.iter_mut().any(|set| set.contains(bytes)) && !visit(member) {
                return;
            }
        }
        before.push(set.finder());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A set of `len` members that reports this encoding.
    fn set(encoding: SetEncoding, len: usize) -> Set {
        let (mut set, mut context) = (Set::new(encoding, SetLimits::default()), SetContext::default());
        for number in 0..len {
            let member = match encoding {
                SetEncoding::Intset => number.to_string(),
                SetEncoding::Listpack | SetEncoding::Hashtable => format!("m{number}"),
            };
            set.add(member.as_bytes(), &mut context);
        }
        assert_eq!((set.encoding(), set.len()), (encoding, len));
        set
    }

    #[test]
    fn a_union_looks_members_up_where_rows_are_short_together() {
        let (row, short, ints, tree) = (
            set(SetEncoding::Listpack, 100),
            set(SetEncoding::Listpack, 28),
            set(SetEncoding::Intset, 400),
            set(SetEncoding::Hashtable, 3000),
        );
        for (sets, expected) in [
            (&[&row, &tree][..], true),
            (&[&row, &short, &tree], true),
            (&[&row, &ints, &short, &tree, &row], true),
            (&[&row, &row, &tree], false),
            (&[&row, &short, &short, &tree], false),
            (&[&tree, &tree, &tree, &tree, &tree], true),
            (&[&tree, &tree, &tree, &tree, &tree, &tree], false),
            (&[&row], true),
            (&[], true),
        ] {
            let views: Vec<Option<SetRef<'_>>> = sets.iter().map(|set| Some(set.view())).collect();
            assert_eq!(
                is_looked_up(&views),
                expected,
                "{:?}",
                sets.iter().map(|set| set.len()).collect::<Vec<_>>()
            );
        }
    }
}
