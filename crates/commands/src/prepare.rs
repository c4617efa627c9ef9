//! Facts about a request that can be computed before its turn: its command, and the hashes of its first keys.
//!
//! These are pure functions of the command table, the renames and the hasher of keys, so an I/O thread
//! can compute them in parallel with the main thread. A [`Preparer`] is an immutable snapshot; when the
//! configuration changes, the engine makes a new one.

use crate::renames::Renames;
use sluice_base::heap;
use sluice_command::derive::keys::key_row;
use sluice_command::specs::{hash, set, sorted_set};
use sluice_command::{Group, Named, Spec};
use sluice_keyspace::{Db, Key, KeyHasher};
use sluice_resp::Request;
use std::sync::Arc;

/// A request whose command is looked up and whose first keys are hashed.
#[derive(Clone, Copy, Debug)]
pub struct Prepared {
    /// The command, or the reason why there is none.
    pub named: Named,
    /// Position of the first key; `usize::MAX` if there is none.
    pub first: usize,
    /// Hash of the first key.
    pub hash: u64,
    /// Index of the hashes of this request's other keys in `Hashing::hashes`.
    more_at: u32,
    /// Number of other keys that were hashed.
    more: u16,
    /// Whether one argument lies between two keys, as in MSET.
    pub are_pairs: bool,
}

impl Prepared {
    /// Value of `first` if no argument was hashed.
    const NOWHERE: usize = usize::MAX;

    /// Whether a key was hashed.
    #[inline]
    pub fn has_key(self) -> bool {
        self.first != Prepared::NOWHERE
    }

    /// Hashes of the keys after the first.
    #[inline]
    pub fn more(self, hashing: &Hashing) -> &[u64] {
        match self.more {
            0 => &[],
            more => &hashing.hashes[self.more_at as usize..][..usize::from(more)],
        }
    }

    /// Whether the command looks up a member or a field.
    fn concerns_members(self) -> bool {
        self.member_arg().is_some()
    }

    /// Position of the member or field that the command looks up. For a few commands of sets and hashes the
    /// argument is not a member; prefetching it costs little. `None` for commands of other types, and for
    /// commands of sorted sets that are neither in [`BY_MEMBER`] nor in [`LAST_MEMBER`].
    fn member_arg(self) -> Option<MemberArg> {
        let Named::Command(spec) = self.named else { return None };
        match spec.group {
            Group::Set if spec.id == set::SMOVE.id => Some(MemberArg::AfterBothKeys),
            Group::Hash if is_among(spec, &LAST_FIELD) => Some(MemberArg::Last),
            Group::Hash if spec.id == hash::HSETEX.id => Some(MemberArg::BeforeLast),
            Group::Set | Group::Hash => Some(MemberArg::AfterKey),
            Group::SortedSet if is_among(spec, &LAST_MEMBER) => Some(MemberArg::Last),
            Group::SortedSet if is_among(spec, &BY_MEMBER) => Some(MemberArg::AfterKey),
            _ => None,
        }
    }

    /// Whether the other request calls the same command.
    fn is_like(self, other: Prepared) -> bool {
        matches!((self.named, other.named), (Named::Command(one), Named::Command(other)) if one.id == other.id)
    }

    /// The prepared request for use without its batch: only the hash of the first key is kept.
    pub fn alone(self) -> Prepared {
        Prepared { more: 0, ..self }
    }
}

fn is_among(spec: &Spec, specs: &[&Spec]) -> bool {
    specs.iter().any(|one| one.id == spec.id)
}

/// Commands of sorted sets that look up the member after the key.
const BY_MEMBER: [&Spec; 4] =
    [&sorted_set::ZSCORE, &sorted_set::ZREM, &sorted_set::ZRANK, &sorted_set::ZREVRANK];
/// Commands of sorted sets whose last argument is a member.
const LAST_MEMBER: [&Spec; 2] = [&sorted_set::ZADD, &sorted_set::ZINCRBY];
/// Commands of hashes that look up the last argument as a field, not the one after the key.
const LAST_FIELD: [&Spec; 11] = [
    &hash::HEXPIRE,
    &hash::HPEXPIRE,
    &hash::HEXPIREAT,
    &hash::HPEXPIREAT,
    &hash::HEXPIRETIME,
    &hash::HPEXPIRETIME,
    &hash::HTTL,
    &hash::HPTTL,
    &hash::HPERSIST,
    &hash::HGETEX,
    &hash::HGETDEL,
];

/// Position of the member or field in a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum MemberArg {
    /// The argument after the key.
    AfterKey,
    /// The argument after two keys, which is looked up in both.
    AfterBothKeys,
    /// The last argument, however many there are.
    Last,
    /// The argument before the last.
    BeforeLast,
}

impl MemberArg {
    /// The member; `None` if there are too few arguments.
    fn of<'r>(self, request: Request<'r>) -> Option<&'r [u8]> {
        let last = request.spans().len() - 1;
        match self {
            MemberArg::AfterKey => (last >= 2).then(|| request.arg(2)),
            MemberArg::AfterBothKeys => (last >= 3).then(|| request.arg(3)),
            MemberArg::Last => (last >= 3).then(|| request.arg(last)),
            MemberArg::BeforeLast => (last >= 4).then(|| request.arg(last - 1)),
        }
    }
}

/// The hasher of keys, and hashes that were computed ahead.
#[derive(Clone, Debug, Default)]
pub struct Hashing {
    /// The hasher of the keyspace's keys.
    pub hasher: KeyHasher,
    /// Hashes of the keys of a batch that are not the first key of their request.
    pub hashes: Vec<u64>,
}

/// Number of keys that are hashed and prefetched together. A processor can load about as many cache lines at
/// once.
pub const KEYS_AHEAD: usize = 16;

/// The requests of a batch, prepared.
#[derive(Debug, Default)]
pub struct PreparedBatch {
    items: Vec<Prepared>,
    /// Number of requests that have a key.
    with_key: usize,
    /// The hasher, and the hashes of all keys after the first ones.
    pub hashing: Hashing,
}

impl PreparedBatch {
    /// Bytes of heap memory that the batch holds.
    pub fn footprint(&self) -> usize {
        heap::vec(&self.items) + heap::vec(&self.hashing.hashes)
    }

    /// Removes the requests and keeps the memory.
    pub fn clear(&mut self) {
        self.items.clear();
        self.with_key = 0;
        self.hashing.hashes.clear();
    }

    /// Number of requests in the batch.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Roughly the number of keys hashed: one for each request, plus the exact number of other keys.
    pub fn keys(&self) -> usize {
        self.items.len() + self.hashing.hashes.len()
    }

    /// The prepared requests, in order.
    #[inline]
    pub fn items(&self) -> &[Prepared] {
        &self.items
    }

    /// The hashes of the requests' first keys, and those of their other keys. These are two iterators rather
    /// than a chain, so that each compiles to a plain loop.
    #[inline(always)]
    pub fn hashes(&self) -> (impl Iterator<Item = u64>, impl Iterator<Item = u64>) {
        let first = self.items.iter().filter(|item| item.first != Prepared::NOWHERE).map(|item| item.hash);
        (first, self.hashing.hashes.iter().copied())
    }

    /// Prefetches the index buckets of all hashed keys.
    #[inline]
    pub fn prefetch_buckets(&self, db: &Db) {
        let (first, more) = self.hashes();
        db.prefetch_buckets(first);
        if !self.hashing.hashes.is_empty() {
            db.prefetch_buckets(more);
        }
    }

    /// Prefetches the entries of all hashed keys; their buckets should have been prefetched before.
    #[inline]
    pub fn prefetch_entries(&self, db: &Db) {
        let (first, more) = self.hashes();
        db.prefetch_entries(first);
        if !self.hashing.hashes.is_empty() {
            db.prefetch_entries(more);
        }
    }

    /// Prefetches the members or fields that consecutive requests look up in the set, hash or sorted set of
    /// one key, and in that of a second key if all of these requests have the same second key. `request`
    /// returns a request by number. A request whose key differs from that of its neighbours is skipped,
    /// because looking its key up once more would cost as much as the prefetch saves.
    #[inline]
    pub fn prefetch_members<'r>(&self, db: &Db, request: impl Fn(usize) -> Request<'r>) {
        // Only the first request and the middle one are checked, because most batches hold requests of one
        // kind, and other batches should not pay for more checks.
        let [first, _, ..] = self.items.as_slice() else { return };
        if first.concerns_members() || self.items[self.items.len() / 2].concerns_members() {
            self.prefetch_runs(db, request);
        }
    }

    fn prefetch_runs<'r>(&self, db: &Db, request: impl Fn(usize) -> Request<'r>) {
        let mut at = 0;
        while at + 1 < self.items.len() {
            let next = at + run_len(self.items[at..].iter());
            if next - at > 1 {
                let run = &self.items[at..next];
                let request = |behind: usize| request(at + behind);
                let member_arg = run[0].member_arg();
                let members = || {
                    let member = |(behind, item): (usize, &Prepared)| {
                        let arg = if item.is_like(run[0]) { member_arg } else { item.member_arg() };
                        arg?.of(request(behind))
                    };
                    run.iter().enumerate().filter_map(member)
                };
                db.prefetch_members(Key { bytes: request(0).arg(1), hash: run[0].hash, arg: 1 }, members());
                if member_arg == Some(MemberArg::AfterBothKeys)
                    && let Some(bytes) = second_key_of((0..run.len()).map(request))
                {
                    let hash = self.hashing.hasher.hash(bytes);
                    db.prefetch_members(Key { bytes, hash, arg: 2 }, members());
                }
            }
            at = next;
        }
    }

    /// Number of keys that were hashed.
    pub fn hashes_len(&self) -> u64 {
        (self.with_key + self.hashing.hashes.len()) as u64
    }
}

/// The second key of these requests, if it is the same in all.
fn second_key_of<'r>(requests: impl Iterator<Item = Request<'r>>) -> Option<&'r [u8]> {
    let mut keys = requests.map(|request| (request.spans().len() > 2).then(|| request.arg(2)));
    let first = keys.next()??;
    keys.all(|key| key == Some(first)).then_some(first)
}

/// Number of consecutive requests, from the first on, that concern the same key, if the command of the first
/// looks up members; 1 if there is no such run. Reads only these requests and one more.
#[inline]
fn run_len<'r>(mut requests: impl Iterator<Item = &'r Prepared>) -> usize {
    match requests.next() {
        // The command is checked first. Otherwise runs of other requests for one key would be counted again
        // from each of their requests.
        Some(first) if first.first == 1 && first.concerns_members() => {
            1 + requests.take_while(|item| item.hash == first.hash && item.first == 1).count()
        }
        Some(_) | None => 1,
    }
}

/// Prepares requests with the command names and the hasher of the engine that has made the preparer.
#[derive(Clone, Debug)]
pub struct Preparer {
    hasher: KeyHasher,
    renames: Option<Arc<Renames>>,
}

impl Preparer {
    /// A preparer with this hasher of keys and these renamed commands.
    pub fn new(hasher: KeyHasher, renames: &Arc<Renames>) -> Preparer {
        Preparer { hasher, renames: (!renames.is_empty()).then(|| renames.clone()) }
    }

    /// Looks up a request's command, hashes at most `KEYS_AHEAD` of its keys, from the first on, and appends
    /// the result to `batch`. Arity is not checked here: a call with the wrong number of arguments also gets
    /// an entry in `batch`, but its keys are never used.
    #[inline]
    pub fn prepare(&self, request: &Request<'_>, batch: &mut PreparedBatch) {
        batch.hashing.hasher = self.hasher;
        self.append(*request, batch);
    }

    /// Prepares requests in order, each as [`Preparer::prepare`] does.
    #[inline]
    pub fn prepare_all<'a>(&self, requests: impl Iterator<Item = Request<'a>>, batch: &mut PreparedBatch) {
        batch.hashing.hasher = self.hasher;
        requests.for_each(|request| self.append(request, batch));
    }

    // Inlined into the loop over a batch, because a call would copy the request to memory first.
    #[inline(always)]
    fn append(&self, request: Request<'_>, batch: &mut PreparedBatch) {
        let named = match &self.renames {
            None => sub_named(sluice_command::lookup(request.arg(0)), request),
            Some(renames) => renamed(renames, request),
        };
        let mut item =
            Prepared { named, first: Prepared::NOWHERE, hash: 0, more_at: 0, more: 0, are_pairs: false };
        if let Named::Command(spec) = named {
            let (row, count) = (key_row(spec), request.spans().len());
            if let Some(first) = row.first(count) {
                (item.first, item.hash) = (first, self.hasher.hash(request.arg(first)));
                batch.with_key += 1;
                let more = row.behind_first(count);
                if more > 0 {
                    item = self.hash_more(request, item, more, row.are_pairs(), &mut batch.hashing);
                }
            }
        }
        batch.items.push(item);
    }

    // `Prepared` is passed by value, so that a request of one key stays in registers.
    #[inline(never)]
    fn hash_more(
        &self,
        request: Request<'_>,
        item: Prepared,
        more: usize,
        are_pairs: bool,
        hashing: &mut Hashing,
    ) -> Prepared {
        let (at, step) = (hashing.hashes.len(), 1 + usize::from(are_pairs));
        let indexes = (1..=more.min(KEYS_AHEAD - 1)).map(|ordinal| item.first + ordinal * step);
        hashing.hashes.extend(indexes.map(|index| self.hasher.hash(request.arg(index))));
        Prepared { more_at: at as u32, more: (hashing.hashes.len() - at) as u16, are_pairs, ..item }
    }
}

#[cold]
fn renamed(renames: &Renames, request: Request<'_>) -> Named {
    let lower = request.arg(0).to_ascii_lowercase();
    match renames.get(lower.as_slice()) {
        Some(Some(old)) => sub_named(sluice_command::lookup(old.as_bytes()), request),
        Some(None) => Named::Unknown,
        None => sub_named(sluice_command::lookup(&lower), request),
    }
}

#[inline(always)]
fn sub_named(spec: Option<&'static Spec>, request: Request<'_>) -> Named {
    match spec {
        None => Named::Unknown,
        Some(spec) if spec.subcommands.is_empty() => Named::Command(spec),
        Some(spec) => named_sub(spec, request),
    }
}

#[cold]
fn named_sub(container: &'static Spec, request: Request<'_>) -> Named {
    match request.spans().get(1) {
        None => Named::Command(container),
        Some(_) => sluice_command::lookup_sub(container, request.arg(1))
            .map_or(Named::UnknownSubcommand(container), Named::Command),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluice_resp::ArgumentList;

    /// A request for a command whose first key has this hash.
    fn request(name: &[u8], hash: u64) -> Prepared {
        let named = Named::Command(sluice_command::lookup(name).expect("a command of the table"));
        Prepared { named, first: 1, hash, more_at: 0, more: 0, are_pairs: false }
    }

    /// The length of the run at the beginning, and the number of requests read to find it.
    fn run(requests: &[Prepared]) -> (usize, usize) {
        let mut seen = 0;
        let len = run_len(requests.iter().inspect(|_| seen += 1));
        (len, seen)
    }

    #[test]
    fn a_member_is_where_its_command_names_it() {
        let member_arg = |name: &[u8]| request(name, 7).member_arg();
        for (names, wanted) in [
            (&[&b"sadd"[..], b"hget", b"zscore", b"zrem"][..], Some(MemberArg::AfterKey)),
            (&[b"zadd", b"zincrby", b"hexpire", b"hgetex"], Some(MemberArg::Last)),
            (&[b"smove"], Some(MemberArg::AfterBothKeys)),
            (&[b"hsetex"], Some(MemberArg::BeforeLast)),
            (&[b"zrange", b"get", b"lpush"], None),
        ] {
            for name in names {
                assert_eq!(member_arg(name), wanted, "{}", name.escape_ascii());
            }
        }
    }

    fn arguments(line: &str) -> ArgumentList {
        let mut arguments = ArgumentList::default();
        line.split(' ').for_each(|word| arguments.push(word.as_bytes()));
        arguments
    }

    #[test]
    fn members_and_second_keys_are_those_of_the_arguments() {
        let member = |line: &str| {
            let arguments = arguments(line);
            let name = arguments.request().arg(0).to_ascii_lowercase();
            let member = request(&name, 7).member_arg().and_then(|arg| arg.of(arguments.request()));
            member.map(|member| String::from_utf8_lossy(member).into_owned())
        };
        for (line, wanted) in [
            ("SADD s m", Some("m")),
            ("SADD s", None),
            ("SMOVE s t m", Some("m")),
            ("SMOVE s t", None),
            ("ZADD z NX 1 m", Some("m")),
            ("HEXPIRE h 9 FIELDS 2 f g", Some("g")),
            ("HSETEX h EX 9 FIELDS 1 f v", Some("f")),
            ("HSETEX h f v", None),
        ] {
            assert_eq!(member(line).as_deref(), wanted, "{line}");
        }
        let second = |lines: &[&str]| {
            let lines: Vec<ArgumentList> = lines.iter().map(|line| arguments(line)).collect();
            second_key_of(lines.iter().map(ArgumentList::request)).map(<[u8]>::to_vec)
        };
        assert_eq!(second(&["SMOVE s t m", "SMOVE s t n"]).as_deref(), Some(&b"t"[..]));
        assert_eq!(second(&["SMOVE s t m", "SMOVE s u n"]), None);
        assert_eq!(second(&["SMOVE s t m", "SMOVE s"]), None);
        assert_eq!(second(&["SMOVE s"]), None);
    }

    #[test]
    fn a_run_costs_its_requests_and_anything_else_one() {
        let (add, other, get) = (request(b"sadd", 7), request(b"sadd", 8), request(b"get", 7));
        assert_eq!(run(&[add; 100]), (100, 100));
        assert_eq!(run(&[add, add, get, other, add, add]), (3, 4));
        assert_eq!(run(&[add, other, other, other]), (1, 2));
        assert_eq!(run(&[get; 100]), (1, 1));
        assert_eq!(run(&[get, add, add, add]), (1, 1));
        let elsewhere = Prepared { first: 2, ..add };
        assert_eq!(run(&[elsewhere, add, add]), (1, 1));
        assert_eq!(run(&[add, elsewhere, add]), (1, 2));
    }
}
