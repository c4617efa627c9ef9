//! `oom-score-adj`: the kernel's preference for killing this process when memory runs out.

use sluice_config::choice::OomScoreAdj;
use sluice_config::{Config, param};

/// The kernel's score of this process when it started, to which a relative adjustment is added.
#[derive(Clone, Copy, Debug)]
pub struct OomScore {
    initial: i32,
    adjusted: bool,
}

impl OomScore {
    /// The current score.
    pub fn read() -> OomScore {
        let text = std::fs::read_to_string(OOM_FILE).unwrap_or_default();
        OomScore { initial: text.trim().parse().unwrap_or(0), adjusted: false }
    }

    /// Applies `oom-score-adj`. When it is off, the kernel's file is left alone, or set back if it was
    /// written before. Errors: the system's.
    pub fn apply(&mut self, config: &Config) -> std::io::Result<()> {
        // Only the first of the three scores, that of a primary, is used, even if this server is a replica.
        // The third, for child processes, is not needed, because this server has none.
        let [value, ..] = config.oom_score_adj_values();
        let score = match config.choice::<OomScoreAdj>(param::OOM_SCORE_ADJ) {
            OomScoreAdj::No if !self.adjusted => return Ok(()),
            OomScoreAdj::No => self.initial,
            OomScoreAdj::Relative => self.initial.saturating_add(value),
            OomScoreAdj::Absolute => value,
        };
        std::fs::write(OOM_FILE, score.clamp(-1000, 1000).to_string())?;
        self.adjusted = true;
        Ok(())
    }
}

const OOM_FILE: &str = "/proc/self/oom_score_adj";
