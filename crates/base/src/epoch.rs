//! A number that advances whenever the control plane changes in a way that cached conclusions depend on.
//! Such conclusions are, for example, which checks can refuse a command, and which of a command's effects
//! have to be recorded.
//!
//! Before each command, the owner of a conclusion compares the number with the one at which the conclusion
//! was drawn (`Core::refresh_derived`). A command of an EXEC therefore sees the changes of the command before
//! it.
//!
//! Two kinds of owners advance the number. A [`Watched`] value advances it whenever the value could have
//! been changed. Types with private fields, few of whose changes matter (waiting, watching, tracking and
//! subscribed clients, the stream, the append-only file), advance it in the methods that make such a
//! change. The configuration does neither: its changes take effect by `Control::apply_limits`, whose
//! numbers are watched. Cluster mode calls [`Epoch::advance`] itself.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number, shared by the parts of one control plane. Only one thread uses the number. It is an atomic
/// so that there can be several handles to it, and costs plain loads and stores.
#[derive(Clone, Debug, Default)]
pub struct Epoch(Arc<AtomicU32>);

impl Epoch {
    /// The present number, to be compared with an earlier one.
    #[inline(always)]
    pub fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Records a change: every conclusion drawn before is out of date.
    #[inline]
    pub fn advance(&self) {
        self.0.store(self.now().wrapping_add(1), Ordering::Relaxed);
    }
}

/// A value on which cached conclusions depend, so that every mutable access advances the epoch.
#[derive(Debug)]
pub struct Watched<T> {
    value: T,
    epoch: Epoch,
}

impl<T> Watched<T> {
    /// Wraps a value, so that every mutable access advances `epoch`.
    pub fn new(value: T, epoch: &Epoch) -> Watched<T> {
        Watched { value, epoch: epoch.clone() }
    }

    /// The value, for a change that no conclusion depends on. The epoch does not advance.
    #[inline]
    pub fn quietly(&mut self) -> &mut T {
        &mut self.value
    }
}

impl<T> Deref for Watched<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T> DerefMut for Watched<T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.epoch.advance();
        &mut self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_may_have_changed_the_value_has_advanced_the_epoch() {
        let epoch = Epoch::default();
        let mut watched = Watched::new(Some(1), &epoch);
        assert!(watched.is_some());
        *watched.quietly() = Some(2);
        assert_eq!(epoch.now(), 0);
        assert_eq!(watched.take(), Some(2));
        assert_eq!(epoch.now(), 1);
        *watched = None;
        assert_eq!(epoch.now(), 2);
    }
}
