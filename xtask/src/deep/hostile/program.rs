//! One hostile program, its bounds, and how it is judged.

use std::path::Path;
use std::time::Duration;

use super::scene::Measured;
use crate::error::Result;

/// How often a row is run before its waits count.
pub(super) const ATTEMPTS: u32 = 3;
/// A wait of so many times its bound is no noise of the machine: the row is not run again.
const NOISE_FACTOR: u32 = 10;
/// From SCRIPT KILL or FUNCTION KILL to its reply, and to the end of the script.
pub(super) const KILL_MAX: Duration = Duration::from_millis(100);
/// The wait of a PING, where a program has no other bound.
pub(super) const PING_MAX: Duration = Duration::from_millis(50);

/// One program, against one fresh server.
pub(super) struct Program {
    /// The name of the file, and what the program does.
    pub(super) name: String,
    /// The longest that a PING may wait.
    pub(super) ping_max: Duration,
    /// Resident memory that the server may add to what it has at first, in MiB.
    pub(super) memory_max_mib: u64,
    pub(super) run: Box<dyn Fn(&Path) -> Result<Measured>>,
}

impl Program {
    /// A program with the bounds of most.
    pub(super) fn new(
        name: String,
        memory_max_mib: u64,
        run: impl Fn(&Path) -> Result<Measured> + 'static,
    ) -> Program {
        Program { name, ping_max: PING_MAX, memory_max_mib, run: Box::new(run) }
    }

    /// What a measurement has against the bounds, and whether the machine may have caused all of it.
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

    /// Runs the program, again where the machine may be at fault; what is wrong.
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

/// What is wrong with a measurement.
struct Judgement {
    faults: Vec<String>,
    may_be_noise: bool,
}
