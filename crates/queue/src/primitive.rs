//! Atomics, reference counts and cells: the standard library's, or loom's where the model checker builds this
//! crate.

pub(crate) use std::sync::atomic::Ordering;

#[cfg(loom)]
pub(crate) use loom::{
    cell::UnsafeCell,
    sync::Arc,
    sync::atomic::{AtomicBool, AtomicU64, AtomicUsize},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, AtomicUsize},
};

/// The standard cell behind loom's interface, which sees when an access begins and ends.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `access` with a pointer to the content. Using the pointer is what needs care, not getting it.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// The ordering of the edge called `name`: `real` everywhere, except in the model checker's build whose
/// deliberate mistake has this name. The names are the lines of the file `loom-mutants`.
///
/// An environment variable at compile time and not a `cfg`: changing it rebuilds this crate alone, not loom
/// with it.
#[cfg(loom)]
pub(crate) fn edge(name: &str, real: Ordering) -> Ordering {
    if option_env!("SLUICE_MUTANT") == Some(name) { Ordering::Relaxed } else { real }
}

/// The ordering of the edge called `name`.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn edge(_: &str, real: Ordering) -> Ordering {
    real
}
