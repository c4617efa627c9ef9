//! Compares the keyspace with a map: random commands must have the same results, and the contents and the
//! invariants of every database are checked regularly.

mod held;

use held::Held;
use sluice_base::num::IntBuffer;
use sluice_base::{Bytes, HashSeed, Now, Rng};
use sluice_keyspace::{
    Access, AccessUpdate, Captured, Db, Effects, Entry, Event, ExpireCycle, ExpireWalk, ExpiryMode,
    KeyHasher, KeyRef, Keyspace, Layout, ListEdit, NewValue, SetExpiry, ValueRef, WrongType,
};
use sluice_value::{Encoding, ListLimits, ListRef, Type};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

const SEED: HashSeed = HashSeed { k0: 11, k1: 12 };
const DATABASES: usize = 2;

/// The value, the expiry and the encoding that the oracle expects of a key.
#[derive(Clone, Debug, PartialEq)]
struct Item {
    value: Vec<u8>,
    /// The elements of a list, which has no `value`.
    list: Option<VecDeque<Vec<u8>>>,
    /// The contents of another collection, which has no `value` either.
    held: Option<Held>,
    expiry: Option<i64>,
    /// The expected encoding; `None` for a string in one piece, whose encoding depends on the sizes of key
    /// and value.
    encoding: Option<Encoding>,
}

type Model = BTreeMap<Vec<u8>, Item>;

struct Twin {
    keyspace: Keyspace,
    effects: Effects,
    models: Vec<Model>,
    now_ms: i64,
    mode: ExpiryMode,
    rng: Rng,
    /// Number of operations by name: a test that never runs an operation proves nothing about it.
    done: BTreeMap<&'static str, usize>,
}

impl Twin {
    fn new(seed: u64, mode: ExpiryMode) -> Twin {
        Twin::with(seed, mode, Layout::One)
    }

    fn with(seed: u64, mode: ExpiryMode, layout: Layout) -> Twin {
        let mut effects = Effects::default();
        effects.listen(sluice_keyspace::Classes::CHANGES);
        effects.blocked_listening = true;
        Twin {
            keyspace: Keyspace::new(DATABASES, KeyHasher::new(SEED, layout)),
            effects,
            models: vec![Model::new(); DATABASES],
            now_ms: 1_700_000_000_000,
            mode,
            rng: Rng::new(seed),
            done: BTreeMap::new(),
        }
    }

    fn access(&self) -> Access {
        let now = Now { mono_ns: 0, unix_us: self.now_ms * 1000 };
        Access { now, touch: AccessUpdate::Lru(77), expiry: self.mode, must_obey: false }
    }

    fn write<R>(&mut self, db: usize, run: impl FnOnce(&mut sluice_keyspace::DbMut<'_>) -> R) -> R {
        let access = self.access();
        run(&mut self.keyspace.write(db, access, &mut self.effects))
    }

    /// Looks up a key in the oracle. An expired key is removed, hidden or returned, depending on the expiry
    /// mode.
    fn live(&mut self, db: usize, key: &[u8]) -> Option<&mut Item> {
        let expired = self.models[db].get(key)?.expiry.is_some_and(|at| at < self.now_ms);
        match (expired, self.mode) {
            (true, ExpiryMode::Delete) => {
                self.models[db].remove(key);
                None
            }
            (true, ExpiryMode::Hide) => None,
            (true, ExpiryMode::Ignore) | (false, _) => self.models[db].get_mut(key),
        }
    }

    fn any_key(&mut self) -> Vec<u8> {
        // Lengths that give the smallest entries, and lengths around the longest key that is stored inside a
        // block.
        let len = [0, 1, 2, 3, 4, 12, 100, 253, 254, 255, 256, 700][self.rng.below(12) as usize];
        let name = b'a' + self.rng.below(3) as u8;
        vec![name; len]
    }

    fn any_value(&mut self) -> Vec<u8> {
        match self.rng.below(8) {
            0 => b"-9223372036854775808".to_vec(),
            1 => self.rng.below(100_000).to_string().into_bytes(),
            2 => vec![b'v'; self.rng.below(20) as usize],
            3 => vec![b'w'; 980 + self.rng.below(60) as usize],
            // The value about fills the largest block next to a key of 254 bytes, with or without an expiry.
            4 => vec![b'x'; 1024 - 5 - 254 - 12 + self.rng.below(20) as usize],
            5 => vec![b'y'; (64 << 10) - 20 + self.rng.below(40) as usize],
            6 => vec![b'0'; 1 + self.rng.below(3) as usize],
            _ => vec![b'z'; self.rng.below(300) as usize],
        }
    }

    fn any_expiry(&mut self) -> SetExpiry {
        match self.rng.below(4) {
            0 => SetExpiry::Keep,
            1 => SetExpiry::At(self.now_ms + self.rng.below(40) as i64 - 5),
            2 => SetExpiry::At(self.now_ms + 1_000_000),
            _ => SetExpiry::Clear,
        }
    }

    fn step(&mut self) -> &'static str {
        let db = self.rng.below(DATABASES as u64) as usize;
        let key = self.any_key();
        let name = match self.rng.below(36) {
            0..=3 => self.set(db, &key),
            4 => self.append(db, &key),
            5 => self.set_range(db, &key),
            6 | 7 => self.expire(db, &key),
            8 => self.rename(db, &key),
            9 => self.copy(db, &key),
            10 => self.move_key(db, &key),
            11 => self.remove(db, &key),
            12 => self.increment(db, &key),
            13 => self.read(db, &key),
            14 => self.expire_now(db, &key),
            15..=24 => self.change_list(db, &key),
            25..=34 => self.change_held(db, &key),
            _ => {
                self.now_ms += self.rng.below(20) as i64;
                "pass"
            }
        };
        *self.done.entry(name).or_default() += 1;
        name
    }

    fn set(&mut self, db: usize, key: &[u8]) -> &'static str {
        let (value, expiry) = (self.any_value(), self.any_expiry());
        let form = self.rng.below(4);
        let shared = Bytes::copy_from(&value);
        let existed = self.write(db, |d| {
            let payload = match form {
                0 => NewValue::Str(&value),
                1 => NewValue::Plain(&value),
                3 => NewValue::StrShared(&shared),
                _ => NewValue::Raw(&value),
            };
            d.set(d.key(key), payload, expiry, Event::Set)
        });
        let old = self.live(db, key).cloned();
        assert_eq!(existed, old.is_some());
        let is_int = sluice_base::num::parse_i64(&value).is_some();
        let encoding = match form {
            0 | 3 if is_int => Some(Encoding::Int),
            2 => Some(Encoding::Raw),
            _ => None,
        };
        let expiry = match expiry {
            SetExpiry::Keep => old.and_then(|item| item.expiry),
            SetExpiry::At(at) => Some(at),
            SetExpiry::Clear => None,
        };
        self.models[db].insert(key.to_vec(), Item { value, list: None, held: None, expiry, encoding });
        "set"
    }

    fn append(&mut self, db: usize, key: &[u8]) -> &'static str {
        let more = self.any_value();
        let was_there = self.write(db, |d| d.look(d.key(key)).is_some());
        assert_eq!(was_there, self.live(db, key).is_some());
        let Some(item) = self.live(db, key) else { return "append to nothing" };
        let offset = item.value.len();
        if offset > 200_000 {
            return "append to too much";
        }
        if item.list.is_some() || item.held.is_some() {
            let result = self.write(db, |d| d.write_at(d.key(key), offset, &more, Event::Append));
            assert_eq!(result, Err(WrongType));
            return "append to a list";
        }
        item.value.extend_from_slice(&more);
        item.encoding = Some(Encoding::Raw);
        let len = self.write(db, |d| d.write_at(d.key(key), offset, &more, Event::Append).unwrap());
        assert_eq!(len, offset + more.len());
        "append"
    }

    fn set_range(&mut self, db: usize, key: &[u8]) -> &'static str {
        let bytes = self.any_value();
        // About one offset in eight lies in the pages of a large string.
        let offset = match self.rng.below(1250) as usize {
            near @ ..1100 => near,
            far => (far - 1100) * 1000,
        };
        if self.live(db, key).is_some_and(|item| item.list.is_some() || item.held.is_some()) {
            let result = self.write(db, |d| d.write_at(d.key(key), offset, &bytes, Event::SetRange));
            assert_eq!(result, Err(WrongType));
            return "setrange of a list";
        }
        let len = self.write(db, |d| d.write_at(d.key(key), offset, &bytes, Event::SetRange).unwrap());
        let fresh = || Item { value: Vec::new(), list: None, held: None, expiry: None, encoding: None };
        if self.live(db, key).is_none() {
            self.models[db].insert(key.to_vec(), fresh());
        }
        let item = self.models[db].get_mut(key).unwrap();
        item.value.resize(item.value.len().max(offset + bytes.len()), 0);
        item.value[offset..offset + bytes.len()].copy_from_slice(&bytes);
        item.encoding = Some(Encoding::Raw);
        assert_eq!(len, item.value.len());
        "setrange"
    }

    fn expire(&mut self, db: usize, key: &[u8]) -> &'static str {
        let at = match self.any_expiry() {
            SetExpiry::At(at) => Some(at),
            SetExpiry::Clear | SetExpiry::Keep => None,
        };
        let was_there = self.write(db, |d| d.set_expiry(d.key(key), at, Event::Expire));
        let item = self.live(db, key);
        assert_eq!(was_there, item.is_some());
        if let Some(item) = item {
            item.expiry = at;
        }
        "expire"
    }

    fn rename(&mut self, db: usize, from: &[u8]) -> &'static str {
        let to = self.any_key();
        let was_there = self.write(db, |d| d.rename(d.key(from), d.key(&to)));
        let item = self.live(db, from).cloned();
        assert_eq!(was_there, item.is_some());
        if let Some(item) = item {
            self.models[db].remove(from);
            self.models[db].insert(to, item);
        }
        "rename"
    }

    fn copy(&mut self, db: usize, from: &[u8]) -> &'static str {
        let (to, to_db) = (self.any_key(), self.rng.below(DATABASES as u64) as usize);
        if from == to && db == to_db {
            return "copy to itself";
        }
        let was_there = self.write(db, |d| d.copy_to(d.key(from), to_db, d.key(&to)));
        let item = self.live(db, from).cloned();
        assert_eq!(was_there, item.is_some());
        if let Some(item) = item {
            self.models[to_db].insert(to, item);
        }
        "copy"
    }

    fn move_key(&mut self, db: usize, key: &[u8]) -> &'static str {
        let to = 1 - db;
        let taken = self.write(to, |d| d.look(d.key(key)).is_some());
        assert_eq!(taken, self.live(to, key).is_some());
        if taken {
            return "move onto another";
        }
        let was_there = self.write(db, |d| d.move_to(d.key(key), to));
        let item = self.live(db, key).cloned();
        assert_eq!(was_there, item.is_some());
        if let Some(item) = item {
            self.models[db].remove(key);
            self.models[to].insert(key.to_vec(), item);
        }
        "move"
    }

    fn remove(&mut self, db: usize, key: &[u8]) -> &'static str {
        let was_there = self.write(db, |d| d.remove(d.key(key), Event::Del));
        let live = self.live(db, key).is_some();
        let stored = self.models[db].remove(key).is_some();
        assert_eq!(was_there, if self.mode == ExpiryMode::Hide { stored } else { live });
        "remove"
    }

    fn increment(&mut self, db: usize, key: &[u8]) -> &'static str {
        let result = self.write(db, |d| {
            d.update_int(d.key(key), Event::IncrBy, |entry| match entry.map(|e| e.as_str()) {
                None => Ok(7),
                Some(Err(WrongType)) => Err(()),
                Some(Ok(value)) => value
                    .in_one_piece(sluice_base::num::parse_i64)
                    .flatten()
                    .map(|n| n.wrapping_add(7))
                    .ok_or(()),
            })
        });
        match self.live(db, key) {
            None => {
                assert_eq!(result, Ok(7));
                let item = Item {
                    value: b"7".to_vec(),
                    list: None,
                    held: None,
                    expiry: None,
                    encoding: Some(Encoding::Int),
                };
                self.models[db].insert(key.to_vec(), item);
            }
            Some(item) => match sluice_base::num::parse_i64(&item.value) {
                None => assert_eq!(result, Err(())),
                Some(n) => {
                    let sum = n.wrapping_add(7);
                    assert_eq!(result, Ok(sum));
                    item.value = sum.to_string().into_bytes();
                    item.encoding = Some(Encoding::Int);
                }
            },
        }
        "increment"
    }

    /// Applies some pushes, pops and trims of a list in one edit.
    fn change_list(&mut self, db: usize, key: &[u8]) -> &'static str {
        let limits = ListLimits::default();
        let old = self.live(db, key).cloned();
        if old.as_ref().is_some_and(|item| item.list.is_none()) {
            let results = self.write(db, |d| {
                [d.edit_list(d.key(key), limits).err(), d.edit_or_create_list(d.key(key), limits).err()]
            });
            assert_eq!(results, [Some(WrongType); 2]);
            return "list edit of a string";
        }
        let only_there = self.rng.below(3) == 0;
        if only_there && old.is_none() {
            assert!(self.write(db, |d| d.edit_list(d.key(key), limits).unwrap().is_none()));
            return "list edit of nothing";
        }
        let mut elements = old.as_ref().and_then(|item| item.list.clone()).unwrap_or_default();
        let mut rng = Rng::new(self.rng.below(1 << 40));
        let count = 1 + rng.below(4);
        let unchanged = old.is_some() && rng.below(4) == 0;
        let len_before = elements.len();
        self.effects.drain_ready();
        self.effects.drain_modified();
        let encoding = self.write(db, |d| {
            let mut edit = if only_there {
                d.edit_list(d.key(key), limits).unwrap().unwrap()
            } else {
                d.edit_or_create_list(d.key(key), limits).unwrap()
            };
            if unchanged {
                edit.unchanged();
                return None;
            }
            (0..count).for_each(|_| change_both(&mut edit, &mut elements, &mut rng));
            if elements.is_empty() {
                elements.push_back(b"one".to_vec());
                let (list, context) = edit.parts();
                list.push_back(b"one", context);
            }
            if rng.below(5) == 0 {
                elements.clear();
                let (list, context) = edit.parts();
                list.remove_back(usize::MAX, context);
            }
            let encoding = edit.value().encoding();
            edit.done(Event::LPush, count);
            Some(encoding.into())
        });
        if unchanged {
            return "list edit without a change";
        }
        self.list_effects(db, key, count, (len_before, elements.len()));
        if elements.is_empty() {
            self.models[db].remove(key);
            return "list emptied";
        }
        let expiry = old.and_then(|item| item.expiry);
        let item = Item { value: Vec::new(), list: Some(elements), held: None, expiry, encoding };
        self.models[db].insert(key.to_vec(), item);
        "list edit"
    }

    /// Applies some changes of a set, a hash, a sorted set or a stream in one edit.
    fn change_held(&mut self, db: usize, key: &[u8]) -> &'static str {
        let mut rng = Rng::new(self.rng.below(1 << 40));
        let old = self.live(db, key).cloned();
        let wanted = Held::any_empty(&mut rng);
        let held = match old.as_ref().map(|item| item.held.clone()) {
            None => Some(wanted.clone()),
            Some(held) => held.filter(|held| held.type_of() == wanted.type_of() || rng.below(4) > 0),
        };
        let Some(mut held) = held else {
            // The stored value is of another type, so both kinds of edits are refused.
            let is_same = old.as_ref().and_then(|item| item.held.as_ref()).map(Held::type_of);
            if is_same != Some(wanted.type_of()) {
                self.write(db, |d| wanted.is_refused(d, key));
            }
            return "held edit of another type";
        };
        self.write(db, |d| held.change(d, key, old.is_some(), &mut rng));
        self.effects.drain_ready();
        self.effects.drain_modified();
        self.effects.drain_garbage();
        if held.is_gone() {
            self.models[db].remove(key);
            return if old.is_some() { "held emptied" } else { "held edit of nothing" };
        }
        let expiry = old.and_then(|item| item.expiry);
        let item = Item { value: Vec::new(), list: None, held: Some(held), expiry, encoding: None };
        self.models[db].insert(key.to_vec(), item);
        "held edit"
    }

    /// Checks the effects of an edit: its event, then `del` if the list is empty, the mark for waiting
    /// clients if the list has grown, and the number of changes.
    fn list_effects(&mut self, db: usize, key: &[u8], count: u64, (before, after): (usize, usize)) {
        let modified: Vec<_> = self.effects.drain_modified().map(|m| (m.db, m.key, m.event)).collect();
        let own = |event| (db, KeyRef::Owned(key.into()), event);
        let mut expected = vec![own(Event::LPush)];
        expected.extend((after == 0).then(|| own(Event::Del)));
        assert!(modified.ends_with(&expected), "{modified:?}");
        let ready: Vec<_> = self.effects.drain_ready().collect();
        assert_eq!(
            ready.ends_with(&[(db, KeyRef::Owned(key.into()))]),
            after > before,
            "{before} to {after}"
        );
        assert!(self.effects.take_changes() >= count);
        self.effects.drain_garbage();
    }

    fn expire_now(&mut self, db: usize, key: &[u8]) -> &'static str {
        if self.rng.below(4) > 0 {
            return "rest";
        }
        let was_there = self.write(db, |d| d.expire_now(d.key(key)));
        assert_eq!(was_there, self.live(db, key).is_some());
        if was_there {
            self.models[db].remove(key);
        }
        "expire now"
    }

    fn read(&mut self, db: usize, key: &[u8]) -> &'static str {
        let access = self.access();
        let mut effects = Effects::default();
        let entry = self.keyspace.read(db, access, &mut effects).get(self.keyspace.key(key)).map(seen);
        let item = self.models[db].get(key).cloned();
        let expired = item.as_ref().and_then(|i| i.expiry).is_some_and(|at| at < self.now_ms);
        let hidden = expired && self.mode != ExpiryMode::Ignore;
        assert_eq!(entry.is_some(), item.is_some() && !hidden);
        let noted = expired && self.mode == ExpiryMode::Delete;
        assert_eq!(effects.take_expired_by_read().len(), usize::from(noted));
        if let (Some(entry), Some(item)) = (entry, item) {
            assert_same(&entry, key, &item);
        }
        "read"
    }

    /// Compares all contents with the oracle, by a walk and by a scan.
    fn compare(&mut self) {
        for db in 0..DATABASES {
            self.keyspace.db(db).check();
            let access = Access { expiry: ExpiryMode::Ignore, ..self.access() };
            let mut effects = Effects::default();
            let mut view = self.keyspace.read(db, access, &mut effects);
            assert!(view.len() <= self.models[db].len());
            let mut scanned = BTreeSet::new();
            let mut cursor = 0;
            loop {
                cursor = view.scan(
                    cursor,
                    |_| true,
                    |entry| {
                        scanned.insert(entry.key().to_vec());
                    },
                );
                if cursor == 0 {
                    break;
                }
            }
            let mut walked = 0;
            view.for_each(|entry| {
                walked += 1;
                assert!(scanned.contains(entry.key()));
                let item = self.models[db].get(entry.key()).expect("a key that the oracle has");
                assert_same(&seen(entry), entry.key(), item);
            });
            assert_eq!(walked, scanned.len());
            // A key that only the oracle has must have expired, so that the database deleted it at a look-up.
            for (key, item) in self.models[db].iter().filter(|(key, _)| !scanned.contains(*key)) {
                assert!(item.expiry.is_some_and(|at| at < self.now_ms), "lost {key:?}");
                assert_eq!(self.mode, ExpiryMode::Delete);
            }
        }
    }
}

/// The contents that a cut must report for an entry. The access clock is excluded, because reads write the
/// clock without informing the cut.
#[derive(Clone, Debug, PartialEq)]
struct Content {
    value: Vec<u8>,
    list: Option<VecDeque<Vec<u8>>>,
    held: Option<Held>,
    expiry: Option<i64>,
}

fn content(whole: ValueRef<'_>, expiry: Option<i64>) -> Content {
    let (value, list) = match whole {
        ValueRef::Str(text) => (text.to_vec(), None),
        ValueRef::List(list) => (Vec::new(), Some(elements_of(list))),
        ValueRef::Hash(_) | ValueRef::Set(_) | ValueRef::Zset(_) | ValueRef::Stream(_) => (Vec::new(), None),
    };
    let held = Held::of(whole);
    Content { value, list, held, expiry }
}

/// Every entry of all databases, logically expired ones included.
type Contents = BTreeMap<(usize, Vec<u8>), Content>;

fn contents(keyspace: &Keyspace) -> Contents {
    let mut all = Contents::new();
    for (number, db) in keyspace.iter() {
        for entry in db.iter().map(|handle| db.entry(handle)) {
            all.insert((number, entry.key().to_vec()), content(entry.value(), entry.expiry()));
        }
    }
    all
}

/// A cut (a point-in-time view) in progress, with its expected and its captured contents.
struct OpenCut {
    wanted: Contents,
    given: Contents,
    /// The databases that were emptied during the cut, with their former contents, in which the cut goes on.
    detached: Vec<Db>,
}

impl OpenCut {
    fn begin(keyspace: &mut Keyspace) -> OpenCut {
        let wanted = contents(keyspace);
        keyspace.begin_cut();
        OpenCut { wanted, given: Contents::new(), detached: Vec::new() }
    }

    fn take(&mut self, piece: &Captured) {
        let mut entries = 0;
        for entry in piece.iter() {
            let key = (piece.number(), entry.key().to_vec());
            let twice = self.given.insert(key, content(entry.value(), entry.expiry()));
            assert_eq!(twice, None, "an entry was captured twice");
            entries += 1;
        }
        assert_eq!(entries, piece.len());
        assert!(entries > 0, "an empty piece");
    }

    /// Captures about `budget` entries of one random database.
    fn advance(&mut self, keyspace: &mut Keyspace, rng: &mut Rng, budget: usize) {
        let which = rng.below((DATABASES + self.detached.len()) as u64) as usize;
        let piece = match which.checked_sub(DATABASES) {
            Some(detached) => self.detached[detached].advance_cut(budget),
            None => keyspace.advance_cut(which, budget),
        };
        if let Some(piece) = piece {
            self.take(&piece);
        }
    }

    /// Captures the remaining entries, ends the cut, and compares the captured entries with the expected
    /// ones.
    fn finish(mut self, keyspace: &mut Keyspace) {
        for number in 0..DATABASES {
            while let Some(piece) = keyspace.advance_cut(number, usize::MAX) {
                self.take(&piece);
            }
            assert!(keyspace.db(number).cut_state().is_none_or(|state| state.left == 0));
        }
        for mut db in std::mem::take(&mut self.detached) {
            while let Some(piece) = db.advance_cut(usize::MAX) {
                self.take(&piece);
            }
            db.check();
        }
        keyspace.end_cut();
        assert_eq!(self.given.len(), self.wanted.len());
        assert!(self.given == self.wanted, "what was captured is not what was there at the cut");
    }
}

#[test]
fn every_change_is_captured_before_it_happens() {
    let mut changes: BTreeMap<&'static str, u64> = BTreeMap::new();
    for (seed, mode) in [
        (300, ExpiryMode::Delete),
        (301, ExpiryMode::Hide),
        (302, ExpiryMode::Ignore),
        (303, ExpiryMode::Delete),
    ] {
        let layout = if seed == 303 { Layout::PerSlot } else { Layout::One };
        let mut twin = Twin::with(seed, mode, layout);
        for _ in 0..1500 {
            let cut = OpenCut::begin(&mut twin.keyspace);
            let name = twin.step();
            let states = (0..DATABASES).filter_map(|db| twin.keyspace.db(db).cut_state());
            *changes.entry(name).or_default() += states.map(|state| state.changed).sum::<u64>();
            cut.finish(&mut twin.keyspace);
        }
    }
    // The test would prove nothing about a kind of change that never happened.
    for name in [
        "set",
        "append",
        "setrange",
        "expire",
        "rename",
        "copy",
        "move",
        "remove",
        "increment",
        "list edit",
        "list emptied",
        "held edit",
        "held emptied",
    ] {
        assert!(
            changes.get(name).is_some_and(|count| *count > 10),
            "{name} changed hardly anything: {changes:?}"
        );
    }
}

#[test]
fn a_cut_gives_what_was_there_whatever_happens_meanwhile() {
    let (mut flushed, mut swapped, mut changed, mut moved, mut detached) = (0, 0, 0, 0, 0);
    for seed in 400..410 {
        let layout = if seed % 5 > 2 { Layout::PerSlot } else { Layout::One };
        let mut twin = Twin::with(seed, ExpiryMode::Delete, layout);
        // Many keys besides the few that change a lot, so that there are several slab chunks with holes.
        for i in 0..24_000u32 {
            let key = format!("filler:{i:05}").into_bytes();
            let value = vec![b'f'; (i % 4 / 2) as usize * 40];
            twin.keyspace.load((i % 2) as usize, &key, NewValue::Str(&value), None, 0);
        }
        for _ in 0..300 {
            twin.step();
        }
        // Adds slots with many keys.
        let in_tagged = |i: u32| layout == Layout::PerSlot && i.is_multiple_of(3);
        for i in (0..24_000u32).filter(|i| in_tagged(*i)) {
            let key = format!("{{tag{}}}{i:05}", i % 4).into_bytes();
            twin.keyspace.load((i % 2) as usize, &key, NewValue::Str(&vec![b't'; i as usize % 100]), None, 0);
        }
        for i in (0..24_000u32).filter(|i| i % 5 != 0) {
            twin.keyspace.unload((i % 2) as usize, format!("filler:{i:05}").as_bytes());
        }
        for _ in 0..3 {
            moved += (0..DATABASES).map(|db| twin.keyspace.compact_step(db, 5000).moved).sum::<u64>();
            let mut cut = OpenCut::begin(&mut twin.keyspace);
            for _ in 0..twin.rng.below(400) {
                match twin.rng.below(200) {
                    0 => {
                        let db = twin.rng.below(DATABASES as u64) as usize;
                        let access = twin.access();
                        twin.keyspace.dataset(access, &mut twin.effects).flush(db);
                        let garbage = twin.effects.drain_garbage_dbs().filter(|db| db.cut_state().is_some());
                        cut.detached.extend(garbage);
                        twin.models[db].clear();
                        flushed += 1;
                    }
                    1 => {
                        let access = twin.access();
                        twin.keyspace.dataset(access, &mut twin.effects).swap(0, 1);
                        twin.models.swap(0, 1);
                        swapped += 1;
                    }
                    // Empties a slot. The keys of some slots are freed during the cut; other slots were
                    // emptied before it.
                    2..=5 if layout == Layout::PerSlot => {
                        let name = match twin.rng.below(2) {
                            0 => format!("{{tag{}}}", twin.rng.below(4)).into_bytes(),
                            _ => twin.any_key(),
                        };
                        let (slot, access) = (sluice_base::key_slot(&name), twin.access());
                        detached += twin.keyspace.dataset(access, &mut twin.effects).detach_slot(slot);
                        let stays = |key: &Vec<u8>| sluice_base::key_slot(key) != slot;
                        twin.models.iter_mut().for_each(|model| model.retain(|key, _| stays(key)));
                    }
                    6..=12 => _ = twin.keyspace.free_detached(&mut twin.effects),
                    13..=60 => {
                        let budget = twin.rng.below(60) as usize;
                        cut.advance(&mut twin.keyspace, &mut twin.rng, budget);
                    }
                    _ => {
                        twin.step();
                    }
                }
            }
            let states = (0..DATABASES).filter_map(|db| twin.keyspace.db(db).cut_state());
            changed += states.map(|state| state.changed).sum::<u64>();
            cut.finish(&mut twin.keyspace);
            (0..DATABASES).for_each(|db| twin.keyspace.db(db).check());
        }
    }
    assert!(
        flushed > 10 && swapped > 10 && changed > 100 && moved > 500 && detached > 5_000,
        "{flushed} {swapped} {changed} {moved} {detached}"
    );
}

#[test]
fn a_cut_that_is_broken_off_leaves_nothing_behind() {
    let mut twin = Twin::new(500, ExpiryMode::Delete);
    for _ in 0..400 {
        twin.step();
    }
    for _ in 0..5 {
        let mut cut = OpenCut::begin(&mut twin.keyspace);
        for _ in 0..20 {
            twin.step();
            cut.advance(&mut twin.keyspace, &mut twin.rng, 3);
        }
        twin.keyspace.end_cut();
        assert!((0..DATABASES).all(|db| twin.keyspace.db(db).cut_state().is_none()));
    }
    OpenCut::begin(&mut twin.keyspace).finish(&mut twin.keyspace);
}

/// Applies one change to a list and to the oracle's copy of the list.
fn change_both(edit: &mut ListEdit<'_>, elements: &mut VecDeque<Vec<u8>>, rng: &mut Rng) {
    let (list, context) = edit.parts();
    let len = match rng.below(12) {
        0 => 9000,
        1 | 2 => 700,
        3..=5 => 100,
        _ => 8,
    };
    let value = if rng.below(3) == 0 { rng.below(9999).to_string().into_bytes() } else { vec![b'e'; len] };
    match rng.below(8) {
        0..=2 => {
            list.push_front(&value, context);
            elements.push_front(value);
        }
        3..=4 => {
            list.push_back(&value, context);
            elements.push_back(value);
        }
        5 => {
            list.remove_front(1, context);
            elements.pop_front();
        }
        6 => {
            list.remove_back(2, context);
            elements.truncate(elements.len().saturating_sub(2));
        }
        _ => {
            let end = elements.len().min(5);
            let keep = end.min(rng.below(3) as usize)..end;
            list.trim(keep.clone(), context);
            elements.truncate(keep.end);
            elements.drain(..keep.start);
        }
    }
    if elements.len() > 40 {
        list.trim(0..3, context);
        elements.truncate(3);
    }
    let limits = context.limits;
    list.convert_after_removing(limits);
}

fn elements_of(list: ListRef<'_>) -> VecDeque<Vec<u8>> {
    let mut all = VecDeque::new();
    let mut buffer = IntBuffer::new();
    let mut elements = list.iter(0..list.len());
    while let Some(element) = elements.next() {
        all.push_back(element.bytes(&mut buffer).to_vec());
    }
    all
}

struct Seen {
    key: Vec<u8>,
    value: Vec<u8>,
    list: Option<VecDeque<Vec<u8>>>,
    held: Option<Held>,
    len: usize,
    expiry: Option<i64>,
    encoding: Encoding,
}

fn seen(entry: Entry<'_>) -> Seen {
    let (value, list, len) = match entry.value() {
        ValueRef::Str(text) => (text.to_vec(), None, text.len()),
        ValueRef::List(list) => (Vec::new(), Some(elements_of(list)), 0),
        ValueRef::Hash(_) | ValueRef::Set(_) | ValueRef::Zset(_) | ValueRef::Stream(_) => {
            (Vec::new(), None, 0)
        }
    };
    let held = Held::of(entry.value());
    let plain = if list.is_some() { Type::List } else { Type::String };
    assert_eq!(entry.type_of(), held.as_ref().map_or(plain, Held::type_of));
    assert!(entry.size_bytes() >= 16);
    Seen {
        key: entry.key().to_vec(),
        value,
        list,
        held,
        len,
        expiry: entry.expiry(),
        encoding: entry.encoding(),
    }
}

fn assert_same(entry: &Seen, key: &[u8], item: &Item) {
    assert_eq!(entry.key, key);
    assert!(entry.value == item.value, "value of a key of {} bytes", key.len());
    assert_eq!(entry.len, item.value.len());
    assert!(entry.list == item.list, "list of a key of {} bytes", key.len());
    assert!(entry.held == item.held, "collection of a key of {} bytes", key.len());
    assert_eq!(entry.expiry, item.expiry);
    match item.encoding {
        Some(encoding) => {
            assert_eq!(entry.encoding, encoding, "key {} value {}", key.len(), item.value.len())
        }
        None => assert_ne!(entry.encoding, Encoding::Int, "key {} value {}", key.len(), item.value.len()),
    }
}

fn run(seed: u64, mode: ExpiryMode, layout: Layout) {
    let mut twin = Twin::with(seed, mode, layout);
    // Checking 16,384 tables takes time, so databases with a table for each slot are checked less often.
    let between = if layout == Layout::One { 8 } else { 100 };
    for round in 0..6000 {
        twin.step();
        if round % between == 0 {
            twin.compare();
        }
    }
    twin.compare();
    for name in [
        "set",
        "append",
        "setrange",
        "expire",
        "rename",
        "copy",
        "move",
        "remove",
        "increment",
        "read",
        "list edit",
        "list emptied",
        "list edit of a string",
        "list edit without a change",
        "held edit",
        "held emptied",
        "held edit of another type",
    ] {
        assert!(twin.done.get(name).is_some_and(|count| *count > 10), "{name} was hardly done");
    }
    // Once all keys are removed one by one, no memory may remain in use.
    for db in 0..DATABASES {
        let keys: Vec<Vec<u8>> = twin.models[db].keys().cloned().collect();
        for key in keys {
            twin.remove(db, &key);
        }
        twin.keyspace.db(db).check();
        assert_eq!(twin.keyspace.db(db).len(), 0);
        assert_eq!(twin.keyspace.db(db).entry_bytes(), 0);
        assert_eq!(twin.keyspace.db(db).expires_len(), 0);
    }
}

#[test]
fn commands_agree_with_a_map() {
    (0..12).for_each(|seed| run(seed, ExpiryMode::Delete, Layout::One));
}

#[test]
fn commands_agree_with_a_map_while_expired_keys_are_hidden() {
    (100..106).for_each(|seed| run(seed, ExpiryMode::Hide, Layout::One));
}

#[test]
fn commands_agree_with_a_map_while_expiry_is_ignored() {
    (200..206).for_each(|seed| run(seed, ExpiryMode::Ignore, Layout::One));
}

#[test]
fn commands_agree_with_a_map_in_a_table_for_each_slot() {
    (400..403).for_each(|seed| run(seed, ExpiryMode::Delete, Layout::PerSlot));
    (403..405).for_each(|seed| run(seed, ExpiryMode::Hide, Layout::PerSlot));
}

#[test]
fn cycles_delete_what_has_expired_and_nothing_else() {
    [Layout::One, Layout::PerSlot].into_iter().for_each(cycles);
}

fn cycles(layout: Layout) {
    let mut twin = Twin::with(9, ExpiryMode::Ignore, layout);
    for i in 0..5000u32 {
        let key = [&i.to_le_bytes()[..], &vec![b'k'; i as usize % 300]].concat();
        let expiry = if i % 3 == 0 { None } else { Some(twin.now_ms + i64::from(i % 100)) };
        let set = expiry.map_or(SetExpiry::Clear, SetExpiry::At);
        twin.write(0, |d| d.set(d.key(&key), NewValue::Str(b"value"), set, Event::Set));
        let value = b"value".to_vec();
        twin.models[0].insert(key, Item { value, list: None, held: None, expiry, encoding: None });
    }
    let mut walk = ExpireWalk::default();
    for _ in 0..120 {
        twin.now_ms += 1;
        let cycle = ExpireCycle { now_ms: twin.now_ms, keys_per_round: 20, tolerated_percent: 0 };
        let Twin { keyspace, effects, .. } = &mut twin;
        walk.begin(keyspace.databases());
        while !walk.is_over() {
            let step = keyspace.expire_step(cycle, &mut walk, effects);
            assert!(step.sampled < 40, "a step is short: {step:?}");
        }
        for (db, key) in twin.effects.expired_by_write() {
            let item = twin.models[*db].remove(&**key).expect("deleted once");
            assert!(item.expiry.is_some_and(|at| at < twin.now_ms));
        }
        twin.effects.clear_expired_by_write();
    }
    twin.compare();
    assert_eq!(twin.keyspace.db(0).expires_len(), 0);
    assert_eq!(twin.effects.take_changes(), 5000);
    assert_eq!(twin.keyspace.db(0).len(), twin.models[0].len());
}

#[test]
fn shrinking_keeps_every_key() {
    let mut twin = Twin::new(10, ExpiryMode::Delete);
    let key_of =
        |i: u32| [&i.to_le_bytes()[..], &vec![b'k'; if i.is_multiple_of(7) { 300 } else { 5 }]].concat();
    for i in 0..4000 {
        let expiry = if i % 2 == 0 { Some(twin.now_ms + 1_000_000) } else { None };
        let set = expiry.map_or(SetExpiry::Clear, SetExpiry::At);
        twin.write(0, |d| d.set(d.key(&key_of(i)), NewValue::Plain(b"v"), set, Event::Set));
        twin.models[0]
            .insert(key_of(i), Item { value: b"v".to_vec(), list: None, held: None, expiry, encoding: None });
    }
    let before = twin.keyspace.db(0).index_bytes();
    for i in 100..4000 {
        twin.remove(0, &key_of(i));
    }
    let mut steps = 0;
    while twin.keyspace.shrink_step(4) {
        steps += 1;
        assert!(steps < 100_000);
    }
    twin.compare();
    assert!(twin.keyspace.db(0).index_bytes() < before);
}

#[test]
fn a_string_that_was_raw_once_stays_raw() {
    let mut twin = Twin::new(11, ExpiryMode::Delete);
    let encoding = |twin: &mut Twin, key: &[u8]| twin.write(0, |d| d.look(d.key(key)).unwrap().encoding());
    let value = vec![b'v'; 107];
    twin.write(0, |d| d.set(d.key(b"k"), NewValue::Str(&value), SetExpiry::Clear, Event::Set));
    assert_eq!(encoding(&mut twin, b"k"), Encoding::Embstr);
    // With the eight bytes of an expiry, the reference would no longer keep the string in one piece.
    let later = twin.now_ms + 1000;
    twin.write(0, |d| d.set_expiry(d.key(b"k"), Some(later), Event::Expire));
    assert_eq!(encoding(&mut twin, b"k"), Encoding::Raw);
    twin.write(0, |d| d.set_expiry(d.key(b"k"), None, Event::Persist));
    assert_eq!(encoding(&mut twin, b"k"), Encoding::Raw);
    twin.write(0, |d| d.set(d.key(b"k"), NewValue::Str(&value), SetExpiry::Clear, Event::Set));
    assert_eq!(encoding(&mut twin, b"k"), Encoding::Embstr);
    twin.write(0, |d| d.set(d.key(b"k"), NewValue::Str(b"v"), SetExpiry::At(later), Event::Set));
    twin.write(0, |d| d.set(d.key(b"k"), NewValue::Str(&value), SetExpiry::Clear, Event::Set));
    assert_eq!(encoding(&mut twin, b"k"), Encoding::Raw);
    // With a long key, the reference would not keep it in one piece either, and the string stays `raw` when
    // its key becomes short.
    let long = [b'k'; 255];
    twin.write(0, |d| d.set(d.key(&long), NewValue::Str(b"v"), SetExpiry::Clear, Event::Set));
    assert!(twin.write(0, |d| d.rename(d.key(&long), d.key(b"k"))));
    assert_eq!(encoding(&mut twin, b"k"), Encoding::Raw);
    twin.write(0, |d| d.set(d.key(b"k"), NewValue::Str(b"v"), SetExpiry::Clear, Event::Set));
    assert_eq!(encoding(&mut twin, b"k"), Encoding::Embstr);
}

#[test]
#[cfg_attr(debug_assertions, should_panic(expected = "without saying what it did"))]
fn an_edit_that_is_dropped_is_recorded_and_refused_in_debug_builds() {
    let mut twin = Twin::new(12, ExpiryMode::Delete);
    twin.write(0, |d| {
        let mut edit = d.edit_or_create_list(d.key(b"k"), ListLimits::default()).unwrap();
        let (list, context) = edit.parts();
        list.push_back(b"v", context);
    });
    assert_eq!(twin.effects.take_changes(), 1);
    assert!(twin.write(0, |d| d.look(d.key(b"k")).is_some()));
}
