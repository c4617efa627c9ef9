//! A debugger's view of a paused run: its position, the local variables of its functions, and its callers.

use super::machine::Machine;
use super::names;
use crate::heap::Heap;
use crate::object::{Frame, Work};
use crate::text::format::{FieldLayout, push_float};
use crate::value::{TableRef, Value, address};

/// The position of a paused Lua function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodePosition<'r> {
    /// The name of the chunk, as given when it was compiled.
    pub chunk: &'r [u8],
    /// The line of the next instruction, from 1.
    pub line: u32,
    /// The index of the next instruction in its function.
    pub instruction: u32,
    /// The number of the coroutine.
    pub coroutine: u32,
    /// The number of running functions in the coroutine, this one included.
    pub depth: usize,
}

/// A Lua function that is running or waits for its callee.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunningFunction {
    /// The name by which its caller calls the function; `None` for the chunk, and for a function
    /// without a name.
    pub name: Option<Vec<u8>>,
    /// The current line in the function.
    pub line: u32,
    /// Whether the function is the chunk itself.
    pub is_chunk: bool,
}

/// Detects the first instructions of lines, by the rules of the reference's line hook: the first instruction
/// of a function, an instruction on another line than the function's previous one, and the target of a
/// backward jump.
#[derive(Debug, Default)]
pub struct LineWatch {
    /// The last position of each function that is running: coroutine, depth, line, instruction.
    last: Vec<(u32, usize, u32, u32)>,
}

/// Maximum number of functions that a [`LineWatch`] remembers. A forgotten function begins its line again
/// when the run returns to it.
const NOTICED_MAX: usize = 1000;

impl LineWatch {
    /// Records the position of the next instruction; returns whether a line begins there. O(running
    /// functions, at most 1,000).
    pub fn notice(&mut self, position: &CodePosition<'_>) -> bool {
        self.last
            .retain(|(coroutine, depth, ..)| *coroutine != position.coroutine || *depth <= position.depth);
        let known =
            self.last.iter_mut().find(|last| (last.0, last.1) == (position.coroutine, position.depth));
        let Some((.., line, instruction)) = known else {
            if self.last.len() == NOTICED_MAX {
                self.last.remove(0);
            }
            self.last.push((position.coroutine, position.depth, position.line, position.instruction));
            return true;
        };
        let begins =
            *line != position.line || position.instruction <= *instruction || position.instruction == 0;
        (*line, *instruction) = (position.line, position.instruction);
        begins
    }
}

impl Machine {
    /// The position of the next instruction; `None` if a native function continues, an error is raised before
    /// the instruction, or the reference's compiler would omit it (`Proto::first_shown`).
    pub(crate) fn next_position(&self) -> Option<CodePosition<'_>> {
        // There is no position if an error is to be raised before the next instruction.
        let frame =
            self.co.frames.last().filter(|frame| frame.work == Work::Lua && self.start_fault.is_none())?;
        let proto = &self.code.at(frame.proto).proto;
        // Initial instructions that only set variables to nil have no position, because the reference's
        // compiler omits them.
        if frame.pc < proto.first_shown() {
            return None;
        }
        let line = proto.line_of(frame.pc as usize)?;
        Some(CodePosition {
            chunk: &proto.chunk.given,
            line,
            instruction: frame.pc,
            coroutine: self.thread.0,
            depth: self.co.frames.len(),
        })
    }

    /// The frames of Lua functions, the innermost first, with their positions.
    fn frames(&self) -> impl Iterator<Item = (usize, &Frame)> {
        self.co.frames.iter().enumerate().rev().filter(|(_, frame)| frame.work == Work::Lua)
    }

    /// The instruction of a frame: the next one for the innermost frame, the call for others.
    fn at_instruction(&self, at: usize, frame: &Frame) -> usize {
        let is_innermost = at + 1 == self.co.frames.len();
        frame.pc as usize - usize::from(!is_innermost && frame.pc > 0)
    }

    /// The live local variables of the Lua function at `level` (0 is the innermost), in the order
    /// of declaration.
    pub(crate) fn locals(&self, level: usize) -> Vec<(&[u8], Value)> {
        let Some((at, frame)) = self.frames().nth(level) else { return Vec::new() };
        let proto = &self.code.at(frame.proto).proto;
        let pc = self.at_instruction(at, frame);
        let living = proto.locals.iter().take_while(|local| local.from as usize <= pc);
        let living = living.filter(|local| pc < local.to as usize).enumerate();
        let value = |register: usize| self.co.stack.get(frame.base as usize + register).copied();
        living.map(|(register, local)| (&*local.name, value(register).unwrap_or(Value::NIL))).collect()
    }

    /// The running Lua functions, the innermost first.
    pub(crate) fn callers(&self) -> Vec<RunningFunction> {
        let caller = |(at, frame): (usize, &Frame)| {
            let proto = &self.code.at(frame.proto).proto;
            let outer = at.checked_sub(1).map(|outer| &self.co.frames[outer]);
            let named = outer.and_then(|outer| names::called(&self.heap, &self.code, outer));
            RunningFunction {
                name: named.map(|(_, name)| name),
                line: proto.line_of(self.at_instruction(at, frame)).unwrap_or(0),
                is_chunk: proto.line == 0,
            }
        };
        self.frames().map(caller).collect()
    }
}

/// The deepest nesting of tables that [`describe`] shows.
const DEPTH_MAX: usize = 10;

/// Appends a value in the form of the reference's debugger: strings unquoted, numbers as by `%g`, tables
/// with their contents. Stops somewhat after `limit` bytes. Cost: O(appended bytes).
pub fn describe(heap: &Heap, value: Value, out: &mut Vec<u8>, limit: usize) {
    describe_at(heap, value, out, limit, 0);
}

fn describe_at(heap: &Heap, value: Value, out: &mut Vec<u8>, limit: usize, depth: usize) {
    if depth == DEPTH_MAX {
        out.extend_from_slice(b"<max recursion level reached! Nested table?>");
    } else if let Some(text) = value.as_str() {
        let text = heap.bytes(text);
        out.extend_from_slice(&text[..text.len().min(limit + 1)]);
    } else if let Some(number) = value.as_number() {
        push_float(out, &FieldLayout::default(), b'g', number);
    } else if let Some(table) = value.as_table() {
        describe_table(heap, table, out, limit, depth + 1);
    } else if value.is_nil() || value.is_boolean() {
        out.extend_from_slice(value.plain_text().as_bytes());
    } else {
        let text = format!(" \"{}@{}\"", value.type_name(), address(value));
        out.extend_from_slice(text.as_bytes());
    }
}

fn describe_table(heap: &Heap, table: TableRef, out: &mut Vec<u8>, limit: usize, depth: usize) {
    let pairs = || {
        let mut key = Value::NIL;
        std::iter::from_fn(move || {
            let (name, value) = heap.next(table, key).ok()??;
            key = name;
            Some((name, value))
        })
    };
    // An array is shown without its indexes. Entries beyond the limit are not shown, so they are
    // not checked.
    let is_array =
        pairs().take(limit).zip(1u32..).all(|((key, _), at)| key.as_number() == Some(f64::from(at)));
    out.push(b'{');
    for (key, value) in pairs() {
        if out.len() > limit {
            break;
        }
        if !is_array {
            out.push(b'[');
            describe_at(heap, key, out, limit, depth);
            out.extend_from_slice(b"]=");
        }
        describe_at(heap, value, out, limit, depth);
        out.extend_from_slice(b"; ");
    }
    out.push(b'}');
}
