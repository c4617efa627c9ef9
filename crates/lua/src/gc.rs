//! The garbage collector: mark and sweep, in slices.
//!
//! Marking is incremental, with a barrier on writes to objects that were scanned already (tables, closed
//! upvalues). Stacks have no barrier and are scanned again at the end. A table of millions of elements is
//! scanned in pieces. Sweeping walks the arenas.
//!
//! Invariants: (1) a slice of `work` units processes about as many values, except that a scan of the stacks
//! and the last step of marking (`ROUNDS`) are not divided; (2) an object that is reachable when marking
//! ends is marked; (3) a freed slot is reused only for an object of the same kind.

use crate::arena::{self, Arena, Colour, Dying, FREE, Object};
use crate::code::Linked;
use crate::heap::{CollectorPhase, Grey, Heap, Metamethod};
use crate::object::{Coroutine, UpvalueState};
use crate::strings::single;
use crate::table::guard;
use crate::value::{ClosureRef, NativeRef, TableRef, ThreadRef, Value};

/// Number of values of a table that one step scans.
const PIECE: usize = 512;

/// Number of slots that one step sweeps.
const SWEEP: u32 = 256;

/// Units of work for freeing an object; `FREEING_PIECE` is for a piece of a large object. If freeing an
/// object cost 4 units, a sweep of short strings would free no more than the program makes during the sweep,
/// which would never end.
const FREEING: usize = 1;
const FREEING_PIECE: usize = 2048;

/// After this many rescans of the stacks, the remaining objects are marked in one step.
const ROUNDS: u32 = 16;

/// The roots of marking.
#[derive(Debug)]
pub(crate) struct Roots<'m> {
    /// The running coroutine; `thread` is its index, `top` the first slot of its stack that it does not
    /// use.
    pub(crate) running: &'m Coroutine,
    pub(crate) thread: ThreadRef,
    pub(crate) top: usize,
}

/// Does `work` units of a cycle, and begins a cycle if none is under way. Returns true when the
/// cycle has ended.
pub(crate) fn slice(heap: &mut Heap, code: &mut Arena<Linked>, roots: &Roots<'_>, work: usize) -> bool {
    let mut left = work as isize;
    while left > 0 {
        if let Some(dying) = heap.collector.dying.last_mut() {
            if !dying.shrink() {
                heap.collector.dying.pop();
            }
            left -= FREEING_PIECE as isize;
            continue;
        }
        left -= match heap.collector.phase {
            CollectorPhase::Idle => {
                begin(heap, code, roots);
                16
            }
            CollectorPhase::Mark => match heap.collector.grey.pop() {
                Some(grey) => scan(heap, code, roots, grey),
                None => finish_marking(heap, code, roots),
            },
            CollectorPhase::Sweep(arena, from) => match sweep(heap, code, arena, from) {
                Some(done) => done,
                None => {
                    end(heap);
                    return true;
                }
            },
        } as isize;
    }
    false
}

/// Ends the cycle under way, if any, then does a whole one.
pub(crate) fn full(heap: &mut Heap, code: &mut Arena<Linked>, roots: &Roots<'_>) {
    for _ in 0..cycles_of_all(heap) {
        while !slice(heap, code, roots, 1 << 20) {}
    }
}

/// The number of cycles that must end until all present garbage is freed. The number is 2 if a cycle is under
/// way, because that cycle may have marked some of this garbage.
pub(crate) fn cycles_of_all(heap: &Heap) -> u8 {
    if heap.collector.phase == CollectorPhase::Idle { 1 } else { 2 }
}

fn begin(heap: &mut Heap, code: &mut Arena<Linked>, roots: &Roots<'_>) {
    heap.marked = 3 - heap.colour;
    heap.collector.phase = CollectorPhase::Mark;
    heap.collector.grey.clear();
    heap.collector.weak.clear();
    heap.collector.cleared = 0;
    heap.collector.rounds = 0;
    mark_roots(heap, code, roots);
}

fn mark_roots(heap: &mut Heap, code: &mut Arena<Linked>, roots: &Roots<'_>) {
    for at in 0..heap.events.len() {
        heap.shade(heap.events[at].0);
    }
    for byte in 0..=u8::MAX {
        heap.shade(single(byte));
    }
    for at in 0..heap.pinned.len() {
        heap.shade(heap.pinned[at]);
    }
    for table in [heap.globals, heap.string_meta].into_iter().flatten() {
        heap.shade_table(table);
    }
    for index in 0..code.slots.len() as u32 {
        if code.at(index).loaded != 0 {
            shade_proto(heap, code, index);
        }
    }
    heap.shade(roots.thread.into());
    mark_running(heap, code, roots);
}

fn mark_running(heap: &mut Heap, code: &mut Arena<Linked>, roots: &Roots<'_>) {
    let co = roots.running;
    for value in &co.stack[..roots.top.min(co.stack.len())] {
        heap.shade(*value);
    }
    mark_frames(heap, code, co);
}

fn mark_frames(heap: &mut Heap, code: &mut Arena<Linked>, co: &Coroutine) {
    for frame in &co.frames {
        if frame.work == crate::object::Work::Lua {
            heap.shade(ClosureRef(frame.function).into());
            shade_proto(heap, code, frame.proto);
        } else {
            heap.shade(NativeRef(frame.function).into());
        }
    }
    for (_, index) in &co.open {
        shade_upvalue(heap, *index);
    }
    if let Some(resumer) = co.resumer {
        heap.shade(resumer.into());
    }
}

/// Marks a prototype; objects that it refers to are scanned later.
pub(crate) fn shade_proto(heap: &mut Heap, code: &mut Arena<Linked>, index: u32) {
    // Before the first start of a chunk, the closure that runs all chunks has no valid prototype.
    let Some(linked) = code.own_mut(index) else { return };
    if linked.colour != heap.marked && linked.colour != FREE {
        linked.colour = heap.marked;
        heap.collector.grey.push(Grey::Proto(index));
    }
}

fn shade_upvalue(heap: &mut Heap, index: u32) {
    let upvalue = heap.upvalues.at_mut(index);
    if upvalue.colour != heap.marked && upvalue.colour != FREE {
        upvalue.colour = heap.marked;
        heap.collector.grey.push(Grey::Upvalue(index));
    }
}

/// Marks the objects that an object refers to; returns the units of work.
fn scan(heap: &mut Heap, code: &mut Arena<Linked>, roots: &Roots<'_>, grey: Grey) -> usize {
    match grey {
        Grey::Table(table) => scan_table(heap, table),
        Grey::Closure(closure) => {
            let object = heap.closures.at(closure.0);
            let (proto, env, captures) = (object.proto, object.env, object.captures().to_vec());
            heap.shade_table(TableRef(env));
            for index in &captures {
                shade_upvalue(heap, *index);
            }
            shade_proto(heap, code, proto);
            4 + captures.len()
        }
        Grey::Native(native) => {
            let values = heap.natives.at(native.0).upvalues.to_vec();
            for value in &values {
                heap.shade(*value);
            }
            2 + values.len()
        }
        Grey::Upvalue(index) => {
            if let UpvalueState::Closed(value) = heap.upvalues.at(index).state {
                heap.shade(value);
            }
            2
        }
        Grey::Userdata(data) => {
            if let Some(meta) = heap.userdata.at(data.0).meta {
                heap.shade_table(meta);
            }
            2
        }
        Grey::Thread(thread) => scan_thread(heap, code, roots, thread),
        Grey::Proto(index) => {
            let linked = code.at(index);
            let (consts, inner) = (linked.consts.clone(), linked.inner.clone());
            for value in &consts {
                heap.shade(*value);
            }
            for index in &inner {
                shade_proto(heap, code, *index);
            }
            2 + consts.len() + inner.len()
        }
    }
}

fn scan_thread(heap: &mut Heap, code: &mut Arena<Linked>, roots: &Roots<'_>, thread: ThreadRef) -> usize {
    if thread == roots.thread {
        mark_running(heap, code, roots);
        return roots.top;
    }
    let Some(co) = heap.threads.at_mut(thread.0).coroutine.take() else { return 1 };
    let mut top = co.top as usize;
    for frame in &co.frames {
        let size = match frame.work {
            crate::object::Work::Lua => usize::from(code.at(frame.proto).proto.max_stack),
            _ => 0,
        };
        top = top.max(frame.base as usize + size);
    }
    for value in co.stack.iter().take(top) {
        heap.shade(*value);
    }
    mark_frames(heap, code, &co);
    heap.threads.at_mut(thread.0).coroutine = Some(co);
    top + 4
}

/// Whether a table's keys, and its values, are weak references.
fn weakness(heap: &mut Heap, table: TableRef) -> (bool, bool) {
    let Some(mode) = heap.table_event(table, Metamethod::Mode).as_str() else { return (false, false) };
    let mode = heap.bytes(mode);
    (mode.contains(&b'k'), mode.contains(&b'v'))
}

fn scan_table(heap: &mut Heap, table: TableRef) -> usize {
    let (weak_keys, weak_values) = weakness(heap, table);
    let object = heap.tables.at_mut(table.0);
    let (array, nodes, from) = (object.array.len(), object.nodes.len(), object.scanned as usize);
    let to = (from + PIECE).min(array + nodes);
    object.scanned = to as u32;
    // The rest of the table goes on the list below the objects found in this piece, so that the
    // list stays short.
    if to < array + nodes {
        heap.collector.grey.push(Grey::Table(table));
    } else {
        object.guard &= !guard::LISTED;
    }
    if (weak_keys || weak_values) && object.guard & guard::WEAK == 0 {
        object.guard |= guard::WEAK;
        heap.collector.weak.push(table);
        heap.collector.cleared = 0;
    }
    if from == 0
        && let Some(meta) = object.meta()
    {
        heap.shade_table(meta);
    }
    for at in from..to {
        let object = heap.tables.at(table.0);
        let (key, value) = if at < array {
            (Value::NIL, object.array[at])
        } else {
            let node = object.nodes[at - array];
            (node.key, node.value)
        };
        // The key of an empty entry is marked too, because `next` may look up its position.
        if !weak_keys {
            heap.shade(key);
        }
        if !weak_values || value.is_str() {
            heap.shade(value);
        }
        if weak_keys && key.is_str() {
            heap.shade(key);
        }
    }
    to.saturating_sub(from) + 2
}

/// Called when all objects reachable without the stacks are marked. Scans the stacks again; objects found
/// there are marked in slices, too, until the stacks were scanned [`ROUNDS`] times; then the rest is marked
/// in one step. Then clears weak tables, piece by piece: before each piece, all new references of the program
/// are marked, so an object that a piece finds unmarked is referred to by weak tables alone.
fn finish_marking(heap: &mut Heap, code: &mut Arena<Linked>, roots: &Roots<'_>) -> usize {
    let mut work = 16 + roots.top / 8;
    mark_running(heap, code, roots);
    for thread in std::mem::take(&mut heap.collector.threads) {
        let object = heap.threads.at_mut(thread.0);
        object.touched = false;
        if object.colour == heap.marked {
            work += scan_thread(heap, code, roots, thread);
        }
    }
    if !heap.collector.grey.is_empty() && heap.collector.rounds < ROUNDS {
        heap.collector.rounds += 1;
        return work;
    }
    while let Some(grey) = heap.collector.grey.pop() {
        work += scan(heap, code, roots, grey);
    }
    if let Some(table) = heap.collector.weak.last().copied() {
        heap.collector.rounds = 0;
        return work + clear_weak(heap, table);
    }
    // From here on, new objects have the colour of marked ones.
    heap.colour = heap.marked;
    heap.collector.phase = CollectorPhase::Sweep(0, 0);
    work
}

fn is_dead(heap: &Heap, value: Value) -> bool {
    let index = value.bits() as u32;
    if !value.is_object() || value.is_str() {
        return false;
    }
    // Only the machine's own objects have a colour, because those of an image are never freed.
    let colour = if value.is_table() {
        heap.tables.own(index).map(Object::colour)
    } else if value.is_closure() {
        heap.closures.own(index).map(Object::colour)
    } else if value.is_native() {
        heap.natives.own(index).map(Object::colour)
    } else if value.is_userdata() {
        heap.userdata.own(index).map(Object::colour)
    } else {
        heap.threads.own(index).map(Object::colour)
    };
    colour.is_some_and(|colour| colour != heap.marked)
}

/// Removes the entries with an unmarked key or value from a piece of the last table of the list; returns the
/// units of work.
fn clear_weak(heap: &mut Heap, table: TableRef) -> usize {
    let object = heap.tables.at(table.0);
    let (array, nodes, from) = (object.array.len(), object.nodes.len(), heap.collector.cleared);
    let to = (from + PIECE).min(array + nodes);
    for at in from..to.min(array) {
        if is_dead(heap, heap.tables.at(table.0).array[at]) {
            heap.tables.at_mut(table.0).array[at] = Value::NIL;
        }
    }
    for at in from.saturating_sub(array)..to.saturating_sub(array) {
        let node = heap.tables.at(table.0).nodes[at];
        let key_is_dead = is_dead(heap, node.key);
        if key_is_dead || is_dead(heap, node.value) {
            let node = &mut heap.tables.at_mut(table.0).nodes[at];
            node.value = Value::NIL;
            if key_is_dead {
                node.key = Value::DEAD;
            }
        }
    }
    heap.collector.cleared = to;
    if to == array + nodes {
        heap.collector.weak.pop();
        heap.collector.cleared = 0;
    }
    to.saturating_sub(from) + 16
}

/// Frees the unmarked objects in some slots. Returns the units of work, or `None` when all arenas are done.
fn sweep(heap: &mut Heap, code: &mut Arena<Linked>, arena: u8, from: u32) -> Option<usize> {
    let marked = heap.marked;
    let bytes = &mut Freed::default();
    let next = match arena {
        0 => sweep_some(&mut heap.strings.texts, from, marked, bytes, |_| ()),
        1 => sweep_some(&mut heap.tables, from, marked, bytes, |table| table.guard &= !guard::COLLECTOR),
        2 => sweep_some(&mut heap.closures, from, marked, bytes, |_| ()),
        3 => sweep_some(&mut heap.upvalues, from, marked, bytes, |_| ()),
        4 => sweep_some(&mut heap.natives, from, marked, bytes, |_| ()),
        5 => sweep_some(&mut heap.userdata, from, marked, bytes, |_| ()),
        6 => sweep_some(&mut heap.threads, from, marked, bytes, |_| ()),
        7 => sweep_some(code, from, marked, bytes, |_| ()),
        _ => return None,
    };
    heap.bytes = heap.bytes.saturating_sub(bytes.young + bytes.old);
    heap.old_bytes = heap.old_bytes.saturating_sub(bytes.old);
    heap.collector.dying.append(&mut bytes.dying);
    heap.collector.phase = match next {
        Some(next) => CollectorPhase::Sweep(arena, next),
        None => CollectorPhase::Sweep(arena + 1, 0),
    };
    Some(SWEEP as usize / 2 + bytes.count * FREEING)
}

/// The result of a step of the sweep: freed bytes of the current run's objects, freed bytes of older objects,
/// the number of freed objects, and their large memory, which is freed later in pieces.
#[derive(Default)]
struct Freed {
    young: usize,
    old: usize,
    count: usize,
    dying: Vec<Dying>,
}

fn sweep_some<T: Object>(
    arena: &mut Arena<T>,
    from: u32,
    marked: Colour,
    freed: &mut Freed,
    keep: impl Fn(&mut T),
) -> Option<u32> {
    let len = arena.first() + arena.slots.len() as u32;
    let from = from.max(arena.first());
    let to = from.saturating_add(SWEEP).min(len);
    for index in from..to {
        let object = arena.at_mut(index);
        if object.colour() == marked {
            keep(object);
        } else if object.colour() != FREE {
            let bytes = Arena::<T>::SLOT + object.outside();
            if bytes >= arena::PIECE {
                object.take_large(&mut freed.dying);
            }
            *(if arena.is_old(index) { &mut freed.old } else { &mut freed.young }) += bytes;
            freed.count += 1;
            arena.release(index);
        }
    }
    if to < len { Some(to) } else { None }
}

fn end(heap: &mut Heap) {
    heap.collector.phase = CollectorPhase::Idle;
    heap.collector.kept = heap.old_bytes.min(heap.bytes);
    let pause = heap.collector.pause.max(110);
    let threshold = heap.bytes.saturating_mul(pause) / 100;
    // The threshold is at most halfway to the limit, because the next cycle must begin before the limit is
    // reached.
    let latest = heap.bytes + heap.limit.saturating_sub(heap.bytes) / 2;
    heap.collector.threshold = threshold.max(1 << 20).min(latest.max(1 << 16));
    heap.collector.next_slice = heap.collector.threshold;
}
