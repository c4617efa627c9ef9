//! `oom-score-adj`: the kernel's preference for killing this process when memory runs out.

use sluice_config::choice::OomScoreAdj;
use sluice_config::{Config, param};

/// The kernel's score of this process, as `oom-score-adj` and the server's role determine it.
#[derive(Clone, Copy, Debug)]
pub struct OomScore {
    /// The score when the process started, to which a relative adjustment is added.
    initial: i32,
    /// Whether the kernel's file was written.
    adjusted: bool,
    mode: OomScoreAdj,
    /// The adjustments of `oom-score-adj-values` for a primary and for a replica. The third value, for
    /// child processes, is not needed, because this server has none.
    values: [i32; 2],
    is_replica: bool,
}

impl OomScore {
    /// Reads the current score. The server counts as a primary, and adjusts nothing yet.
    pub fn read() -> OomScore {
        let text = std::fs::read_to_string(OOM_FILE).unwrap_or_default();
        OomScore {
            initial: text.trim().parse().unwrap_or(0),
            adjusted: false,
            mode: OomScoreAdj::No,
            values: [0; 2],
            is_replica: false,
        }
    }

    /// Applies `oom-score-adj` and `oom-score-adj-values`. If `oom-score-adj` is off, the kernel's file is
    /// left alone, or set back if it was written before. Errors: the system's.
    pub fn apply(&mut self, config: &Config) -> std::io::Result<()> {
        let [primary, replica, _] = config.oom_score_adj_values();
        (self.mode, self.values) = (config.choice::<OomScoreAdj>(param::OOM_SCORE_ADJ), [primary, replica]);
        self.write()
    }

    /// Applies the value of the server's new role. Nothing is written if the role is as before. Errors: the
    /// system's.
    pub fn set_role(&mut self, is_replica: bool) -> std::io::Result<()> {
        if is_replica == self.is_replica {
            return Ok(());
        }
        self.is_replica = is_replica;
        self.write()
    }

    fn write(&mut self) -> std::io::Result<()> {
        let value = self.values[usize::from(self.is_replica)];
        let score = match self.mode {
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
