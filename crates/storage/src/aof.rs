//! The append-only file on disk: its folder with the manifest, and appending to a file of it.

mod appender;
mod folder;

pub use appender::{Appender, Block, FileHealth, PendingSync};
pub use folder::{Folder, History, Named, NewBase};
