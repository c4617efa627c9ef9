//! What can be known of a request before its turn comes: its command, and the hash of its first key.
//!
//! Pure functions of the command table, the renames and the hash seed, so that a worker can compute them beside the executing
//! thread. A [`Preparer`] is an immutable snapshot; the engine gives out another when its configuration changed.

use crate::args::{Args, HashedAhead, KEYS_AHEAD};
use crate::renames::Renames;
use sluice_base::HashSeed;
use sluice_command::{Named, Spec};
use sluice_resp::Request;
use std::sync::Arc;

/// A request, looked up and hashed.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    pub(crate) named: Named,
    /// Position of the first key, or [`HashedAhead::NOWHERE`].
    first: usize,
    /// Hash of the first key.
    hash: u64,
    /// Where the hashes of the keys behind it begin among those of the batch.
    more_at: u32,
    /// How many these are.
    more: u16,
    /// One argument stands between two keys.
    are_pairs: bool,
}

impl Prepared {
    /// What was hashed, for a request on its own: its first key.
    #[inline]
    pub(crate) fn first_ahead(&self) -> HashedAhead<'static> {
        HashedAhead { first: self.first, hash: self.hash, more: &[], are_pairs: false }
    }
}

/// Requests of a batch, prepared.
#[derive(Debug, Default)]
pub struct PreparedBatch {
    items: Vec<Prepared>,
    /// Hashes of keys that are not the first of their request.
    hashes: Vec<u64>,
}

impl PreparedBatch {
    /// No request.
    pub const fn new() -> PreparedBatch {
        PreparedBatch { items: Vec::new(), hashes: Vec::new() }
    }

    /// Forgets the requests and keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.hashes.clear();
    }

    /// How many requests there are.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Keys hashed, about: each request has one, and those that have more are counted in full.
    pub fn keys(&self) -> usize {
        self.items.len() + self.hashes.len()
    }

    /// The requests in order.
    #[inline]
    pub(crate) fn items(&self) -> &[Prepared] {
        &self.items
    }

    /// What was hashed of a request of this batch.
    #[inline]
    pub(crate) fn ahead(&self, item: &Prepared) -> HashedAhead<'_> {
        let more = match item.more {
            0 => &[],
            more => &self.hashes[item.more_at as usize..][..usize::from(more)],
        };
        HashedAhead { first: item.first, hash: item.hash, more, are_pairs: item.are_pairs }
    }

    /// Calls `visit` with the hashes of all keys that were hashed, the first of each request first; how many these are.
    #[inline]
    pub(crate) fn for_each_hash(&self, mut visit: impl FnMut(u64)) -> u64 {
        let mut count = 0;
        for item in &self.items {
            if item.first != HashedAhead::NOWHERE {
                visit(item.hash);
                count += 1;
            }
        }
        for hash in &self.hashes {
            visit(*hash);
        }
        count + self.hashes.len() as u64
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

    /// Looks a request up and hashes its first keys, [`KEYS_AHEAD`] at most; appends it to `batch`. Arity is not judged here:
    /// a call with the wrong number of arguments never reaches key extraction, which needs its place only.
    #[inline]
    pub fn prepare(&self, request: &Request<'_>, batch: &mut PreparedBatch) {
        let args = Args::new(request, HashedAhead::NONE, self.seed);
        let named = match &self.renames {
            None => sub_named(sluice_command::lookup(args.at(0)), args),
            Some(renames) => renamed(renames, args),
        };
        let mut item =
            Prepared { named, first: HashedAhead::NOWHERE, hash: 0, more_at: 0, more: 0, are_pairs: false };
        if let Named::Command(spec) = named
            && let Some(first) = sluice_command::derive::keys::first_key(spec, args.len())
            && let Some(key) = args.get(first)
        {
            (item.first, item.hash) = (first, sluice_base::siphash13(self.seed, key));
            let (more, are_pairs) = sluice_command::derive::keys::keys_in_a_row(spec, args.len());
            if more > 0 {
                (item.more_at, item.are_pairs) = (batch.hashes.len() as u32, are_pairs);
                let step = 1 + usize::from(are_pairs);
                let keys = args.iter_from(first + step).step_by(step).take(more.min(KEYS_AHEAD - 1));
                batch.hashes.extend(keys.map(|key| sluice_base::siphash13(self.seed, key)));
                item.more = (batch.hashes.len() - item.more_at as usize) as u16;
            }
        }
        batch.items.push(item);
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
