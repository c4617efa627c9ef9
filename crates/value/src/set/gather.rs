//! A set of many members, made at once.

use super::{Set, SetBody, SetContext, SetLimits};
use sluice_base::num::IntBuffer;
use sluice_collections::hash_tree::MemberGathering;

/// Members that differ, which become a set: [`SetGathering::finish`].
///
/// The set reports the encoding, and has the body, that it would have after [`Set::add`] of each member in this order.
#[derive(Debug)]
pub struct SetGathering {
    /// The set while it is small.
    set: Set,
    context: SetContext,
    /// All members, once the set has outgrown what is not a tree.
    members: Option<MemberGathering>,
}

impl SetGathering {
    /// No members.
    pub fn new(limits: SetLimits) -> SetGathering {
        let context = SetContext { limits, ..SetContext::default() };
        SetGathering { set: Set::default(), context, members: None }
    }

    /// Adds a member that differs from all that were added.
    #[inline]
    pub fn push(&mut self, member: &[u8]) {
        match &mut self.members {
            Some(members) => members.push(member),
            None => self.add(member),
        }
    }

    /// Adds a member to the small set; from the moment on at which the set becomes a tree, members are gathered.
    fn add(&mut self, member: &[u8]) {
        self.set.add(member, &mut self.context);
        if !matches!(self.set.0.body, SetBody::Tree(_)) {
            return;
        }
        let mut members = MemberGathering::new(self.context.limits.seed);
        let mut digits = IntBuffer::new();
        for member in self.set.view().iter() {
            members.push(member.bytes(&mut digits));
        }
        self.members = Some(members);
    }

    /// The set of all members. Cost: O(n log n).
    pub fn finish(self) -> Set {
        let SetGathering { mut set, members, .. } = self;
        if let Some(members) = members {
            set.0.body = SetBody::Tree(members.finish());
        }
        set
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn contents(set: &Set) -> BTreeSet<Vec<u8>> {
        set.view().iter().map(|member| member.bytes(&mut IntBuffer::new()).to_vec()).collect()
    }

    #[test]
    fn a_gathered_set_is_what_single_members_make() {
        let limits = SetLimits { max_intset: 30, max_entries: 20, ..SetLimits::default() };
        for (ints, strings) in [(0, 0), (5, 0), (30, 0), (31, 0), (90, 0), (900, 0)].into_iter().chain([
            (5, 5),
            (19, 2),
            (25, 1),
            (0, 20),
            (0, 21),
            (0, 90),
            (40, 3),
            (100, 2000),
        ]) {
            for strings_come_first in [false, true] {
                let numbers = (0..ints).map(|number: i32| number.to_string());
                let texts = (0..strings).map(|number: i32| format!("text{number}"));
                let members: Vec<String> = match strings_come_first {
                    true => texts.chain(numbers).collect(),
                    false => numbers.chain(texts).collect(),
                };
                let mut gathering = SetGathering::new(limits);
                let (mut single, mut context) =
                    (Set::default(), SetContext { limits, ..SetContext::default() });
                for member in &members {
                    gathering.push(member.as_bytes());
                    assert!(single.add(member.as_bytes(), &mut context));
                }
                let set = gathering.finish();
                assert_eq!(set.encoding(), single.encoding(), "{ints} {strings} {strings_come_first}");
                assert_eq!(
                    std::mem::discriminant(&set.0.body),
                    std::mem::discriminant(&single.0.body),
                    "{ints} {strings} {strings_come_first}"
                );
                assert_eq!(set.len(), members.len());
                assert_eq!(contents(&set), contents(&single));
                assert!(members.iter().all(|member| set.view().contains(member.as_bytes())));
            }
        }
    }
}
