//! The error type of tasks: only a text for the person who started the task.

/// Any failure of a task, as text for the person who started it.
pub(crate) type Error = Box<dyn std::error::Error>;

/// The result of a task.
pub(crate) type Result<T> = std::result::Result<T, Error>;
