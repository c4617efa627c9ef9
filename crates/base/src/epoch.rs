//! A number that changes whenever the control plane changes in a way that others have drawn conclusions from:
//! the gate which checks can refuse anything, the effects what is recorded.
//!
//! Whoever draws conclusions compares the number with the one that the conclusions belong to, ahead of each
//! command (`Engine::notice`): a command of an EXEC sees what the command before has changed.
//!
//! Two kinds of owners advance the number. A [`Watched`] value does so by itself, whenever it could have been
//! changed. Types whose fields are private and of which few changes matter (who waits, watches and
//! subscribes, the stream, the append-only file) do so in the methods that make such a change. The
//! configuration is neither: what has changed in it takes effect by `Control::apply_limits`, whose numbers
//! are watched.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The number, shared by the parts of one control plane. One thread uses it: the atomic is for handles in
/// several parts, and costs plain loads and stores.
#[derive(Clone, Debug, Default)]
pub struct Epoch(Arc<AtomicU32>);

impl Epoch {
    /// The number now.
    #[inline(always)]
    pub fn now(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }

    /// Something has changed.
    #[inline]
    pub fn advance(&self) {
        self.0.store(self.now().wrapping_add(1), Ordering::Relaxed);
    }
}

/// A value that others draw conclusions from: whoever can have changed the value has advanced the epoch.
#[derive(Debug)]
pub struct Watched<T> {
    value: T,
    epoch: Epoch,
}

impl<T> Watched<T> {
    /// A value of the control plane with this epoch.
    pub fn new(value: T, epoch: &Epoch) -> Watched<T> {
        Watched { value, epoch: epoch.clone() }
    }

    /// The value, for a change that nobody draws conclusions from.
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
