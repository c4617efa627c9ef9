//! Slots, frames and open upvalues of a coroutine.

use crate::code::Proto;
use crate::fault::Fault;
use crate::heap::Heap;
use crate::native::Ctx;
use crate::object::{After, Coroutine, Frame, SLOT_BYTES, UpvalueState, Work};
use crate::value::{ThreadRef, Value};

/// Number of registers that an instruction can name: each frame has this many slots from its base on, used
/// or not.
pub(super) const WINDOW: usize = 256;

/// Maximum number of frames of a coroutine, as in the reference, whose list of calls doubles and must not
/// exceed 20,000.
pub(super) const FRAMES_MAX: usize = 16_383;

/// The nesting of calls on the reference's C stack at which a call fails with [`OVERFLOW`].
pub(super) const NESTED_MAX: u32 = 199;

/// The nesting at which calls fail that handle the error about [`NESTED_MAX`]: about an eighth more, as in
/// the reference.
pub(super) const NESTED_HANDLING: u32 = NESTED_MAX + 24;

/// The error about exceeding [`NESTED_MAX`].
pub(super) const OVERFLOW: &str = "C stack overflow";

/// The error about exceeding [`NESTED_HANDLING`], and about a handler that cannot be called.
pub(super) const HANDLING_FAILED: &str = "error in error handling";

/// Makes the stack long enough for slot `to` and a window of 256 slots from there.
#[inline(always)]
pub(super) fn ensure(heap: &mut Heap, stack: &mut Vec<Value>, to: usize) -> Result<(), Fault> {
    if stack.len() < to + WINDOW {
        return grow(heap, stack, to);
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn grow(heap: &mut Heap, stack: &mut Vec<Value>, to: usize) -> Result<(), Fault> {
    let len = (to + WINDOW).max(stack.len() * 2);
    let more = (len - stack.len()) * SLOT_BYTES;
    heap.room(more)?;
    heap.charge(more)?;
    stack.resize(len, Value::NIL);
    Ok(())
}

/// The index of the open upvalue of a slot, which is made if there is none.
pub(super) fn open_upvalue(
    heap: &mut Heap,
    open: &mut Vec<(u32, u32)>,
    thread: ThreadRef,
    slot: u32,
) -> Result<u32, Fault> {
    let at = open.partition_point(|(other, _)| *other < slot);
    if let Some((other, index)) = open.get(at)
        && *other == slot
    {
        return Ok(*index);
    }
    let index = heap.new_upvalue(UpvalueState::Open(thread, slot))?;
    open.insert(at, (slot, index));
    Ok(index)
}

/// Closes the open upvalues of the slots from `from` on.
#[inline(always)]
pub(super) fn close_upvalues(heap: &mut Heap, open: &mut Vec<(u32, u32)>, stack: &[Value], from: u32) {
    if open.last().is_some_and(|(slot, _)| *slot >= from) {
        close_some(heap, open, stack, from);
    }
}

#[inline(never)]
fn close_some(heap: &mut Heap, open: &mut Vec<(u32, u32)>, stack: &[Value], from: u32) {
    while let Some((slot, index)) = open.last().copied().filter(|(slot, _)| *slot >= from) {
        heap.set_closed(index, stack[slot as usize]);
        open.pop();
    }
}

/// Whether PUC-Rio's Lua would have made this call on the C stack.
pub(super) fn is_nested(frame: &Frame) -> bool {
    frame.work != Work::Lua || frame.after != After::Results
}

/// The number of extra arguments of a vararg function's call.
pub(super) fn extra_args(frame: &Frame, proto: &Proto) -> usize {
    (frame.base as usize - frame.func as usize - 1).saturating_sub(usize::from(proto.params))
}

/// Moves the arguments of a call to where the prototype expects them; returns the base of the frame.
#[inline(always)]
pub(super) fn place_args(
    heap: &mut Heap,
    stack: &mut Vec<Value>,
    proto: &Proto,
    func: usize,
    args: usize,
) -> Result<usize, Fault> {
    let params = usize::from(proto.params);
    if proto.is_vararg {
        return place_varargs(heap, stack, proto, func, args);
    }
    let base = func + 1;
    ensure(heap, stack, base)?;
    if args < params {
        stack[base + args..base + params].fill(Value::NIL);
    }
    Ok(base)
}

#[inline(never)]
fn place_varargs(
    heap: &mut Heap,
    stack: &mut Vec<Value>,
    proto: &Proto,
    func: usize,
    args: usize,
) -> Result<usize, Fault> {
    let params = usize::from(proto.params);
    let base = func + 1 + args;
    ensure(heap, stack, base)?;
    heap.strings.moved(args);
    for at in 0..params {
        stack[base + at] = if at < args { stack[func + 1 + at] } else { Value::NIL };
    }
    if proto.wants_arg {
        let extra = args.saturating_sub(params);
        let table = heap.new_table(extra, 1)?;
        for at in 0..extra {
            heap.set_int(table, at as i64 + 1, stack[func + 1 + params + at])?;
        }
        heap.set_text(table, b"n", Value::number(extra as f64))?;
        stack[base + params] = table.into();
    } else if (proto.max_stack as usize) > params {
        // The slot after the parameters is the hidden variable `arg`.
        stack[base + params] = Value::NIL;
    }
    Ok(base)
}

/// Sets slots to nil. The function is not inlined, because the compiler would prepare the registers of its
/// loop before every instruction of a program, which cost a tenth of the time of short instructions.
#[inline(never)]
pub(super) fn empty(slots: &mut [Value]) {
    slots.fill(Value::NIL);
}

/// The window of a native function, and its coroutine.
#[derive(Clone, Copy, Debug)]
pub(super) struct WindowBounds {
    pub(super) base: usize,
    pub(super) top: usize,
    /// The index of the native closure.
    pub(super) function: u32,
    pub(super) thread: ThreadRef,
    pub(super) main: ThreadRef,
}

/// The context of a native function, made of parts of the machine.
#[inline(always)]
pub(super) fn window<'m>(
    heap: &'m mut Heap,
    co: &'m mut Coroutine,
    budget: &'m mut i64,
    bounds: WindowBounds,
) -> Ctx<'m> {
    let WindowBounds { base, top, function, thread, main } = bounds;
    let (stack, frames) = (&mut co.stack, &co.frames[..]);
    Ctx { heap, stack, frames, base, top, function, budget, thread: thread.0, is_main: thread == main }
}

/// Moves results to where the caller of a call expects them.
#[inline(always)]
pub(super) fn place_results(co: &mut Coroutine, from: usize, count: usize, func: usize, want: i32) {
    if want < 0 {
        if count == 1 {
            co.stack[func] = co.stack[from];
        } else {
            co.stack.copy_within(from..from + count, func);
        }
        co.top = (func + count) as u32;
        return;
    }
    let want = want as usize;
    if want <= count {
        co.stack.copy_within(from..from + want, func);
    } else {
        co.stack.copy_within(from..from + count, func);
        co.stack[func + count..func + want].fill(Value::NIL);
    }
}

/// Values that are passed from one coroutine to another.
pub(super) struct Carried {
    few: [Value; 8],
    many: Vec<Value>,
    count: usize,
}

impl Carried {
    pub(super) fn new(values: &[Value]) -> Carried {
        let (mut few, mut many) = ([Value::NIL; 8], Vec::new());
        match few.get_mut(..values.len()) {
            Some(few) => few.copy_from_slice(values),
            None => many = values.to_vec(),
        }
        Carried { few, many, count: values.len() }
    }

    pub(super) fn as_slice(&self) -> &[Value] {
        if self.many.is_empty() { &self.few[..self.count.min(self.few.len())] } else { &self.many }
    }
}
