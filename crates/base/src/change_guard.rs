//! A mutable reference that records whether its value was ever borrowed mutably.

use std::ops::{Deref, DerefMut};

/// A borrowed value that records whether it can have been changed. Reading costs nothing. Whatever was
/// derived from the value has to be derived again only if [`ChangeGuard::can_have_changed`].
#[derive(Debug)]
pub struct ChangeGuard<'a, T> {
    value: &'a mut T,
    can_have_changed: bool,
}

impl<'a, T> ChangeGuard<'a, T> {
    /// A value that has not been changed yet.
    #[inline]
    pub fn new(value: &'a mut T) -> ChangeGuard<'a, T> {
        ChangeGuard { value, can_have_changed: false }
    }

    /// Whether the value was ever borrowed mutably.
    #[inline]
    pub fn can_have_changed(&self) -> bool {
        self.can_have_changed
    }
}

impl<T> Deref for ChangeGuard<'_, T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        self.value
    }
}

impl<T> DerefMut for ChangeGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.can_have_changed = true;
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_was_only_read_has_not_changed() {
        let mut value = vec![1];
        let mut guard = ChangeGuard::new(&mut value);
        assert_eq!(guard.len(), 1);
        assert!(!guard.can_have_changed());
        guard.push(2);
        assert!(guard.can_have_changed());
        assert_eq!(value, [1, 2]);
    }
}
