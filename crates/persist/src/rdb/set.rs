//! Sets in files.

use sluice_base::num::IntBuffer;
use sluice_collections::{intset, listpack};
use sluice_value::{Set, SetContext, SetEncoding, SetLimits, SetRef};

use super::kind::SetForm;

/// A set that is being loaded.
#[derive(Debug)]
pub(super) struct SetBuilder {
    set: Set,
    context: SetContext,
}

impl SetBuilder {
    /// An empty set under these thresholds, of which a file announces so many members.
    pub(super) fn new(limits: SetLimits, count: u64) -> SetBuilder {
        let is_large = count > limits.max_intset as u64;
        let encoding = if is_large { SetEncoding::Hashtable } else { SetEncoding::Intset };
        let context = SetContext { limits, ..SetContext::default() };
        SetBuilder { set: Set::new(encoding, limits), context }
    }

    /// Adds a part of a value: a member, or all in one; `false` where the bytes are no such part, or name a
    /// member twice.
    pub(super) fn add(&mut self, form: SetForm, bytes: &[u8]) -> bool {
        let set = match form {
            SetForm::Members => return self.set.add(bytes, &mut self.context),
            // The reference writes none without integers, and refuses such.
            SetForm::Intset if intset::len(bytes) > 0 => Set::from_intset(bytes),
            SetForm::Listpack if listpack::is_valid(bytes) => Set::from_row(listpack::entries(bytes)),
            SetForm::Intset | SetForm::Listpack => None,
        };
        let is_set = set.is_some();
        self.set = set.unwrap_or_default();
        self.set.convert_after_loading(self.context.limits);
        is_set
    }

    /// The set; `None` where it has no member.
    pub(super) fn finish(self) -> Option<Set> {
        (!self.set.is_empty()).then_some(self.set)
    }
}

/// The members of a set in an order that does not depend on how it is stored, for tests and fuzzing.
pub(super) fn members(set: SetRef<'_>) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = set.iter().map(|item| item.bytes(&mut IntBuffer::new()).to_vec()).collect();
    all.sort_unstable();
    all
}
