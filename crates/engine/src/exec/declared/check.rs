//! Checks that a command accesses only the keys, databases and channels that it declares, and that the ACL
//! refuses the command to a user without rights to these.

use super::{DeclaredKeysCheck, RightsProbes};
use crate::engine::Engine;
use sluice_command::derive::{databases::databases, keys::keys_that_fit};
use sluice_command::{Flags, KeyFlags, Spec, is_word};
use sluice_commands::Args;
use sluice_keyspace::{AccessedKey, KeyAccessLog};
use std::collections::BTreeMap;

/// What a command may do beyond its declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exempt {
    /// Access other keys, if one of these words is among the arguments; without words, access any key or
    /// database in every call.
    Keys(&'static [&'static str]),
    /// Change keys that are declared as read.
    Changes,
}

/// Exempt commands by full name, with the reason.
const EXEMPT: &[(&str, Exempt, &str)] = &[
    (
        "cluster|flushslot",
        Exempt::Keys(&[]),
        "for administrators: names a slot, and has no keys in the reference",
    ),
    ("debug", Exempt::Keys(&[]), "for administrators, without key specs in the reference"),
    ("sort", Exempt::Keys(&["BY", "GET"]), "names made of elements: ACL asks for the right to read all keys"),
    ("sort_ro", Exempt::Keys(&["BY", "GET"]), "as SORT"),
    ("xreadgroup", Exempt::Changes, "declared as in the reference: a delivery changes the group alone"),
    (
        "pfcount",
        Exempt::Changes,
        "the estimate that is kept says nothing new: no right to write is asked for",
    ),
    ("pfdebug", Exempt::Changes, "for developers, declared as in the reference"),
];

/// A key that a command accessed or changed beyond its declaration, as text; `None` if there is none. `db` is
/// the database in which the command ran, and `args` the command's words. `exempt` is [`EXEMPT`], or empty if
/// the check makes no exemptions.
fn undeclared(
    spec: &Spec,
    args: &[&[u8]],
    db: usize,
    met: &[AccessedKey],
    exempt: &[(&str, Exempt, &str)],
) -> Option<String> {
    let exempt = exempt.iter().filter(|(name, _, _)| *name == spec.full_name);
    let exempt: Vec<Exempt> = exempt.map(|(_, exempt, _)| *exempt).collect();
    let is_named = |words: &[&str]| args.iter().any(|arg| words.iter().any(|word| is_word(arg, word)));
    let meets_any = exempt.iter().any(|exempt| match exempt {
        Exempt::Keys(words) => words.is_empty() || is_named(words),
        Exempt::Changes => false,
    });
    if meets_any || met.is_empty() {
        return None;
    }
    let mut dbs = vec![db];
    databases(spec, args, &mut dbs);
    let mut found = Vec::new();
    keys_that_fit(spec, args, &mut found);
    let mut declared: BTreeMap<&[u8], KeyFlags> = BTreeMap::new();
    for (at, flags) in found {
        let before = declared.entry(args[at]).or_default();
        *before = before.or(flags);
    }
    let writes = KeyFlags::RW.or(KeyFlags::OW).or(KeyFlags::RM);
    let changes = KeyFlags::INSERT.or(KeyFlags::DELETE).or(KeyFlags::UPDATE);
    met.iter().find_map(|met| {
        let what = match declared.get(&*met.key) {
            None => "a key that it does not declare",
            Some(_) if !spec.flags.has(Flags::ALL_DBS) && !dbs.contains(&met.db) => {
                "a key in a database that it does not name"
            }
            Some(flags) if met.is_written && !(flags.has_any(writes) && flags.has_any(changes)) => {
                if exempt.contains(&Exempt::Changes) {
                    return None;
                }
                "for writing a key that it declares as read"
            }
            Some(_) => return None,
        };
        Some(format!(
            "{} met {what}: {:?} in database {}",
            spec.full_name,
            met.key.escape_ascii().to_string(),
            met.db
        ))
    })
}

impl Engine {
    /// Sets how accesses are checked from now on.
    #[doc(hidden)]
    pub fn check_keys(&mut self, check: DeclaredKeysCheck) {
        self.probes.declared_keys = check;
    }

    /// Begins to record the accesses of a command.
    #[cold]
    pub(in crate::exec) fn record_declared_keys(&mut self) {
        self.core.effects.record_accesses();
        self.core.control.clients.pubsub.met.start();
    }

    /// Checks the recorded accesses of the command that ran in database `db`.
    ///
    /// # Panics
    /// If a command that is not exempt accessed something that it does not declare, or something for which
    /// the ACL check asks for no right.
    #[cold]
    pub(in crate::exec) fn check_declared_keys(&mut self, spec: &'static Spec, args: Args<'_>, db: usize) {
        let met = self.core.effects.take_accesses();
        let channels = self.core.control.clients.pubsub.met.take();
        let args: Vec<&[u8]> = args.iter_from(0).collect();
        let is_strict = self.probes.declared_keys == DeclaredKeysCheck::WithoutExemptions;
        let exempt = if is_strict { &[] } else { EXEMPT };
        let finding = undeclared(spec, &args, db, &met.keys, exempt)
            .or_else(|| undeclared_database(spec, &args, db, &met.databases, exempt))
            .or_else(|| undeclared_channel(spec, &args, &channels))
            .or_else(|| self.unasked(spec, &args, db, &met, &channels, exempt));
        assert!(finding.is_none(), "{}", finding.unwrap_or_default());
    }

    fn unasked(
        &mut self,
        spec: &'static Spec,
        args: &[&[u8]],
        db: usize,
        met: &KeyAccessLog,
        channels: &[Box<[u8]>],
        exempt: &[(&str, Exempt, &str)],
    ) -> Option<String> {
        let is_exempt =
            exempt.iter().any(|(name, exempt, _)| *name == spec.full_name && *exempt == Exempt::Keys(&[]));
        let meets_db = !met.keys.is_empty() || !met.databases.is_empty();
        let met = [!met.keys.is_empty(), meets_db, !channels.is_empty()];
        let is_nothing = met == [false; 3];
        let databases = self.core.control.limits.databases;
        if is_exempt || is_nothing {
            return None;
        }
        let probes = self.probes.rights.get_or_insert_with(|| Box::new(RightsProbes::new()));
        probes.unasked(spec, args, db, databases, met)
    }
}

/// A database that the command accessed as a whole, although the command neither runs in this database nor
/// names it.
fn undeclared_database(
    spec: &Spec,
    args: &[&[u8]],
    db: usize,
    met: &[usize],
    exempt: &[(&str, Exempt, &str)],
) -> Option<String> {
    let is_exempt =
        exempt.iter().any(|(name, exempt, _)| *name == spec.full_name && *exempt == Exempt::Keys(&[]));
    if is_exempt || spec.flags.has(Flags::ALL_DBS) {
        return None;
    }
    let mut dbs = vec![db];
    databases(spec, args, &mut dbs);
    let other = met.iter().find(|met| !dbs.contains(met))?;
    Some(format!("{} met database {other}, which it does not name", spec.full_name))
}

/// A channel that the command used and does not name, as text.
fn undeclared_channel(spec: &Spec, args: &[&[u8]], met: &[Box<[u8]>]) -> Option<String> {
    let mut declared = Vec::new();
    sluice_acl::channels(spec, args, &mut declared);
    let other = met.iter().find(|met| declared.iter().all(|channel| *channel.name != ***met))?;
    Some(format!(
        "{} met channel {:?}, which it does not name",
        spec.full_name,
        other.escape_ascii().to_string()
    ))
}

#[cfg(test)]
mod tests {
    use super::{AccessedKey, EXEMPT, RightsProbes, undeclared, undeclared_channel, undeclared_database};
    use sluice_command::{Named, lookup_full, resolve};

    #[test]
    fn keys_that_are_not_declared_are_found() {
        // Each row has the call, which runs in database 0; the keys accessed, each written as a database, a
        // key, and `!` if the key is changed; and whether the check accepts the accesses.
        let cases = [
            ("GET a", "0a", true),
            ("GET a", "0b", false),
            ("GET a", "1a", false),
            ("GET a", "0a!", false),
            ("GET a", "0a 0b", false),
            ("SET a v", "0a 0a!", true),
            ("SET a v", "0v", false),
            ("MSET a v b w", "0a! 0b!", true),
            ("MSET a v b w", "0a! 0w!", false),
            ("ECHO a", "0a", false),
            ("SINTERSTORE d a b", "0a 0b 0d!", true),
            ("SINTERSTORE d a b", "0a!", false),
            ("COPY a b", "0a 0b!", true),
            ("COPY a b", "0a 3b!", false),
            ("COPY a b DB 3", "0a 3b!", true),
            ("COPY a b DB 3", "0a!", false),
            ("MOVE a 2", "0a 2a!", true),
            ("MOVE a 2", "1a", false),
            ("ZUNION 2 a b", "0a 0b", true),
            ("ZUNION 1 a b", "0a 0b", false),
            // The call is not valid, so no key is declared.
            ("ZUNION x a b", "0a", false),
            // One of two key specs matches.
            ("PFMERGE a", "0a!", true),
            ("PFMERGE a", "0b", false),
            ("SORT l", "0w_1", false),
            ("SORT l BY w_*", "0w_1", true),
            ("PFCOUNT a", "0a!", true),
            ("PFCOUNT a", "0b", false),
            ("DEBUG OBJECT a", "0a", true),
        ];
        for (line, met, wanted) in cases {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let Named::Command(spec) = resolve(&args) else { panic!("{line}") };
            let met = met.split(' ').map(|word| {
                let (db, key) = word.split_at(1);
                let name = key.trim_end_matches('!');
                AccessedKey {
                    db: db.parse().expect("a digit"),
                    key: name.as_bytes().into(),
                    is_written: key != name,
                }
            });
            let met: Vec<AccessedKey> = met.collect();
            let found = undeclared(spec, &args, 0, &met, EXEMPT);
            assert_eq!(found.is_none(), wanted, "{line}: {found:?}");
        }
    }

    #[test]
    fn databases_and_channels_that_are_not_named_are_found() {
        let args = |line: &'static str| -> Vec<&[u8]> { line.split(' ').map(str::as_bytes).collect() };
        let spec = |args: &[&[u8]]| match resolve(args) {
            Named::Command(spec) => spec,
            Named::Unknown | Named::UnknownSubcommand(_) => panic!("a command"),
        };
        for (line, met, wanted) in [
            ("DBSIZE", 0, true),
            ("DBSIZE", 1, false),
            ("FLUSHALL", 9, true),
            ("FLUSHDB", 9, false),
            ("SWAPDB 3 4", 4, true),
            ("SWAPDB 3 4", 5, false),
        ] {
            let args = args(line);
            let found = undeclared_database(spec(&args), &args, 0, &[met], EXEMPT);
            assert_eq!(found.is_none(), wanted, "{line}: {found:?}");
        }
        for (line, met, wanted) in [
            ("PUBLISH news text", "news", true),
            ("PUBLISH news text", "text", false),
            ("SUBSCRIBE a b", "b", true),
            ("GET a", "a", false),
        ] {
            let args = args(line);
            let found = undeclared_channel(spec(&args), &args, &[met.as_bytes().into()]);
            assert_eq!(found.is_none(), wanted, "{line}: {found:?}");
        }
    }

    #[test]
    fn what_no_right_is_asked_for_is_found() {
        let probes = RightsProbes::new();
        for (line, met, wanted) in [
            ("GET a", [true, true, false], true),
            ("PING", [true, false, false], false),
            ("PING", [false, true, false], false),
            ("DBSIZE", [false, true, false], true),
            ("PUBLISH a b", [false, false, true], true),
            ("PUBSUB CHANNELS", [false, false, true], false),
        ] {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let Named::Command(spec) = resolve(&args) else { panic!("{line}") };
            let found = probes.unasked(spec, &args, 0, 16, met);
            assert_eq!(found.is_none(), wanted, "{line}: {found:?}");
        }
    }

    #[test]
    fn what_is_exempt_is_a_command_and_has_a_reason() {
        for (name, _, reason) in EXEMPT {
            assert!(lookup_full(name.as_bytes()).is_some(), "{name}");
            assert!(!reason.is_empty(), "{name}");
        }
    }
}
