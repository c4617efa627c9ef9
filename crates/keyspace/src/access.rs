//! The handles through which a command accesses a database: [`DbRef`] to read it, [`DbMut`] to change it.

mod text;

pub use text::StrEdit;

use crate::db::{Db, Entry, Found, Meta, Open};
use crate::edit::{Edit, Editable, HashEdit, ListEdit, SetEdit, ZsetEdit};
use crate::effects::{Effects, Event};
use crate::entry::Form;
use crate::hasher::KeyHasher;
use crate::new_value::NewValue;
use crate::new_value::Payload;
use crate::stream_edit::StreamEdit;
use crate::view::{Str, ValueRef, WrongType};
use crate::{Access, ExpiryMode, Key};
use sluice_base::num::parse_i64;
use sluice_collections::slab::Handle;
use sluice_value::{HashEncoding, HashLimits, List, ListEncoding, ListLimits, Set, SetLimits};
use sluice_value::{Stream, StreamLimits, Type, Zset, ZsetContext, ZsetEncoding, ZsetLimits};

/// A database, opened to read.
pub struct DbRef<'a> {
    pub(crate) db: &'a Db,
    pub(crate) number: usize,
    /// Settings under which this command looks up keys.
    pub access: Access,
    /// Collects the effects of look-ups.
    pub effects: &'a mut Effects,
}

/// A database, opened to change.
pub struct DbMut<'a> {
    pub(crate) dbs: &'a mut [Db],
    pub(crate) number: usize,
    /// Settings under which this command looks up keys.
    pub access: Access,
    /// Collects the effects of changes.
    pub effects: &'a mut Effects,
}

/// What a write does to the expiry of the key that it stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SetExpiry {
    /// The key loses its expiry.
    Clear,
    /// The key keeps the expiry that it had, if any.
    Keep,
    /// The key expires at this time, ms since the epoch.
    At(i64),
}

impl<'a> DbRef<'a> {
    /// Prefetches the entries of keys that will be looked up soon: first their index buckets, then the
    /// entries to which the buckets point.
    pub fn prefetch(&self, hashes: impl Iterator<Item = u64> + Clone) {
        prefetch(self.db, hashes);
    }

    /// The key's entry. A logically expired key is absent, and noted for deletion if [`ExpiryMode`] says so.
    /// Counts a hit or a miss, and touches the access clock.
    #[inline(always)]
    pub fn get(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let entry = self.look(key);
        match entry {
            Some(entry) => {
                self.effects.hit();
                entry.touch(self.access.touch);
            }
            None => self.effects.miss(self.number, key),
        }
        entry
    }

    /// The entry of a key, for commands that ask about a key and do not touch its access clock.
    #[inline]
    pub fn peek(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let entry = self.look(key);
        match entry {
            Some(_) => self.effects.hit(),
            None => self.effects.miss(self.number, key),
        }
        entry
    }

    /// The entry of a key without touching its access clock; an absent key publishes no miss event.
    #[inline]
    pub fn peek_quietly(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let entry = self.look(key);
        match entry {
            Some(_) => self.effects.hit(),
            None => self.effects.quiet_miss(),
        }
        entry
    }

    /// The entry of a key without counting a hit or miss and without touching the access clock.
    #[inline(always)]
    pub fn look(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let db: &'a Db = self.db;
        self.effects.meet(self.number, key);
        let entry = db.find_entry(key)?;
        if let Some(at) = entry.expiry()
            && is_expired(at, &self.access)
        {
            self.note_expired(entry.handle);
            return None;
        }
        Some(entry)
    }

    /// The entry of `key`, expired or not; the look-up changes nothing.
    pub fn stored(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        self.effects.meet(self.number, key);
        self.db.find_entry(key)
    }

    /// A key by name, with its hash.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::hashed(bytes, self.db.hasher())
    }

    /// The number of this database.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Number of keys, logically expired ones included, without those of hidden slots.
    pub fn len(&self) -> usize {
        self.effects.meet_database(self.number);
        self.db.shown().len()
    }

    /// Whether there is no key outside hidden slots.
    pub fn is_empty(&self) -> bool {
        self.db.shown().is_empty()
    }

    /// Visits every live key of a hash slot, in no order; visits no key with [`crate::Layout::One`] or if the
    /// slot is hidden. Cost: O(keys of the slot).
    pub fn for_each_in_slot(&self, slot: u16, visit: impl FnMut(Entry<'a>)) {
        self.effects.meet_database(self.number);
        let db: &'a Db = self.db;
        if db.tables.hides(usize::from(slot)) {
            return;
        }
        let entries = db.slot_iter(slot).map(|handle| Entry::of(db, handle));
        let is_live = |entry: &Entry<'a>| !entry.expiry().is_some_and(|at| is_expired(at, &self.access));
        entries.filter(is_live).for_each(visit);
    }

    /// Visits every live key outside hidden slots, in no order. O(n). Entries are scattered in memory,
    /// so each is prefetched some entries ahead of its visit.
    pub fn for_each(&self, mut visit: impl FnMut(Entry<'a>)) {
        self.effects.meet_database(self.number);
        let db: &'a Db = self.db;
        let mut visit_live = |handle| {
            let entry = Entry::of(db, handle);
            if !entry.expiry().is_some_and(|at| is_expired(at, &self.access)) {
                visit(entry);
            }
        };
        // A ring buffer of handles whose entries are being prefetched. The tables are walked by `for_each`,
        // because a loop over `next` of so many nested iterators takes three times the instructions.
        let mut on_their_way = [None; VISITED_AHEAD];
        let mut count = 0;
        db.shown().iter().for_each(|handle| {
            db.prefetch(handle);
            if let Some(arrived) = on_their_way[count % VISITED_AHEAD].replace(handle) {
                visit_live(arrived);
            }
            count += 1;
        });
        let (newest, oldest) = on_their_way.split_at(count % VISITED_AHEAD);
        oldest.iter().chain(newest).flatten().for_each(|handle| visit_live(*handle));
    }

    /// The hasher of this database's keys.
    pub fn hasher(&self) -> KeyHasher {
        self.db.hasher()
    }

    /// The first hash slot at or after `slot` that has keys and is not hidden. O(1).
    pub fn next_slot_with_keys(&self, slot: u16) -> Option<u16> {
        self.db.tables.next_slot(slot)
    }

    /// Scans some keys from `cursor` on, without those of hidden slots, and returns the next cursor. A scan
    /// begins with cursor 0 and ends when 0 is returned. `wanted` is called with every key. Keys for which it
    /// returns true are visited, except expired ones, which are noted for deletion.
    pub fn scan(
        &mut self,
        cursor: u64,
        mut wanted: impl FnMut(Entry<'a>) -> bool,
        mut visit: impl FnMut(Entry<'a>),
    ) -> u64 {
        self.effects.meet_database(self.number);
        let db: &'a Db = self.db;
        db.scan(cursor, |handle| {
            let entry = Entry::of(db, handle);
            if wanted(entry) {
                if self.is_hidden(handle) { self.note_expired(handle) } else { visit(entry) }
            }
        })
    }

    /// A random live key. Some of the expired keys met on the way are noted for deletion. If expired keys are
    /// not deleted (`ExpiryMode::Hide`) and every key has an expiry, the result may be an expired key. O(1),
    /// unless nearly all keys are expired; then O(n).
    pub fn random(&mut self, rng: &mut sluice_base::Rng) -> Option<Entry<'a>> {
        self.effects.meet_database(self.number);
        let db: &'a Db = self.db;
        for n in 0..RANDOM_TRIES {
            let handle = db.sample(rng)?;
            if !self.is_hidden(handle) {
                return Some(Entry::of(db, handle));
            }
            // Only the first few expired keys are noted, to keep the look-up short.
            if n < RANDOM_NOTES {
                self.note_expired(handle);
            }
        }
        if self.access.expiry != ExpiryMode::Delete && db.shown().len() == db.shown().expires_len() {
            return db.sample(rng).map(|handle| Entry::of(db, handle));
        }
        db.shown().iter().find(|handle| !self.is_hidden(*handle)).map(|handle| Entry::of(db, handle))
    }

    fn note_expired(&mut self, handle: Handle) {
        if self.access.expiry == ExpiryMode::Delete {
            self.effects.expired_by_reading(self.number, self.db.key(handle));
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

/// Prefetches buckets, then entries; see [`DbRef::prefetch`].
fn prefetch(db: &Db, hashes: impl Iterator<Item = u64> + Clone) {
    db.prefetch_buckets(hashes.clone());
    db.prefetch_entries(hashes);
}

impl DbMut<'_> {
    /// Prefetches the entries of keys, as [`DbRef::prefetch`] does.
    pub fn prefetch(&self, hashes: impl Iterator<Item = u64> + Clone) {
        prefetch(&self.dbs[self.number], hashes);
    }

    /// Another database of the same keyspace; `None` if there is no such number.
    pub fn other(&mut self, number: usize) -> Option<DbMut<'_>> {
        if number >= self.dbs.len() {
            return None;
        }
        Some(DbMut { dbs: self.dbs, number, access: self.access, effects: self.effects })
    }

    /// The database, opened to read, for commands that read several keys before they write.
    pub fn as_read(&mut self) -> DbRef<'_> {
        let DbMut { dbs, number, access, effects } = self;
        DbRef { db: &dbs[*number], number: *number, access: *access, effects }
    }

    /// The database, opened to read several keys. The caller deletes expired keys first.
    pub fn reading(&mut self) -> DbRef<'_> {
        DbRef { db: &self.dbs[self.number], number: self.number, access: self.access, effects: self.effects }
    }

    /// The database, opened to read `keys`. Expired keys among them are deleted first, as by any write, but
    /// only those before the first key that holds another type than `wanted`, because the command fails at
    /// that key.
    pub fn as_read_of<'k>(
        &mut self,
        mut keys: impl Iterator<Item = Key<'k>>,
        wanted: Option<Type>,
    ) -> DbRef<'_> {
        let ends = |found: Option<Found>, db: &Db| match (found, wanted) {
            (Some(found), Some(wanted)) => db.type_of(found.handle) != wanted,
            (None, _) | (_, None) => false,
        };
        let before = self.effects.begin_expiring_ahead();
        keys.any(|key| {
            let found = self.find(key);
            ends(found, &self.dbs[self.number])
        });
        self.effects.end_expiring_ahead(before);
        self.as_read()
    }

    /// The number of this database.
    pub fn number(&self) -> usize {
        self.number
    }

    /// A key by name, with its hash.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::hashed(bytes, self.dbs[self.number].hasher())
    }

    #[inline]
    fn db(&mut self) -> &mut Db {
        &mut self.dbs[self.number]
    }

    /// The entry's position, for a write. A logically expired key counts as absent; with
    /// [`ExpiryMode::Delete`] it is deleted here, before the command's own change.
    #[inline]
    fn find(&mut self, key: Key<'_>) -> Option<Found> {
        self.effects.meet(self.number, key);
        let (found, head) = self.dbs[self.number].find_head(key)?;
        if head.has_expiry() {
            return self.find_living(found, key);
        }
        Some(found)
    }

    /// [`DbMut::find`] for an entry with an expiry.
    #[inline(never)]
    fn find_living(&mut self, found: Found, key: Key<'_>) -> Option<Found> {
        let at = self.dbs[self.number].expiry(found.handle)?;
        if is_expired(at, &self.access) {
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
        self.effects.expired(self.number, key);
    }

    /// The key's entry, to read before a change. Counts and touches the access clock as a read does.
    #[inline]
    pub fn get(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        match self.find(key) {
            Some(found) => {
                self.effects.hit();
                let db = &self.dbs[self.number];
                let entry = Entry::of(db, found.handle);
                entry.touch(self.access.touch);
                Some(entry)
            }
            None => {
                self.effects.miss(self.number, key);
                None
            }
        }
    }

    /// The entry of a key without counting a hit or miss, but touching the access clock, for a write that
    /// reads the entry before it changes it.
    #[inline]
    pub fn get_uncounted(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        let found = self.find(key)?;
        let db = &self.dbs[self.number];
        db.set_clock(found.handle, self.access.touch.after(db.clock(found.handle)));
        Some(Entry::of(db, found.handle))
    }

    /// The entry of a key without counting a hit or miss and without touching the access clock.
    pub fn look(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        let found = self.find(key)?;
        Some(Entry::of(&self.dbs[self.number], found.handle))
    }

    /// Stores a value under a key and replaces any old one; the result is whether the key existed.
    #[inline]
    pub fn set(&mut self, key: Key<'_>, value: NewValue<'_>, expiry: SetExpiry, event: Event) -> bool {
        let found = self.find(key);
        let existed = found.is_some();
        match found {
            Some(found) => self.overwrite(found, key, value, expiry),
            None => self.insert(key, value, expiry),
        }
        self.effects.key_modified(self.number, key, event, 1);
        if matches!(expiry, SetExpiry::At(_)) {
            self.effects.key_modified(self.number, key, Event::Expire, 0);
        }
        existed
    }

    /// Stores a value under an absent key; this counts as no change and is not propagated. It is for DEBUG
    /// POPULATE. The result is whether the key was absent.
    pub fn populate(&mut self, key: Key<'_>, value: NewValue<'_>) -> bool {
        let absent = self.find(key).is_none();
        if absent {
            self.insert(key, value, SetExpiry::Clear);
            self.effects.key_modified(self.number, key, Event::Set, 0);
        }
        absent
    }

    fn insert(&mut self, key: Key<'_>, value: NewValue<'_>, expiry: SetExpiry) {
        self.clear_hidden(key);
        let clock = self.access.touch.fresh();
        let expiry = match expiry {
            SetExpiry::At(at) => Some(at),
            SetExpiry::Clear | SetExpiry::Keep => None,
        };
        self.db().insert(key, value, Meta { expiry, clock });
        self.effects.key_created(self.number, key);
    }

    /// This function is always inlined: because it has more than one caller, the compiler would otherwise not
    /// inline it, which costs SET 18 instructions.
    #[inline(always)]
    fn overwrite(&mut self, found: Found, key: Key<'_>, value: NewValue<'_>, expiry: SetExpiry) {
        let expiry = match expiry {
            SetExpiry::At(at) => Some(at),
            SetExpiry::Clear => None,
            SetExpiry::Keep => self.dbs[self.number].expiry(found.handle),
        };
        match value {
            // A string that is no integer is the most frequent case; if it fits the old block, no
            // [`Payload`] is built.
            NewValue::Str(text) if parse_i64(text).is_none() => {
                let inside = (Form::StrInline, text);
                if !self.dbs[self.number].overwrite_inside(found, key, inside, expiry, self.access.touch) {
                    self.overwrite_any(found, key, NewValue::Plain(text), expiry);
                }
            }
            other => self.overwrite_any(found, key, other, expiry),
        }
    }

    #[inline(never)]
    fn overwrite_any(&mut self, found: Found, key: Key<'_>, value: NewValue<'_>, expiry: Option<i64>) {
        let payload = Payload::of(key.bytes.len(), expiry.is_some(), value);
        if let Some(inside) = payload.inside()
            && self.dbs[self.number].overwrite_inside(found, key, inside, expiry, self.access.touch)
        {
            return;
        }
        self.overwrite_elsewhere(found, key, payload, expiry);
    }

    fn overwrite_elsewhere(&mut self, found: Found, key: Key<'_>, payload: Payload<'_>, expiry: Option<i64>) {
        let clock = self.access.touch.after(self.dbs[self.number].clock(found.handle));
        let value = self.db().overwrite(found, key, payload, Meta { expiry, clock });
        self.effects.discard(value);
    }

    /// Replaces a value with the integer that `change` computes from the old value, which is `None` for an
    /// absent key; keeps the expiry. If the old value is stored as an integer, this takes one look-up and no
    /// allocation. If `change` returns an error, nothing changes.
    #[inline]
    pub fn update_int<E>(
        &mut self,
        key: Key<'_>,
        event: Event,
        change: impl FnOnce(Option<Entry<'_>>) -> Result<i64, E>,
    ) -> Result<i64, E> {
        let Some(found) = self.find(key) else {
            let value = change(None)?;
            self.set(key, NewValue::Int(value), SetExpiry::Clear, event);
            return Ok(value);
        };
        let db = &mut self.dbs[self.number];
        let value = change(Some(Entry::of(db, found.handle)))?;
        if !db.write_int(found.handle, value, |clock| self.access.touch.after(clock)) {
            self.overwrite(found, key, NewValue::Int(value), SetExpiry::Keep);
        }
        self.effects.key_modified(self.number, key, event, 1);
        Ok(value)
    }

    /// Writes `bytes` at `offset` of a string, growing it with zero bytes as needed; the result is the
    /// string's new length. An absent key counts as an empty string. The caller has checked the size limit.
    /// Large strings change in place.
    ///
    /// # Errors
    /// The key holds another type; nothing has changed.
    pub fn write_at(
        &mut self,
        key: Key<'_>,
        offset: usize,
        bytes: &[u8],
        event: Event,
    ) -> Result<usize, WrongType> {
        let end = offset + bytes.len();
        let Some(found) = self.find(key) else {
            self.set(key, NewValue::written(Str::Inline(b""), offset, bytes), SetExpiry::Keep, event);
            return Ok(end);
        };
        let len = match self.dbs[self.number].entry(found.handle).value() {
            ValueRef::Str(Str::Shared(_) | Str::Pages(_)) => self.write_outside(found, offset, bytes),
            ValueRef::Str(text @ (Str::Int(_) | Str::Inline(_))) => {
                let len = text.len().max(end);
                if !self.write_inside(found, offset, bytes) {
                    self.write_anew(found, key, offset, bytes);
                }
                len
            }
            ValueRef::List(_)
            | ValueRef::Hash(_)
            | ValueRef::Stream(_)
            | ValueRef::Zset(_)
            | ValueRef::Set(_) => {
                return Err(WrongType);
            }
        };
        self.effects.key_modified(self.number, key, event, 1);
        Ok(len)
    }

    fn write_outside(&mut self, found: Found, offset: usize, bytes: &[u8]) -> usize {
        let written = self.db().write_outside(found.handle, offset, bytes);
        let written = written.expect("the string was seen outside its block");
        self.effects.discard(written.garbage);
        written.len
    }

    fn write_inside(&mut self, found: Found, offset: usize, bytes: &[u8]) -> bool {
        let end = offset + bytes.len();
        let Some(inline) = self.db().inline_mut(found.handle, end) else { return false };
        inline[offset..end].copy_from_slice(bytes);
        true
    }

    fn write_anew(&mut self, found: Found, key: Key<'_>, offset: usize, bytes: &[u8]) {
        let value = match self.dbs[self.number].entry(found.handle).value() {
            ValueRef::Str(text) => NewValue::written(text, offset, bytes),
            ValueRef::List(_)
            | ValueRef::Hash(_)
            | ValueRef::Stream(_)
            | ValueRef::Zset(_)
            | ValueRef::Set(_) => return,
        };
        self.overwrite(found, key, value, SetExpiry::Keep);
    }

    /// Opens the list of a key for changes; `None` if the key is absent.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_list<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: ListLimits,
    ) -> Result<Option<ListEdit<'e>>, WrongType> {
        self.edit(key, limits)
    }

    /// Opens the list of a key for changes. An absent key counts as an empty list, and is created if the
    /// list has elements at the end of the edit.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_or_create_list<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: ListLimits,
    ) -> Result<ListEdit<'e>, WrongType> {
        self.edit_or_create(key, limits, |db| db.blank(ListEncoding::Listpack))
    }

    /// Opens the hash of a key for changes; `None` if the key is absent.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_hash<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: HashLimits,
    ) -> Result<Option<HashEdit<'e>>, WrongType> {
        self.edit(key, limits)
    }

    /// Opens the hash of a key for changes. An absent key counts as an empty hash, and is created if the
    /// hash has fields at the end of the edit.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_or_create_hash<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: HashLimits,
    ) -> Result<HashEdit<'e>, WrongType> {
        self.edit_or_create(key, limits, |db| db.blank(HashEncoding::Listpack))
    }

    /// Opens the stream of a key for changes; `None` if the key is absent.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_stream<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: StreamLimits,
    ) -> Result<Option<StreamEdit<'e>>, WrongType> {
        let Some(found) = self.find(key) else { return Ok(None) };
        let db = &mut self.dbs[self.number];
        let clock = self.access.touch.after(db.clock(found.handle));
        let index = db.open_stream(found).ok_or(WrongType)?;
        db.set_clock(found.handle, clock);
        Ok(Some(StreamEdit::new(db, self.effects, (self.number, key), limits, index)))
    }

    /// Creates a stream without entries under an absent key, and opens it for changes.
    pub fn create_stream<'e>(&'e mut self, key: Key<'e>, limits: StreamLimits) -> StreamEdit<'e> {
        self.insert(key, NewValue::Stream(Stream::new()), SetExpiry::Clear);
        let db = &mut self.dbs[self.number];
        let found = db.find(key).expect("it was just inserted");
        let index = db.open_stream(found).expect("a stream was inserted");
        StreamEdit::new(db, self.effects, (self.number, key), limits, index)
    }

    /// The seed with which members of large collections are hashed.
    pub fn member_seed(&self) -> sluice_base::HashSeed {
        self.dbs[self.number].hasher().seed()
    }

    /// The context that changes of this database's sorted sets need.
    pub fn zset_context(&self, limits: ZsetLimits) -> ZsetContext {
        ZsetContext::new(limits, self.member_seed())
    }

    /// Opens the sorted set of a key for changes; `None` if the key is absent.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_zset<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: ZsetLimits,
    ) -> Result<Option<ZsetEdit<'e>>, WrongType> {
        self.edit(key, limits)
    }

    /// Opens the sorted set of a key for changes. An absent key counts as an empty set, and is created
    /// if the set has elements at the end of the edit.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_or_create_zset<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: ZsetLimits,
    ) -> Result<ZsetEdit<'e>, WrongType> {
        self.edit_or_create(key, limits, |db| db.blank(ZsetEncoding::Listpack))
    }

    /// Stores a sorted set, which must not be empty, under a key and replaces any old value. This counts as
    /// one change, and clients that wait for the key are woken. The result is whether the key existed.
    pub fn store_zset(&mut self, key: Key<'_>, zset: Zset, event: Event) -> bool {
        let existed = self.set(key, NewValue::Zset(zset), SetExpiry::Clear, event);
        self.effects.key_ready(self.number, key);
        existed
    }

    /// Stores a list under a key and replaces any old value; wakes clients that wait for the key. The result
    /// is whether the key existed.
    pub fn store_list(&mut self, key: Key<'_>, list: List, event: Event) -> bool {
        let existed = self.set(key, NewValue::List(list), SetExpiry::Clear, event);
        self.effects.key_ready(self.number, key);
        existed
    }

    /// Opens the set of a key for changes; `None` if the key is absent.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_set<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: SetLimits,
    ) -> Result<Option<SetEdit<'e>>, WrongType> {
        self.edit(key, limits)
    }

    /// Opens the set of a key for changes. An absent key counts as an empty set, and is created if the set
    /// has members at the end of the edit. The caller is about to add `count` members, of which `first` is
    /// the first.
    ///
    /// # Errors
    /// The key holds another type.
    pub fn edit_or_create_set<'e>(
        &'e mut self,
        key: Key<'e>,
        limits: SetLimits,
        first: &[u8],
        count: usize,
    ) -> Result<SetEdit<'e>, WrongType> {
        self.edit_or_create(key, limits, |_| Set::new(Set::first_encoding(first, count, limits), limits))
    }

    fn edit<'e, C: Editable>(
        &'e mut self,
        key: Key<'e>,
        limits: C::Limits,
    ) -> Result<Option<Edit<'e, C>>, WrongType> {
        let Some(found) = self.find(key) else { return Ok(None) };
        self.edit_found(found, key, limits).map(Some)
    }

    fn edit_or_create<'e, C: Editable>(
        &'e mut self,
        key: Key<'e>,
        limits: C::Limits,
        new: impl FnOnce(&mut Db) -> C,
    ) -> Result<Edit<'e, C>, WrongType> {
        if let Some(found) = self.find(key) {
            return self.edit_found(found, key, limits);
        }
        self.clear_hidden(key);
        let meta = Meta { expiry: None, clock: self.access.touch.fresh() };
        let db = &mut self.dbs[self.number];
        let open = Open::new(new(db));
        Ok(Edit::new(db, self.effects, (self.number, key), (meta, limits), open))
    }

    fn edit_found<'e, C: Editable>(
        &'e mut self,
        found: Found,
        key: Key<'e>,
        limits: C::Limits,
    ) -> Result<Edit<'e, C>, WrongType> {
        let db = &mut self.dbs[self.number];
        let clock = self.access.touch.after(db.clock(found.handle));
        let meta = Meta { expiry: db.expiry(found.handle), clock };
        let open = db.open(found).ok_or(WrongType)?;
        db.set_clock(found.handle, clock);
        Ok(Edit::new(db, self.effects, (self.number, key), (meta, limits), open))
    }

    /// Removes a key; the result is whether it existed. A key that has expired but stays in the table
    /// ([`ExpiryMode::Hide`]) counts as existing.
    #[inline]
    pub fn remove(&mut self, key: Key<'_>, event: Event) -> bool {
        let Some(found) = self.find(key).or_else(|| self.find_hidden(key)) else { return false };
        let value = self.db().remove(found, key);
        self.effects.discard(value);
        self.effects.key_modified(self.number, key, event, 1);
        true
    }

    /// Deletes a key whose new expiry has passed already, as if it had just expired. This counts as an
    /// expiry and as a change, and the deletion is propagated instead of the command. The result is
    /// whether the key existed.
    pub fn expire_now(&mut self, key: Key<'_>) -> bool {
        let Some(found) = self.find(key) else { return false };
        self.delete_expired(found, key);
        self.effects.count_change();
        self.effects.do_not_propagate();
        true
    }

    /// Deletes a key if it has expired, as every write that looks up the key does; `access.expiry` must be
    /// [`ExpiryMode::Delete`].
    pub fn delete_if_expired(&mut self, key: Key<'_>) {
        self.find(key);
    }

    /// Sets or clears the expiry of a key; the result is whether the key exists.
    pub fn set_expiry(&mut self, key: Key<'_>, expiry: Option<i64>, event: Event) -> bool {
        let Some(found) = self.find(key) else { return false };
        self.db().set_expiry(found, key, expiry);
        self.effects.key_modified(self.number, key, event, 1);
        true
    }

    /// Moves the value of `from`, with its expiry, to the key `to` and replaces any value there. The result
    /// is whether `from` existed. A value stored outside its entry's block is moved without a copy: O(1).
    pub fn rename(&mut self, from: Key<'_>, to: Key<'_>) -> bool {
        let Some(found) = self.find(from) else { return false };
        // The value is taken before the target is cleared, because both names may be the same.
        let taken = self.db().take(found, from);
        self.make_room(to);
        let handle = self.db().put(to, taken);
        self.note_ready(self.number, to, handle);
        self.effects.key_created(self.number, to);
        self.effects.key_modified(self.number, from, Event::RenameFrom, 0);
        self.effects.key_modified(self.number, to, Event::RenameTo, 1);
        true
    }

    /// Moves a key to the database `to` and replaces any value there; the result is whether the key existed
    /// in this database and the other database exists. O(1), as [`DbMut::rename`].
    pub fn move_to(&mut self, key: Key<'_>, to: usize) -> bool {
        if to >= self.dbs.len() {
            return false;
        }
        let Some(found) = self.find(key) else { return false };
        let taken = self.db().take(found, key);
        if let Some(mut target) = self.other(to) {
            target.make_room(key);
            let handle = target.db().put(key, taken);
            target.note_ready(to, key, handle);
            target.effects.key_created(to, key);
        }
        self.effects.key_modified(self.number, key, Event::MoveFrom, 0);
        self.effects.key_modified(to, key, Event::MoveTo, 1);
        true
    }

    /// Copies the value of `from`, with its expiry, to the key `to` of database `number` and replaces any
    /// value there; the result is whether `from` and the database exist. A value stored outside its entry's
    /// block is shared until one of the two keys changes: O(1).
    pub fn copy_to(&mut self, from: Key<'_>, number: usize, to: Key<'_>) -> bool {
        let Some(found) = self.find(from) else { return false };
        let copy = self.db().copy_of(found.handle);
        let Some(mut target) = self.other(number) else { return false };
        target.make_room(to);
        let handle = target.db().put(to, copy);
        target.note_ready(number, to, handle);
        target.effects.key_created(number, to);
        target.effects.key_modified(number, to, Event::CopyTo, 1);
        true
    }

    /// Stores a value from DUMP and replaces any old value, expired or not. The access clock is set to
    /// `clock`, or if that is `None`, to the clock of a new key.
    pub fn restore(&mut self, key: Key<'_>, value: NewValue<'_>, expiry: Option<i64>, clock: Option<u32>) {
        if self.access.expiry == ExpiryMode::Hide && self.find(key).is_none() {
            self.clear_hidden(key);
        }
        self.take_stored(key);
        let clock = clock.unwrap_or(self.access.touch.fresh());
        self.db().insert(key, value, Meta { expiry, clock });
        if let Some(found) = self.dbs[self.number].find(key) {
            self.note_ready(self.number, key, found.handle);
        }
        self.effects.key_created(self.number, key);
        self.effects.key_modified(self.number, key, Event::Restore, 1);
    }

    /// Removes a key, expired or not; the result is whether it existed.
    pub fn remove_stored(&mut self, key: Key<'_>, event: Event) -> bool {
        let was_there = self.take_stored(key);
        if was_there {
            self.effects.key_modified(self.number, key, event, 1);
        }
        was_there
    }

    /// Removes a key, expired or not, without recording a change; the result is whether it existed.
    fn take_stored(&mut self, key: Key<'_>) -> bool {
        self.effects.meet(self.number, key);
        let Some(found) = self.dbs[self.number].find(key) else { return false };
        let value = self.db().remove(found, key);
        self.effects.discard(value);
        true
    }

    /// Records that a key now holds a value, if clients can wait for values of its type.
    fn note_ready(&mut self, number: usize, key: Key<'_>, handle: Handle) {
        match self.dbs[number].type_of(handle) {
            Type::List | Type::Stream | Type::Zset => self.effects.key_ready(number, key),
            Type::String | Type::Hash | Type::Set => {}
        }
    }

    /// The position of a key that has expired but stays in the table (`ExpiryMode::Hide`).
    #[inline]
    fn find_hidden(&self, key: Key<'_>) -> Option<Found> {
        if self.access.expiry != ExpiryMode::Hide {
            return None;
        }
        self.dbs[self.number].find(key)
    }

    /// Deletes a key that [`DbMut::find`] did not find because it has expired but stays in the table
    /// ([`ExpiryMode::Hide`]), before its name is used again. The deletion is propagated ahead of the
    /// command, because a replica, or the server after a restart, would otherwise find the key alive.
    #[inline]
    fn clear_hidden(&mut self, key: Key<'_>) {
        if let Some(found) = self.find_hidden(key) {
            self.delete_expired(found, key);
        }
    }

    /// Removes any value stored under a name that is about to be used.
    fn make_room(&mut self, key: Key<'_>) {
        if let Some(found) = self.find(key) {
            let value = self.db().remove(found, key);
            self.effects.discard(value);
        }
        self.clear_hidden(key);
    }
}

/// Number of entries that an iteration over all keys prefetches ahead.
const VISITED_AHEAD: usize = 32;
/// Number of random keys that are tried before all keys are examined.
const RANDOM_TRIES: usize = 100;
/// Number of first tries in which an expired key is noted for deletion.
const RANDOM_NOTES: usize = 16;
