//! The gate: every reason for which a command may not run now. Order is an array; only the gate makes a [`Permit`].
//!
//! Each check owns a bit. The engine keeps one word of the checks that can refuse anything at all just now
//! ([`Gate::armed`]), and each spec has a word of those that concern it, so that a plain command costs one AND.

use crate::control::Control;
use crate::error::CmdError;
use crate::session::Caller;
use sluice_base::Now;
use sluice_command::specs::{generic, server, string};
use sluice_command::{Flags, Spec};
use sluice_config::choice::Guard;
use sluice_config::param;

/// Proof that the gate let a command pass.
pub struct Permit(());

/// What the gate says.
pub enum Verdict {
    /// Run it.
    Run(Permit),
    /// Refuse it.
    Reject(CmdError),
    /// Keep the request; its time will come.
    Postpone,
}

/// What a check sees.
pub struct Asked<'a> {
    /// The command.
    pub spec: &'static Spec,
    /// Who asks.
    pub caller: &'a Caller,
    /// The control plane.
    pub control: &'a Control,
    /// The time.
    pub now: Now,
    /// Bytes of memory in use; asked only when the limit is set.
    pub used_memory: usize,
}

/// One check.
pub struct Check {
    /// Its name, for the test that prints the order.
    #[cfg_attr(not(test), expect(dead_code, reason = "for readers, and for the test below"))]
    pub name: &'static str,
    /// Whether it can concern this command.
    pub concerns: fn(&Spec) -> bool,
    /// Whether it can refuse anything in this state of the server. Checks that depend on the caller are always armed
    /// unless no caller can be refused.
    pub armed: fn(&Control) -> bool,
    /// Its answer; `None` lets the command pass. Must be `None` in a state in which the check is not armed.
    pub ask: fn(&Asked<'_>) -> Option<Verdict>,
}

/// The checks in the order in which the reference asks them. Existence and arity come before all of these: they need no
/// state, and a worker can settle them; only that a stranger is told NOAUTH instead is the executor's.
pub const CHECKS: &[Check] = &[
    Check {
        name: "auth",
        concerns: |spec| !spec.flags.has(Flags::NO_AUTH),
        armed: |control| !control.limits.password.is_empty(),
        ask: |asked| (!asked.caller.authenticated).then_some(Verdict::Reject(CmdError::NoAuth)),
    },
    Check {
        name: "protected",
        concerns: |spec| spec.flags.has(Flags::PROTECTED),
        armed: |control| control.config.choice::<Guard>(param::ENABLE_DEBUG_COMMAND) != Guard::Yes,
        ask: |asked| {
            let open = match asked.control.config.choice::<Guard>(param::ENABLE_DEBUG_COMMAND) {
                Guard::Yes => true,
                Guard::No => false,
                Guard::Local => asked.caller.is_local(),
            };
            (!open).then_some(Verdict::Reject(CmdError::text(DEBUG_REFUSED)))
        },
    },
    Check {
        name: "maxmemory",
        concerns: |spec| spec.flags.has(Flags::DENYOOM),
        armed: |control| control.limits.maxmemory > 0,
        ask: |asked| {
            (asked.used_memory > asked.control.limits.maxmemory).then_some(Verdict::Reject(CmdError::text(
                "OOM command not allowed when used memory > 'maxmemory'.",
            )))
        },
    },
    Check {
        name: "room",
        // Even a new expiry moves an entry to another block.
        concerns: |spec| spec.flags.has(Flags::WRITE) && !ONLY_FREE.iter().any(|free| free.id == spec.id),
        armed: |control| control.nearly_full,
        ask: |asked| asked.control.nearly_full.then_some(Verdict::Reject(CmdError::NO_ROOM)),
    },
    Check {
        name: "stream",
        concerns: |spec| touches_keys(spec),
        // For replicas it needs no arming: all that one of them sends is asked.
        armed: |control| !control.monitors.is_empty(),
        ask: |asked| {
            receives_stream(asked.caller)
                .then_some(Verdict::Reject(CmdError::text("ERR Replica can't interact with the keyspace")))
        },
    },
    Check {
        name: "pause",
        concerns: |_| true,
        armed: |control| control.pause.until_ms > 0,
        ask: |asked| {
            let pause = asked.control.pause;
            let writes = asked.spec.flags.has_any(Flags::WRITE.or(Flags::MAY_REPLICATE));
            // Who receives a stream must go on: a pause often waits for just that.
            (pause.active(asked.now) && (pause.all || writes) && !receives_stream(asked.caller))
                .then_some(Verdict::Postpone)
        },
    },
];

/// Writes that store nothing new.
const ONLY_FREE: [&Spec; 7] = [
    &generic::DEL,
    &generic::UNLINK,
    &string::DELIFEQ,
    &string::GETDEL,
    &server::FLUSHALL,
    &server::FLUSHDB,
    &server::SWAPDB,
];

fn touches_keys(spec: &Spec) -> bool {
    spec.flags.has_any(Flags::READONLY.or(Flags::WRITE).or(Flags::MAY_REPLICATE))
}

fn receives_stream(caller: &Caller) -> bool {
    caller.replica.is_some() || caller.flags.monitor
}

const DEBUG_REFUSED: &str = "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you \
                             can run it from a local connection, otherwise you need to set this option in the \
                             configuration file, and then restart the server.";

/// The gate's state.
#[derive(Debug)]
pub struct Gate {
    /// Bits of the checks that can refuse something now.
    armed: u32,
    /// By `Spec::id`: bits of the checks that concern the command.
    concerns: Vec<u32>,
}

impl Gate {
    /// For these specs, in the order of their ids.
    pub fn new(specs: &[&'static Spec]) -> Gate {
        let bits = |spec: &Spec| {
            CHECKS
                .iter()
                .enumerate()
                .filter(|(_, c)| (c.concerns)(spec))
                .fold(0, |bits, (i, _)| bits | 1 << i)
        };
        Gate { armed: 0, concerns: specs.iter().map(|spec| bits(spec)).collect() }
    }

    /// Looks again at which checks are armed; to be called when the control plane changed.
    pub fn rearm(&mut self, control: &Control) {
        self.armed = CHECKS
            .iter()
            .enumerate()
            .filter(|(_, c)| (c.armed)(control))
            .fold(0, |bits, (i, _)| bits | 1 << i);
    }

    /// Whether a check needs to be asked; if not, the permit.
    #[inline]
    pub fn pass(&self, spec: &Spec) -> Option<Permit> {
        let concerns = self.concerns.get(spec.id.0 as usize).copied().unwrap_or(u32::MAX);
        (self.armed & concerns == 0).then_some(Permit(()))
    }

    /// Asks the checks that are armed and concern the command, in order; of a replica, the others too.
    #[cold]
    pub fn ask(&self, asked: &Asked<'_>) -> Verdict {
        let armed = if asked.caller.replica.is_some() { u32::MAX } else { self.armed };
        let bits = armed & self.concerns.get(asked.spec.id.0 as usize).copied().unwrap_or(u32::MAX);
        for (i, check) in CHECKS.iter().enumerate() {
            if bits & 1 << i != 0
                && let Some(verdict) = (check.ask)(asked)
            {
                return verdict;
            }
        }
        Verdict::Run(Permit(()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_checks_is_this() {
        let names: Vec<&str> = CHECKS.iter().map(|c| c.name).collect();
        assert_eq!(names, ["auth", "protected", "maxmemory", "room", "stream", "pause"]);
        assert!(CHECKS.len() <= 32);
    }
}
