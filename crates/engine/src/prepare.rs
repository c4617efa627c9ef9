//! What can be known of a request before its turn comes: its command, and the hash of its first key.
//!
//! Pure functions of the command table, the renames and the hash seed, so that a worker can compute them beside the executing
//! thread. A [`Preparer`] is an immutable snapshot; the engine gives out another when its configuration changed.

use crate::args::Args;
use crate::renames::Renames;
use sluice_base::HashSeed;
use sluice_command::{Named, Spec};
use sluice_resp::Request;
use std::sync::Arc;

/// A request, looked up and hashed.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    pub(crate) named: Named,
    pub(crate) hashed: usize,
    pub(crate) hash: u64,
}

impl Prepared {
    /// The hash of its first key, when it has one.
    #[inline]
    pub(crate) fn key_hash(&self) -> Option<u64> {
        (self.hashed != Args::NOT_HASHED).then_some(self.hash)
    }
}

/// Prepares requests as the engine that gave it out would.
#[derive(Clone, Debug)]
pub struct Preparer {
    seed: HashSeed,
    renames: Option<Arc<Renames>>,
}

impl Preparer {
    pub(crate) fn new(seed: HashSeed, renames: &Arc<Renames>) -> Preparer {
        Preparer { seed, renames: (!renames.is_empty()).then(|| renames.clone()) }
    }

    /// Looks a request up and hashes its first key. Arity is not judged here: a call with the wrong number of arguments
    /// never reaches key extraction, which needs its place only.
    #[inline]
    pub fn prepare(&self, request: &Request<'_>) -> Prepared {
        let args = Args::new(request, Args::NOT_HASHED, 0, self.seed);
        let named = match &self.renames {
            None => sub_named(sluice_command::lookup(args.at(0)), args),
            Some(renames) => renamed(renames, args),
        };
        let (mut hashed, mut hash) = (Args::NOT_HASHED, 0);
        if let Named::Command(spec) = named
            && let Some(first) = sluice_command::derive::keys::first_key(spec, args.len())
            && let Some(key) = args.get(first)
        {
            (hashed, hash) = (first, sluice_base::siphash13(self.seed, key));
        }
        Prepared { named, hashed, hash }
    }
}

#[cold]
fn renamed(renames: &Renames, args: Args<'_>) -> Named {
    let lower = args.at(0).to_ascii_lowercase();
    match renames.get(lower.as_slice()) {
        Some(Some(old)) => sub_named(sluice_command::lookup(old.as_bytes()), args),
        Some(None) => Named::Unknown,
        None => sub_named(sluice_command::lookup(&lower), args),
    }
}

#[inline]
fn sub_named(spec: Option<&'static Spec>, args: Args<'_>) -> Named {
    match spec {
        None => Named::Unknown,
        Some(spec) if spec.subcommands.is_empty() => Named::Command(spec),
        Some(spec) => match args.get(1) {
            None => Named::Command(spec),
            Some(name) => {
                sluice_command::lookup_sub(spec, name).map_or(Named::UnknownSubcommand(spec), Named::Command)
            }
        },
    }
}
