//! The doors a command gets: [`DbRef`] to read, [`DbMut`] to change.

use crate::db::{Db, Found, Payload, Str};
use crate::effects::{Effects, Event};
use crate::entry::{self, Head};
use crate::{Access, ExpiryMode, Key, Touch};
use sluice_base::{Bytes, HashSeed};
use sluice_collections::slab::{Handle, Slab};
use sluice_value::{Encoding, Type, Value};
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

/// A database to read from.
pub struct DbRef<'a> {
    pub(crate) db: &'a Db,
    pub(crate) number: usize,
    /// How this command looks at keys.
    pub access: Access,
    /// Where look-ups leave their effects.
    pub effects: &'a mut Effects,
    pub(crate) seed: HashSeed,
}

/// A database to change.
pub struct DbMut<'a> {
    pub(crate) dbs: &'a mut [Db],
    pub(crate) number: usize,
    /// How this command looks at keys.
    pub access: Access,
    /// Where changes leave their effects.
    pub effects: &'a mut Effects,
    pub(crate) seed: HashSeed,
}

/// What a write does to the expiry of the key it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetExpiry {
    /// The key lives on without an end.
    Clear,
    /// As it was.
    Keep,
    /// Until this time, ms since the epoch.
    At(i64),
}

/// A key that is there, to look at.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    db: &'a Db,
    handle: Handle,
    word: &'a AtomicU32,
    body: &'a [u8],
}

impl<'a> Entry<'a> {
    #[inline]
    fn of(db: &'a Db, handle: Handle) -> Entry<'a> {
        let (word, body) = db.block(handle);
        Entry { db, handle, word, body }
    }

    #[inline]
    fn head(self) -> Head {
        Head(self.word.load(Relaxed))
    }

    /// Stores the access clock that a look-up leaves; a plain store, so that a shared database can record it too.
    #[inline]
    fn touch(self, touch: Touch) {
        let head = self.head();
        let clock = touch.after(head.clock());
        // Writing only when it changes keeps the line clean for keys read twice in one clock tick.
        if head.clock() != clock {
            self.word.store(head.with_clock(clock).0, Relaxed);
        }
    }

    /// The string; `None` for a value of another type.
    #[inline]
    pub fn str(self) -> Option<Str<'a>> {
        self.db.str_in(self.head(), self.body)
    }
    /// The key itself.
    pub fn key(self) -> &'a [u8] {
        self.db.key(self.handle)
    }
    /// Type of the value.
    pub fn type_of(self) -> Type {
        self.db.type_of(self.handle)
    }
    /// How it is stored.
    pub fn encoding(self) -> Encoding {
        self.db.encoding(self.handle)
    }
    /// Expiry, ms since the epoch.
    pub fn expiry(self) -> Option<i64> {
        entry::expiry(self.head(), self.body)
    }
    /// The access clock: LRU seconds or LFU bits, by policy.
    pub fn clock(self) -> u32 {
        self.head().clock()
    }
    /// Bytes it takes, its share of the indexes included.
    pub fn size_bytes(self) -> usize {
        self.db.entry_size(self.handle)
    }
}

impl<'a> DbRef<'a> {
    /// The key's entry; a logically expired key is absent, and noted for deletion. Counts a hit or a miss.
    #[inline]
    pub fn get(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let entry = self.look(key);
        match entry {
            Some(entry) => {
                self.effects.hits += 1;
                entry.touch(self.access.touch);
            }
            None => self.effects.misses += 1,
        }
        entry
    }

    /// The same without touching: for commands that ask about a key rather than use it.
    #[inline]
    pub fn peek(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let entry = self.look(key);
        match entry {
            Some(_) => self.effects.hits += 1,
            None => self.effects.misses += 1,
        }
        entry
    }

    /// The same without counting or touching.
    #[inline]
    pub fn look(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let db: &'a Db = self.db;
        let entry = Entry::of(db, db.find(key)?.handle);
        if let Some(at) = entry.expiry()
            && is_expired(at, &self.access)
        {
            self.note_expired(entry.handle);
            return None;
        }
        Some(entry)
    }

    /// What is stored under `key`, expired or not, without any trace of the look-up.
    pub fn stored(&self, key: Key<'_>) -> Option<Entry<'a>> {
        Some(Entry::of(self.db, self.db.find(key)?.handle))
    }

    /// A key by name, hashed here.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::hashed(bytes, self.seed)
    }

    /// The number of this database.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Number of keys, logically expired ones included.
    pub fn len(&self) -> usize {
        self.db.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.db.is_empty()
    }

    /// Every live key, in no order. O(n).
    pub fn for_each(&self, mut visit: impl FnMut(Entry<'a>)) {
        let db: &'a Db = self.db;
        for handle in db.iter() {
            if !self.is_hidden(handle) {
                visit(Entry::of(db, handle));
            }
        }
    }

    /// Some keys from `cursor` on, and the next cursor; 0 starts and ends. `wanted` sees every key; those it wants are
    /// visited, unless they are expired: then they are noted for deletion instead.
    pub fn scan(
        &mut self,
        cursor: u64,
        mut wanted: impl FnMut(Entry<'a>) -> bool,
        mut visit: impl FnMut(Entry<'a>),
    ) -> u64 {
        let db: &'a Db = self.db;
        db.scan(cursor, |handle| {
            let entry = Entry::of(db, handle);
            if wanted(entry) {
                if self.is_hidden(handle) { self.note_expired(handle) } else { visit(entry) }
            }
        })
    }

    /// A random live key. Some of the expired ones met on the way are noted for deletion. Where they stay and every key has an
    /// expiry, an expired one may be the answer. O(1) unless nearly all keys are expired, then O(n).
    pub fn random(&mut self, rng: &mut sluice_base::Rng) -> Option<Entry<'a>> {
        let db: &'a Db = self.db;
        for n in 0..RANDOM_TRIES {
            let handle = db.sample(rng)?;
            if !self.is_hidden(handle) {
                return Some(Entry::of(db, handle));
            }
            // The others are the expiry cycle's: a look-up is not to become long.
            if n < RANDOM_NOTES {
                self.note_expired(handle);
            }
        }
        if self.access.expiry != ExpiryMode::Delete && db.len() == db.expires_len() {
            return db.sample(rng).map(|handle| Entry::of(db, handle));
        }
        db.iter().find(|handle| !self.is_hidden(*handle)).map(|handle| Entry::of(db, handle))
    }

    fn note_expired(&mut self, handle: Handle) {
        if self.access.expiry == ExpiryMode::Delete {
            self.effects.expired_by_read.push((self.number, self.db.key(handle).into()));
        }
    }

    fn is_hidden(&self, handle: Handle) -> bool {
        self.db.expiry(handle).is_some_and(|at| is_expired(at, &self.access))
    }
}

#[inline]
fn is_expired(at_ms: i64, access: &Access) -> bool {
    access.expiry != ExpiryMode::Ignore && access.now.unix_ms() > at_ms
}

impl DbMut<'_> {
    /// Another database of the same keyspace.
    pub fn other(&mut self, number: usize) -> Option<DbMut<'_>> {
        if number >= self.dbs.len() {
            return None;
        }
        Some(DbMut { dbs: self.dbs, number, access: self.access, effects: self.effects, seed: self.seed })
    }

    /// The number of this database.
    pub fn number(&self) -> usize {
        self.number
    }

    /// A key by name, hashed here.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::hashed(bytes, self.seed)
    }

    #[inline]
    fn db(&mut self) -> &mut Db {
        &mut self.dbs[self.number]
    }

    /// The entry's position, for a write: a logically expired key is deleted here, before the command's own change.
    #[inline]
    fn find(&mut self, key: Key<'_>) -> Option<Found> {
        let found = self.dbs[self.number].find(key)?;
        if let Some(at) = self.dbs[self.number].expiry(found.handle)
            && is_expired(at, &self.access)
        {
            if self.access.expiry == ExpiryMode::Delete {
                self.delete_expired(found, key);
            }
            return None;
        }
        Some(found)
    }

    #[cold]
    fn delete_expired(&mut self, found: Found, key: Key<'_>) {
        let value = self.db().remove(found, key);
        self.effects.discard(value);
        self.effects.expired_by_write.push((self.number, key.bytes.into()));
        self.effects.touch(self.number, key, Event::Expired);
    }

    /// The key's entry, to look at before changing it. Counts a hit or a miss and touches it, as a read does.
    #[inline]
    pub fn get(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        match self.find(key) {
            Some(found) => {
                self.effects.hits += 1;
                let db = &self.dbs[self.number];
                let entry = Entry::of(db, found.handle);
                entry.touch(self.access.touch);
                Some(entry)
            }
            None => {
                self.effects.misses += 1;
                None
            }
        }
    }

    /// The same without counting, as most writes look at what they are about to change.
    #[inline]
    pub fn get_uncounted(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        let found = self.find(key)?;
        let db = &self.dbs[self.number];
        db.set_clock(found.handle, self.access.touch.after(db.clock(found.handle)));
        Some(Entry::of(db, found.handle))
    }

    /// The same without counting or touching.
    pub fn look(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        let found = self.find(key)?;
        Some(Entry::of(&self.dbs[self.number], found.handle))
    }

    /// Stores a value under a key, whatever was there; returns whether the key existed.
    #[inline]
    pub fn set(&mut self, key: Key<'_>, payload: Payload<'_>, expiry: SetExpiry, event: Event) -> bool {
        let found = self.find(key);
        let existed = found.is_some();
        match found {
            Some(found) => self.overwrite(found, key, payload, expiry),
            None => {
                self.clear_hidden(key);
                let clock = self.access.touch.fresh();
                let at = match expiry {
                    SetExpiry::At(at) => Some(at),
                    SetExpiry::Clear | SetExpiry::Keep => None,
                };
                self.db().insert(key, payload, at, clock);
            }
        }
        self.effects.touch(self.number, key, event);
        if matches!(expiry, SetExpiry::At(_)) && self.effects.listening {
            self.effects.touch(self.number, key, Event::Expire);
            self.effects.dirty -= 1;
        }
        existed
    }

    #[inline]
    fn overwrite(&mut self, found: Found, key: Key<'_>, payload: Payload<'_>, expiry: SetExpiry) {
        let at = match expiry {
            SetExpiry::At(at) => Some(at),
            SetExpiry::Clear => None,
            SetExpiry::Keep => self.dbs[self.number].expiry(found.handle),
        };
        let old = self.dbs[self.number].clock(found.handle);
        let clock = match self.access.touch {
            crate::Touch::No { .. } => old,
            touch => touch.after(old),
        };
        let (_, value) = self.db().overwrite(found, key, payload, at, clock);
        self.effects.discard(value);
    }

    /// Replaces a value by the integer that `change` makes of it, or of nothing; keeps the expiry. From one integer to
    /// another it takes one look-up and no allocation. An error of `change` leaves everything as it was.
    #[inline]
    pub fn update_int<E>(
        &mut self,
        key: Key<'_>,
        event: Event,
        change: impl FnOnce(Option<Entry<'_>>) -> Result<i64, E>,
    ) -> Result<i64, E> {
        let Some(found) = self.find(key) else {
            let value = change(None)?;
            self.set(key, Payload::Int(value), SetExpiry::Clear, event);
            return Ok(value);
        };
        let db = &mut self.dbs[self.number];
        let value = change(Some(Entry::of(db, found.handle)))?;
        if db.write_int(found.handle, value) {
            db.set_clock(found.handle, self.access.touch.after(db.clock(found.handle)));
        } else {
            self.overwrite(found, key, Payload::Int(value), SetExpiry::Keep);
        }
        self.effects.touch(self.number, key, event);
        Ok(value)
    }

    /// Writes `bytes` at `offset` of a string that exists, growing it with zero bytes as needed; its new length.
    /// The caller has checked the type and the size limit. Large strings change in place.
    pub fn write_at(&mut self, key: Key<'_>, offset: usize, bytes: &[u8], event: Event) -> usize {
        let Some(found) = self.find(key) else {
            let mut value = vec![0; offset];
            value.extend_from_slice(bytes);
            let len = value.len();
            self.set(key, Payload::Raw(&value), SetExpiry::Keep, event);
            return len;
        };
        let len = self.write_found(found, key, offset, bytes);
        self.effects.touch(self.number, key, event);
        len
    }

    fn write_found(&mut self, found: Found, key: Key<'_>, offset: usize, bytes: &[u8]) -> usize {
        let end = offset + bytes.len();
        let in_large = self.db().edit_large(found.handle, |large| {
            let vec = large.make_mut();
            if end > vec.len() {
                // Doubling up to a megabyte, then a megabyte more each time: appends stay amortised.
                if end > vec.capacity() {
                    let spare = vec.len().min(1 << 20);
                    vec.reserve_exact(end - vec.len() + spare);
                }
                vec.resize(end, 0);
            }
            vec[offset..end].copy_from_slice(bytes);
            vec.len()
        });
        if let Some(len) = in_large {
            return len;
        }
        if let Some(inline) = self.db().inline_mut(found.handle, end) {
            inline[offset..end].copy_from_slice(bytes);
            return inline.len();
        }
        let mut value = self.dbs[self.number].str(found.handle).map(|s| s.to_vec()).unwrap_or_default();
        if end > value.len() {
            value.resize(end, 0);
        }
        value[offset..end].copy_from_slice(bytes);
        self.overwrite(found, key, Payload::Raw(&value), SetExpiry::Keep);
        value.len()
    }

    /// Removes a key; whether it was there. A hidden one counts as there.
    #[inline]
    pub fn remove(&mut self, key: Key<'_>, event: Event) -> bool {
        let Some(found) = self.find(key).or_else(|| self.find_hidden(key)) else { return false };
        let value = self.db().remove(found, key);
        self.effects.discard(value);
        self.effects.touch(self.number, key, event);
        true
    }

    /// Deletes a key whose new expiry has passed already, as if it had expired just now: it counts as expired, and the
    /// deletion propagates in place of the command. Whether it was there.
    pub fn expire_now(&mut self, key: Key<'_>) -> bool {
        let Some(found) = self.find(key) else { return false };
        self.delete_expired(found, key);
        self.effects.dirty += 1;
        self.effects.do_not_propagate();
        true
    }

    /// Deletes a key if it is there and has expired, as every write does that meets one; `access.expiry` must be
    /// [`ExpiryMode::Delete`].
    pub fn delete_if_expired(&mut self, key: Key<'_>) {
        self.find(key);
    }

    /// Sets or clears the expiry of a key; whether the key was there.
    pub fn set_expiry(&mut self, key: Key<'_>, expiry: Option<i64>, event: Event) -> bool {
        let Some(found) = self.find(key) else { return false };
        self.db().set_expiry(found, key, expiry);
        self.effects.touch(self.number, key, event);
        true
    }

    /// Gives the value of `from`, with its expiry, the name `to`; what was there is gone. Whether `from` was there.
    pub fn rename(&mut self, from: Key<'_>, to: Key<'_>) -> bool {
        let Some(stored) = self.stored(from) else { return false };
        self.make_room(to);
        if let Some(found) = self.find(from) {
            self.db().remove(found, from);
        }
        self.store(to, stored);
        self.effects.touch(self.number, from, Event::RenameFrom);
        self.effects.touch(self.number, to, Event::RenameTo);
        self.effects.dirty -= 1;
        true
    }

    /// Moves a key to database `to`, where it must be absent; whether it was there.
    pub fn move_to(&mut self, key: Key<'_>, to: usize) -> bool {
        let Some(stored) = self.stored(key) else { return false };
        let Some(mut target) = self.other(to) else { return false };
        target.clear_hidden(key);
        target.store(key, stored);
        if let Some(found) = self.find(key) {
            self.db().remove(found, key);
        }
        self.effects.touch(self.number, key, Event::MoveFrom);
        self.effects.touch(to, key, Event::MoveTo);
        self.effects.dirty -= 1;
        true
    }

    /// Copies the value of `from`, with its expiry, to `to` of database `number`, replacing what is there; whether
    /// `from` was there. Large strings are shared until one of them changes.
    pub fn copy_to(&mut self, from: Key<'_>, number: usize, to: Key<'_>) -> bool {
        let Some(stored) = self.stored(from) else { return false };
        let Some(mut target) = self.other(number) else { return false };
        target.make_room(to);
        target.store(to, stored);
        target.effects.touch(number, to, Event::CopyTo);
        true
    }

    /// Where a key is that has expired but stays: its name is still taken in the table.
    #[inline]
    fn find_hidden(&self, key: Key<'_>) -> Option<Found> {
        if self.access.expiry != ExpiryMode::Hide {
            return None;
        }
        self.dbs[self.number].find(key)
    }

    /// Frees the name of a key that [`DbMut::find`] did not find.
    #[inline]
    fn clear_hidden(&mut self, key: Key<'_>) {
        if let Some(found) = self.find_hidden(key) {
            let value = self.db().remove(found, key);
            self.effects.discard(value);
        }
    }

    /// Frees the name of a key that is about to be stored.
    fn make_room(&mut self, key: Key<'_>) {
        if let Some(found) = self.find(key) {
            let value = self.db().remove(found, key);
            self.effects.discard(value);
        }
        self.clear_hidden(key);
    }

    fn stored(&mut self, key: Key<'_>) -> Option<Stored> {
        let found = self.find(key)?;
        let db = &self.dbs[self.number];
        let raw = db.encoding(found.handle) == Encoding::Raw;
        let value = match db.str(found.handle)? {
            Str::Int(n) => StoredValue::Int(n),
            // Once raw, beside a long key for one, a string stays so.
            Str::Inline(bytes) if raw => StoredValue::Raw(bytes.to_vec()),
            Str::Inline(bytes) => StoredValue::Plain(bytes.to_vec()),
            // Beside a long key even a short string is large; beside the next key it need not be.
            Str::Shared(bytes) if bytes.len() <= Slab::MAX_BLOCK && raw => StoredValue::Raw(bytes.to_vec()),
            Str::Shared(bytes) if bytes.len() <= Slab::MAX_BLOCK => StoredValue::Str(bytes.to_vec()),
            Str::Shared(bytes) => StoredValue::Large(Value::Str(bytes.clone())),
        };
        Some(Stored { value, expiry: db.expiry(found.handle), clock: db.clock(found.handle) })
    }

    fn store(&mut self, key: Key<'_>, stored: Stored) {
        let payload = match &stored.value {
            StoredValue::Int(n) => Payload::Int(*n),
            StoredValue::Raw(bytes) => Payload::Raw(bytes),
            StoredValue::Str(bytes) => Payload::Str(bytes),
            StoredValue::Plain(bytes) => Payload::Plain(bytes),
            StoredValue::Large(value) => Payload::Large(value.clone()),
        };
        self.db().insert(key, payload, stored.expiry, stored.clock);
    }
}

/// An entry taken out of its table, on the way to another key or database.
struct Stored {
    value: StoredValue,
    expiry: Option<i64>,
    clock: u32,
}

enum StoredValue {
    Int(i64),
    Str(Vec<u8>),
    Plain(Vec<u8>),
    Raw(Vec<u8>),
    Large(Value),
}

impl Str<'_> {
    /// The string's bytes, copied.
    pub fn to_vec(self) -> Vec<u8> {
        match self {
            Str::Int(n) => n.to_string().into_bytes(),
            Str::Inline(bytes) => bytes.to_vec(),
            Str::Shared(bytes) => bytes.to_vec(),
        }
    }

    /// Length in bytes.
    pub fn len(self) -> usize {
        match self {
            Str::Int(n) => sluice_base::num::digits_i64(n),
            Str::Inline(bytes) => bytes.len(),
            Str::Shared(bytes) => bytes.len(),
        }
    }

    /// Whether the string is empty.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Calls `f` with the bytes, without allocating.
    #[inline]
    pub fn with<R>(self, f: impl FnOnce(&[u8]) -> R) -> R {
        match self {
            Str::Int(n) => {
                let mut buffer = sluice_base::num::IntBuffer::new();
                f(buffer.format(n))
            }
            Str::Inline(bytes) => f(bytes),
            Str::Shared(bytes) => f(bytes),
        }
    }

    /// The shared bytes, when they are kept that way.
    pub fn shared(self) -> Option<Bytes> {
        match self {
            Str::Shared(bytes) => Some(bytes.clone()),
            Str::Int(_) | Str::Inline(_) => None,
        }
    }
}

/// Random keys tried before all are looked at.
const RANDOM_TRIES: usize = 100;
/// How many of them are noted for deletion at most, where they are expired.
const RANDOM_NOTES: usize = 16;
