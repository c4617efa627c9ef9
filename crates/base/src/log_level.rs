//! Levels of the log.

/// Levels of the log, in the reference's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// For developers; the most detailed level.
    Debug,
    /// Details that are rarely useful.
    Verbose,
    /// Worth knowing in production.
    Notice,
    /// An operator should act.
    Warning,
}
