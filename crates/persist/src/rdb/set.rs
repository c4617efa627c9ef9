//! Building sets from files.

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
    /// A builder of a set with these thresholds, for which the file announces `count` members.
    pub(super) fn new(limits: SetLimits, count: u64) -> SetBuilder {
        let is_large = count > limits.max_intset as u64;
        let encoding = if is_large { SetEncoding::Hashtable } else { SetEncoding::Intset };
        let context = SetContext { limits, ..SetContext::default() };
        SetBuilder { set: Set::new(encoding, limits), context }
    }

    /// Adds a part of a value: one member, or all members in one text. `false` if the bytes are
    /// malformed or name a member twice.
    pub(super) fn add(&mut self, form: SetForm, bytes: &[u8]) -> bool {
        let set = match form {
            SetForm::Members => return self.set.add(bytes, &mut self.context),
            // The reference neither writes nor accepts an empty intset.
            SetForm::Intset if intset::len(bytes) > 0 => Set::from_intset(bytes),
            SetForm::Listpack if listpack::is_valid(bytes) => Set::from_row(listpack::entries(bytes)),
            SetForm::Intset | SetForm::Listpack => None,
        };
        let is_set = set.is_some();
        self.set = set.unwrap_or_default();
        self.set.convert_after_loading(self.context.limits);
        is_set
    }

    /// The set; `None` if it has no member.
    pub(super) fn finish(self) -> Option<Set> {
        (!self.set.is_empty()).then_some(self.set)
    }
}

/// The members of a set in an order independent of its form, for tests and fuzzing.
pub(super) fn members(set: SetRef<'_>) -> Vec<Vec<u8>> {
    let mut all: Vec<Vec<u8>> = set.iter().map(|item| item.bytes(&mut IntBuffer::new()).to_vec()).collect();
    all.sort_unstable();
    all
}
