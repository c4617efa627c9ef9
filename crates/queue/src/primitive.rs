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

/// The standard library's cell with the interface of loom's cell. In that interface an access is a closure,
/// so that loom knows where the access begins and ends.
#[cfg(not(loom))]
#[derive(Debug)]
pub(crate) struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    pub(crate) const fn new(value: T) -> Self {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Calls `access` with a pointer to the content. Getting the pointer is safe; only dereferencing it is
    /// unsafe.
    #[inline(always)]
    pub(crate) fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

/// The ordering of the edge called `name`. This is `real`, except in the model checker's build that
/// weakens this very edge. The names are the lines of the file `loom-mutants`.
///
/// The mutant is an environment variable at compile time and not a `cfg`, because changing the variable
/// rebuilds this crate alone and not loom as well.
#[cfg(loom)]
pub(crate) fn edge(name: &str, real: Ordering) -> Ordering {
    if option_env!("SLUICE_MUTANT") == Some(name) { Ordering::Relaxed } else { real }
}

/// The ordering of the edge; this build never weakens an ordering.
#[cfg(not(loom))]
#[inline(always)]
pub(crate) const fn edge(_: &str, real: Ordering) -> Ordering {
    real
}
