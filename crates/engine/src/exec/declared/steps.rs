//! How commands are held to the keys that they declare.

use super::DeclaredKeysCheck;
use crate::engine::Engine;
use sluice_command::derive::{databases::databases, keys::keys_that_fit};
use sluice_command::{Flags, KeyFlags, Spec, is_word};
use sluice_commands::Args;
use sluice_keyspace::MetKey;
use std::collections::BTreeMap;

/// What a command may do that its declaration does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Exempt {
    /// Meet other keys, where one of these words is among the arguments; in any call where there is no word.
    Keys(&'static [&'static str]),
    /// Change keys that are declared as read.
    Changes,
}

/// Commands by their full names, and why.
const EXEMPT: &[(&str, Exempt, &str)] = &[
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

/// What a command met or changed that its declaration does not say; `None` where there is nothing. `db` is
/// the database in which it ran, `args` its call; `exempt` is [`EXEMPT`].
fn undeclared(
    spec: &Spec,
    args: &[&[u8]],
    db: usize,
    met: &[MetKey],
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
    /// From now on checks keys in this way.
    #[doc(hidden)]
    pub fn check_keys(&mut self, check: DeclaredKeysCheck) {
        self.probes.declared_keys = check;
    }

    /// Begins to record the keys that a command meets.
    #[cold]
    pub(in crate::exec) fn record_declared_keys(&mut self) {
        self.effects.record_met_keys();
    }

    /// Ends the process where the command that ran in database `db` did what its declaration does not say.
    ///
    /// # Panics
    /// Then.
    #[cold]
    pub(in crate::exec) fn check_declared_keys(&mut self, spec: &Spec, args: Args<'_>, db: usize) {
        let met = self.effects.take_met_keys();
        let args: Vec<&[u8]> = args.iter_from(0).collect();
        let is_strict = self.probes.declared_keys == DeclaredKeysCheck::WithoutExemptions;
        let exempt = if is_strict { &[] } else { EXEMPT };
        let finding = undeclared(spec, &args, db, &met, exempt);
        assert!(finding.is_none(), "{}", finding.unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::{EXEMPT, MetKey, undeclared};
    use sluice_command::{Named, lookup_full, resolve};

    #[test]
    fn what_is_not_declared_is_found() {
        // The call, in database 0; the keys that are met: a database, a key, and `!` where the key is
        // changed.
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
            // No valid call: no key is declared.
            ("ZUNION x a b", "0a", false),
            // One of two key specs fits.
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
                MetKey {
                    db: db.parse().expect("a digit"),
                    key: name.as_bytes().into(),
                    is_written: key != name,
                }
            });
            let met: Vec<MetKey> = met.collect();
            let found = undeclared(spec, &args, 0, &met, EXEMPT);
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
