//! Execution of native functions, and operations that only the machine can do for them: protected
//! calls, coroutines, chunks.

use std::sync::Arc;

use super::link;
use super::machine::{Halt, Machine, Onward};
use super::stack::{Carried, FRAMES_MAX, NESTED_MAX, OVERFLOW, WindowBounds, ensure, window};
use crate::code::Proto;
use crate::fault::Fault;
use crate::native::{Ctx, Demand, NativeStep};
use crate::object::{After, Frame, Protection, State, Status, Work};
use crate::value::{ThreadRef, Value};

impl Machine {
    /// Calls the native function in a slot.
    pub(super) fn call_native(
        &mut self,
        func: usize,
        args: usize,
        want: i32,
        after: After,
    ) -> Result<Onward, Fault> {
        let Some(native) = self.co.stack[func].as_native() else { return Ok(Onward::Go) };
        // If the instruction is not a call, PUC-Rio's Lua makes this call on the C stack, so the nesting is
        // checked.
        if after != After::Results && self.co.depth() + 1 == NESTED_MAX {
            return Err(Fault::bare(OVERFLOW));
        }
        let top = func + 1 + args;
        ensure(&mut self.heap, &mut self.co.stack, top)?;
        let call = self.natives[self.heap.natives.at(native.0).native as usize].call;
        self.budget -= 1;
        let frame = self.native_frame(func, native.0, want, after);
        let step = self.in_window(&frame, top, call);
        self.act(step, frame)
    }

    pub(super) fn in_window(
        &mut self,
        frame: &Frame,
        top: usize,
        work: impl FnOnce(&mut Ctx<'_>) -> Result<NativeStep, Fault>,
    ) -> Result<NativeStep, Fault> {
        let (base, function) = (frame.base as usize, frame.function);
        let bounds = WindowBounds { base, top, function, thread: self.thread, main: self.main };
        let mut ctx = window(&mut self.heap, &mut self.co, &mut self.budget, bounds);
        let step = work(&mut ctx);
        let top = ctx.top;
        self.co.top = top as u32;
        step
    }

    /// Resumes the native function of the top frame, after its call has returned or when there is
    /// budget again.
    pub(super) fn resume_native(&mut self) -> Result<Onward, Fault> {
        if self.budget <= 0 {
            return Ok(Onward::Halt(Halt::OutOfBudget));
        }
        if self.heap.is_due() {
            return Ok(Onward::Halt(Halt::Collect));
        }
        let Some(frame) = self.co.frames.last().copied() else { return Ok(Onward::Go) };
        let state: State = self.co.states.pop().unwrap_or_else(|| Box::new(()));
        let native = &self.natives[self.heap.natives.at(frame.function).native as usize];
        let Some(resume) = native.resume else {
            self.pop();
            return Err(Fault::without_position("a function that cannot go on"));
        };
        let top = self.co.top as usize;
        ensure(&mut self.heap, &mut self.co.stack, top)?;
        if self.stepwise {
            self.budget -= 1;
        }
        // The frame stays on the list while the function runs, because a function such as a sort makes many
        // calls, one after the other.
        match self.in_window(&frame, top, |ctx| resume(ctx, state)) {
            Ok(NativeStep::Call(values, state)) => {
                self.co.states.push(state);
                self.call_from_window(values)
            }
            step => {
                self.pop();
                self.act(step, frame)
            }
        }
    }

    /// Carries out an operation that only the machine can do.
    pub(super) fn demand(&mut self, demand: Demand, frame: Frame) -> Result<Onward, Fault> {
        match demand {
            Demand::Protect(by) => {
                self.protect(Frame { work: Work::Protected(by), ..frame })?;
                let base = frame.base as usize;
                self.protected_call(base)
            }
            Demand::ProtectWith => {
                // The handler is moved before the function, where the frame expects it. In 5.1, `xpcall`
                // passes no arguments on.
                let base = frame.base as usize;
                self.co.stack.swap(base, base + 1);
                self.co.top = base as u32 + 2;
                let work = Work::Protected(Protection::Xpcall);
                self.protect(Frame { base: base as u32, work, ..frame })?;
                self.protected_call(base + 1)
            }
            Demand::Link(proto) => {
                let closure = self.link_chunk(&proto)?;
                let at = self.co.top as usize;
                self.give(at, &[closure], &[], frame)
            }
            Demand::Collect | Demand::CollectStep => {
                let at = self.co.top as usize;
                let is_step = matches!(demand, Demand::CollectStep);
                let answer = if is_step { Value::TRUE } else { Value::number(0.0) };
                self.give(at, &[answer], &[], frame)?;
                Ok(Onward::Halt(Halt::CollectAll))
            }
            Demand::Resume => {
                let thread = self.co.stack[frame.base as usize].as_thread();
                self.resume(thread, frame.base as usize + 1, false, frame)
            }
            Demand::ResumeWrapped => {
                let upvalue = self.heap.natives.at(frame.function).upvalues.first().copied();
                let thread = upvalue.and_then(Value::as_thread);
                self.resume(thread, frame.base as usize, true, frame)
            }
            Demand::Yield => self.yield_values(frame),
        }
    }

    /// Pushes the frame of a protected call. If this is one call too many, the protected call
    /// itself catches the error.
    fn protect(&mut self, frame: Frame) -> Result<(), Fault> {
        let pushed = self.push(frame);
        if pushed.is_err() && self.co.frames.len() < FRAMES_MAX {
            self.co.frames.push(frame);
            self.co.nested += 1;
        }
        pushed
    }

    fn protected_call(&mut self, func: usize) -> Result<Onward, Fault> {
        let args = (self.co.top as usize).saturating_sub(func + 1);
        self.call(func, args, -1, After::Results)
    }

    /// A closure of a chunk, with the globals as its environment.
    pub(crate) fn link_chunk(&mut self, proto: &Arc<Proto>) -> Result<Value, Fault> {
        let index = link::link_into(self, proto)?;
        let Some(globals) = self.heap.globals else { return Ok(Value::NIL) };
        Ok(self.heap.new_closure(index, globals, &[])?.into())
    }

    /// Resumes a coroutine with the values from slot `from` to the top.
    fn resume(
        &mut self,
        thread: Option<ThreadRef>,
        from: usize,
        wrapped: bool,
        frame: Frame,
    ) -> Result<Onward, Fault> {
        let Some(thread) = thread else { return Err(Fault::without_position("no coroutine")) };
        let target = self.heap.threads.at(thread.0).coroutine.as_ref();
        let text = match target.map(|coroutine| coroutine.status) {
            _ if thread == self.thread => Some("cannot resume running coroutine"),
            Some(Status::Suspended) if self.co.depth() >= NESTED_MAX => Some(OVERFLOW),
            Some(Status::Suspended) => None,
            Some(Status::Normal) => Some("cannot resume normal coroutine"),
            Some(Status::Running) => Some("cannot resume running coroutine"),
            Some(Status::Dead) | None => Some("cannot resume dead coroutine"),
        };
        if let Some(text) = text {
            if text == OVERFLOW
                && let Some(target) = &mut self.heap.threads.at_mut(thread.0).coroutine
                && target.frames.is_empty()
            {
                // The coroutine is dead after this error if it has not begun, because the reference has
                // removed its function from its stack.
                target.status = Status::Dead;
            }
            if wrapped {
                return Err(self.native_fault(Fault::text(text), &frame));
            }
            let text = self.heap.new_string(text.as_bytes())?;
            let at = self.co.top as usize;
            return self.give(at, &[Value::FALSE, text], &[], frame);
        }
        self.heap.strings.moved((self.co.top as usize).saturating_sub(from));
        let values = Carried::new(&self.co.stack[from..(self.co.top as usize).max(from)]);
        self.push(Frame { work: Work::Resume { wrapped }, ..frame })?;
        self.co.status = Status::Normal;
        let (resumer, depth) = (self.thread, self.co.depth());
        self.switch_to(thread);
        self.co.below = depth;
        self.co.resumer = Some(resumer);
        self.co.status = Status::Running;
        self.start_or_continue(values.as_slice())
    }

    fn start_or_continue(&mut self, values: &[Value]) -> Result<Onward, Fault> {
        if let Some(frame) = self.co.frames.last().copied() {
            // The coroutine waits in `yield`, which returns the values.
            self.pop();
            let at = self.co.top as usize;
            return self.give(at, &[], values, frame);
        }
        // The coroutine has not begun: its function is in the first slot.
        ensure(&mut self.heap, &mut self.co.stack, values.len() + 1)?;
        self.co.stack[1..=values.len()].copy_from_slice(values);
        self.co.top = values.len() as u32 + 1;
        self.call(0, values.len(), -1, After::Results)
    }

    fn yield_values(&mut self, frame: Frame) -> Result<Onward, Fault> {
        if self.thread == self.main || self.co.nested > 0 {
            return Err(Fault::without_position("attempt to yield across metamethod/C-call boundary"));
        }
        let from = frame.base as usize;
        self.heap.strings.moved((self.co.top as usize).saturating_sub(from));
        let values = Carried::new(&self.co.stack[from..(self.co.top as usize).max(from)]);
        self.push(Frame { work: Work::Yield, ..frame })?;
        self.co.status = Status::Suspended;
        Ok(self.back_to_resumer(values.as_slice(), None))
    }
}
