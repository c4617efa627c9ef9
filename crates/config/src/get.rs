//! CONFIG GET: the parameters that match names and patterns, sorted by name.

use sluice_base::glob;

use crate::config::Config;
use crate::row::{ParamId, Traits};

impl Config {
    /// Names and values for a map reply.
    ///
    /// A plain name is shown as given, and finds hidden parameters too; a pattern finds names and aliases,
    /// each as a parameter of its own. No name is listed twice. Cost: parameters times patterns, and for each
    /// match a comparison with the names found so far.
    pub fn get(&self, patterns: &[&[u8]]) -> Vec<(Vec<u8>, Vec<u8>)> {
        found_by(patterns).into_iter().map(|(name, id)| (name, self.shown(id))).collect()
    }
}

/// Names with their parameters, sorted by name; plain names are as given. No name is listed twice.
pub(crate) fn found_by(patterns: &[&[u8]]) -> Vec<(Vec<u8>, ParamId)> {
    let mut found: Vec<(Vec<u8>, ParamId)> = Vec::new();
    let add = |name: &[u8], id: ParamId, found: &mut Vec<(Vec<u8>, ParamId)>| {
        if !found.iter().any(|(known, _)| known.eq_ignore_ascii_case(name)) {
            found.push((name.to_vec(), id));
        }
    };
    for pattern in patterns {
        if !crate::number::until_zero(pattern).iter().any(|byte| matches!(byte, b'[' | b'*' | b'?')) {
            if let Some(id) = ParamId::find(pattern) {
                add(pattern, id, &mut found);
            }
            continue;
        }
        let pattern = crate::number::until_zero(pattern);
        let compiled = glob::Pattern::nocase(pattern);
        let left_out = |traits: Traits| match pattern {
            b"*" => traits.has(Traits::HIDDEN) || traits.has(Traits::NOT_IN_STAR),
            _ => traits.has(Traits::HIDDEN),
        };
        for id in ParamId::all().filter(|id| !left_out(id.param().traits)) {
            let names = [Some(id.param().name), id.param().alias];
            for name in names.into_iter().flatten().map(str::as_bytes) {
                if compiled.matches(name) {
                    add(name, id, &mut found);
                }
            }
        }
    }
    found.sort();
    found
}
