//! Checks in debug builds that a command accesses only the keys, databases and channels that it declares,
//! and that a user without a right to one of these is refused. The declaration is all that ACL, the cluster
//! and the prefetch know of a command's keys, databases and channels.
//!
//! Invariants: (1) a build with debug assertions checks each command that runs, unless a test turns the check
//! off, and no other build does; (2) an access that is neither declared nor exempt ends the process, so that
//! every test, the differential test and the upstream suite find it; (3) exemptions are data, each with a
//! reason.

mod check;

use sluice_acl::Users;
use sluice_command::Spec;

/// Whether the keys of commands are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclaredKeysCheck {
    /// Commands are not checked: for tests that count allocations. A build without debug
    /// assertions never checks.
    Off,
    /// Commands are checked, except for those that are exempt.
    On,
    /// Commands are checked, and none is exempt: for the test which shows that the check can fail.
    WithoutExemptions,
}

impl DeclaredKeysCheck {
    /// The check with which an engine begins.
    pub(crate) const DEFAULT: DeclaredKeysCheck =
        if cfg!(debug_assertions) { DeclaredKeysCheck::On } else { DeclaredKeysCheck::Off };

    /// Whether commands are checked in this build.
    #[inline(always)]
    pub(super) fn is_on(self) -> bool {
        cfg!(debug_assertions) && self != DeclaredKeysCheck::Off
    }
}

/// Users that each have all rights except those of one kind. A command that accesses a key, a database or a
/// channel must be refused to the user without rights of that kind.
#[derive(Debug)]
pub(crate) struct RightsProbes {
    users: Users,
}

/// The rule that removes the rights of one kind, and the name of the kind in a finding.
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

    /// Bytes of heap memory that the users take, as the allocator rounds them.
    pub(crate) fn footprint(&self) -> usize {
        self.users.footprint()
    }

    /// A kind of thing in the recorded accesses `met` that a user without any right of that kind could
    /// access, as text; `None` if there is no such kind.
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
