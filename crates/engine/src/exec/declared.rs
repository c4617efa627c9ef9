//! Whether a command meets the keys, databases and channels that it declares, and no others, and whether a
//! user without a right to any of these is refused: ACL, a cluster and the prefetch know them from the
//! declaration alone.
//!
//! Invariants: (1) a build with debug assertions checks each command that runs, and no other build does; (2)
//! a key that is met and not declared ends the process, so that every test, the differential test and the
//! upstream suite look for one; (3) what is exempt is data, with a reason.

mod check;

use sluice_acl::Users;
use sluice_command::Spec;

/// Whether the keys of commands are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredKeysCheck {
    /// They are not: for tests that count allocations. A build without debug assertions never checks.
    Off,
    /// They are.
    On,
    /// They are, and nothing is exempt: for the test that the check can fail.
    WithoutExemptions,
}

impl DeclaredKeysCheck {
    /// What an engine begins with.
    pub(crate) const DEFAULT: DeclaredKeysCheck =
        if cfg!(debug_assertions) { DeclaredKeysCheck::On } else { DeclaredKeysCheck::Off };

    /// Whether commands are checked in this build.
    #[inline(always)]
    pub(super) fn is_on(self) -> bool {
        cfg!(debug_assertions) && self != DeclaredKeysCheck::Off
    }
}

/// Users who may do everything but one thing: whatever a command meets, the one without that must be refused.
#[derive(Debug)]
pub(crate) struct RightsProbes {
    users: Users,
}

/// The rule that takes one thing away, and its name in a finding.
const PROBES: [(&str, &str); 3] =
    [("resetkeys", "keys"), ("resetdbs", "databases"), ("resetchannels", "channels")];

impl RightsProbes {
    fn new() -> RightsProbes {
        let mut users = Users::new(true);
        for (rule, name) in PROBES {
            let rules = ["on", "+@all", "~*", "&*", "alldbs", rule];
            let made = users.set_user(name.as_bytes(), rules.iter().map(|rule| rule.as_bytes()));
            debug_assert!(made.is_ok(), "the rules are in order");
        }
        RightsProbes { users }
    }

    /// Bytes that the allocator has given.
    pub(crate) fn footprint(&self) -> usize {
        self.users.footprint()
    }

    /// What of `met` a user could meet without a right to anything of the kind.
    fn unasked(
        &self,
        spec: &'static Spec,
        args: &[&[u8]],
        db: usize,
        databases: usize,
        met: [bool; 3],
    ) -> Option<String> {
        PROBES.iter().zip(met).filter(|(_, is_met)| *is_met).find_map(|((_, kind), _)| {
            let user = self.users.get(kind.as_bytes())?;
            let is_asked = user.check_args(spec, args, db, databases).is_err();
            (!is_asked).then(|| format!("{} met {kind}, and a user without any may run it", spec.full_name))
        })
    }
}
