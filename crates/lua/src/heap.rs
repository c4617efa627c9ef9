//! The heap: every object of a machine, in arenas, with an account of their bytes. *The mark* is the position
//! in each arena after which the current run's objects lie (`api.rs`); it has nothing to do with the
//! collector's marking.
//!
//! Invariants: (1) a growth beyond the limit is an error: large growths are checked before they happen, small
//! ones afterwards, at the latest when they sum up to [`SLICE_BYTES`]; (2) no object is collected while a
//! native function runs; (3) a write to a table that is black or old passes the barrier of [`Heap::set`],
//! except for the globals that the host sets for a run, which are reset at the run's end.

use std::sync::Arc;

use sluice_base::Bytes;

use crate::arena::{Arena, Colour, Dying, Object};
use crate::code::Linked;
use crate::fault::Fault;
use crate::held::HeldBytes;
use crate::object::{Closure, Coroutine, NativeClosure, Thread, Upvalue, UpvalueState, Userdata};
use crate::pattern_cache::PatternCache;
use crate::strings::{StringSlot, Strings, single};
use crate::table::{LuaTable, TableSlot, guard};
use crate::text::number::push_number;
use crate::value::{ClosureRef, Kind, NativeRef, StrRef, TableRef, ThreadRef, UserdataRef, Value};

/// The events that a metatable can define. Tables remember the absence of the first eight, which
/// are looked up often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Metamethod {
    Index,
    NewIndex,
    Mode,
    Eq,
    Call,
    Add,
    Sub,
    Mul,
    Div,
    Mod,
    Pow,
    Unm,
    Len,
    Lt,
    Le,
    Concat,
    Metatable,
    ToString,
}

/// Names of [`Metamethod`]s, in their order.
const EVENT_NAMES: [&str; 18] = [
    "__index",
    "__newindex",
    "__mode",
    "__eq",
    "__call",
    "__add",
    "__sub",
    "__mul",
    "__div",
    "__mod",
    "__pow",
    "__unm",
    "__len",
    "__lt",
    "__le",
    "__concat",
    "__metatable",
    "__tostring",
];

/// Events whose absence a table remembers.
pub(crate) const REMEMBERED: u8 = 8;

/// Values that the host sets for the libraries, and state that the libraries keep between calls.
#[derive(Clone, Debug, Default)]
pub struct HostState {
    /// The state of `math.random`: 48 bits.
    pub random: u64,
    /// The host's time in seconds, for `os.clock`.
    pub clock: f64,
    /// Settings of the libraries, by indexes fixed in this crate.
    pub numbers: [f64; 16],
}

/// The phase of the collector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum CollectorPhase {
    /// No cycle is under way.
    #[default]
    Idle,
    /// Reachable objects are being marked.
    Mark,
    /// Unmarked objects are being freed. The fields are the number of the arena and its next slot.
    Sweep(u8, u32),
}

/// A marked object that must still be scanned; a table is scanned from its `scanned` position on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Grey {
    Table(TableRef),
    Closure(ClosureRef),
    Native(NativeRef),
    Upvalue(u32),
    Userdata(UserdataRef),
    Thread(ThreadRef),
    Proto(u32),
}

/// The collector's state in the heap.
#[derive(Debug, Default)]
pub(crate) struct GarbageCollector {
    pub(crate) phase: CollectorPhase,
    pub(crate) grey: Vec<Grey>,
    /// Tables with weak keys or values found in this cycle.
    pub(crate) weak: Vec<TableRef>,
    /// The position up to which the last table of `weak` is cleared.
    pub(crate) cleared: usize,
    /// Coroutines that have run during this cycle. They are scanned again, because writes to a stack have no
    /// barrier.
    pub(crate) threads: Vec<ThreadRef>,
    /// The number of times that stacks were scanned again in this cycle, since a weak table was last cleared.
    pub(crate) rounds: u32,
    /// Memory of large freed objects, which is freed in pieces.
    pub(crate) dying: Vec<Dying>,
    /// Bytes in use at which the next cycle begins.
    pub(crate) threshold: usize,
    pub(crate) stopped: bool,
    /// Bytes in use at which the next cycle begins, in percent of the bytes in use after the last cycle.
    pub(crate) pause: usize,
    /// Work of the collector in percent of the bytes that are allocated.
    pub(crate) multiplier: usize,
    /// Bytes before the mark at the end of the last cycle.
    pub(crate) kept: usize,
    /// Bytes in use at which the next slice begins.
    pub(crate) next_slice: usize,
}

impl GarbageCollector {
    /// Resets the settings that a program made by `collectgarbage`, which are for that program alone.
    pub(crate) fn be_normal(&mut self) {
        (self.stopped, self.pause, self.multiplier) = (false, 200, 200);
    }
}

/// All objects of a machine, with the count of their bytes.
#[derive(Debug, Default)]
pub struct Heap {
    pub(crate) strings: Strings,
    pub(crate) tables: Arena<LuaTable>,
    pub(crate) closures: Arena<Closure>,
    pub(crate) upvalues: Arena<Upvalue>,
    pub(crate) natives: Arena<NativeClosure>,
    pub(crate) userdata: Arena<Userdata>,
    pub(crate) threads: Arena<Thread>,
    /// Bytes in use, which `limit` bounds.
    pub(crate) bytes: usize,
    /// Bytes in use before the mark.
    pub(crate) old_bytes: usize,
    /// Bytes in use that belong to the image.
    pub(crate) shared_bytes: usize,
    /// Maximum number of bytes that may be in use.
    pub(crate) limit: usize,
    /// The colour of new objects.
    pub(crate) colour: Colour,
    /// The colour of objects that this cycle has marked.
    pub(crate) marked: Colour,
    pub(crate) collector: GarbageCollector,
    /// Whether a slice of the collector is due; code that sets this also sets [`Strings::set_due`].
    pub(crate) slice_due: bool,
    /// Whether the run's objects are kept at its end, because an object before the mark was given a reference
    /// to one after it, an old table got a new key, a new object was pinned, or the run has no mark.
    pub(crate) old_written: bool,
    /// Whether the mark is in force, so that writes to old objects are recorded.
    pub(crate) watching: bool,
    /// The guard of new tables: [`guard::OLD`] in a run without a mark, whose objects are always kept.
    pub(crate) born: u8,
    /// Recently used compiled patterns.
    pub(crate) patterns: PatternCache,
    /// Bytes outside of the heap that waiting native functions hold.
    pub(crate) held: HeldBytes,
    /// A buffer for building short strings.
    scratch: Vec<u8>,
    /// Names of events, and their hashes.
    pub(crate) events: Arc<[(Value, u32)]>,
    /// The metatable of strings.
    pub(crate) string_meta: Option<TableRef>,
    /// The native function that joins long strings for the operator `..`; it is pinned.
    pub(crate) joiner: Value,
    /// The table of globals.
    pub(crate) globals: Option<TableRef>,
    /// Values that are never collected, and values that a pin keeps.
    pub(crate) pinned: Vec<Value>,
    /// State shared with the host.
    pub host: HostState,
    /// Number of growths up to and including the one that fails; 0 if no growth fails.
    #[cfg(test)]
    pub(crate) growths_left: u64,
}

/// Bytes allocated between two slices of the collector.
pub(crate) const SLICE_BYTES: usize = 64 << 10;

/// A string of up to this many bytes is copied out of the scratch buffer, which is then used again.
const SCRATCH_MAX: usize = 256;

/// Bytes in use at which a machine's first cycle of the collector begins.
const FIRST_THRESHOLD: usize = 1 << 20;

impl Heap {
    /// A heap that may use `limit` bytes, with the strings of every heap: those of one byte, whose index is
    /// the byte, and the names of events.
    pub(crate) fn new(limit: usize) -> Heap {
        let mut heap = Heap::empty(limit);
        for byte in 0..=u8::MAX {
            let (string, _) = heap.strings.add(&[byte], 1);
            debug_assert!(single(byte) == string.into());
        }
        let mut add = |name: &str| {
            let (string, _) = heap.strings.add(name.as_bytes(), 1);
            (Value::from(string), heap.strings.hash(string))
        };
        let events: Vec<(Value, u32)> = EVENT_NAMES.iter().map(|name| add(name)).collect();
        heap.events = events.into();
        heap
    }

    /// A heap without a string.
    pub(crate) fn empty(limit: usize) -> Heap {
        let mut heap = Heap { limit, colour: 1, marked: 1, ..Heap::default() };
        heap.collector.threshold = FIRST_THRESHOLD;
        heap.collector.next_slice = FIRST_THRESHOLD;
        heap.collector.be_normal();
        heap
    }

    /// Counts `bytes` more bytes in use. Fails if the limit is exceeded; the limit is checked only if at
    /// least `next_slice` bytes are in use.
    #[inline(always)]
    pub(crate) fn charge(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes += bytes;
        #[cfg(test)]
        if self.fails() {
            return Err(Fault::memory());
        }
        if self.bytes >= self.collector.next_slice {
            return self.charged();
        }
        Ok(())
    }

    #[cold]
    fn charged(&mut self) -> Result<(), Fault> {
        self.ask_for_slice();
        if self.bytes + self.held.sum() > self.limit { Err(Fault::memory()) } else { Ok(()) }
    }

    /// Checks that `bytes` more bytes may be used, without counting them. Must be called before a buffer
    /// grows.
    ///
    /// # Errors
    /// `not enough memory` if the limit does not allow `bytes` more bytes.
    pub fn room(&mut self, bytes: usize) -> Result<(), Fault> {
        #[cfg(test)]
        if self.fails() {
            return Err(Fault::memory());
        }
        if (self.bytes + self.held.sum()).saturating_add(bytes) > self.limit {
            self.ask_for_slice();
            return Err(Fault::memory());
        }
        Ok(())
    }

    /// Makes the interpreter's loop exit for a slice of the collector, unless the collector is stopped.
    fn ask_for_slice(&mut self) {
        if !self.collector.stopped {
            self.slice_due = true;
            self.strings.set_due(true);
        }
    }

    /// Whether the interpreter's loop must exit, for the collector or because work must be charged.
    #[inline(always)]
    pub(crate) fn is_due(&self) -> bool {
        self.strings.is_due()
    }

    /// Counts a growth; true for the growth that must fail.
    #[cfg(test)]
    fn fails(&mut self) -> bool {
        let before = self.growths_left;
        self.growths_left = before.saturating_sub(1);
        before == 1
    }

    /// Bytes in use, which the limit bounds.
    pub fn bytes_in_use(&self) -> usize {
        self.bytes
    }

    // Strings.

    /// Makes a string; the bytes are copied.
    ///
    /// # Errors
    /// `not enough memory`, as for all functions that allocate.
    #[inline]
    pub fn new_string(&mut self, bytes: &[u8]) -> Result<Value, Fault> {
        if let [byte] = bytes {
            return Ok(single(*byte));
        }
        if bytes.len() > 4096 {
            self.room(bytes.len())?;
        }
        let (string, outside) = self.strings.add(bytes, self.colour);
        self.charge(Arena::<StringSlot>::SLOT + outside)?;
        Ok(string.into())
    }

    /// Makes a string of a part of another one. The string of a single byte exists already.
    #[inline]
    pub(crate) fn part(&mut self, string: StrRef, from: usize, to: usize) -> Result<Value, Fault> {
        if to - from == 1 {
            return Ok(single(self.strings.bytes(string)[from]));
        }
        if to - from > 4096 {
            self.room(to - from)?;
        }
        let (string, outside) = self.strings.add_part(string, from, to, self.colour);
        self.charge(Arena::<StringSlot>::SLOT + outside)?;
        Ok(string.into())
    }

    /// An empty buffer, which may have the memory of an earlier one.
    pub(crate) fn buffer(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.scratch)
    }

    /// Makes a string of a buffer, and keeps a small buffer for the next call of [`Heap::buffer`].
    pub(crate) fn finish_buffer(&mut self, mut buffer: Vec<u8>) -> Result<Value, Fault> {
        if buffer.len() > SCRATCH_MAX {
            return self.take_string(buffer);
        }
        let value = self.new_string(&buffer);
        if buffer.capacity() <= 2 * SCRATCH_MAX {
            buffer.clear();
            self.scratch = buffer;
        }
        value
    }

    /// Makes a string of a vector; a long one is not copied.
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn take_string(&mut self, bytes: Vec<u8>) -> Result<Value, Fault> {
        let (string, outside) = self.strings.take(bytes, self.colour);
        self.charge(Arena::<StringSlot>::SLOT + outside)?;
        Ok(string.into())
    }

    /// Makes a string of bytes that the host shares; long ones are not copied.
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn share_string(&mut self, bytes: Bytes) -> Result<Value, Fault> {
        let (string, outside) = self.strings.share(bytes, self.colour);
        self.charge(Arena::<StringSlot>::SLOT + outside)?;
        Ok(string.into())
    }

    /// Charges for bytes that the host has copied or searched for the program.
    pub fn note_bytes(&self, bytes: usize) {
        self.strings.handled(bytes);
    }

    /// The bytes of a string.
    #[inline]
    pub fn bytes(&self, string: StrRef) -> &[u8] {
        self.strings.bytes(string)
    }

    /// The string's bytes as shared bytes, if they are stored in that form.
    pub fn shared_bytes(&self, string: StrRef) -> Option<Bytes> {
        self.strings.shared(string)
    }

    /// The text of a number, as `tostring` makes it.
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn number_string(&mut self, number: f64) -> Result<Value, Fault> {
        let mut text = Vec::with_capacity(24);
        push_number(&mut text, number);
        self.new_string(&text)
    }

    // Tables.

    /// Makes a table with room for `array` elements from index 1 on and for `nodes` other keys.
    ///
    /// # Errors
    /// `not enough memory`.
    pub fn new_table(&mut self, array: usize, nodes: usize) -> Result<TableRef, Fault> {
        let parts = if array | nodes == 0 { 0 } else { LuaTable::bytes_at(array, nodes) };
        if parts > 4096 {
            self.room(parts)?;
        }
        let mut table = LuaTable::new(array, nodes, self.colour);
        table.guard = self.born;
        let index = self.tables.add(table);
        self.charge(Arena::<LuaTable>::SLOT + parts)?;
        Ok(TableRef(index))
    }

    /// The value of a key, without metamethods; nil if missing.
    #[inline]
    pub fn get(&self, table: TableRef, key: Value) -> Value {
        self.tables.at(table.0).get(key, &self.strings)
    }

    /// The value of an integer key, without metamethods; nil if missing.
    #[inline]
    pub fn get_int(&self, table: TableRef, index: i64) -> Value {
        self.tables.at(table.0).get_index(index, &self.strings)
    }

    /// The value of the string key with this text; nil if missing. Makes no string.
    pub fn get_text(&self, table: TableRef, text: &[u8]) -> Value {
        let hash = crate::murmur3::murmur3(text);
        let table = self.tables.at(table.0);
        table.find_text(text, hash, &self.strings)
    }

    /// Sets the value of a key, without metamethods.
    ///
    /// # Errors
    /// The key is nil or NaN, the table is read-only, or there is not enough memory.
    pub fn set(&mut self, table: TableRef, key: Value, value: Value) -> Result<(), Fault> {
        let slot = self.tables.at(table.0).find(key, &self.strings);
        match slot {
            Some(slot) => self.set_slot(table, slot, value),
            None => self.set_new(table, key, value),
        }
    }

    /// Sets the value of an integer key, without metamethods.
    ///
    /// # Errors
    /// As [`Heap::set`].
    #[inline]
    pub fn set_int(&mut self, table: TableRef, index: i64, value: Value) -> Result<(), Fault> {
        let at = (index as usize).wrapping_sub(1);
        if at < self.tables.at(table.0).array.len() {
            return self.set_slot(table, TableSlot::Array(at), value);
        }
        self.set(table, Value::result(index as f64), value)
    }

    /// Sets the value of the string key with this text, without metamethods.
    ///
    /// # Errors
    /// As [`Heap::set`].
    pub fn set_text(&mut self, table: TableRef, text: &[u8], value: Value) -> Result<(), Fault> {
        let key = self.new_string(text)?;
        self.set(table, key, value)
    }

    /// Writes to a slot that exists.
    #[inline]
    pub(crate) fn set_slot(&mut self, table: TableRef, slot: TableSlot, value: Value) -> Result<(), Fault> {
        if self.tables.at(table.0).guard != 0 {
            self.check_write(table, value)?;
        }
        let table = self.tables.at_mut(table.0);
        table.lacks = 0;
        table.write(slot, value);
        Ok(())
    }

    /// The checks and barriers before a value is written to a guarded table.
    #[cold]
    #[inline(never)]
    pub(crate) fn check_write(&mut self, table: TableRef, value: Value) -> Result<(), Fault> {
        let guard = self.tables.at(table.0).guard;
        if guard & guard::READ_ONLY != 0 {
            return Err(Fault::bare("Attempt to modify a readonly table"));
        }
        if guard & guard::OLD != 0 && self.watching && !self.is_old(value) {
            self.old_written = true;
        }
        if guard & guard::BLACK != 0 && self.collector.phase == CollectorPhase::Mark {
            self.shade(value);
        }
        Ok(())
    }

    /// Adds a key that the table does not have.
    #[inline(never)]
    pub(crate) fn set_new(&mut self, table: TableRef, key: Value, value: Value) -> Result<(), Fault> {
        if key.is_nil() {
            return Err(Fault::bare("table index is nil"));
        }
        if key.is_number() && key.double().is_nan() {
            return Err(Fault::bare("table index is NaN"));
        }
        if self.tables.at(table.0).guard != 0 {
            self.check_write(table, value)?;
            // A new key may be a reference to a newer object. Besides, the table may grow, so an old table
            // counts as written, whatever the key and the value are.
            self.check_write(table, key)?;
            if self.tables.at(table.0).guard & guard::OLD != 0 {
                self.old_written |= self.watching;
            }
        }
        loop {
            match self.tables.at_mut(table.0).insert(key, &self.strings) {
                Ok((at, moved)) => {
                    let object = self.tables.at_mut(table.0);
                    object.nodes[at].value = value;
                    object.lacks = 0;
                    if let Some((key, value)) = moved
                        && object.guard & guard::BLACK != 0
                    {
                        // The key is marked now, because its entry may lie at a position that the scan has
                        // passed.
                        self.shade(key);
                        self.shade(value);
                    }
                    return Ok(());
                }
                Err(()) => self.grow(table, key)?,
            }
            let object = self.tables.at(table.0);
            if let Some(slot) = object.find(key, &self.strings) {
                self.tables.at_mut(table.0).write(slot, value);
                return Ok(());
            }
        }
    }

    fn grow(&mut self, table: TableRef, key: Value) -> Result<(), Fault> {
        let (array, nodes) = self.tables.at(table.0).grown(key);
        self.resize(table, array, nodes)
    }

    /// Changes the sizes of a table's two parts.
    pub(crate) fn resize(&mut self, table: TableRef, array: usize, nodes: usize) -> Result<(), Fault> {
        let before = self.tables.at(table.0).outside();
        let after = LuaTable::bytes_at(array, nodes);
        self.room(after)?;
        let object = self.tables.at_mut(table.0);
        object.resize(array, nodes, &self.strings);
        let black = object.guard & guard::BLACK != 0;
        let after = object.outside();
        self.bytes = self.bytes.saturating_sub(before);
        if black && self.collector.phase == CollectorPhase::Mark {
            // Scan positions are invalid after a resize.
            self.list_table(table);
            if self.collector.weak.last() == Some(&table) {
                self.collector.cleared = 0;
            }
        }
        self.charge(after)
    }

    /// The result of the operator `#`.
    pub(crate) fn border(&self, table: TableRef) -> i64 {
        self.tables.at(table.0).border(&self.strings) as i64
    }

    /// The entry after `key`, or the first one if `key` is nil; `None` after the last one.
    ///
    /// # Errors
    /// The table has no such key.
    pub fn next(&self, table: TableRef, key: Value) -> Result<Option<(Value, Value)>, Fault> {
        let next = self.tables.at(table.0).next(key, &self.strings);
        next.map_err(|()| Fault::bare("invalid key to 'next'"))
    }

    /// The length of the array part, for iterations without the search that `next` makes.
    pub(crate) fn array_len(&self, table: TableRef) -> usize {
        self.tables.at(table.0).array.len()
    }

    /// Number of slots of the node part, for keys that are not in the array part.
    pub fn node_count(&self, table: TableRef) -> usize {
        self.tables.at(table.0).nodes.len()
    }

    /// Whether writes to the table are errors.
    pub fn is_read_only(&self, table: TableRef) -> bool {
        self.tables.at(table.0).guard & guard::READ_ONLY != 0
    }

    // Metatables.

    /// The metatable of any value.
    #[inline]
    pub(crate) fn metatable_of(&self, value: Value) -> Option<TableRef> {
        if let Some(table) = value.as_table() {
            return self.tables.at(table.0).meta();
        }
        match value.kind() {
            Kind::String => self.string_meta,
            Kind::Userdata => value.as_userdata().and_then(|data| self.userdata.at(data.0).meta),
            _ => None,
        }
    }

    /// Sets a table's metatable.
    ///
    /// # Errors
    /// The table is read-only.
    pub fn set_metatable(&mut self, table: TableRef, meta: Option<TableRef>) -> Result<(), Fault> {
        if self.tables.at(table.0).guard != 0 {
            self.check_write(table, meta.map_or(Value::NIL, Value::from))?;
        }
        self.tables.at_mut(table.0).set_meta(meta);
        Ok(())
    }

    /// A value's metamethod for an event, or nil.
    #[inline]
    pub(crate) fn metamethod(&self, value: Value, event: Metamethod) -> Value {
        match self.metatable_of(value) {
            Some(meta) => {
                let (name, hash) = self.events[event as usize];
                self.tables.at(meta.0).get_str(name, hash, &self.strings)
            }
            None => Value::NIL,
        }
    }

    /// A table's metamethod for an event whose absence is remembered, or nil.
    #[inline(always)]
    pub(crate) fn table_event(&mut self, table: TableRef, event: Metamethod) -> Value {
        match self.tables.at(table.0).meta() {
            None => Value::NIL,
            Some(meta) => self.meta_event(meta, event),
        }
    }

    /// The metamethod in a metatable for an event whose absence is remembered, or nil.
    #[inline]
    pub(crate) fn meta_event(&mut self, meta: TableRef, event: Metamethod) -> Value {
        debug_assert!((event as u8) < REMEMBERED);
        let object = self.tables.at(meta.0);
        if object.lacks & 1 << event as u8 != 0 {
            return Value::NIL;
        }
        let (name, hash) = self.events[event as usize];
        let found = object.get_str(name, hash, &self.strings);
        if found.is_nil()
            && let Some(object) = self.tables.own_mut(meta.0)
        {
            object.lacks |= 1 << event as u8;
        }
        found
    }

    /// Equality of two values without metamethods, as by `rawequal`.
    #[inline]
    pub(crate) fn raw_equal(&self, a: Value, b: Value) -> bool {
        self.strings.equal(a, b)
    }

    // Functions and the rest.

    pub(crate) fn new_closure(
        &mut self,
        proto: u32,
        env: TableRef,
        captures: &[u32],
    ) -> Result<ClosureRef, Fault> {
        let closure = Closure::new(proto, env, captures, self.colour);
        let outside = closure.outside();
        let index = self.closures.add(closure);
        self.charge(Arena::<Closure>::SLOT + outside)?;
        Ok(ClosureRef(index))
    }

    pub(crate) fn new_native(&mut self, native: u32, upvalues: &[Value]) -> Result<NativeRef, Fault> {
        let index = self.natives.add(NativeClosure::new(native, upvalues, self.colour));
        self.charge(Arena::<NativeClosure>::SLOT + size_of_val(upvalues))?;
        Ok(NativeRef(index))
    }

    pub(crate) fn new_upvalue(&mut self, state: UpvalueState) -> Result<u32, Fault> {
        let index = self.upvalues.add(Upvalue { state, colour: self.colour });
        self.charge(Arena::<Upvalue>::SLOT)?;
        Ok(index)
    }

    pub(crate) fn new_userdata(&mut self, meta: Option<TableRef>) -> Result<UserdataRef, Fault> {
        let index = self.userdata.add(Userdata::new(meta, self.colour));
        self.charge(Arena::<Userdata>::SLOT)?;
        Ok(UserdataRef(index))
    }

    pub(crate) fn new_thread(&mut self, coroutine: Box<Coroutine>) -> Result<ThreadRef, Fault> {
        let bytes = coroutine.bytes();
        let index =
            self.threads.add(Thread { coroutine: Some(coroutine), touched: false, colour: self.colour });
        self.charge(Arena::<Thread>::SLOT + bytes)?;
        Ok(ThreadRef(index))
    }

    /// Writes to a closed upvalue.
    #[inline]
    pub(crate) fn set_closed(&mut self, index: u32, value: Value) {
        if self.watching || self.collector.phase == CollectorPhase::Mark {
            self.upvalue_barrier(index, value);
        }
        self.upvalues.at_mut(index).state = UpvalueState::Closed(value);
    }

    #[cold]
    pub(crate) fn upvalue_barrier(&mut self, index: u32, value: Value) {
        if self.watching && self.upvalues.is_old(index) && !self.is_old(value) {
            self.old_written = true;
        }
        if self.collector.phase == CollectorPhase::Mark {
            self.shade(value);
        }
    }

    /// Must be called before an upvalue of a native closure is written.
    pub(crate) fn native_barrier(&mut self, index: u32, value: Value) {
        if self.watching && self.natives.is_old(index) && !self.is_old(value) {
            self.old_written = true;
        }
        if self.collector.phase == CollectorPhase::Mark {
            self.shade(value);
        }
    }

    /// Must be called before a closure gets another environment.
    pub(crate) fn shade_env(&mut self, closure: ClosureRef, env: TableRef) {
        if self.watching && self.closures.is_old(closure.0) && !self.tables.is_old(env.0) {
            self.old_written = true;
        }
        if self.collector.phase == CollectorPhase::Mark {
            self.shade_table(env);
        }
    }

    // The collector's side.

    /// Whether a value was made before the mark.
    pub(crate) fn is_old(&self, value: Value) -> bool {
        let index = value.bits() as u32;
        match value.kind() {
            Kind::String => self.strings.texts.is_old(index),
            Kind::Table => self.tables.is_old(index),
            Kind::Closure => self.closures.is_old(index),
            Kind::Native => self.natives.is_old(index),
            Kind::Userdata => self.userdata.is_old(index),
            Kind::Thread => self.threads.is_old(index),
            Kind::Nil | Kind::Boolean | Kind::LightUserdata | Kind::Number => true,
        }
    }

    /// Makes a string survive the sweep under way, even if no reference to the string exists yet.
    pub(crate) fn revive(&mut self, string: StrRef) {
        if matches!(self.collector.phase, CollectorPhase::Sweep(..))
            && let Some(slot) = self.strings.texts.own_mut(string.0)
        {
            slot.paint(self.colour);
        }
    }

    /// Keeps a value until [`crate::Vm::unpin`] releases its slot; returns the slot.
    pub(crate) fn pin(&mut self, value: Value) -> usize {
        self.shade_if_marking(value);
        self.pinned.push(value);
        self.pinned.len() - 1
    }

    /// Must be called when a root gets a value.
    pub(crate) fn shade_if_marking(&mut self, value: Value) {
        if self.collector.phase == CollectorPhase::Mark {
            self.shade(value);
        }
    }

    /// Marks a value; an object that it names is scanned later.
    #[inline]
    pub(crate) fn shade(&mut self, value: Value) {
        if value.is_object() {
            self.shade_object(value);
        }
    }

    fn shade_object(&mut self, value: Value) {
        let (index, marked) = (value.bits() as u32, self.marked);
        let grey = match value.kind() {
            Kind::String => {
                return paint(&mut self.strings.texts, index, marked, None, &mut self.collector.grey);
            }
            Kind::Table => return self.shade_table(TableRef(index)),
            Kind::Closure => {
                let grey = Grey::Closure(ClosureRef(index));
                return paint(&mut self.closures, index, marked, Some(grey), &mut self.collector.grey);
            }
            Kind::Native => {
                let grey = Grey::Native(NativeRef(index));
                return paint(&mut self.natives, index, marked, Some(grey), &mut self.collector.grey);
            }
            Kind::Userdata => {
                let grey = Grey::Userdata(UserdataRef(index));
                return paint(&mut self.userdata, index, marked, Some(grey), &mut self.collector.grey);
            }
            Kind::Thread => Grey::Thread(ThreadRef(index)),
            Kind::Nil | Kind::Boolean | Kind::LightUserdata | Kind::Number => return,
        };
        paint(&mut self.threads, index, marked, Some(grey), &mut self.collector.grey);
    }

    /// Removes objects after the mark from the collector's lists, because they are about to be cut off,
    /// perhaps in the middle of a cycle. No old object refers to the removed objects, so marked old objects
    /// stay marked, and unmarked old objects are still found from roots and other old objects.
    pub(crate) fn forget_young_greys(&mut self, code: &Arena<Linked>) {
        if self.collector.phase == CollectorPhase::Idle {
            return;
        }
        let mut collector = std::mem::take(&mut self.collector);
        collector.grey.retain(|grey| match *grey {
            Grey::Table(table) => self.tables.is_old(table.0),
            Grey::Closure(closure) => self.closures.is_old(closure.0),
            Grey::Native(native) => self.natives.is_old(native.0),
            Grey::Upvalue(index) => self.upvalues.is_old(index),
            Grey::Userdata(data) => self.userdata.is_old(data.0),
            Grey::Thread(thread) => self.threads.is_old(thread.0),
            Grey::Proto(index) => code.is_old(index),
        });
        collector.weak.retain(|table| self.tables.is_old(table.0));
        collector.cleared = 0;
        collector.threads.retain(|thread| self.threads.is_old(thread.0));
        self.collector = collector;
    }

    /// No longer counts the objects after the mark: the bytes in use become those before the mark.
    pub(crate) fn forget_young(&mut self) {
        self.bytes = self.old_bytes;
        self.slice_due = false;
        self.strings.set_due(false);
        // The threshold is computed again, because a cycle that ended during the run has set it for a heap
        // with the run's objects.
        let latest = self.bytes + self.limit.saturating_sub(self.bytes) / 2;
        self.collector.threshold = (self.collector.kept * 2).max(FIRST_THRESHOLD).min(latest.max(1 << 16));
        self.collector.next_slice = match self.collector.phase {
            CollectorPhase::Idle => self.collector.threshold,
            // The end of a run never postpones the next slice, because short runs between loads would
            // otherwise postpone it for ever.
            CollectorPhase::Mark | CollectorPhase::Sweep(..) => {
                self.collector.next_slice.min(self.bytes + SLICE_BYTES)
            }
        };
    }

    pub(crate) fn shade_table(&mut self, table: TableRef) {
        // The table may be missing, because a stack slot that this run has not used may name a table of an
        // earlier run. A table of an image needs no mark, because it refers only to objects of the image.
        let Some(object) = self.tables.own_mut(table.0) else { return };
        if object.colour() == self.marked || object.colour() == crate::arena::FREE {
            return;
        }
        object.paint(self.marked);
        object.guard |= guard::BLACK;
        self.list_table(table);
    }

    /// Puts a table on the list to be scanned, from its beginning.
    fn list_table(&mut self, table: TableRef) {
        let object = self.tables.at_mut(table.0);
        object.scanned = 0;
        if object.guard & guard::LISTED == 0 {
            object.guard |= guard::LISTED;
            self.collector.grey.push(Grey::Table(table));
        }
    }

    /// Records that a coroutine has run, because its stack may hold values that the collector has not seen.
    #[inline]
    pub(crate) fn thread_ran(&mut self, thread: ThreadRef) {
        if self.collector.phase == CollectorPhase::Mark {
            let object = self.threads.at_mut(thread.0);
            if !object.touched {
                object.touched = true;
                self.collector.threads.push(thread);
            }
        }
    }
}

/// Marks an object that is not marked yet, and lists `grey`, if any, for the scan.
#[inline]
fn paint<T: Object>(
    arena: &mut Arena<T>,
    index: u32,
    marked: Colour,
    grey: Option<Grey>,
    list: &mut Vec<Grey>,
) {
    // The object may be missing, because a stack slot may hold an index of an earlier run.
    let Some(object) = arena.own_mut(index) else { return };
    if object.colour() == marked || object.colour() == crate::arena::FREE {
        return;
    }
    object.paint(marked);
    list.extend(grey);
}
