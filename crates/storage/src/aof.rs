//! The append-only file on disk: its folder with the manifest, and appending to a file of it.

mod appender;
mod folder;

pub use appender::{Appender, Block, Health, PendingSync};
pub use folder::{Folder, History, Named, NewBase};
