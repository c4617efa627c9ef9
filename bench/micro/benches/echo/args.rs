//! The options of the command line.

/// The options of the command line.
#[derive(Default)]
pub struct Args {
    /// The scenarios to run; empty: all.
    pub only: Vec<String>,
    /// Rounds of each case.
    pub rounds: usize,
    /// Windows of 5 ms: tests that everything runs, without meaningful figures.
    pub quick: bool,
    /// The file for the figures as JSON.
    pub json: Option<String>,
    /// Arms of E4 and E10 instead of the usual ones; for E4 they must include `epoll` and `io_uring`.
    pub arms: Vec<String>,
    /// Bytes of the messages of E4, instead of all sizes.
    pub bytes: Option<usize>,
    /// Maximum descriptors of a process.
    pub descriptors: u64,
}

impl Args {
    /// The length of a window, in nanoseconds.
    pub fn window_ns(&self, ms: u64) -> u64 {
        if self.quick { 5_000_000 } else { ms * 1_000_000 }
    }
}
