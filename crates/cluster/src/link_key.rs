//! Names of links.

/// The name of a link, which is unique within the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkKey {
    pub(crate) index: u32,
    pub(crate) generation: u32,
}
