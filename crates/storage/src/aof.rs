//! The append-only file on disk: the folder with its manifest, and appending to one of the files.

mod appender;
mod folder;

pub use appender::{Appender, Block, FileHealth, PendingSync};
pub use folder::{Folder, History, Named, NewBase};
