//! Calls, returns and switches that the interpreter's loop handles itself, in addition to plain
//! function calls: metamethods, iterators, calls made by native functions, coroutines that are
//! resumed and that yield.
//!
//! Invariants: (1) the functions here leave the same state as `machine.rs` would; (2) every unusual case is
//! left to `machine.rs`, before any change.

use super::exit::{Exit, World};
use super::stack::{FRAMES_MAX, NESTED_MAX, WINDOW, WindowBounds, ensure, place_args, place_results, window};
use crate::arena::Arena;
use crate::code::Linked;
use crate::fault::Fault;
use crate::heap::Heap;
use crate::native::{Demand, NativeStep};
use crate::object::{After, Coroutine, Frame, Status, Work};
use crate::value::{ClosureRef, ThreadRef, Value};

/// The running coroutine, which is kept outside of the heap.
#[derive(Debug)]
pub(super) struct RunningCoroutine<'m> {
    pub(super) co: &'m mut Box<Coroutine>,
    pub(super) thread: &'m mut ThreadRef,
}

/// The call that an instruction makes.
#[derive(Clone, Copy, Debug)]
pub(super) struct CallWanted {
    pub(super) func: usize,
    pub(super) args: usize,
    pub(super) want: i32,
    pub(super) after: After,
}

/// Calls the value in a slot. Returns `None` if the value is a Lua function, whose frame is now the top one,
/// or a native function that has returned.
#[inline(never)]
pub(super) fn enter(
    heap: &mut Heap,
    (world, thread): (&World<'_>, ThreadRef),
    co: &mut Coroutine,
    budget: &mut i64,
    call: CallWanted,
) -> Option<Exit> {
    let CallWanted { func, args, want, after } = call;
    if let Some(native) = co.stack[func].as_native() {
        return call_native(heap, (world, thread), co, budget, (native.0, call));
    }
    let is_nested = after != After::Results;
    let is_too_deep = if is_nested { is_deep(co) } else { co.frames.len() >= FRAMES_MAX };
    let Some(closure) = co.stack[func].as_closure().filter(|_| !is_too_deep) else {
        return Some(Exit::Call { func, args, want, after });
    };
    if let Err(fault) = push_frame(heap, world.code, co, closure, call) {
        return Some(Exit::Fault(fault));
    }
    co.nested += u32::from(is_nested);
    *budget -= 1;
    pause(heap, *budget)
}

/// Whether a further call would exceed the bound on frames, or on calls that PUC-Rio's Lua (PUC) makes on the
/// C stack.
#[inline(always)]
pub(super) fn is_deep(co: &Coroutine) -> bool {
    co.frames.len() >= FRAMES_MAX || co.depth() + 1 >= NESTED_MAX
}

/// Pushes the frame of a call of a Lua function; the list of frames must have room.
#[inline(always)]
pub(super) fn push_frame(
    heap: &mut Heap,
    code: &Arena<Linked>,
    co: &mut Coroutine,
    closure: ClosureRef,
    call: CallWanted,
) -> Result<(), Fault> {
    let CallWanted { func, args, want, after } = call;
    let proto = heap.closures.at(closure.0).proto;
    let base = place_args(heap, &mut co.stack, &code.at(proto).proto, func, args)? as u32;
    let (func, function) = (func as u32, closure.0);
    co.frames.push(Frame { base, func, function, proto, pc: 0, want, tails: 0, after, work: Work::Lua });
    Ok(())
}

/// The exit that pauses the run at the top frame; `None` if the run can continue.
fn pause(heap: &Heap, budget: i64) -> Option<Exit> {
    if heap.is_due() {
        return Some(Exit::Collect);
    }
    if budget <= 0 { Some(Exit::Budget) } else { None }
}

/// Passes the top frame's results to the frame below. Returns `None` if the top frame is then a Lua function
/// again.
#[inline(never)]
pub(super) fn hand_back(
    heap: &mut Heap,
    (world, thread): (&World<'_>, ThreadRef),
    co: &mut Coroutine,
    budget: &mut i64,
    (from, count): (usize, usize),
) -> Option<Exit> {
    let depth = co.frames.len();
    // Fields are read one by one, because copying a whole frame that was just pushed would wait for its
    // stores.
    let [.., below, frame] = co.frames.as_slice() else { return Some(Exit::Return { from, count }) };
    let (work, after, want, func) = (below.work, frame.after, frame.want, frame.func as usize);
    match work {
        Work::Native if after == After::Results && want < 0 => {
            co.frames.truncate(depth - 1);
            place_results(co, from, count, func, want);
            go_on(heap, (world, thread), co, budget)
        }
        Work::Lua if !matches!(after, After::Results | After::Concat { .. }) => {
            co.frames.truncate(depth - 1);
            co.nested -= 1;
            deliver(world.code, co, budget, after, (from, count));
            pause(heap, *budget)
        }
        _ => Some(Exit::Return { from, count }),
    }
}

/// Passes values to the top frame, which is a Lua function, in the way that its instruction requires. Plain
/// results and values for a concatenation are not passed here.
#[inline(always)]
pub(super) fn deliver(
    code: &Arena<Linked>,
    co: &mut Coroutine,
    budget: &mut i64,
    after: After,
    (from, count): (usize, usize),
) {
    let first = if count > 0 { co.stack[from] } else { Value::NIL };
    let Some(frame) = co.frames.last_mut() else { return };
    match after {
        After::Register(register) => co.stack[frame.base as usize + usize::from(register)] = first,
        After::Jump { when, target } => {
            if first.truthy() == when {
                *budget -= i64::from(frame.pc.saturating_sub(target));
                frame.pc = target;
            }
        }
        After::Each { first: register, count: wanted } => {
            let to = frame.base as usize + usize::from(register) + 3;
            if !first.is_nil() {
                let target = code.at(frame.proto).proto.code[frame.pc as usize - 1].d;
                *budget -= i64::from(frame.pc.saturating_sub(target));
                frame.pc = target;
                co.stack[to - 1] = first;
            }
            if wanted == 1 {
                co.stack[to] = first;
            } else {
                place_results(co, from, count, to, i32::from(wanted));
            }
        }
        After::Nothing | After::Results | After::Concat { .. } => {}
    }
}

/// Calls a native function for an instruction that is not a call.
fn call_native(
    heap: &mut Heap,
    (world, thread): (&World<'_>, ThreadRef),
    co: &mut Coroutine,
    budget: &mut i64,
    (function, call): (u32, CallWanted),
) -> Option<Exit> {
    let CallWanted { func, args, want, after } = call;
    // `machine.rs` handles the other cases, and raises an error if the call is one too many on PUC's C stack.
    let is_usual = !matches!(after, After::Results | After::Concat { .. }) && co.depth() + 1 != NESTED_MAX;
    if !is_usual {
        return Some(Exit::Call { func, args, want, after });
    }
    let top = func + 1 + args;
    if let Err(fault) = ensure(heap, &mut co.stack, top) {
        return Some(Exit::Fault(fault));
    }
    let native = world.natives[heap.natives.at(function).native as usize].call;
    *budget -= 1;
    let bounds = WindowBounds { base: func + 1, top, function, thread, main: world.main };
    let mut ctx = window(heap, co, budget, bounds);
    let step = native(&mut ctx);
    let top = ctx.top;
    match step {
        Ok(NativeStep::Return(count)) => {
            deliver(world.code, co, budget, after, (top - count, count));
            pause(heap, *budget)
        }
        step => Some(Exit::NativeStep { step, func, top, function, want, after }),
    }
}

/// Resumes the native function of the top frame after its call has returned. Returns `None` if the native
/// function has called a Lua function, whose frame is now the top one.
fn go_on(
    heap: &mut Heap,
    (world, thread): (&World<'_>, ThreadRef),
    co: &mut Coroutine,
    budget: &mut i64,
) -> Option<Exit> {
    let frame = co.frames.last()?;
    let (base, function) = (frame.base as usize, frame.function);
    let native = &world.natives[heap.natives.at(function).native as usize];
    let Some(resume) = native.resume else {
        return Some(Exit::Resumed(Err(Fault::without_position("a function that cannot go on"))));
    };
    let state = co.states.pop().unwrap_or_else(|| Box::new(()));
    let top = co.top as usize;
    if let Err(fault) = ensure(heap, &mut co.stack, top) {
        return Some(Exit::Resumed(Err(fault)));
    }
    let bounds = WindowBounds { base, top, function, thread, main: world.main };
    let mut ctx = window(heap, co, budget, bounds);
    let step = resume(&mut ctx, state);
    let top = ctx.top;
    co.top = top as u32;
    let (values, state) = match step {
        Ok(NativeStep::Call(values, state)) => (values, state),
        step => return Some(Exit::Resumed(step)),
    };
    co.states.push(state);
    let call = CallWanted { func: top - values, args: values - 1, want: -1, after: After::Results };
    let callee = co.stack[call.func].as_closure();
    let Some(closure) = callee.filter(|_| co.frames.len() < FRAMES_MAX) else {
        return enter(heap, (world, thread), co, budget, call);
    };
    if let Err(fault) = push_frame(heap, world.code, co, closure, call) {
        return Some(Exit::Fault(fault));
    }
    *budget -= 1;
    pause(heap, *budget)
}

/// A call of a native function that switches coroutines.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchCall {
    pub(super) func: usize,
    pub(super) top: usize,
    pub(super) function: u32,
    pub(super) want: i32,
}

impl SwitchCall {
    fn frame(&self, work: Work) -> Frame {
        let (func, function, want) = (self.func as u32, self.function, self.want);
        Frame { base: func + 1, func, function, proto: 0, pc: 0, want, tails: 0, after: After::Results, work }
    }
}

/// Whether a coroutine that waits in a call of a native function can simply take `count` values, because a
/// Lua function made the call as a plain call and the stack has room.
fn takes(co: &Coroutine, count: usize, is_right: impl Fn(Work) -> bool) -> bool {
    let [.., below, frame] = co.frames.as_slice() else { return false };
    let results = count.max(frame.want.max(0) as usize);
    is_right(frame.work)
        && frame.after == After::Results
        && below.work == Work::Lua
        && co.stack.len() >= frame.func as usize + results + WINDOW
}

/// Passes values to a coroutine for which [`takes`] is true, as the results of the call that it waits in.
fn give(co: &mut Coroutine, head: Option<Value>, values: &[Value]) {
    let Some(frame) = co.frames.pop() else { return };
    co.nested -= 1;
    let func = frame.func as usize;
    let mut at = func;
    if let Some(head) = head {
        co.stack[at] = head;
        at += 1;
    }
    co.stack[at..at + values.len()].copy_from_slice(values);
    let count = at + values.len() - func;
    place_results(co, func, count, func, frame.want);
}

/// Serves a native function of the coroutine library in the usual case: a coroutine that has yielded is
/// resumed, or the running one yields. Returns false if nothing was done.
pub(super) fn switch(
    heap: &mut Heap,
    demand: &Demand,
    running: &mut RunningCoroutine<'_>,
    call: SwitchCall,
) -> bool {
    let co = &mut **running.co;
    if co.frames.len() >= FRAMES_MAX || co.depth() + 1 >= NESTED_MAX {
        return false;
    }
    let from = call.func + 1;
    let (target, from, wrapped) = match demand {
        Demand::Resume => (co.stack[from].as_thread(), from + 1, Some(false)),
        Demand::ResumeWrapped => {
            let upvalue = heap.natives.at(call.function).upvalues.first().copied();
            (upvalue.and_then(Value::as_thread), from, Some(true))
        }
        Demand::Yield if co.nested == 0 => (co.resumer, from, None),
        _ => return false,
    };
    let Some(target) = target.filter(|target| target != running.thread) else { return false };
    let from = from.min(call.top);
    let count = call.top - from;
    let Some(other) = heap.threads.at(target.0).coroutine.as_ref() else { return false };
    let is_ready = match wrapped {
        Some(_) => other.status == Status::Suspended && takes(other, count, |work| work == Work::Yield),
        None => takes(other, count + 1, |work| matches!(work, Work::Resume { .. })),
    };
    if !is_ready {
        return false;
    }
    let Some(mut other) = heap.threads.at_mut(target.0).coroutine.take() else { return false };
    co.nested += 1;
    co.top = call.top as u32;
    heap.strings.moved(count);
    let head = match wrapped {
        Some(wrapped) => {
            co.frames.push(call.frame(Work::Resume { wrapped }));
            co.status = Status::Normal;
            other.resumer = Some(*running.thread);
            other.below = co.depth();
            None
        }
        None => {
            co.frames.push(call.frame(Work::Yield));
            co.status = Status::Suspended;
            co.resumer = None;
            let wrapped = other.frames.last().map(|frame| frame.work) == Some(Work::Resume { wrapped: true });
            if wrapped { None } else { Some(Value::TRUE) }
        }
    };
    other.status = Status::Running;
    give(&mut other, head, &co.stack[from..from + count]);
    let left = std::mem::replace(running.co, other);
    heap.threads.at_mut(running.thread.0).coroutine = Some(left);
    heap.thread_ran(*running.thread);
    *running.thread = target;
    true
}
