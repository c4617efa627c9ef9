//! SMEMBERS, SINTER, SUNION, SDIFF and SINTERCARD of large sets, and SPOP of many members, produced by
//! another thread.

use crate::element::reply_item;
use crate::production::{Production, Progress, SlowRead, is_piece, root_of};
use crate::set::combine::{SetOperation, count_common};
use sluice_keyspace::ValueRef;
use sluice_resp::Reply;
use sluice_value::{Set, SetRef, Value};

/// The members of a set, for SMEMBERS.
#[derive(Debug)]
struct Members {
    /// Number of members written.
    passed: usize,
    has_begun: bool,
}

pub(super) fn members(set: SetRef<'_>) -> SlowRead {
    SlowRead::new(vec![root_of(ValueRef::Set(set))], Members { passed: 0, has_begun: false })
}

impl Production for Members {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        let [Value::Set(set)] = &roots[..] else { return Progress::End };
        if !std::mem::replace(&mut self.has_begun, true) {
            reply.set(set.len());
        }
        let mut members = set.view().iter_from(self.passed);
        while !is_piece(reply) {
            let Some(member) = members.next() else { return Progress::End };
            reply_item(reply, member);
            self.passed += 1;
        }
        Progress::More
    }
}

/// Members that were removed from a set. They are in sets that have no other owner.
#[derive(Debug)]
struct PoppedMembers {
    count: usize,
    has_begun: bool,
    /// Number of members of the last set that are written already.
    passed: usize,
}

pub(super) fn popped(sets: Vec<Value>) -> SlowRead {
    let len = |value: &Value| if let Value::Set(set) = value { set.len() } else { 0 };
    let count = sets.iter().map(len).sum();
    SlowRead::of_taken(sets, PoppedMembers { count, has_begun: false, passed: 0 })
}

impl Production for PoppedMembers {
    fn go_on(&mut self, roots: &mut Vec<Value>, reply: &mut Reply<'_>) -> Progress {
        if !std::mem::replace(&mut self.has_begun, true) {
            reply.set(self.count);
        }
        while let Some(Value::Set(set)) = roots.last() {
            let mut members = set.view().iter_from(self.passed);
            while !is_piece(reply) {
                let Some(member) = members.next() else { break };
                reply_item(reply, member);
                self.passed += 1;
            }
            if self.passed < set.len() {
                return Progress::More;
            }
            self.passed = 0;
            roots.pop();
        }
        Progress::End
    }
}

pub(super) fn combined(sets: &[Option<SetRef<'_>>], operation: SetOperation) -> SlowRead {
    let there = sets.iter().map(Option::is_some).collect::<Vec<bool>>();
    SlowRead::in_one_step(roots_of(sets), move |roots, reply| {
        operation.reply(&views(roots, &there), reply);
    })
}

pub(super) fn counted(sets: &[Option<SetRef<'_>>], limit: usize) -> SlowRead {
    let there = sets.iter().map(Option::is_some).collect::<Vec<bool>>();
    SlowRead::in_one_step(roots_of(sets), move |roots, reply| {
        reply.int(count_common(&views(roots, &there), limit) as i64);
    })
}

/// A root for each set; the root for an absent key is an empty set.
fn roots_of(sets: &[Option<SetRef<'_>>]) -> Vec<Value> {
    let root = |set: &Option<SetRef<'_>>| match set {
        Some(set) => root_of(ValueRef::Set(*set)),
        None => Value::Set(Set::default()),
    };
    sets.iter().map(root).collect()
}

/// The sets of the roots; `None` where the key was absent.
fn views<'d>(roots: &'d [Value], there: &[bool]) -> Vec<Option<SetRef<'d>>> {
    let view = |(root, is_there): (&'d Value, &bool)| match root {
        Value::Set(set) if *is_there => Some(set.view()),
        _ => None,
    };
    roots.iter().zip(there).map(view).collect()
}
