//! One hostile program, its bounds, and the judgement of its measurement.

use std::path::Path;
use std::time::Duration;

use super::scene::Measured;
use crate::error::Result;

/// A program is run at most this many times; waits that still exceed their bounds in the last run are
/// failures.
pub(super) const ATTEMPTS: u32 = 3;
/// A wait of at least this many times its bound cannot be explained by other load on the machine, so the
/// hostile program is not run again.
const NOISE_FACTOR: u32 = 10;
/// Maximum time from SCRIPT KILL or FUNCTION KILL to its reply, and to the end of the script.
pub(super) const KILL_MAX: Duration = Duration::from_millis(100);
/// Maximum wait of a PING, for programs without another bound.
pub(super) const PING_MAX: Duration = Duration::from_millis(50);

/// A hostile program; each attempt runs it against a fresh server.
pub(super) struct Program {
    /// The name in the output: the name of the source file that defines the program, a colon, and what the
    /// program does.
    pub(super) name: String,
    /// The longest allowed wait of a PING.
    pub(super) ping_max: Duration,
    /// Resident memory that the server may add to its initial memory, MiB.
    pub(super) memory_max_mib: u64,
    pub(super) run: Box<dyn Fn(&Path) -> Result<Measured>>,
}

impl Program {
    /// A program with the default bounds.
    pub(super) fn new(
        name: String,
        memory_max_mib: u64,
        run: impl Fn(&Path) -> Result<Measured> + 'static,
    ) -> Program {
        Program { name, ping_max: PING_MAX, memory_max_mib, run: Box::new(run) }
    }

    /// Compares a measurement with the bounds; says whether other load on the machine may have caused all
    /// faults.
    fn judge(&self, measured: &Measured) -> Judgement {
        let mut judgement =
            Judgement { faults: measured.wrong.clone(), may_be_noise: measured.wrong.is_empty() };
        let killed = measured.killed.unwrap_or_default();
        for (what, wait, most) in
            [("PING", measured.pings.longest, self.ping_max), ("KILL", killed, KILL_MAX)]
        {
            if wait > most {
                judgement.faults.push(format!("{what} took {} ms of {}", wait.as_millis(), most.as_millis()));
                judgement.may_be_noise &= wait < most * NOISE_FACTOR;
            }
        }
        let added = measured.memory.peak_mib.saturating_sub(measured.memory.before_mib);
        if added > self.memory_max_mib {
            judgement.faults.push(format!("memory grew by {added} MiB of {}", self.memory_max_mib));
            judgement.may_be_noise = false;
        }
        judgement
    }

    /// Runs the program, and runs it again if other load on the machine may have caused the faults. Returns
    /// the faults of the last attempt.
    pub(super) fn attempts(&self, binary: &Path) -> Vec<String> {
        for attempt in 1.. {
            let measured = match (self.run)(binary) {
                Ok(measured) => measured,
                Err(error) => return vec![error.to_string()],
            };
            let Judgement { faults, may_be_noise } = self.judge(&measured);
            println!("hostile: {}: {measured}", self.name);
            if faults.is_empty() || !may_be_noise || attempt == ATTEMPTS {
                return faults;
            }
            println!("hostile: {}: once more ({attempt} of {ATTEMPTS}): {}", self.name, faults.join("; "));
        }
        Vec::new()
    }
}

/// The faults of a measurement, and whether other load on the machine may have caused all of them.
struct Judgement {
    faults: Vec<String>,
    may_be_noise: bool,
}

#[cfg(test)]
mod tests {
    use crate::deep::hostile::scene::{Measured, Memory};
    use std::time::Duration;

    use super::{KILL_MAX, PING_MAX, Program};

    fn judged(measured: Measured) -> (usize, bool) {
        let program = Program::new("a program".into(), 10, |_| Ok(Measured::default()));
        let judgement = program.judge(&measured);
        (judgement.faults.len(), judgement.may_be_noise)
    }

    #[test]
    fn waits_and_memory_beyond_their_bounds_are_faults_and_only_short_waits_may_be_noise() {
        let waited = |wait: Duration| {
            let mut measured = Measured::default();
            measured.pings.longest = wait;
            judged(measured)
        };
        assert_eq!(waited(PING_MAX), (0, true));
        assert_eq!(waited(PING_MAX * 2), (1, true));
        assert_eq!(waited(PING_MAX * 20), (1, false));
        let killed = |wait| judged(Measured { killed: Some(wait), ..Measured::default() });
        assert_eq!(
            (killed(KILL_MAX), killed(KILL_MAX * 2), killed(KILL_MAX * 20)),
            ((0, true), (1, true), (1, false))
        );
        let grown = |peak_mib| {
            judged(Measured {
                memory: Memory { before_mib: 5, peak_mib, after_mib: 5 },
                ..Measured::default()
            })
        };
        assert_eq!((grown(15), grown(16)), ((0, true), (1, false)));
        assert_eq!(judged(Measured { wrong: vec!["ended".into()], ..Measured::default() }), (1, false));
    }
}
