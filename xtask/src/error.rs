//! What tasks return: nothing more than a text for whoever started the task.

/// Any failure of a task, as text for the person who started it.
pub(crate) type Error = Box<dyn std::error::Error>;

/// What tasks return.
pub(crate) type Result<T> = std::result::Result<T, Error>;
