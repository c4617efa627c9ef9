//! A value alone on its cache lines.

use std::ops::Deref;

/// Keeps values that different threads write on separate cache lines. The alignment is 128 bytes, because
/// processors fetch lines of 64 bytes in pairs and some have lines of 128.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
