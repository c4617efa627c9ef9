//! Raising errors: adds positions and names to their texts, and finds the protected call or handler.

use super::machine::{Halt, Machine, Onward};
use super::names;
use super::stack::{HANDLING_FAILED, NESTED_HANDLING, NESTED_MAX, OVERFLOW, ensure};
use crate::fault::{Cause, Fault};
use crate::native::{Indexed, find_index, push_text};
use crate::object::{After, Frame, Protection, Status, Work};
use crate::value::{TableRef, Value};

/// Number of bytes by which the text of an error may exceed the limit.
pub(crate) const RESERVE: usize = 64 << 10;

impl Machine {
    /// Adds position and names to the fault of a native function. `frame` is the function's call, which is
    /// not on the list of frames.
    pub(super) fn native_fault(&mut self, fault: Fault, frame: &Frame) -> Fault {
        let cause = fault.into_cause();
        let text = match cause {
            Cause::Text(text) => [self.where_at(1), text].concat(),
            Cause::Argument(index, text) => {
                // The search for the name is charged, because it may read the whole function.
                let pc = self.co.frames.last().map_or(0, |caller| caller.pc);
                self.heap.strings.handled((pc as usize).saturating_mul(4));
                let text = self.argument_text(index, &text, frame);
                [self.where_at(1), text].concat()
            }
            Cause::Level(value, level) => return self.leveled(value, level),
            Cause::Bare(text) | Cause::WithoutPosition(text) => text,
            Cause::Value(value) => return Fault::value(value),
            Cause::Memory => return Fault::memory(),
        };
        Fault::without_position(text)
    }

    /// The position prefix for a call level. Level 1 is the top frame, because the running native function
    /// has no frame.
    fn where_at(&self, level: u32) -> Vec<u8> {
        let mut left = level;
        for frame in self.co.frames.iter().rev() {
            left -= 1;
            if left == 0 {
                return if frame.work == Work::Lua { names::position(&self.code, frame) } else { Vec::new() };
            }
            if frame.tails >= left {
                return Vec::new();
            }
            left -= frame.tails;
        }
        Vec::new()
    }

    /// The position of the top frame: the name of its chunk, as given, and the line; `=[C]` and -1 if it is
    /// not a Lua function. `None` if there is no frame.
    pub(crate) fn top_position(&self) -> Option<(&[u8], i64)> {
        let frame = self.co.frames.last()?;
        if frame.work != Work::Lua {
            return Some((b"=[C]", -1));
        }
        let proto = &self.code.at(frame.proto).proto;
        Some((&proto.chunk.given, i64::from(proto.line_at(frame.pc))))
    }

    /// The error of a wrapped coroutine, for the coroutine that resumed it: a string gets the
    /// position of the call.
    pub(super) fn of_wrapped(&mut self, error: Value) -> Fault {
        let mut text = self.where_at(1);
        if push_text(&self.heap, &mut text, error) {
            Fault::without_position(text)
        } else {
            Fault::value(error)
        }
    }

    fn leveled(&mut self, value: Value, level: u32) -> Fault {
        if level == 0 || !(value.is_str() || value.is_number()) {
            return Fault::value(value);
        }
        self.heap.strings.moved(self.co.frames.len().min(level as usize));
        let mut text = self.where_at(level);
        push_text(&self.heap, &mut text, value);
        Fault::without_position(text)
    }

    fn argument_text(&self, index: usize, text: &[u8], frame: &Frame) -> Vec<u8> {
        let called = if frame.after == After::Results || matches!(frame.after, After::Each { .. }) {
            self.co.frames.last().and_then(|caller| names::called(&self.heap, &self.code, caller))
        } else {
            None
        };
        let (sort, name) = called.unwrap_or(("", b"?".to_vec()));
        let mut index = index;
        let mut out = Vec::new();
        if sort == "method" {
            index -= 1;
            if index == 0 {
                out.extend_from_slice(b"calling '");
                out.extend_from_slice(&name);
                out.extend_from_slice(b"' on bad self (");
                out.extend_from_slice(text);
                out.push(b')');
                return out;
            }
        }
        out.extend_from_slice(format!("bad argument #{index} to '").as_bytes());
        out.extend_from_slice(&name);
        out.extend_from_slice(b"' (");
        out.extend_from_slice(text);
        out.push(b')');
        out
    }

    /// The value that a fault throws. The error of an instruction gets the position of the top frame.
    fn thrown(&mut self, fault: Fault) -> Value {
        let text = match fault.into_cause() {
            Cause::Value(value) => return value,
            Cause::Level(value, _) => return value,
            Cause::WithoutPosition(text) => text,
            Cause::Memory => b"not enough memory".to_vec(),
            Cause::Bare(text) | Cause::Text(text) | Cause::Argument(_, text) => {
                let frame = self.co.frames.last().filter(|frame| frame.work == Work::Lua);
                let position = frame.map(|frame| names::position(&self.code, frame)).unwrap_or_default();
                [position, text].concat()
            }
        };
        // The text's bytes are charged, because the text has been copied several times.
        self.heap.strings.handled(text.len().saturating_mul(2));
        // The text of an error may exceed the limit, because a program must be able to see why it failed.
        let limit = self.heap.limit;
        self.heap.limit = limit.saturating_add(RESERVE);
        let value = self.heap.take_string(text);
        self.heap.limit = limit;
        value.unwrap_or(Value::NIL)
    }

    /// Throws an error: calls the handler, or returns to the protected call that catches it, in this
    /// coroutine or in those that resumed it.
    pub(super) fn raise(&mut self, fault: Fault) -> Onward {
        let beyond = self.heap.bytes > self.heap.limit.saturating_add(RESERVE);
        let by_instruction = fault.is_bare();
        let mut value = self.thrown(fault);
        if beyond {
            return self.fail(value);
        }
        let Some(at) = self.catcher() else { return self.uncaught(value) };
        let frame = self.co.frames[at];
        if frame.work != Work::Protected(Protection::Xpcall) {
            return self.end_protected(value);
        }
        if self.co.depth() + 1 == NESTED_MAX {
            // If the call of the handler is one too many, the handler gets the error about that instead.
            value = self.thrown(if by_instruction {
                Fault::bare(OVERFLOW)
            } else {
                Fault::without_position(OVERFLOW)
            });
        }
        let handled = if self.co.depth() + 1 < NESTED_HANDLING {
            self.call_handler(self.co.stack[frame.base as usize], value)
        } else {
            Err(Fault::memory())
        };
        match handled {
            Ok(next) => next,
            Err(_) => {
                let text = self.heap.new_string(HANDLING_FAILED.as_bytes()).unwrap_or(Value::NIL);
                self.end_protected(text)
            }
        }
    }

    /// The frame of the innermost protected call of the running coroutine.
    fn catcher(&self) -> Option<usize> {
        self.co.frames.iter().rposition(|frame| matches!(frame.work, Work::Protected(_)))
    }

    fn call_handler(&mut self, handler: Value, error: Value) -> Result<Onward, Fault> {
        let at = self.top_slot();
        ensure(&mut self.heap, &mut self.co.stack, at + 3)?;
        let mut frame = self.native_frame(at, 0, 1, After::Results);
        frame.work = Work::Handler;
        self.co.stack[at] = Value::NIL;
        self.co.frames.push(frame);
        self.co.nested += 1;
        self.co.stack[at + 1] = handler;
        self.co.stack[at + 2] = error;
        self.co.top = at as u32 + 3;
        if !handler.is_function() {
            return Err(Fault::memory());
        }
        self.call(at + 1, 1, 1, After::Results)
    }

    /// Ends the innermost protected call, with the results `false` and a value.
    pub(super) fn end_protected(&mut self, value: Value) -> Onward {
        let Some(at) = self.catcher() else { return self.uncaught(value) };
        let frame = self.co.frames[at];
        self.unwind(at);
        let given = match value.as_table() {
            Some(table) if self.looks_into_errors && frame.work == Work::Protected(Protection::Pcall) => {
                self.look_into(value, table, frame)
            }
            _ => self.give(frame.func as usize, &[Value::FALSE, value], &[], frame),
        };
        match given {
            Ok(next) => next,
            Err(fault) => self.raise(fault),
        }
    }

    /// The reference's `pcall` reads the field `err` of an error that is a table, with metamethods and
    /// outside of the protected call, so an error of `__index` is raised in the caller.
    fn look_into(&mut self, error: Value, table: TableRef, frame: Frame) -> Result<Onward, Fault> {
        let text = self.heap.get_text(table, b"err");
        if !text.is_nil() || self.heap.metatable_of(error).is_none() {
            return self.give_failure(error, text, frame);
        }
        let key = self.heap.new_string(b"err")?;
        match find_index(&mut self.heap, error, key).map_err(|fault| self.native_fault(fault, &frame))? {
            Indexed::Value(text) => self.give_failure(error, text, frame),
            Indexed::Call(handler, object, key) => {
                let base = frame.func as usize + 1;
                ensure(&mut self.heap, &mut self.co.stack, base + 4)?;
                self.co.stack[base..base + 4].copy_from_slice(&[error, handler, object, key]);
                self.co.top = base as u32 + 4;
                self.push(Frame { base: base as u32, work: Work::Looking, ..frame })?;
                self.call(base + 1, 2, 1, After::Results)
            }
        }
    }

    /// The results of `pcall` for an error that is a table: `err` alone if it is a string or a number,
    /// otherwise the table and its `err`.
    pub(super) fn give_failure(&mut self, error: Value, text: Value, frame: Frame) -> Result<Onward, Fault> {
        let func = frame.func as usize;
        if text.is_str() || text.is_number() {
            return self.give(func, &[Value::FALSE, text], &[], frame);
        }
        self.give(func, &[Value::FALSE, error, text], &[], frame)
    }

    /// Ends the running coroutine with an error that it did not catch. In the main program, the run fails.
    fn uncaught(&mut self, value: Value) -> Onward {
        if self.thread == self.main {
            return self.fail(value);
        }
        self.unwind(0);
        let (open, stack) = (&mut self.co.open, &self.co.stack);
        super::stack::close_upvalues(&mut self.heap, open, stack, 0);
        self.co.status = Status::Dead;
        self.drop_stack();
        self.back_to_resumer(&[], Some(value))
    }

    fn fail(&mut self, value: Value) -> Onward {
        Onward::Halt(Halt::Failed(value))
    }
}
