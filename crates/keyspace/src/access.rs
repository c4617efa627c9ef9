//! The doors a command gets: [`DbRef`] to read, [`DbMut`] to change.

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

/// A database to read from.
pub struct DbRef<'a> {
    pub(crate) db: &'a Db,
    pub(crate) number: usize,
    /// How this command looks at keys.
    pub access: Access,
    /// Where look-ups leave their effects.
    pub effects: &'a mut Effects,
}

/// A database to change.
pub struct DbMut<'a> {
    pub(crate) dbs: &'a mut [Db],
    pub(crate) number: usize,
    /// How this command looks at keys.
    pub access: Access,
    /// Where changes leave their effects.
    pub effects: &'a mut Effects,
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

impl<'a> DbRef<'a> {
    /// Asks the processor for the entries of keys that are looked up soon: first for their buckets, then for
    /// what the buckets name.
    pub fn prefetch(&self, hashes: impl Iterator<Item = u64> + Clone) {
        prefetch(self.db, hashes);
    }

    /// The key's entry; a logically expired key is absent, and noted for deletion. Counts a hit or a miss.
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

    /// The entry of a key without touching it: for commands that ask about a key rather than use it.
    #[inline]
    pub fn peek(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let entry = self.look(key);
        match entry {
            Some(_) => self.effects.hit(),
            None => self.effects.miss(self.number, key),
        }
        entry
    }

    /// The entry of a key without touching it; no event is published where there is no key.
    #[inline]
    pub fn peek_quietly(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        let entry = self.look(key);
        match entry {
            Some(_) => self.effects.hit(),
            None => self.effects.quiet_miss(),
        }
        entry
    }

    /// The entry of a key without counting or touching.
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

    /// What is stored under `key`, expired or not, without any trace of the look-up.
    pub fn stored(&mut self, key: Key<'_>) -> Option<Entry<'a>> {
        self.effects.meet(self.number, key);
        self.db.find_entry(key)
    }

    /// A key by name, hashed here.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::hashed(bytes, self.db.hasher())
    }

    /// The number of this database.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Number of keys, logically expired ones included, those of hidden slots left out.
    pub fn len(&self) -> usize {
        self.effects.meet_database(self.number);
        self.db.shown().len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.db.shown().is_empty()
    }

    /// Every live key of a hash slot, in no order; none with [`crate::Layout::One`], and of a slot that is
    /// hidden. O(keys of the slot).
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

    /// Every live key that is not hidden, in no order. O(n). The entries lie anywhere in memory: each is
    /// asked for some entries ahead of its visit.
    pub fn for_each(&self, mut visit: impl FnMut(Entry<'a>)) {
        self.effects.meet_database(self.number);
        let db: &'a Db = self.db;
        let mut visit_live = |handle| {
            let entry = Entry::of(db, handle);
            if !entry.expiry().is_some_and(|at| is_expired(at, &self.access)) {
                visit(entry);
            }
        };
        // A ring of handles whose entries are on their way. The tables are walked from inside, with
        // `Iterator::for_each`: `next` of so many nested iterators takes three times the instructions.
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

    /// How the keys are hashed.
    pub fn hasher(&self) -> KeyHasher {
        self.db.hasher()
    }

    /// The first hash slot with keys from `slot` on that is not hidden. O(1).
    pub fn next_slot_with_keys(&self, slot: u16) -> Option<u16> {
        self.db.tables.next_slot(slot)
    }

    /// Some keys from `cursor` on, hidden ones left out, and the next cursor; 0 starts and ends. `wanted`
    /// sees every key; those it wants are visited, unless they are expired: then they are noted for
    /// deletion instead.
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

    /// A random live key. Some of the expired ones met on the way are noted for deletion. Where they stay and
    /// every key has an expiry, an expired one may be the answer. O(1) unless nearly all keys are expired,
    /// then O(n).
    pub fn random(&mut self, rng: &mut sluice_base::Rng) -> Option<Entry<'a>> {
        self.effects.meet_database(self.number);
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

/// See [`DbRef::prefetch`].
fn prefetch(db: &Db, hashes: impl Iterator<Item = u64> + Clone) {
    db.prefetch_buckets(hashes.clone());
    db.prefetch_entries(hashes);
}

impl DbMut<'_> {
    /// As [`DbRef::prefetch`].
    pub fn prefetch(&self, hashes: impl Iterator<Item = u64> + Clone) {
        prefetch(&self.dbs[self.number], hashes);
    }

    /// Another database of the same keyspace.
    pub fn other(&mut self, number: usize) -> Option<DbMut<'_>> {
        if number >= self.dbs.len() {
            return None;
        }
        Some(DbMut { dbs: self.dbs, number, access: self.access, effects: self.effects })
    }

    /// The database to read from, for what a command looks at before it writes: several keys at once.
    pub fn as_read(&mut self) -> DbRef<'_> {
        let DbMut { dbs, number, access, effects } = self;
        DbRef { db: &dbs[*number], number: *number, access: *access, effects }
    }

    /// The database, to read several keys at once. What has expired is to be deleted first.
    pub fn reading(&mut self) -> DbRef<'_> {
        DbRef { db: &self.dbs[self.number], number: self.number, access: self.access, effects: self.effects }
    }

    /// The database to read these keys from, of which those that have expired are deleted first, as a write
    /// does with each key that it meets: up to one that holds another type than is wanted, where the command
    /// ends.
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

    /// A key by name, hashed here.
    pub fn key<'k>(&self, bytes: &'k [u8]) -> Key<'k> {
        Key::hashed(bytes, self.dbs[self.number].hasher())
    }

    #[inline]
    fn db(&mut self) -> &mut Db {
        &mut self.dbs[self.number]
    }

    /// The entry's position, for a write: a logically expired key is deleted here, before the command's own
    /// change.
    #[inline]
    fn find(&mut self, key: Key<'_>) -> Option<Found> {
        self.effects.meet(self.number, key);
        let (found, head) = self.dbs[self.number].find_head(key)?;
        if head.has_expiry() {
            return self.find_living(found, key);
        }
        Some(found)
    }

    /// What [`DbMut::find`] does with an entry that has an expiry.
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

    /// The key's entry, to look at before changing it. Counts a hit or a miss and touches it, as a read does.
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

    /// The entry of a key without counting, as most writes look at what they are about to change.
    #[inline]
    pub fn get_uncounted(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        let found = self.find(key)?;
        let db = &self.dbs[self.number];
        db.set_clock(found.handle, self.access.touch.after(db.clock(found.handle)));
        Some(Entry::of(db, found.handle))
    }

    /// The entry of a key without counting or touching.
    pub fn look(&mut self, key: Key<'_>) -> Option<Entry<'_>> {
        let found = self.find(key)?;
        Some(Entry::of(&self.dbs[self.number], found.handle))
    }

    /// Stores a value under a key, whatever was there; returns whether the key existed.
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

    /// Stores a value under a key that is absent, which counts as no change and is not propagated: for DEBUG
    /// POPULATE. Whether the key was absent.
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

    /// Always in place: with a further caller the compiler would make it a function, 18 instructions of SET.
    #[inline(always)]
    fn overwrite(&mut self, found: Found, key: Key<'_>, value: NewValue<'_>, expiry: SetExpiry) {
        let expiry = match expiry {
            SetExpiry::At(at) => Some(at),
            SetExpiry::Clear => None,
            SetExpiry::Keep => self.dbs[self.number].expiry(found.handle),
        };
        match value {
            // Most of what is written: it needs no payload where it takes the place of another such string.
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

    /// Replaces a value by the integer that `change` makes of it, or of nothing; keeps the expiry. From one
    /// integer to another it takes one look-up and no allocation. An error of `change` leaves everything as
    /// it was.
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

    /// Writes `bytes` at `offset` of a string, growing it with zero bytes as needed; its new length. A key
    /// that is absent is an empty string. The caller has checked the size limit. Large strings change in
    /// place.
    ///
    /// # Errors
    /// The key holds another type: nothing has changed.
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

    /// Begins to change the list of a key; `None` when the key is absent.
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

    /// The list of a key, to be edited; a key that is absent is an empty list, which comes into being when it
    /// has elements at the end of the edit.
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

    /// Begins to change the hash of a key; `None` when the key is absent.
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

    /// The hash of a key, to be edited; a key that is absent is an empty hash, which comes into being when it
    /// has fields at the end of the edit.
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

    /// Begins to change the stream of a key; `None` when the key is absent.
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

    /// Begins to change a stream of a key that is absent, and comes into being without entries.
    pub fn create_stream<'e>(&'e mut self, key: Key<'e>, limits: StreamLimits) -> StreamEdit<'e> {
        self.insert(key, NewValue::Stream(Stream::new()), SetExpiry::Clear);
        let db = &mut self.dbs[self.number];
        let found = db.find(key).expect("it was just inserted");
        let index = db.open_stream(found).expect("a stream was inserted");
        StreamEdit::new(db, self.effects, (self.number, key), limits, index)
    }

    /// Under which members of large collections are hashed.
    pub fn member_seed(&self) -> sluice_base::HashSeed {
        self.dbs[self.number].hasher().seed()
    }

    /// What changes of sorted sets of this database need.
    pub fn zset_context(&self, limits: ZsetLimits) -> ZsetContext {
        ZsetContext::new(limits, self.member_seed())
    }

    /// Begins to change the sorted set of a key; `None` when the key is absent.
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

    /// The sorted set of a key, to be edited; a key that is absent is an empty set, which comes into being
    /// when it has elements at the end of the edit.
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

    /// Stores a sorted set, which must not be empty, under a key, whatever was there: one change. Whether the
    /// key existed.
    pub fn store_zset(&mut self, key: Key<'_>, zset: Zset, event: Event) -> bool {
        let existed = self.set(key, NewValue::Zset(zset), SetExpiry::Clear, event);
        self.effects.key_ready(self.number, key);
        existed
    }

    /// Stores a list under a key, whatever was there; clients may wait for it. Whether the key existed.
    pub fn store_list(&mut self, key: Key<'_>, list: List, event: Event) -> bool {
        let existed = self.set(key, NewValue::List(list), SetExpiry::Clear, event);
        self.effects.key_ready(self.number, key);
        existed
    }

    /// Begins to change the set of a key; `None` when the key is absent.
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

    /// The set of a key, to be edited; a key that is absent is an empty set, which comes into being when it
    /// has members at the end of the edit. So many members are about to be added, `first` first.
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

    /// Removes a key; whether it was there. A hidden one counts as there.
    #[inline]
    pub fn remove(&mut self, key: Key<'_>, event: Event) -> bool {
        let Some(found) = self.find(key).or_else(|| self.find_hidden(key)) else { return false };
        let value = self.db().remove(found, key);
        self.effects.discard(value);
        self.effects.key_modified(self.number, key, event, 1);
        true
    }

    /// Deletes a key whose new expiry has passed already, as if it had expired just now: it counts as expired
    /// and as a change, and the deletion propagates in place of the command. Whether it was there.
    pub fn expire_now(&mut self, key: Key<'_>) -> bool {
        let Some(found) = self.find(key) else { return false };
        self.delete_expired(found, key);
        self.effects.count_change();
        self.effects.do_not_propagate();
        true
    }

    /// Deletes a key if it is there and has expired, as every write does that meets one; `access.expiry` must
    /// be [`ExpiryMode::Delete`].
    pub fn delete_if_expired(&mut self, key: Key<'_>) {
        self.find(key);
    }

    /// Sets or clears the expiry of a key; whether the key was there.
    pub fn set_expiry(&mut self, key: Key<'_>, expiry: Option<i64>, event: Event) -> bool {
        let Some(found) = self.find(key) else { return false };
        self.db().set_expiry(found, key, expiry);
        self.effects.key_modified(self.number, key, event, 1);
        true
    }

    /// Gives the value of `from`, with its expiry, the name `to`; what was there is gone. Whether `from` was
    /// there. A value outside its entry moves as it is: O(1).
    pub fn rename(&mut self, from: Key<'_>, to: Key<'_>) -> bool {
        let Some(found) = self.find(from) else { return false };
        // Taken first: the two names may be one.
        let taken = self.db().take(found, from);
        self.make_room(to);
        let handle = self.db().put(to, taken);
        self.note_ready(self.number, to, handle);
        self.effects.key_created(self.number, to);
        self.effects.key_modified(self.number, from, Event::RenameFrom, 0);
        self.effects.key_modified(self.number, to, Event::RenameTo, 1);
        true
    }

    /// Moves a key to another database, `to`, replacing what is there; whether the key was in this one. O(1),
    /// as [`DbMut::rename`].
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

    /// Copies the value of `from`, with its expiry, to `to` of database `number`, replacing what is there;
    /// whether `from` was there. A value outside its entry is shared until one of the two changes: O(1).
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

    /// Stores a value that was dumped in place of what was there, expired or not: a key that had expired is
    /// replaced as any other. The access clock is `clock`, or that of a new key.
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

    /// Removes a key, expired or not; whether it was there.
    pub fn remove_stored(&mut self, key: Key<'_>, event: Event) -> bool {
        let was_there = self.take_stored(key);
        if was_there {
            self.effects.key_modified(self.number, key, event, 1);
        }
        was_there
    }

    /// Frees the name of a key, expired or not; whether it was there.
    fn take_stored(&mut self, key: Key<'_>) -> bool {
        self.effects.meet(self.number, key);
        let Some(found) = self.dbs[self.number].find(key) else { return false };
        let value = self.db().remove(found, key);
        self.effects.discard(value);
        true
    }

    /// Says so when a key came to hold a value that clients can wait for.
    fn note_ready(&mut self, number: usize, key: Key<'_>, handle: Handle) {
        match self.dbs[number].type_of(handle) {
            Type::List | Type::Stream | Type::Zset => self.effects.key_ready(number, key),
            Type::String | Type::Hash | Type::Set => {}
        }
    }

    /// Where a key is that has expired but stays: its name is still taken in the table.
    #[inline]
    fn find_hidden(&self, key: Key<'_>) -> Option<Found> {
        if self.access.expiry != ExpiryMode::Hide {
            return None;
        }
        self.dbs[self.number].find(key)
    }

    /// Deletes a key that [`DbMut::find`] did not find because it has expired and is hidden: the name is
    /// about to be used. The deletion is propagated ahead of the command, which would meet the key alive at a
    /// replica and behind a restart.
    #[inline]
    fn clear_hidden(&mut self, key: Key<'_>) {
        if let Some(found) = self.find_hidden(key) {
            self.delete_expired(found, key);
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
}

/// Entries of a walk over all keys that are on their way from memory.
const VISITED_AHEAD: usize = 32;
/// Random keys tried before all are looked at.
const RANDOM_TRIES: usize = 100;
/// How many of them are noted for deletion at most, where they are expired.
const RANDOM_NOTES: usize = 16;
