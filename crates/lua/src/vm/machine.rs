//! The machine that runs one program: calls, results, coroutines, and the loop over frames.
//!
//! Invariants: (1) the running coroutine is kept outside of the heap, all others in it; (2) between two
//! steps the whole state of a run is in `Machine`, so a run is paused simply by not continuing it.

use std::sync::Arc;

use super::exit::{Exit, Known, World};
use super::inside::RunningCoroutine;
use super::interp;
use super::names;
use super::operate::{self, Joined};
use super::stack::{
    Carried, FRAMES_MAX, HANDLING_FAILED, NESTED_HANDLING, NESTED_MAX, OVERFLOW, close_upvalues, ensure,
    is_nested, place_args, place_results,
};
use crate::arena::Arena;
use crate::code::Linked;
use crate::fault::Fault;
use crate::heap::{Heap, Metamethod};
use crate::held::HeldBytes;
use crate::native::{Native, NativeStep};
use crate::object::{After, Coroutine, Frame, Protection, SLOT_BYTES, Status, Work};
use crate::symbols::MachineSymbols;
use crate::value::{ClosureRef, ThreadRef, Value};

/// The reason why a run has halted.
#[derive(Debug)]
pub(crate) enum Halt {
    /// The run has ended; this many slots at the beginning of the main program's stack are its results.
    Done(usize),
    /// The run requests something from the host by this code; the arguments are in the top frame's window.
    Request(u32),
    /// The budget is used up.
    OutOfBudget,
    /// An error with this value was not caught.
    Failed(Value),
    /// The collector has a slice to do, or recorded work must be charged to the budget.
    Collect,
    /// All garbage must be collected before the run continues.
    CollectAll,
}

/// The state of a machine and of its run.
#[derive(Debug, Default)]
pub(crate) struct Machine {
    pub(crate) heap: Heap,
    pub(crate) code: Arena<Linked>,
    pub(crate) natives: Arc<Vec<Native>>,
    pub(crate) known: Known,
    /// The running coroutine; `thread` is its reference in the heap.
    pub(crate) co: Box<Coroutine>,
    pub(crate) thread: ThreadRef,
    /// The main program's coroutine.
    pub(crate) main: ThreadRef,
    /// Units of the budget that are left.
    pub(crate) budget: i64,
    /// Whether the budget counts each instruction and is checked at each.
    pub(crate) stepwise: bool,
    /// Strings that constants share.
    pub(crate) symbols: MachineSymbols,
    /// The closure that runs chunks; its prototype is that of the chunk started last.
    pub(crate) chunk: ClosureRef,
    /// Whether prototypes that are linked now stay loaded.
    pub(crate) is_permanent: bool,
    /// Whether `pcall` also looks at the field `err` of an error that is a table: see `Vm::look_into_errors`.
    pub(crate) looks_into_errors: bool,
    /// Cycles of the collector that must end before the run continues.
    pub(crate) cycles_due: u8,
    /// An error that is thrown when the run continues.
    pub(crate) start_fault: Option<Fault>,
    /// The halt of the run in its first call, if that was a call of a native function; `run` returns it when
    /// the run continues.
    pub(crate) start_halt: Option<Halt>,
}

/// The next action of the machine.
pub(super) enum Onward {
    /// Continue with the top frame.
    Go,
    Halt(Halt),
}

impl Machine {
    /// Runs until the program halts for one of the reasons of [`Halt`].
    pub(crate) fn run(&mut self) -> Halt {
        if let Some(halt) = self.start_halt.take() {
            return halt;
        }
        loop {
            let pending = self.start_fault.take();
            let next = match pending.map_or_else(|| self.step(), Err) {
                Ok(next) => next,
                Err(fault) => self.raise(fault),
            };
            if let Onward::Halt(halt) = next {
                return halt;
            }
        }
    }

    /// Calls the function in the first slot of the main program's stack, with `args` arguments.
    pub(crate) fn begin(&mut self, args: usize) {
        self.is_permanent = false;
        match self.call(0, args, -1, After::Results) {
            Ok(Onward::Go) => {}
            // A native function has run already; its result is kept for `run`.
            Ok(Onward::Halt(halt)) => self.start_halt = Some(halt),
            Err(fault) => self.start_fault = Some(fault),
        }
    }

    /// Removes all frames, so that the next run begins with an empty main program.
    pub(crate) fn stop(&mut self) {
        while self.thread != self.main {
            self.unwind(0);
            let resumer = self.co.resumer.take().unwrap_or(self.main);
            self.switch_to(resumer);
        }
        self.unwind(0);
        self.co.states.clear();
        // The count of held bytes begins at 0 again. The states of other coroutines are freed with the
        // coroutines, perhaps by another thread, and this changes only the old count.
        if self.heap.held.sum() > 0 {
            self.heap.held = HeldBytes::default();
        }
        self.co.nested = 0;
        self.co.top = 0;
        self.stepwise = false;
        self.cycles_due = 0;
        self.start_fault = None;
        self.start_halt = None;
    }

    /// The number of slots that the running coroutine uses.
    pub(crate) fn used_slots(&self) -> usize {
        let top = self.co.top as usize;
        let frame = self.co.frames.last().map_or(0, |frame| match frame.work {
            Work::Lua => frame.base as usize + usize::from(self.code.at(frame.proto).proto.max_stack),
            _ => frame.base as usize,
        });
        top.max(frame).min(self.co.stack.len())
    }

    /// The arguments of the request that the run waits for.
    pub(crate) fn request_args(&self) -> &[Value] {
        match self.co.frames.last() {
            Some(frame) if frame.work == Work::Host => {
                &self.co.stack[frame.base as usize..self.co.top as usize]
            }
            _ => &[],
        }
    }

    /// Passes the host's results to the request, and ends the wait.
    pub(crate) fn answer(&mut self, values: &[Value]) {
        let Some(frame) = self.co.frames.last().copied().filter(|frame| frame.work == Work::Host) else {
            return;
        };
        self.pop();
        if let ([value], After::Results, -1 | 1) = (values, frame.after, frame.want) {
            // The usual case is a plain call, whose result is stored where the function was.
            self.co.stack[frame.func as usize] = *value;
            if frame.want < 0 {
                self.co.top = frame.func + 1;
            }
            return;
        }
        let at = self.co.top as usize;
        if let Err(fault) = self.give(at, &[], values, frame) {
            self.start_fault = Some(fault);
        }
    }

    /// Ends the request with an error.
    pub(crate) fn answer_error(&mut self, fault: Fault) {
        let Some(frame) = self.co.frames.last().copied().filter(|frame| frame.work == Work::Host) else {
            return;
        };
        self.pop();
        self.start_fault = Some(self.native_fault(fault, &frame));
    }

    /// Does one step with the top frame, as its kind requires.
    fn step(&mut self) -> Result<Onward, Fault> {
        let Some(frame) = self.co.frames.last() else { return self.finish_coroutine() };
        match frame.work {
            Work::Lua => {
                let world =
                    World { code: &self.code, natives: &self.natives, known: self.known, main: self.main };
                let running = RunningCoroutine { co: &mut self.co, thread: &mut self.thread };
                let (heap, budget) = (&mut self.heap, &mut self.budget);
                let exit = if self.stepwise {
                    interp::execute::<true>(heap, world, running, budget)
                } else {
                    interp::execute::<false>(heap, world, running, budget)
                };
                self.pay_work();
                self.follow(exit)
            }
            Work::Native => self.resume_native(),
            Work::Protected(by) => {
                // The function has returned, so `true` is stored before its results, in the slot where the
                // handler or `pcall` itself was.
                let frame = *frame;
                let from = if by == Protection::Xpcall { frame.base } else { frame.func } as usize;
                self.co.stack[from] = Value::TRUE;
                let count = self.co.top as usize - from;
                self.pop();
                self.deliver(from, count, frame)
            }
            Work::Handler => {
                let value = self.co.stack[frame.base as usize];
                Ok(self.end_protected(value))
            }
            Work::Looking => {
                let frame = *frame;
                let base = frame.base as usize;
                let (error, text) = (self.co.stack[base], self.co.stack[base + 1]);
                self.pop();
                self.give_failure(error, text, frame)
            }
            Work::Resume { .. } | Work::Yield | Work::Host => {
                Err(Fault::without_position("the run stands still"))
            }
        }
    }

    /// Charges the recorded work beyond that of instructions to the budget.
    fn pay_work(&mut self) {
        self.budget = self.budget.saturating_sub(i64::from(self.heap.strings.take_work()));
    }

    fn follow(&mut self, exit: Exit) -> Result<Onward, Fault> {
        match exit {
            Exit::Budget => Ok(Onward::Halt(Halt::OutOfBudget)),
            Exit::Collect => Ok(Onward::Halt(Halt::Collect)),
            Exit::Fault(fault) => Err(fault),
            Exit::Call { func, args, want, after } => self.call(func, args, want, after),
            Exit::Join { slots, first, into } => {
                let Some(base) = self.co.frames.last().map(|frame| frame.base as usize) else {
                    return self.finish_coroutine();
                };
                self.join_long(base, slots, first, into)
            }
            Exit::Return { from, count } => {
                let Some(frame) = self.co.frames.last().copied() else { return self.finish_coroutine() };
                self.pop();
                self.deliver(from, count, frame)
            }
            Exit::Resumed(step) => {
                let Some(frame) = self.co.frames.last().copied() else { return Ok(Onward::Go) };
                self.pop();
                self.act(step, frame)
            }
            Exit::NativeStep { step, func, top, function, want, after } => {
                self.co.top = top as u32;
                let frame = self.native_frame(func, function, want, after);
                self.act(step, frame)
            }
        }
    }

    // Frames.

    pub(super) fn native_frame(&self, func: usize, function: u32, want: i32, after: After) -> Frame {
        let base = func as u32 + 1;
        Frame {
            base,
            func: func as u32,
            function,
            proto: 0,
            pc: 0,
            want,
            tails: 0,
            after,
            work: Work::Native,
        }
    }

    pub(super) fn push(&mut self, frame: Frame) -> Result<(), Fault> {
        if self.co.frames.len() >= FRAMES_MAX {
            return Err(Fault::bare("stack overflow"));
        }
        if is_nested(&frame) {
            self.co.nested += 1;
        }
        self.co.frames.push(frame);
        let depth = self.co.depth();
        let is_switch = matches!(frame.work, Work::Resume { .. } | Work::Yield);
        if !is_nested(&frame) || is_switch || (depth != NESTED_MAX && depth < NESTED_HANDLING) {
            return Ok(());
        }
        // This is one call more than allowed, so the caller gets an error. Only handlers of that error may
        // make further calls.
        let text = if depth < NESTED_HANDLING { OVERFLOW } else { HANDLING_FAILED };
        self.pop();
        Err(if frame.work == Work::Lua { Fault::bare(text) } else { Fault::without_position(text) })
    }

    pub(super) fn pop(&mut self) {
        if let Some(frame) = self.co.frames.pop()
            && is_nested(&frame)
        {
            self.co.nested -= 1;
        }
    }

    /// The first slot after all slots that the top frame uses.
    pub(super) fn top_slot(&self) -> usize {
        let top = self.co.top as usize;
        match self.co.frames.last() {
            Some(frame) if frame.work == Work::Lua => {
                let proto = &self.code.at(frame.proto).proto;
                (frame.base as usize + usize::from(proto.max_stack)).max(top.min(self.co.stack.len() / 2))
            }
            _ => top,
        }
    }

    // Calls.

    /// Calls the value in a slot with the arguments after it.
    pub(super) fn call(
        &mut self,
        func: usize,
        args: usize,
        want: i32,
        after: After,
    ) -> Result<Onward, Fault> {
        let mut args = args;
        let callee = self.co.stack[func];
        if !callee.is_function() {
            let handler = self.heap.metamethod(callee, Metamethod::Call);
            if !handler.is_function() {
                return Err(self.not_callable(func, callee));
            }
            ensure(&mut self.heap, &mut self.co.stack, func + args + 2)?;
            self.co.stack.copy_within(func..func + 1 + args, func + 1);
            self.co.stack[func] = handler;
            args += 1;
        }
        match self.co.stack[func].as_closure() {
            Some(closure) => {
                self.enter(closure, func, args, want, after)?;
                Ok(Onward::Go)
            }
            None => self.call_native(func, args, want, after),
        }
    }

    pub(super) fn enter(
        &mut self,
        closure: ClosureRef,
        func: usize,
        args: usize,
        want: i32,
        after: After,
    ) -> Result<(), Fault> {
        let index = self.heap.closures.at(closure.0).proto;
        let proto = &self.code.at(index).proto;
        let base = place_args(&mut self.heap, &mut self.co.stack, proto, func, args)?;
        self.budget -= 1;
        self.push(Frame {
            base: base as u32,
            func: func as u32,
            function: closure.0,
            proto: index,
            pc: 0,
            want,
            tails: 0,
            after,
            work: Work::Lua,
        })
    }

    fn not_callable(&self, func: usize, callee: Value) -> Fault {
        let named = self.co.frames.last().filter(|frame| frame.work == Work::Lua).and_then(|frame| {
            let register = u8::try_from(func.checked_sub(frame.base as usize)?).ok()?;
            let linked = self.code.at(frame.proto);
            let instr = linked.proto.code.get((frame.pc as usize).checked_sub(1)?)?;
            // The error names the variable only for a call instruction, because a generic `for` calls its
            // function in a register that the instruction itself has set.
            let is_call = matches!(instr.op, crate::code::Op::Call | crate::code::Op::TailCall);
            let register = if is_call && instr.a == register { Some(register) } else { None };
            let pc = frame.pc as usize;
            Some(names::operand_error(&self.heap, linked, frame.function, pc, register, callee, "call"))
        });
        named.unwrap_or_else(|| Fault::bare(format!("attempt to call a {} value", callee.type_name())))
    }

    /// Passes the values `from..from + count` to the top frame. `frame` is the frame of the call that returns
    /// them, which was just popped.
    pub(super) fn deliver(&mut self, from: usize, count: usize, frame: Frame) -> Result<Onward, Fault> {
        let first = if count > 0 { self.co.stack[from] } else { Value::NIL };
        let (base, pc) = self.co.frames.last().map_or((0, 0), |below| (below.base as usize, below.pc));
        match frame.after {
            After::Results => {
                let func = frame.func as usize;
                ensure(&mut self.heap, &mut self.co.stack, func + count.max(frame.want.max(0) as usize))?;
                place_results(&mut self.co, from, count, func, frame.want);
            }
            After::Register(register) => self.co.stack[base + usize::from(register)] = first,
            After::Nothing => {}
            After::Jump { when, target } => {
                if first.truthy() == when {
                    if target < pc {
                        self.budget -= i64::from(pc - target);
                    }
                    self.set_pc(target);
                }
            }
            After::Concat { first: start, at, into } => {
                self.co.stack[base + usize::from(at)] = first;
                return self.go_on_joining(base, start, at, into);
            }
            After::Each { first: register, count: wanted } => {
                let to = base + usize::from(register) + 3;
                place_results(&mut self.co, from, count, to, i32::from(wanted));
                let control = self.co.stack[to];
                if !control.is_nil() {
                    self.co.stack[to - 1] = control;
                    self.jump_of_for();
                }
            }
        }
        if self.budget <= 0 {
            return Ok(self.pause());
        }
        Ok(Onward::Go)
    }

    /// The next action when the budget is used up between two steps: a halt, unless no frame is left. The
    /// loop's state need not be written back.
    fn pause(&self) -> Onward {
        if self.co.frames.is_empty() { Onward::Go } else { Onward::Halt(Halt::OutOfBudget) }
    }

    fn set_pc(&mut self, target: u32) {
        if let Some(frame) = self.co.frames.last_mut() {
            frame.pc = target;
        }
    }

    fn jump_of_for(&mut self) {
        if let Some(frame) = self.co.frames.last_mut() {
            let proto = &self.code.at(frame.proto).proto;
            let target = proto.code[frame.pc as usize - 1].d;
            self.budget -= i64::from(frame.pc.saturating_sub(target));
            frame.pc = target;
        }
    }

    fn go_on_joining(&mut self, base: usize, first: u8, last: u8, into: u8) -> Result<Onward, Fault> {
        let (from, to) = (base + usize::from(first), base + usize::from(last));
        match operate::concat(&mut self.heap, &mut self.co.stack, from, to)? {
            Joined::Done => {
                let joined = self.co.stack[from];
                self.co.stack[base + usize::from(into)] = joined;
                // Joined bytes are charged; if there was nothing to join, the string was charged when it
                // was made.
                if from < to {
                    self.heap.strings.handled(self.heap.strings.bytes_of(joined));
                }
                Ok(Onward::Go)
            }
            Joined::Long(at, to) => self.join_long(base, (at, to), first, into),
            Joined::Call(handler, at) => {
                let func = self.top_slot();
                ensure(&mut self.heap, &mut self.co.stack, func + 3)?;
                let values = [handler, self.co.stack[at], self.co.stack[at + 1]];
                self.co.stack[func..func + 3].copy_from_slice(&values);
                self.call(func, 2, 1, After::Concat { first, at: (at - base) as u8, into })
            }
            Joined::Error(at) => {
                let value = self.co.stack[at];
                let at = if value.is_str() || value.is_number() { at + 1 } else { at };
                let value = self.co.stack[at];
                let Some(frame) = self.co.frames.last() else { return Ok(Onward::Go) };
                let linked = self.code.at(frame.proto);
                let register = Some((at - base) as u8);
                let (function, pc) = (frame.function, frame.pc as usize);
                Err(names::operand_error(&self.heap, linked, function, pc, register, value, "concatenate"))
            }
        }
    }

    /// Joins the strings of some slots by a native function, which can be paused between pieces. The result
    /// goes into the first of these slots, and the concatenation continues.
    fn join_long(
        &mut self,
        base: usize,
        (from, to): (usize, usize),
        first: u8,
        into: u8,
    ) -> Result<Onward, Fault> {
        let joiner = self.heap.joiner.as_native();
        let is_whole = self.co.depth() + 1 >= NESTED_MAX || self.co.frames.len() + 1 >= FRAMES_MAX;
        let Some(joiner) = joiner.filter(|_| !is_whole) else {
            // The string is joined in one step if a further call would be one too many, because the program
            // itself makes no call here and must not get that error.
            let values = &self.co.stack[from..=to];
            let len = operate::joined_len(&self.heap, values);
            self.co.stack[from] = operate::join(&mut self.heap, values, len)?;
            return self.go_on_joining(base, first, (from - base) as u8, into);
        };
        let func = self.top_slot();
        let top = func + 1 + (to + 1 - from);
        ensure(&mut self.heap, &mut self.co.stack, top)?;
        self.co.stack[func] = self.heap.joiner;
        self.co.stack.copy_within(from..=to, func + 1);
        let after = After::Concat { first, at: (from - base) as u8, into };
        let frame = self.native_frame(func, joiner.0, 1, after);
        let join = self.natives[self.heap.natives.at(joiner.0).native as usize].call;
        let step = self.in_window(&frame, top, join);
        self.act(step, frame)
    }

    // Coroutines.

    /// Ends the running coroutine, whose last frame has returned.
    fn finish_coroutine(&mut self) -> Result<Onward, Fault> {
        let count = self.co.top as usize;
        if self.thread == self.main {
            return Ok(Onward::Halt(Halt::Done(count)));
        }
        self.co.status = Status::Dead;
        self.heap.strings.moved(count);
        let values = Carried::new(&self.co.stack[..count]);
        self.drop_stack();
        Ok(self.back_to_resumer(values.as_slice(), None))
    }

    /// Frees the stack of a dead coroutine.
    pub(super) fn drop_stack(&mut self) {
        let stack = std::mem::take(&mut self.co.stack);
        self.heap.bytes = self.heap.bytes.saturating_sub(stack.len() * SLOT_BYTES);
    }

    /// Returns to the coroutine that resumed the running one, with values or an error.
    pub(super) fn back_to_resumer(&mut self, values: &[Value], error: Option<Value>) -> Onward {
        let resumer = self.co.resumer.take().unwrap_or(self.main);
        self.switch_to(resumer);
        self.co.status = Status::Running;
        let Some(frame) = self.co.frames.last().copied() else {
            return Onward::Halt(Halt::Failed(Value::NIL));
        };
        let wrapped = matches!(frame.work, Work::Resume { wrapped: true });
        self.pop();
        let func = frame.func as usize;
        self.co.top = func as u32;
        let result = match (error, wrapped) {
            (Some(error), true) => {
                let fault = self.of_wrapped(error);
                return self.raise(fault);
            }
            (Some(error), false) => self.give(func, &[Value::FALSE, error], &[], frame),
            (None, true) => self.give(func, &[], values, frame),
            (None, false) => self.give(func, &[Value::TRUE], values, frame),
        };
        match result {
            Ok(next) => next,
            Err(fault) => self.raise(fault),
        }
    }

    /// Copies values to the stack and passes them to the top frame, as `deliver` does.
    pub(super) fn give(
        &mut self,
        at: usize,
        head: &[Value],
        tail: &[Value],
        frame: Frame,
    ) -> Result<Onward, Fault> {
        let count = head.len() + tail.len();
        ensure(&mut self.heap, &mut self.co.stack, at + count)?;
        self.co.stack[at..at + head.len()].copy_from_slice(head);
        self.co.stack[at + head.len()..at + count].copy_from_slice(tail);
        self.deliver(at, count, frame)
    }

    /// Puts the running coroutine into the heap and takes another one out of it.
    pub(super) fn switch_to(&mut self, thread: ThreadRef) {
        let next = self.heap.threads.at_mut(thread.0).coroutine.take().unwrap_or_default();
        let left = std::mem::replace(&mut self.co, next);
        self.heap.threads.at_mut(self.thread.0).coroutine = Some(left);
        self.heap.thread_ran(self.thread);
        self.thread = thread;
    }

    /// Removes the frames of the running coroutine from `depth` on.
    pub(super) fn unwind(&mut self, depth: usize) {
        if let Some(frame) = self.co.frames.get(depth) {
            let from = frame.base.min(frame.func + 1);
            close_upvalues(&mut self.heap, &mut self.co.open, &self.co.stack, from);
        }
        while self.co.frames.len() > depth {
            if self.co.frames.last().is_some_and(|frame| frame.work == Work::Native) {
                self.co.states.pop();
            }
            self.pop();
        }
    }

    /// Makes the call that a native function has prepared at the end of its window.
    pub(super) fn call_from_window(&mut self, values: usize) -> Result<Onward, Fault> {
        let func = self.co.top as usize - values;
        ensure(&mut self.heap, &mut self.co.stack, func + values)?;
        self.call(func, values - 1, -1, After::Results)
    }

    /// Carries out a native function's step. `frame` is the function's call, which is not on the
    /// list of frames.
    pub(super) fn act(&mut self, step: Result<NativeStep, Fault>, frame: Frame) -> Result<Onward, Fault> {
        match step {
            Ok(NativeStep::Return(count)) => {
                let from = (self.co.top as usize).saturating_sub(count);
                self.deliver(from, count, frame)
            }
            Ok(NativeStep::Call(values, state)) => {
                self.push(frame)?;
                self.co.states.push(state);
                self.call_from_window(values)
            }
            Ok(NativeStep::Pause(state)) => {
                self.push(frame)?;
                self.co.states.push(state);
                Ok(Onward::Halt(Halt::OutOfBudget))
            }
            Ok(NativeStep::Request(code)) => {
                self.push(Frame { work: Work::Host, ..frame })?;
                Ok(Onward::Halt(Halt::Request(code)))
            }
            Ok(NativeStep::Machine(demand)) => self.demand(demand, frame),
            Err(fault) => Err(self.native_fault(fault, &frame)),
        }
    }
}
