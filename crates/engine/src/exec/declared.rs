//! Whether a command meets the keys and databases that it declares, and no others: ACL, a cluster and the
//! prefetch know the keys of a call from the declaration alone.
//!
//! Invariants: (1) a build with debug assertions checks each command that runs, and no other build does; (2)
//! a key that is met and not declared ends the process, so that every test, the differential test and the
//! upstream suite look for one; (3) what is exempt is data, with a reason.

mod steps;

/// Whether the keys of commands are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredKeysCheck {
    /// They are not: for tests that count allocations. A build without debug assertions never checks.
    Off,
    /// They are.
    On,
    /// They are, and nothing is exempt: for the test that the check can fail.
    WithoutExemptions,
}

impl DeclaredKeysCheck {
    /// What an engine begins with.
    pub(crate) const DEFAULT: DeclaredKeysCheck =
        if cfg!(debug_assertions) { DeclaredKeysCheck::On } else { DeclaredKeysCheck::Off };

    /// Whether commands are checked in this build.
    #[inline(always)]
    pub(super) fn is_on(self) -> bool {
        cfg!(debug_assertions) && self != DeclaredKeysCheck::Off
    }
}
