//! What the libraries share: buffers that grow under the heap's limit, and work that is paid from the budget.

use crate::fault::Fault;
use crate::heap::Heap;
use crate::native::Ctx;

/// Bytes that a simple loop handles between two looks at the budget.
pub(super) const CHUNK: usize = 64 * 1024;

/// Units for handling `bytes` in a simple loop.
pub(super) fn cost(bytes: usize) -> u64 {
    (bytes / 16) as u64 + 1
}

/// Makes room for `extra` bytes, and asks the heap before the buffer grows.
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

/// Units that the budget holds, at least one: what was resumed makes progress.
#[inline]
pub(super) fn fuel(ctx: &Ctx<'_>) -> u64 {
    u64::try_from(*ctx.budget).unwrap_or(0).max(1)
}

/// PUC's check that so many values fit on a function's stack.
pub(super) fn check_stack(ctx: &Ctx<'_>, extra: usize, what: &str) -> Result<(), Fault> {
    const STACK_MAX: usize = 8000;
    if ctx.count().saturating_add(extra) > STACK_MAX {
        return Err(Fault::text(format!("stack overflow ({what})")));
    }
    Ok(())
}
