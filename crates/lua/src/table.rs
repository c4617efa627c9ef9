//! Tables, built as by PUC-Rio's Lua 5.1 (PUC): an array part, sized so that more than half of it is in use,
//! and a node part, a power of two long, with Brent's variation of chained scatter tables. The results of
//! `pairs`, `next` and `#` depend on each detail, and programs store and compare them, so these details must
//! not change: main positions, the free position searched from the end, the order in which a rehash inserts.
//!
//! Invariants: (1) the node part is empty or a power of two long; (2) a key is in the chain of its main
//! position; (3) only nodes that were never used have the key nil.

use std::sync::Arc;

use crate::arena::{Colour, Dying, Object};
use crate::strings::Strings;
use crate::value::{TableRef, Value};

/// The end of a chain.
const END: u32 = u32::MAX;

/// Largest array part: 2^26 elements.
const ARRAY_BITS: usize = 26;

/// Following this many steps of a chain is part of an instruction's cost.
const PROBES_FREE: u32 = 8;

/// Number of empty entries that an iteration skips for one unit of work.
const SKIPPED_FREE: usize = 16;

/// Bits of a table's `guard`: reasons why a write needs more than storing the value.
pub(crate) mod guard {
    /// The table is read-only: writes are errors.
    pub(crate) const READ_ONLY: u8 = 1;
    /// The table is older than the present run: if the run stores a reference to a newer object or a new key
    /// in the table, the objects of the run are kept when the run ends.
    pub(crate) const OLD: u8 = 2;
    /// The collector has scanned the table or is about to scan it, so a value that is stored in the table
    /// must be marked.
    pub(crate) const BLACK: u8 = 4;
    /// The table is on the collector's list of objects to scan.
    pub(crate) const LISTED: u8 = 8;
    /// The table is on the collector's list of tables with weak references.
    pub(crate) const WEAK: u8 = 16;
    /// All bits that the collector sets.
    pub(crate) const COLLECTOR: u8 = BLACK | LISTED | WEAK;
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct TableNode {
    pub(crate) key: Value,
    pub(crate) value: Value,
    /// The full hash of a string key.
    hash: u32,
    next: u32,
}

const NODE: TableNode = TableNode { key: Value::NIL, value: Value::NIL, hash: 0, next: END };

const _: () = assert!(size_of::<TableNode>() == 24);
const _: () = assert!(size_of::<LuaTable>() == 64);

/// A table of 64 bytes, with its array part and its node part.
#[derive(Debug, Default)]
pub(crate) struct LuaTable {
    pub(crate) array: Vec<Value>,
    pub(crate) nodes: Vec<TableNode>,
    /// All nodes from this position on have been used.
    last_free: u32,
    /// The metatable's index plus one; 0 for none.
    meta: u32,
    /// The position at which the collector continues its scan.
    pub(crate) scanned: u32,
    /// Bits of module [`guard`]; 0 if writes need no check.
    pub(crate) guard: u8,
    /// Metamethods that this metatable is known to lack: a bit for each of the first eight.
    pub(crate) lacks: u8,
    colour: Colour,
}

impl Object for LuaTable {
    type Shared = Arc<[LuaTable]>;

    fn colour(&self) -> Colour {
        self.colour
    }

    fn paint(&mut self, colour: Colour) {
        self.colour = colour;
    }

    fn outside(&self) -> usize {
        self.array.len() * size_of::<Value>() + self.nodes.len() * size_of::<TableNode>()
    }

    fn take_large(&mut self, out: &mut Vec<Dying>) {
        out.push(Box::new(std::mem::take(&mut self.array)));
        out.push(Box::new(std::mem::take(&mut self.nodes)));
    }
}

/// The place of a key's value.
#[derive(Clone, Copy, Debug)]
pub(crate) enum TableSlot {
    Array(usize),
    Node(usize),
}

/// The number as a `usize`, if it is an integer from 0 to 2^32 - 1.
#[inline(always)]
pub(crate) fn to_index(number: f64) -> Option<usize> {
    let index = number as u32;
    if f64::from(index) == number { Some(index as usize) } else { None }
}

/// The exponent of the smallest power of two that is at least `number`, which must not be 0.
fn ceil_log2(number: usize) -> usize {
    (usize::BITS - (number - 1).leading_zeros()) as usize
}

/// The hash of a double: the sum of its halves, equal for both zeros.
#[inline]
fn number_hash(number: f64) -> u32 {
    if number == 0.0 {
        return 0;
    }
    let bits = number.to_bits();
    (bits as u32).wrapping_add((bits >> 32) as u32)
}

impl LuaTable {
    /// An empty table of that colour, with room for `array` elements and `nodes` other keys.
    pub(crate) fn new(array: usize, nodes: usize, colour: Colour) -> LuaTable {
        let mut table = LuaTable::of_list(Vec::new(), colour);
        if array > 0 {
            table.array = vec![Value::NIL; array];
        }
        if nodes > 0 {
            table.make_nodes(nodes);
        }
        table
    }

    /// A table of that colour with these values, at the indexes from 1 on.
    #[inline]
    pub(crate) fn of_list(array: Vec<Value>, colour: Colour) -> LuaTable {
        LuaTable { array, colour, ..LuaTable::default() }
    }

    fn make_nodes(&mut self, size: usize) {
        let size = if size == 0 { 0 } else { 1 << ceil_log2(size) };
        self.nodes = vec![NODE; size];
        self.last_free = size as u32;
    }

    #[inline(always)]
    pub(crate) fn meta(&self) -> Option<TableRef> {
        if self.meta == 0 { None } else { Some(TableRef(self.meta - 1)) }
    }

    #[inline(always)]
    pub(crate) fn has_meta(&self) -> bool {
        self.meta != 0
    }

    pub(crate) fn set_meta(&mut self, meta: Option<TableRef>) {
        self.meta = meta.map_or(0, |table| table.0 + 1);
    }

    // Reading.

    /// The value of a string key with that hash; nil if missing.
    #[inline(always)]
    pub(crate) fn get_str(&self, key: Value, hash: u32, strings: &Strings) -> Value {
        match self.find_str(key, hash, strings) {
            Some(at) => self.nodes[at].value,
            None => Value::NIL,
        }
    }

    #[inline(always)]
    pub(crate) fn find_str(&self, key: Value, hash: u32, strings: &Strings) -> Option<usize> {
        let mask = self.nodes.len().wrapping_sub(1);
        let mut at = hash as usize & mask;
        let mut node = self.nodes.get(at)?;
        if node.key.same(key) {
            return Some(at);
        }
        let mut steps = 0;
        loop {
            if node.key.same(key) || (node.hash == hash && same_text(node.key, key, strings)) {
                return Some(at);
            }
            if node.next == END {
                return None;
            }
            at = node.next as usize;
            node = self.nodes.get(at)?;
            steps += 1;
            if steps > PROBES_FREE {
                strings.worked(1);
            }
        }
    }

    /// The value of the string key with this text; nil if missing.
    pub(crate) fn find_text(&self, text: &[u8], hash: u32, strings: &Strings) -> Value {
        let mut at = hash as usize & self.nodes.len().wrapping_sub(1);
        while let Some(node) = self.nodes.get(at) {
            if node.hash == hash && node.key.as_str().is_some_and(|key| strings.bytes(key) == text) {
                return node.value;
            }
            at = node.next as usize;
        }
        Value::NIL
    }

    /// The value of an integer key; nil if missing.
    #[inline(always)]
    pub(crate) fn get_index(&self, index: i64, strings: &Strings) -> Value {
        if let Some(value) = self.array.get((index as usize).wrapping_sub(1)) {
            return *value;
        }
        self.get_number_node(index as f64, strings)
    }

    /// The value of a number key; nil if missing.
    #[inline(always)]
    pub(crate) fn get_number(&self, number: f64, strings: &Strings) -> Value {
        if let Some(index) = to_index(number)
            && let Some(value) = self.array.get(index.wrapping_sub(1))
        {
            return *value;
        }
        self.get_number_node(number, strings)
    }

    fn get_number_node(&self, number: f64, strings: &Strings) -> Value {
        self.find_number(number, strings).map_or(Value::NIL, |at| self.nodes[at].value)
    }

    fn find_number(&self, number: f64, strings: &Strings) -> Option<usize> {
        if self.nodes.is_empty() {
            return None;
        }
        let mut at = self.by_remainder(number_hash(number));
        let mut steps = 0;
        loop {
            let node = &self.nodes[at];
            if node.key.is_number() && node.key.double() == number {
                return Some(at);
            }
            if node.next == END {
                return None;
            }
            at = node.next as usize;
            steps += 1;
            if steps > PROBES_FREE {
                strings.worked(1);
            }
        }
    }

    /// The value of any key; nil if missing.
    #[inline]
    pub(crate) fn get(&self, key: Value, strings: &Strings) -> Value {
        if let Some(number) = key.as_number() {
            return self.get_number(number, strings);
        }
        match self.find(key, strings) {
            Some(slot) => self.read(slot),
            None => Value::NIL,
        }
    }

    /// The place of a key's value, even if the value is nil; `None` if the table has no such key.
    #[inline]
    pub(crate) fn find(&self, key: Value, strings: &Strings) -> Option<TableSlot> {
        if let Some(string) = key.as_str() {
            return self.find_str(key, strings.hash(string), strings).map(TableSlot::Node);
        }
        if let Some(number) = key.as_number() {
            if let Some(index) = to_index(number)
                && index.wrapping_sub(1) < self.array.len()
            {
                return Some(TableSlot::Array(index - 1));
            }
            return self.find_number(number, strings).map(TableSlot::Node);
        }
        if self.nodes.is_empty() || key.is_nil() {
            return None;
        }
        let mut at = self.main_position(key, 0);
        let mut steps = 0;
        loop {
            let node = &self.nodes[at];
            if node.key.same(key) {
                return Some(TableSlot::Node(at));
            }
            if node.next == END {
                return None;
            }
            at = node.next as usize;
            steps += 1;
            if steps > PROBES_FREE {
                strings.worked(1);
            }
        }
    }

    #[inline(always)]
    pub(crate) fn read(&self, slot: TableSlot) -> Value {
        match slot {
            TableSlot::Array(at) => self.array[at],
            TableSlot::Node(at) => self.nodes[at].value,
        }
    }

    #[inline(always)]
    pub(crate) fn write(&mut self, slot: TableSlot, value: Value) {
        match slot {
            TableSlot::Array(at) => self.array[at] = value,
            TableSlot::Node(at) => self.nodes[at].value = value,
        }
    }

    #[inline]
    fn by_remainder(&self, hash: u32) -> usize {
        (hash % ((self.nodes.len() as u32 - 1) | 1)) as usize
    }

    /// The first node of the chain for a key; `hash` is used for strings only. The node part must
    /// not be empty.
    #[inline]
    fn main_position(&self, key: Value, hash: u32) -> usize {
        if key.is_str() {
            return hash as usize & (self.nodes.len() - 1);
        }
        if let Some(number) = key.as_number() {
            return self.by_remainder(number_hash(number));
        }
        if key.is_boolean() {
            return usize::from(key == Value::TRUE) & (self.nodes.len() - 1);
        }
        // The reference hashes the object's address, which differs from run to run. Here the object's index
        // is hashed instead, spread like an address.
        self.by_remainder((key.bits() as u32).wrapping_mul(0x9e37_79b1) >> 4)
    }

    // Walking.

    /// The entry after `key`, or the first entry if `key` is nil. `Err` if there is no such key.
    pub(crate) fn next(&self, key: Value, strings: &Strings) -> Result<Option<(Value, Value)>, ()> {
        let from = match key {
            Value::NIL => 0,
            _ => match self.find(key, strings) {
                Some(TableSlot::Array(at)) => at + 1,
                Some(TableSlot::Node(at)) => self.array.len() + at + 1,
                None => return Err(()),
            },
        };
        let (entry, work) = self.entry_after_gap(from);
        if work > 0 {
            strings.worked(work);
        }
        Ok(entry.map(|(_, key, value)| (key, value)))
    }

    /// The first entry at or after a position of the iteration, and the units of work for skipped empty
    /// entries.
    #[inline]
    pub(crate) fn entry_after_gap(&self, from: usize) -> (Option<(usize, Value, Value)>, usize) {
        let entry = self.entry_from(from);
        let found = entry.map_or(self.array.len() + self.nodes.len(), |(at, ..)| at);
        (entry, found.saturating_sub(from) / SKIPPED_FREE)
    }

    /// The first entry at or after a position of the iteration: its position, key and value.
    #[inline]
    fn entry_from(&self, from: usize) -> Option<(usize, Value, Value)> {
        let len = self.array.len();
        for (at, value) in self.array.iter().enumerate().skip(from) {
            if !value.is_nil() {
                return Some((at, Value::result((at + 1) as f64), *value));
            }
        }
        for (at, node) in self.nodes.iter().enumerate().skip(from.saturating_sub(len)) {
            if !node.value.is_nil() {
                return Some((len + at, node.key, node.value));
            }
        }
        None
    }

    /// The border that PUC finds: a number `n` with a value at `n` and none at `n + 1`.
    pub(crate) fn border(&self, strings: &Strings) -> usize {
        let len = self.array.len();
        if len > 0 && self.array[len - 1].is_nil() {
            let (mut low, mut high) = (0, len);
            while high - low > 1 {
                let middle = (low + high) / 2;
                if self.array[middle - 1].is_nil() { high = middle } else { low = middle }
            }
            return low;
        }
        if self.nodes.is_empty() { len } else { self.unbound_border(len, strings) }
    }

    fn unbound_border(&self, len: usize, strings: &Strings) -> usize {
        let absent = |index: usize| self.get_index(index as i64, strings).is_nil();
        let (mut low, mut high) = (len, len + 1);
        while !absent(high) {
            low = high;
            high *= 2;
            if high > i32::MAX as usize {
                // A table that was made to mislead the doubling is searched linearly, as in PUC.
                let mut index = 1;
                while !absent(index) {
                    index += 1;
                }
                strings.worked(index / 2);
                return index - 1;
            }
        }
        while high - low > 1 {
            let middle = (low + high) / 2;
            if absent(middle) { high = middle } else { low = middle }
        }
        low
    }

    // Growing.

    /// Inserts a key that the table does not have, if a node is free. `Ok` has the node for the value, and
    /// the entry that was moved; `Err` means that the table must grow first.
    pub(crate) fn insert(
        &mut self,
        key: Value,
        strings: &Strings,
    ) -> Result<(usize, Option<(Value, Value)>), ()> {
        if self.nodes.is_empty() {
            return Err(());
        }
        let hash = key.as_str().map_or(0, |string| strings.hash(string));
        let mut main = self.main_position(key, hash);
        let mut moved = None;
        if !self.nodes[main].value.is_nil() {
            let Some(free) = self.free_position() else { return Err(()) };
            let other = self.main_position(self.nodes[main].key, self.nodes[main].hash);
            if other == main {
                self.nodes[free].next = self.nodes[main].next;
                self.nodes[main].next = free as u32;
                main = free;
            } else {
                let (mut before, mut steps) = (other, 0);
                while self.nodes[before].next != main as u32 {
                    before = self.nodes[before].next as usize;
                    steps += 1;
                }
                if steps > PROBES_FREE {
                    strings.worked(steps as usize);
                }
                self.nodes[before].next = free as u32;
                self.nodes[free] = self.nodes[main];
                self.nodes[main].next = END;
                self.nodes[main].value = Value::NIL;
                moved = Some((self.nodes[free].key, self.nodes[free].value));
            }
        }
        self.nodes[main].key = key;
        self.nodes[main].hash = hash;
        Ok((main, moved))
    }

    fn free_position(&mut self) -> Option<usize> {
        while self.last_free > 0 {
            self.last_free -= 1;
            if self.nodes[self.last_free as usize].key.is_nil() {
                return Some(self.last_free as usize);
            }
        }
        None
    }

    /// The sizes that both parts should have after adding `key`.
    pub(crate) fn grown(&self, key: Value) -> (usize, usize) {
        let mut counts = [0; ARRAY_BITS + 1];
        let mut indexes = self.count_array(&mut counts);
        let mut total = indexes;
        for node in &self.nodes {
            if !node.value.is_nil() {
                total += 1;
                indexes += count_index(node.key, &mut counts);
            }
        }
        indexes += count_index(key, &mut counts);
        total += 1;
        let (size, used) = array_size(&counts, indexes);
        (size, total - used)
    }

    fn count_array(&self, counts: &mut [usize; ARRAY_BITS + 1]) -> usize {
        let mut total = 0;
        let mut from = 0;
        for (bits, count) in counts.iter_mut().enumerate() {
            let to = (1 << bits).min(self.array.len());
            if from >= to {
                if from >= self.array.len() {
                    break;
                }
                continue;
            }
            let used = self.array[from..to].iter().filter(|value| !value.is_nil()).count();
            *count += used;
            total += used;
            from = to;
        }
        total
    }

    /// Bytes of both parts at those sizes.
    pub(crate) fn bytes_at(array: usize, nodes: usize) -> usize {
        let nodes = if nodes == 0 { 0 } else { 1 << ceil_log2(nodes) };
        array * size_of::<Value>() + nodes * size_of::<TableNode>()
    }

    /// Changes the sizes of both parts, and inserts the entries that lost their place.
    pub(crate) fn resize(&mut self, array: usize, nodes: usize, strings: &Strings) {
        strings.worked((self.array.len() + self.nodes.len()) / 8);
        let old = std::mem::take(&mut self.nodes);
        self.make_nodes(nodes);
        if array >= self.array.len() {
            self.array.reserve_exact(array - self.array.len());
            self.array.resize(array, Value::NIL);
        } else {
            let cut = self.array.split_off(array);
            self.array.shrink_to_fit();
            for (at, value) in cut.into_iter().enumerate().filter(|(_, value)| !value.is_nil()) {
                self.put_back(Value::result((array + at + 1) as f64), value, strings);
            }
        }
        for node in old.iter().rev().filter(|node| !node.value.is_nil()) {
            self.put_back(node.key, node.value, strings);
        }
    }

    /// Inserts a key that no node has. Does not search the nodes for the key, because a chain may be as
    /// long as the table.
    fn put_back(&mut self, key: Value, value: Value, strings: &Strings) {
        if let Some(index) = key.as_number().and_then(to_index)
            && let Some(cell) = self.array.get_mut(index.wrapping_sub(1))
        {
            *cell = value;
            return;
        }
        loop {
            if let Ok((at, _)) = self.insert(key, strings) {
                self.nodes[at].value = value;
                return;
            }
            let (array, nodes) = self.grown(key);
            self.resize(array, nodes, strings);
            if let Some(slot) = self.find(key, strings) {
                return self.write(slot, value);
            }
        }
    }
}

#[inline]
fn same_text(a: Value, b: Value, strings: &Strings) -> bool {
    match (a.as_str(), b.as_str()) {
        (Some(a), Some(b)) => strings.same(a, b),
        _ => false,
    }
}

fn count_index(key: Value, counts: &mut [usize; ARRAY_BITS + 1]) -> usize {
    let index = key.as_number().and_then(to_index).filter(|index| (1..=1 << ARRAY_BITS).contains(index));
    match index {
        Some(index) => {
            counts[ceil_log2(index)] += 1;
            1
        }
        None => 0,
    }
}

/// The largest power of two such that more than half of an array part of this size is in use; also returns
/// the number of keys in that part.
fn array_size(counts: &[usize; ARRAY_BITS + 1], indexes: usize) -> (usize, usize) {
    let (mut seen, mut size, mut used) = (0, 0, 0);
    for (bits, count) in counts.iter().enumerate() {
        let power = 1 << bits;
        if power / 2 >= indexes {
            break;
        }
        if *count > 0 {
            seen += count;
            if seen > power / 2 {
                size = power;
                used = seen;
            }
        }
        if seen == indexes {
            break;
        }
    }
    (size, used)
}
