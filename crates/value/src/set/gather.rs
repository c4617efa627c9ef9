//! Building a set of many members at once.

use super::{Set, SetBody, SetContext, SetLimits};
use sluice_base::num::IntBuffer;
use sluice_collections::hash_tree::MemberGathering;

/// Distinct members, of which [`SetGathering::finish`] makes a set.
///
/// The set gets the encoding and the form that it would have after [`Set::add`] of each member in this order.
///
/// Memory: the set, and in addition at most a million members with 64 MiB of text.
#[derive(Debug)]
pub struct SetGathering {
    /// The set while it is small, and again once the gathered members have become a tree. In between,
    /// `members` replaces it.
    set: Set,
    context: SetContext,
    /// All members, from the moment at which the set would become a tree until they exceed `max`.
    members: Option<MemberGathering>,
    max: GatheredMax,
}

/// Bounds of the gathered members, because a copy of all members of a still larger set would take as much
/// memory again as the set. Further members are inserted one by one, which takes longer.
#[derive(Clone, Copy, Debug)]
struct GatheredMax {
    /// Number of members.
    len: usize,
    /// Bytes of all members together.
    text_len: usize,
}

const GATHERED_MAX: GatheredMax = GatheredMax { len: 1 << 20, text_len: 64 << 20 };

impl GatheredMax {
    /// Whether there is room for one more member.
    #[inline]
    fn allows(self, members: &MemberGathering, member: &[u8]) -> bool {
        members.len() < self.len && members.text_len().saturating_add(member.len()) <= self.text_len
    }
}

impl SetGathering {
    /// A gathering without members.
    pub fn new(limits: SetLimits) -> SetGathering {
        SetGathering::bounded(limits, GATHERED_MAX)
    }

    fn bounded(limits: SetLimits, max: GatheredMax) -> SetGathering {
        let context = SetContext { limits, ..SetContext::default() };
        SetGathering { set: Set::default(), context, members: None, max }
    }

    /// Adds a member that differs from all members added before.
    #[inline]
    pub fn push(&mut self, member: &[u8]) {
        match &mut self.members {
            Some(members) if self.max.allows(members, member) => members.push(member),
            Some(_) | None => self.add(member),
        }
    }

    /// Adds a member to the set, after a tree is made of the members gathered so far. Gathering begins
    /// when a small set becomes a tree.
    fn add(&mut self, member: &[u8]) {
        self.make_tree();
        let was_tree = self.is_tree();
        self.set.add(member, &mut self.context);
        if !was_tree && self.is_tree() {
            self.gather();
        }
    }

    fn is_tree(&self) -> bool {
        matches!(self.set.0.body, SetBody::Tree(_))
    }

    /// Begins to gather with the present members, if they leave room for more.
    fn gather(&mut self) {
        let mut members = MemberGathering::new(self.context.limits.seed);
        let mut digits = IntBuffer::new();
        for member in self.set.view().iter() {
            let member = member.bytes(&mut digits);
            if !self.max.allows(&members, member) {
                return;
            }
            members.push(member);
        }
        self.members = Some(members);
    }

    /// Makes a tree of what was gathered, if anything was.
    fn make_tree(&mut self) {
        if let Some(members) = self.members.take() {
            self.set.0.body = SetBody::Tree(members.finish());
        }
    }

    /// The set of all members. Cost: O(n log n).
    pub fn finish(mut self) -> Set {
        self.make_tree();
        self.set
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

    #[test]
    fn no_more_is_gathered_than_is_allowed() {
        let limits = SetLimits::default();
        let members: Vec<String> = (0..5000).map(|number| format!("member:{number:04}")).collect();
        let text_len = members[0].len();
        // With a bound of 0 or 10, nothing is gathered, because a set that becomes a tree already has more
        // members.
        for (len, text_len) in [(0, 1 << 20), (10, 1 << 20), (1000, 1 << 20), (1 << 20, 1000 * text_len)] {
            let max = GatheredMax { len, text_len };
            let mut gathering = SetGathering::bounded(limits, max);
            let mut most = 0;
            for member in &members {
                gathering.push(member.as_bytes());
                if let Some(gathered) = &gathering.members {
                    assert!(gathered.len() <= len && gathered.text_len() <= text_len);
                    most = most.max(gathered.len());
                }
            }
            assert_eq!(most, if len <= 10 { 0 } else { 1000 });
            assert!(gathering.members.is_none(), "members behind the bound are inserted");
            let set = gathering.finish();
            assert_eq!(set.len(), members.len());
            assert_eq!(set.encoding(), crate::SetEncoding::Hashtable);
            assert_eq!(contents(&set), members.iter().map(|member| member.clone().into_bytes()).collect());
        }
    }

    #[test]
    fn a_member_that_is_too_long_to_be_gathered_is_inserted() {
        let max = GatheredMax { len: 1 << 20, text_len: 10_000 };
        let mut gathering = SetGathering::bounded(SetLimits::default(), max);
        let short: Vec<String> = (0..200).map(|number| format!("m{number}")).collect();
        short.iter().for_each(|member| gathering.push(member.as_bytes()));
        assert!(gathering.members.is_some());
        gathering.push(&[b'x'; 20_000]);
        assert!(gathering.members.is_none());
        gathering.push(b"behind");
        let set = gathering.finish();
        assert_eq!(set.len(), 202);
        assert!(
            set.view().contains(&[b'x'; 20_000])
                && set.view().contains(b"behind")
                && set.view().contains(b"m7")
        );
    }
}
