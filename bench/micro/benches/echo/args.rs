//! The options of the command line.

#[derive(Default)]
pub struct Args {
    /// The scenarios to run; all if the list is empty.
    pub only: Vec<String>,
    /// Number of rounds of each case.
    pub rounds: usize,
    /// Whether windows last only 5 ms, which tests that everything runs but gives no meaningful figures.
    pub quick: bool,
    /// The file to which the figures are written as JSON.
    pub json: Option<String>,
    /// Arms that the scenarios E4 and E10 run instead of the usual ones; for E4 they must include `epoll` and
    /// `io_uring`.
    pub arms: Vec<String>,
    /// The only message size that E4 measures, in bytes, instead of all sizes.
    pub bytes: Option<usize>,
    /// Maximum number of descriptors of a process.
    pub descriptors: u64,
}

impl Args {
    /// The length of a window in nanoseconds: `ms` milliseconds, or 5 ms if `quick` is set.
    pub fn window_ns(&self, ms: u64) -> u64 {
        if self.quick { 5_000_000 } else { ms * 1_000_000 }
    }
}
