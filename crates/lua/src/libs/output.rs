//! Functions shared by the libraries: buffers that grow within the heap's limit, and charges to the budget.

use crate::fault::Fault;
use crate::heap::Heap;
use crate::native::Ctx;
use crate::table::LuaTable;
use crate::value::{StrRef, TableRef, Value};

/// Bytes that a simple loop processes between two checks of the budget.
pub(super) const CHUNK: usize = 64 * 1024;

/// Units of the budget for processing `bytes` in a simple loop.
pub(super) fn cost(bytes: usize) -> u64 {
    (bytes / 16) as u64 + 1
}

/// Makes room for `extra` bytes, after checking the heap's limit.
#[inline]
pub(super) fn reserve(heap: &mut Heap, out: &mut Vec<u8>, extra: usize) -> Result<(), Fault> {
    if out.capacity() - out.len() < extra {
        grow(heap, out, extra)?;
    }
    Ok(())
}

#[cold]
fn grow(heap: &mut Heap, out: &mut Vec<u8>, extra: usize) -> Result<(), Fault> {
    let wanted = out.len().checked_add(extra).ok_or_else(Fault::memory)?;
    let doubled = wanted.max(out.capacity().saturating_mul(2));
    let size = if heap.room(doubled).is_ok() { doubled } else { wanted };
    heap.room(size)?;
    out.try_reserve_exact(size - out.len()).map_err(|_| Fault::memory())
}

/// The units left in the budget, but at least one, so that a resumed function makes progress.
#[inline]
pub(super) fn fuel(ctx: &Ctx<'_>) -> u64 {
    u64::try_from(*ctx.budget).unwrap_or(0).max(1)
}

/// The check of PUC-Rio's Lua that `extra` more values fit on a function's stack.
pub(super) fn check_stack(ctx: &Ctx<'_>, extra: usize, what: &str) -> Result<(), Fault> {
    const STACK_MAX: usize = 8000;
    if ctx.count().saturating_add(extra) > STACK_MAX {
        return Err(Fault::text(format!("stack overflow ({what})")));
    }
    Ok(())
}

/// A position as string functions accept it: a negative one counts from the end, and becomes 0 if it lies
/// before the beginning.
pub(super) fn position(at: i64, len: usize) -> i64 {
    if at >= 0 { at } else { at.saturating_add(len as i64 + 1).max(0) }
}

/// A substring.
#[inline]
pub(super) fn part(ctx: &mut Ctx<'_>, text: StrRef, from: usize, to: usize) -> Result<Value, Fault> {
    ctx.heap.part(text, from, to)
}

/// Appends a value that is not nil to a table whose keys are the integers below `index`, all in
/// its array part.
///
/// The array part doubles, as it does by PUC's rule for such keys, but the keys are not counted each time.
#[inline]
pub(super) fn append(heap: &mut Heap, table: TableRef, index: i64, value: Value) -> Result<(), Fault> {
    let len = index.max(1) as usize;
    if len > heap.array_len(table) {
        heap.resize(table, len.next_power_of_two(), 0)?;
    }
    heap.set_int(table, index, value)
}

/// The first entry of a table at or after a position of an iteration: its position, key and value. Skipped
/// empty entries use fuel.
#[inline]
pub(super) fn entry_from(table: &LuaTable, at: usize, fuel: &mut u64) -> Option<(usize, Value, Value)> {
    let (entry, work) = table.entry_after_gap(at);
    *fuel = fuel.saturating_sub(work as u64);
    entry
}

/// Recently made short strings, found by their bytes. Bytes that are still remembered give the same string
/// again, so that no new copy and no new hash is made. The strings are not in the function's window, so the
/// cache must not live longer than a step of the function.
pub(super) struct RecentTexts([Value; RECENT]);

/// The number of slots in [`RecentTexts`].
const RECENT: usize = 64;

/// The longest string that is remembered.
const RECENT_LEN_MAX: usize = 22;

impl RecentTexts {
    pub(super) fn new() -> RecentTexts {
        RecentTexts([Value::NIL; RECENT])
    }

    /// A string of these bytes, a remembered one if possible.
    #[inline]
    pub(super) fn string(&mut self, heap: &mut Heap, bytes: &[u8]) -> Result<Value, Fault> {
        let (Some(&first), Some(&last)) = (bytes.first(), bytes.last()) else {
            return heap.new_string(bytes);
        };
        if bytes.len() > RECENT_LEN_MAX {
            return heap.new_string(bytes);
        }
        let middle = bytes[bytes.len() / 2];
        let mixed = usize::from(first) + usize::from(last) * 5 + usize::from(middle) * 11 + bytes.len() * 17;
        let slot = &mut self.0[mixed % RECENT];
        if let Some(known) = slot.as_str()
            && heap.bytes(known) == bytes
        {
            return Ok(*slot);
        }
        let value = heap.new_string(bytes)?;
        *slot = value;
        Ok(value)
    }
}
