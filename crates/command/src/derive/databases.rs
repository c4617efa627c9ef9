//! The databases named in a call.
//!
//! Invariant: a word that is not an integer of at least 0 is skipped; the handler refuses it.

use crate::spec::Spec;
use crate::specs::{connection, generic, server};
use sluice_base::num::parse_i64;

/// Adds to `found` the databases whose numbers are arguments of a call. `args` starts with the command's
/// name. Commands that work on all databases have the flag `ALL_DBS` and name no database. For COPY the cost
/// is a walk over the arguments.
pub fn databases(spec: &Spec, args: &[&[u8]], found: &mut Vec<usize>) {
    let number = |at: usize| {
        let number = args.get(at).and_then(|text| parse_i64(text));
        number.and_then(|number| usize::try_from(number).ok())
    };
    if spec.id == generic::MOVE.id {
        found.extend(number(2));
    } else if spec.id == connection::SELECT.id {
        found.extend(number(1));
    } else if spec.id == server::SWAPDB.id {
        found.extend([number(1), number(2)].into_iter().flatten());
    } else if spec.id == generic::COPY.id {
        let mut at = 3;
        while at + 1 < args.len() {
            let is_named = crate::is_word(args[at], "DB");
            found.extend(number(at + 1).filter(|_| is_named));
            at += if is_named { 2 } else { 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::databases;
    use crate::{Named, resolve};

    #[test]
    fn calls_name_databases() {
        let cases: [(&str, &[usize]); 12] = [
            ("GET k", &[]),
            ("MOVE k 3", &[3]),
            ("MOVE k x", &[]),
            ("MOVE k -1", &[]),
            ("MOVE k", &[]),
            ("SELECT 7", &[7]),
            ("SWAPDB 0 12", &[0, 12]),
            ("COPY 1 2", &[]),
            ("COPY a b db 4", &[4]),
            ("COPY a b REPLACE DB 4 replace", &[4]),
            ("COPY a b DB DB 5", &[]),
            ("COPY DB 9 REPLACE", &[]),
        ];
        for (line, wanted) in cases {
            let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
            let Named::Command(spec) = resolve(&args) else { panic!("{line}") };
            let mut found = Vec::new();
            databases(spec, &args, &mut found);
            assert_eq!(found, wanted, "{line}");
        }
    }
}
