//! What the command line asks for.

/// What the command line asks for.
#[derive(Default)]
pub struct Args {
    /// Scenarios, all where there are none.
    pub only: Vec<String>,
    /// Rounds of each case.
    pub rounds: usize,
    /// Windows of 5 ms: whether everything runs, and no figures.
    pub quick: bool,
    /// Where the figures go as JSON.
    pub json: Option<String>,
    /// Arms of E4 and E10 instead of the usual ones; in E4 `epoll` and `io_uring` among them.
    pub arms: Vec<String>,
    /// Bytes of the messages of E4, instead of all sizes.
    pub bytes: Option<usize>,
    /// Descriptors that a process may have.
    pub descriptors: u64,
}

impl Args {
    /// The length of a window, in nanoseconds.
    pub fn window_ns(&self, ms: u64) -> u64 {
        if self.quick { 5_000_000 } else { ms * 1_000_000 }
    }
}
