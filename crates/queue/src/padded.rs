//! A value alone on its cache lines.

use std::ops::Deref;

/// Keeps what different threads write apart: 128 bytes, because processors fetch lines of 64 in pairs and
/// some have lines of 128.
#[derive(Debug, Default)]
#[repr(align(128))]
pub struct Padded<T>(pub T);

impl<T> Deref for Padded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}
