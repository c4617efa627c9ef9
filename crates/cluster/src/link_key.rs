//! Names of links.

/// The name of a link, for the process's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}
